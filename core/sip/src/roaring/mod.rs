//! Tag 0x01: portable 64-bit roaring, run-optimised.
//!
//! D. Lemire et al., "Roaring Bitmaps: Implementation of an Optimized Software Library" (2018), and the
//! RoaringFormatSpec of the RoaringBitmap project with its extension to 64 bits.

mod container;
mod encode;
mod parse;
mod write;

use std::slice;

pub(crate) use container::Container;
use container::Offsets;
pub(crate) use encode::{encode_full, encode_ids, encode_words};
pub(crate) use write::{size, write};

use crate::{BLOCK_IDS, BLOCK_WORDS, BlockMask, Limits, SipError};

/// Cookie of a 32-bit bitmap without run containers; the number of containers follows.
const COOKIE: u32 = 12_346;
/// Low half of the cookie of one with run containers; the high half is the number of containers less one.
const COOKIE_WITH_RUNS: u16 = 12_347;
/// With run containers, offsets are written from so many containers on.
const MIN_CONTAINERS_FOR_OFFSETS: usize = 4;
/// Containers of a full 32-bit bitmap.
const MAX_CONTAINERS: usize = 1 << 16;

/// Where the containers of a validated body stand.
#[derive(Debug)]
pub(crate) struct Index {
    containers: Box<[Container]>,
    cardinality: u64,
}

impl Index {
    /// Of containers in the order of their blocks.
    pub(crate) fn new(containers: Vec<Container>) -> Self {
        let cardinality = containers.iter().map(Container::cardinality).sum();
        Self { containers: containers.into(), cardinality }
    }

    /// Validates `bytes` (the tag first), then indexes them. The limit on the body is the caller's.
    pub(crate) fn open(bytes: &[u8], limits: &Limits) -> Result<Self, SipError> {
        let count = parse::validate(bytes, limits)?;
        let mut containers = Vec::with_capacity(count);
        parse::walk(bytes, &Limits::NONE, |container| {
            containers.push(container);
            Ok(())
        })?;
        Ok(Self::new(containers))
    }

    pub(crate) fn cardinality(&self) -> u64 {
        self.cardinality
    }

    pub(crate) fn contains(&self, bytes: &[u8], id: u64) -> bool {
        self.find(id / BLOCK_IDS).is_some_and(|container| container.view(bytes).contains(low(id)))
    }

    pub(crate) fn block_mask(&self, bytes: &[u8], base: u64, words: &mut [u64; BLOCK_WORDS]) -> BlockMask {
        match self.find(base / BLOCK_IDS) {
            None => BlockMask::Empty,
            Some(container) if container.cardinality() == BLOCK_IDS => BlockMask::Full,
            Some(container) => {
                container.view(bytes).copy_to(words);
                BlockMask::Words
            }
        }
    }

    pub(crate) fn ids<'a>(&'a self, bytes: &'a [u8]) -> Ids<'a> {
        Ids { bytes, containers: self.containers.iter(), base: 0, offsets: None }
    }

    fn find(&self, block: u64) -> Option<&Container> {
        let i = self.containers.binary_search_by_key(&block, Container::block).ok()?;
        self.containers.get(i)
    }
}

/// The place of an id in its block.
#[allow(clippy::cast_possible_truncation, reason = "the low 16 bits are what is asked for")]
pub(crate) fn low(id: u64) -> u16 {
    id as u16
}

/// The ids of a validated body in increasing order.
#[derive(Clone, Debug)]
pub(crate) struct Ids<'a> {
    bytes: &'a [u8],
    containers: slice::Iter<'a, Container>,
    base: u64,
    offsets: Option<Offsets<'a>>,
}

impl Iterator for Ids<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        loop {
            if let Some(offset) = self.offsets.as_mut().and_then(Iterator::next) {
                return Some(self.base + offset);
            }
            let container = self.containers.next()?;
            self.base = container.block() * BLOCK_IDS;
            self.offsets = Some(container.view(self.bytes).offsets());
        }
    }
}
