//! Rows that are older than their table keeps them: nobody reads them, and they are freed.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use arrow_array::{
    ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray, cast::AsArray as _, types::Int64Type,
};
use basalt_client::{Client, Retention, col, count, keys_of};
use basalt_proto::v1::{self as pb, TypeKind};
use tempfile::TempDir;
use tonic::Code;

use crate::{
    cluster::nodes::Nodes,
    support::{Server, check, field},
};

const HOUR: Duration = Duration::from_secs(3600);

/// Rows of an id, and of a time that is so long ago.
fn rows(ids: std::ops::Range<i64>, ago: impl Fn(i64) -> Duration) -> RecordBatch {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let at = |id: i64| i64::try_from((now - ago(id)).as_micros()).unwrap();
    let at = TimestampMicrosecondArray::from_iter_values(ids.clone().map(at)).with_timezone("UTC");
    let columns: [(&str, ArrayRef); 2] =
        [("id", Arc::new(Int64Array::from_iter_values(ids))), ("at", Arc::new(at))];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Ten thousand rows that are young, 90,000 among them and 70,000 in a write of their own that are not.
async fn fill(client: &Client) {
    let mixed = rows(0..100_000, |id| if id % 10 == 0 { Duration::ZERO } else { 10 * HOUR });
    client.create_table("t", &mixed.schema()).await.unwrap();
    client.write_all("t", &[mixed]).await.unwrap();
    client.write_all("t", &[rows(100_000..170_000, |_| 5 * HOUR)]).await.unwrap();
}

fn hour_by(column: &str) -> Retention {
    Retention::new(column, HOUR)
}

async fn number(client: &Client, query: basalt_client::Query) -> i64 {
    let answer = client.query_of(query.select([count()]).request().clone()).collect().await.unwrap();
    answer.batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// Waits until a table holds so many rows, read or not.
async fn holds(client: &Client, rows: u64) {
    let mut held = 0;
    for _ in 0..300 {
        held = client.table("t").await.unwrap().table.rows;
        if held == rows {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{held} rows are held, not {rows}");
}

async fn works(server: Server, restarted: impl AsyncFnOnce(Server) -> Server) {
    fill(&server.client).await;
    assert_eq!(number(&server.client, server.client.query("t")).await, 170_000);
    let version = server.client.table("t").await.unwrap().table.version;
    let told = server.client.set_retention("t", Some(&hour_by("at"))).await.unwrap();
    assert_eq!((told.retention, told.version), (Some(hour_by("at")), version + 1));
    // From the answer on, whatever is freed.
    let client = server.client.clone();
    assert_eq!(number(&client, client.query("t")).await, 10_000);
    assert_eq!(number(&client, client.query("t").filter(col("id").lt(15))).await, 2);
    assert_eq!(client.query("t").filter(col("id").ge(99_000)).select_rows().await.unwrap().cardinality, 100);
    let inner = keys_of("t", "id").filter(col("id").lt(1000));
    assert_eq!(number(&client, client.query("t").filter(col("id").in_keys(inner))).await, 100);
    assert_eq!(client.delete("t", col("id").lt(100)).await.unwrap().rows, 10, "of those that can be read");
    let of_old = keys_of("t", "id").filter(col("id").ge(100_000));
    assert_eq!(client.delete("t", col("id").in_keys(of_old)).await.unwrap().rows, 0);
    let explained = client.query("t").explain(false).await.unwrap();
    assert!(explained.filters.iter().any(|filter| filter.text.starts_with("at >= ")), "{explained:?}");
    holds(&client, 9_990).await;

    // Old rows may come late.
    let server = restarted(server).await;
    let client = server.client.clone();
    assert_eq!(client.table("t").await.unwrap().table.retention, Some(hour_by("at")));
    client
        .write_all("t", &[rows(200_000..200_010, |id| if id % 2 == 0 { HOUR } else { Duration::ZERO })])
        .await
        .unwrap();
    assert_eq!(number(&client, client.query("t")).await, 9_995);
    let told = client.set_retention("t", None).await.unwrap();
    assert_eq!(told.retention, None);
    assert_eq!(number(&client, client.query("t")).await, 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_rows_are_hidden_and_freed_in_memory() {
    works(Server::start().await, async |server| server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_rows_are_hidden_and_freed_on_storage() {
    let store = TempDir::new().unwrap();
    let at = async |store: &Path| {
        let store = store.to_str().unwrap().to_owned();
        Server::with(|config| config.store = store).await
    };
    works(at(store.path()).await, async |mut server| {
        server.signal();
        server.ended().await;
        at(store.path()).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_hides_the_same() {
    let nodes = Nodes::start(3).await;
    let first = nodes.client(0);
    fill(first).await;
    nodes.client(1).set_retention("t", Some(&hour_by("at"))).await.unwrap();
    for client in nodes.clients() {
        assert_eq!(client.table("t").await.unwrap().table.retention, Some(hour_by("at")));
        assert_eq!(number(client, client.query("t")).await, 10_000);
        let inner = keys_of("t", "id").filter(col("id").lt(1000));
        assert_eq!(number(client, client.query("t").filter(col("id").in_keys(inner))).await, 100);
        let found = client.query("t").filter(col("id").ge(99_000)).select_keys("id").await.unwrap();
        assert_eq!(found.cardinality, 100);
    }
    assert_eq!(first.delete("t", col("id").lt(100)).await.unwrap().rows, 10);
    for client in nodes.clients() {
        holds(client, 9_990).await;
        assert_eq!(number(client, client.query("t")).await, 9_990);
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let server = Server::start().await;
    let schema = pb::Schema { fields: vec![field("a", TypeKind::Int64), field("at", TypeKind::Timestamp)] };
    let create = async |retention: Option<pb::Retention>| {
        let schema = Some(schema.clone());
        let request = pb::CreateTableRequest {
            name: "t".into(),
            schema,
            if_not_exists: true,
            retention,
            deletes: 0,
            optimize: 0,
        };
        server.catalog().create_table(request).await.map(|answer| answer.into_inner().table.unwrap())
    };
    let by = |column: &str, seconds| Some(pb::Retention { column: column.into(), seconds });
    check(create(by("a", 1)).await, Code::InvalidArgument, "TYPE_MISMATCH", "retention.column");
    check(create(by("b", 1)).await, Code::NotFound, "COLUMN_NOT_FOUND", "retention.column");
    check(create(by("at", 0)).await, Code::InvalidArgument, "INVALID_SCHEMA", "retention.seconds");
    assert_eq!(create(by("at", 60)).await.unwrap().retention, by("at", 60));
    assert_eq!(create(by("at", 60)).await.unwrap().retention, by("at", 60));
    check(create(by("at", 61)).await, Code::AlreadyExists, "TABLE_EXISTS", "retention");
    assert_eq!(create(None).await.unwrap().retention, by("at", 60), "whatever it is");
    let set = async |table: &str, retention| {
        let request = pb::SetRetentionRequest { table: table.into(), retention };
        server.catalog().set_retention(request).await.map(|answer| answer.into_inner().table.unwrap())
    };
    check(set("u", None).await, Code::NotFound, "TABLE_NOT_FOUND", "table");
    check(set("t", by("a", 1)).await, Code::InvalidArgument, "TYPE_MISMATCH", "retention.column");
    // Any length of time is one.
    assert_eq!(set("t", by("at", u64::MAX)).await.unwrap().retention, by("at", u64::MAX));
    assert_eq!(number(&server.client, server.client.query("t")).await, 0);
}
