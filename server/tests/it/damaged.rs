//! Tables whose files are damaged: the others are served, and nothing of them is answered in part.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use basalt_client::{Client, ClientOptions, Credentials, ErrorReason, RetryPolicy, col};
use basalt_proto::v1::TypeKind;
use basalt_server::{Allowance, Config, Issued, Role};
use tempfile::TempDir;
use tonic::Code;

use crate::{
    cluster::nodes::{Nodes, fill},
    support::{Server, batch, check, commit, field, open_as, told},
};

async fn at(store: &TempDir) -> Server {
    Server::with(|config| config.store = store.path().to_str().unwrap().to_owned()).await
}

/// A data file of a table.
fn data_file(store: &Path, table: &str) -> PathBuf {
    let folders = fs::read_dir(store.join("tables")).unwrap().map(|entry| entry.unwrap().path());
    let is_its =
        |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{table}-"));
    let folder = { folders }.find(is_its).unwrap();
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    { files }.find(|path| path.extension().is_some_and(|end| end == "parquet")).unwrap()
}

/// Turns a bit of the first column.
fn damage(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    bytes[40] ^= 1;
    fs::write(file, bytes).unwrap();
}

async fn is_damaged(client: &Client, file: &Path) {
    let error = client.query("t").collect().await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::TableDamaged, "{error}");
    assert!(error.to_string().contains(file.file_name().unwrap().to_str().unwrap()), "{error}");
}

async fn sum_of_good(client: &Client) -> u64 {
    client.query("good").filter(col("a").lt(10)).collect().await.unwrap().rows
}

