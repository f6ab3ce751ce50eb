//! Reading the rows of a fragment, batch by batch.

use std::{
    io::Read,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema as arrow;
use basalt_core::{
    error::{Error, ErrorKind},
    fragment::check_array,
    invariant::{Invariant, index},
    schema::{DataType, Field, Schema},
};
use basalt_nested::parquet::Groups;
use basalt_sip::Sip;
use bytes::{Buf as _, Bytes};
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader},
    },
    basic::Repetition,
    errors::ParquetError,
    file::reader::{ChunkReader, Length},
};

use super::{
    alike, convert,
    digest::{Piece, Seen},
    filled::filled,
    footer,
    nested::Shape,
    partition,
};
use crate::{
    deletions,
    error::{Result, StorageError},
    limits::{BATCH_ROWS, PAGE_BYTES},
    log::{DataFile, FragmentEntry, TableLog, TableState},
    places,
    store::Store,
};

impl TableLog {
    /// The rows of a fragment of a state, deleted ones included, in their order: the columns of the table that are
    /// named by their places, in that order.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`] when the file is not what the log says of it; [`StorageError::Store`].
    pub async fn read(
        &self,
        state: &TableState,
        fragment: &FragmentEntry,
        columns: &[usize],
    ) -> Result<DataReader> {
        DataReader::open(self, state, fragment, columns).await
    }

    /// The offsets of a fragment's deleted rows; `None` when it has none.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn deleted_rows(&self, fragment: &FragmentEntry) -> Result<Option<Sip>> {
        deletions::read(self.store(), fragment).await
    }
}

/// Where a column of an answer comes from.
enum Source {
    /// A column of the projected file, and its first leaf.
    File { place: usize, leaf: usize },
    /// A value in the log.
    Partition(Option<String>),
    /// A column that the file does not have: it is null.
    Missing,
}

/// Reads a fragment. It holds the compressed columns of one row group, and decodes a batch at a time.
pub struct DataReader {
    store: Store,
    seen: Seen,
    fragment: FragmentEntry,
    path: String,
    metadata: ArrowReaderMetadata,
    projection: ProjectionMask,
    leaves: Vec<usize>,
    columns: Vec<(Field, Source)>,
    /// What the columns that are nested are made of.
    nested: Vec<Option<Arc<Shape>>>,
    /// Columns, and fields of structs, are found by their ids.
    by_id: bool,
    schema: arrow::SchemaRef,
    /// Row groups to come, with the rows of each that are part of the fragment.
    groups: std::vec::IntoIter<(usize, Range<usize>)>,
    /// In a mutex that nobody else ever holds, so that a reader can be shared.
    current: Mutex<Option<ParquetRecordBatchReader>>,
    /// Rows that are still to come.
    rows: usize,
    /// The deleted ones, once they were asked for.
    deleted: Option<Option<Sip>>,
}

