//! Checkpoints of the V2 kind: named by a UUID or after the version, in JSON or Parquet, with sidecars or without.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow_array::{Array as _, ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields, Schema};
use arrow_select::{concat::concat_batches, filter::filter_record_batch};
use basalt_sip::Sip;
use basalt_storage::{Change, StorageError, Store, TableLog, TableState};
use parquet::arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder};
use serde_json::{Value, json};

use crate::support::{append, commit, numbers, shown, table};

const ID: &str = "80a083e8-7026-4e79-81be-64bd76c43a11";

/// A table with deleted rows and removed files, upgraded to the feature, that has a checkpoint of the V1 kind.
struct Fixture {
    _folder: tempfile::TempDir,
    log: PathBuf,
    table: TableLog,
    version: u64,
    /// The state of an earlier version.
    early: Arc<TableState>,
    /// The actions of the checkpoint.
    rows: RecordBatch,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().to_str().unwrap()).unwrap();
        let (table, mut state) = table(&store).await;
        for i in 0..5 {
            state = append(&table, &state, 10 * i..10 * i + 10).await.state;
        }
        let deletions = vec![(1, Sip::from_sorted_ids(&[3, 5]))];
        let change = Change { remove: vec![0], deletions, ..Change::default() };
        state = commit(&table, &state, &change).await.state;
        let early = Arc::clone(&state);
        let log = folder.path().join("tables/t/_delta_log");
        let features = json!(["deletionVectors", "v2Checkpoint"]);
        let protocol = json!({"protocol": {
            "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features,
        }});
        let version = state.version() + 1;
        fs::write(log.join(format!("{version:020}.json")), format!("{protocol}\n")).unwrap();
        let state = table.load().await.unwrap();
        assert_eq!(state.version(), version);
        table.checkpoint(&state).await.unwrap();
        let path = log.join(format!("{version:020}.checkpoint.parquet"));
        let rows = read(&path);
        fs::remove_file(path).unwrap();
        fs::remove_file(log.join("_last_checkpoint")).unwrap();
        fs::create_dir(log.join("_sidecars")).unwrap();
        Self { _folder: folder, log, table, version, early, rows }
    }

    fn of_version(&self, end: &str) -> PathBuf {
        self.log.join(format!("{:020}.{end}", self.version))
    }

    /// The actions that sidecars have, or the others.
    fn part(&self, is_of_files: bool) -> RecordBatch {
        let valid = |name: &str| self.rows.column_by_name(name).unwrap().clone();
        let (add, remove) = (valid("add"), valid("remove"));
        let wanted =
            (0..self.rows.num_rows()).map(|i| (add.is_valid(i) || remove.is_valid(i)) == is_of_files);
        let rows = filter_record_batch(&self.rows, &wanted.map(Some).collect::<BooleanArray>()).unwrap();
        let schema = rows.schema();
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let places = names.enumerate().filter(|(_, name)| matches!(*name, "add" | "remove") == is_of_files);
        rows.project(&places.map(|(place, _)| place).collect::<Vec<_>>()).unwrap()
    }

    /// Writes the actions of files into two sidecars; the actions that name them.
    fn sidecars(&self) -> Vec<Value> {
        let files = self.part(true);
        let half = files.num_rows() / 2;
        let halves = [files.slice(0, half), files.slice(half, files.num_rows() - half)];
        let names = ["one.parquet", "the other%.parquet"];
        let sidecars = halves.iter().zip(names).map(|(rows, name)| {
            let bytes = write(&self.log.join("_sidecars").join(name), rows);
            let name = name.replace('%', "%25").replace(' ', "%20");
            json!({"sidecar": {"path": name, "sizeInBytes": bytes, "modificationTime": 0, "tags": {}}})
        });
        sidecars.collect()
    }

    fn metadata(&self) -> Value {
        json!({"checkpointMetadata": {"version": self.version, "tags": {"numOfAddFiles": "4"}}})
    }

    /// A checkpoint in Parquet of these actions besides others.
    fn parquet(&self, path: &Path, rows: &RecordBatch, more: &[Value]) {
        let of = |kind: &str| -> Vec<&Value> {
            more.iter().filter(|line| line[kind].is_object()).map(|line| &line[kind]).collect()
        };
        let (sidecars, metadata) = (of("sidecar"), of("checkpointMetadata"));
        let texts: StringArray = sidecars.iter().map(|s| s["path"].as_str()).collect();
        let longs = |values: &[&Value], name: &str| -> ArrayRef {
            Arc::new(values.iter().map(|value| value[name].as_i64()).collect::<Int64Array>())
        };
        let sidecar =
            column("sidecar", &[("path", Arc::new(texts)), ("sizeInBytes", longs(&sidecars, "sizeInBytes"))]);
        let metadata = column("checkpointMetadata", &[("version", longs(&metadata, "version"))]);
        let parts = [rows.clone(), sidecar, metadata];
        // Rows of each kind have nothing in the columns of the others.
        let fields: Vec<_> = parts.iter().flat_map(|part| part.schema().fields().to_vec()).collect();
        let schema = Arc::new(Schema::new(fields));
        let wide = parts.iter().map(|part| {
            let columns = schema.fields().iter().map(|field| match part.column_by_name(field.name()) {
                Some(column) => Arc::clone(column),
                None => arrow_array::new_null_array(field.data_type(), part.num_rows()),
            });
            RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap()
        });
        write(path, &concat_batches(&schema, &wide.collect::<Vec<_>>()).unwrap());
    }

    /// A checkpoint in JSON of the same: the commits have its actions as lines.
    fn json(&self, path: &Path, with_files: bool, more: &[Value]) {
        let mut lines: Vec<Value> = more.to_vec();
        let mut txns = std::collections::BTreeMap::new();
        let (mut protocol, mut metadata) = (Value::Null, Value::Null);
        let (mut adds, mut removes) = (std::collections::BTreeMap::new(), Vec::new());
        for version in 0..=self.version {
            let text = fs::read_to_string(self.log.join(format!("{version:020}.json"))).unwrap();
            for line in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
                let (kind, value) = line.as_object().unwrap().iter().next().unwrap();
                let path = value["path"].to_string();
                match kind.as_str() {
                    "protocol" => protocol = line.clone(),
                    "metaData" => metadata = line.clone(),
                    "txn" => drop(txns.insert(value["appId"].to_string(), line.clone())),
                    "remove" => {
                        adds.remove(&path);
                        removes.push(line.clone());
                    }
                    "add" => drop(adds.insert(path, line.clone())),
                    _ => {}
                }
            }
        }
        lines.extend([protocol, metadata].into_iter().chain(txns.into_values()));
        if with_files {
            lines.extend(adds.into_values().chain(removes));
        }
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(path, text).unwrap();
    }

    /// Removes the versions, all but the last: the checkpoint has taken their place.
    fn remove_versions(&self) {
        for version in 0..self.version {
            fs::remove_file(self.log.join(format!("{version:020}.json"))).unwrap();
        }
    }

    async fn error(&self) -> StorageError {
        self.table.load().await.unwrap_err()
    }
}

