//! Statements that are asked again have the same answers, and new ones where a table has changed.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use basalt_core::{error::ErrorKind, query::Literal};
use basalt_sql::{Engine, Request};

use crate::{
    ask, fails, given_back, rows_of, tables as flights,
    tables::{Tables, engine, request},
};

/// Asks four times: the first is remembered, the second is kept, the others use what was kept.
async fn again(engine: &Engine, tables: &Arc<Tables>, sql: &str, reuses: u64) {
    let before = engine.plans_reused();
    let first = ask(engine, tables, sql).await;
    for _ in 0..3 {
        assert_eq!(ask(engine, tables, sql).await, first, "{sql}");
    }
    assert_eq!(engine.plans_reused() - before, reuses, "{sql}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_are_used_again() {
    let (engine, tables) = (engine(), flights());
    for (sql, reuses) in [
        ("SELECT carrier, sum(distance) AS s FROM flights GROUP BY carrier ORDER BY s", 2),
        ("SELECT name, delay FROM flights JOIN airlines USING (carrier) WHERE delay > 5 ORDER BY delay", 2),
        ("SELECT count(*) FROM flights WHERE carrier IN (SELECT carrier FROM airlines)", 2),
        ("SELECT distance FROM flights WHERE distance > (SELECT avg(distance) FROM flights) ORDER BY 1", 2),
        (
            "SELECT a.name, (SELECT max(f.delay) FROM flights f WHERE f.carrier = a.carrier) FROM airlines a \
             ORDER BY name",
            2,
        ),
        ("SELECT day, row_number() OVER (ORDER BY day DESC) FROM flights ORDER BY day LIMIT 2", 2),
        ("WITH x AS (SELECT 1 AS a UNION ALL SELECT 2) SELECT sum(a) FROM x, flights", 2),
        ("SELECT distance FROM flights FOR VERSION AS OF 1 ORDER BY distance DESC LIMIT 1", 2),
        // No table at all.
        ("SELECT 1 + 1", 2),
        // Other ones at other times.
        ("SELECT count(*) FROM flights WHERE day < current_date", 0),
        ("SELECT count(*) FROM flights WHERE day < now()", 0),
        // The server itself.
        ("SELECT table_name FROM information_schema.tables ORDER BY 1", 0),
        // These are planned each time.
        ("EXPLAIN SELECT count(*) FROM flights", 0),
        ("SHOW TABLES", 0),
    ] {
        again(&engine, &tables, sql, reuses).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_materialized_is_made_where_it_is_named_unless_it_is_random() {
    let (engine, tables) = (engine(), flights());
    for (with, is_made_once) in [
        ("x AS (SELECT distance FROM flights LIMIT 3)", true),
        ("x AS MATERIALIZED (SELECT distance FROM flights LIMIT 3)", true),
        ("x AS NOT MATERIALIZED (SELECT distance FROM flights LIMIT 3)", false),
        ("y AS (SELECT 1), x (distance) AS not materialized (SELECT distance FROM flights LIMIT 3)", false),
        ("x AS NOT MATERIALIZED (SELECT distance, random() AS r FROM flights)", true),
        ("x AS NOT MATERIALIZED (WITH z AS (SELECT random() AS distance) SELECT distance FROM z)", true),
    ] {
        let sql = format!("EXPLAIN WITH {with} SELECT count(*) FROM x a JOIN x b ON a.distance = b.distance");
        let plan = ask(&engine, &tables, &sql).await.join("\n");
        assert_eq!(plan.contains("BasaltSpool"), is_made_once, "{sql}\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_of_other_versions_are_not_used() {
    let (engine, mut tables) = (engine(), Tables::default());
    tables.add("t", vec![("a", Arc::new(Int64Array::from(vec![1, 2, 3])))]);
    let (tables, sql) = (Arc::new(tables), "SELECT count(*), max(a + a) FROM t WHERE a >= 1");
    let pinned = "SELECT count(*) FROM t FOR VERSION AS OF 1";
    for _ in 0..3 {
        assert_eq!(ask(&engine, &tables, sql).await, ["3|6"]);
        assert_eq!(ask(&engine, &tables, pinned).await, ["3"]);
    }
    assert_eq!(engine.plans_reused(), 2);
    // Another version has another plan, though it has as many rows.
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let mut other = Tables::default();
    other.add("t", vec![("a", column(vec![4, 5]))]);
    other.append(
        "t",
        &RecordBatch::try_from_iter_with_nullable([("a", column(vec![i64::MAX]), true)]).unwrap(),
    );
    assert_eq!(fails(&engine, &Arc::new(other), sql).await.0, ErrorKind::Overflow);
    assert_eq!(engine.plans_reused(), 2);
    // Some of these fit no 64 bits: what the plan knew of the column's values is of the version before.
    let greatest = column(vec![i64::MAX, i64::MAX / 2]);
    tables.append("t", &RecordBatch::try_from_iter_with_nullable([("a", greatest, true)]).unwrap());
    for reused in [2, 3, 4] {
        assert_eq!(fails(&engine, &tables, sql).await.0, ErrorKind::Overflow);
        assert_eq!(engine.plans_reused(), reused);
    }
    assert_eq!(ask(&engine, &tables, pinned).await, ["3"]);
    assert_eq!(engine.plans_reused(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_part_of_a_statement() {
    let (engine, tables) = (engine(), flights());
    let sql = "SELECT count(*) FROM flights WHERE distance > $1";
    let ask = async |value: Literal| {
        let (asked, memory) = request(&tables, sql, usize::MAX);
        let answer = engine.query(Request { parameters: vec![value], ..asked }).await.unwrap();
        let rows = rows_of(answer).await.unwrap();
        given_back(&memory).await;
        rows
    };
    for _ in 0..3 {
        assert_eq!(ask(Literal::Int(250)).await, ["3"]);
        assert_eq!(ask(Literal::Int(450)).await, ["1"]);
        assert_eq!(ask(Literal::Null).await, ["0"]);
        assert_eq!(ask(Literal::Text("250".to_owned())).await, ["3"]);
    }
    assert_eq!(engine.plans_reused(), 4);
}
