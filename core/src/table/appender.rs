//! Rows on their way into a table: checked, encoded when there are enough for a fragment, committed together.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};

use super::{Change, Table, no_column};
use crate::{
    error::{Error, ErrorKind, Result},
    fragment::{FragmentData, RowBuffer, check_array_from},
    limits::{BATCH_ROWS, FRAGMENT_ROWS, MAX_BATCH_ROWS, PENDING_BYTES},
    schema::Field,
};

/// What a commit did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The first version that shows the rows.
    pub version: u64,
    /// Rows added.
    pub rows: u64,
}

/// Rows on their way into a table. Nothing is visible before [`Appender::commit`]; dropping it leaves nothing.
#[derive(Debug)]
pub struct Appender {
    table: Arc<Table>,
    /// For every column of the table, which array of a batch holds it.
    sources: Vec<Option<usize>>,
    /// Columns of a batch.
    width: usize,
    pending: RowBuffer,
    /// Bytes of `pending` from which on it is a full fragment.
    most: usize,
    done: Vec<FragmentData>,
    rows: u64,
}

impl Appender {
    /// Starts a write of the named columns, in the order that the batches have them; none named: all of the
    /// table, in its order.
    ///
    /// # Errors
    /// [`ErrorKind::ColumnNotFound`]; [`ErrorKind::InvalidBatch`] when one is named twice, or one that is
    /// not nullable is left out.
    pub fn new(table: Arc<Table>, columns: &[String]) -> Result<Self> {
        let fields = table.schema.fields();
        let mut sources: Vec<Option<usize>> = vec![None; fields.len()];
        if columns.is_empty() {
            sources.iter_mut().enumerate().for_each(|(i, source)| *source = Some(i));
        }
        for (i, name) in columns.iter().enumerate() {
            let place = format!("columns[{i}]");
            let at = table.schema.index_of(name).ok_or_else(|| no_column(&table, name).at(&place))?;
            if sources[at].replace(i).is_some() {
                return Err(
                    Error::new(ErrorKind::InvalidBatch, format!("column {name:?} is named twice")).at(&place)
                );
            }
        }
        if let Some((field, _)) = fields.iter().zip(&sources).find(|(f, s)| s.is_none() && !f.nullable) {
            let message = format!("column {:?} is not nullable and is left out", field.name);
            return Err(Error::new(ErrorKind::InvalidBatch, message).at("columns"));
        }
        let width = if columns.is_empty() { fields.len() } else { columns.len() };
        let pending = RowBuffer::new(&table.schema);
        Ok(Self { table, sources, width, pending, most: PENDING_BYTES, done: Vec::new(), rows: 0 })
    }

    /// The same, where there is memory for fragments whose rows take no more than so many bytes before they are encoded.
    #[must_use]
    pub fn with_fragments_of(self, bytes: usize) -> Self {
        Self { most: bytes.min(PENDING_BYTES), ..self }
    }

    /// The table written to.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes held so far.
    pub fn bytes(&self) -> usize {
        self.pending.bytes() + self.done.iter().map(FragmentData::bytes).sum::<usize>()
    }

    /// Whether so many rows of so many bytes make no fragment full.
    pub fn has_room(&self, rows: usize, bytes: usize) -> bool {
        // What grows doubles.
        let grown = self.pending.bytes().saturating_mul(2).saturating_add(bytes.saturating_mul(8));
        self.pending.rows() + rows < FRAGMENT_ROWS && grown < self.most
    }

    /// The table's fields in the order of a batch's columns.
    pub fn batch_fields(&self) -> Vec<&Field> {
        let mut fields: Vec<_> = self
            .sources
            .iter()
            .zip(self.table.schema.fields())
            .filter_map(|(s, f)| s.map(|s| (s, f)))
            .collect();
        fields.sort_by_key(|(source, _)| *source);
        fields.into_iter().map(|(_, field)| field).collect()
    }

