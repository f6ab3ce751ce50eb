//! A disk that fails in the middle of a commit: what a client is told is true, and sending a write again never doubles it.

use std::{sync::Arc, time::Duration};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray as _, types::Int64Type};
use basalt_client::{Client, ClientOptions, Committed, RetryPolicy, WriteOptions, col};

use super::{Call, Disk, Loss, killed::start};

/// What fails: syncing the folder of a table's log, or giving a version its name.
const FAULTS: [(Call, &str); 2] = [(Call::Sync, "*/_delta_log"), (Call::Name, "*/_delta_log/*")];

fn fail(disk: &Disk, (call, paths): (Call, &str)) {
    disk.fail(call, paths, rustix::io::Errno::IO);
}

fn rows(value: i64) -> RecordBatch {
    let array: ArrayRef = Arc::new(Int64Array::from(vec![value]));
    RecordBatch::try_from_iter([("a", array)]).unwrap()
}

async fn write(client: &Client, value: i64, request_id: &str) -> basalt_client::Result<Committed> {
    let options = WriteOptions::new().request_id(request_id);
    let mut writer = client.write("t", options).await?;
    writer.send(&rows(value)).await?;
    writer.commit().await
}

async fn values(client: &Client) -> Vec<i64> {
    let rows = client.query("t").select([col("a")]).order_by([col("a").asc()]).collect().await.unwrap();
    rows.batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

/// The reason of an error, and that its text does not claim what nobody knows.
#[track_caller]
fn reason<T: std::fmt::Debug>(outcome: basalt_client::Result<T>) -> String {
    let error = outcome.unwrap_err();
    let (text, reason) = (error.to_string(), error.server().unwrap().reason_name());
    assert_eq!(text.contains("not known"), reason == "OUTCOME_UNKNOWN", "{text}");
    assert!(!text.contains("nothing was written"), "{text}");
    reason
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_of_a_write_that_failed_is_true() {
    let disk = Disk::new();
    let store = disk.root();
    let (server, client) = start(store.to_str().unwrap(), Some(&disk)).await;
    client.create_table("t", &rows(0).schema()).await.unwrap();
    write(&client, 1, "").await.unwrap();

    // Its version's name is there, and may be lost with the next crash: so it is neither acknowledged nor shown.
    fail(&disk, FAULTS[0]);
    assert_eq!(reason(write(&client, 2, "two").await), "OUTCOME_UNKNOWN");
    assert_eq!(reason(write(&client, 2, "two").await), "STORE_UNAVAILABLE");
    assert_eq!(reason(client.delete("t", col("a").eq(1)).await), "STORE_UNAVAILABLE");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(values(&client).await, [1]);
    disk.heal();
    let again = write(&client, 2, "two").await.unwrap();
    assert_eq!(again.rows, 1);
    assert_eq!(values(&client).await, [1, 2]);

    // Its version is not there, and never will be: the same rows again are there once.
    fail(&disk, FAULTS[1]);
    assert_eq!(reason(write(&client, 3, "").await), "STORE_UNAVAILABLE");
    disk.heal();
    write(&client, 3, "").await.unwrap();
    assert_eq!(values(&client).await, [1, 2, 3]);

    // The library tries by itself again, with the id of the first try.
    for fault in FAULTS {
        fail(&disk, fault);
        let options = ClientOptions::new().retry(RetryPolicy::new().tries(50));
        let retrying = client.clone().with_options(options);
        let write = tokio::spawn(async move { retrying.write_all("t", &[rows(4)]).await });
        tokio::time::sleep(Duration::from_millis(700)).await;
        disk.heal();
        write.await.unwrap().unwrap();
    }
    assert_eq!(values(&client).await, [1, 2, 3, 4, 4]);

    // All that was acknowledged outlives the machine.
    drop(server);
    disk.lose(Loss::Most);
    let (_server, client) = start(store.to_str().unwrap(), None).await;
    assert_eq!(values(&client).await, [1, 2, 3, 4, 4]);
}

/// A table is acknowledged, made or dropped, once that would outlive the machine.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_of_a_table_is_true() {
    let disk = Disk::new();
    let store = disk.root();
    let (server, client) = start(store.to_str().unwrap(), Some(&disk)).await;
    let schema = rows(0).schema();
    client.create_table("t", &schema).await.unwrap();
    disk.fail(Call::Sync, "*/catalog", rustix::io::Errno::IO);
    assert_eq!(reason(client.create_table("u", &schema).await), "OUTCOME_UNKNOWN");
    assert_eq!(reason(client.drop_table("t").await), "OUTCOME_UNKNOWN");
    drop(server);
    disk.lose(Loss::Most);
    disk.heal();
    let (server, client) = start(store.to_str().unwrap(), Some(&disk)).await;
    let tables = client.list_tables().await.unwrap();
    assert_eq!(tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), ["t"]);

    // What was acknowledged is there, whatever failed before it.
    disk.fail(Call::Sync, "*/catalog", rustix::io::Errno::IO);
    let made = client.create_table("u", &schema).await;
    disk.heal();
    if made.is_err() {
        client.create_table_if_missing("u", &schema).await.unwrap();
    }
    client.create_table("v", &schema).await.unwrap();
    drop(server);
    disk.lose(Loss::Most);
    let (_server, client) = start(store.to_str().unwrap(), None).await;
    assert_eq!(client.list_tables().await.unwrap().len(), 3);
}
