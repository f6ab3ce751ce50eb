//! `column IN (SELECT key FROM table WHERE ...)`, and what Explain tells of sets.

use std::{sync::Arc, time::Duration};

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use basalt_client::{Expr, Filter, SemiJoin, col, keys_of, lit, not};
use basalt_proto::v1::{self as pb, TypeKind, query_service_client::QueryServiceClient};
use tonic::{Code, Request, Status};

use crate::support::{Server, check, field};

/// `t` has a (1, 2, 3, null) and s ("x", "y", "z", null); `u` has k (2, 4, null, 3), s ("y", null, "w", "x")
/// and f.
async fn two_tables() -> Server {
    let server = Server::start().await;
    let numbers = |values: [Option<i64>; 4]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    let texts = |values: [Option<&str>; 4]| -> ArrayRef { Arc::new(StringArray::from(values.to_vec())) };
    let small: ArrayRef = Arc::new(Int32Array::from(vec![Some(2), Some(4), None, Some(3)]));
    let fields = |first: &str, kind| vec![field(first, kind), field("s", TypeKind::Utf8)];
    server.create("t", fields("a", TypeKind::Int64)).await.unwrap();
    let mut of_u = fields("k", TypeKind::Int32);
    of_u.push(field("f", TypeKind::Float64));
    server.create("u", of_u).await.unwrap();
    let t = [
        ("a", numbers([Some(1), Some(2), Some(3), None])),
        ("s", texts([Some("x"), Some("y"), Some("z"), None])),
    ];
    let rows = RecordBatch::try_from_iter_with_nullable(t.map(|(n, a)| (n, a, true))).unwrap();
    server.client.write_all("t", &[rows]).await.unwrap();
    let f: ArrayRef = Arc::new(arrow_array::Float64Array::from(vec![0.5; 4]));
    let u = [("k", small), ("s", texts([Some("y"), None, Some("w"), Some("x")])), ("f", f)];
    let rows = RecordBatch::try_from_iter_with_nullable(u.map(|(n, a)| (n, a, true))).unwrap();
    server.client.write_all("u", &[rows]).await.unwrap();
    server
}

const NONE: [u64; 0] = [];

/// The addresses of the rows of `t` that a filter selects.
async fn rows(server: &Server, filter: Filter) -> Vec<u64> {
    let set = server.client.query("t").filter(filter).select_rows().await.unwrap();
    set.sip().unwrap().iter().collect()
}

async fn refused(server: &Server, filter: Filter) -> Result<(), Status> {
    let request = pb::QueryRequest { table: "t".into(), filter: Some(filter.into()), ..Default::default() };
    server.query(request).await.map(|_| ())
}