    /// Checks a batch and takes it in; full fragments are encoded at once. A batch that is refused leaves
    /// the appender as it was.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidBatch`] or [`ErrorKind::TypeMismatch`], with the column's place.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check(batch)?;
        let mut start = 0;
        while start < batch.num_rows() {
            let (end, full) = self.fill(batch, start);
            if let Some(full) = full {
                self.done.push(full.encode(&self.table.schema)?);
            }
            start = end;
        }
        Ok(())
    }

    /// Checks a batch that is to be taken in by [`Appender::fill`].
    ///
    /// # Errors
    /// Those of [`Appender::push`].
    pub fn check(&self, batch: &RecordBatch) -> Result<()> {
        self.check_from(batch, 0)
    }

    /// The same of a piece of more rows, whose first one has this number where one of them is named.
    ///
    /// # Errors
    /// Those of [`Appender::push`].
    pub fn check_from(&self, batch: &RecordBatch, first: u64) -> Result<()> {
        if batch.num_columns() != self.width {
            let message = format!("{} columns instead of {}", batch.num_columns(), self.width);
            return Err(Error::new(ErrorKind::InvalidBatch, message).at("columns"));
        }
        if batch.num_rows() > MAX_BATCH_ROWS {
            let message = format!("{} rows; the limit is {MAX_BATCH_ROWS}", batch.num_rows());
            return Err(Error::new(ErrorKind::InvalidBatch, message).at("rows"));
        }
        for (source, field) in self.sources.iter().zip(self.table.schema.fields()) {
            if let Some(source) = source {
                check_array_from(batch.column(*source), field, first)
                    .map_err(|e| e.at(format!("columns[{source}]")))?;
            }
        }
        Ok(())
    }

    /// Takes rows of a checked batch in, from `start` on: until they are all taken, or a fragment is full. Returns the
    /// place behind them, and the full fragment's rows for an owner that encodes them itself.
    pub fn fill(&mut self, batch: &RecordBatch, start: usize) -> (usize, Option<RowBuffer>) {
        // A column that is left out, or sent in bits, grows to eight bytes a row.
        let most = (self.most / (8 * self.sources.len())).max(BATCH_ROWS);
        let mut end = start;
        while end < batch.num_rows() {
            let n = (batch.num_rows() - end).min(FRAGMENT_ROWS - self.pending.rows()).min(most);
            let slice = |s: &Option<usize>| -> Option<ArrayRef> { s.map(|s| batch.column(s).slice(end, n)) };
            let arrays: Vec<_> = self.sources.iter().map(slice).collect();
            self.pending.push(&arrays, n);
            end += n;
            self.rows += n as u64;
            if self.pending.rows() == FRAGMENT_ROWS || self.pending.bytes() >= self.most {
                return (end, Some(self.take_pending()));
            }
        }
        (end, None)
    }

    /// Begins another fragment, with room for one like this.
    fn take_pending(&mut self) -> RowBuffer {
        let next = self.pending.next_of(&self.table.schema);
        std::mem::replace(&mut self.pending, next)
    }

    /// The rows that are not enough for a fragment, for an owner that has the full ones of [`Appender::fill`] and
    /// encodes these, perhaps with those of other writes.
    pub fn into_rows(self) -> RowBuffer {
        assert!(self.done.is_empty(), "the full fragments are those of fill");
        self.pending
    }

    /// The rows as fragments, for an owner that commits them itself.
    ///
    /// # Errors
    /// Those of the encodings.
    pub fn finish(self) -> Result<Vec<FragmentData>> {
        let Self { table, pending, mut done, .. } = self;
        if pending.rows() > 0 {
            done.push(pending.encode(&table.schema)?);
        }
        Ok(done)
    }

    /// Makes the rows visible, all at once. Without rows there is no new version.
    ///
    /// # Errors
    /// [`ErrorKind::TableNotFound`] when the table was dropped meanwhile.
    pub fn commit(self) -> Result<Commit> {
        let (table, rows) = (Arc::clone(&self.table), self.rows);
        let add: Vec<_> = self.finish()?.into_iter().map(Arc::new).collect();
        if add.is_empty() {
            return Ok(Commit { version: table.snapshot().version(), rows: 0 });
        }
        let change = Change { add, ..Change::default() };
        let version = table.commit_merged(&table.snapshot(), change, PENDING_BYTES)?;
        Ok(Commit { version, rows })
    }
}
