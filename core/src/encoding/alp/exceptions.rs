//! The rows whose floats no integer stands for, and their keys.

use std::sync::Arc;

use arrow_buffer::ScalarBuffer;

use crate::{
    encoding::{KeyColumn, UNIT_ROWS, bytes::ensure, rows::each_common},
    error::Result,
    limits::BLOCK_ROWS,
};

/// Exceptions of a column.
#[derive(Debug)]
pub(super) struct Exceptions {
    /// Exceptions before each block, and all.
    before: Vec<usize>,
    /// The row of each in its block.
    positions: ScalarBuffer<u16>,
    /// Their keys; `None` where there is no exception.
    keys: Option<Arc<dyn KeyColumn>>,
}

impl Exceptions {
    /// Believes nothing but that the column has keys where there are exceptions.
    pub(super) fn new(
        rows: usize,
        before: Vec<usize>,
        positions: ScalarBuffer<u16>,
        keys: Option<Arc<dyn KeyColumn>>,
    ) -> Result<Self> {
        for (block, range) in before.windows(2).enumerate() {
            let positions = &positions[range[0]..range[1]];
            let ascending = positions.is_sorted_by(|a, b| a < b);
            let inside = positions.last().is_none_or(|&last| usize::from(last) < rows - block * BLOCK_ROWS);
            ensure(ascending && inside, "the exceptions are not in order")?;
        }
        // Default: without exceptions there is no column of them.
        let rows_of_keys = keys.as_ref().map_or(0, |keys| keys.rows());
        ensure(rows_of_keys == positions.len(), "the exceptions have other keys")?;
        Ok(Self { before, positions, keys })
    }

    /// How many are in rows before `row`.
    fn before(&self, row: usize) -> usize {
        let (block, row) = (row / BLOCK_ROWS, row % BLOCK_ROWS);
        let from = self.before[block];
        let to = self.before.get(block + 1).copied().unwrap_or(from);
        from + self.positions[from..to].partition_point(|&position| usize::from(position) < row)
    }

    /// Whether one of the rows is an exception.
    pub(super) fn any(&self, start: usize, rows: usize) -> bool {
        self.keys.is_some() && self.before(start) < self.before(start + rows)
    }

    /// The key of a row that is an exception.
    pub(super) fn get(&self, row: usize) -> Option<i64> {
        let keys = self.keys.as_ref()?;
        let i = self.before(row);
        let behind = self.before[row / BLOCK_ROWS + 1];
        (i < behind && usize::from(self.positions[i]) == row % BLOCK_ROWS).then(|| keys.get(i))
    }

    /// Calls `work` with each of some ascending places behind the first row of a block that are exceptions: its number,
    /// and its key.
    pub(super) fn each_at(&self, start: usize, places: &[u16], mut work: impl FnMut(usize, i64)) {
        let Some(column) = &self.keys else { return };
        let block = start / BLOCK_ROWS;
        let (first, end) = (self.before[block], self.before[block + 1]);
        each_common(&self.positions[first..end], places, |exception, at| {
            work(at, column.get(first + exception))
        });
    }

    /// Calls `work` with each exception of the rows: its place behind `start`, and its key.
    pub(super) fn each(&self, start: usize, rows: usize, mut work: impl FnMut(usize, i64)) {
        let Some(column) = &self.keys else { return };
        let (from, to) = (self.before(start), self.before(start + rows));
        let mut block = start / BLOCK_ROWS;
        let mut keys = [0; UNIT_ROWS];
        // Decoding begins at whole units.
        for unit in (from / UNIT_ROWS * UNIT_ROWS..to).step_by(UNIT_ROWS) {
            let keys = &mut keys[..UNIT_ROWS.min(to - unit)];
            column.decode(unit, keys);
            for (i, &key) in (unit..).zip(&*keys).skip(from.saturating_sub(unit)) {
                while i >= self.before[block + 1] {
                    block += 1;
                }
                work(block * BLOCK_ROWS + usize::from(self.positions[i]) - start, key);
            }
        }
    }
}