fn read(path: &Path) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let batches: Vec<_> = reader.build().unwrap().collect::<Result<_, _>>().unwrap();
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

fn write(path: &Path, rows: &RecordBatch) -> u64 {
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), rows.schema(), None).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    fs::metadata(path).unwrap().len()
}

/// A column of structs.
fn column(name: &str, fields: &[(&str, ArrayRef)]) -> RecordBatch {
    let rows = fields[0].1.len();
    let types = fields.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let types: Fields = types.collect();
    let arrays = fields.iter().map(|(_, array)| Arc::clone(array)).collect();
    let column = StructArray::new(types.clone(), arrays, Some(NullBuffer::new_valid(rows)));
    let schema = Schema::new(vec![Field::new(name, DataType::Struct(types), true)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(column)]).unwrap()
}

#[tokio::test]
async fn checkpoints_of_every_name_and_form_are_read() {
    let kinds = [
        "checkpoint.parquet".to_owned(),
        format!("checkpoint.{ID}.parquet"),
        format!("checkpoint.{ID}.json"),
    ];
    for (kind, has_sidecars) in kinds.iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let of = Fixture::new().await;
        let state = of.table.load().await.unwrap();
        let (told, rows) = (shown(&state), numbers(&of.table, &state).await);
        let mut more = vec![of.metadata()];
        if has_sidecars {
            more.extend(of.sidecars());
        }
        let path = of.of_version(kind);
        match (kind.ends_with(".json"), has_sidecars) {
            (true, _) => of.json(&path, !has_sidecars, &more),
            (false, true) => of.parquet(&path, &of.part(false), &more),
            (false, false) => of.parquet(&path, &of.rows, &more),
        }
        // Writers put the whole checkpoint into the hint, too.
        let name = path.file_name().unwrap().to_str().unwrap();
        let hint =
            json!({"version": of.version, "size": 1, "v2Checkpoint": {"path": name, "nonFileActions": more}});
        fs::write(of.log.join("_last_checkpoint"), hint.to_string()).unwrap();
        of.remove_versions();

        let loaded = of.table.load().await.unwrap();
        assert_eq!(shown(&loaded), told, "{kind} {has_sidecars}");
        assert_eq!(numbers(&of.table, &loaded).await, rows);
        // Who was behind goes on from there, and it is followed.
        assert_eq!(shown(&of.table.refresh(&of.early).await.unwrap()), told);
        let next = of.log.join(format!("{:020}.json", of.version + 1));
        fs::write(next, "{\"txn\":{\"appId\":\"x\",\"version\":1}}\n").unwrap();
        assert_eq!(of.table.refresh(&loaded).await.unwrap().version(), of.version + 1);
        assert_eq!(of.table.load().await.unwrap().version(), of.version + 1);
    }
}

