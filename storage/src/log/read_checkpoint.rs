//! Reading the Parquet files of a checkpoint of any writer, and its sidecars: the columns that are needed, by their names.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int32Array, Int64Array, ListArray, MapArray, RecordBatch, StringArray,
    StructArray,
};
use basalt_nested::parquet::Groups;
use parquet::arrow::{
    ProjectionMask,
    arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
};

use super::{
    actions::{
        Action, Add, CheckpointActions, CheckpointMetadata, Descriptor, Format, Metadata, Protocol, Remove,
        Sidecar, StringMap, Txn,
    },
    checkpoints::Manifest,
    replay::Replay,
};
use crate::{
    data::{catching, digest, footer},
    error::Result,
    limits::{CHECKPOINT_BYTES, CHECKPOINT_ROWS, PAGE_BYTES},
    store::Store,
};

/// What is read of a checkpoint beside what a sidecar has as well.
const COLUMNS: &[&str] =
    &["protocol", "metaData", "txn", "checkpointMetadata.version", "sidecar.path", "sidecar.sizeInBytes"];

/// What is read of a checkpoint and of a sidecar. Of the statistics that are columns, the number of rows is enough.
const FILES: &[&str] = &[
    "add.path",
    "add.partitionValues",
    "add.size",
    "add.modificationTime",
    "add.dataChange",
    "add.stats",
    "add.stats_parsed.numRecords",
    "add.tags",
    "add.deletionVector",
    "remove.path",
    "remove.deletionTimestamp",
    "remove.deletionVector",
];

/// Replays a file of a checkpoint.
pub(super) async fn read(
    store: &Store,
    path: &str,
    replay: Replay,
    manifest: Manifest,
) -> Result<(Replay, Manifest)> {
    let take =
        |(replay, manifest): &mut (Replay, Manifest), found: CheckpointActions| manifest.take(found, replay);
    let is_wanted = |column: &str| is_of(COLUMNS, column) || is_of(FILES, column);
    replayed(store, path, None, is_wanted, (replay, manifest), take).await
}

/// Replays a sidecar of the checkpoint of a version, which says nothing but what is of data files.
pub(super) async fn read_sidecar(
    store: &Store,
    path: &str,
    size: u64,
    version: u64,
    replay: Replay,
) -> Result<Replay> {
    let take =
        move |replay: &mut Replay, found: CheckpointActions| replay.apply_checkpoint(version, found.actions);
    replayed(store, path, Some(size), |column| is_of(FILES, column), replay, take).await
}

/// Whether a column is one of some, or a part of one.
fn is_of(columns: &[&str], column: &str) -> bool {
    let is_part = |rest: &str| rest.is_empty() || rest.starts_with('.');
    columns.iter().any(|of| column.strip_prefix(of).is_some_and(is_part))
}

/// Replays a file, of a size where that is known, some actions at a time: all of a large table take several times the
/// memory of its state.
async fn replayed<T: Send + 'static>(
    store: &Store,
    path: &str,
    size: Option<u64>,
    is_wanted: fn(&str) -> bool,
    mut replay: T,
    take: impl Fn(&mut T, CheckpointActions) -> Result<()> + Send + 'static,
) -> Result<T> {
    let place = format!("{}/{path}", store.url());
    let metadata = footer::read(store, path, size, |_| Ok(())).await?;
    let bytes = store.get_known(path, CHECKPOINT_BYTES).await?;
    catching(store, place, move || {
        digest::check_seal(&bytes).map_err(Unreadable)?;
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::try_new(metadata, options)?;
        let schema = metadata.parquet_schema();
        let wanted = |leaf: &usize| is_wanted(&schema.column(*leaf).path().string());
        let projection = ProjectionMask::leaves(schema, (0..schema.num_columns()).filter(wanted));
        let all = (0..metadata.metadata().num_row_groups()).collect();
        let groups = Groups::new(bytes, Arc::clone(metadata.metadata()), all, PAGE_BYTES);
        let reader = groups.read(projection, None, None, CHECKPOINT_ROWS)?;
        for batch in reader {
            if let Err(error) = take(&mut replay, actions_of(&batch?)?) {
                return Ok(Err(error));
            }
        }
        Ok::<_, Unreadable>(Ok(replay))
    })
    .await?
}

