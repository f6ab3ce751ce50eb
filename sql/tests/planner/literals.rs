//! INSERT of constants and parameters: each value goes into its column by itself, and many of them take little time.

use std::{sync::Arc, time::Duration};

use basalt_core::query::Literal;
use basalt_sql::limits;

use crate::{
    rows_of,
    tables::engine,
    writes::{Store, all, fails, request},
};

#[tokio::test(flavor = "multi_thread")]
async fn values_go_into_their_columns_one_by_one() {
    let (engine, store) = (engine(), Arc::<Store>::default());
    all(
        &engine,
        &store,
        &[
            ("CREATE TABLE t (\"Key\" INT NOT NULL, d DECIMAL(10, 2), f DOUBLE, s TEXT, b BOOLEAN, day DATE, at TIMESTAMP)", &["0"]),
            // A text and numbers, of several kinds, in one column.
            ("INSERT INTO t (key, d) VALUES (1, '1.25'), ('2', 3), (3, 2.5), (-4, 1e1), (5, DEFAULT), (6, NULL)", &["6"]),
            ("SELECT key, d FROM t ORDER BY key", &["-4|10.00", "1|1.25", "2|3.00", "3|2.50", "5|NULL", "6|NULL"]),
            ("DELETE FROM t", &["6"]),
            (
                "INSERT INTO t VALUES (1, 0.5, 2, 'x''y', true, '2024-02-29', '2024-02-29 12:00'), (2, -0.25, 1.5, 7, false, NULL, NULL)",
                &["2"],
            ),
            (
                "SELECT * FROM t ORDER BY 1",
                &["1|0.50|2.0|x'y|true|2024-02-29|2024-02-29T12:00:00Z", "2|-0.25|1.5|7|false|NULL|NULL"],
            ),
        ],
    )
    .await;
    let given = vec![Literal::Int(3), Literal::Null, Literal::Float(0.1), Literal::Text("7".into())];
    let sql = "INSERT INTO t (KEY, d, f, s) VALUES ($1::INTEGER, $2, $3, $4::VARCHAR)";
    assert_eq!(rows_of(engine.query(request(&store, sql, given)).await.unwrap()).await.unwrap(), ["1"]);
    all(&engine, &store, &[("SELECT key, d, f, s FROM t WHERE key = 3", &["3|NULL|0.1|7"])]).await;
    for (sql, words) in [
        ("INSERT INTO t (key) VALUES (1, 2)", "2 values for 1 columns"),
        ("INSERT INTO t (key) VALUES ('x')", "key"),
        ("INSERT INTO t (key) VALUES (3000000000)", "Key"),
        ("INSERT INTO t (key, b) VALUES (1, 2)", "not stored as"),
        ("INSERT INTO t (key, nothing) VALUES (1, 2)", "nothing"),
        ("INSERT INTO t (key) VALUES ($1)", "no parameter"),
        ("INSERT INTO t (key) VALUES (1), (2, 3)", "VALUES"),
    ] {
        let (_, told) = fails(&engine, &store, sql).await;
        assert!(told.to_lowercase().contains(&words.to_lowercase()), "{sql}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_parameters_as_a_message_has() {
    let (engine, store) = (engine(), Arc::<Store>::default());
    all(&engine, &store, &[("CREATE TABLE t (a BIGINT, b TEXT, c DOUBLE)", &["0"])]).await;
    let rows: Vec<_> = (0..limits::PARAMETERS / 3)
        .map(|row| format!("(${}::BIGINT, ${}, ${})", row * 3 + 1, row * 3 + 2, row * 3 + 3))
        .collect();
    let sql = format!("INSERT INTO t (a, b, c) VALUES {}", rows.join(", "));
    let given: Vec<_> = (0..limits::PARAMETERS as i64)
        .map(|at| match at % 3 {
            0 => Literal::Int(at),
            1 => Literal::Text(format!("text {at}")),
            _ => Literal::Float(0.5),
        })
        .collect();
    let described = engine.describe(request(&store, &sql, Vec::new()), Vec::new()).await.unwrap();
    assert_eq!(described.parameters.len(), limits::PARAMETERS);
    let written = async {
        let answer = engine.query(request(&store, &sql, given)).await.unwrap();
        rows_of(answer).await.unwrap()
    };
    // The planner takes minutes.
    let written = tokio::time::timeout(Duration::from_secs(60), written).await.unwrap();
    assert_eq!(written, ["21845"]);
    all(
        &engine,
        &store,
        &[("SELECT count(DISTINCT a), count(DISTINCT b), sum(c) FROM t", &["21845|21845|10922.5"])],
    )
    .await;

    // A list of as many.
    let list: Vec<_> = (1..=limits::PARAMETERS).map(|number| format!("${number}")).collect();
    let sql = format!("SELECT count(*) FROM t WHERE a IN ({})", list.join(", "));
    let given = (0..limits::PARAMETERS as i64).map(Literal::Int).collect();
    let counted = rows_of(engine.query(request(&store, &sql, given)).await.unwrap()).await.unwrap();
    assert_eq!(counted, ["21845"]);
    let given = vec![Literal::Int(1); limits::PARAMETERS + 1];
    assert!(engine.query(request(&store, "SELECT $1", given)).await.is_err());
}
