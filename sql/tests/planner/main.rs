//! Plans and answers over tables in memory: what the engine is asked, and what DataFusion does above it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "this is all test code")]

mod engine;
mod literals;
mod plans;
mod sideways;
mod tables;
mod writes;

use std::sync::{Arc, atomic::Ordering};

use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt64Array,
};
use basalt_core::{error::ErrorKind, query::Literal, schema::DataType};
use basalt_sql::{Answer, Command, Engine, Error};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use tables::{Tables, engine, request};

/// Flights, airlines and numbers of all kinds.
fn tables() -> Arc<Tables> {
    let mut tables = Tables::default();
    let strings =
        |values: &[Option<&str>]| Arc::new(values.iter().copied().collect::<StringArray>()) as ArrayRef;
    tables.add(
        "flights",
        vec![
            ("carrier", strings(&[Some("AA"), Some("UA"), Some("AA"), Some("DL"), None])),
            ("delay", Arc::new(Int32Array::from(vec![Some(10), Some(20), None, Some(-5), Some(7)]))),
            ("distance", Arc::new(Int64Array::from(vec![100, 200, 300, 400, 500]))),
            ("day", Arc::new(Date32Array::from(vec![15000, 15001, 15002, 15003, 15004]))),
        ],
    );
    tables.add(
        "airlines",
        vec![
            ("carrier", strings(&[Some("AA"), Some("UA"), Some("B6")])),
            ("name", strings(&[Some("American"), Some("United"), Some("JetBlue")])),
        ],
    );
    let decimals =
        Decimal128Array::from(vec![Some(150), Some(-25), None]).with_precision_and_scale(10, 2).unwrap();
    let times = TimestampMicrosecondArray::from(vec![0, 3_600_000_000, 90_000_000_000]).with_timezone("UTC");
    tables.add(
        "Numbers",
        vec![
            ("Big", Arc::new(Int64Array::from(vec![i64::MAX, i64::MIN, 0]))),
            ("u", Arc::new(UInt64Array::from(vec![u64::MAX, 1, 0]))),
            ("f", Arc::new(Float64Array::from(vec![-0.0, 0.0, f64::NAN]))),
            ("d", Arc::new(decimals)),
            ("t", Arc::new(times)),
        ],
    );
    Arc::new(tables)
}

async fn try_ask(engine: &Engine, tables: &Arc<Tables>, sql: &str) -> Result<Vec<String>, Error> {
    rows_of(engine.query(request(tables, sql, usize::MAX).0).await?).await
}

/// The rows of an answer as texts.
async fn rows_of(mut answer: Answer) -> Result<Vec<String>, Error> {
    let mut rows = Vec::new();
    while let Some(batch) = answer.next().await? {
        let options = FormatOptions::default().with_null("NULL");
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|")
        }));
    }
    Ok(rows)
}