#[tokio::test]
async fn such_a_table_is_not_written_to_and_keeps_its_log() {
    let of = Fixture::new().await;
    let state = of.table.load().await.unwrap();
    let change = Change { remove: vec![2], ..Change::default() };
    let error = of.table.commit(&state, &change).await.unwrap_err();
    assert!(error.to_string().contains("v2Checkpoint of writers"), "{error}");
    assert!(!state.needs_checkpoint());
    of.table.vacuum(&state).await.unwrap();
    assert_eq!(of.table.load().await.unwrap().version(), of.version);
}

#[tokio::test]
async fn a_checkpoint_that_lacks_a_sidecar_is_passed_over() {
    let of = Fixture::new().await;
    let state = of.table.load().await.unwrap();
    let more = [vec![of.metadata()], of.sidecars()].concat();
    of.json(&of.of_version(&format!("checkpoint.{ID}.json")), false, &more);
    fs::remove_file(of.log.join("_sidecars/one.parquet")).unwrap();
    // As long as what it stands for is there.
    assert_eq!(shown(&of.table.load().await.unwrap()), shown(&state));
    let other = of.of_version("checkpoint.parquet");
    of.parquet(&other, &of.rows, &[of.metadata()]);
    of.remove_versions();
    assert_eq!(shown(&of.table.load().await.unwrap()), shown(&state));
    fs::remove_file(&other).unwrap();
    let error = of.error().await;
    assert!(matches!(&error, StorageError::Missing { path } if path.ends_with("one.parquet")), "{error}");
    // An older checkpoint without the versions behind it is not the newest state.
    fs::remove_file(of.of_version("json")).unwrap();
    let older = of.log.join(format!("{:020}.checkpoint.parquet", of.version - 1));
    of.parquet(&older, &of.rows, &[]);
    let error = of.error().await;
    assert!(matches!(&error, StorageError::Missing { .. }), "{error}");
}

