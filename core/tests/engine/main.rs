//! The engine as its callers use it: tables, writes, queries, selections.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod attributes;
mod corpus;
mod damaged;
mod deletions;
mod estimates;
mod explain;
mod groups;
mod held;
mod parts;
mod retention;
mod semi_joins;
mod sets;
mod sums;
mod texts;

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Decimal128Array, Float64Array, Int32Array, RecordBatch, StringArray, cast::AsArray,
    types::Int64Type,
};
use basalt_core::{
    error::ErrorKind,
    exec::{self, Control, Statistics},
    plan::Plan,
    query::{
        Aggregate, AggregateFunction, ArithmeticOp, CompareOp, Expr, Filter, Literal, OrderBy, Query,
        ROW_ADDRESS, RowSet, SelectItem, SipOrigin,
    },
    schema::{DataType, Field, Schema},
    table::{Appender, Catalog, Table},
};

const ROWS: i32 = 150_000;

/// 150,000 rows: `id` ascending, `kind` one of a, b, c or null, `price` id / 4.
fn table() -> Arc<Table> {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int32, false),
        Field::new("kind", DataType::Utf8, true),
        Field::new("price", DataType::Float64, true),
    ]);
    let table = Catalog::new().create("things", schema.unwrap()).unwrap();
    append(&table, 0..ROWS);
    table
}

/// Rows as [`table`] has them, on their way into it.
fn appender(table: &Arc<Table>, ids: std::ops::Range<i32>) -> Appender {
    let kind = |id: i32| [Some("a"), Some("b"), Some("c"), None][usize::try_from(id % 4).unwrap()];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(ids.clone())),
        Arc::new(StringArray::from_iter(ids.clone().map(kind))),
        Arc::new(Float64Array::from_iter_values(ids.map(|id| f64::from(id) / 4.0))),
    ];
    let batch = RecordBatch::try_new(table.schema().to_arrow(), columns).unwrap();
    let mut appender = Appender::new(Arc::clone(table), &[]).unwrap();
    appender.push(&batch).unwrap();
    appender
}

fn append(table: &Arc<Table>, ids: std::ops::Range<i32>) -> u64 {
    appender(table, ids).commit().unwrap().version
}

fn column(name: &str) -> Expr {
    Expr::Column(name.into())
}

fn compare(name: &str, op: CompareOp, literal: Literal) -> Filter {
    Filter::Compare(op, column(name), Expr::Literal(literal))
}

fn aggregate(function: AggregateFunction, argument: Option<Expr>) -> SelectItem {
    let aggregate = Aggregate { function, argument, distinct: false };
    SelectItem { expr: Expr::Aggregate(Box::new(aggregate)), name: None }
}

fn run(table: &Table, query: &Query) -> Result<(Vec<RecordBatch>, Statistics), basalt_core::error::Error> {
    let snapshot = table.snapshot();
    let plan = Plan::new(table, &snapshot, query)?;
    let mut batches = Vec::new();
    let statistics = plan.run(&snapshot, &Control::default(), &mut |batch| {
        batches.push(batch);
        Ok(())
    })?;
    Ok((batches, statistics))
}

fn count(table: &Table, filter: Filter) -> (i64, Statistics) {
    let query = Query {
        select: vec![aggregate(AggregateFunction::Count, None)],
        filter: Some(filter),
        ..Query::default()
    };
    let (batches, statistics) = run(table, &query).unwrap();
    (batches[0].column(0).as_primitive::<Int64Type>().value(0), statistics)
}

#[test]
fn counts_and_prunes() {
    let table = table();
    let (n, statistics) = count(&table, compare("id", CompareOp::Lt, Literal::Int(100)));
    assert_eq!(n, 100);
    assert_eq!((statistics.blocks, statistics.blocks_pruned), (3, 2));
    // The counts of a column with few values answer without reading it.
    let (n, statistics) = count(&table, compare("kind", CompareOp::Eq, Literal::Text("b".into())));
    assert_eq!((n, statistics.blocks_pruned), (37_500, 3));
    let (n, _) =
        count(&table, Filter::Not(Box::new(compare("kind", CompareOp::Eq, Literal::Text("b".into())))));
    assert_eq!(n, 75_000, "null is neither b nor not b");
    let (n, _) = count(&table, Filter::IsNull(column("kind")));
    assert_eq!(n, 37_500);
    let both = Filter::Compare(CompareOp::Gt, column("price"), column("id"));
    assert_eq!(count(&table, both).0, 0);
}

