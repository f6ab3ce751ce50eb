//! Kept sets of rows pin their version: it is read as long as the set is kept, though others of its age are gone.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use basalt_client::{Client, col, count};
use basalt_proto::v1::{
    self as pb, filter, query_service_client::QueryServiceClient, row_set,
    sip_service_client::SipServiceClient,
};
use basalt_server::limits;
use tempfile::TempDir;
use tonic::{Code, Status};

use crate::{
    cluster::nodes::{Nodes, rows},
    support::{Server, check},
};

const SHORT: Duration = Duration::from_millis(500);

/// Data files of the store.
fn data_files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(data_files(&entry.path())),
            _ => found.extend(entry.file_name().into_string().ok().filter(|name| name.starts_with("part-"))),
        }
    }
    found
}

/// A kept set of the rows of `t` at its newest version with an id below a bound: its handle, its version, their number.
async fn kept(client: &Client, below: i64, keep: Duration) -> (Vec<u8>, u64, u64) {
    let filter = Some(col("id").lt(below).into());
    let keep_ms = keep.as_millis().try_into().unwrap();
    let request = pb::SelectRequest { table: "t".into(), filter, keep_ms, ..Default::default() };
    let answer = QueryServiceClient::new(client.channel()).select(request).await.unwrap().into_inner();
    (answer.handle, answer.scope.unwrap().version, answer.cardinality)
}

/// How many rows of `t` a kept set selects.
async fn selected(client: &Client, handle: &[u8]) -> Result<u64, Status> {
    let set = Some(row_set::Set::Handle(handle.to_vec()));
    let filter = Some(pb::Filter { kind: Some(filter::Kind::Rows(pb::RowSet { scope: None, set })) });
    let request = pb::SelectRequest { table: "t".into(), filter, ..Default::default() };
    let answer = QueryServiceClient::new(client.channel()).select(request).await?.into_inner();
    Ok(answer.cardinality)
}

/// The number of rows at a version.
async fn at(client: &Client, version: u64) -> Result<(), Status> {
    let request = pb::SelectRequest { table: "t".into(), version: Some(version), ..Default::default() };
    QueryServiceClient::new(client.channel()).select(request).await.map(drop)
}

