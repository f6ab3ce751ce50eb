//! Explain: the order of the conjuncts, and what the steps of a run took.

use std::sync::atomic::{AtomicU64, Ordering};

use basalt_core::{
    exec::{Control, Explanation},
    plan::Plan,
    query::{AggregateFunction, CompareOp, Filter, Literal, Query},
    table::Table,
};

use super::{ROWS, aggregate, column, compare, table};

/// Nanoseconds that pass with every look at the clock.
const TICK: u64 = 1000;

fn clock() -> u64 {
    static NOW: AtomicU64 = AtomicU64::new(0);
    NOW.fetch_add(TICK, Ordering::Relaxed)
}

fn explain(table: &Table, filters: Vec<Filter>, control: &Control) -> Explanation {
    let query = Query {
        select: vec![aggregate(AggregateFunction::Sum, Some(column("price")))],
        filter: Some(Filter::And(filters)),
        ..Query::default()
    };
    let snapshot = table.snapshot();
    Plan::new(table, &snapshot, &query).unwrap().explain(&snapshot, true, control).unwrap()
}

fn texts(explanation: &Explanation) -> Vec<&str> {
    explanation.filters.iter().map(|filter| filter.text.as_str()).collect()
}

#[test]
fn conjuncts_that_leave_few_rows_go_first() {
    let table = table();
    let id = |op, id| compare("id", op, Literal::Int(id));
    let price = |op, price| compare("price", op, Literal::Float(price));
    let order = |filters| texts(&explain(&table, filters, &Control::default())).join("; ");
    let (few, many) = (id(CompareOp::Lt, 1000), price(CompareOp::Ge, 2.5));
    for filters in [vec![few.clone(), many.clone()], vec![many, few]] {
        assert_eq!(order(filters), "id < 1000; price >= 2.5");
    }
    let (few, many) = (price(CompareOp::Lt, 250.0), id(CompareOp::Ge, 10));
    for filters in [vec![few.clone(), many.clone()], vec![many, few]] {
        assert_eq!(order(filters), "price < 250; id >= 10");
    }
    // Expressions can fail: they come last even where they leave the fewest rows.
    let equal = Filter::Compare(CompareOp::Eq, column("id"), column("price"));
    assert_eq!(order(vec![equal, id(CompareOp::Ge, 10)]), "id >= 10; id = price");
}

#[test]
fn shares_are_estimated() {
    let table = table();
    let half = compare("id", CompareOp::Lt, Literal::Int(i64::from(ROWS) / 2));
    let quarter = compare("kind", CompareOp::Eq, Literal::Text("a".into()));
    let explanation = explain(&table, vec![half, quarter], &Control::default());
    let shares: Vec<_> = explanation.filters.iter().map(|filter| (filter.share * 1000.0).round()).collect();
    assert_eq!(shares.iter().sum::<f64>(), 750.0);
    assert!(shares.contains(&250.0));
}

#[test]
fn the_steps_of_a_run_are_timed() {
    let table = table();
    let filters = || {
        let some = compare("id", CompareOp::Lt, Literal::Int(100_000));
        vec![some, compare("kind", CompareOp::Eq, Literal::Text("a".into()))]
    };
    let explanation = explain(&table, filters(), &Control::default().with_clock(clock));
    let names: Vec<_> = explanation.operators.iter().map(|operator| operator.name).collect();
    assert_eq!(names, ["prune", "filter", "filter", "aggregate", "merge", "finish"]);
    let [prune, first, second, sum, ..] = explanation.operators.as_slice() else { panic!("{names:?}") };
    assert_eq!([first.text.as_str(), second.text.as_str()], texts(&explanation)[..]);
    assert_eq!((prune.usage.rows_in, prune.usage.rows_out), (150_000, 131_072));
    assert_eq!(second.usage.rows_in, first.usage.rows_out);
    assert_eq!((second.usage.rows_out, sum.usage.rows_in), (25_000, 25_000));
    for operator in &explanation.operators {
        let usage = operator.usage;
        assert!(usage.busy_ns >= TICK && usage.elapsed_ns >= usage.busy_ns, "{operator:?}");
    }
    // Without a clock nothing is.
    assert_eq!(explain(&table, filters(), &Control::default()).operators, []);
}