#[test]
fn groups_in_order() {
    let table = table();
    let query = Query {
        select: vec![
            SelectItem { expr: column("kind"), name: None },
            aggregate(AggregateFunction::Count, None),
            aggregate(AggregateFunction::Max, Some(column("id"))),
        ],
        group_by: vec![column("kind")],
        order_by: vec![OrderBy {
            expr: aggregate(AggregateFunction::Max, Some(column("id"))).expr,
            descending: true,
            nulls_first: false,
            of_table: false,
        }],
        ..Query::default()
    };
    let (batches, _) = run(&table, &query).unwrap();
    let batch = &batches[0];
    let kinds: Vec<_> = batch.column(0).as_string::<i32>().iter().collect();
    assert_eq!(kinds, [None, Some("c"), Some("b"), Some("a")]);
    assert_eq!(batch.schema().field(1).name(), "count(*)");
    let max: Vec<_> = batch.column(2).as_primitive::<arrow_array::types::Int32Type>().values().to_vec();
    assert_eq!(max, [ROWS - 1, ROWS - 2, ROWS - 3, ROWS - 4]);
}

#[test]
fn float_sums_have_the_same_bits_on_any_number_of_threads() {
    let table = table();
    let query =
        Query { select: vec![aggregate(AggregateFunction::Sum, Some(column("price")))], ..Query::default() };
    let bits = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let (batches, _) = pool.install(|| run(&table, &query)).unwrap();
        batches[0].column(0).as_primitive::<arrow_array::types::Float64Type>().value(0).to_bits()
    };
    let one = bits(1);
    assert_eq!(one, bits(2));
    assert_eq!(one, bits(7));
    assert!((f64::from_bits(one) - 150_000.0 * 149_999.0 / 8.0).abs() < 1.0);
}

#[test]
fn a_selection_is_a_filter() {
    let table = table();
    let snapshot = table.snapshot();
    let filter = compare("id", CompareOp::Ge, Literal::Int(149_990));
    let (sip, statistics) = exec::select(&table, &snapshot, Some(&filter), &Control::default()).unwrap();
    assert_eq!((sip.cardinality(), statistics.rows_selected), (10, 10));
    let rows = RowSet {
        table: "things".into(),
        version: snapshot.version(),
        table_id: None,
        sip: Arc::new(sip),
        origin: SipOrigin::Request,
    };
    assert_eq!(count(&table, Filter::Rows(rows.clone())).0, 10);
    assert_eq!(count(&table, Filter::Not(Box::new(Filter::Rows(rows.clone())))).0, i64::from(ROWS) - 10);
    append(&table, 0..1);
    let query = Query { filter: Some(Filter::Rows(rows)), ..Query::default() };
    let error = run(&table, &query).unwrap_err();
    assert_eq!((error.kind(), error.place()), (ErrorKind::ScopeMismatch, Some("filter.rows.scope.version")));
}

#[test]
fn rows_come_in_order_and_stop_at_the_limit() {
    let table = table();
    let query = Query {
        select: vec![SelectItem { expr: column("id"), name: Some("n".into()) }],
        filter: Some(compare("kind", CompareOp::Eq, Literal::Text("c".into()))),
        limit: Some(3),
        offset: 2,
        ..Query::default()
    };
    let ids = |query: &Query| -> Vec<i32> {
        let (batches, _) = run(&table, query).unwrap();
        batches
            .iter()
            .flat_map(|b| b.column(0).as_primitive::<arrow_array::types::Int32Type>().values().to_vec())
            .collect()
    };
    assert_eq!(ids(&query), [10, 14, 18]);
    let descending = OrderBy { expr: column("n"), descending: true, nulls_first: false, of_table: false };
    assert_eq!(ids(&Query { order_by: vec![descending], ..query }), [149_990, 149_986, 149_982]);
}

