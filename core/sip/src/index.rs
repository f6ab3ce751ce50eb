//! Where the parts of a body stand, noted while it is validated.

use std::sync::OnceLock;

/// All that is in a small set, once an id was looked up.
pub(crate) type All<T> = OnceLock<Box<[T]>>;

/// Where the groups of a body stand and, of a small set, all that is in them once an id was looked up.
#[derive(Debug)]
pub(crate) struct Places<E, T> {
    pub(crate) groups: Box<[E]>,
    pub(crate) all: All<T>,
}

impl<E, T> Places<E, T> {
    pub(crate) fn new(groups: Box<[E]>) -> Self {
        Self { groups, all: OnceLock::new() }
    }
}

/// Sees where each part of a body begins.
pub(crate) trait Entries<E> {
    /// There will be `count` parts; the bytes are known to have room for them.
    fn expect(&mut self, count: usize);
    /// The next part.
    fn push(&mut self, entry: E);
}

impl<E> Entries<E> for Vec<E> {
    fn expect(&mut self, count: usize) {
        self.reserve_exact(count);
    }

    fn push(&mut self, entry: E) {
        self.push(entry);
    }
}

/// Notes nothing.
pub(crate) struct Unindexed;

impl<E> Entries<E> for Unindexed {
    fn expect(&mut self, _: usize) {}

    fn push(&mut self, _: E) {}
}