#[tokio::test]
async fn a_damaged_table_keeps_no_other_from_being_served() {
    let store = TempDir::new().unwrap();
    let mut server = at(&store).await;
    server.numbers("t", 0..1000).await;
    server.write(vec![open_as("t", ""), batch(1, &[5000]), commit(1, 1)]).await.1.unwrap();
    server.numbers("good", 0..100).await;
    let as_written = server.client.verify_table("t").await.unwrap();
    assert_eq!((as_written.files, as_written.damage.len()), (2, 0));
    assert!(as_written.bytes > 1000);
    server.signal();
    server.ended().await;

    let file = data_file(store.path(), "t");
    let good = fs::read(&file).unwrap();
    damage(&file);
    let mut server = at(&store).await;
    assert_eq!(sum_of_good(&server.client).await, 10);
    is_damaged(&server.client, &file).await;
    let (tables, damaged) = server.client.list_all_tables().await.unwrap();
    assert_eq!((tables.len(), tables[0].name.as_str(), damaged.len()), (1, "good", 1));
    assert!(damaged[0].name == "t" && damaged[0].message.contains("column \"a\""), "{damaged:?}");
    let written = server.write(vec![open_as("t", ""), batch(1, &[1]), commit(1, 1)]).await.1;
    assert_eq!(told(&written.unwrap_err()).1, "TABLE_DAMAGED");
    let created = server.create("t", vec![field("a", TypeKind::Int64)]).await;
    check(created, Code::AlreadyExists, "TABLE_EXISTS", "name");
    let found = server.client.verify_table("t").await.unwrap();
    assert_eq!((found.files, found.damage.len()), (2, 1), "{found:?}");
    assert_eq!(found.damage[0].column.as_deref(), Some("a"));
    assert!(found.damage[0].file.ends_with(file.file_name().unwrap().to_str().unwrap()));

    // Mended, it is read again some time later.
    fs::write(&file, &good).unwrap();
    let mut tries = 0;
    while server.client.query("t").collect().await.is_err() {
        tries += 1;
        assert!(tries < 400);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(server.rows("t").await, 1001);
    assert!(server.client.list_all_tables().await.unwrap().1.is_empty());

    // So is the loss of a file; and a log that is none.
    server.signal();
    server.ended().await;
    fs::remove_file(&file).unwrap();
    let mut server = at(&store).await;
    is_damaged(&server.client, &file).await;
    server.signal();
    server.ended().await;
    let log = file.parent().unwrap().join("_delta_log/00000000000000000000.json");
    fs::write(&log, "{").unwrap();
    let server = at(&store).await;
    is_damaged(&server.client, &log).await;
    let found = server.client.verify_table("t").await.unwrap();
    assert!(found.files == 0 && found.damage[0].file.ends_with("00000000000000000000.json"), "{found:?}");

    // It can be dropped, and its name is free then.
    server.client.drop_table("t").await.unwrap();
    assert_eq!(server.client.query("t").collect().await.unwrap_err().reason(), ErrorReason::TableNotFound);
    assert!(server.client.list_all_tables().await.unwrap().1.is_empty());
    server.numbers("t", 0..3).await;
    assert_eq!((server.rows("t").await, sum_of_good(&server.client).await), (3, 10));
}

/// Nor is it told to who may not see it that there is such a table.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_table_is_hidden_like_any_other() {
    let store = TempDir::new().unwrap();
    let mut server = at(&store).await;
    server.numbers("good", 0..10).await;
    server.numbers("secret", 0..10).await;
    server.signal();
    server.ended().await;
    damage(&data_file(store.path(), "secret"));
    let keys = store.path().join("keys.toml");
    let issue = |name: &str, role, tables: &str| {
        let issued = Issued::new(name, role, &[tables.to_owned()], Allowance::default()).unwrap();
        issued.add_to(&keys).unwrap();
        Credentials::new().key(&issued.secret).unwrap()
    };
    let (admin, reader) = (issue("admin", Role::Admin, "*"), issue("reader", Role::Reader, "good*"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let url = store.path().to_str().unwrap().to_owned();
    let config = Config { threads: 2, store: url, keys: Some(keys.clone()), ..Config::default() };
    let task = tokio::spawn(basalt_server::run(listener, config, std::future::pending()));
    let by = async |key: &Credentials| {
        let once = ClientOptions::new().retry(RetryPolicy::never());
        let client = Client::connect_as(&address, once, key).await.unwrap();
        loop {
            match client.list_all_tables().await {
                Ok((tables, damaged)) => {
                    let names = |all: Vec<String>| all.join(" ");
                    break (
                        names(tables.into_iter().map(|table| table.name).collect()),
                        names(damaged.into_iter().map(|table| table.name).collect()),
                    );
                }
                Err(error) => assert_eq!(error.reason(), ErrorReason::Starting, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert_eq!(by(&admin).await, ("good".to_owned(), "secret".to_owned()));
    assert_eq!(by(&reader).await, ("good".to_owned(), String::new()));
    task.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_read_a_table_answers_nothing_of_it() {
    let mut nodes = Nodes::start(3).await;
    let client = nodes.client(0);
    let schema =
        arrow_schema::Schema::new(vec![arrow_schema::Field::new("a", arrow_schema::DataType::Int64, true)]);
    client.create_table("t", &schema).await.unwrap();
    for i in 0..6 {
        let values: arrow_array::ArrayRef =
            std::sync::Arc::new((0..100i64).map(|n| Some(100 * i + n)).collect::<arrow_array::Int64Array>());
        let rows = arrow_array::RecordBatch::try_from_iter_with_nullable([("a", values, true)]).unwrap();
        client.write_all("t", &[rows]).await.unwrap();
    }
    // Every data file is damaged: whichever the restarted node holds, it cannot read.
    let folder = data_file(nodes.store.path(), "t").parent().unwrap().to_path_buf();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_some_and(|end| end == "parquet") {
            damage(&path);
        }
    }
    // Places follow from random ids: a node may have none of six fragments. What others hold is known a moment later.
    let mut found = None;
    for _ in 0..100 {
        let cluster = nodes.client(0).cluster().await.unwrap();
        let holds = |i: &usize| {
            let node = cluster.nodes.iter().find(|node| node.name == nodes.name(*i)).unwrap();
            node.tables.iter().any(|table| table.fragments > 0)
        };
        found = [2, 1].into_iter().find(holds);
        if found.is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let restarted = found.expect("fragments at another node");
    nodes.stop(restarted).await;
    nodes.restart(restarted).await;
    for i in 0..3 {
        for _ in 0..5 {
            match nodes.client(i).query("t").collect().await {
                Ok(answer) => assert_eq!(answer.rows, 600, "node {i}"),
                Err(error) => {
                    // A node that had not read the last versions before their files were damaged cannot follow.
                    let reasons =
                        [ErrorReason::TableDamaged, ErrorReason::Incomplete, ErrorReason::StoreUnavailable];
                    assert!(reasons.contains(&error.reason()), "node {i}: {error}");
                }
            }
        }
    }
    let error = nodes.client(restarted).query("t").collect().await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::TableDamaged);
}

/// A node that has no lease of another looks into the store for each table: one whose log is gone keeps no other from being
/// listed.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_whose_log_is_gone_keeps_no_other_from_being_listed() {
    let mut nodes = Nodes::start(2).await;
    fill(nodes.client(0), "good", 1, 10).await;
    fill(nodes.client(0), "t", 1, 10).await;
    nodes.kill(1).await;
    let folder = data_file(nodes.store.path(), "t").parent().unwrap().to_path_buf();
    fs::rename(folder, nodes.store.path().join("elsewhere")).unwrap();
    let once = ClientOptions::new().retry(RetryPolicy::never());
    let client = Client::connect_with(nodes.client(0).address(), once).await.unwrap();
    // The lease that the other one gave has an end.
    let mut tries = 0;
    let (tables, damaged) = loop {
        let (tables, damaged) = client.list_all_tables().await.unwrap();
        if !damaged.is_empty() {
            break (tables, damaged);
        }
        tries += 1;
        assert!(tries < 400);
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!((tables.len(), tables[0].name.as_str(), damaged.len()), (1, "good", 1));
    assert_eq!(damaged[0].name, "t");
    assert!(damaged[0].message.starts_with("table \"t\": "), "{damaged:?}");
    let error = client.query("t").collect().await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::StoreUnavailable, "{error}");
    assert!(error.to_string().contains("table \"t\": "), "{error}");
    assert_eq!(nodes.client(0).query("good").collect().await.unwrap().rows, 10);
}