/// What is wrong with a checkpoint.
struct Unreadable(String);

impl<E: std::error::Error> From<E> for Unreadable {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

type Read<T> = std::result::Result<T, Unreadable>;

/// A struct column at a row.
#[derive(Clone, Copy)]
struct Row<'a> {
    column: &'a StructArray,
    row: usize,
}

impl<'a> Row<'a> {
    fn child<T: Array + 'static>(self, name: &str) -> Read<Option<&'a T>> {
        let Some(array) = self.column.column_by_name(name) else { return Ok(None) };
        let typed = array.as_any().downcast_ref::<T>();
        let typed =
            typed.ok_or_else(|| Unreadable(format!("{name} is of the type {}", array.data_type())))?;
        Ok(typed.is_valid(self.row).then_some(typed))
    }

    fn text(self, name: &str) -> Read<Option<String>> {
        Ok(self.child::<StringArray>(name)?.map(|array| array.value(self.row).to_owned()))
    }

    fn long(self, name: &str) -> Read<Option<i64>> {
        Ok(self.child::<Int64Array>(name)?.map(|array| array.value(self.row)))
    }

    fn int(self, name: &str) -> Read<Option<i32>> {
        Ok(self.child::<Int32Array>(name)?.map(|array| array.value(self.row)))
    }

    fn bool(self, name: &str) -> Read<Option<bool>> {
        Ok(self.child::<BooleanArray>(name)?.map(|array| array.value(self.row)))
    }

    fn row(self, name: &str) -> Read<Option<Self>> {
        Ok(self.child::<StructArray>(name)?.map(|column| Row { column, row: self.row }))
    }

    fn list(self, name: &str) -> Read<Option<Vec<String>>> {
        let Some(list) = self.child::<ListArray>(name)? else { return Ok(None) };
        Ok(Some(texts(&list.value(self.row), name)?.into_iter().flatten().collect()))
    }

    fn map(self, name: &str) -> Read<Option<StringMap>> {
        let Some(map) = self.child::<MapArray>(name)? else { return Ok(None) };
        let entries = map.value(self.row);
        let keys = texts(entries.column(0), name)?;
        let values = texts(entries.column(1), name)?;
        Ok(Some(keys.into_iter().zip(values).filter_map(|(key, value)| Some((key?, value))).collect()))
    }
}

fn texts(array: &ArrayRef, name: &str) -> Read<Vec<Option<String>>> {
    let texts = array.as_any().downcast_ref::<StringArray>();
    let texts =
        texts.ok_or_else(|| Unreadable(format!("{name} holds values of the type {}", array.data_type())))?;
    Ok(texts.iter().map(|text| text.map(str::to_owned)).collect())
}

fn missing<T>(value: Option<T>, name: &str) -> Read<T> {
    value.ok_or_else(|| Unreadable(format!("an action has no {name}")))
}

fn unsigned<T: TryFrom<i64>>(value: Option<i64>, name: &str) -> Read<T> {
    let value = missing(value, name)?;
    T::try_from(value).map_err(|_| Unreadable(format!("{name} is {value}")))
}

