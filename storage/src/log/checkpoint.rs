//! Writing a checkpoint: what a replay up to a version gives, as one Parquet file (a classic one of the V1 kind).

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray, StructArray,
    builder::{ListBuilder, MapBuilder, MapFieldNames, StringBuilder},
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema};
use basalt_core::invariant::Invariant;
use parquet::{
    arrow::{ArrowWriter, arrow_writer::ArrowWriterOptions},
    basic::{Compression, ZstdLevel},
    errors::ParquetError,
    file::{metadata::KeyValue, properties::WriterProperties},
};

use super::{
    LastCheckpoint, TableLog,
    actions::{Add, Descriptor, Metadata, Protocol, Remove, StringMap, Txn},
    names, protocol,
    state::{TableState, tombstone_age},
};
use crate::{
    data::{digest, page_checksums},
    error::{Result, StorageError},
    limits::{CHECKPOINT_EVERY, CHECKPOINT_GROUP_ROWS, CHECKPOINT_ROWS, REQUEST_AGE},
};

/// A checkpoint of so many actions is compressed. In a smaller one, most columns of which are empty, it takes longer to
/// begin that for each of them, to write it and whenever it is read, than everything else does.
const COMPRESSED_ACTIONS: usize = 256;

impl TableState {
    /// Whether enough versions have come since the last checkpoint for another one. A table that another writer has
    /// changed so that Basalt may not write to it gets none: it would lack what Basalt does not know.
    pub fn needs_checkpoint(&self) -> bool {
        let is_writable =
            || protocol::check_writable(&self.protocol, &self.metadata, self.schema.has_invariants).is_ok();
        // Default: without a checkpoint all versions are behind it.
        self.version - self.checkpoint.unwrap_or(0) >= CHECKPOINT_EVERY && is_writable()
    }

    /// The same state, which also knows of the checkpoint that an earlier one, or one of its own version, knows of: it may have
    /// been made while that was written.
    #[must_use]
    pub fn with_checkpoint_of(self: Arc<Self>, earlier: &Self) -> Arc<Self> {
        let is_earlier = earlier.version <= self.version && earlier.id() == self.id();
        if !is_earlier || earlier.checkpoint <= self.checkpoint {
            return self;
        }
        let mut next = Self::clone(&self);
        next.checkpoint = earlier.checkpoint;
        Arc::new(next)
    }
}

impl TableLog {
    /// Writes a checkpoint of a state, from which later readers start. The state that comes back knows of it.
    ///
    /// # Errors
    /// [`StorageError::Store`]; the table is as before.
    pub async fn checkpoint(&self, state: &Arc<TableState>) -> Result<Arc<TableState>> {
        let (written, keep, now) = (Arc::clone(state), self.keep_millis(), self.store().now_millis());
        let encoded = self.store().run(move || encode(&written, keep, now)).await;
        let encoded = encoded.map_err(|e| StorageError::corrupt("a checkpoint", e))?;
        let (bytes, size) = encoded.map_err(|e| StorageError::corrupt("a checkpoint", e))?;
        let num_of_add_files = Some(state.files.len() as u64);
        let version = state.version;
        let last = LastCheckpoint {
            version,
            size,
            parts: None,
            size_in_bytes: Some(bytes.len() as u64),
            num_of_add_files,
        };
        self.store().put(&names::checkpoint(version), bytes).await?;
        // Another node may have gone further meanwhile; readers look for newer ones behind the hint.
        let hint = serde_json::to_vec(&last).map_err(|e| StorageError::corrupt("a checkpoint", e))?;
        self.store().put(names::LAST_CHECKPOINT, hint).await?;
        let mut next = TableState::clone(state);
        next.checkpoint = Some(version);
        Ok(Arc::new(next))
    }
}

/// Some of the actions of a checkpoint.
#[derive(Default)]
struct Rows {
    protocol: Option<Protocol>,
    metadata: Option<Arc<Metadata>>,
    txns: Vec<Txn>,
    adds: Vec<Add>,
    removes: Vec<Remove>,
}

/// The actions of a checkpoint, some at a time: as they are written they take several times the memory of a state.
fn rows(state: &TableState, keep: i64, now: i64) -> impl Iterator<Item = Rows> {
    let requests = state.requests().filter(move |done| now.saturating_sub(done.at_millis) <= REQUEST_AGE);
    let requests = requests.map(|done| done.request.to_txn(done.version, done.at_millis));
    let mut txns = state.txns.values().cloned().chain(requests);
    // What a checkpoint has is no change of data.
    let mut adds = state.files.values().map(|file| file.to_add(false));
    let removed = state.removed().filter(move |(_, _, at)| now.saturating_sub(*at) <= tombstone_age(keep));
    let mut removes = removed.map(|(path, vector, at)| Remove {
        path: path.to_owned(),
        deletion_timestamp: Some(at),
        data_change: false,
        extended_file_metadata: None,
        partition_values: None,
        size: None,
        deletion_vector: vector.cloned(),
    });
    let first = Rows {
        protocol: Some(state.protocol.clone()),
        metadata: Some(Arc::clone(&state.metadata)),
        ..Rows::default()
    };
    let rest = std::iter::from_fn(move || {
        let mut rows = Rows { txns: txns.by_ref().take(CHECKPOINT_ROWS).collect(), ..Rows::default() };
        if rows.txns.is_empty() {
            rows.adds = adds.by_ref().take(CHECKPOINT_ROWS).collect();
        }
        if rows.txns.is_empty() && rows.adds.is_empty() {
            rows.removes = removes.by_ref().take(CHECKPOINT_ROWS).collect();
        }
        (rows.len() > 0).then_some(rows)
    });
    std::iter::once(first).chain(rest)
}

