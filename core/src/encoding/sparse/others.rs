//! The rows of a column that hold another key than the common one.

use basalt_kernels::{self as kernels, CmpOp};

use super::super::mask;
use crate::{
    invariant::Invariant,
    limits::{BLOCK_ROWS, BLOCK_WORDS},
};

/// The rows, as positions in their blocks.
pub(in super::super) struct Others {
    rows: usize,
    positions: Vec<u16>,
    /// Where those of each block end.
    ends: Vec<usize>,
}

impl Others {
    /// The rows of `keys` that do not hold `key`.
    pub(in super::super) fn new(keys: &[i64], key: i64) -> Self {
        let mut others = Self { rows: keys.len(), positions: Vec::new(), ends: Vec::new() };
        let mut words = [0; BLOCK_WORDS];
        for keys in keys.chunks(BLOCK_ROWS) {
            let words = &mut words[..keys.len().div_ceil(64)];
            kernels::compare(CmpOp::Ne, keys, key, words);
            let begin = others.positions.len();
            let end = begin + mask::count_ones(words);
            // With the room that the kernel writes to.
            others.positions.resize(end + 64, 0);
            kernels::mask::positions(words, &mut others.positions[begin..]);
            others.positions.truncate(end);
            others.ends.push(end);
        }
        others
    }

    /// Rows of the column.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Rows that hold another key.
    pub(in super::super) fn len(&self) -> usize {
        self.positions.len()
    }

    /// What they hold.
    pub(super) fn keys(&self, keys: &[i64]) -> Vec<i64> {
        let mut others = Vec::with_capacity(self.len());
        let mut begin = 0;
        for (block, &end) in keys.chunks(BLOCK_ROWS).zip(&self.ends) {
            others.extend(self.positions[begin..end].iter().map(|&position| block[usize::from(position)]));
            begin = end;
        }
        others
    }

    /// The positions in each interval of `1 << shift` rows, which are at most a block.
    pub(super) fn intervals(
        &self,
        shift: u32,
    ) -> impl Iterator<Item = impl ExactSizeIterator<Item = u16> + Clone> {
        let mut begin = 0;
        (0..self.rows.div_ceil(1 << shift)).map(move |interval| {
            let first = interval << shift;
            let rest = &self.positions[begin..self.ends[first / BLOCK_ROWS]];
            let from = first % BLOCK_ROWS;
            let here = rest.partition_point(|&position| usize::from(position) < from + (1 << shift));
            begin += here;
            let from = u16::try_from(from).invariant("a position in a block is a u16");
            rest[..here].iter().map(move |position| position - from)
        })
    }
}