/// Rows as texts.
async fn ask(engine: &Engine, tables: &Arc<Tables>, sql: &str) -> Vec<String> {
    try_ask(engine, tables, sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

async fn fails(engine: &Engine, tables: &Arc<Tables>, sql: &str) -> (ErrorKind, String) {
    let error = try_ask(engine, tables, sql).await.map(|rows| panic!("{sql}: {rows:?}")).unwrap_err();
    let error = error.statement().unwrap_or_else(|| panic!("{sql}: {error:?}"));
    (error.kind(), error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_subqueries_windows_and_functions() {
    let (engine, tables) = (engine(), tables());
    for (sql, expected) in [
        (
            "SELECT f.carrier, name, delay FROM flights f JOIN airlines a ON f.carrier = a.carrier ORDER BY distance",
            &["AA|American|10", "UA|United|20", "AA|American|NULL"][..],
        ),
        ("SELECT count(*) FROM flights f LEFT JOIN airlines a USING (carrier) WHERE a.name IS NULL", &["2"]),
        (
            "SELECT name FROM airlines WHERE carrier NOT IN (SELECT carrier FROM flights WHERE carrier IS NOT NULL)",
            &["JetBlue"],
        ),
        (
            "SELECT name FROM airlines a WHERE EXISTS (SELECT 1 FROM flights f WHERE f.carrier = a.carrier) ORDER BY 1",
            &["American", "United"],
        ),
        ("WITH d AS (SELECT delay AS x FROM flights) SELECT max(x) - min(x) FROM d", &["25"]),
        ("SELECT 1 AS a UNION ALL SELECT 2 UNION ALL SELECT 2 ORDER BY a DESC", &["2", "2", "1"]),
        (
            "SELECT carrier FROM flights UNION SELECT carrier FROM airlines ORDER BY carrier",
            &["AA", "B6", "DL", "UA", "NULL"],
        ),
        (
            "SELECT distance, row_number() OVER (ORDER BY distance DESC) AS n, \
             sum(distance) OVER (ORDER BY distance) FROM flights ORDER BY n LIMIT 2",
            &["500|1|1500", "400|2|1000"],
        ),
        (
            "SELECT CASE WHEN delay > 8 THEN 'late' ELSE 'ok' END AS c, count(*) FROM flights GROUP BY 1 ORDER BY 1",
            &["late|2", "ok|3"],
        ),
        (
            "SELECT coalesce(delay, 0) % 7, CAST(distance AS VARCHAR) || '!' FROM flights ORDER BY distance LIMIT 2",
            &["3|100!", "6|200!"],
        ),
        ("SELECT median(delay), avg(delay) FROM flights", &["8.5|8.0"]),
        (
            "SELECT upper(lower(name)), substr(name, 2, 3), length(name) FROM airlines ORDER BY name LIMIT 1",
            &["AMERICAN|mer|8"],
        ),
        (
            "SELECT date_trunc('hour', t), extract(hour FROM t) FROM numbers ORDER BY t DESC LIMIT 1",
            &["1970-01-02T01:00:00Z|1"],
        ),
        // A number has one zero and one NaN, computed or not.
        ("SELECT u FROM numbers ORDER BY f * 0, u", &["1", "18446744073709551615", "0"]),
        ("SELECT max(-f), min(-f) FROM numbers WHERE u = 0", &["NaN|NaN"]),
        ("SELECT u FROM numbers WHERE -f > 5 ORDER BY -f DESC", &["0"]),
        // What is asked of the side that may be missing, where both have a column of the name.
        (
            "SELECT q.s, p.s FROM (VALUES ('a')) q(s) RIGHT JOIN (VALUES ('a'), ('9')) p(s) ON q.s = p.s \
             WHERE lower(q.s) < 'b'",
            &["a|a"],
        ),
        // 25 hours after the first of January, in New York.
        (
            "SELECT t AT TIME ZONE 'America/New_York', extract(hour FROM t AT TIME ZONE 'America/New_York'), \
             (t AT TIME ZONE 'UTC') AT TIME ZONE '+02:00' FROM numbers ORDER BY t DESC LIMIT 1",
            &["1970-01-01T20:00:00Z|20|1970-01-02T03:00:00Z"],
        ),
        (
            "SELECT to_char(t, 'YYYY-MM-DD HH24:MI'), to_char(t, '%d.%m.') FROM numbers ORDER BY t DESC LIMIT 1",
            &["1970-01-02 01:00|02.01."],
        ),
        ("SELECT count(*) FROM flights WHERE day BETWEEN DATE '2011-01-27' AND '2011-01-28'", &["2"]),
        (
            "SELECT count(*), count(delay), count(DISTINCT carrier), sum(DISTINCT distance) FROM flights",
            &["5|4|3|1500"],
        ),
        ("VALUES (1, 'a'), (2, NULL)", &["1|a", "2|NULL"]),
        ("SELECT (SELECT max(distance) FROM flights) - distance FROM flights WHERE delay = 20", &["300"]),
        ("SELECT current_date IS NOT NULL, now() > TIMESTAMP '2020-01-01'", &["true|true"]),
        ("SELECT 1 AS a UNION SELECT 1.5 ORDER BY a", &["1.0", "1.5"]),
        ("SELECT 25e-1 / 2, 2e0 = 2", &["1.25|true"]),
        ("SHOW TABLES", &["Numbers", "airlines", "flights"]),
        ("DESCRIBE airlines", &["carrier|utf8|true|NULL", "name|utf8|true|NULL"]),
        (
            "DESCRIBE SELECT Carrier, count(*) AS Flights, 1 + 2 FROM flights GROUP BY 1",
            &["carrier|utf8|true|NULL", "flights|int64|true|NULL", "1 + 2|int64|true|NULL"],
        ),
        ("desc WITH a AS (FROM airlines) FROM a", &["carrier|utf8|true|NULL", "name|utf8|true|NULL"]),
    ] {
        assert_eq!(ask(&engine, &tables, sql).await, expected, "{sql}");
    }
}

/// The plan of a statement as text.
async fn explain(engine: &Engine, tables: &Arc<Tables>, sql: &str) -> String {
    ask(engine, tables, &format!("EXPLAIN {sql}")).await.join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_go_to_the_engine() {
    let (engine, tables) = (engine(), tables());
    for (condition, filter) in [
        ("delay > 5", "delay > 5"),
        ("delay > 5.5", "delay > 5.5"),
        ("delay > 5 AND carrier IN ('AA', 'UA') OR carrier IS NULL", "carrier IS NULL"),
        ("delay * 2 + distance >= 100", "(delay * 2) + distance >= 100"),
        ("distance / 3 > 50", "distance / 3 > 50"),
        ("carrier LIKE 'A%'", "carrier LIKE 'A%'"),
        ("NOT carrier LIKE '%A'", "NOT (carrier LIKE '%A')"),
        ("day >= '2011-01-27'", "day >= 2011-01-27"),
        ("delay IS NOT NULL AND distance BETWEEN 100 AND 300", "delay IS NOT NULL"),
        ("delay < distance", "delay < distance"),
        // Of several lists each one.
        ("delay IN (10, 20, 30, 40) AND delay IN (20, 30, 50, 60)", "delay IN (10, 20, 30, 40)"),
        ("delay IN (10, 20, 30, 40) AND delay IN (20, 30, 50, 60)", "delay IN (20, 30, 50, 60)"),
        ("delay IN (1, 2, 3, 4) AND delay IN (5, 6, 7, 8) OR delay IN (9, 10, 11, 12)", "IN (9, 10, 11, 12)"),
        ("delay IN (1, 2) OR delay IN (3, 4)", "delay IN (1, 2, 3, 4)"),
    ] {
        let plan =
            explain(&engine, &tables, &format!("SELECT distance FROM flights WHERE {condition}")).await;
        assert!(plan.contains(filter) && plan.contains("filter=["), "{condition}\n{plan}");
        assert!(!plan.contains("FilterExec"), "{condition}\n{plan}");
    }
    // What the engine has not is done above it.
    let plan = explain(&engine, &tables, "SELECT distance FROM flights WHERE upper(carrier) = 'AA'").await;
    assert!(plan.contains("FilterExec"), "{plan}");
    let plan = explain(&engine, &tables, "SELECT distance FROM flights LIMIT 3").await;
    assert!(plan.contains("limit=3"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn aggregates_of_one_table_are_the_engines() {
    let (engine, tables) = (engine(), tables());
    for (sql, expected, rows) in [
        ("SELECT count(*) FROM flights", "select=[count(*)]", &["5"][..]),
        (
            "SELECT carrier, sum(distance) AS s, avg(delay) FROM flights WHERE distance < 450 GROUP BY carrier ORDER BY s",
            "group_by=[carrier]",
            &["UA|200|20.0", "AA|400|10.0", "DL|400|-5.0"],
        ),
        ("SELECT count(DISTINCT f.carrier) FROM flights f", "count(DISTINCT carrier)", &["3"]),
        ("SELECT DISTINCT carrier FROM flights WHERE delay > 15", "group_by=[carrier]", &["UA"]),
        (
            "SELECT min(x), max(x) FROM (SELECT distance + delay AS x FROM flights)",
            "min(distance + delay)",
            &["110|507"],
        ),
        ("SELECT sum(distance * delay) FROM flights", "sum(distance * delay)", &["6500"]),
        ("SELECT carrier FROM flights GROUP BY carrier HAVING count(*) > 1", "group_by=[carrier]", &["AA"]),
    ] {
        let plan = explain(&engine, &tables, sql).await;
        assert!(plan.contains(expected) && !plan.contains("AggregateExec"), "{sql}\n{plan}");
        assert_eq!(ask(&engine, &tables, sql).await, rows, "{sql}");
    }
    // What the engine has not is done above it, with the same meaning.
    let plan = explain(&engine, &tables, "SELECT sum(distance) FILTER (WHERE delay > 0) FROM flights").await;
    assert!(plan.contains("AggregateExec"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_never_wrap() {
    let (engine, tables) = (engine(), tables());
    for sql in [
        r#"SELECT "Big" + 1 FROM numbers"#,
        r#"SELECT "Big" * 2 FROM numbers"#,
        r#"SELECT -"Big" FROM numbers"#,
        r#"SELECT "Big" - 1 FROM numbers"#,
        "SELECT 9223372036854775807 + 1",
        "SELECT sum(b) FROM (SELECT big AS b FROM numbers WHERE big > 0 UNION ALL SELECT 1)",
        "SELECT sum(b) OVER () FROM (SELECT big AS b FROM numbers WHERE big > 0 UNION ALL SELECT 1)",
        "SELECT sum(u) FROM (SELECT u FROM numbers UNION ALL SELECT u FROM numbers)",
        "SELECT sum(u) FROM numbers",
        "SELECT 99999999999999999999999999999999999999 + 1.0",
        "SELECT u + 0 FROM numbers",
    ] {
        let (kind, message) = fails(&engine, &tables, sql).await;
        assert_eq!(kind, ErrorKind::Overflow, "{sql}: {message}");
    }
    for (sql, expected) in [
        // Sums are exact on the way: it is their end that must fit.
        (
            "SELECT sum(b) FROM (SELECT big AS b FROM numbers UNION ALL SELECT big FROM numbers UNION ALL SELECT 1)",
            &["-1"][..],
        ),
        ("SELECT 7 / 2, 1 / 4", &["3.5|0.25"]),
        ("SELECT d + 1, d * d, d / 2, -d FROM numbers WHERE d > 0", &["2.50|2.2500|0.75|-1.50"]),
        ("SELECT 0.1 + 0.2 = 0.3, 1 + 2.5", &["true|3.5"]),
        ("SELECT sum(d), avg(d) FROM (SELECT d FROM numbers UNION ALL SELECT 1)", &["2.25|0.75"]),
        ("SELECT CAST(100 AS TINYINT) + CAST(100 AS TINYINT)", &["200"]),
    ] {
        assert_eq!(ask(&engine, &tables, sql).await, expected, "{sql}");
    }
    for sql in
        ["SELECT 1 / 0", "SELECT distance / (delay - delay) FROM flights", "SELECT 1.5 / 0.0", "SELECT 5 % 0"]
    {
        let (kind, message) = fails(&engine, &tables, sql).await;
        assert_eq!(kind, ErrorKind::DivisionByZero, "{sql}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn floats_and_times_are_those_of_the_engine() {
    let (engine, tables) = (engine(), tables());
    for (sql, expected) in [
        ("SELECT count(*) FROM numbers WHERE f = 0.0", &["2"][..]),
        // The same where the engine does not do it.
        ("SELECT count(*) FROM numbers WHERE abs(f) = 0.0", &["2"]),
        ("SELECT count(*) FROM (SELECT DISTINCT f FROM numbers)", &["2"]),
        ("SELECT count(*) FROM numbers a JOIN numbers b ON a.f = b.f", &["5"]),
        ("SELECT max(f), min(f) FROM numbers", &["NaN|0.0"]),
        ("SELECT count(*) FROM numbers WHERE t < TIMESTAMP '1970-01-01 02:00:00'", &["2"]),
        ("SELECT count(*) FROM numbers WHERE t >= '1970-01-01T01:00:00Z'", &["2"]),
        ("SELECT count(*) FROM numbers WHERE t < DATE '1970-01-02'", &["2"]),
    ] {
        assert_eq!(ask(&engine, &tables, sql).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_match_without_case_where_that_is_unique() {
    let (engine, tables) = (engine(), tables());
    for sql in [
        "SELECT Distance FROM FLIGHTS WHERE Delay = 20",
        r#"SELECT "distance" FROM "flights" F WHERE f.delay = 20"#,
        "SELECT distance AS D FROM flights WHERE delay = 20 ORDER BY d",
    ] {
        assert_eq!(ask(&engine, &tables, sql).await, ["200"], "{sql}");
    }
    assert_eq!(
        ask(&engine, &tables, "SELECT BIG FROM numbers ORDER BY big LIMIT 1").await,
        [i64::MIN.to_string()]
    );
    for sql in [r#"SELECT "Distance" FROM flights"#, "SELECT nothing FROM flights"] {
        assert_eq!(fails(&engine, &tables, sql).await.0, ErrorKind::ColumnNotFound, "{sql}");
    }
    for sql in [r#"SELECT 1 FROM "Flights""#, "SELECT 1 FROM elsewhere"] {
        assert_eq!(fails(&engine, &tables, sql).await.0, ErrorKind::TableNotFound, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_says_why_and_where() {
    let (engine, tables) = (engine(), tables());
    for (sql, expected) in [
        ("SELECT 1 FROM flights WHERE", "expected an expression, found EOF"),
        ("SELECT delay,\n  nothing FROM flights", "line 2, column 3"),
        ("SELEC 1", "line 1, column 1"),
        ("SELECT 'open", "unterminated"),
        ("SELECT 1; SELECT 2", "more than one statement"),
        ("", "no statement"),
        ("DROP TABLE flights", "writing to these tables"),
        ("INSERT INTO flights (delay) VALUES (1)", "writing to these tables"),
        ("CREATE TABLE a AS SELECT 1 AS one", "writing to these tables"),
        (
            "CREATE EXTERNAL TABLE a STORED AS CSV LOCATION '/etc/passwd'",
            "no statement CREATE EXTERNAL TABLE",
        ),
        ("BEGIN", "BEGIN needs a session"),
        ("DEALLOCATE a", "DEALLOCATE needs a session"),
        ("GRANT SELECT ON flights TO ada", "those of keys"),
        ("CREATE SCHEMA a", "one schema"),
        ("VACUUM flights", "by itself"),
        ("SHOW FUNCTIONS", "no statement SHOW FUNCTIONS"),
        ("COPY flights TO '/tmp/a.csv'", "writing to these tables"),
        ("SET datafusion.execution.batch_size = 1", "unrecognized configuration parameter"),
        ("SELECT 1 INTO b FROM flights", "not supported"),
        ("SELECT nosuch(1)", "nosuch"),
        ("SELECT count(*) FROM flights TABLESAMPLE (10)", "TABLESAMPLE"),
        ("SELECT count(*) FROM (SELECT 1) AS t TABLESAMPLE BERNOULLI (10)", "TABLESAMPLE"),
        ("SELECT 1 FROM flights JOIN (SELECT 1) t TABLESAMPLE SYSTEM (10) ON true", "TABLESAMPLE"),
        ("SELECT 1 FROM flights FETCH FIRST 1 ROW WITH TIES", "TIES"),
        ("SELECT 1 FROM flights FOR UPDATE", "FOR UPDATE"),
        ("SELECT (1, 2) > ALL (SELECT 1)", "a row of 2 values before 1 columns"),
        ("SELECT 1e400", "does not fit a float64"),
        ("SELECT $2", "no parameter $2"),
        ("SELECT 1 FOR VERSION AS OF 1", "FOR VERSION AS OF"),
        ("SELECT 1 FROM flights FOR VERSION AS OF 'a'", "takes a version's number"),
    ] {
        let (_, message) = fails(&engine, &tables, sql).await;
        assert!(message.contains(expected), "{sql}: {message}");
    }
    let deep = format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000));
    assert_eq!(fails(&engine, &tables, &deep).await.0, ErrorKind::FilterTooDeep);
    // A long chain is as deep a tree.
    let chain = |terms: usize| format!("SELECT {}1", "1 + ".repeat(terms));
    assert_eq!(ask(&engine, &tables, &chain(500)).await, ["501"]);
    let either =
        format!("SELECT distance FROM flights WHERE {}distance = 100", "distance = 5 OR ".repeat(400));
    assert_eq!(ask(&engine, &tables, &either).await, ["100"]);
    assert_eq!(fails(&engine, &tables, &chain(20_000)).await.0, ErrorKind::FilterTooLarge);
    // Casts of constants are no chain, casts of casts are.
    let casts = vec!["('1'::int)"; 1500].join(", ");
    assert_eq!(
        ask(&engine, &tables, &format!("SELECT count(*) FROM (VALUES {casts}) AS v (a)")).await,
        ["1500"]
    );
    let chain = format!("SELECT 1{}", "::int".repeat(20_000));
    assert_eq!(fails(&engine, &tables, &chain).await.0, ErrorKind::FilterTooLarge);
    // What the parser reads by recursion that nothing ends.
    for (word, rest) in [("EXPLAIN ", "SELECT 1"), ("EXPLAIN VERBOSE ", "SELECT 1"), ("INTERVAL ", "'1'")] {
        let select = if word == "INTERVAL " { "SELECT " } else { "" };
        let sql = format!("{select}{}{rest}", word.repeat(50_000));
        assert_eq!(fails(&engine, &tables, &sql).await.0, ErrorKind::FilterTooLarge, "{word}");
    }
    // What a word begins is tried as a name too where it has a fault, within each other: 25 of them took days.
    for (begin, end) in
        [("cast(", " as int)"), ("ceil(", ")"), ("array[", "]"), ("not (", ")"), ("substring(", " from 1)")]
    {
        for depth in [60, 200] {
            let sql = format!("SELECT {}1 +{}", begin.repeat(depth), end.repeat(depth));
            fails(&engine, &tables, &sql).await;
        }
    }
    // Each is planned twice as often as the one around it.
    let queries = |depth: usize| {
        format!("SELECT {}1{}", "(SELECT 1 + ".repeat(depth), " FROM flights LIMIT 1)".repeat(depth))
    };
    assert_eq!(ask(&engine, &tables, &queries(5)).await, ["6"]);
    assert_eq!(fails(&engine, &tables, &queries(15)).await.0, ErrorKind::FilterTooDeep);
    let scans = |rest: &str, times| {
        format!("SELECT 1 FROM flights {}", format!("UNION ALL SELECT 1 FROM flights {rest} ").repeat(times))
    };
    assert_eq!(fails(&engine, &tables, &scans("", 80)).await.0, ErrorKind::FilterTooLarge);
    // Those of which no row is read are left out, unless they are so many that it would take long to find out.
    assert_eq!(ask(&engine, &tables, &scans("WHERE 1 = 0", 80)).await, ["1"; 5]);
    assert_eq!(fails(&engine, &tables, &scans("WHERE 1 = 0", 300)).await.0, ErrorKind::FilterTooLarge);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_values() {
    let (engine, tables) = (engine(), tables());
    let with = async |sql: &str, parameters: Vec<Literal>| {
        let request = basalt_sql::Request { parameters, ..request(&tables, sql, usize::MAX).0 };
        let mut answer = engine.query(request).await.unwrap();
        let batch = answer.next().await.unwrap().unwrap();
        let column = ArrayFormatter::try_new(batch.column(0), &FormatOptions::default()).unwrap();
        column.value(0).to_string()
    };
    let text = |text: &str| Literal::Text(text.to_owned());
    assert_eq!(
        with(
            "SELECT count(*) FROM flights WHERE carrier = $1 AND distance < $2",
            vec![text("AA"), Literal::Int(200)]
        )
        .await,
        "1"
    );
    assert_eq!(with("SELECT ? || ?", vec![text("it's "), text("'; DROP")]).await, "it's '; DROP");
    assert_eq!(with("SELECT $1 - 1", vec![Literal::Int(i64::MIN + 1)]).await, i64::MIN.to_string());
    assert_eq!(with("SELECT $1", vec![Literal::Decimal { unscaled: -150, scale: 2 }]).await, "-1.50");
    let digits = |unscaled, scale| Literal::Decimal { unscaled, scale };
    let (large, most) = (10_i128.pow(20), 10_i128.pow(38) - 1);
    assert_eq!(with("SELECT $1", vec![digits(most, 0)]).await, most.to_string());
    assert_eq!(with("SELECT $1", vec![digits(-most, 38)]).await, format!("-0.{}", "9".repeat(38)));
    assert_eq!(with("SELECT typeof($1)", vec![digits(5, 2)]).await, "DECIMAL(2,2)");
    assert_eq!(with("SELECT $1 < $2", vec![digits(large, 0), Literal::Int(3)]).await, "false");
    assert_eq!(
        with("SELECT greatest($1, $2)", vec![digits(large, 0), Literal::Int(3)]).await,
        large.to_string()
    );
    assert_eq!(
        with("SELECT count(*) FROM flights WHERE distance < $1", vec![digits(large * 10 + 5, 1)]).await,
        with("SELECT count(*) FROM flights WHERE distance IS NOT NULL", Vec::new()).await
    );
    assert_eq!(with("SELECT $1", vec![Literal::Timestamp(1)]).await, "1970-01-01T00:00:00.000001Z");
    assert_eq!(with("SELECT $1", vec![Literal::Date(0)]).await, "1970-01-01");
    assert_eq!(with("SELECT $1 + 0.5", vec![Literal::Float(1e300)]).await, "1e300");
    let plan = "SELECT distance FROM flights WHERE day < $1";
    assert_eq!(with(plan, vec![Literal::Date(15001)]).await, "100");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_reads_one_version() {
    let (engine, tables) = (engine(), tables());
    let row: [(&str, ArrayRef); 2] = [
        ("carrier", Arc::new(StringArray::from(vec!["ZZ"]))),
        ("name", Arc::new(StringArray::from(vec!["Zed"]))),
    ];
    let row = RecordBatch::try_from_iter_with_nullable(row.map(|(name, array)| (name, array, true))).unwrap();
    // It is planned, and its scans begin when the answer is read.
    let sql = "SELECT count(*) FROM airlines a JOIN airlines b ON a.carrier = b.carrier";
    tables.append("airlines", &row);
    assert_eq!(ask(&engine, &tables, sql).await, ["4"]);
    for (sql, expected) in [
        ("SELECT count(*) FROM airlines FOR VERSION AS OF 1", "3"),
        ("SELECT count(*) FROM airlines FOR VERSION AS OF 2", "4"),
        ("SELECT count(*) FROM airlines AS a FOR VERSION AS OF 1 WHERE a.name IS NOT NULL", "3"),
        (
            "SELECT count(*) FROM airlines new LEFT JOIN airlines FOR VERSION AS OF 1 old USING (carrier) \
             WHERE old.name IS NULL",
            "1",
        ),
    ] {
        assert_eq!(ask(&engine, &tables, sql).await, [expected], "{sql}");
    }
    assert_eq!(
        fails(&engine, &tables, "SELECT 1 FROM airlines FOR VERSION AS OF 99").await.0,
        ErrorKind::VersionGone
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_the_callers_and_is_given_back() {
    let (engine, tables) = (engine(), tables());
    let sql = "SELECT a.x, count(*) FROM generate_series(1, 300000) AS a(x) GROUP BY a.x ORDER BY 2 DESC, 1";
    let (small, memory) = request(&tables, sql, 1 << 20);
    let mut answer = engine.query(small).await.unwrap();
    let error = loop {
        match answer.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it fits"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.statement().unwrap().kind(), ErrorKind::MemoryLimit, "{error}");
    drop(answer);
    given_back(&memory).await;

    let (large, memory) = request(&tables, sql, usize::MAX);
    let mut answer = engine.query(large).await.unwrap();
    assert!(answer.next().await.unwrap().is_some());
    assert!(memory.used.load(Ordering::SeqCst) > 0, "nothing is reserved");
    drop(answer);
    given_back(&memory).await;

    for sql in [
        "SELECT repeat('x', 2000000000)",
        "SELECT lpad(name, 1000000000, 'x') FROM airlines",
        "SELECT rpad('x', 100000 * CAST(delay AS INT)) FROM flights WHERE delay > 10 AND distance * 1000 > 0 AND repeat(carrier, 100000000) = ''",
    ] {
        let (kind, message) = fails(&engine, &tables, sql).await;
        assert_eq!(kind, ErrorKind::MemoryLimit, "{sql}: {message}");
    }
    assert_eq!(
        ask(&engine, &tables, "SELECT repeat('ab', 2), lpad('x', 3), rpad('x', 2, 'y')").await,
        ["abab|  x|xy"]
    );
}

async fn given_back(memory: &tables::Bytes) {
    for _ in 0..500 {
        if memory.used.load(Ordering::SeqCst) == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{} bytes are held", memory.used.load(Ordering::SeqCst));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_is_described_before_it_is_run() {
    let (engine, tables) = (engine(), tables());
    let describe = async |sql: &str| engine.describe(request(&tables, sql, usize::MAX).0, Vec::new()).await;
    let sql = "SELECT carrier, sum(delay) AS late, avg(distance) FROM flights \
               WHERE distance > $2 AND carrier = $1 GROUP BY carrier";
    let described = describe(sql).await.unwrap();
    assert_eq!(described.command, Command::Select);
    assert_eq!(described.parameters, [DataType::Utf8, DataType::Int64]);
    let columns: Vec<_> =
        described.schema.fields().iter().map(|field| (field.name.as_str(), field.data_type)).collect();
    assert_eq!(
        columns,
        [("carrier", DataType::Utf8), ("late", DataType::Int64), ("avg(distance)", DataType::Float64)]
    );
    let described = describe("SELECT delay FROM flights WHERE carrier = ? LIMIT ?").await.unwrap();
    assert_eq!(described.parameters, [DataType::Utf8, DataType::Int64]);
    // Of any type: it is taken as text.
    assert_eq!(describe("SELECT $1 AS a").await.unwrap().parameters, [DataType::Utf8]);
    assert_eq!(describe("SHOW TABLES").await.unwrap().command, Command::Show);
    assert_eq!(describe("EXPLAIN SELECT 1").await.unwrap().command, Command::Explain);
    for (sql, message) in [("SELECT $0", "no parameter $0"), ("SELECT $a", "no parameter $a")] {
        let error = describe(sql).await.unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}