#[test]
fn small_writes_leave_few_fragments() {
    let table = Catalog::new()
        .create(
            "small",
            Schema::new(vec![
                Field::new("id", DataType::Int32, false),
                Field::new("kind", DataType::Utf8, true),
                Field::new("price", DataType::Float64, true),
            ])
            .unwrap(),
        )
        .unwrap();
    for i in 0..200 {
        assert_eq!(append(&table, i * 10..i * 10 + 10), u64::try_from(i + 1).unwrap());
    }
    assert!(table.snapshot().fragments().len() < 12, "{} fragments", table.snapshot().fragments().len());
    assert_eq!(table.snapshot().rows(), 2000);
    assert_eq!(count(&table, compare("id", CompareOp::Ge, Literal::Int(1990))).0, 10);
}

#[test]
fn errors_say_what_and_where() {
    let table = table();
    let check = |query: Query, kind: ErrorKind, place: Option<&str>| {
        let error = run(&table, &query).unwrap_err();
        assert_eq!((error.kind(), error.place()), (kind, place), "{error}");
    };
    let filtered = |filter| Query { filter: Some(filter), ..Query::default() };
    check(
        filtered(Filter::And(vec![Filter::Constant(true), compare("nope", CompareOp::Eq, Literal::Int(1))])),
        ErrorKind::ColumnNotFound,
        Some("filter.and[1].compare.left.column"),
    );
    check(
        filtered(compare("kind", CompareOp::Eq, Literal::Int(1))),
        ErrorKind::TypeMismatch,
        Some("filter.compare.right"),
    );
    let mut deep = Filter::Constant(true);
    for _ in 0..40 {
        deep = Filter::Not(Box::new(deep));
    }
    let error = run(&table, &filtered(deep)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FilterTooDeep);
    let divide = Expr::Arithmetic(
        basalt_core::query::ArithmeticOp::Divide,
        Box::new(column("id")),
        Box::new(column("id")),
    );
    let ratio = |filter| Query {
        select: vec![SelectItem { expr: divide.clone(), name: None }],
        filter,
        limit: Some(1),
        ..Query::default()
    };
    check(ratio(None), ErrorKind::DivisionByZero, None);
    assert!(run(&table, &ratio(Some(compare("id", CompareOp::Gt, Literal::Int(0))))).is_ok());
    let control = Control::default();
    control.expire();
    let snapshot = table.snapshot();
    let plan = Plan::new(&table, &snapshot, &Query::default()).unwrap();
    let error = plan.run(&snapshot, &control, &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
}

#[test]
fn versions_of_a_dropped_table_never_come_back() {
    let catalog = Catalog::new();
    let schema = || Schema::new(vec![Field::new("id", DataType::Int32, false)]).unwrap();
    let write = |table: &Arc<Table>| {
        let ids: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let mut appender = Appender::new(Arc::clone(table), &[]).unwrap();
        appender.push(&RecordBatch::try_new(table.schema().to_arrow(), vec![ids]).unwrap()).unwrap();
        appender.commit().map(|commit| commit.version)
    };
    let first = catalog.create("t", schema()).unwrap();
    assert_eq!(write(&first), Ok(1));
    catalog.remove("t").unwrap();
    assert_eq!(write(&first).unwrap_err().kind(), ErrorKind::TableNotFound);
    let second = catalog.create("t", schema()).unwrap();
    assert_eq!((second.snapshot().version(), write(&second)), (2, Ok(3)));
    assert_eq!(second.snapshot_at(Some(1)).unwrap_err().kind(), ErrorKind::VersionGone);
}

#[test]
fn what_a_small_batch_stands_for_is_taken_in_piece_by_piece() {
    // A thousand columns that are left out: a million rows would take 8 GiB before they are encoded.
    let mut fields: Vec<_> = (0..1000).map(|i| Field::new(format!("c{i}"), DataType::Int64, true)).collect();
    fields.push(Field::new("id", DataType::Int32, false));
    let table = Catalog::new().create("wide", Schema::new(fields).unwrap()).unwrap();
    let mut appender = Appender::new(Arc::clone(&table), &["id".into()]).unwrap();
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(0..50_000));
    appender.push(&RecordBatch::try_from_iter([("id", ids)]).unwrap()).unwrap();
    assert!(appender.bytes() < 256 << 20, "{}", appender.bytes());
    appender.commit().unwrap();
    let (n, _) = count(&table, Filter::IsNull(column("c7")));
    assert_eq!((n, table.snapshot().rows()), (50_000, 50_000));
}

