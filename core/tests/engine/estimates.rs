//! What a plan takes is known before it runs, and the answer is never larger than that.

use basalt_core::exec::Estimate;

use super::*;

/// A table of a number and a text in each row.
fn texts(values: &[String]) -> Arc<Table> {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int32, false),
        Field::new("text", DataType::Utf8, true),
        Field::new("kind", DataType::Utf8, true),
    ]);
    let table = Catalog::new().create("texts", schema.unwrap()).unwrap();
    let ids = 0..i32::try_from(values.len()).unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(ids)),
        Arc::new(StringArray::from_iter_values(values)),
        Arc::new(StringArray::from_iter((0..values.len()).map(|i| (i % 3 > 0).then_some("kind")))),
    ];
    let batch = RecordBatch::try_new(table.schema().to_arrow(), columns).unwrap();
    let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
    appender.push(&batch).unwrap();
    appender.commit().unwrap();
    table
}

/// The estimate of a query, and the bytes of the values that it answers.
fn estimate(table: &Table, query: &Query) -> (Estimate, u64) {
    let snapshot = table.snapshot();
    let plan = Plan::new(table, &snapshot, query).unwrap();
    let mut bytes = 0;
    let mut count = |batch: RecordBatch| {
        for column in batch.columns() {
            bytes += match column.data_type() {
                arrow_schema::DataType::Utf8 => {
                    column.as_string::<i32>().iter().flatten().map(str::len).sum()
                }
                other => other.primitive_width().unwrap_or(1) * column.len(),
            };
        }
        Ok(())
    };
    plan.run(&snapshot, &Control::default(), &mut count).unwrap();
    (plan.estimate(&snapshot), bytes as u64)
}

fn select(items: Vec<Expr>) -> Query {
    let select = items.into_iter().map(|expr| SelectItem { expr, name: None }).collect();
    Query { select, ..Query::default() }
}

fn greatest(name: &str) -> Expr {
    aggregate(AggregateFunction::Max, Some(column(name))).expr
}

#[test]
fn an_answer_is_never_larger_than_its_estimate() {
    let long: Vec<String> = (0..40).map(|i| format!("{i:05}").repeat(20_000)).collect();
    let same: Vec<String> = (0..40).map(|_| "same".repeat(50_000)).collect();
    let short: Vec<String> = (0..3000).map(|i| format!("text {i}")).collect();
    for values in [long, same, short] {
        let table = texts(&values);
        let literal = Expr::Literal(Literal::Text("a constant".into()));
        let grouped = |query: Query| Query { group_by: vec![column("text"), column("kind")], ..query };
        for query in [
            Query::default(),
            Query { limit: Some(7), ..Query::default() },
            select(vec![column("text"), column("text"), literal.clone()]),
            select(vec![greatest("text"), greatest("id"), greatest("kind")]),
            grouped(select(vec![column("text"), greatest("text"), greatest("kind"), literal])),
            grouped(Query::default()),
        ] {
            let (estimate, bytes) = estimate(&table, &query);
            assert!(bytes <= estimate.answer_bytes, "{bytes} bytes, {estimate:?}: {query:?}");
            assert!(bytes > 0);
        }
    }
}

/// Rows are few in all of these; bytes are not.
#[test]
fn wide_texts_are_work() {
    let of = |rows: usize, bytes: usize, query: &Query| {
        let values: Vec<String> = (0..rows).map(|i| format!("{i:08}").repeat(bytes / 8)).collect();
        estimate(&texts(&values), query).0
    };
    let all = Query::default();
    let (narrow, wide) = (of(100, 40, &all), of(100, 100_000, &all));
    assert!(narrow.effort < 100_000 && narrow.answer_bytes < 20_000, "{narrow:?}");
    assert!(wide.effort > 1_000_000 && wide.answer_bytes > 10_000_000, "{wide:?}");
    // What is only read is work, and not in the answer.
    let read = of(100, 100_000, &Query { limit: Some(1), ..select(vec![greatest("text")]) });
    assert!(read.effort > 1_000_000, "{read:?}");
    let unread = of(100, 100_000, &select(vec![column("id")]));
    assert!(unread.effort < 100_000 && unread.answer_bytes < 20_000, "{unread:?}");
}

