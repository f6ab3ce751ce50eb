//! Fragments: immutable runs of rows, each column encoded, with the statistics that prune.

mod arrays;
mod budget;
mod buffer;
mod column;
mod deleted;

use std::sync::Arc;

pub(crate) use arrays::array_of_keys;
use basalt_sip::Sip;
pub(crate) use buffer::push_keys;
pub use buffer::{RowBuffer, beyond_calendar, check_array, check_array_from, check_calendar};
pub use column::{Column, ColumnParts, Values, Zone};
pub use deleted::Deleted;

use crate::{
    error::{Error, ErrorKind, Result},
    invariant::Invariant as _,
    limits::BLOCK_ROWS,
    mask::Mask,
};

/// Encoded rows that have no id yet. Some of their columns may be left out: who reads a column has asked for it.
#[derive(Debug)]
pub struct FragmentData {
    rows: usize,
    columns: Vec<Option<Arc<Column>>>,
    bytes: usize,
}

impl FragmentData {
    fn new(rows: usize, columns: Vec<Option<Arc<Column>>>) -> Self {
        assert!(
            columns.iter().flatten().all(|column| column.rows() == rows),
            "the columns of a fragment have its rows"
        );
        let bytes = columns.iter().flatten().map(|column| column.bytes()).sum();
        Self { rows, columns, bytes }
    }

    /// All columns of a schema.
    fn of(rows: usize, columns: Vec<Column>) -> Self {
        Self::new(rows, columns.into_iter().map(|column| Some(Arc::new(column))).collect())
    }

    /// Columns of the same rows, in the order of a schema; `None` in the place of one that nobody will read.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when they are not of as many rows.
    pub fn of_columns(rows: usize, columns: Vec<Option<Arc<Column>>>) -> Result<Self> {
        match columns.iter().flatten().find(|column| column.rows() != rows) {
            Some(column) => {
                let message = format!("a column of {} rows in a fragment of {rows}", column.rows());
                Err(Error::new(ErrorKind::Corrupt, message))
            }
            None => Ok(Self::new(rows, columns)),
        }
    }

    /// Rows held.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes held, everything counted.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The columns in the schema's order, without those that are left out.
    pub fn columns(&self) -> impl Iterator<Item = &Arc<Column>> {
        self.columns.iter().flatten()
    }

    /// How many columns the schema has.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// A column by its place, unless it is left out.
    pub fn loaded(&self, place: usize) -> Option<&Arc<Column>> {
        self.columns.get(place)?.as_ref()
    }
}

/// What a fragment was read from: two fragments of one table with equal sources hold the same rows, and the same of them
/// are deleted. An id alone does not tell that, since another version of the table may give it to other rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// A hash of the data file's name and of the first row in it.
    pub rows: u64,
    /// A hash of the deletion vector's name; 0 where no row is deleted.
    pub deletions: u64,
}

/// An immutable run of rows of one table, some of which may be deleted; a copy shares the rows.
#[derive(Clone, Debug)]
pub struct Fragment {
    id: u32,
    data: Arc<FragmentData>,
    deleted: Option<Arc<Deleted>>,
    source: Option<Source>,
}

impl Fragment {
    /// Gives rows their id, which is never used again in the table.
    pub fn new(id: u32, data: impl Into<Arc<FragmentData>>) -> Self {
        Self { id, data: data.into(), deleted: None, source: None }
    }

    /// The same rows, of which these are deleted and no others. Whoever knows the source of that says so afterwards.
    #[must_use]
    pub fn with_deleted(self, deleted: Option<Arc<Deleted>>) -> Self {
        let of = deleted.as_ref().map(|deleted| deleted.fragment_rows());
        assert!(of.is_none_or(|of| of == self.data.rows), "the deleted rows of a fragment are of its rows");
        Self { deleted, source: None, ..self }
    }

    /// The same, read from `source`.
    #[must_use]
    pub fn with_source(self, source: Source) -> Self {
        Self { source: Some(source), ..self }
    }

    /// What it was read from; `None` for a fragment that is in memory alone.
    pub fn source(&self) -> Option<Source> {
        self.source
    }

    /// Whether another is the same rows with the same ones deleted.
    pub fn is_same(&self, other: &Self) -> bool {
        let deleted = |fragment: &Self| fragment.deleted.as_ref().map(Arc::as_ptr);
        self.id == other.id && Arc::ptr_eq(&self.data, &other.data) && deleted(self) == deleted(other)
    }

    /// The same fragment without the live rows among these addresses, and how many they are; `None` when there
    /// are none.
    pub fn delete(&self, rows: &Sip) -> Option<(Self, usize)> {
        let deleted = Deleted::more(self.deleted.as_deref(), self.id, self.data.rows, rows)?;
        let n = deleted.rows() - self.deleted_rows();
        Some((self.clone().with_deleted(Some(Arc::new(deleted))), n))
    }

    /// Its id: the upper half of its rows' addresses.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The rows as they are encoded.
    pub fn data(&self) -> &Arc<FragmentData> {
        &self.data
    }

    /// Rows held: those that are deleted keep their places.
    pub fn rows(&self) -> usize {
        self.data.rows
    }

    /// The rows that are deleted, where there are any.
    pub fn deleted(&self) -> Option<&Arc<Deleted>> {
        self.deleted.as_ref()
    }

    /// Rows that are not deleted.
    pub fn live_rows(&self) -> usize {
        self.data.rows - self.deleted_rows()
    }

    fn deleted_rows(&self) -> usize {
        // Default: without a mask none is deleted.
        self.deleted.as_ref().map_or(0, |deleted| deleted.rows())
    }

    /// The rows of a block that are not deleted.
    pub fn live(&self, block: usize) -> &Mask {
        self.deleted.as_ref().map_or(&Mask::Full, |deleted| deleted.live(block))
    }

    /// Bytes held, everything counted.
    pub fn bytes(&self) -> usize {
        // Default: without deleted rows there is no mask of them.
        self.data.bytes + self.deleted.as_ref().map_or(0, |deleted| deleted.bytes())
    }

    /// Bytes that its rows take before they are encoded.
    pub(crate) fn decoded_bytes(&self) -> usize {
        self.data.columns().map(|column| column.decoded_bytes()).sum()
    }

    /// The same of those that are not deleted, at most.
    pub fn live_decoded_bytes(&self) -> usize {
        self.data.columns().map(|column| column.decoded_bytes_of(self.live_rows())).sum()
    }

    /// The columns in the schema's order, without those that are left out.
    pub fn columns(&self) -> impl Iterator<Item = &Arc<Column>> {
        self.data.columns()
    }

    /// A column by its place. That it is there is for whoever makes the snapshot to see: a plan tells what it reads
    /// ([`Plan::columns`](crate::plan::Plan::columns)).
    pub fn column(&self, place: usize) -> &Column {
        self.data.loaded(place).invariant("a column that is read was asked for")
    }

    /// The same; `None` for a place behind the columns: that of the rows' address.
    pub(crate) fn column_at(&self, place: usize) -> Option<&Column> {
        (place < self.data.width()).then(|| self.column(place))
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