#[tokio::test]
async fn in_and_not_in_are_those_of_sql() {
    let server = two_tables().await;
    let k = || keys_of("u", "k");
    let s = || keys_of("u", "s");
    let known = |join: SemiJoin, key: &str| join.filter(not(col(key).is_null()));

    assert_eq!(rows(&server, col("a").in_keys(k())).await, [1, 2]);
    assert_eq!(rows(&server, col("s").in_keys(s())).await, [0, 1]);
    // With a null among the keys, nothing is known to be outside.
    assert_eq!(rows(&server, not(col("a").in_keys(k()))).await, NONE);
    assert_eq!(rows(&server, not(col("s").in_keys(s()))).await, NONE);
    // Without one, what is null itself is still neither.
    assert_eq!(rows(&server, not(col("a").in_keys(known(k(), "k")))).await, [0]);
    assert_eq!(rows(&server, not(col("s").in_keys(known(s(), "s")))).await, [2]);
    // No keys: nothing is inside, not even the unknown; everything is outside.
    let none = |join: SemiJoin| join.filter(col("k").gt(100));
    for (column, join) in [("a", k()), ("s", s())] {
        assert_eq!(rows(&server, col(column).in_keys(none(join.clone()))).await, NONE);
        assert_eq!(rows(&server, not(col(column).in_keys(none(join)))).await, [0, 1, 2, 3]);
    }
    // Only a null.
    let only_null = || k().filter(col("k").is_null());
    assert_eq!(rows(&server, col("a").in_keys(only_null())).await, NONE);
    assert_eq!(rows(&server, not(col("a").in_keys(only_null()))).await, NONE);

    // Beside other conditions, nested, over the table itself, and in a version.
    let either = col("a").in_keys(k().filter(col("k").lt(3))).or(col("s").eq("x"));
    assert_eq!(rows(&server, either).await, [0, 1]);
    let nested = k().filter(col("s").in_keys(keys_of("t", "s").filter(col("a").lt(2))));
    assert_eq!(rows(&server, col("a").in_keys(nested)).await, [2]);
    let itself = keys_of("t", "a").filter(not(col("a").in_keys(known(k(), "k"))));
    assert_eq!(rows(&server, col("a").in_keys(itself)).await, [0]);
    assert_eq!(rows(&server, col("a").in_keys(k().version(1))).await, [1, 2]);

    // The same in a query, and of values.
    let answer = server.client.query("t").filter(col("a").in_keys(k())).collect().await.unwrap();
    assert_eq!(answer.rows, 2);
    let keys = server.client.query("t").filter(col("a").in_keys(k())).select_keys("a").await.unwrap();
    assert_eq!(keys.sip().unwrap().iter().collect::<Vec<_>>(), [2, 3]);
}

#[tokio::test]
async fn mistakes_are_told_with_their_place() {
    let server = two_tables().await;
    let (argument, not_found) = (Code::InvalidArgument, Code::NotFound);
    let of = |column: &str, join| refused(&server, col(column).in_keys(join));
    let join = |place: &str| format!("filter.semi_join.{place}");
    check(of("a", keys_of("no", "k")).await, not_found, "TABLE_NOT_FOUND", &join("table"));
    check(of("a", keys_of("u", "no")).await, not_found, "COLUMN_NOT_FOUND", &join("key"));
    check(of("no", keys_of("u", "k")).await, not_found, "COLUMN_NOT_FOUND", &join("column"));
    check(of("a", keys_of("u", "f")).await, argument, "TYPE_MISMATCH", &join("key"));
    check(of("a", keys_of("u", "s")).await, argument, "TYPE_MISMATCH", &join("column"));
    check(of("s", keys_of("u", "k")).await, argument, "TYPE_MISMATCH", &join("column"));
    let inner = keys_of("u", "k").filter(col("no").eq(1));
    check(of("a", inner).await, not_found, "COLUMN_NOT_FOUND", &join("filter.compare.left.column"));
    let gone = keys_of("u", "k").version(7);
    check(of("a", gone).await, Code::FailedPrecondition, "VERSION_GONE", &join("version"));
    // A query sees a table in one version.
    let itself = keys_of("t", "a").version(7);
    check(of("a", itself).await, Code::FailedPrecondition, "VERSION_GONE", &join("version"));

    let many = |n| Filter::any((0..n).map(|_| col("a").in_keys(keys_of("u", "k"))));
    refused(&server, many(64)).await.unwrap();
    check(refused(&server, many(65)).await, argument, "FILTER_TOO_LARGE", "filter.or[64].semi_join");
    let having = server.client.query("t").group_by([col("a")]).having(col("a").in_keys(keys_of("u", "k")));
    let grouped = server.query(having.request().clone()).await;
    assert!(grouped.is_ok(), "{grouped:?}");
}

