//! Queries: rows, aggregates, formats, large answers, plans.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, cast::AsArray as _, types::Int64Type};
use basalt_client::{col, count, count_distinct, lit, max, min, row_address, sum};
use basalt_proto::v1::{self as pb, TypeKind, query_response::Kind};
use prost::Message as _;
use tonic::Code;

use crate::support::{Server, check, field};

#[tokio::test]
async fn groups_are_filtered_aggregated_and_ordered() {
    let server = Server::start().await;
    server.create("t", vec![field("k", TypeKind::Utf8), field("v", TypeKind::Int64)]).await.unwrap();
    let columns: [(&str, ArrayRef); 2] = [
        ("k", Arc::new(StringArray::from(vec![Some("a"), Some("b"), Some("a"), None, Some("b"), Some("c")]))),
        ("v", Arc::new(Int64Array::from(vec![Some(1), Some(2), Some(3), Some(4), None, Some(100)]))),
    ];
    let rows = RecordBatch::try_from_iter_with_nullable(columns.map(|(n, a)| (n, a, true))).unwrap();
    server.client.write_all("t", &[rows]).await.unwrap();
    let answer = server
        .client
        .query("t")
        .select([col("k"), count().alias("n"), sum(col("v") * lit(10)).alias("s"), max(col("v")).alias("m")])
        .filter(col("v").lt(50).or(col("v").is_null()))
        .group_by([col("k")])
        .having(count().gt(1))
        .order_by([col("s").desc()])
        .collect()
        .await
        .unwrap();
    assert_eq!((answer.rows, answer.version), (2, 1));
    let batch = &answer.batches[0];
    assert_eq!(batch.column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["a", "b"]);
    let numbers = |i: usize| batch.column(i).as_primitive::<Int64Type>().values().to_vec();
    assert_eq!((numbers(1), numbers(2), numbers(3)), (vec![2, 2], vec![40, 20], vec![3, 2]));
    let names: Vec<_> = answer.schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["k", "n", "s", "m"]);
    assert_eq!((answer.statistics.rows, answer.statistics.rows_selected), (6, 5));
    assert!(answer.statistics.elapsed_us >= answer.statistics.execute_us);
}

#[tokio::test]
async fn an_answer_without_rows_is_whole() {
    let server = Server::start().await;
    server.numbers("t", [1, 2, 3]).await;
    let filter = Some(col("a").gt(10).into());
    let messages =
        server.query(pb::QueryRequest { table: "t".into(), filter, ..Default::default() }).await.unwrap();
    assert!(matches!(messages.first(), Some(Kind::Header(_))));
    let Some(Kind::Trailer(trailer)) = messages.last() else { panic!("{messages:?}") };
    assert!(trailer.complete && trailer.rows == 0);
    assert_eq!(trailer.statistics.unwrap().blocks_pruned, 1);

    server.create("empty", vec![field("a", TypeKind::Int64)]).await.unwrap();
    let answer = server.client.query("empty").select([count(), min(col("a"))]).collect().await.unwrap();
    assert_eq!(answer.batches[0].column(0).as_primitive::<Int64Type>().value(0), 0);
    assert_eq!(answer.batches[0].column(1).null_count(), 1);
}

#[tokio::test]
async fn large_answers_come_in_small_messages() {
    let server = Server::start().await;
    let n = 600_000;
    server.numbers("t", 0..n).await;
    for format in [pb::Format::Columns, pb::Format::ArrowIpc] {
        let request = pb::QueryRequest { table: "t".into(), format: format.into(), ..Default::default() };
        let messages = server.query(request).await.unwrap();
        let sizes = messages.iter().map(|m| pb::QueryResponse { kind: Some(m.clone()) }.encoded_len());
        assert!(sizes.max().unwrap() <= 2 << 20);
        assert!(messages.len() > 5, "{} messages", messages.len());
    }
    for query in [server.client.query("t"), server.client.query("t").as_arrow_ipc()] {
        let answer = query.collect().await.unwrap();
        let values =
            answer.batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().iter());
        assert!(values.copied().eq(0..n));
    }
}

