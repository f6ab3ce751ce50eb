//! Tables of other writers under a server that has attached them: their columns change, they go, others come in their
//! place. The logs are written by hand here, action by action.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arrow_array::{
    ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, cast::AsArray as _, types::Int64Type,
};
use basalt_client::{Error, ErrorReason, attribute as attribute_of, col, count, sum};
use basalt_proto::v1 as pb;
use parquet::{
    arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY},
    file::properties::WriterProperties,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    cluster::nodes::Nodes,
    support::{Server, field},
};

/// A Delta table of another writer.
pub(crate) struct Theirs {
    pub(crate) folder: PathBuf,
    id: &'static str,
    version: u64,
    files: u32,
}

impl Theirs {
    pub(crate) fn new(folder: &Path, id: &'static str) -> Self {
        std::fs::create_dir_all(folder.join("_delta_log")).unwrap();
        Self { folder: folder.to_owned(), id, version: 0, files: 0 }
    }

    pub(crate) fn url(&self) -> &str {
        self.folder.to_str().unwrap()
    }

    /// Writes the next version.
    pub(crate) fn commit(&mut self, actions: &[Value]) {
        let mut lines: Vec<Value> = Vec::new();
        if self.version == 0 {
            let protocol = json!({"minReaderVersion": 2, "minWriterVersion": 5});
            lines.push(json!({ "protocol": protocol }));
        }
        lines.extend_from_slice(actions);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let log = self.folder.join("_delta_log");
        // At one moment, as writers do.
        std::fs::write(log.join("next"), text).unwrap();
        std::fs::rename(log.join("next"), log.join(format!("{:020}.json", self.version))).unwrap();
        self.version += 1;
    }

    /// The metadata with these columns; `mapping` is the mode of column mapping.
    pub(crate) fn metadata(&self, fields: Vec<Value>, mapping: &str) -> Value {
        self.metadata_by(fields, mapping, &[])
    }

    fn metadata_by(&self, fields: Vec<Value>, mapping: &str, partitions: &[&str]) -> Value {
        let schema = json!({"type": "struct", "fields": fields}).to_string();
        json!({"metaData": {
            "id": self.id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": partitions,
            "configuration": {"delta.columnMapping.mode": mapping},
        }})
    }

    /// A new data file with rows; `ids` are field ids of its columns.
    pub(crate) fn add(&mut self, columns: &[(&str, ArrayRef)]) -> Value {
        self.add_with(columns, &[], json!({}))
    }

    pub(crate) fn add_with(&mut self, columns: &[(&str, ArrayRef)], ids: &[i32], partition: Value) -> Value {
        self.files += 1;
        let name = format!("{}-{}.parquet", self.id, self.files);
        let field = |(i, (name, array)): (usize, &(&str, ArrayRef))| {
            let field = arrow_schema::Field::new(*name, array.data_type().clone(), true);
            let id = ids.get(i).map(|id| (PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string()));
            field.with_metadata(id.into_iter().collect())
        };
        let schema = arrow_schema::Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>());
        let arrays = columns.iter().map(|(_, array)| Arc::clone(array)).collect();
        let batch = RecordBatch::try_new(Arc::new(schema), arrays).unwrap();
        let file = std::fs::File::create(self.folder.join(&name)).unwrap();
        let properties = WriterProperties::builder().build();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let size = std::fs::metadata(self.folder.join(&name)).unwrap().len();
        let stats = json!({"numRecords": batch.num_rows()}).to_string();
        json!({"add": {
            "path": name, "partitionValues": partition, "size": size, "modificationTime": 0, "dataChange": true,
            "stats": stats,
        }})
    }
}

/// The removal of a file.
fn remove(add: &Value) -> Value {
    json!({"remove": {"path": add["add"]["path"], "deletionTimestamp": 0, "dataChange": true}})
}

