//! Fragments: immutable runs of rows, each column encoded, with the statistics that prune.

mod buffer;
mod column;

pub use buffer::{RowBuffer, check_array};
pub use column::{Column, Values, Zone};

use crate::limits::BLOCK_ROWS;

/// Encoded rows that have no id yet.
#[derive(Debug)]
pub struct FragmentData {
    rows: usize,
    columns: Vec<Column>,
}

impl FragmentData {
    /// Rows held.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes held, everything counted.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(Column::bytes).sum()
    }
}

/// An immutable run of rows of one table.
#[derive(Debug)]
pub struct Fragment {
    id: u32,
    data: FragmentData,
}

impl Fragment {
    /// Gives rows their id, which is never used again in the table.
    pub fn new(id: u32, data: FragmentData) -> Self {
        Self { id, data }
    }

    /// The same rows under another id, before anyone has seen them.
    #[must_use]
    pub(crate) fn with_id(self, id: u32) -> Self {
        Self { id, ..self }
    }

    /// Its id: the upper half of its rows' addresses.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Rows held.
    pub fn rows(&self) -> usize {
        self.data.rows
    }

    /// Bytes held, everything counted.
    pub fn bytes(&self) -> usize {
        self.data.bytes()
    }

    /// Bytes that its rows take before they are encoded.
    pub(crate) fn decoded_bytes(&self) -> usize {
        self.data.columns.iter().map(Column::decoded_bytes).sum()
    }

    /// The columns in the schema's order.
    pub fn columns(&self) -> &[Column] {
        &self.data.columns
    }

    /// Blocks of 65,536 rows; the last may be shorter.
    pub fn blocks(&self) -> usize {
        self.data.rows.div_ceil(BLOCK_ROWS)
    }

    /// Rows of one block.
    pub fn block_rows(&self, block: usize) -> usize {
        (self.data.rows - block * BLOCK_ROWS).min(BLOCK_ROWS)
    }

    /// The address of a row: fragment id in the upper half, place in the lower.
    pub fn address(&self, row: usize) -> u64 {
        (u64::from(self.id) << 32) | row as u64
    }
}
