//! The ids of a set, one by one.

use crate::{
    BLOCK_IDS,
    contents::Offsets,
    list::{self, List},
    ranges::{self, Ranges},
    rice::GROUP,
    roaring::{self, Roaring},
};

/// The ids of a set in increasing order.
#[derive(Clone, Debug)]
pub struct Ids<'a> {
    source: Source<'a>,
    /// Ids that were read ahead, and those of them that are still to come.
    ids: [u64; GROUP],
    next: usize,
    end: usize,
    /// Ids that were not read yet.
    left: u64,
}

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a group that is being read stands in it: nothing is allocated")]
enum Source<'a> {
    Empty,
    Roaring { containers: roaring::Containers<'a>, bytes: &'a [u8], base: u64, offsets: Option<Offsets<'a>> },
    List(list::Groups<'a>),
    Ranges { groups: ranges::Groups<'a>, from: u64 },
}

impl<'a> Ids<'a> {
    fn new(source: Source<'a>, cardinality: u64) -> Self {
        Self { source, ids: [0; GROUP], next: 0, end: 0, left: cardinality }
    }

    pub(crate) fn empty() -> Self {
        Self::new(Source::Empty, 0)
    }

    pub(crate) fn roaring(set: &Roaring<'a>) -> Self {
        let (containers, bytes) = (set.containers(), set.bytes);
        Self::new(Source::Roaring { containers, bytes, base: 0, offsets: None }, set.cardinality)
    }

    pub(crate) fn list(set: &List<'a>) -> Self {
        Self::new(Source::List(set.groups()), set.cardinality)
    }

    pub(crate) fn ranges(set: &Ranges<'a>) -> Self {
        Self::new(Source::Ranges { groups: set.groups(), from: 0 }, set.cardinality)
    }

    /// The ids that were read ahead.
    pub(crate) fn ahead(&self) -> &[u64] {
        &self.ids[self.next..self.end]
    }

    /// Leaves out some of the ids that were read ahead.
    pub(crate) fn pass(&mut self, count: usize) {
        self.next += count;
    }

    /// Reads ahead, once all that was is passed; whether there are more ids.
    pub(crate) fn refill(&mut self) -> bool {
        self.next = 0;
        self.end = self.source.read(&mut self.ids);
        self.left = self.left.saturating_sub(self.end as u64);
        self.end > 0
    }
}

impl Source<'_> {
    /// Reads some ids; none are left if it reads none.
    fn read(&mut self, ids: &mut [u64; GROUP]) -> usize {
        match self {
            Self::Empty => 0,
            Self::Roaring { containers, bytes, base, offsets } => loop {
                if let Some(offsets) = offsets {
                    let mut count = 0;
                    for (id, offset) in ids.iter_mut().zip(offsets) {
                        *id = *base + offset;
                        count += 1;
                    }
                    if count > 0 {
                        return count;
                    }
                }
                let Some(container) = containers.next() else { return 0 };
                *base = container.block() * BLOCK_IDS;
                *offsets = Some(container.contents(bytes).offsets());
            },
            Self::List(groups) => groups.next().map_or(0, |group| {
                ids[..group.len()].copy_from_slice(group);
                group.len()
            }),
            Self::Ranges { groups, from } => {
                let mut count = 0;
                while count < GROUP {
                    let Some(&range) = groups.rest().first() else { break };
                    let first = range.first.max(*from);
                    for (id, range_id) in ids[count..].iter_mut().zip(first..=range.last) {
                        *id = range_id;
                        count += 1;
                    }
                    let last = ids[count - 1];
                    groups.pass(usize::from(last == range.last));
                    // Behind the greatest id there is no other.
                    *from = last.saturating_add(1);
                }
                count
            }
        }
    }
}

impl Iterator for Ids<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if self.next == self.end && !self.refill() {
            return None;
        }
        let id = self.ids[self.next];
        self.next += 1;
        Some(id)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX).saturating_add(self.end - self.next);
        // Of all 2^64 ids one is not counted.
        (left, left.checked_add(1))
    }

    fn fold<B, F: FnMut(B, u64) -> B>(mut self, init: B, mut each: F) -> B {
        let mut folded = init;
        loop {
            folded = self.ids[self.next..self.end].iter().fold(folded, |folded, id| each(folded, *id));
            if !self.refill() {
                return folded;
            }
        }
    }
}
