//! Durable tables: what outlives the server, and what several servers make of one store.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, cast::AsArray as _, types::Int64Type};
use arrow_schema::{DataType, Field, Schema};
use basalt_client::{Client, ErrorReason, TableOptions, WriteOptions, col, count};
use basalt_proto::v1::{self as pb, TypeKind};
use basalt_server::Config;
use tempfile::TempDir;
use tonic::Code;

use crate::support::{Server, batch, check, commit, field, open_as};

fn on(store: &Path) -> impl FnOnce(&mut Config) {
    move |config| config.store = store.to_str().unwrap().to_owned()
}

async fn at(store: &TempDir) -> Server {
    Server::with(on(store.path())).await
}

/// The values of `a` in table `t`.
async fn values(server: &Server) -> Vec<i64> {
    let rows =
        server.client.query("t").select([col("a")]).order_by([col("a").asc()]).collect().await.unwrap();
    rows.batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

async fn append(client: &Client, values: &[i64]) -> basalt_client::Result<basalt_client::Committed> {
    let array: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    client.write_all("t", &[RecordBatch::try_from_iter_with_nullable([("a", array, true)]).unwrap()]).await
}

async fn restart(mut server: Server, store: &TempDir) -> Server {
    server.signal();
    server.ended().await;
    at(store).await
}

#[tokio::test]
async fn a_restart_keeps_everything() {
    let store = TempDir::new().unwrap();
    let server = at(&store).await;
    server.numbers("t", 0..100).await;
    server.numbers("gone", [1]).await;
    server.client.drop_table("gone").await.unwrap();
    let first = server.write(vec![open_as("t", "once"), batch(1, &[500]), commit(1, 1)]).await;
    first.1.unwrap();
    let deleted = server.client.delete("t", col("a").lt(90)).await.unwrap();
    assert_eq!(deleted.rows, 90);
    let version = deleted.version;
    let rows = server.client.query("t").filter(col("a").is_in([95, 5])).select_rows().await.unwrap();

    let server = restart(server, &store).await;
    let expected: Vec<i64> = (90..100).chain([500]).collect();
    assert_eq!(values(&server).await, expected);
    let tables = server.client.list_tables().await.unwrap();
    assert_eq!(
        (tables.len(), tables[0].name.as_str(), tables[0].version, tables[0].rows),
        (1, "t", version, 11)
    );
    // The id of a write holds on, and so do rows' addresses.
    let again = server.write(vec![open_as("t", "once"), batch(1, &[500]), commit(1, 1)]).await;
    again.1.unwrap();
    let other = server.write(vec![open_as("t", "once"), batch(1, &[501]), commit(1, 1)]).await;
    check(other.1, Code::AlreadyExists, "REQUEST_ID_REUSED", "open.request_id");
    let found = server.client.query("t").filter(rows.filter()).collect().await.unwrap();
    assert_eq!(found.rows, 1);
    append(&server.client, &[501]).await.unwrap();
    let server = restart(server, &store).await;
    assert_eq!(values(&server).await.len(), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn small_writes_share_commits() {
    let store = TempDir::new().unwrap();
    let server = Server::with(|config| {
        on(store.path())(config);
        config.commit_delay = Duration::from_millis(100);
    })
    .await;
    server.create("t", vec![field("a", TypeKind::Int64)]).await.unwrap();
    let writes = (0..32).map(|i| {
        let client = server.client.clone();
        tokio::spawn(async move { append(&client, &[i]).await.unwrap().version })
    });
    let mut versions = Vec::new();
    for write in writes.collect::<Vec<_>>() {
        versions.push(write.await.unwrap());
    }
    assert_eq!(values(&server).await, (0..32).collect::<Vec<_>>());
    versions.sort_unstable();
    versions.dedup();
    assert!(versions.len() < 32, "{versions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_write_to_one_store() {
    let store = TempDir::new().unwrap();
    let (a, b) = (at(&store).await, at(&store).await);
    a.create("t", vec![field("a", TypeKind::Int64)]).await.unwrap();
    let has_table = async |server: &Server| {
        while server.client.list_tables().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    has_table(&b).await;
    let write = |server: &Server, from: i64| {
        let client = server.client.clone();
        tokio::spawn(async move {
            for i in 0..20 {
                append(&client, &[from + i]).await.unwrap();
                if i % 5 == 4 {
                    client.delete("t", col("a").eq(from + i - 2)).await.unwrap();
                }
            }
        })
    };
    let (first, second) = (write(&a, 0), write(&b, 1000));
    first.await.unwrap();
    second.await.unwrap();
    let expected: Vec<i64> = (0..20).chain(1000..1020).filter(|value| value % 1000 % 5 != 2).collect();
    for server in [&a, &b] {
        let mut tries = 0;
        while values(server).await != expected {
            tries += 1;
            assert!(tries < 100, "{:?}", values(server).await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    // A request id is known to both.
    let write = || vec![open_as("t", "once"), batch(1, &[5000]), commit(1, 1)];
    a.write(write()).await.1.unwrap();
    b.write(write()).await.1.unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(values(&b).await.len(), expected.len() + 1);
    a.client.drop_table("t").await.unwrap();
    while !b.client.list_tables().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Replaces and deletes by a model, a map from key to value; each time another of the clients.
pub(crate) async fn against_a_model(clients: &[&Client]) {
    against_a_model_with(clients, &TableOptions::default()).await;
}

/// The same in a table that is made so.
pub(crate) async fn against_a_model_with(clients: &[&Client], table: &TableOptions) {
    let field = |name: &str, data_type, nullable| Field::new(name, data_type, nullable);
    let schema = Schema::new(vec![
        field("a", DataType::Int64, false),
        field("b", DataType::Utf8, false),
        field("v", DataType::Int64, true),
    ]);
    clients[0].create_table_with("m", &schema, table).await.unwrap();
    let mut turns = clients.iter().cycle();
    let mut client = || *turns.next().unwrap();
    let mut model: BTreeMap<(i64, String), i64> = BTreeMap::new();
    let options = || WriteOptions::new().replace_by(["a", "b"]);
    for round in 0..12_i64 {
        let keys: BTreeMap<(i64, String), i64> = (0..40)
            .map(|i| (((i * 7 + round * 13) % 50, format!("k{}", (i + round) % 3)), round * 1000 + i))
            .collect();
        let a: ArrayRef = Arc::new(keys.keys().map(|(a, _)| Some(*a)).collect::<Int64Array>());
        let b: ArrayRef = Arc::new(keys.keys().map(|(_, b)| Some(b.clone())).collect::<StringArray>());
        let v: ArrayRef = Arc::new(keys.values().map(|v| Some(*v)).collect::<Int64Array>());
        let rows = RecordBatch::try_from_iter([("a", a), ("b", b), ("v", v)]).unwrap();
        let mut writer = client().write("m", options()).await.unwrap();
        writer.send(&rows).await.unwrap();
        let replaced = keys.keys().filter(|key| model.contains_key(key)).count();
        assert_eq!(writer.commit().await.unwrap().replaced, Some(replaced as u64), "round {round}");
        model.extend(keys);
        if round % 3 == 2 {
            let gone = round % 7;
            let deleted = client().delete("m", col("a").eq(gone)).await.unwrap();
            let before = model.len();
            model.retain(|(a, _), _| *a != gone);
            assert_eq!(deleted.rows, (before - model.len()) as u64);
        }
        let answer = client().query("m").order_by([col("a").asc(), col("b").asc()]).collect().await;
        let mut found = Vec::new();
        for batch in answer.unwrap().batches {
            let (a, v) =
                (batch.column(0).as_primitive::<Int64Type>(), batch.column(2).as_primitive::<Int64Type>());
            let b = batch.column(1).as_string::<i32>();
            found.extend((0..batch.num_rows()).map(|i| ((a.value(i), b.value(i).to_owned()), v.value(i))));
        }
        assert_eq!(found, model.clone().into_iter().collect::<Vec<_>>(), "round {round}");
    }
    let mut wrong = async |keys: &[(i64, &str)], by: &[&str]| {
        let a: ArrayRef = Arc::new(keys.iter().map(|(a, _)| Some(*a)).collect::<Int64Array>());
        let b: ArrayRef = Arc::new(keys.iter().map(|(_, b)| Some(*b)).collect::<StringArray>());
        let v: ArrayRef = Arc::new(keys.iter().map(|(a, _)| (*a > 1).then_some(*a)).collect::<Int64Array>());
        let rows = RecordBatch::try_from_iter([("a", a), ("b", b), ("v", v)]).unwrap();
        let options = WriteOptions::new().replace_by(by.iter().copied());
        let mut writer = client().write("m", options).await.unwrap();
        writer.send(&rows).await.unwrap();
        let error = writer.commit().await.unwrap_err();
        assert_eq!(error.reason(), ErrorReason::InvalidBatch);
        error.to_string()
    };
    let keys = [(1, "x"), (2, "x"), (2, "y"), (2, "x"), (1, "x")];
    let told = wrong(&keys, &["a", "b"]).await;
    let first = "rows 2 and 4 of the write have the same key: a = 2, b = 'x'";
    assert!(told.starts_with(&format!("{first}, and one more row has a key that came before")), "{told}");
    let told = wrong(&keys[1..4], &["b"]).await;
    assert!(told.starts_with("rows 1 and 3 of the write have the same key: b = 'x' ("), "{told}");
    let told = wrong(&keys[..3], &["b", "v"]).await;
    assert!(told.starts_with("row 1 of the write (b = 'x', v = NULL) has a null in its key"), "{told}");
}

/// All rows give way to others in one version, in memory and in a store: nobody sees none, nor both.
#[tokio::test(flavor = "multi_thread")]
async fn all_rows_are_replaced_at_once() {
    let folder = TempDir::new().unwrap();
    for store in ["memory:", folder.path().to_str().unwrap()] {
        let server = Server::with(|config| config.store = store.to_owned()).await;
        let first = server.numbers("t", 0..1000).await;
        let all = |before: u64, values: std::ops::Range<i64>, id: &'static str| {
            let client = server.client.clone();
            async move {
                let mut writer = client.write("t", WriteOptions::new().request_id(id).replace_all()).await?;
                if !values.is_empty() {
                    let values: ArrayRef = Arc::new(values.map(Some).collect::<Int64Array>());
                    let rows = RecordBatch::try_from_iter_with_nullable([("a", values, true)]).unwrap();
                    writer.send(&rows).await?;
                    // Others see what there was.
                    assert_eq!(client.table_summary("t").await?.rows, before);
                }
                writer.commit().await
            }
        };
        let committed = all(1000, 0..7, "first").await.unwrap();
        assert_eq!((committed.rows, committed.replaced), (7, Some(1000)));
        assert_eq!(committed.version, first.version + 1);
        assert_eq!(server.rows("t").await, 7);
        assert!(all(7, 0..7, "first").await.unwrap().replayed);
        let committed = all(7, 3..5, "second").await.unwrap();
        assert_eq!((committed.replaced, server.rows("t").await), (Some(7), 2));
        // By none.
        assert_eq!(all(2, 0..0, "third").await.unwrap().replaced, Some(2));
        assert_eq!(server.rows("t").await, 0);
        assert_eq!(all(0, 0..1, "fourth").await.unwrap().replaced, Some(0));
        let both = WriteOptions::new().replace_by(["a"]).replace_all();
        let refused = server.client.write("t", both).await.unwrap_err();
        assert_eq!(refused.reason(), ErrorReason::Protocol, "{refused}");
    }
    let server = Server::with(|config| config.store = folder.path().to_str().unwrap().to_owned()).await;
    assert_eq!(server.rows("t").await, 1);
}

#[tokio::test]
async fn replaces_and_deletions_are_those_of_a_model() {
    against_a_model(&[&Server::start().await.client]).await;
    let store = TempDir::new().unwrap();
    let server = at(&store).await;
    against_a_model(&[&server.client]).await;
    let rows = server.rows("m").await;
    let server = restart(server, &store).await;
    assert_eq!(server.rows("m").await, rows);
}

#[tokio::test(flavor = "multi_thread")]
async fn small_fragments_are_merged_while_they_are_read() {
    let store = TempDir::new().unwrap();
    let server = at(&store).await;
    server.create("t", vec![field("a", TypeKind::Int64)]).await.unwrap();
    let mut merged = false;
    for i in 0..200_i64 {
        append(&server.client, &[i]).await.unwrap();
        let answer = server.client.query("t").select([count()]).collect().await.unwrap();
        assert_eq!(answer.batches[0].column(0).as_primitive::<Int64Type>().value(0), i + 1);
        let table = server.client.table("t").await.unwrap().table;
        merged |= table.fragments < table.rows / 2;
        if merged && i > 20 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
    assert!(merged, "nothing was merged");
    let rows = values(&server).await;
    let server = restart(server, &store).await;
    assert_eq!(values(&server).await, rows);
}

#[tokio::test]
async fn a_store_that_fails_is_told_and_later_writes_go_on() {
    let store = TempDir::new().unwrap();
    let server = at(&store).await;
    server.numbers("t", [1]).await;
    // The folder of the table is taken away, and a file stands in its place.
    let folder = std::fs::read_dir(store.path().join("tables")).unwrap().next().unwrap().unwrap().path();
    let aside = store.path().join("aside");
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::write(&folder, "not a folder").unwrap();
    let failed = server.write(vec![open_as("t", "later"), batch(1, &[2]), commit(1, 1)]).await;
    check(failed.1, Code::Unavailable, "STORE_UNAVAILABLE", "");
    let deletion = server.client.delete("t", col("a").eq(1)).await.unwrap_err();
    assert_eq!(deletion.reason(), ErrorReason::StoreUnavailable);
    assert_eq!(values(&server).await, [1], "what is read stays");

    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    server.write(vec![open_as("t", "later"), batch(1, &[2]), commit(1, 1)]).await.1.unwrap();
    assert_eq!(values(&server).await, [1, 2]);
}

/// The folder of the one table of a store.
fn table_folder(store: &TempDir) -> std::path::PathBuf {
    std::fs::read_dir(store.path().join("tables")).unwrap().next().unwrap().unwrap().path()
}

#[tokio::test]
async fn nothing_is_acknowledged_that_a_lost_log_does_not_hold() {
    let store = TempDir::new().unwrap();
    let server = at(&store).await;
    server.numbers("t", [1]).await;
    let (log, aside) = (table_folder(&store).join("_delta_log"), store.path().join("aside"));
    std::fs::rename(&log, &aside).unwrap();
    for _ in 0..3 {
        let error = append(&server.client, &[2]).await.unwrap_err();
        assert_eq!(error.reason(), ErrorReason::StoreUnavailable, "{error}");
        assert!(error.to_string().contains("gone"), "{error}");
        let deletion = server.client.delete("t", col("a").eq(1)).await.unwrap_err();
        assert_eq!(deletion.reason(), ErrorReason::StoreUnavailable);
        assert!(!log.exists(), "another log was begun");
    }
    assert_eq!(values(&server).await, [1], "what is read stays");
    std::fs::rename(&aside, &log).unwrap();
    append(&server.client, &[2]).await.unwrap();
    let server = restart(server, &store).await;
    assert_eq!(values(&server).await, [1, 2]);
}

#[tokio::test]
async fn a_log_that_was_cut_is_not_served_with_fewer_rows() {
    let store = TempDir::new().unwrap();
    let mut server = at(&store).await;
    server.numbers("t", [1]).await;
    append(&server.client, &[2, 3]).await.unwrap();
    server.signal();
    server.ended().await;
    let entry = table_folder(&store).join("_delta_log/00000000000000000002.json");
    let whole = std::fs::read(&entry).unwrap();
    let line_ends = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    for length in [0].into_iter().chain(line_ends.filter(|end| *end < whole.len())) {
        std::fs::write(&entry, &whole[..length]).unwrap();
        let config = Config { store: store.path().to_str().unwrap().to_owned(), ..Config::default() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let mut run = tokio::spawn(basalt_server::run(listener, config, std::future::pending()));
        let client = Client::connect(&address).await;
        // It does not start, or it starts without the table.
        loop {
            if run.is_finished() {
                let error = (&mut run).await.unwrap().unwrap_err().to_string();
                assert!(error.contains("00000000000000000002.json"), "{error}");
                break;
            }
            if let Ok(client) = &client
                && let Err(error) = client.query("t").select([count()]).collect().await
                && matches!(error.reason(), ErrorReason::Starting | ErrorReason::Unspecified)
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
            let answer = client.unwrap().query("t").select([count()]).collect().await;
            assert!(answer.is_err(), "cut to {length} bytes, it is served");
            run.abort();
            break;
        }
    }
    std::fs::write(&entry, &whole).unwrap();
    assert_eq!(values(&at(&store).await).await, [1, 2, 3]);
}

#[tokio::test]
async fn a_store_without_its_catalog_is_not_begun_anew() {
    let store = TempDir::new().unwrap();
    let server = at(&store).await;
    server.numbers("t", [1]).await;
    let (catalog, aside) = (store.path().join("catalog"), store.path().join("aside"));
    std::fs::rename(&catalog, &aside).unwrap();
    // The server that runs serves its tables, and changes nothing of which there are.
    assert!(server.create("u", vec![field("a", TypeKind::Int64)]).await.is_err());
    assert!(server.client.drop_table("t").await.is_err());
    assert!(!catalog.exists(), "another catalog was begun");
    append(&server.client, &[2]).await.unwrap();
    assert_eq!(values(&server).await, [1, 2]);
    let mut server = server;
    server.signal();
    server.ended().await;
    // One that starts says what is wrong, and what to do.
    let config = Config { store: store.path().to_str().unwrap().to_owned(), ..Config::default() };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let error = basalt_server::run(listener, config, std::future::pending()).await.unwrap_err().to_string();
    assert!(error.contains("catalog/") && error.contains("put catalog/ back"), "{error}");
    std::fs::rename(&aside, &catalog).unwrap();
    let server = at(&store).await;
    assert_eq!(values(&server).await, [1, 2]);
    server.create("u", vec![field("a", TypeKind::Int64)]).await.unwrap();
}

#[tokio::test]
async fn another_writers_table_is_followed_and_not_written() {
    let (theirs, ours) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let writer = at(&theirs).await;
    writer.numbers("t", [1, 2]).await;
    let folder = std::fs::read_dir(theirs.path().join("tables")).unwrap().next().unwrap().unwrap().path();
    let server = at(&ours).await;
    let attached = server.client.attach_table("t", folder.to_str().unwrap()).await.unwrap();
    assert_eq!((attached.rows, values(&server).await), (2, vec![1, 2]));
    append(&writer.client, &[3]).await.unwrap();
    let mut tries = 0;
    while values(&server).await != [1, 2, 3] {
        tries += 1;
        assert!(tries < 100);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let refused = server.write(vec![open_as("t", ""), batch(1, &[4]), commit(1, 1)]).await;
    check(refused.1, Code::FailedPrecondition, "READ_ONLY", "table");
    let deletion = server.client.delete("t", col("a").eq(1)).await.unwrap_err();
    assert_eq!(deletion.reason(), ErrorReason::ReadOnly);
    let url = theirs.path().join("no").to_str().unwrap().to_owned();
    let nothing = server.catalog().attach_table(pb::AttachTableRequest { name: "u".into(), url }).await;
    check(nothing, Code::InvalidArgument, "INVALID_STORE", "url");
    let server = restart(server, &ours).await;
    assert_eq!(values(&server).await, [1, 2, 3]);
    server.client.drop_table("t").await.unwrap();
    assert_eq!(values(&writer).await, [1, 2, 3], "only the name here is gone");
}
