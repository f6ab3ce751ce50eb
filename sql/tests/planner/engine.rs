//! What the engine takes that others would do above a scan: joins to a key, the first rows of an order, functions of times.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use arrow_array::{ArrayRef, Decimal128Array, Int32Array, Int64Array, StringArray};

use crate::{
    ask, given_back,
    tables::{Tables, engine, request},
};

/// Sales that refer to shops and days, one to a shop that is not there and one to none; days have no key that is one.
fn star() -> Arc<Tables> {
    let mut tables = Tables::default();
    let strings =
        |values: &[Option<&str>]| Arc::new(values.iter().copied().collect::<StringArray>()) as ArrayRef;
    tables.add(
        "shop",
        vec![
            ("id", Arc::new(Int64Array::from(vec![Some(1), Some(2), Some(3), None]))),
            ("city", strings(&[Some("Oslo"), Some("Rome"), None, Some("Nowhere")])),
        ],
    );
    tables.add(
        "day",
        vec![
            ("id", Arc::new(Int32Array::from(vec![7, 7, 8]))),
            ("name", strings(&[Some("Mon"), Some("Lun"), Some("Tue")])),
        ],
    );
    tables.add_with(
        "sale",
        vec![
            ("shop", Arc::new(Int32Array::from(vec![Some(1), Some(2), Some(1), Some(3), Some(9), None]))),
            ("day", Arc::new(Int32Array::from(vec![7, 8, 9, 7, 8, 8]))),
            ("sum", Arc::new(Int64Array::from(vec![10, 20, 30, 40, 50, 60]))),
        ],
        &[("shop", "shop", "id"), ("day", "day", "id")],
    );
    Arc::new(tables)
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_to_a_key_are_the_engines() {
    let (engine, tables) = (engine(), star());
    let explain = async |sql: &str| ask(&engine, &tables, &format!("EXPLAIN {sql}")).await.join("\n");
    for (sql, is_join, expected) in [
        (
            "SELECT city, sum(sum) AS s FROM sale JOIN shop ON shop = id GROUP BY city ORDER BY s",
            false,
            vec!["Rome|20", "Oslo|40", "NULL|40"],
        ),
        // The table that is referred to stands first, and has a condition.
        (
            "SELECT sum(x.sum), count(*) FROM shop AS y, sale AS x WHERE x.shop = y.id AND y.city <> 'Rome'",
            false,
            vec!["40|2"],
        ),
        (
            "SELECT sum, city FROM sale LEFT JOIN shop ON sale.shop = shop.id ORDER BY sum",
            false,
            vec!["10|Oslo", "20|Rome", "30|Oslo", "40|NULL", "50|NULL", "60|NULL"],
        ),
        ("SELECT sum FROM sale WHERE shop IN (SELECT id FROM shop WHERE city LIKE 'R%')", false, vec!["20"]),
        (
            "SELECT sum FROM sale WHERE NOT EXISTS (SELECT 1 FROM shop WHERE id = shop) ORDER BY 1",
            false,
            vec!["50", "60"],
        ),
        // Null is among the keys, so that no row has none of them.
        ("SELECT sum FROM sale WHERE shop NOT IN (SELECT id FROM shop)", true, vec![]),
        // Of a condition in ON the others are still rows.
        (
            "SELECT sum, city FROM sale LEFT JOIN shop ON sale.shop = id AND city = 'Rome' WHERE sum < 30 ORDER BY 1",
            true,
            vec!["10|NULL", "20|Rome"],
        ),
        // A key that stands twice is a join.
        (
            "SELECT sum, name FROM sale JOIN day ON day = id WHERE sum <= 20 ORDER BY 1, 2",
            true,
            vec!["10|Lun", "10|Mon", "20|Tue"],
        ),
        (
            "SELECT city, count(*) FROM sale JOIN shop ON shop = shop.id JOIN day ON day = day.id \
             GROUP BY city ORDER BY 1",
            true,
            vec!["Oslo|2", "Rome|1", "NULL|2"],
        ),
        // Nothing is declared of these.
        ("SELECT a.sum, b.sum FROM sale a JOIN sale b ON a.sum = b.shop", true, vec![]),
        ("SELECT count(*) FROM sale a JOIN shop b ON a.day = b.id", true, vec!["0"]),
    ] {
        assert_eq!(ask(&engine, &tables, sql).await, expected, "{sql}");
        let plan = explain(sql).await;
        assert_eq!(plan.contains("Join"), is_join, "{sql}\n{plan}");
    }
    // What a version was then is joined, not looked up.
    let sql = "SELECT count(*) FROM sale JOIN shop FOR VERSION AS OF 1 AS s ON shop = s.id";
    assert!(explain(sql).await.contains("Join"));
    assert_eq!(ask(&engine, &tables, sql).await, ["4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_rows_of_an_order_are_the_engines() {
    let (engine, tables) = (engine(), crate::tables());
    let explain = async |sql: &str| ask(&engine, &tables, &format!("EXPLAIN {sql}")).await.join("\n");
    for (sql, limit, expected) in [
        ("SELECT distance FROM flights ORDER BY delay DESC LIMIT 2", Some(2), vec!["300", "200"]),
        (
            "SELECT distance FROM flights ORDER BY delay DESC NULLS LAST, day LIMIT 1 OFFSET 1",
            Some(2),
            vec!["100"],
        ),
        (
            "SELECT carrier FROM flights ORDER BY carrier, distance DESC LIMIT 3",
            Some(3),
            vec!["AA", "AA", "DL"],
        ),
        (
            "SELECT day FROM flights WHERE delay > 0 ORDER BY distance - delay LIMIT 1",
            Some(1),
            vec!["2011-01-26"],
        ),
        (
            "SELECT c, n FROM (SELECT carrier AS c, count(*) AS n, sum(distance) AS d FROM flights GROUP BY 1) \
             ORDER BY n DESC, d DESC LIMIT 2",
            Some(2),
            vec!["AA|2", "NULL|1"],
        ),
        // Of what is computed above the scan all rows are sorted there.
        ("SELECT carrier FROM flights ORDER BY upper(carrier), distance LIMIT 1", None, vec!["AA"]),
        (
            "SELECT carrier FROM flights ORDER BY carrier, distance",
            None,
            vec!["AA", "AA", "DL", "UA", "NULL"],
        ),
        ("SELECT f FROM numbers ORDER BY f DESC LIMIT 2", Some(2), vec!["NaN", "0.0"]),
    ] {
        assert_eq!(ask(&engine, &tables, sql).await, expected, "{sql}");
        let plan = explain(sql).await;
        let scan = plan.lines().rfind(|line| line.contains("BasaltScan")).unwrap();
        let of_scan = limit.map(|limit| format!("limit={limit}"));
        assert_eq!(scan.contains("limit="), of_scan.is_some(), "{sql}\n{plan}");
        assert!(of_scan.is_none_or(|limit| scan.contains(&limit)), "{sql}\n{plan}");
    }
}

/// A heap of many rows costs more than to sort all, and does not spill.
#[tokio::test(flavor = "multi_thread")]
async fn many_first_rows_come_from_a_sort_of_all() {
    let (engine, tables) = (engine(), crate::tables());
    let of = async |offset: u64| {
        let sql = format!("SELECT n FROM range(200000) AS t(n) ORDER BY n % 7, n OFFSET {offset} LIMIT 2");
        let plan = ask(&engine, &tables, &format!("EXPLAIN {sql}")).await.join("\n");
        (ask(&engine, &tables, &sql).await, plan.contains("TopK"))
    };
    assert_eq!(of(10).await, (vec!["70".to_owned(), "77".to_owned()], true));
    assert_eq!(of(150_000).await, (vec!["49999".to_owned(), "50006".to_owned()], false));
}

/// By a window that keeps nothing of its parts, over both sides together; not over pairs of rows, even within another subquery.
#[tokio::test(flavor = "multi_thread")]
async fn nearest_rows_are_found_without_pairs_of_rows() {
    let (engine, tables) = (engine(), crate::tables());
    let nearest = |table: &str, of: &str| {
        format!(
            "SELECT {table}.delay FROM flights AS {table} WHERE {table}.carrier = {of}.carrier
             AND {table}.distance < {of}.distance ORDER BY {table}.distance DESC LIMIT 1"
        )
    };
    let one = format!("SELECT f.day, ({}) FROM flights AS f", nearest("g", "f"));
    let plan = crate::explain(&engine, &tables, &one).await;
    assert!(plan.contains("BoundedWindowAggExec") && plan.contains("UnionExec"), "{plan}");
    let within = one.replace("SELECT g.delay", &format!("SELECT ({})", nearest("h", "g")));
    for sql in [one, within] {
        let plan = crate::explain(&engine, &tables, &sql).await;
        assert!(!plan.contains("CrossJoin") && !plan.contains("NestedLoopJoin"), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_of_times_are_the_engines() {
    let (engine, tables) = (engine(), crate::tables());
    let mut asked = Vec::new();
    for part in ["second", "minute", "hour", "day", "week", "month", "quarter", "year", "dow", "doy"] {
        for of in ["t", "day"] {
            let table = if of == "t" { "numbers" } else { "flights" };
            let is_of_dates = !["second", "minute", "hour"].contains(&part);
            if of == "day" && !is_of_dates {
                continue;
            }
            // What is evaluated above the scan says what it is.
            let above = format!("date_part('{part}', coalesce({of}, {of}))");
            asked.push((format!("extract({part} FROM {of})"), above, table));
        }
        if !part.starts_with("do") {
            let above = format!("date_trunc('{part}', coalesce(t, t))");
            asked.push((format!("date_trunc('{part}', t)"), above, "numbers"));
        }
    }
    for (fused, above, table) in asked {
        let sql = |of: &str| format!("SELECT {of}, count(*) FROM {table} GROUP BY 1 ORDER BY 1");
        let (fused, above) = (sql(&fused), sql(&above));
        assert_eq!(ask(&engine, &tables, &fused).await, ask(&engine, &tables, &above).await, "{fused}");
        let plan = ask(&engine, &tables, &format!("EXPLAIN {fused}")).await.join("\n");
        assert!(!plan.contains("AggregateExec"), "{fused}\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn decimals_of_few_digits_are_multiplied_by_the_engine() {
    let mut tables = Tables::default();
    let decimals = |values: Vec<Option<i128>>, scale| {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(18, scale).unwrap()) as ArrayRef
    };
    tables.add(
        "item",
        vec![
            ("flag", Arc::new(StringArray::from(vec!["a", "b", "a", "b"]))),
            ("price", decimals(vec![Some(10_050), Some(99_999), None, Some(-1)], 2)),
            ("rate", decimals(vec![Some(5), Some(10), Some(7), None], 2)),
            ("many", decimals(vec![Some(10i128.pow(18) - 1), Some(1), Some(-1), None], 0)),
            ("count", Arc::new(Int32Array::from(vec![3, 4, 5, 6]))),
        ],
    );
    let (engine, tables) = (engine(), Arc::new(tables));
    for (sql, is_engines, expected) in [
        (
            "SELECT flag, sum(price * (1 - rate)) FROM item GROUP BY flag ORDER BY flag",
            true,
            vec!["a|95.4750", "b|899.9910"],
        ),
        ("SELECT sum(price * (1 - rate) * (1 + rate)) FROM item", true, vec!["1090.238850"]),
        ("SELECT sum(price * count), avg(price - 0.001) FROM item", true, vec!["4301.40|366.8256666666667"]),
        // The greatest product has 36 digits; the sum 19.
        ("SELECT sum(many * many) FROM item", false, vec!["999999999999999998000000000000000003"]),
        ("SELECT sum(many + 1) FROM item", false, vec!["1000000000000000002"]),
    ] {
        assert_eq!(ask(&engine, &tables, sql).await, expected, "{sql}");
        let plan = ask(&engine, &tables, &format!("EXPLAIN {sql}")).await.join("\n");
        assert_eq!(!plan.contains("Aggregate"), is_engines, "{sql}\n{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_finds_nothing_gives_way_and_ends_when_it_is_given_up() {
    let (engine, tables) = (engine(), crate::tables());
    // Ten thousand million pairs, more than a thread each.
    let pairs = "SELECT count(*) FROM generate_series(1, 100000) AS a(x), generate_series(1, 100000) AS b(y) \
                 WHERE a.x + b.y < 0 AND a.x * b.y < 0";
    let mut all = Vec::new();
    for _ in 0..2 {
        let (request, memory) = request(&tables, pairs, usize::MAX);
        all.push((engine.query(request).await.unwrap(), memory));
    }
    for (_, memory) in &all {
        while memory.used.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let others = async {
        for _ in 0..20 {
            assert_eq!(ask(&engine, &tables, "SELECT count(*) FROM flights").await, ["5"]);
        }
    };
    tokio::time::timeout(Duration::from_secs(60), others).await.unwrap();
    for (answer, memory) in all {
        assert!(memory.used.load(Ordering::SeqCst) > 0, "it has ended");
        drop(answer);
        given_back(&memory).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_by_an_expression_means_columns_before_what_they_are_called() {
    let (engine, tables) = (engine(), crate::tables());
    for (sql, expected) in [
        ("SELECT 0 - distance AS distance FROM flights ORDER BY distance + 1 LIMIT 1", "-100"),
        ("SELECT 0 - distance AS distance FROM flights ORDER BY distance LIMIT 1", "-500"),
        ("SELECT 0 - f.distance AS distance FROM flights AS f ORDER BY 0 + distance LIMIT 1", "-100"),
        ("SELECT 0 - distance AS x FROM flights ORDER BY x + 1 LIMIT 1", "-500"),
        (
            "SELECT 0 - distance AS distance FROM flights f JOIN airlines a ON f.carrier = a.carrier \
             ORDER BY distance * 2 LIMIT 1",
            "-100",
        ),
        ("SELECT x FROM (SELECT 0 - distance AS x, day FROM flights ORDER BY x + 0 LIMIT 1)", "-500"),
    ] {
        assert_eq!(ask(&engine, &tables, sql).await, [expected], "{sql}");
    }
}
