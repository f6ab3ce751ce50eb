//! Containers: the ids of one block as the smallest of an array, a bitset and runs.

use std::{ops::Range, slice};

use super::low;
use crate::{BLOCK_WORDS, mask};

/// Most ids of an array: a longer one is no smaller than a bitset.
pub(super) const MAX_ARRAY: u64 = 4096;
/// Bytes of a bitset.
pub(super) const BITSET_BYTES: usize = BLOCK_WORDS * 8;
/// Blocks of a bucket: the ids of one 32-bit bitmap.
pub(super) const BUCKET_BLOCKS: u64 = 1 << 16;

/// A container among others in a byte string.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Container {
    block: u64,
    at: usize,
    /// Ids less one, as the description of a container has it.
    last: u16,
    /// 0: an array or a bitset.
    runs: u16,
}

impl Container {
    /// Of `cardinality` ids (1 to 65,536) at byte `at`: `runs` runs, or an array or bitset if there are none.
    pub(super) fn new(block: u64, at: usize, cardinality: u64, runs: u16) -> Self {
        Self { block, at, last: low(cardinality - 1), runs }
    }

    /// Its ids divided by 65,536.
    pub(crate) fn block(&self) -> u64 {
        self.block
    }

    /// Its first byte.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The same container elsewhere.
    pub(crate) fn moved_to(self, at: usize) -> Self {
        Self { at, ..self }
    }

    /// Its number of ids.
    pub(crate) fn cardinality(&self) -> u64 {
        u64::from(self.last) + 1
    }

    /// Its number of ids less one.
    pub(super) fn last(&self) -> u16 {
        self.last
    }

    /// Whether it holds runs.
    pub(super) fn has_runs(&self) -> bool {
        self.runs > 0
    }

    /// Its bytes.
    pub(super) fn range(&self) -> Range<usize> {
        self.at..self.at + self.size()
    }

    /// Its number of bytes.
    pub(super) fn size(&self) -> usize {
        if self.runs > 0 { runs_size(u64::from(self.runs)) } else { plain_size(self.cardinality()) }
    }

    /// Its ids in the `bytes` it stands in.
    pub(crate) fn view<'a>(&self, bytes: &'a [u8]) -> View<'a> {
        let bytes = bytes.get(self.range()).unwrap_or_default();
        if self.runs > 0 {
            View::Runs(bytes.get(2..).unwrap_or_default().as_chunks().0)
        } else if self.cardinality() <= MAX_ARRAY {
            View::Array(bytes.as_chunks().0)
        } else {
            View::Bitset(bytes.as_chunks().0)
        }
    }
}

/// Bytes of an array or bitset, whichever is smaller.
fn plain_size(cardinality: u64) -> usize {
    usize::try_from(cardinality).map_or(BITSET_BYTES, |ids| (2 * ids).min(BITSET_BYTES))
}

/// Bytes of runs.
fn runs_size(runs: u64) -> usize {
    usize::try_from(runs).map_or(usize::MAX, |runs| 2 + 4 * runs)
}

/// Whether runs are the smallest container; the others win ties.
pub(super) fn runs_are_smallest(cardinality: u64, runs: u64) -> bool {
    runs_size(runs) < plain_size(cardinality)
}

/// The bytes of a container, as little-endian fields.
#[derive(Clone, Copy, Debug)]
pub(crate) enum View<'a> {
    /// Ids.
    Array(&'a [[u8; 2]]),
    /// Words.
    Bitset(&'a [[u8; 8]]),
    /// First id, and the number of ids behind it.
    Runs(&'a [[u8; 4]]),
}

impl<'a> View<'a> {
    /// Whether the id at `offset` of the block is in it.
    pub(crate) fn contains(self, offset: u16) -> bool {
        match self {
            Self::Array(ids) => ids.binary_search_by_key(&offset, |&id| u16::from_le_bytes(id)).is_ok(),
            Self::Bitset(words) => words
                .get(usize::from(offset) / 64)
                .is_some_and(|&word| u64::from_le_bytes(word) >> (offset % 64) & 1 == 1),
            Self::Runs(runs) => {
                let offset = u64::from(offset);
                let behind = runs.partition_point(|&run| run_of(run).start <= offset);
                let run = behind.checked_sub(1).and_then(|i| runs.get(i));
                run.is_some_and(|&run| run_of(run).contains(&offset))
            }
        }
    }

    /// Writes its ids as bits over all `words`.
    pub(crate) fn copy_to(self, words: &mut [u64; BLOCK_WORDS]) {
        if let Self::Bitset(bitset) = self {
            words.iter_mut().zip(bitset).for_each(|(word, &bytes)| *word = u64::from_le_bytes(bytes));
        } else {
            words.fill(0);
            self.add_to(words);
        }
    }

    /// Sets the bits of its ids in `words`.
    pub(crate) fn add_to(self, words: &mut [u64; BLOCK_WORDS]) {
        match self {
            Self::Array(ids) => {
                ids.iter().for_each(|&id| mask::set(words, u64::from(u16::from_le_bytes(id))));
            }
            Self::Bitset(bitset) => {
                words.iter_mut().zip(bitset).for_each(|(word, &bytes)| *word |= u64::from_le_bytes(bytes));
            }
            Self::Runs(runs) => runs.iter().for_each(|&run| mask::set_range(words, run_of(run))),
        }
    }

    /// Its ids as offsets in the block, in increasing order.
    pub(super) fn offsets(self) -> Offsets<'a> {
        match self {
            Self::Array(ids) => Offsets::Array(ids.iter()),
            Self::Bitset(words) => Offsets::Bitset { words: words.iter(), next_base: 0, word: 0 },
            Self::Runs(runs) => Offsets::Runs { runs: runs.iter(), run: 0..0 },
        }
    }
}

/// The first offset of a run, and the one behind its last: at most 65,536 if it is valid.
pub(super) fn run_of([a, b, c, d]: [u8; 4]) -> Range<u64> {
    let first = u64::from(u16::from_le_bytes([a, b]));
    first..first + u64::from(u16::from_le_bytes([c, d])) + 1
}

/// Offsets of a container's ids.
#[derive(Clone, Debug)]
pub(super) enum Offsets<'a> {
    Array(slice::Iter<'a, [u8; 2]>),
    Bitset {
        words: slice::Iter<'a, [u8; 8]>,
        /// Offset of the first bit of the next word.
        next_base: u64,
        /// What is left of the current word.
        word: u64,
    },
    Runs {
        runs: slice::Iter<'a, [u8; 4]>,
        run: Range<u64>,
    },
}

impl Iterator for Offsets<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        match self {
            Self::Array(ids) => ids.next().map(|&id| u64::from(u16::from_le_bytes(id))),
            Self::Bitset { words, next_base, word } => {
                while *word == 0 {
                    *word = u64::from_le_bytes(*words.next()?);
                    *next_base += 64;
                }
                let bit = u64::from(word.trailing_zeros());
                *word &= *word - 1;
                Some(*next_base - 64 + bit)
            }
            Self::Runs { runs, run } => loop {
                if let Some(offset) = run.next() {
                    return Some(offset);
                }
                *run = run_of(*runs.next()?);
            },
        }
    }
}