#[tokio::test]
async fn the_deadline_holds_for_the_inner_query() {
    let server = Server::with(|c| c.concurrent_queries = 1).await;
    server.numbers("t", 0..10).await;
    server.numbers("u", 0..400_000).await;
    let long = |k: i64| (0..25).fold(col("a") / lit(3), |e: Expr, i| e + col("a") / lit(k + i));
    let slow = Filter::all((1..=16).map(|k| long(k).ge(0)));
    let request = || {
        let join = col("a").in_keys(keys_of("u", "a").filter(slow.clone()));
        let request = server.client.query("t").filter(join).request().clone();
        let mut request = Request::new(request);
        request.set_timeout(Duration::from_millis(30));
        request
    };
    let mut queries = QueryServiceClient::new(server.plain().await);
    check(queries.query(request()).await.map(|_| ()), Code::DeadlineExceeded, "DEADLINE_EXCEEDED", "");
    let set =
        pb::SelectRequest { table: "t".into(), filter: request().into_inner().filter, ..Default::default() };
    let mut set = Request::new(set);
    set.set_timeout(Duration::from_millis(30));
    check(queries.select(set).await, Code::DeadlineExceeded, "DEADLINE_EXCEEDED", "");
    // The only permit is free again: the work has stopped.
    let few = server.client.query("t").filter(col("a").in_keys(keys_of("u", "a"))).collect().await.unwrap();
    assert_eq!(few.rows, 10);
}

#[tokio::test]
async fn explain_tells_what_sets_did() {
    let server = Server::start().await;
    server.numbers("t", 0..200_000).await;
    server.numbers("u", (0..1000).map(|i| i * 50)).await;
    let few = server.client.query("t").filter(col("a").lt(1000)).select_rows().await.unwrap();
    let minute = Duration::from_secs(60);
    let keys = server.client.query("u").filter(col("a").lt(100)).select_keys("a").keep(minute).await.unwrap();
    let inner = col("a").in_keys(keys_of("u", "a").filter(col("a").lt(200)));
    let filter = few
        .filter()
        .and(col("a").in_keys(keys.kept.unwrap().handle).or(col("a").eq(77)))
        .and(col("a").in_keys(keys_of("u", "a").filter(inner)).or(col("a").eq(77)));
    let explain = async |analyze| {
        let query = server.client.query("t").filter(filter.clone()).request().clone();
        let request = pb::ExplainRequest { query: Some(query), analyze };
        server.queries().explain(request).await.unwrap().into_inner()
    };
    let by_source = |answer: &pb::ExplainResponse, source: &str| {
        let mut found = answer.sips.iter().filter(|sip| sip.source == source).cloned().collect::<Vec<_>>();
        found.sort_by_key(|sip| sip.cardinality);
        found
    };

    let run = explain(true).await;
    assert_eq!(run.sips.len(), 4, "{:#?}", run.sips);
    let [rows] = &by_source(&run, "request")[..] else { panic!("{:#?}", run.sips) };
    assert_eq!((rows.cardinality, rows.bytes), (1000, few.bytes.len() as u64));
    assert_eq!((rows.tag.as_str(), rows.blocks_skipped), (few.sip().unwrap().tag().name(), 3));
    assert_eq!((rows.rows_in, rows.rows_passed), (65_536, 1000));
    let [kept] = &by_source(&run, "handle")[..] else { panic!("{:#?}", run.sips) };
    assert_eq!((kept.cardinality, kept.bytes), (2, keys.bytes.len() as u64));
    assert!(kept.rows_passed >= 2 && kept.rows_in >= kept.rows_passed, "{kept:?}");
    let [inner, outer] = &by_source(&run, "semi-join u.a")[..] else { panic!("{:#?}", run.sips) };
    assert_eq!((inner.cardinality, outer.cardinality), (4, 4));
    for join in [inner, outer] {
        assert!(join.build_us > 0 && join.text.contains("SELECT a FROM u"), "{join:?}");
    }
    assert_eq!(run.statistics.unwrap().rows_selected, 3);

    // Without `analyze` semi-joins are still run, and nothing else.
    let planned = explain(false).await;
    let [rows] = &by_source(&planned, "request")[..] else { panic!("{:#?}", planned.sips) };
    assert_eq!((rows.rows_in, rows.rows_passed, rows.apply_us, rows.blocks_skipped), (0, 0, 0, 3));
    let [outer] = &by_source(&planned, "semi-join u.a")[..] else { panic!("{:#?}", planned.sips) };
    assert_eq!((outer.cardinality, outer.rows_in, outer.rows_passed), (4, 0, 0));
}
