//! Explain: the order of the conjuncts, and what the steps of a run took.

use std::sync::atomic::{AtomicU64, Ordering};

use basalt_core::{
    exec::{Control, Explanation},
    plan::Plan,
    query::{AggregateFunction, ArithmeticOp, CompareOp, Expr, Filter, Literal, Query},
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

/// Conditions that depend on each other, what statistics know, what is rare, and groups: all come out about right.
#[test]
fn rows_and_groups_are_expected() {
    let table = table();
    let snapshot = table.snapshot();
    let id = |op, id| compare("id", op, Literal::Int(id));
    let kind = |text: &str| compare("kind", CompareOp::Eq, Literal::Text(text.into()));
    let both = |a, b| Filter::And(vec![a, b]);
    let by = |keys: &[&str], filter| Query {
        select: vec![aggregate(AggregateFunction::Count, None)],
        group_by: keys.iter().map(|key| column(key)).collect(),
        filter,
        ..Query::default()
    };
    let all = |filter| Query { filter: Some(filter), ..Query::default() };
    let sum = Expr::Arithmetic(ArithmeticOp::Add, Box::new(column("id")), Box::new(column("price")));
    for (query, expected, within) in [
        // Exact: no filter, and counted values.
        (Query::default(), 150_000, 1.0),
        (all(kind("a")), 37_500, 1.0),
        (all(Filter::IsNull(column("kind"))), 37_500, 1.0),
        (all(kind("x")), 0, 1.0),
        (Query { limit: Some(70), ..all(kind("a")) }, 70, 1.0),
        (Query { offset: 37_000, ..all(kind("a")) }, 500, 1.0),
        (by(&[], Some(kind("a"))), 1, 1.0),
        (by(&["kind"], None), 4, 1.0),
        // One of these implies the other, or excludes it.
        (
            all(both(id(CompareOp::Lt, 60_000), compare("price", CompareOp::Lt, Literal::Float(10_000.0)))),
            40_000,
            1.1,
        ),
        (
            all(both(id(CompareOp::Lt, 20_000), compare("price", CompareOp::Gt, Literal::Float(30_000.0)))),
            0,
            1.1,
        ),
        (all(Filter::Or(vec![id(CompareOp::Lt, 30_000), id(CompareOp::Ge, 120_000)])), 60_000, 1.1),
        // Of expressions statistics know nothing.
        (all(Filter::Compare(CompareOp::Lt, sum, Expr::Literal(Literal::Int(100_000)))), 80_000, 1.1),
        (all(id(CompareOp::Eq, 77_777)), 1, 1.5),
        (all(both(id(CompareOp::Lt, 4000), kind("b"))), 1000, 1.5),
        (by(&["id"], None), 150_000, 1.1),
        (by(&["id", "kind"], None), 150_000, 1.1),
        (by(&["kind"], Some(both(id(CompareOp::Lt, 90_000), Filter::Not(Box::new(kind("c")))))), 2, 1.1),
        (by(&["price"], Some(id(CompareOp::Lt, 50_000))), 50_000, 1.2),
    ] {
        let plan = Plan::new(&table, &snapshot, &query).unwrap();
        let told = plan.expected(&snapshot, snapshot.rows()).unwrap().answer;
        let (low, high) = (f64::from(expected) / within - 1.0, f64::from(expected) * within + 1.0);
        assert!((low..=high).contains(&(told as f64)), "{told} for {expected}: {query:?}");
    }
    // Of twice as many rows there are twice as many, and as many groups.
    let twice = |query: &Query| {
        let plan = Plan::new(&table, &snapshot, query).unwrap();
        plan.expected(&snapshot, 2 * snapshot.rows()).unwrap().answer
    };
    assert_eq!((twice(&all(kind("a"))), twice(&by(&["kind"], None))), (75_000, 4));
    // Elsewhere the bounds of columns have to do.
    let plan = Plan::new(&table, &snapshot, &all(id(CompareOp::Lt, 500))).unwrap();
    let bounds = |_: u32, slot: usize| (slot == 0).then_some((0, 999));
    assert_eq!(plan.expected_by_bounds(&[(1, 10_000)], &bounds).unwrap().answer, 5000);
    let plan = Plan::new(&table, &snapshot, &by(&["kind"], None)).unwrap();
    assert_eq!(plan.expected_by_bounds(&[(1, 10_000)], &bounds), None);
}
