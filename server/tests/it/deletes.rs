//! Tables whose deletions rewrite files: the rows are those of any other table, and no deletion vector is ever there.

use std::{fs, path::Path};

use arrow_array::{cast::AsArray as _, types::Int64Type};
use arrow_schema::{DataType, Field, Schema};
use basalt_client::{Client, Deletes, TableOptions, col};
use basalt_proto::v1::{ErrorReason, TypeKind};
use tempfile::TempDir;
use tonic::Code;

use crate::{
    cluster::nodes::Nodes,
    durable::against_a_model_with,
    support::{Server, batch, check, commit, field, open_as},
};

fn rewrite() -> TableOptions {
    TableOptions::new().deletes(Deletes::Rewrite)
}

async fn at(store: &TempDir) -> Server {
    Server::with(|config| config.store = store.path().to_str().unwrap().to_owned()).await
}

/// The texts of all versions of the only table of a store.
fn log(store: &Path) -> String {
    let table = fs::read_dir(store.join("tables")).unwrap().next().unwrap().unwrap().path();
    let files = fs::read_dir(table.join("_delta_log")).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> = files.filter(|file| file.extension().is_some_and(|e| e == "json")).collect();
    files.sort();
    files.iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

async fn values(client: &Client) -> Vec<i64> {
    let rows = client.query("t").select([col("a")]).order_by([col("a").asc()]).collect().await.unwrap();
    rows.batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_rewrites_files_has_no_vectors_and_the_same_rows() {
    let store = TempDir::new().unwrap();
    let server = at(&store).await;
    against_a_model_with(&[&server.client], &rewrite()).await;
    let rows = server.rows("m").await;
    let log = log(store.path());
    assert!(!log.contains("deletionVector"), "{log}");
    assert!(log.contains("basalt.deletes") && log.contains(r#""operation":"MERGE""#), "{log}");
    drop(server);
    let server = at(&store).await;
    assert_eq!(server.rows("m").await, rows);
    assert_eq!(server.client.table("m").await.unwrap().table.deletes, Some(Deletes::Rewrite));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_rewrite_files_of_each_other() {
    let nodes = Nodes::start(3).await;
    against_a_model_with(&nodes.clients().collect::<Vec<_>>(), &rewrite()).await;
    assert!(!log(nodes.store.path()).contains("deletionVector"));
}

#[tokio::test]
async fn a_deletion_that_rewrites_leaves_older_versions_as_they_are() {
    let store = TempDir::new().unwrap();
    let server = at(&store).await;
    let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
    server.client.create_table_with("t", &schema, &rewrite()).await.unwrap();
    server.write(vec![open_as("t", "1"), batch(1, &[1, 2, 3, 4, 5]), commit(1, 5)]).await.1.unwrap();
    let rows = server.client.query("t").filter(col("a").is_in([2, 4])).select_rows().await.unwrap();
    let before = server.client.table("t").await.unwrap().table.version;
    assert_eq!(server.client.delete("t", col("a").eq(2)).await.unwrap().rows, 1);
    assert_eq!(values(&server.client).await, [1, 3, 4, 5]);
    let old = server.client.query("t").version(before).filter(rows.filter()).collect().await.unwrap();
    assert_eq!(old.rows, 2);
    // Without a version named it is that of the rows.
    let same = server.client.query("t").filter(rows.filter()).collect().await.unwrap();
    assert_eq!((same.rows, same.version), (2, before));
    let now = server.client.query("t").version(before + 1).filter(rows.filter()).collect().await.unwrap_err();
    assert_eq!(now.reason(), ErrorReason::ScopeMismatch);
    // All rows of a fragment, and none.
    assert_eq!(server.client.delete("t", col("a").ge(0)).await.unwrap().rows, 4);
    assert_eq!(server.client.delete("t", col("a").ge(0)).await.unwrap().rows, 0);
    assert!(values(&server.client).await.is_empty());
}

#[tokio::test]
async fn what_deletions_leave_can_be_changed() {
    let store = TempDir::new().unwrap();
    let server = at(&store).await;
    server.numbers("t", 0..100).await;
    let deletes = async || server.client.table_summary("t").await.unwrap().deletes;
    assert_eq!(deletes().await, Some(Deletes::Vectors));
    server.client.delete("t", col("a").eq(1)).await.unwrap();
    let vectors = || log(store.path()).matches("deletionVector\":{").count();
    assert_eq!(vectors(), 1);
    let changed = server.client.set_deletes("t", Deletes::Rewrite).await.unwrap();
    assert_eq!((changed.deletes, deletes().await), (Some(Deletes::Rewrite), Some(Deletes::Rewrite)));
    server.client.delete("t", col("a").eq(2)).await.unwrap();
    // The vector leaves the table with its file.
    assert_eq!(vectors(), 2, "{}", log(store.path()));
    assert_eq!(values(&server.client).await.len(), 98);
    server.client.set_deletes("t", Deletes::Vectors).await.unwrap();
    assert_eq!(deletes().await, Some(Deletes::Vectors));

    let memory = Server::start().await;
    memory.create("t", vec![field("a", TypeKind::Int64)]).await.unwrap();
    assert_eq!(memory.client.table_summary("t").await.unwrap().deletes, None);
    let refused = memory.client.set_deletes("t", Deletes::Rewrite).await.unwrap_err();
    assert_eq!(refused.reason(), ErrorReason::InvalidStore);
    let request = basalt_proto::v1::SetDeletesRequest { table: "t".into(), deletes: 7 };
    check(memory.catalog().set_deletes(request).await, Code::InvalidArgument, "PROTOCOL", "deletes");
}
