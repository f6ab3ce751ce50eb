//! What is read of tables of other writers: what lies below the roots, whatever links say, and never the server's own.

use std::{fs, os::unix::fs::symlink, path::Path, sync::Arc};

use arrow_array::{ArrayRef, Int64Array};
use basalt_client::ErrorReason;
use serde_json::json;
use tempfile::TempDir;

use crate::{
    attached::{Theirs, at, plain, until},
    support::Server,
};

fn longs(values: [i64; 2]) -> ArrayRef {
    Arc::new(values.into_iter().collect::<Int64Array>())
}

/// A table of two rows.
fn table(folder: &Path, id: &'static str) -> Theirs {
    let mut theirs = Theirs::new(folder, id);
    let file = theirs.add(&[("a", longs([1, 2]))]);
    theirs.commit(&[theirs.metadata(vec![plain("a", "long")], "none"), file]);
    theirs
}

async fn with(store: &TempDir, roots: &[&Path]) -> Server {
    Server::with(|config| {
        store.path().to_str().unwrap().clone_into(&mut config.store);
        config.attach_roots = roots.iter().map(|root| root.display().to_string()).collect();
    })
    .await
}

async fn ended(mut server: Server) {
    server.signal();
    server.ended().await;
}

/// Waits for the error of the table `t`.
async fn refused(server: &Server, reason: ErrorReason) -> String {
    until(&format!("{reason:?}"), async || {
        let error = server.client.query("t").collect().await.err()?;
        (error.reason() == reason).then(|| error.to_string())
    })
    .await
}

#[tokio::test]
async fn links_do_not_lead_out_of_an_attached_table() {
    let (store, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let path = |name: &str| folder.path().join(name);
    let server = at(&store).await;
    table(&path("hidden"), "hidden");
    let log = "_delta_log/00000000000000000000.json";

    fs::create_dir(path("log")).unwrap();
    symlink(path("hidden/_delta_log"), path("log/_delta_log")).unwrap();
    fs::copy(path("hidden/hidden-1.parquet"), path("log/hidden-1.parquet")).unwrap();

    fs::create_dir_all(path("file/_delta_log")).unwrap();
    fs::copy(path("hidden").join(log), path("file").join(log)).unwrap();
    symlink(path("hidden/hidden-1.parquet"), path("file/hidden-1.parquet")).unwrap();

    let mut theirs = Theirs::new(&path("sub"), "sub");
    let mut file = theirs.add(&[("a", longs([1, 2]))]);
    fs::rename(path("sub/sub-1.parquet"), path("hidden/sub-1.parquet")).unwrap();
    symlink(path("hidden"), path("sub/part")).unwrap();
    file["add"]["path"] = json!("part/sub-1.parquet");
    theirs.commit(&[theirs.metadata(vec![plain("a", "long")], "none"), file]);

    for name in ["log", "file", "sub"] {
        let error = server.client.attach_table("t", path(name).to_str().unwrap()).await.unwrap_err();
        assert_eq!(error.reason(), ErrorReason::InvalidStore, "{name}: {error}");
        assert!(error.to_string().contains("symbolic link"), "{name}: {error}");
    }
    assert!(server.client.list_all_tables().await.unwrap().0.is_empty());

    // One that stays in the table does no harm; one that comes later and leads out is not followed.
    let mut theirs = table(&path("t"), "t");
    fs::rename(path("t/t-1.parquet"), path("t/elsewhere")).unwrap();
    symlink("elsewhere", path("t/t-1.parquet")).unwrap();
    server.client.attach_table("t", theirs.url()).await.unwrap();
    assert_eq!(server.client.query("t").collect().await.unwrap().rows, 2);
    let file = theirs.add(&[("a", longs([3, 4]))]);
    fs::rename(path("t/t-2.parquet"), path("hidden/t-2.parquet")).unwrap();
    symlink(path("hidden/t-2.parquet"), path("t/t-2.parquet")).unwrap();
    theirs.commit(&[file]);
    let told = refused(&server, ErrorReason::TableDamaged).await;
    assert!(told.contains("symbolic link") && told.contains("t-2.parquet"), "{told}");
    assert!(!told.contains(folder.path().to_str().unwrap()), "{told}");
}

#[tokio::test]
async fn an_attached_table_is_read_as_long_as_its_place_is_below_a_root() {
    let (store, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let theirs = table(&folder.path().join("t"), "theirs");
    let server = with(&store, &[folder.path()]).await;
    server.numbers("other", [1, 2, 3]).await;
    server.client.attach_table("t", theirs.url()).await.unwrap();
    ended(server).await;

    let server = with(&store, &[]).await;
    let told = refused(&server, ErrorReason::InvalidStore).await;
    assert!(told.contains("\"t\"") && told.contains("--attach-root"), "{told}");
    assert!(!told.contains(theirs.url()), "{told}");
    assert_eq!(server.rows("other").await, 3);
    let (tables, unreadable) = server.client.list_all_tables().await.unwrap();
    assert_eq!((tables.len(), unreadable.len()), (1, 1));
    assert!(unreadable[0].name == "t" && unreadable[0].message.contains("--attach-root"), "{unreadable:?}");
    ended(server).await;

    let server = with(&store, &[folder.path()]).await;
    assert_eq!(server.client.query("t").collect().await.unwrap().rows, 2);
    ended(server).await;

    let server = with(&store, &[store.path()]).await;
    refused(&server, ErrorReason::InvalidStore).await;
    server.client.drop_table("t").await.unwrap();
    refused(&server, ErrorReason::TableNotFound).await;
    let again = server.client.attach_table("t", theirs.url()).await.unwrap_err();
    assert_eq!(again.reason(), ErrorReason::PermissionDenied, "{again}");
}

#[tokio::test]
async fn the_servers_own_store_is_not_attached() {
    let (store, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let server = at(&store).await;
    server.numbers("mine", [1, 2, 3]).await;
    let mine = fs::read_dir(store.path().join("tables")).unwrap().next().unwrap().unwrap().path();
    let link = folder.path().join("link");
    symlink(&mine, &link).unwrap();
    for path in [&*mine, store.path(), store.path().parent().unwrap(), &*link, Path::new("/")] {
        let error = server.client.attach_table("t", path.to_str().unwrap()).await.unwrap_err();
        assert_eq!(error.reason(), ErrorReason::PermissionDenied, "{}: {error}", path.display());
        assert!(error.to_string().contains("own store"), "{error}");
    }
}