/// A column whose name in files is `physical`, with an id.
pub(crate) fn mapped(name: &str, r#type: impl Into<Value>, physical: &str, id: i32) -> Value {
    let metadata = json!({"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": id});
    json!({"name": name, "type": r#type.into(), "nullable": true, "metadata": metadata})
}

pub(crate) fn plain(name: &str, r#type: impl Into<Value>) -> Value {
    json!({"name": name, "type": r#type.into(), "nullable": true, "metadata": {}})
}

fn longs(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<Int64Array>())
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

pub(crate) async fn at(store: &TempDir) -> Server {
    Server::with(|config| store.path().to_str().unwrap().clone_into(&mut config.store)).await
}

pub(crate) async fn restart(mut server: Server, store: &TempDir) -> Server {
    server.signal();
    server.ended().await;
    at(store).await
}

/// Waits until a condition holds; following takes a second.
pub(crate) async fn until<T>(what: &str, mut is_there: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..150 {
        if let Some(there) = is_there().await {
            return there;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{what}: not within 15 s");
}

async fn version(server: &Server, table: &str, version: u64) {
    until(&format!("version {version}"), async || {
        server.client.table_summary(table).await.ok().filter(|table| table.version >= version).map(|_| ())
    })
    .await;
}

/// Waits for the error of a table.
async fn refused(server: &Server, table: &str, reason: ErrorReason) -> String {
    until(&format!("{reason:?}"), async || {
        let error = server.client.query(table).collect().await.err()?;
        (error.reason() == reason).then(|| error.to_string())
    })
    .await
}

/// A row of numbers, in which null is -1.
async fn one(query: basalt_client::Query) -> Result<Vec<i64>, Error> {
    let rows = query.collect().await?;
    let number = |column: &ArrayRef| column.as_primitive::<Int64Type>().iter().next().unwrap().unwrap_or(-1);
    Ok(rows.batches.iter().flat_map(|batch| batch.columns().iter().map(number).collect::<Vec<_>>()).collect())
}

/// Every way to ask for a table's columns, so that one which panics shows itself: the answer is the table's columns.
async fn every_way(server: &Server, table: &str) -> Vec<String> {
    let described = server.client.table_summary(table).await.unwrap();
    let names: Vec<String> = described.schema.fields().iter().map(|field| field.name().clone()).collect();
    let columns = server
        .catalog()
        .get_table(pb::GetTableRequest { name: table.into(), view: pb::TableView::Full.into() })
        .await
        .unwrap();
    assert_eq!(columns.into_inner().columns.len(), names.len());
    for name in &names {
        let query = || server.client.query(table).group_by([col(name)]).select([col(name), count()]);
        let groups = query().collect().await.unwrap();
        let filtered = server.client.query(table).filter(col(name).is_not_null()).select([count()]);
        assert_eq!(one(filtered).await.unwrap().len(), 1);
        assert!(groups.batches.iter().map(RecordBatch::num_rows).sum::<usize>() > 0);
        query().explain(true).await.unwrap();
        server.client.query(table).filter(col(name).is_null()).select_rows().await.unwrap();
    }
    names
}

#[tokio::test]
async fn an_attached_table_follows_its_columns_by_name() {
    let (store, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut theirs = Theirs::new(&folder.path().join("t"), "one");
    let server = at(&store).await;
    server.numbers("other", [1, 2, 3]).await;

    let first = theirs.add(&[("a", longs([1, 2])), ("b", longs([10, 20])), ("k", texts(&["x", "y"]))]);
    let columns = vec![plain("a", "long"), plain("b", "long"), plain("k", "string")];
    theirs.commit(&[theirs.metadata(columns, "none"), first.clone()]);
    let attached = server.client.attach_table("t", theirs.url()).await.unwrap();
    assert_eq!(every_way(&server, "t").await, ["a", "b", "k"]);
    let old_rows = server.client.query("t").filter(col("a").eq(1)).select_rows().await.unwrap();
    let sums = |columns: &[&str]| {
        let columns: Vec<_> = columns.iter().map(|name| sum(col(*name))).collect();
        one(server.client.query("t").select(columns))
    };
    assert_eq!(sums(&["a", "b"]).await.unwrap(), [3, 30]);

    // A column comes first, others change places; the file stays.
    let columns = vec![plain("d", "long"), plain("k", "string"), plain("b", "long"), plain("a", "long")];
    let second = theirs.add(&[("a", longs([3])), ("d", longs([100])), ("b", longs([30]))]);
    theirs.commit(&[theirs.metadata(columns, "none"), second.clone()]);
    version(&server, "t", 1).await;
    assert_eq!(every_way(&server, "t").await, ["d", "k", "b", "a"]);
    assert_eq!(sums(&["a", "b", "d"]).await.unwrap(), [6, 60, 100]);
    let nulls = |name| one(server.client.query("t").filter(col(name).is_null()).select([count()]));
    assert_eq!((nulls("d").await.unwrap(), nulls("k").await.unwrap()), (vec![2], vec![1]));

    // What was said of the old columns is not said of the new ones.
    let gone = server.client.query("t").version(attached.version).select([sum(col("b"))]).collect().await;
    assert_eq!(gone.unwrap_err().reason(), ErrorReason::VersionGone);
    let of_rows = server.client.query("t").rows(&old_rows).select([count()]).collect().await;
    assert_eq!(of_rows.unwrap_err().reason(), ErrorReason::ScopeMismatch);

    // Overwritten, with fewer columns.
    let third = theirs.add(&[("b", longs([7, 8]))]);
    theirs.commit(&[
        theirs.metadata(vec![plain("b", "long")], "none"),
        remove(&first),
        remove(&second),
        third,
    ]);
    version(&server, "t", 2).await;
    assert_eq!(every_way(&server, "t").await, ["b"]);
    assert_eq!(sums(&["b"]).await.unwrap(), [15]);
    let dropped = sums(&["a"]).await.unwrap_err();
    assert_eq!(dropped.reason(), ErrorReason::ColumnNotFound);

    // Nothing of it is another after a start.
    let server = restart(server, &store).await;
    assert_eq!(one(server.client.query("t").select([sum(col("b"))])).await.unwrap(), [15]);
    assert_eq!(server.rows("other").await, 3);
}

#[tokio::test]
async fn an_attached_table_follows_its_columns_by_mapping() {
    for mode in ["name", "id"] {
        let (store, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let mut theirs = Theirs::new(&folder.path().join("t"), "mapped");
        let server = at(&store).await;
        // With ids, what a file calls its columns means nothing.
        let names = if mode == "id" { ["u", "v"] } else { ["p1", "p2"] };
        let file =
            theirs.add_with(&[(names[0], longs([1, 2])), (names[1], longs([10, 20]))], &[1, 2], json!({}));
        let columns = vec![mapped("a", "long", "p1", 1), mapped("b", "long", "p2", 2)];
        theirs.commit(&[theirs.metadata(columns, mode), file]);
        server.client.attach_table("t", theirs.url()).await.unwrap();
        let sums = |columns: &[&str]| {
            let columns: Vec<_> = columns.iter().map(|name| sum(col(*name))).collect();
            one(server.client.query("t").select(columns))
        };
        assert_eq!(sums(&["a", "b"]).await.unwrap(), [3, 30]);

        // Renamed, each to what the other was.
        let columns = vec![mapped("b", "long", "p1", 1), mapped("a", "long", "p2", 2)];
        theirs.commit(&[theirs.metadata(columns, mode)]);
        version(&server, "t", 1).await;
        assert_eq!(sums(&["a", "b"]).await.unwrap(), [30, 3]);
        assert_eq!(every_way(&server, "t").await, ["b", "a"]);

        // Dropped, and another one of its name added: the old values do not come back.
        let columns = vec![mapped("b", "long", "p3", 3), mapped("a", "long", "p2", 2)];
        theirs.commit(&[theirs.metadata(columns, mode)]);
        version(&server, "t", 2).await;
        assert_eq!(sums(&["a", "b"]).await.unwrap(), [30, -1]);
        assert_eq!(every_way(&server, "t").await, ["b", "a"]);
    }
}

#[tokio::test]
async fn columns_come_to_a_partitioned_table() {
    let (store, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut theirs = Theirs::new(&folder.path().join("t"), "parts");
    let server = at(&store).await;
    let part = |part: &str| json!({ "p": part });
    let first = theirs.add_with(&[("a", longs([1, 2]))], &[], part("5"));
    let columns = vec![plain("a", "long"), plain("p", "long")];
    theirs.commit(&[theirs.metadata_by(columns, "none", &["p"]), first]);
    server.client.attach_table("t", theirs.url()).await.unwrap();
    let second = theirs.add_with(&[("a", longs([3])), ("n", longs([1000]))], &[], part("7"));
    let columns = vec![plain("a", "long"), plain("n", "long"), plain("p", "long")];
    theirs.commit(&[theirs.metadata_by(columns, "none", &["p"]), second]);
    version(&server, "t", 1).await;
    assert_eq!(every_way(&server, "t").await, ["a", "n", "p"]);
    let sums = server.client.query("t").select([sum(col("a")), sum(col("n")), sum(col("p"))]);
    assert_eq!(one(sums).await.unwrap(), [6, 1000, 17]);
    let of_part = server.client.query("t").filter(col("p").eq(7)).select([sum(col("a"))]);
    assert_eq!(one(of_part).await.unwrap(), [3]);
}

#[tokio::test]
async fn columns_that_cannot_be_taken_are_an_error_that_names_them() {
    let (store, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut theirs = Theirs::new(&folder.path().join("t"), "kinds");
    let server = at(&store).await;
    server.numbers("other", [1, 2, 3]).await;
    let file = theirs.add(&[("a", longs([1, 2])), ("k", texts(&["x", "y"]))]);
    let columns = || vec![plain("a", "long"), plain("k", "string")];
    theirs.commit(&[theirs.metadata(columns(), "none"), file]);
    server.client.attach_table("t", theirs.url()).await.unwrap();

    let other = async || {
        assert_eq!(one(server.client.query("other").select([sum(col("a"))])).await.unwrap(), [6]);
    };
    let nested = json!({"type": "array", "elementType": "void", "containsNull": true});
    theirs.commit(&[theirs.metadata([columns(), vec![plain("nested", nested)]].concat(), "none")]);
    let told = refused(&server, "t", ErrorReason::InvalidStore).await;
    assert!(told.contains("\"nested\"") && told.contains("void"), "{told}");
    other().await;
    // Every request hears it, not the query alone.
    let described = server.client.table("t").await.unwrap_err();
    assert_eq!(described.reason(), ErrorReason::InvalidStore);
    let selected = server.client.query("t").filter(col("a").eq(1)).select_rows().await.unwrap_err();
    assert_eq!(selected.reason(), ErrorReason::InvalidStore);

    // It is mended, and served again.
    theirs.commit(&[theirs.metadata(columns(), "none")]);
    version(&server, "t", 2).await;
    assert_eq!(one(server.client.query("t").select([sum(col("a"))])).await.unwrap(), [3]);

    // Another type, which the rows that stay do not have.
    theirs.commit(&[theirs.metadata(vec![plain("a", "long"), plain("k", "date")], "none")]);
    let told = refused(&server, "t", ErrorReason::TableDamaged).await;
    assert!(told.contains("column \"k\""), "{told}");
    other().await;

    // A server that starts says the same.
    let server = restart(server, &store).await;
    let told = refused(&server, "t", ErrorReason::TableDamaged).await;
    assert!(told.contains("column \"k\""), "{told}");
    theirs.commit(&[theirs.metadata(columns(), "none")]);
    version(&server, "t", 4).await;
    assert_eq!(every_way(&server, "t").await, ["a", "k"]);

    // A wider type is one that they do have.
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![5]));
    let file = theirs.add(&[("a", narrow)]);
    theirs.commit(&[file]);
    version(&server, "t", 5).await;
    assert_eq!(one(server.client.query("t").select([sum(col("a"))])).await.unwrap(), [8]);
}

#[tokio::test]
async fn attributes_of_an_attached_table_follow_its_columns() {
    let (store, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut theirs = Theirs::new(&folder.path().join("c"), "refs");
    let server = at(&store).await;
    let file = theirs.add(&[("id", longs([1, 2])), ("size", longs([5, 6])), ("old", longs([8, 9]))]);
    let columns = vec![plain("id", "long"), plain("size", "long"), plain("old", "long")];
    theirs.commit(&[theirs.metadata(columns, "none"), file]);
    server.client.attach_table("c", theirs.url()).await.unwrap();
    let mut key = field("a", pb::TypeKind::Int64);
    key.references = Some(pb::Reference { table: "c".into(), column: "id".into() });
    server.create("t", vec![key]).await.unwrap();
    let rows = RecordBatch::try_from_iter_with_nullable([("a", longs([1, 2, 2]), true)]).unwrap();
    server.client.write_all("t", &[rows]).await.unwrap();
    let asked = |attribute: &str| {
        let attribute = attribute_of("a", attribute);
        one(server.client.query("t").filter(attribute.gt(5)).select([count()]))
    };
    assert_eq!((asked("size").await.unwrap(), asked("old").await.unwrap()), (vec![2], vec![3]));

    let columns = vec![plain("size", "long"), plain("id", "long")];
    theirs.commit(&[theirs.metadata(columns, "none")]);
    version(&server, "c", 1).await;
    assert_eq!(asked("size").await.unwrap(), [2]);
    assert_eq!(asked("old").await.unwrap_err().reason(), ErrorReason::ColumnNotFound);

    // A table that refers to one that is gone says so.
    std::fs::rename(&theirs.folder, folder.path().join("away")).unwrap();
    refused(&server, "c", ErrorReason::StoreUnavailable).await;
    let error = asked("size").await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::StoreUnavailable, "{error}");
    assert_eq!(one(server.client.query("t").select([count()])).await.unwrap(), [3]);
}

#[tokio::test]
async fn a_table_in_the_place_of_an_attached_one_is_not_taken_for_it() {
    // The attached table has two versions; the other one has fewer, as many, and more.
    for versions in 1..=3 {
        let (store, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let folder = folder.path().join("t");
        let mut theirs = Theirs::new(&folder, "before");
        let server = at(&store).await;
        let columns = || vec![plain("a", "long")];
        let file = theirs.add(&[("a", longs([1, 2]))]);
        theirs.commit(&[theirs.metadata(columns(), "none"), file]);
        let file = theirs.add(&[("a", longs([3]))]);
        theirs.commit(&[file]);
        server.client.attach_table("t", theirs.url()).await.unwrap();
        let rows =
            async |server: &Server| one(server.client.query("t").select([count(), sum(col("a"))])).await;
        assert_eq!(rows(&server).await.unwrap(), [3, 6]);

        std::fs::remove_dir_all(&folder).unwrap();
        let mut theirs = Theirs::new(&folder, "behind");
        let file = theirs.add(&[("a", longs([100]))]);
        theirs.commit(&[theirs.metadata(columns(), "none"), file]);
        for i in 1..versions {
            let file = theirs.add(&[("a", longs([i]))]);
            theirs.commit(&[file]);
        }
        let told = refused(&server, "t", ErrorReason::InvalidStore).await;
        assert!(
            told.contains("\"t\"") && told.contains("behind") && told.contains("attach it again"),
            "{told}"
        );
        // A start does not forget what was attached.
        let server = restart(server, &store).await;
        let told = refused(&server, "t", ErrorReason::InvalidStore).await;
        assert!(told.contains("attach it again"), "{told}");

        server.client.drop_table("t").await.unwrap();
        server.client.attach_table("t", theirs.url()).await.unwrap();
        let expected = [versions, 100 + (1..versions).sum::<i64>()];
        assert_eq!(rows(&server).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_history_that_was_rewritten_is_not_taken_for_the_old_one() {
    // The same table by its id: put back from an older copy, or its last version made again.
    for goes_back in [true, false] {
        let (store, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let mut theirs = Theirs::new(&folder.path().join("t"), "again");
        let server = at(&store).await;
        let file = theirs.add(&[("a", longs([1, 2]))]);
        theirs.commit(&[theirs.metadata(vec![plain("a", "long")], "none"), file]);
        let file = theirs.add(&[("a", longs([3]))]);
        theirs.commit(&[file]);
        server.client.attach_table("t", theirs.url()).await.unwrap();
        theirs.version = 1;
        if goes_back {
            std::fs::remove_file(theirs.folder.join("_delta_log/00000000000000000001.json")).unwrap();
        } else {
            let file = theirs.add(&[("a", longs([4]))]);
            theirs.commit(&[file]);
        }
        let told = refused(&server, "t", ErrorReason::InvalidStore).await;
        let why = if goes_back { "from version 1 to 0" } else { "version 1 was written again" };
        assert!(told.contains(why) && !told.contains(theirs.url()), "{told}");
    }
}

#[tokio::test]
async fn a_table_that_is_gone_is_an_error_until_it_is_back() {
    let (store, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut theirs = Theirs::new(&folder.path().join("t"), "away");
    let server = at(&store).await;
    server.numbers("other", [1, 2, 3]).await;
    let file = theirs.add(&[("a", longs([1, 2]))]);
    theirs.commit(&[theirs.metadata(vec![plain("a", "long")], "none"), file]);
    server.client.attach_table("t", theirs.url()).await.unwrap();
    let sum_of = async |server: &Server| one(server.client.query("t").select([sum(col("a"))])).await.ok();

    // The folder as a whole, and its log alone.
    let (log, away) = (theirs.folder.join("_delta_log"), folder.path().join("away"));
    for gone in [&theirs.folder, &log] {
        std::fs::rename(gone, &away).unwrap();
        let told = refused(&server, "t", ErrorReason::StoreUnavailable).await;
        assert!(told.contains("is gone") && !told.contains(theirs.url()), "{told}");
        assert_eq!(server.rows("other").await, 3);
        std::fs::rename(&away, gone).unwrap();
        until("it is back", async || sum_of(&server).await.filter(|found| *found == [3])).await;
    }
    // Other bytes in the place of the folder are no table either.
    std::fs::rename(&theirs.folder, &away).unwrap();
    std::fs::write(&theirs.folder, "no folder").unwrap();
    refused(&server, "t", ErrorReason::StoreUnavailable).await;
    std::fs::remove_file(&theirs.folder).unwrap();

    // A server that starts without it tells the same, and has it once it is back, with what came meanwhile.
    let server = restart(server, &store).await;
    let told = refused(&server, "t", ErrorReason::StoreUnavailable).await;
    assert!(told.contains("is gone"), "{told}");
    assert_eq!(server.rows("other").await, 3);
    std::fs::rename(&away, &theirs.folder).unwrap();
    let file = theirs.add(&[("a", longs([3]))]);
    theirs.commit(&[file]);
    until("it is back", async || sum_of(&server).await.filter(|found| *found == [6])).await;

    // It can be dropped while it is away, held or not.
    std::fs::rename(&theirs.folder, &away).unwrap();
    refused(&server, "t", ErrorReason::StoreUnavailable).await;
    let server = restart(server, &store).await;
    refused(&server, "t", ErrorReason::StoreUnavailable).await;
    server.client.drop_table("t").await.unwrap();
    refused(&server, "t", ErrorReason::TableNotFound).await;
    server.numbers("t", [5]).await;
    assert_eq!(sum_of(&server).await.unwrap(), [5]);
}

#[tokio::test]
async fn a_version_that_comes_before_its_file_is_served_once_the_file_is_there() {
    let (store, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut theirs = Theirs::new(&folder.path().join("t"), "early");
    let server = at(&store).await;
    let file = theirs.add(&[("a", longs([1, 2]))]);
    theirs.commit(&[theirs.metadata(vec![plain("a", "long")], "none"), file]);
    server.client.attach_table("t", theirs.url()).await.unwrap();
    let file = theirs.add(&[("a", longs([3]))]);
    let path = theirs.folder.join(file["add"]["path"].as_str().unwrap());
    let away = folder.path().join("away");
    std::fs::rename(&path, &away).unwrap();
    theirs.commit(&[file]);
    let sum_of = async || one(server.client.query("t").select([sum(col("a"))])).await.ok();
    assert!(refused(&server, "t", ErrorReason::StoreUnavailable).await.contains("file is missing"));
    std::fs::rename(&away, &path).unwrap();
    until("the file is there", async || sum_of().await.filter(|found| *found == [6])).await;
}

#[tokio::test]
async fn what_is_no_whole_table_is_not_attached() {
    let (store, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let server = at(&store).await;
    let table = |name: &str| {
        let mut theirs = Theirs::new(&folder.path().join(name), "broken");
        let file = theirs.add(&[("a", longs([1, 2]))]);
        theirs.commit(&[theirs.metadata(vec![plain("a", "long")], "none"), file.clone()]);
        (theirs, file)
    };
    let refused = async |theirs: &Theirs, why: &str| {
        let error = server.client.attach_table("t", theirs.url()).await.unwrap_err();
        assert_eq!(error.reason(), ErrorReason::InvalidStore, "{error}");
        assert!(error.to_string().contains(why) && error.to_string().contains("at url"), "{error}");
    };
    // A file is missing, or is none.
    let (theirs, file) = table("file");
    let path = theirs.folder.join(file["add"]["path"].as_str().unwrap());
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    refused(&theirs, "file is missing").await;
    std::fs::write(&path, vec![7; bytes.len()]).unwrap();
    refused(&theirs, "no Parquet file").await;
    let (mut theirs, _) = table("schema");
    let mut metadata = theirs.metadata(vec![plain("a", "long")], "none");
    metadata["metaData"].as_object_mut().unwrap().remove("schemaString");
    theirs.commit(&[metadata]);
    refused(&theirs, "no schemaString").await;
    assert!(server.client.list_all_tables().await.unwrap().0.is_empty());
}

#[tokio::test]
async fn nodes_agree_on_the_columns_of_an_attached_table() {
    let nodes = Nodes::start(3).await;
    let folder = TempDir::new().unwrap();
    let mut theirs = Theirs::new(&folder.path().join("t"), "nodes");
    // Many files, so that each node has its share; in each the sums of the columns stand in a proportion.
    let names = ["a", "b", "c"];
    let file = |theirs: &mut Theirs, n: i64| {
        let columns: Vec<_> =
            names.iter().zip([1, 10, 100]).map(|(name, factor)| (*name, longs([n * factor]))).collect();
        theirs.add(&columns)
    };
    let files: Vec<Value> = (1..=30).map(|n| file(&mut theirs, n)).collect();
    let columns = |order: [usize; 3]| order.map(|i| plain(names[i], "long")).to_vec();
    theirs.commit(&[vec![theirs.metadata(columns([0, 1, 2]), "none")], files].concat());
    nodes.client(0).attach_table("t", theirs.url()).await.unwrap();
    let (mut answered, mut newest) = (0, 0);
    for round in 0..4 {
        for i in 0..60 {
            let client = nodes.client(i % 3);
            let sums = client.query("t").select([sum(col("a")), sum(col("b")), sum(col("c")), count()]);
            match one(sums).await {
                Ok(found) => {
                    let (a, n) = (found[0], found[3]);
                    assert_eq!(found, [a, 10 * a, 100 * a, n], "round {round}");
                    assert_eq!(a, n * (n + 1) / 2);
                    (answered, newest) = (answered + 1, n);
                }
                // The nodes are of different versions for a moment.
                Err(error) => assert!(
                    matches!(error.reason(), ErrorReason::Incomplete | ErrorReason::VersionGone),
                    "{error}"
                ),
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        let add = file(&mut theirs, 31 + round);
        let order = [[2, 0, 1], [1, 2, 0], [0, 2, 1], [0, 1, 2]][usize::try_from(round).unwrap()];
        theirs.commit(&[theirs.metadata(columns(order), "none"), add]);
    }
    assert!(answered > 200 && newest == 33, "{answered} of 240, {newest} rows");
}