/// Keys between the extremes of a block are taken to be equally frequent. One that is half of them is expected in a few
/// rows, so that its answer is first kept, and begins again when it is too large for that.
#[tokio::test]
async fn an_answer_that_is_larger_than_expected_is_whole() {
    const ROWS: i64 = 100_000;
    let server = Server::start().await;
    server.numbers("t", (0..ROWS).map(|i| if i % 2 == 0 { 7 } else { i * 1_000_003 })).await;
    let of = |key: i64| server.client.query("t").filter(col("a").eq(key)).collect();
    let (many, one) = (of(7).await.unwrap(), of(1_000_003).await.unwrap());
    assert_eq!((many.rows, one.rows), (50_000, 1));
    let all_are = |key: i64| {
        let columns = many.batches.iter().map(|batch| batch.column(0).as_primitive::<Int64Type>());
        columns.flat_map(|column| column.values().to_vec()).filter(|value| *value == key).count()
    };
    assert_eq!(all_are(7), 50_000);
}

#[tokio::test]
async fn a_row_that_no_message_holds_is_an_error() {
    let server = Server::start().await;
    let fields: Vec<_> = (0..6).map(|i| field(&format!("t{i}"), TypeKind::Utf8)).collect();
    server.create("wide", fields).await.unwrap();
    let text = "x".repeat(1 << 20);
    for names in [["t0", "t1", "t2"], ["t3", "t4", "t5"]] {
        let columns = names.map(|n| (n, Arc::new(StringArray::from(vec![text.as_str()])) as ArrayRef, true));
        server
            .client
            .write_all("wide", &[RecordBatch::try_from_iter_with_nullable(columns).unwrap()])
            .await
            .unwrap();
    }
    // The texts meet in one row of this answer.
    let all: Vec<_> = (0..6).map(|i| max(col(format!("t{i}")))).collect();
    let request = server.client.query("wide").select(all).request().clone();
    check(server.query(request).await, Code::ResourceExhausted, "MESSAGE_TOO_LARGE", "");
}

#[tokio::test]
async fn rows_are_found_by_their_addresses() {
    let server = Server::start().await;
    server.numbers("t", (0..100).map(|i| i * i)).await;
    let query = || server.client.query("t").select([row_address().alias("at"), col("a")]);
    let found = query().filter(col("a").is_in([25, 81, 7])).collect().await.unwrap();
    let addresses: Vec<u64> =
        found.batches[0].column(0).as_primitive::<arrow_array::types::UInt64Type>().values().to_vec();
    assert_eq!(addresses.len(), 2);
    let unknown = u64::MAX;
    let filter = basalt_client::Filter::row_addresses(1, [addresses.clone(), vec![unknown]].concat());
    let again = query().filter(filter).collect().await.unwrap();
    assert_eq!(again.batches, found.batches);
}

#[tokio::test]
async fn versions() {
    let server = Server::start().await;
    server.numbers("t", [1]).await;
    let version = |v| server.client.query("t").version(v).request().clone();
    assert_eq!(server.client.query("t").version(1).collect().await.unwrap().rows, 1);
    // A request that has pinned a version reads it on after the next commits.
    assert_eq!(server.client.query("t").version(0).collect().await.unwrap().rows, 0);
    check(server.query(version(2)).await, Code::FailedPrecondition, "VERSION_GONE", "version");
}

#[tokio::test]
async fn plans() {
    let server = Server::start().await;
    server.numbers("t", 0..200_000).await;
    let query = || {
        server.client.query("t").select([sum(col("a")), count_distinct(col("a"))]).filter(col("a").lt(1000))
    };
    let plan = query().explain(false).await.unwrap();
    assert_eq!(plan.table_version, 1);
    assert_eq!((plan.filters.len(), plan.columns.len()), (1, 1));
    assert_eq!(plan.filters[0].blocks_pruned, 3);
    assert_eq!((plan.columns[0].name.as_str(), plan.columns[0].encodings.len()), ("a", 1));
    assert!(plan.text.contains("sum"), "{}", plan.text);
    assert_eq!(plan.statistics.unwrap().rows_selected, 0);
    assert!(plan.operators.is_empty());
    let plan = query().explain(true).await.unwrap();
    assert_eq!(plan.statistics.unwrap().rows_selected, 1000);
    let steps: Vec<_> = plan.operators.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(steps, ["prune", "filter", "aggregate", "merge", "finish"]);
    assert_eq!((plan.operators[1].text.as_str(), plan.operators[1].rows_out), ("a < 1000", 1000));

    let request = server.client.query("t").filter(col("b").eq(1)).request().clone();
    let request = pb::ExplainRequest { query: Some(request), analyze: false };
    check(
        server.queries().explain(request).await,
        Code::NotFound,
        "COLUMN_NOT_FOUND",
        "query.filter.compare.left.column",
    );
}