impl Rows {
    fn len(&self) -> usize {
        let once = usize::from(self.protocol.is_some()) + usize::from(self.metadata.is_some());
        once + self.txns.len() + self.adds.len() + self.removes.len()
    }
}

/// A struct column in the making.
struct Column {
    name: &'static str,
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
    validity: NullBuffer,
}

impl Column {
    fn new(name: &'static str, valid: Vec<bool>) -> Self {
        Self { name, fields: Vec::new(), arrays: Vec::new(), validity: NullBuffer::from(valid) }
    }

    #[must_use]
    fn with(mut self, name: &str, array: ArrayRef) -> Self {
        self.fields.push(Field::new(name, array.data_type().clone(), true));
        self.arrays.push(array);
        self
    }

    fn finish(self) -> std::result::Result<(Field, ArrayRef), ArrowError> {
        let fields = Fields::from(self.fields);
        let field = Field::new(self.name, DataType::Struct(fields.clone()), true);
        Ok((field, Arc::new(StructArray::try_new(fields, self.arrays, Some(self.validity))?)))
    }
}

/// What every row of the checkpoint has in a field of one kind of action: rows of other kinds have nothing.
struct Placed<'a, T> {
    values: &'a [T],
    first: usize,
    rows: usize,
}

impl<'a, T> Placed<'a, T> {
    fn iter(&self) -> impl Iterator<Item = Option<&'a T>> {
        (0..self.rows).map(|row| self.values.get(row.checked_sub(self.first)?))
    }

    fn column(&self, name: &'static str) -> Column {
        Column::new(name, self.iter().map(|value| value.is_some()).collect())
    }

    fn texts<'b>(&self, get: impl Fn(&'a T) -> Option<&'b str>) -> ArrayRef {
        Arc::new(self.iter().map(|value| get(value?)).collect::<StringArray>())
    }

    fn longs(&self, get: impl Fn(&'a T) -> Option<i64>) -> ArrayRef {
        Arc::new(self.iter().map(|value| get(value?)).collect::<Int64Array>())
    }

    fn ints(&self, get: impl Fn(&'a T) -> Option<i32>) -> ArrayRef {
        Arc::new(self.iter().map(|value| get(value?)).collect::<Int32Array>())
    }

    fn bools(&self, get: impl Fn(&'a T) -> Option<bool>) -> ArrayRef {
        Arc::new(self.iter().map(|value| get(value?)).collect::<BooleanArray>())
    }

    fn maps(
        &self,
        get: impl Fn(&'a T) -> Option<&'a StringMap>,
    ) -> std::result::Result<ArrayRef, ArrowError> {
        let names = MapFieldNames { entry: "key_value".into(), key: "key".into(), value: "value".into() };
        let mut builder = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
        for value in self.iter() {
            let map = value.and_then(&get);
            for (key, value) in map.into_iter().flatten() {
                builder.keys().append_value(key);
                builder.values().append_option(value.as_deref());
            }
            builder.append(map.is_some())?;
        }
        Ok(Arc::new(builder.finish()))
    }

    fn lists(&self, get: impl Fn(&'a T) -> Option<&'a Vec<String>>) -> ArrayRef {
        let mut builder =
            ListBuilder::new(StringBuilder::new()).with_field(Field::new("element", DataType::Utf8, true));
        for value in self.iter() {
            let list = value.and_then(&get);
            list.into_iter().flatten().for_each(|text| builder.values().append_value(text));
            builder.append(list.is_some());
        }
        Arc::new(builder.finish())
    }

    fn vectors(
        &self,
        get: impl Fn(&'a T) -> Option<&'a Descriptor>,
    ) -> std::result::Result<ArrayRef, ArrowError> {
        let valid = self.iter().map(|value| value.and_then(&get).is_some()).collect();
        let int = |n: u32| Some(i32::try_from(n).invariant(NARROW));
        let column = Column::new("deletionVector", valid)
            .with("storageType", self.texts(|value| Some(&get(value)?.storage_type)))
            .with("pathOrInlineDv", self.texts(|value| Some(&get(value)?.path_or_inline_dv)))
            .with("offset", self.ints(|value| int(get(value)?.offset?)))
            .with("sizeInBytes", self.ints(|value| int(get(value)?.size_in_bytes)))
            .with("cardinality", self.longs(|value| long(get(value)?.cardinality)));
        Ok(column.finish()?.1)
    }
}

/// What replaying a log sees to.
const NARROW: &str = "the numbers of a file are as wide as the protocol has them";

fn long(n: u64) -> Option<i64> {
    Some(i64::try_from(n).invariant(NARROW))
}

/// Some of the actions as columns, all batches with the same: those of the table's protocol.
fn batch(rows: &Rows, of: &Protocol) -> std::result::Result<RecordBatch, ArrowError> {
    let total = rows.len();
    let protocol = Placed { values: rows.protocol.as_slice(), first: 0, rows: total };
    let metadata = rows.metadata.as_deref().map(std::slice::from_ref);
    // Default: none among these actions.
    let metadata = Placed { values: metadata.unwrap_or_default(), first: 1, rows: total };
    let first = protocol.values.len() + metadata.values.len();
    let txns = Placed { values: &rows.txns, first, rows: total };
    let adds = Placed { values: &rows.adds, first: first + rows.txns.len(), rows: total };
    let removes = Placed { values: &rows.removes, first: total - rows.removes.len(), rows: total };

    let mut versions = protocol
        .column("protocol")
        .with("minReaderVersion", protocol.ints(|p| Some(p.min_reader_version)))
        .with("minWriterVersion", protocol.ints(|p| Some(p.min_writer_version)));
    // Versions that have no features have no columns for them, either.
    if of.reader_features.is_some() {
        versions = versions.with("readerFeatures", protocol.lists(|p| p.reader_features.as_ref()));
    }
    if of.writer_features.is_some() {
        versions = versions.with("writerFeatures", protocol.lists(|p| p.writer_features.as_ref()));
    }
    let format = metadata
        .column("format")
        .with("provider", metadata.texts(|m| Some(&m.format.provider)))
        .with("options", metadata.maps(|m| Some(&m.format.options))?);
    let columns = [
        versions,
        metadata
            .column("metaData")
            .with("id", metadata.texts(|m| Some(&m.id)))
            .with("name", metadata.texts(|m| m.name.as_deref()))
            .with("description", metadata.texts(|m| m.description.as_deref()))
            .with("format", format.finish()?.1)
            .with("schemaString", metadata.texts(|m| m.schema_string.as_deref()))
            .with("partitionColumns", metadata.lists(|m| Some(&m.partition_columns)))
            .with("createdTime", metadata.longs(|m| m.created_time))
            .with("configuration", metadata.maps(|m| Some(&m.configuration))?),
        txns.column("txn")
            .with("appId", txns.texts(|t| Some(&t.app_id)))
            .with("version", txns.longs(|t| Some(t.version)))
            .with("lastUpdated", txns.longs(|t| t.last_updated)),
        adds.column("add")
            .with("path", adds.texts(|a| Some(&a.path)))
            .with("partitionValues", adds.maps(|a| Some(&a.partition_values))?)
            .with("size", adds.longs(|a| long(a.size)))
            .with("modificationTime", adds.longs(|a| Some(a.modification_time)))
            .with("dataChange", adds.bools(|a| Some(a.data_change)))
            .with("stats", adds.texts(|a| a.stats.as_deref()))
            .with("tags", adds.maps(|a| a.tags.as_ref())?)
            .with("deletionVector", adds.vectors(|a| a.deletion_vector.as_ref())?),
        removes
            .column("remove")
            .with("path", removes.texts(|r| Some(&r.path)))
            .with("deletionTimestamp", removes.longs(|r| r.deletion_timestamp))
            .with("dataChange", removes.bools(|r| Some(r.data_change)))
            .with("deletionVector", removes.vectors(|r| r.deletion_vector.as_ref())?),
    ];
    let columns = columns.into_iter().map(Column::finish).collect::<std::result::Result<Vec<_>, _>>()?;
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

/// The checkpoint of a state, and how many actions are in it.
fn encode(state: &TableState, keep: i64, now: i64) -> std::result::Result<(Vec<u8>, u64), ParquetError> {
    let most = state.files.len() + state.txns.len() + state.requests().count() + state.removed().count();
    let compression = match most < COMPRESSED_ACTIONS {
        true => Compression::UNCOMPRESSED,
        false => Compression::ZSTD(ZstdLevel::try_new(1)?),
    };
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(CHECKPOINT_GROUP_ROWS))
        // Parquet's names for the parts of lists and maps.
        .set_coerce_types(true)
        .set_key_value_metadata(Some(vec![KeyValue::new(
            digest::SEAL.to_owned(),
            digest::UNSEALED.to_owned(),
        )]))
        .set_created_by(concat!("basalt version ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let (mut bytes, mut actions) = (Vec::new(), 0);
    let schema = batch(&Rows::default(), &state.protocol)?.schema();
    let mut writer = ArrowWriter::try_new_with_options(&mut bytes, schema, options)?;
    for rows in rows(state, keep, now) {
        writer.write(&batch(&rows, &state.protocol)?)?;
        actions += rows.len() as u64;
    }
    let metadata = writer.close()?;
    let (mut file, _) = page_checksums::add(&bytes, &metadata)?;
    let no_place = || ParquetError::General("a checkpoint has no place for its digest".to_owned());
    digest::seal(&mut file).ok_or_else(no_place)?;
    Ok((file, actions))
}
