//! The ids of a set, one by one.

use crate::{BLOCK_IDS, contents::Offsets, list, ranges, roaring};

/// The ids of a set in increasing order.
#[derive(Clone, Debug)]
pub struct Ids<'a>(Source<'a>);

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a group that is being read stands in it: nothing is allocated")]
enum Source<'a> {
    Empty,
    Roaring { containers: roaring::Containers<'a>, bytes: &'a [u8], base: u64, offsets: Option<Offsets<'a>> },
    List { groups: list::Groups<'a>, next: usize },
    Ranges { groups: ranges::Groups<'a>, next: usize, from: u64 },
}

impl<'a> Ids<'a> {
    pub(crate) fn empty() -> Self {
        Self(Source::Empty)
    }

    pub(crate) fn roaring(containers: roaring::Containers<'a>, bytes: &'a [u8]) -> Self {
        Self(Source::Roaring { containers, bytes, base: 0, offsets: None })
    }

    pub(crate) fn list(groups: list::Groups<'a>) -> Self {
        Self(Source::List { groups, next: 0 })
    }

    pub(crate) fn ranges(groups: ranges::Groups<'a>) -> Self {
        Self(Source::Ranges { groups, next: 0, from: 0 })
    }
}

impl Iterator for Ids<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        match &mut self.0 {
            Source::Empty => None,
            Source::Roaring { containers, bytes, base, offsets } => loop {
                if let Some(offset) = offsets.as_mut().and_then(Iterator::next) {
                    return Some(*base + offset);
                }
                let container = containers.next()?;
                *base = container.block() * BLOCK_IDS;
                *offsets = Some(container.contents(bytes).offsets());
            },
            Source::List { groups, next } => {
                if *next == groups.ids().len() {
                    *next = 0;
                    groups.next()?;
                }
                let id = groups.ids()[*next];
                *next += 1;
                Some(id)
            }
            Source::Ranges { groups, next, from } => {
                if *next == groups.ranges().len() {
                    *next = 0;
                    groups.next()?;
                }
                let range = groups.ranges()[*next];
                let id = range.first.max(*from);
                if id == range.last {
                    *next += 1;
                }
                // Behind the greatest id there is no other.
                *from = id.saturating_add(1);
                Some(id)
            }
        }
    }
}