fn actions_of(batch: &RecordBatch) -> Read<CheckpointActions> {
    let whole = StructArray::from(batch.clone());
    let mut found = CheckpointActions::default();
    let actions = &mut found.actions;
    for row in 0..batch.num_rows() {
        let row = Row { column: &whole, row };
        if let Some(protocol) = row.row("protocol")? {
            actions.push(Action::Protocol(Protocol {
                min_reader_version: missing(protocol.int("minReaderVersion")?, "minReaderVersion")?,
                min_writer_version: missing(protocol.int("minWriterVersion")?, "minWriterVersion")?,
                reader_features: protocol.list("readerFeatures")?,
                writer_features: protocol.list("writerFeatures")?,
            }));
        }
        if let Some(metadata) = row.row("metaData")? {
            actions.push(Action::MetaData(metadata_of(metadata)?));
        }
        if let Some(txn) = row.row("txn")? {
            actions.push(Action::Txn(Txn {
                app_id: missing(txn.text("appId")?, "appId")?,
                version: missing(txn.long("version")?, "version")?,
                last_updated: txn.long("lastUpdated")?,
            }));
        }
        if let Some(add) = row.row("add")? {
            let parsed = match add.row("stats_parsed")? {
                Some(stats) => stats.long("numRecords")?.map(|rows| format!("{{\"numRecords\":{rows}}}")),
                None => None,
            };
            actions.push(Action::Add(Add {
                path: missing(add.text("path")?, "path")?,
                // Default: a table without partitions may leave them out, as the time and what is true of all.
                partition_values: add.map("partitionValues")?.unwrap_or_default(),
                size: unsigned(add.long("size")?, "size")?,
                // Default: as above.
                modification_time: add.long("modificationTime")?.unwrap_or(0),
                // Default: what a checkpoint has is no change.
                data_change: add.bool("dataChange")?.unwrap_or(false),
                stats: add.text("stats")?.or(parsed),
                tags: add.map("tags")?,
                deletion_vector: vector(add)?,
            }));
        }
        if let Some(remove) = row.row("remove")? {
            actions.push(Action::Remove(Remove {
                path: missing(remove.text("path")?, "path")?,
                deletion_timestamp: remove.long("deletionTimestamp")?,
                data_change: false,
                extended_file_metadata: None,
                partition_values: None,
                size: None,
                deletion_vector: vector(remove)?,
            }));
        }
        if let Some(metadata) = row.row("checkpointMetadata")? {
            let version = unsigned(metadata.long("version")?, "version")?;
            found.metadata.push(CheckpointMetadata { version });
        }
        if let Some(sidecar) = row.row("sidecar")? {
            found.sidecars.push(Sidecar {
                path: missing(sidecar.text("path")?, "path")?,
                size_in_bytes: unsigned(sidecar.long("sizeInBytes")?, "sizeInBytes")?,
            });
        }
    }
    Ok(found)
}

fn metadata_of(metadata: Row<'_>) -> Read<Metadata> {
    let format = missing(metadata.row("format")?, "format")?;
    Ok(Metadata {
        id: missing(metadata.text("id")?, "id")?,
        name: metadata.text("name")?,
        description: metadata.text("description")?,
        format: Format {
            provider: missing(format.text("provider")?, "provider")?,
            // Default: none, as for the partitions and the configuration.
            options: format.map("options")?.unwrap_or_default(),
        },
        schema_string: metadata.text("schemaString")?,
        // Default: none.
        partition_columns: metadata.list("partitionColumns")?.unwrap_or_default(),
        created_time: metadata.long("createdTime")?,
        // Default: none.
        configuration: metadata.map("configuration")?.unwrap_or_default(),
    })
}

fn vector(action: Row<'_>) -> Read<Option<Descriptor>> {
    let Some(vector) = action.row("deletionVector")? else { return Ok(None) };
    Ok(Some(Descriptor {
        storage_type: missing(vector.text("storageType")?, "storageType")?,
        path_or_inline_dv: missing(vector.text("pathOrInlineDv")?, "pathOrInlineDv")?,
        offset: vector
            .int("offset")?
            .map(|offset| unsigned(Some(i64::from(offset)), "offset"))
            .transpose()?,
        size_in_bytes: unsigned(vector.int("sizeInBytes")?.map(i64::from), "sizeInBytes")?,
        cardinality: unsigned(vector.long("cardinality")?, "cardinality")?,
    }))
}
