//! Containers: the ids of one block as the smallest of an array, a bitset and runs.

use std::ops::Range;

use super::low;
use crate::{BLOCK_IDS, BLOCK_WORDS, contents::Contents};

/// Most ids of an array: a longer one is no smaller than a bitset.
pub(crate) const MAX_ARRAY: usize = 4096;
/// Bytes of a bitset.
pub(crate) const BITSET_BYTES: usize = BLOCK_WORDS * 8;
/// Most runs of a container: with more a bitset is smaller.
pub(crate) const MAX_RUNS: usize = (BITSET_BYTES - 2) / 4;
/// Blocks of a bucket: the ids of one 32-bit bitmap.
pub(crate) const BUCKET_BLOCKS: u64 = 1 << 16;

/// A container among others in a byte string.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Container {
    block: u64,
    at: usize,
    /// Ids less one, as the description of a container has it.
    last: u16,
    /// Its runs; 0 where nobody has counted those of an array or a bitset.
    runs: u16,
    has_runs: bool,
}

impl Container {
    /// As a header describes it: `cardinality` ids (1 to 65,536) at byte `at`, in `runs` runs or, if there
    /// are none, in an array or a bitset.
    pub(super) fn described(block: u64, at: usize, cardinality: u64, runs: u16) -> Self {
        Self { block, at, last: low(cardinality - 1), runs, has_runs: runs > 0 }
    }

    /// The smallest one at byte `at` for `cardinality` ids that form `runs` runs.
    pub(super) fn smallest(block: u64, at: usize, cardinality: u64, runs: u64) -> Self {
        let has_runs = runs_are_smallest(cardinality, runs);
        Self { block, at, last: low(cardinality - 1), runs: low(runs), has_runs }
    }

    /// Its ids divided by 65,536.
    pub(crate) fn block(&self) -> u64 {
        self.block
    }

    /// Its first byte.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The same container at another byte.
    pub(super) fn moved_to(self, at: usize) -> Self {
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

    /// Its number of runs; 0 where nobody has counted those of an array or a bitset.
    pub(crate) fn runs(&self) -> u16 {
        self.runs
    }

    /// The same container with its runs counted.
    pub(crate) fn counted(self, bytes: &[u8]) -> Self {
        let mut runs = 0;
        self.contents(bytes).for_each_run(|_, _| runs += 1);
        Self { runs: low(runs), ..self }
    }

    /// Whether it holds runs.
    pub(super) fn has_runs(&self) -> bool {
        self.has_runs
    }

    /// Whether it holds all ids of its block.
    pub(crate) fn is_full(&self) -> bool {
        self.cardinality() == BLOCK_IDS
    }

    /// Its bytes.
    pub(super) fn range(&self) -> Range<usize> {
        self.at..self.at + self.size()
    }

    /// Its number of bytes.
    pub(super) fn size(&self) -> usize {
        if self.has_runs { runs_size(u64::from(self.runs)) } else { plain_size(self.cardinality()) }
    }

    /// Its ids in the `bytes` it stands in.
    pub(crate) fn contents<'a>(&self, bytes: &'a [u8]) -> Contents<'a> {
        let bytes = bytes.get(self.range()).unwrap_or_default();
        if self.has_runs {
            Contents::Runs(bytes.get(2..).unwrap_or_default().as_chunks().0)
        } else if self.cardinality() <= MAX_ARRAY as u64 {
            Contents::Array(bytes.as_chunks().0)
        } else {
            Contents::Bitset(bytes.as_chunks().0)
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