/// Small writes, which are merged; as many as a vacuum comes after.
async fn write_until(client: &Client, from: &mut i64, done: impl Fn() -> bool) {
    let start = Instant::now();
    let mut last = *from + i64::try_from(limits::VACUUM_COMMITS).unwrap() + 16;
    while *from < last || !done() {
        client.write_all("t", &[rows(*from, *from + 1)]).await.unwrap();
        *from += 1;
        last = last.min(*from + 600);
        assert!(start.elapsed() < Duration::from_secs(300), "the files stay");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_set_of_rows_is_of_use_as_long_as_it_is_kept() {
    let store = TempDir::new().unwrap();
    let server = Server::with(|config| {
        store.path().to_str().unwrap().clone_into(&mut config.store);
        config.commit_delay = Duration::ZERO;
        config.keep_versions = SHORT;
    })
    .await;
    let client = &server.client;
    client.create_table("t", &rows(0, 0).schema()).await.unwrap();
    client.write_all("t", &[rows(0, 1000)]).await.unwrap();
    let first = data_files(store.path());
    let begun = Instant::now();
    let (handle, version, n) = kept(client, 77, Duration::from_secs(600)).await;
    assert_eq!(n, 77);
    // Nothing of that version is part of the newest one.
    client.delete("t", col("id").ge(0)).await.unwrap();
    let mut next = 1000;
    write_until(client, &mut next, || true).await;
    assert!(begun.elapsed() > 2 * SHORT);
    assert_eq!(selected(client, &handle).await.unwrap(), 77);
    let gone = at(client, version + 1).await;
    // Which there are is more than this node has in memory.
    let told = gone.as_ref().unwrap_err().message();
    assert!(told.contains("any longer: one can for 500ms after the next one (`keep_versions`)"), "{told}");
    check(gone, Code::FailedPrecondition, "VERSION_GONE", "version");
    assert!(first.iter().all(|file| data_files(store.path()).contains(file)), "its files are gone");

    // Its end is that of the pin, and of the files.
    let request = pb::DeleteSipRequest { handle: handle.clone() };
    assert!(SipServiceClient::new(client.channel()).delete(request).await.unwrap().into_inner().existed);
    write_until(client, &mut next, || !data_files(store.path()).iter().any(|file| first.contains(file)))
        .await;
    check(at(client, version).await, Code::FailedPrecondition, "VERSION_GONE", "version");
    let total = client.query("t").select([count()]).collect().await.unwrap();
    assert_eq!(total.rows, 1);
}

/// Columns come and go meanwhile.
#[cfg(feature = "sql")]
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_columns_is_no_end_of_a_kept_set() {
    let store = TempDir::new().unwrap();
    let server = Server::with(|config| {
        store.path().to_str().unwrap().clone_into(&mut config.store);
        config.keep_versions = SHORT;
    })
    .await;
    let client = &server.client;
    client.create_table("t", &rows(0, 0).schema()).await.unwrap();
    client.write_all("t", &[rows(0, 1000)]).await.unwrap();
    let before = kept(client, 77, Duration::from_secs(600)).await;
    client.sql("ALTER TABLE t ADD COLUMN more BIGINT").collect().await.unwrap();
    let after = kept(client, 78, Duration::from_secs(600)).await;
    client.sql("ALTER TABLE t DROP COLUMN more").collect().await.unwrap();
    tokio::time::sleep(4 * SHORT).await;
    client.sql("ALTER TABLE t ADD COLUMN more BIGINT").collect().await.unwrap();
    for (handle, _, rows) in [before, after] {
        assert_eq!(selected(client, &handle).await.unwrap(), rows);
    }
}

#[tokio::test]
async fn in_memory_too_and_no_more_than_there_may_be() {
    let server = Server::start().await;
    let client = &server.client;
    client.create_table("t", &rows(0, 0).schema()).await.unwrap();
    let mut handles = Vec::new();
    for i in 0..i64::try_from(limits::PINNED_VERSIONS).unwrap() {
        client.write_all("t", &[rows(i, i + 1)]).await.unwrap();
        handles.push(kept(client, 1000, Duration::from_secs(60)).await);
    }
    for (handle, _, rows) in &handles {
        assert_eq!(selected(client, handle).await.unwrap(), *rows);
    }
    client.write_all("t", &[rows(100, 101)]).await.unwrap();
    let request = pb::SelectRequest { table: "t".into(), keep_ms: 1000, ..Default::default() };
    let full = QueryServiceClient::new(client.channel()).select(request.clone()).await;
    check(full, Code::ResourceExhausted, "SIP_QUOTA", "");
    // One that ends makes room, and its version goes.
    let (handle, version, _) = handles[0].clone();
    SipServiceClient::new(client.channel()).delete(pb::DeleteSipRequest { handle }).await.unwrap();
    QueryServiceClient::new(client.channel()).select(request).await.unwrap();
    for i in 0..20 {
        client.write_all("t", &[rows(200 + i, 201 + i)]).await.unwrap();
    }
    assert_eq!(selected(client, &handles[1].0).await.unwrap(), handles[1].2);
    check(at(client, version).await, Code::FailedPrecondition, "VERSION_GONE", "version");
}

/// Their memory is that of rows which the newest version has no longer.
#[tokio::test(flavor = "multi_thread")]
async fn versions_in_memory_go_with_their_time_as_well() {
    let server = Server::with(|config| config.keep_versions = SHORT).await;
    let client = &server.client;
    client.create_table("t", &rows(0, 0).schema()).await.unwrap();
    client.write_all("t", &[rows(0, 1000)]).await.unwrap();
    let (handle, version, n) = kept(client, 77, Duration::from_secs(600)).await;
    client.write_all("t", &[rows(1000, 1001)]).await.unwrap();
    client.delete("t", col("id").ge(0)).await.unwrap();
    let begun = Instant::now();
    let gone = loop {
        match at(client, version + 1).await {
            Ok(()) => assert!(begun.elapsed() < Duration::from_secs(60), "the version stays"),
            gone => break gone,
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    check(gone, Code::FailedPrecondition, "VERSION_GONE", "version");
    assert_eq!(selected(client, &handle).await.unwrap(), n);
}

/// Whoever takes a set over may not have heard of its version before.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_that_another_node_has_taken_over_outlives_the_first() {
    let mut nodes = Nodes::places(2).await;
    for i in 0..2 {
        nodes.restart_with(i, |config| config.keep_versions = SHORT).await;
    }
    for i in 0..2 {
        nodes.sees(i, 1).await;
    }
    nodes.client(0).create_table("t", &rows(0, 0).schema()).await.unwrap();
    nodes.client(0).write_all("t", &[rows(0, 1000)]).await.unwrap();
    let (handle, _, n) = kept(nodes.client(0), 77, Duration::from_secs(600)).await;
    let request = pb::GetSipRequest { handle: handle.clone() };
    let taken = SipServiceClient::new(nodes.client(1).channel()).get(request).await.unwrap().into_inner();
    assert_eq!((taken.cardinality, n), (77, 77));
    nodes.stop(0).await;
    nodes.client(1).delete("t", col("id").ge(0)).await.unwrap();
    let mut next = 1000;
    write_until(nodes.client(1), &mut next, || true).await;
    assert_eq!(selected(nodes.client(1), &handle).await.unwrap(), 77);
}

/// What is left of it is merged in the background, under other addresses.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_set_is_that_of_its_version_when_rows_in_memory_are_merged() {
    let server = Server::start().await;
    let client = &server.client;
    client.create_table("t", &rows(0, 0).schema()).await.unwrap();
    client.write_all("t", &[rows(0, 200_000)]).await.unwrap();
    let (handle, version, n) = kept(client, 177_000, Duration::from_secs(600)).await;
    let deleted = client.delete("t", col("id").ge(50_000)).await.unwrap().version;
    let begun = Instant::now();
    while client.table("t").await.unwrap().table.version == deleted {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is merged");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let table = client.table("t").await.unwrap().table;
    assert_eq!((table.version, table.rows, table.fragments), (version + 2, 50_000, 1));
    assert_eq!((selected(client, &handle).await.unwrap(), n), (177_000, 177_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn whichever_node_keeps_the_set_and_whichever_removes_files() {
    let mut nodes = Nodes::places(3).await;
    for i in 0..3 {
        nodes.restart_with(i, |config| config.keep_versions = SHORT).await;
    }
    for i in 0..3 {
        nodes.sees(i, 2).await;
    }
    nodes.client(0).create_table("t", &rows(0, 0).schema()).await.unwrap();
    // One of them owns the table, and removes files: of the two others it must know the pins.
    let mut sets = Vec::new();
    for i in 0..3_i64 {
        let client = nodes.client(usize::try_from(i).unwrap());
        client.write_all("t", &[rows(i * 100, i * 100 + 100)]).await.unwrap();
        sets.push(kept(client, 1000, Duration::from_secs(600)).await);
    }
    let pinned = data_files(nodes.store.path());
    nodes.client(1).delete("t", col("id").ge(0)).await.unwrap();
    nodes.client(1).write_all("t", &[rows(999, 1000)]).await.unwrap();
    let is_other = |file: &String| !pinned.contains(file);
    let other = data_files(nodes.store.path()).into_iter().find(is_other).unwrap();
    let mut next = 1000;
    write_until(nodes.client(1), &mut next, || !data_files(nodes.store.path()).contains(&other)).await;
    let left = data_files(nodes.store.path());
    assert!(pinned.iter().all(|file| left.contains(file)), "{pinned:?} of {left:?}");
    for (i, (handle, _, n)) in sets.iter().enumerate() {
        assert_eq!(*n, 100 * (i as u64 + 1));
        for asked in 0..3 {
            assert_eq!(selected(nodes.client(asked), handle).await.unwrap(), *n, "node {asked}, set {i}");
        }
    }
    let (_, version, _) = sets[2];
    check(at(nodes.client(0), version + 1).await, Code::FailedPrecondition, "VERSION_GONE", "version");
}