#[tokio::test]
async fn checkpoints_that_lie_are_refused_with_a_reason() {
    let of = Fixture::new().await;
    let (metadata, sidecars) = (of.metadata(), of.sidecars());
    of.remove_versions();
    let secret = of.log.join("one.parquet");
    fs::copy(of.log.join("_sidecars/one.parquet"), &secret).unwrap();
    let named = |path: &str| {
        let mut sidecar = sidecars[0].clone();
        sidecar["sidecar"]["path"] = json!(path);
        vec![metadata.clone(), sidecar]
    };
    let with = |kind: &str, field: &str, value: Value| {
        let mut lines = vec![metadata.clone(), sidecars[0].clone()];
        lines
            .iter_mut()
            .filter(|line| line[kind].is_object())
            .for_each(|line| line[kind][field] = value.clone());
        lines
    };
    let path = of.of_version(&format!("checkpoint.{ID}.json"));
    let many: Vec<_> = std::iter::repeat_n(sidecars[0].clone(), 1025).collect();
    let protocol = json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}});
    for (lines, reason) in [
        (vec![], "no checkpointMetadata"),
        (sidecars.clone(), "no checkpointMetadata"),
        (vec![metadata.clone(), metadata.clone()], "more than one checkpointMetadata"),
        (with("checkpointMetadata", "version", json!(1)), "a checkpoint of version 1"),
        (with("checkpointMetadata", "version", json!(-1)), "line 1 is no action"),
        (with("sidecar", "sizeInBytes", json!(-1)), "line 2 is no action"),
        (with("sidecar", "sizeInBytes", json!(1)), "in the log 1"),
        (with("sidecar", "path", Value::Null), "line 2 is no action"),
        ([vec![metadata.clone()], many].concat(), "the limit is 1024"),
        (vec![metadata.clone(), sidecars[0].clone(), sidecars[0].clone()], "twice"),
        (named("../one.parquet"), "no name of a file in the folder of sidecars"),
        (named("..%2fone.parquet"), "no name of a file in the folder of sidecars"),
        (named(secret.to_str().unwrap()), "no name of a file in the folder of sidecars"),
        (named("file:///one.parquet"), "no name of a file in the folder of sidecars"),
        (named("a\\one.parquet"), "no name of a file in the folder of sidecars"),
        (named(".."), "no place below the table"),
        (named(""), "no place below the table"),
        (named("%ff"), "utf-8"),
        (named("gone.parquet"), "file is missing"),
    ] {
        let mut lines = lines;
        lines.push(protocol.clone());
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(&path, &text).unwrap();
        let error = of.error().await.to_string();
        assert!(error.contains(reason), "{text}\n{error}");
    }
    fs::remove_file(&path).unwrap();

    // In Parquet, and under the name of others.
    let path = of.of_version("checkpoint.parquet");
    for (lines, reason) in [
        (sidecars.clone(), "no checkpointMetadata"),
        (with("checkpointMetadata", "version", json!(1)), "a checkpoint of version 1"),
        (with("checkpointMetadata", "version", json!(-1)), "version is -1"),
        (with("sidecar", "sizeInBytes", json!(-1)), "sizeInBytes is -1"),
        (with("sidecar", "path", Value::Null), "no path"),
        (named("../one.parquet"), "no name of a file in the folder of sidecars"),
    ] {
        of.parquet(&path, &of.part(false), &lines);
        let error = of.error().await.to_string();
        assert!(error.contains(reason), "{lines:?}\n{error}");
    }

    // A sidecar says nothing of the protocol or the metadata, nor does it name others.
    of.parquet(&path, &of.part(false), &[vec![metadata.clone()], sidecars.clone()].concat());
    let state = of.table.load().await.unwrap();
    let inner = of.log.join("_sidecars/one.parquet");
    let rows = read(&inner);
    let sidecar = json!({"sidecar": {"path": "gone.parquet", "sizeInBytes": 1}});
    of.parquet(&inner, &rows, &[sidecar]);
    let mut again = sidecars.clone();
    again[0]["sidecar"]["sizeInBytes"] = json!(fs::metadata(&inner).unwrap().len());
    of.parquet(&path, &of.part(false), &[vec![metadata], again].concat());
    assert_eq!(shown(&of.table.load().await.unwrap()), shown(&state));
}