impl std::fmt::Debug for DataReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataReader")
            .field("path", &self.path)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl DataReader {
    async fn open(
        log: &TableLog,
        state: &TableState,
        fragment: &FragmentEntry,
        columns: &[usize],
    ) -> Result<Self> {
        if let Some(column) = columns.iter().find(|column| **column >= state.schema().fields().len()) {
            let message = format!("the table has no column {column}");
            return Err(Error::new(ErrorKind::ColumnNotFound, message).into());
        }
        let (store, path) = (log.store(), places::data_file(log.store(), &fragment.file)?);
        let place = format!("{}/{path}", store.url());
        let footer = footer::of_file(store, log.seen(), &fragment.file).await?;
        let rows = footer.file_metadata().num_rows();
        if u64::try_from(rows).ok() != Some(fragment.file.rows()) {
            let why = format!("it has {rows} rows, and in the log {}", fragment.file.rows());
            return Err(StorageError::corrupt(place, why));
        }
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata =
            catching(log.store(), place.clone(), move || ArrowReaderMetadata::try_new(footer, options))
                .await?;
        let (sources, leaves) = sources(state, &fragment.file, columns, &metadata)
            .map_err(|why| StorageError::corrupt(place.clone(), why))?;
        let schema = Schema::of_answer(sources.iter().map(|(field, _)| field.clone()).collect()).to_arrow();
        let first = index(fragment.first_row);
        let wanted = first..first + fragment.rows as usize;
        let mut groups = Vec::new();
        let mut start = 0;
        for (i, group) in metadata.metadata().row_groups().iter().enumerate() {
            let rows = usize::try_from(group.num_rows());
            let end = start + rows.invariant("the rows of a footer that was read were checked");
            let part = start.max(wanted.start)..end.min(wanted.end);
            if !part.is_empty() {
                groups.push((i, part.start - start..part.end - start));
            }
            start = end;
        }
        Ok(Self {
            store: store.clone(),
            seen: log.seen().clone(),
            fragment: fragment.clone(),
            path,
            projection: ProjectionMask::leaves(metadata.parquet_schema(), leaves.iter().copied()),
            metadata,
            leaves,
            columns: sources,
            nested: columns
                .iter()
                .map(|column| state.schema.nested.get(*column).cloned().flatten())
                .collect(),
            by_id: state.schema.ids.is_some(),
            schema,
            groups: groups.into_iter(),
            current: Mutex::new(None),
            rows: fragment.rows as usize,
            deleted: None,
        })
    }

    /// Bytes of the texts of each column that it reads, before any of them is, as the file says it; 0 for other values.
    /// `None` where it does not say.
    pub fn text_bytes(&self) -> Option<Vec<u64>> {
        let column = |((field, source), shape): (&(Field, Source), &Option<Arc<Shape>>)| {
            // Of what is held in another form than the file's nobody says how long it is.
            if field.logical.is_some() || shape.is_some() {
                return None;
            }
            match source {
                Source::File { leaf, .. } if field.data_type == DataType::Utf8 => self.text_bytes_of(*leaf),
                _ => Some(0),
            }
        };
        self.columns.iter().zip(&self.nested).map(column).collect()
    }

    fn text_bytes_of(&self, leaf: usize) -> Option<u64> {
        let mut bytes = 0_u64;
        for (group, _) in self.groups.as_slice() {
            let column = self.metadata.metadata().row_group(*group).column(leaf);
            bytes = bytes.saturating_add(u64::try_from(column.unencoded_byte_array_data_bytes()?).ok()?);
        }
        Some(bytes)
    }

    /// The columns, as the batches have them.
    pub fn schema(&self) -> &arrow::SchemaRef {
        &self.schema
    }

    /// The next batch of at most 65,536 rows; `None` behind the last.
    ///
    /// # Errors
    /// As [`TableLog::read`].
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.rows > 0 {
            let current = self.current.get_mut().unwrap_or_else(PoisonError::into_inner).take();
            let reader = match current {
                Some(reader) => reader,
                None => match self.groups.next() {
                    Some((group, rows)) => self.open_group(group, rows).await?,
                    None => return Err(self.corrupt("its row groups end before its rows")),
                },
            };
            let decode = move || {
                let mut reader = reader;
                let batch = reader.next().transpose()?;
                Ok::<_, arrow::ArrowError>((batch, reader))
            };
            if let (Some(batch), reader) = catching(&self.store, self.place(), decode).await? {
                self.current = Mutex::new(Some(reader));
                let first = (self.fragment.rows as usize).saturating_sub(self.rows);
                self.rows = self
                    .rows
                    .checked_sub(batch.num_rows())
                    .ok_or_else(|| self.corrupt("it has more rows"))?;
                return self.of_table(&batch, first).await.map(Some);
            }
        }
        Ok(None)
    }

    async fn open_group(&mut self, group: usize, rows: Range<usize>) -> Result<ParquetRecordBatchReader> {
        let row_group = self.metadata.metadata().row_group(group);
        let ranges: Vec<Range<u64>> = self
            .leaves
            .iter()
            .map(|leaf| {
                let (start, length) = row_group.column(*leaf).byte_range();
                start..start + length
            })
            .collect();
        let bytes = self.store.get_ranges(&self.path, &ranges).await?;
        let (seen, file, schema) =
            (self.seen.clone(), Arc::clone(&self.fragment.file), self.metadata.parquet_schema());
        let of = schema.num_columns();
        let named = self.leaves.iter().map(|leaf| (*leaf, schema.column(*leaf).path().string()));
        let named: Vec<_> = named.zip(bytes.clone()).collect();
        let check = move || {
            named.iter().try_for_each(|((leaf, name), bytes)| {
                let piece = Piece::Column { group, leaf: *leaf, of };
                seen.check(&file, piece, bytes).map_err(|why| format!("column {name:?}: {why}"))
            })
        };
        catching(&self.store, self.place(), check).await?;
        let chunks = Chunks { chunks: ranges.into_iter().map(|range| range.start).zip(bytes).collect() };
        let groups = Groups::new(chunks, Arc::clone(self.metadata.metadata()), vec![group], PAGE_BYTES);
        let projection = self.projection.clone();
        let read = move || groups.read(projection, None, Some(rows), BATCH_ROWS);
        catching(&self.store, self.place(), read).await
    }

    /// A batch of the file as one of the table; `first` is its first row in the fragment.
    async fn of_table(&mut self, batch: &RecordBatch, first: usize) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let mut columns = self.decoded(batch)?;
        if self.fragment.file.deletion_vector.is_some()
            && self.deleted.is_none()
            && columns.iter().zip(&self.columns).any(|(column, (field, _))| lacks_values(column, field))
        {
            self.deleted = Some(deletions::read(&self.store, &self.fragment).await?);
        }
        for (column, (field, _)) in columns.iter_mut().zip(&self.columns) {
            if let Some(Some(deleted)) = &self.deleted
                && lacks_values(column, field)
            {
                let is_deleted = |row: usize| deleted.contains((first + row) as u64);
                *column = filled(column, field, is_deleted)
                    .map_err(|why| self.corrupt(format!("column {:?}: {why}", field.name)))?;
            }
            check_array(column, field).map_err(|e| self.corrupt(e))?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|e| self.corrupt(e))
    }

    /// The columns of a batch, in the forms that they have in the table.
    fn decoded(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let rows = batch.num_rows();
        let column = |((field, source), shape): (&(Field, Source), &Option<Arc<Shape>>)| -> Result<ArrayRef> {
            let wrong = |why: String| self.corrupt(format!("column {:?}: {why}", field.name));
            let column = match source {
                Source::File { place, .. } => match shape {
                    Some(shape) => shape.to_text(batch.column(*place), self.by_id).map_err(wrong)?,
                    None => convert::to_table(batch.column(*place), field).map_err(wrong)?,
                },
                Source::Partition(text) => partition::constant(text.as_deref(), field, rows)
                    .ok_or_else(|| wrong(format!("its partition's value is no {}", field.type_name())))?,
                Source::Missing => new_null_array(&field.data_type.to_arrow(), rows),
            };
            Ok(column)
        };
        self.columns.iter().zip(&self.nested).map(column).collect()
    }

    fn place(&self) -> String {
        format!("{}/{}", self.store.url(), self.path)
    }

    fn corrupt(&self, why: impl ToString) -> StorageError {
        StorageError::corrupt(self.place(), why)
    }
}