/// What should be selected and what might be are estimated apart: few rows of many, by statistics, or by the page.
#[test]
fn few_rows_are_expected_to_be_little_work() {
    let table = texts(&(0..200_000).map(|i| format!("{i}")).collect::<Vec<_>>());
    let of = |query: &Query| estimate(&table, query).0;
    let at = |op, id| Some(compare("id", op, Literal::Int(id)));
    let one = of(&Query { filter: at(CompareOp::Eq, 77_777), ..Query::default() });
    assert!(one.expected < one.effort / 20 && one.expected > 1000, "{one:?}");
    let half = of(&Query { filter: at(CompareOp::Ge, 100_000), ..Query::default() });
    assert!(half.expected > half.effort / 2 && half.effort > one.effort, "{half:?}, {one:?}");
    let all = of(&Query::default());
    assert_eq!(all.expected, all.effort);
    let first = of(&Query { limit: Some(5), ..Query::default() });
    assert!(first.expected < all.expected / 10 && first.effort < all.effort, "{first:?}, {all:?}");
    // The last of an order is not known before all are read; the page of groups neither.
    let order = OrderBy { expr: column("text"), descending: false, nulls_first: false, of_table: false };
    let sorted = of(&Query { limit: Some(5), order_by: vec![order], ..Query::default() });
    assert_eq!(sorted.expected, all.expected);
    let groups = Query { group_by: vec![column("text")], limit: Some(5), ..select(vec![column("text")]) };
    let groups = of(&groups);
    assert!(groups.expected == groups.effort && groups.effort > 4_000_000, "{groups:?}");
}

/// Of what is expected of an answer, an answer is told that may be kept whole: a row, and groups that columns count.
#[test]
fn a_small_answer_is_expected_of_few_rows_and_of_few_groups() {
    let table = texts(&(0..200_000).map(|i| format!("text {i}")).collect::<Vec<_>>());
    let of = |query: &Query| {
        let (estimate, bytes) = estimate(&table, query);
        assert!(bytes <= estimate.expected_answer_bytes, "{bytes} bytes, {estimate:?}");
        assert!(estimate.expected_answer_bytes <= estimate.answer_bytes, "{estimate:?}");
        estimate.expected_answer_bytes
    };
    let at = |op, id| Some(compare("id", op, Literal::Int(id)));
    assert!(of(&Query { filter: at(CompareOp::Eq, 77_777), ..Query::default() }) < 1000);
    assert!(of(&Query { filter: at(CompareOp::Ge, 100_000), ..Query::default() }) > 1_000_000);
    let by =
        |name: &str| Query { group_by: vec![column(name)], ..select(vec![column(name), greatest("id")]) };
    assert!(of(&by("kind")) < 1000);
    assert!(of(&by("text")) > 1_000_000);
}

/// Of fragments that are elsewhere, rows and the extremes of numbers are known.
#[test]
fn what_is_elsewhere_is_estimated_by_its_bounds() {
    let table = texts(&["a".to_owned(), "b".to_owned()]);
    let of = |filter| {
        let query = Query { filter, ..Query::default() };
        let plan = Plan::new(&table, &table.snapshot(), &query).unwrap();
        let bounds = |fragment: u32, slot: usize| {
            (slot == 0).then(|| (i64::from(fragment) * 1_000_000, i64::from(fragment) * 1_000_000 + 999_999))
        };
        plan.estimate_by_bounds(&[(0, 1_000_000), (1, 1_000_000)], &bounds)
    };
    let at = |op, id| Some(compare("id", op, Literal::Int(id)));
    let (all, one) = (of(None), of(at(CompareOp::Eq, 7)));
    assert!(one.expected < all.expected / 20 && one.expected > 10_000, "{one:?}, {all:?}");
    let half = of(at(CompareOp::Lt, 125_000));
    assert!(half.expected > all.expected / 5 && half.expected < all.expected, "{half:?}, {all:?}");
    // Nothing is known of texts, nor of the answer.
    let text = of(Some(compare("text", CompareOp::Lt, Literal::Text("k".into()))));
    assert!(text.expected > all.expected / 2 && text.answer_bytes == u64::MAX, "{text:?}");
}