#[test]
fn a_text_behind_a_null_takes_no_memory_in_a_merge() {
    let schema = Schema::new(vec![Field::new("note", DataType::Utf8, true)]).unwrap();
    let table = Catalog::new().create("notes", schema).unwrap();
    let long = "x".repeat(1 << 20);
    for _ in 0..2 {
        let notes = std::iter::once(Some(long.as_str())).chain(std::iter::repeat_n(None, 5000));
        let notes: ArrayRef = Arc::new(StringArray::from_iter(notes));
        let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
        appender.push(&RecordBatch::try_new(table.schema().to_arrow(), vec![notes]).unwrap()).unwrap();
        appender.commit().unwrap();
    }
    assert_eq!((table.snapshot().fragments().len(), table.snapshot().rows()), (1, 10_002));
    assert_eq!(count(&table, Filter::IsNull(column("note"))).0, 10_000);
    assert_eq!(count(&table, compare("note", CompareOp::Eq, Literal::Text(long))).0, 2);
}

#[test]
fn decimals_of_any_size_are_checked() {
    let decimal = DataType::Decimal { precision: 18, scale: 0 };
    let schema = Schema::new(vec![Field::new("d", decimal, false)]).unwrap();
    let table = Catalog::new().create("decimals", schema).unwrap();
    for value in [i128::MIN, i128::MAX, -(10i128.pow(18)), 10i128.pow(18)] {
        let array = Decimal128Array::from(vec![value]).with_data_type(decimal.to_arrow());
        let batch = RecordBatch::try_new(table.schema().to_arrow(), vec![Arc::new(array)]).unwrap();
        let error = Appender::new(Arc::clone(&table), &[]).unwrap().push(&batch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidBatch, "{value}");
    }
}

#[test]
fn a_list_of_values_counts_with_the_expression_that_it_repeats() {
    let table = table();
    let values: Vec<_> = (0..5000).map(Literal::Int).collect();
    assert_eq!(count(&table, Filter::In(column("id"), values.clone())).0, 5000);
    let sum = Expr::Arithmetic(ArithmeticOp::Add, Box::new(column("id")), Box::new(column("id")));
    for expr in [sum, column(ROW_ADDRESS)] {
        let query = Query { filter: Some(Filter::In(expr, values.clone())), ..Query::default() };
        assert_eq!(run(&table, &query).unwrap_err().kind(), ErrorKind::FilterTooLarge);
    }
}

#[test]
fn long_texts_are_answered_in_pieces() {
    let schema = Schema::new(vec![
        Field::new("note", DataType::Utf8, false),
        Field::new("id", DataType::Int32, false),
    ]);
    let table = Catalog::new().create("notes", schema.unwrap()).unwrap();
    let notes: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1 << 20).as_str(); 100]));
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(0..100));
    let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
    appender.push(&RecordBatch::try_new(table.schema().to_arrow(), vec![notes, ids]).unwrap()).unwrap();
    appender.commit().unwrap();
    for order in [None, Some("id"), Some("note")] {
        let order_by = order.map(|name| OrderBy {
            expr: column(name),
            descending: true,
            nulls_first: false,
            of_table: false,
        });
        let query = Query { order_by: order_by.into_iter().collect(), ..Query::default() };
        let (batches, _) = run(&table, &query).unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 100);
        let largest = batches.iter().map(|b| b.column(0).as_string::<i32>().values().len()).max().unwrap();
        assert!(largest <= 32 << 20, "{largest}");
    }
}
