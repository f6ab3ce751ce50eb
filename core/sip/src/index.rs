//! Where the parts of a body stand, noted while it is validated.

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
