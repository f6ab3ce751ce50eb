//! Statements that ask about tables and settings, or set what is so already: at every door, as clients of DuckDB and PostgreSQL
//! send them. And where in a statement its mistake is.

use basalt_client::{Client, ErrorReason, QueryResult};

use crate::{promises::reason, serve};

/// The rows of an answer, values apart by `|`.
async fn rows(client: &Client, sql: &str) -> Vec<String> {
    let answer = client.sql(sql).collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    shown(&answer)
}

fn shown(answer: &QueryResult) -> Vec<String> {
    let mut lines = Vec::new();
    for batch in &answer.batches {
        for row in 0..batch.num_rows() {
            let cells = batch
                .columns()
                .iter()
                .map(|column| arrow_cast::display::array_value_to_string(column, row).unwrap());
            lines.push(cells.collect::<Vec<_>>().join("|"));
        }
    }
    lines
}

const TABLE: &str = "CREATE TABLE t AS SELECT * FROM (VALUES
    (1, 1.50, 'a', true, DATE '2024-01-01', CAST('\\xAA' AS BYTEA), 0.5e0),
    (2, 2.25, '', false, DATE '2024-01-03', NULL, 1.5e0),
    (3, NULL, NULL, true, NULL, NULL, CAST('nan' AS DOUBLE)),
    (4, -7.00, 'b', NULL, DATE '2024-01-02', NULL, NULL)) AS v (id, price, \"a word\", ok, day, bytes, x)";

#[tokio::test(flavor = "multi_thread")]
async fn tables_and_queries_are_summarized() {
    let address = serve("memory:", |_| {}).await;
    let client = Client::connect(&address).await.unwrap();
    client.sql(TABLE).collect().await.unwrap();
    let answer = client.sql("SUMMARIZE t").collect().await.unwrap();
    let names: Vec<_> = answer.schema.fields().iter().map(|field| field.name().clone()).collect();
    let expected = "column_name column_type min max approx_unique avg std q25 q50 q75 count null_percentage";
    assert_eq!(names.join(" "), expected);
    let lines = shown(&answer);
    assert_eq!(lines.len(), 7, "{lines:?}");
    let begins = [
        "id|int64|1|4|4|2.5|1.29",
        "price|decimal(3,2)|-7.00|2.25|3|-1.08",
        "a word|utf8||b|3||||||4|25.00",
        "ok|bool|false|true|2||||||4|25.00",
        "day|date32|2024-01-01|2024-01-03|3||||||4|25.00",
        "bytes|binary|aa|aa|1||||||4|75.00",
        "x|float64|0.5|NaN|3|NaN|",
    ];
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.starts_with(begin), "{line}: {begin}");
    }
    assert!(lines[0].ends_with("|4|0.00"), "{}", lines[0]);

    let of_query = "-- about a query\nSUMMARIZE SELECT id % 2 AS odd FROM t WHERE id < 4 -- the end";
    let lines = rows(&client, of_query).await;
    assert!(lines.len() == 1 && lines[0].starts_with("odd|int64|0|1|2|0.66"), "{lines:?}");
    client.sql("CREATE VIEW v AS SELECT id FROM t").collect().await.unwrap();
    assert!(rows(&client, "summarize \"v\";").await[0].starts_with("id|int64|1|4|4|"));
    assert_eq!(rows(&client, "SUMMARIZE SELECT id FROM t WHERE id > 9").await, ["id|int64|||0||||||0|"]);
    let params = client.sql("SUMMARIZE SELECT id FROM t WHERE id > $1").bind(2_i64).collect().await.unwrap();
    assert!(shown(&params)[0].starts_with("id|int64|3|4|2|3.5|"), "{:?}", shown(&params));
    // Names that are expressions, or there twice, and more columns than one query answers for.
    let unnamed = rows(&client, "SUMMARIZE SELECT id + 1, max(id), 7 AS id, id FROM t GROUP BY id").await;
    assert!(unnamed.len() == 4 && unnamed[0].contains("|int64|2|5|4|3.5|"), "{unnamed:?}");
    let many: Vec<String> = (0..120).map(|i| format!("id + {i} AS c{i}")).collect();
    let many = rows(&client, &format!("SUMMARIZE SELECT {} FROM t", many.join(", "))).await;
    assert!(many.len() == 120 && many[119].starts_with("c119|int64|120|123|4|"), "{:?}", many.last());
    for (sql, expected) in [
        ("SUMMARIZE nowhere", ErrorReason::TableNotFound),
        ("SUMMARIZE", ErrorReason::InvalidQuery),
        ("SUMMARIZE DROP TABLE t", ErrorReason::InvalidQuery),
    ] {
        assert_eq!(reason(client.sql(sql).collect().await), expected, "{sql}");
    }
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await, ["4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_shown_and_what_is_so_is_set() {
    let address = serve("memory:", |_| {}).await;
    let client = Client::connect(&address).await.unwrap();
    assert_eq!(rows(&client, "SHOW TimeZone").await, ["UTC"]);
    assert_eq!(rows(&client, "SHOW TIME ZONE").await, ["UTC"]);
    assert_eq!(rows(&client, "SHOW server_version").await, ["15.0"]);
    assert!(rows(&client, "SHOW ALL").await.contains(&"client_encoding|UTF8".to_owned()));
    for sql in [
        "SET TimeZone = 'utc'",
        "SET TIME ZONE 'UTC'",
        "SET SESSION client_encoding TO 'utf-8'",
        "SET NAMES 'utf8'",
        "SET application_name = 'a report'",
        "SET search_path TO public, pg_catalog",
        "SET extra_float_digits = 3",
        "SET statement_timeout = 0",
        "SET DateStyle TO DEFAULT",
        "RESET ALL",
        "RESET TimeZone",
    ] {
        assert_eq!(rows(&client, sql).await, ["0"], "{sql}");
    }
    for (sql, words) in [
        ("SET TimeZone = 'Europe/Berlin'", "invalid value for parameter"),
        ("SET statement_timeout = '5s'", "lasts as long as a session"),
        ("SET threads = 4", "unrecognized configuration parameter \"threads\""),
        ("SHOW threads", "unrecognized configuration parameter"),
        ("SET server_version = '9'", "cannot be changed"),
        ("RESET server_version", "cannot be changed"),
    ] {
        let error = client.sql(sql).collect().await.unwrap_err();
        assert!(error.to_string().contains(words), "{sql}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_have_their_places() {
    let address = serve("memory:", |_| {}).await;
    let client = Client::connect(&address).await.unwrap();
    client.sql(TABLE).collect().await.unwrap();
    for (sql, place) in [
        ("SELECT id FROM", "line 1, column 15"),
        ("SELECT id,\n  price FROM t WHERE id >  ", "line 2, column 26"),
        ("SELECT (1 + 2", "line 1, column 14"),
        ("SELECT nowhere FROM nowhere", "line 1, column 21"),
        ("SELECT * FROM t JOIN\n nowhere USING (id)", "line 2, column 2"),
        ("INSERT INTO nowhere VALUES (1)", "line 1, column 13"),
        ("SUMMARIZE nowhere", "line 1, column 11"),
        ("DESCRIBE nowhere", "line 1, column 10"),
        ("SELECT CAST('many' AS INT)", "line 1, column 13"),
        ("SELECT id FROM t WHERE day = 'someday'", "line 1, column 30"),
        ("SELECT id FROM t\nWHERE id = 'x1'", "line 2, column 12"),
        ("SELECT DATE 'someday'", "line 1, column 13"),
    ] {
        let error = client.sql(sql).collect().await.unwrap_err();
        let places = &error.server().unwrap().places;
        let field = places.first().map_or("", |place| place.field.as_str());
        assert_eq!(field, place, "{sql}: {error}");
    }
    // A value of a column has no place in the statement.
    let error = client
        .sql("SELECT CAST(\"a word\" AS INT) FROM t WHERE \"a word\" = 'a'")
        .collect()
        .await
        .unwrap_err();
    assert!(error.server().unwrap().places.is_empty(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_median_of_decimals_is_exact() {
    let address = serve("memory:", |_| {}).await;
    let client = Client::connect(&address).await.unwrap();
    let values = "CREATE TABLE d AS SELECT CAST(v AS DECIMAL(20, 2)) AS v, k FROM (VALUES
        ('123456789012345678.01', 1), ('123456789012345678.02', 1), ('0.10', 2), ('-0.01', 2), ('0.07', 2)) AS t (v, k)";
    client.sql(values).collect().await.unwrap();
    let answer = client.sql("SELECT median(v) FROM d WHERE k = 1").collect().await.unwrap();
    assert_eq!(shown(&answer), ["123456789012345678.015"]);
    assert_eq!(basalt_client::type_name(answer.schema.field(0).data_type()), "decimal(21,3)");
    let groups = "SELECT k, median(v), mode(k) FROM d GROUP BY k ORDER BY k";
    assert_eq!(rows(&client, groups).await, ["1|123456789012345678.015|1", "2|0.070|2"]);
    assert_eq!(rows(&client, "SELECT median(CAST(v AS DECIMAL(38, 2))) FROM d WHERE k = 2").await, ["0.07"]);
    assert_eq!(rows(&client, "SELECT median(v) FROM d WHERE k = 3").await, [""]);
}
