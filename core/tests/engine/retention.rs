//! Rows that are older than their table keeps them are in no answer, wherever the table stands in a query.

use std::time::Duration;

use arrow_array::{Date32Array, TimestampMicrosecondArray};
use basalt_core::{
    error::Error,
    query::{Attribute, SemiJoin},
    schema::Reference,
    table::{Change, Retention},
};

use super::{sets::table_of, *};

const SECOND: i64 = 1_000_000;
/// When everything here is asked; rows of the last [`KEPT`] seconds are kept.
const NOW: i64 = ROWS as i64 * SECOND;
const KEPT: u64 = 50_000;

fn keep(table: &Table, column: &str, seconds: u64) {
    let retention = Retention::new(table.schema(), column, Duration::from_secs(seconds)).unwrap();
    table.commit(Change { retention: Some(Some(Arc::new(retention))), ..Change::default() }).unwrap();
}

/// `events(id, at)`, one each second, two without a time; and `logs(id, event -> events.id)`, of each event one.
fn catalog() -> Catalog {
    let catalog = Catalog::new();
    let at = (0..i64::from(ROWS)).map(|id| (id != 70_000 && id != 149_999).then_some(id * SECOND));
    let at = TimestampMicrosecondArray::from_iter(at).with_timezone("UTC");
    let ids = || -> ArrayRef { Arc::new(Int32Array::from_iter_values(0..ROWS)) };
    let columns = [("id", DataType::Int32, ids()), ("at", DataType::Timestamp, Arc::new(at) as ArrayRef)];
    keep(&table_of(&catalog, "events", &columns), "at", KEPT);
    let references = Some(Reference { table: "events".to_owned(), column: "id".to_owned() });
    let fields = vec![
        Field::new("id", DataType::Int32, false),
        Field { references, ..Field::new("event", DataType::Int32, false) },
    ];
    let logs = catalog.create("logs", Schema::new(fields).unwrap()).unwrap();
    let mut appender = Appender::new(Arc::clone(&logs), &[]).unwrap();
    appender.push(&RecordBatch::try_new(logs.schema().to_arrow(), vec![ids(), ids()]).unwrap()).unwrap();
    appender.commit().unwrap();
    catalog
}

fn ask(catalog: &Catalog, name: &str, mut query: Query) -> Result<(Vec<i64>, Statistics), Error> {
    let control = Control::default().with_time(NOW);
    let table = catalog.get(name).unwrap();
    let snapshot = table.seen_at(None, control.time()).unwrap();
    exec::resolve(catalog, &table, &snapshot, &mut query, &control)?;
    let mut first = Vec::new();
    let statistics = Plan::new(&table, &snapshot, &query)?.run(&snapshot, &control, &mut |batch| {
        first.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
        Ok(())
    })?;
    Ok((first, statistics))
}

fn counting(filter: Option<Filter>) -> Query {
    let select = vec![aggregate(AggregateFunction::Count, None)];
    Query { select, filter, ..Query::default() }
}

/// The events that are left: those from this one on, and one without a time before.
const FIRST: i32 = ROWS - 50_000;

