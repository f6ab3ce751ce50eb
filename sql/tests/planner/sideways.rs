//! The keys that a join's build side has are asked of the scans of its other side, and of no others.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, StringArray};

use crate::{
    ask,
    tables::{Tables, engine},
};

const FACTS: i64 = 50_000;

/// Facts of 50,000 keys, in parts of 100 each; two of them and a null are few; parts refer to what they are called.
fn tables() -> Arc<Tables> {
    let mut tables = Tables::default();
    let ints = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let each = |of: fn(i64) -> i64| ints((0..FACTS).map(|at| Some(of(at))).collect());
    let called: StringArray = (0..100).map(|part| Some(format!("part {part}"))).collect();
    tables.add("parts", vec![("part", ints((0..100).map(Some).collect())), ("called", Arc::new(called))]);
    tables.add_with(
        "facts",
        vec![
            ("k", each(|at| at)),
            ("part", each(|at| at % 100)),
            ("small", Arc::new(Int32Array::from_iter_values(0..50_000))),
        ],
        &[("part", "parts", "part")],
    );
    tables.add(
        "few",
        vec![("k", ints(vec![Some(7), Some(40_007), None])), ("x", ints(vec![Some(1), Some(2), Some(3)]))],
    );
    tables.add(
        "names",
        vec![("called", Arc::new(StringArray::from(vec!["part 7", "part 8", "no part"])) as ArrayRef)],
    );
    Arc::new(tables)
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_tell_scans_what_they_look_for() {
    let (engine, tables) = (engine(), tables());
    for (sql, rows, asked) in [
        (
            "SELECT sum(f.part), count(*) FROM facts f JOIN few ON f.k = few.k WHERE few.x < 9",
            "14|2",
            Some("k"),
        ),
        // Keys of another type of integer are the same by value.
        ("SELECT count(*) FROM facts f JOIN few ON f.small = few.k", "2", Some("small")),
        ("SELECT count(*) FROM facts f JOIN few ON f.k = few.k AND f.part = few.x + 6", "1", Some("part")),
        // A column of both sides has one name, and is followed by its place.
        (
            "SELECT sum(b.part) FROM facts a JOIN facts b ON a.k = b.k + 1 JOIN few ON b.k = few.k",
            "14",
            Some("k"),
        ),
        // What is left out of the rows of a group is the whole of it.
        (
            "SELECT sum(n) FROM (SELECT part, k % 2 AS odd, count(*) AS n FROM facts GROUP BY 1, 2) JOIN few ON part = few.k",
            "500",
            Some("part"),
        ),
        (
            "SELECT sum(n) FROM (SELECT part, count(*) AS n FROM facts GROUP BY part) JOIN few ON part = few.k",
            "500",
            Some("part"),
        ),
        // An attribute is one of the keys that are referred to.
        (
            "SELECT count(*), min(p.called) FROM facts f JOIN parts p ON f.part = p.part JOIN names n ON p.called = n.called",
            "1000|part 7",
            Some("called"),
        ),
        (
            "SELECT count(*) FROM few WHERE EXISTS (SELECT 1 FROM facts f WHERE f.k = few.k AND f.part + few.x > 7)",
            "2",
            Some("k"),
        ),
        (
            "SELECT count(*) FROM few WHERE NOT EXISTS (SELECT 1 FROM facts f WHERE f.k = few.k AND f.part + few.x > 8)",
            "2",
            Some("k"),
        ),
        ("SELECT count(*) FROM few LEFT JOIN facts f ON f.k = few.k", "3", Some("k")),
        (
            "SELECT count(*) FROM (SELECT k FROM facts UNION ALL SELECT k + 1 FROM facts) f JOIN few ON f.k = few.k",
            "4",
            Some("k"),
        ),
        // Rows without a partner stay.
        ("SELECT count(*) FROM facts f LEFT JOIN few ON f.k = few.k", "50000", None),
        ("SELECT count(*) FROM facts f FULL JOIN few ON f.k = few.k", "50001", None),
        (
            "SELECT count(*) FROM (SELECT f.k FROM facts f LEFT JOIN few g ON f.k = g.k) JOIN few ON TRUE",
            "150000",
            None,
        ),
        // Null equals null there.
        ("SELECT count(*) FROM facts f JOIN few ON f.k IS NOT DISTINCT FROM few.k", "2", None),
        // What a limit cuts is cut before.
        ("SELECT count(*) FROM (SELECT k FROM facts LIMIT 5) f JOIN few ON f.k = few.k", "0", None),
        (
            "SELECT count(*) FROM (SELECT part, count(*) AS n FROM facts GROUP BY part ORDER BY part LIMIT 5) JOIN few ON part = few.k",
            "0",
            None,
        ),
        // So is what is numbered.
        (
            "SELECT max(n) FROM (SELECT k, row_number() OVER (ORDER BY k) AS n FROM facts) f JOIN few ON f.k = few.k",
            "40008",
            None,
        ),
        // A side without a condition has all keys that the other refers to.
        ("SELECT count(*) FROM facts a JOIN facts b ON a.k = b.k", "50000", None),
        // What goes round has other keys each time.
        (
            "WITH RECURSIVE r AS (SELECT 7 AS k UNION ALL SELECT f.k + 10 FROM r JOIN facts f ON f.k = r.k WHERE f.k < 100) \
             SELECT count(*) FROM r",
            "11",
            None,
        ),
    ] {
        tables.queries.lock().unwrap().clear();
        assert_eq!(ask(&engine, &tables, sql).await, [rows], "{sql}");
        let queries = format!("{:?}", tables.queries.lock().unwrap());
        let is_asked = queries.contains("KeyFilter") || queries.contains("TextFilter");
        assert_eq!(is_asked, asked.is_some(), "{sql}: {queries}");
        let plan = ask(&engine, &tables, &format!("EXPLAIN {sql}")).await.join("\n");
        match asked {
            Some(column) => assert!(
                plan.contains("BasaltSip") && plan.contains(&format!("{column} IN ")),
                "{sql}\n{plan}"
            ),
            None => assert!(!plan.contains("sips=["), "{sql}\n{plan}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_analyze_says_how_many_keys_were_asked_for() {
    let (engine, tables) = (engine(), tables());
    let sql = "EXPLAIN ANALYZE SELECT count(*) FROM facts f JOIN few ON f.k = few.k WHERE few.x < 9";
    let plan = ask(&engine, &tables, sql).await.join("\n");
    assert!(
        plan.contains("sips=[k IN ") && plan.contains(": 2 keys]") && plan.contains("output_rows=2,"),
        "{plan}"
    );
}
