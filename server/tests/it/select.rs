//! Sets of rows, and their use as filters.

use basalt_client::{Filter, col, count};
use basalt_proto::v1 as pb;
use tonic::Code;

use crate::support::{Server, check};

#[tokio::test]
async fn a_set_is_a_filter() {
    let server = Server::start().await;
    server.numbers("t", (0..300_000).map(|i| i % 1000)).await;
    let few = server.client.query("t").filter(col("a").lt(10)).select_rows().await.unwrap();
    assert_eq!((few.cardinality, few.version, few.table.as_str()), (3000, 1, "t"));
    assert_eq!(few.statistics.rows_selected, 3000);

    let count_of = async |filter: Filter| {
        let answer = server.client.query("t").filter(filter).select_rows().await.unwrap();
        answer.cardinality
    };
    assert_eq!(count_of(few.filter()).await, 3000);
    assert_eq!(count_of(few.filter().and(col("a").ge(5))).await, 1500);
    assert_eq!(count_of(!few.filter()).await, 297_000);
    let answer = server.client.query("t").select([count()]).rows(&few).collect().await.unwrap();
    assert_eq!(answer.rows, 1);

    let none = server.client.query("t").filter(col("a").gt(5000)).select_rows().await.unwrap();
    assert_eq!((none.cardinality, none.bytes.len()), (0, 1));
    assert_eq!(count_of(none.filter()).await, 0);
    let all = server.client.query("t").select_rows().await.unwrap();
    assert_eq!(all.cardinality, 300_000);
    assert!(all.bytes.len() < 100, "{} bytes for all rows", all.bytes.len());
}

#[tokio::test]
async fn a_set_of_something_else_is_an_error() {
    let server = Server::start().await;
    server.numbers("t", 0..100).await;
    server.numbers("u", 0..100).await;
    let rows = server.client.query("t").filter(col("a").lt(10)).select_rows().await.unwrap();
    let query = |table: &str, scope: Option<(&str, u64)>, sip: &[u8]| {
        let scope =
            scope.map(|(table, version)| pb::Scope { table: table.into(), version, key: None, table_id: 0 });
        let set = pb::RowSet { scope, set: Some(pb::row_set::Set::Sip(sip.to_vec().into())) };
        let filter = Some(pb::Filter { kind: Some(pb::filter::Kind::Rows(set)) });
        pb::QueryRequest { table: table.into(), filter, ..Default::default() }
    };
    server.query(query("t", Some(("t", 1)), &rows.bytes)).await.unwrap();
    let precondition = Code::FailedPrecondition;
    check(
        server.query(query("u", Some(("t", 1)), &rows.bytes)).await,
        precondition,
        "SCOPE_MISMATCH",
        "filter.rows.scope.table",
    );
    check(
        server.query(query("t", Some(("t", 2)), &rows.bytes)).await,
        precondition,
        "SCOPE_MISMATCH",
        "filter.rows.scope.version",
    );
    let invalid = Code::InvalidArgument;
    check(server.query(query("t", None, &rows.bytes)).await, invalid, "INVALID_QUERY", "filter.rows.scope");
    check(server.query(query("t", Some(("t", 1)), &[])).await, invalid, "INVALID_SIP", "filter.rows.sip");
    check(server.query(query("t", Some(("t", 1)), &[0, 0])).await, invalid, "INVALID_SIP", "filter.rows.sip");

    // A write makes a new version. The set is of the old one, which is read unless another is named.
    server
        .client
        .write_all("t", &[server.client.query("t").limit(1).collect().await.unwrap().batches.remove(0)])
        .await
        .unwrap();
    server.query(query("t", Some(("t", 1)), &rows.bytes)).await.unwrap();
    let read = server.client.query("t").filter(rows.filter()).select([count()]).collect().await.unwrap();
    assert_eq!(read.version, 1);
    let newest = pb::QueryRequest { version: Some(2), ..query("t", Some(("t", 1)), &rows.bytes) };
    check(server.query(newest).await, precondition, "SCOPE_MISMATCH", "filter.rows.scope.version");
}
