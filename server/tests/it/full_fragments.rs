//! Full fragments of a write go to files while more of its rows come in.

use std::{path::Path, sync::Arc, time::Duration};

use arrow_array::{
    Array as _, ArrayRef, Int64Array, RecordBatch, StringArray, cast::AsArray as _, types::Int64Type,
};
use arrow_schema::{DataType, Field, Schema};
use basalt_client::{WriteOptions, Writer, col, count};
use basalt_core::limits::FRAGMENT_ROWS;
use basalt_proto::v1::ErrorReason;
use basalt_server::{Config, Memory};
use tempfile::TempDir;

use crate::support::Server;

/// Rows of a batch.
const ROWS: usize = 1 << 17;

async fn on(store: &Path, change: impl FnOnce(&mut Config)) -> Server {
    Server::with(|config| {
        config.store = store.to_str().unwrap().to_owned();
        change(config);
    })
    .await
}

async fn create(server: &Server) {
    let fields = vec![Field::new("a", DataType::Int64, false), Field::new("kind", DataType::Utf8, true)];
    server.client.create_table("t", &Schema::new(fields)).await.unwrap();
}

fn rows(first: usize) -> RecordBatch {
    let numbers = || (first..first + ROWS).map(|i| i64::try_from(i).unwrap());
    let kinds =
        numbers().map(|i| (i % 5 > 0).then(|| ["one", "two", "three"][usize::try_from(i % 3).unwrap()]));
    let columns: [(&str, ArrayRef, bool); 2] = [
        ("a", Arc::new(Int64Array::from_iter_values(numbers())), false),
        ("kind", Arc::new(kinds.collect::<StringArray>()), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

async fn send(writer: &mut Writer, batches: usize) {
    for batch in 0..batches {
        writer.send(&rows(batch * ROWS)).await.unwrap();
    }
}

/// The data files in a store.
fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let count = |path: std::path::PathBuf| match path.extension() {
        Some(end) => usize::from(end == "parquet"),
        None => files(&path),
    };
    entries.map(count).sum()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn they_are_in_files_before_the_commit_and_gone_without_one() {
    let store = TempDir::new().unwrap();
    let mut server = on(store.path(), |_| {}).await;
    create(&server).await;
    let mut writer = server.client.write("t", WriteOptions::default()).await.unwrap();
    let per_fragment = FRAGMENT_ROWS / ROWS;
    send(&mut writer, per_fragment + 1).await;
    until("the full fragment is in a file", || files(store.path()) == 1).await;
    assert_eq!(server.rows("t").await, 0);
    drop(writer);
    until("a write that was given up leaves no file", || files(store.path()) == 0).await;

    let mut writer = server.client.write("t", WriteOptions::default()).await.unwrap();
    send(&mut writer, 2 * per_fragment + 1).await;
    let committed = writer.commit().await.unwrap();
    let n = 2 * FRAGMENT_ROWS + ROWS;
    assert_eq!((committed.rows, files(store.path())), (n as u64, 3));
    let table = server.client.table("t").await.unwrap().table;
    assert_eq!((table.rows, table.fragments), (n as u64, 3));

    // As they were sent, in their order, in memory and from the files.
    for _ in 0..2 {
        let read = server.client.query("t").select([col("a"), col("kind")]).collect().await.unwrap();
        let mut next = 0;
        for batch in &read.batches {
            let (a, kind) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string::<i32>());
            for row in 0..batch.num_rows() {
                assert_eq!(a.value(row), next);
                let text = (!kind.is_null(row)).then(|| kind.value(row));
                let sent = ["one", "two", "three"][usize::try_from(next % 3).unwrap()];
                assert_eq!(text, (next % 5 > 0).then_some(sent), "row {next}");
                next += 1;
            }
        }
        assert_eq!(usize::try_from(next).unwrap(), n);
        server.signal();
        server.ended().await;
        server = on(store.path(), |_| {}).await;
    }
}

/// With little memory fragments are smaller, and a write waits for its own where two at once do not fit; with next to none
/// it is refused, and leaves no files.
#[tokio::test(flavor = "multi_thread")]
async fn where_memory_is_short_a_write_waits_for_its_own_files() {
    let store = TempDir::new().unwrap();
    let server = on(store.path(), |config| config.memory = Memory::Bytes(100 << 20)).await;
    create(&server).await;
    let mut writer = server.client.write("t", WriteOptions::default()).await.unwrap();
    send(&mut writer, 3 * FRAGMENT_ROWS / ROWS).await;
    writer.commit().await.unwrap();
    let counted = server.client.query("t").select([count()]).collect().await.unwrap();
    let counted = counted.batches[0].column(0).as_primitive::<Int64Type>().value(0);
    assert_eq!(usize::try_from(counted).unwrap(), 3 * FRAGMENT_ROWS);

    // Not even a few rows fit.
    let store = TempDir::new().unwrap();
    let server = on(store.path(), |config| config.memory = Memory::Bytes(256 << 10)).await;
    create(&server).await;
    let mut writer = server.client.write("t", WriteOptions::default()).await.unwrap();
    let mut sent = Ok(());
    for batch in 0..=FRAGMENT_ROWS / ROWS {
        if sent.is_ok() {
            sent = writer.send(&rows(batch * ROWS)).await;
        }
    }
    let refused = match sent {
        Ok(()) => writer.commit().await.unwrap_err(),
        Err(refused) => refused,
    };
    assert_eq!(refused.reason(), ErrorReason::MemoryLimit);
    assert_eq!((server.rows("t").await, files(store.path())), (0, 0));
}
