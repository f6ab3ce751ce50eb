//! `basalt backup` and `basalt restore`: what a store had, also what came since the last backup, is served again.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};

use crate::{cli::basalt, support::Server};

#[tokio::test]
async fn what_was_backed_up_is_served_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (store, backups, restored) = (path("store"), path("backups"), path("restored"));
    let mut server = Server::with(|config| config.store.clone_from(&store)).await;
    server.numbers("t", 0..1000).await;
    basalt(&server, &["backup", &store, &backups]).await.unwrap();
    let more: ArrayRef = Arc::new((1000..1500).map(Some).collect::<Int64Array>());
    let more = RecordBatch::try_from_iter_with_nullable([("a", more, true)]).unwrap();
    server.client.write_all("t", &[more]).await.unwrap();
    let told = basalt(&server, &["backup", &store, &backups, "--jobs", "2"]).await.unwrap();
    // What is there already is not copied again.
    assert!(told.contains("copied"), "{told}");
    // The catalog's files are counted apart.
    let number = |text: &str| text.split(' ').next().unwrap().parse::<u32>().unwrap();
    let of_table = number(told.split_once("t: version ").unwrap().1.split_once(", ").unwrap().1);
    assert!(told.contains(&format!(": 1 table, {of_table} files, and ")), "{told}");
    server.numbers("t2", 0..10).await;
    assert_eq!(basalt(&server, &["backups", "list", &backups]).await.unwrap().lines().count(), 4);
    basalt(&server, &["backups", "verify", &backups]).await.unwrap();
    basalt(&server, &["restore", &backups, &restored]).await.unwrap();
    server.signal();
    server.ended().await;
    let again = Server::with(|config| config.store.clone_from(&restored)).await;
    assert_eq!(again.rows("t").await, 1500);
    assert_eq!(again.client.list_tables().await.unwrap().len(), 1);
    // A store that has tables is no place for a backup.
    let error = basalt(&again, &["restore", &backups, &restored]).await.unwrap_err();
    assert!(error.contains("has tables already"), "{error}");
    basalt(&again, &["backups", "prune", &backups, "--keep", "1"]).await.unwrap();
    let error = basalt(&again, &["backup", &store, &backups, "--version", "1"]).await.unwrap_err();
    assert!(error.contains("--table"), "{error}");
}

/// One entry of the catalog drops a table and makes another of its name.
#[cfg(feature = "sql")]
#[tokio::test]
async fn what_takes_the_place_of_a_table_is_backed_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (store, backups) = (path("store"), path("backups"));
    let mut server = Server::with(|config| config.store.clone_from(&store)).await;
    server.numbers("t", 0..1000).await;
    server.numbers("u", 0..10).await;
    basalt(&server, &["query", "CREATE OR REPLACE TABLE t AS SELECT a FROM t WHERE a < 500"]).await.unwrap();
    basalt(&server, &["backup", &store, &backups]).await.unwrap();
    for (to, table) in [("all", None), ("one", Some("t"))] {
        let to = path(to);
        let mut words = vec!["restore", backups.as_str(), to.as_str()];
        if let Some(table) = table {
            words.extend(["--table", table]);
        }
        basalt(&server, &words).await.unwrap();
        let again = Server::with(|config| config.store.clone_from(&to)).await;
        assert_eq!(again.rows("t").await, 500);
        assert_eq!(again.client.list_tables().await.unwrap().len(), if table.is_none() { 2 } else { 1 });
    }
    server.signal();
    server.ended().await;
}