#[test]
fn what_is_too_old_is_not_read() {
    let catalog = catalog();
    let (n, statistics) = ask(&catalog, "events", counting(None)).unwrap();
    assert_eq!(n, [KEPT as i64 + 1]);
    let Statistics { rows, blocks, blocks_pruned, .. } = statistics;
    assert_eq!((rows, blocks, blocks_pruned), (150_000, 3, 1), "the first block has no time that is kept");
    let below = |id: i32| Some(compare("id", CompareOp::Lt, Literal::Int(id.into())));
    assert_eq!(ask(&catalog, "events", counting(below(FIRST + 10))).unwrap().0, [11]);
    assert_eq!(ask(&catalog, "events", counting(below(FIRST))).unwrap().0, [1]);
    // By statistics, too.
    let least = Query {
        select: vec![aggregate(AggregateFunction::Sum, Some(column("id")))],
        ..counting(below(FIRST))
    };
    assert_eq!(ask(&catalog, "events", least).unwrap().0, [70_000]);

    let events = catalog.get("events").unwrap();
    let (seen, control) = (events.seen_at(None, NOW).unwrap(), Control::default());
    let (rows, _) = exec::select(&events, &seen, None, &control).unwrap();
    assert_eq!(rows.cardinality(), KEPT + 1);
    let (keys, _) = exec::select_keys(&events, &seen, "id", below(FIRST).as_ref(), &control).unwrap();
    assert_eq!(keys.sip.iter().collect::<Vec<_>>(), [70_000]);
    // A version before has all, as one without a time has.
    let all = exec::select(&events, &events.seen_at(Some(1), NOW).unwrap(), None, &control).unwrap().0;
    assert_eq!(all.cardinality(), 150_000);
    assert_eq!(count(&events, Filter::Constant(true)).0, 150_000);
}

#[test]
fn nor_where_another_table_asks() {
    let catalog = catalog();
    let inner =
        SemiJoin { column: "event".into(), table: "events".into(), key: "id".into(), ..SemiJoin::default() };
    let joined = Filter::SemiJoin(Box::new(inner));
    let n = |filter| ask(&catalog, "logs", counting(Some(filter))).unwrap().0;
    assert_eq!(n(joined.clone()), [KEPT as i64 + 1]);
    assert_eq!(n(Filter::Not(Box::new(joined))), [i64::from(FIRST) - 1]);
    let at = Expr::Attribute(Attribute { column: "event".into(), name: "at".into(), lookup: None });
    assert_eq!(n(Filter::IsNull(at.clone())), [i64::from(FIRST) + 1], "too old, or without a time");
    let select = vec![aggregate(AggregateFunction::Count, Some(at))];
    let times = Query { select, ..Query::default() };
    assert_eq!(ask(&catalog, "logs", times).unwrap().0, [KEPT as i64 - 1]);
}

#[test]
fn days_end_at_midnight_and_errors_keep_their_places() {
    let catalog = Catalog::new();
    let days: ArrayRef = Arc::new(Date32Array::from_iter((0..10).map(Some).chain([None])));
    let n: ArrayRef = Arc::new(Int32Array::from_iter_values(0..11));
    let table = table_of(&catalog, "days", &[("day", DataType::Date32, days), ("n", DataType::Int32, n)]);
    keep(&table, "day", 24 * 3600);
    let left = |now: i64| {
        let seen = table.seen_at(None, now).unwrap();
        exec::select(&table, &seen, None, &Control::default()).unwrap().0.cardinality()
    };
    let midnight = |day: i64| day * 24 * 3600 * SECOND;
    // Day 4 ends where day 5 begins, and is kept for a day.
    assert_eq!((left(midnight(6) - 1), left(midnight(6))), (7, 6));
    assert_eq!((left(i64::MIN), left(i64::MAX)), (11, 1));

    let seen = table.seen_at(None, midnight(6)).unwrap();
    let wrong = counting(Some(compare("m", CompareOp::Lt, Literal::Int(1))));
    let error = Plan::new(&table, &seen, &wrong).unwrap_err();
    assert_eq!(error.place(), Some("filter.compare.left.column"));
    // What it hides stands beside the conditions of the query.
    let plan =
        Plan::new(&table, &seen, &counting(Some(compare("n", CompareOp::Gt, Literal::Int(2))))).unwrap();
    let explained = plan.explain(&seen, false, &Control::default()).unwrap();
    let mut filters: Vec<_> = explained.filters.iter().map(|used| used.text.to_string()).collect();
    // Their costs say which is asked first.
    filters.sort_unstable();
    assert_eq!(filters, ["day >= 1970-01-06 OR day IS NULL", "n > 2"]);
}