/// Whether a column has nulls and may have none.
fn lacks_values(column: &ArrayRef, field: &Field) -> bool {
    !field.nullable && column.null_count() > 0
}

/// The columns, and the leaves of the file's schema that they need.
type Sources = (Vec<(Field, Source)>, Vec<usize>);

/// Where each column comes from, and the leaves of the file's schema that are needed, in its order.
fn sources(
    state: &TableState,
    file: &DataFile,
    columns: &[usize],
    metadata: &ArrowReaderMetadata,
) -> std::result::Result<Sources, String> {
    let parquet = metadata.parquet_schema();
    let roots = parquet.root_schema().get_fields();
    let id_of = |root: usize| {
        let info = roots[root].get_basic_info();
        info.has_id().then(|| info.id())
    };
    let ids = state.schema.ids.as_deref();
    if ids.is_some() && !roots.is_empty() && (0..roots.len()).all(|root| id_of(root).is_none()) {
        return Err("its columns have no field ids, by which the table maps its columns".to_owned());
    }
    let is_nested = |root: usize| {
        let info = roots[root].get_basic_info();
        roots[root].is_group() || info.has_repetition() && info.repetition() == Repetition::REPEATED
    };
    let root_of = |place: usize, field: &Field, name: &str| {
        let is_another = |given: &str| state.schema.physical.iter().any(|physical| physical == given);
        let root = match ids {
            Some(ids) => (0..roots.len()).find(|root| id_of(*root) == Some(ids[place])),
            None => alike::place_of(name, roots.iter().map(|root| root.name()), is_another)?,
        };
        // A value stands alone; what is nested in the file is no column of values, and not one of nulls either.
        let shaped = state.schema.nested.get(place).is_some_and(Option::is_some);
        match root.map(is_nested) {
            Some(true) if !shaped => {
                Err(format!("column {:?} is nested in the file, and not in the table", field.name))
            }
            Some(false) if shaped => {
                Err(format!("column {:?} is nested in the table, and not in the file", field.name))
            }
            _ => Ok(root),
        }
    };
    let mut found = Vec::new();
    for column in columns {
        let (field, name) = state.column(*column);
        let source = match state.partition_value(file, name) {
            Some(value) => Err(Source::Partition(value.map(str::to_owned))),
            None => root_of(*column, field, name)?.ok_or(Source::Missing),
        };
        found.push((field.clone(), source));
    }
    let mut wanted: Vec<usize> =
        found.iter().filter_map(|(_, source)| source.as_ref().ok().copied()).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let leaves_of = |root: usize| {
        (0..parquet.num_columns()).filter(move |leaf| parquet.get_column_root_idx(*leaf) == root)
    };
    let leaves: Vec<usize> = wanted.iter().flat_map(|root| leaves_of(*root)).collect();
    let place = |root: usize| {
        let place = wanted.binary_search(&root).invariant("the columns that were found are listed");
        // A struct without fields has no leaf, and Parquet no such struct.
        leaves_of(root).next().map(|leaf| Source::File { place, leaf })
    };
    let sources = found.into_iter().map(|(field, source)| {
        let source = match source {
            Ok(root) => place(root).ok_or("a column of it has no values")?,
            Err(source) => source,
        };
        Ok((field, source))
    });
    Ok((sources.collect::<std::result::Result<_, &'static str>>()?, leaves))
}

/// Runs what decodes bytes of a file on a thread that may block. A panic in there is an error of the file: the
/// libraries that decode are sound, and not all of them are free of panics when bytes lie.
pub(crate) async fn catching<T: Send + 'static, E: ToString + Send + 'static>(
    store: &Store,
    place: String,
    work: impl FnOnce() -> std::result::Result<T, E> + Send + 'static,
) -> Result<T> {
    match store.run(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(e)) => Err(StorageError::corrupt(place, e)),
        Err(_) => Err(StorageError::corrupt(place, "it cannot be decoded")),
    }
}

/// Some ranges of a file, in memory.
struct Chunks {
    chunks: Vec<(u64, Bytes)>,
}

impl Chunks {
    /// What there is from a place on.
    fn from(&self, start: u64) -> parquet::errors::Result<Bytes> {
        let chunk = self.chunks.iter().find_map(|(first, bytes)| {
            let skip = usize::try_from(start.checked_sub(*first)?).ok()?;
            (skip <= bytes.len()).then(|| bytes.slice(skip..)).filter(|rest| !rest.is_empty())
        });
        chunk.ok_or_else(|| ParquetError::EOF(format!("nothing was read at byte {start}")))
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        // Default: nothing was read.
        self.chunks.iter().map(|(start, bytes)| start + bytes.len() as u64).max().unwrap_or(0)
    }
}

impl ChunkReader for Chunks {
    type T = Box<dyn Read + Send>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(Box::new(self.from(start)?.reader()))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let bytes = self.from(start)?;
        if length > bytes.len() {
            return Err(ParquetError::EOF(format!("{length} bytes at byte {start} are more than were read")));
        }
        Ok(bytes.slice(..length))
    }
}
