//! What comes in through the doors of statements: the same values are taken at each, and what is none is told with its place.

use std::{net::SocketAddr, path::Path, sync::Arc};

use arrow_array::{
    ArrayRef, Int64Array, RecordBatch, StructArray,
    builder::{Int64Builder, ListBuilder, MapBuilder, StringBuilder},
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field};
use basalt_client::{Client, ErrorReason};
use basalt_server::{Config, Listeners};
use parquet::arrow::ArrowWriter;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::{
    nodes::ready,
    promises::{number, reason},
};

/// A server that copies files of a folder, and its door of HTTP.
async fn start(root: &Path) -> (Client, SocketAddr) {
    let listener = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (clients, metrics) = (listener().await, listener().await);
    let address = format!("http://{}", clients.local_addr().unwrap());
    let http = metrics.local_addr().unwrap();
    let listeners = Listeners { clients, peers: None, metrics: Some(metrics), postgres: None };
    let config = Config {
        threads: 2,
        store: "memory:".to_owned(),
        copy_roots: vec![root.to_owned()],
        ..Config::default()
    };
    tokio::spawn(basalt_server::run(listeners, config, std::future::pending()));
    ready(&address).await;
    (Client::connect(&address).await.unwrap(), http)
}

/// Sends rows to a table; the code and the body of the answer.
async fn post(http: SocketAddr, table: &str, media_type: &str, body: impl AsRef<[u8]>) -> (u16, String) {
    let body = body.as_ref();
    let mut stream = TcpStream::connect(http).await.unwrap();
    let head = format!(
        "POST /v1/tables/{table} HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-type: {media_type}\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let code = answer.split(' ').nth(1).unwrap_or_default().parse().unwrap();
    (code, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

async fn refused(client: &Client, sql: &str, expected: ErrorReason, words: &[&str]) {
    let error = client.sql(sql).collect().await.map(|answer| panic!("{sql}: {answer:?}")).unwrap_err();
    assert_eq!(error.reason(), expected, "{sql}: {error}");
    for word in words {
        assert!(error.to_string().contains(word), "{sql}: {error}");
    }
}

/// The error of a row in a file that COPY reads, and of the same rows over HTTP.
async fn refused_of_csv(client: &Client, http: SocketAddr, root: &Path, csv: &str, words: &[&str]) {
    std::fs::write(root.join("bad.csv"), csv).unwrap();
    let error = client.sql("COPY t FROM 'bad.csv'").collect().await;
    let error = error.map(|answer| panic!("{csv}: {answer:?}")).unwrap_err().to_string();
    let (code, body) = post(http, "t", "text/csv", csv).await;
    assert_eq!(code, 400, "{csv}: {body}");
    for word in words {
        assert!(error.contains(word), "{csv}: {error}");
        assert!(body.replace('\\', "").contains(word), "{csv}: {body}");
    }
}

const DATES: &str = "0001-01-01 to 9999-12-31";

#[tokio::test(flavor = "multi_thread")]
async fn dates_are_of_the_years_1_to_9999() {
    let root = tempfile::tempdir().unwrap();
    let (client, http) = start(root.path()).await;
    number(&client, "CREATE TABLE t (d DATE, at TIMESTAMP)").await;
    let overflow = ErrorReason::Overflow;
    for (column, value) in [
        ("d", "'-0044-03-15'"),
        ("d", "'+10000-01-01'"),
        ("d", "DATE '0000-12-31'"),
        ("d", "DATE '9999-12-31' + 1"),
        ("d", "1 + DATE '9999-12-31'"),
        ("d", "CAST('9999-12-31' AS DATE) + INTERVAL '1 day'"),
        ("d", "DATE '0001-01-01' - INTERVAL '1 day'"),
        ("d", "CAST(3000000 AS DATE)"),
        ("d", "make_date(10000, 1, 1)"),
        ("at", "TIMESTAMP '9999-12-31 23:00:00' + INTERVAL '1 hour'"),
        ("at", "TIMESTAMP '0001-01-01 00:00:00' - INTERVAL '1 month'"),
        ("at", "CAST(-62135596800000001 AS TIMESTAMP)"),
        ("at", "strptime('0000-01-01', '%Y-%m-%d')"),
        ("at", "date_add(TIMESTAMP '9999-12-31 00:00:00', INTERVAL '1 day')"),
    ] {
        refused(&client, &format!("INSERT INTO t ({column}) VALUES ({value})"), overflow, &[DATES]).await;
        if !value.starts_with('\'') {
            refused(&client, &format!("SELECT {value}"), overflow, &[DATES]).await;
        }
    }
    refused(&client, "INSERT INTO t (d) VALUES ('-0044-03-15')", overflow, &["column \"d\"", "-0044-03-15"])
        .await;
    number(
        &client,
        "INSERT INTO t VALUES ('9999-12-31', '9999-12-31 23:59:59'), ('0001-01-01', '0001-01-01 00:00:00')",
    )
    .await;
    // Of columns, too, and of texts that they have.
    refused(&client, "SELECT d + 1 FROM t", overflow, &["10000-01-01", DATES]).await;
    refused(&client, "UPDATE t SET d = d + INTERVAL '1 day'", overflow, &[DATES]).await;
    refused(
        &client,
        "SELECT CAST(s AS DATE) FROM (VALUES ('2020-01-01'), ('-0001-01-01')) v (s)",
        overflow,
        &["-0001-01-01"],
    )
    .await;
    assert_eq!(
        number(
            &client,
            "SELECT count(TRY_CAST(s AS DATE)) FROM (VALUES ('2020-01-01'), ('-0001-01-01'), ('x')) v (s)"
        )
        .await,
        1
    );
    assert_eq!(number(&client, "SELECT count(TRY_CAST('+10000-01-01' AS DATE))").await, 0);
    assert_eq!(number(&client, "SELECT count(*) FROM t WHERE d - 1 < d AND year(d) > 1").await, 1);
    for csv in ["d\n2020-01-01\n-0044-03-15\n", "at\n2020-01-01T00:00:00Z\n0000-12-31T00:00:00Z\n"] {
        refused_of_csv(&client, http, root.path(), csv, &["line 3"]).await;
    }
    assert_eq!(number(&client, "SELECT count(*) FROM t").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_is_too_large_is_not_infinity() {
    let root = tempfile::tempdir().unwrap();
    let (client, http) = start(root.path()).await;
    number(&client, "CREATE TABLE t (f DOUBLE, r REAL)").await;
    for value in ["'1e400'", "CAST('-1e400' AS DOUBLE)", "CAST('1e39' AS REAL)", "CAST(1e39 AS REAL)"] {
        if !value.starts_with('\'') {
            refused(&client, &format!("SELECT {value}"), ErrorReason::Overflow, &["does not fit a float"])
                .await;
        }
        let column = if value.contains("39") { "r" } else { "f" };
        let sql = format!("INSERT INTO t ({column}) VALUES ({value})");
        refused(&client, &sql, ErrorReason::Overflow, &["does not fit a float"]).await;
    }
    refused(&client, "INSERT INTO t (r) VALUES ('1e39')", ErrorReason::Overflow, &["column \"r\"", "'1e39'"])
        .await;
    for sql in [
        "SELECT count(TRY_CAST('1e400' AS DOUBLE))",
        "SELECT count(TRY_CAST(s AS REAL)) FROM (VALUES ('1e39'), ('x')) v (s)",
    ] {
        assert_eq!(number(&client, sql).await, 0, "{sql}");
    }
    refused(
        &client,
        "SELECT CAST(s AS DOUBLE) FROM (VALUES ('1'), ('1e400')) v (s)",
        ErrorReason::Overflow,
        &["'1e400'"],
    )
    .await;
    number(&client, "INSERT INTO t VALUES ('inf', '-Infinity'), ('NaN', 'infinity'), (CAST('inf' AS DOUBLE), CAST(CAST('inf' AS DOUBLE) AS REAL))").await;
    assert_eq!(number(&client, "SELECT count(*) FROM t WHERE isinf(r) AND (isinf(f) OR isnan(f))").await, 3);
    refused_of_csv(&client, http, root.path(), "f\n1\ninf\n1e400\n", &["line 4", "\"f\"", "1e400"]).await;
    refused_of_csv(&client, http, root.path(), "r\n1e39\n", &["line 2", "\"r\"", "1e39"]).await;
    let (code, body) = post(http, "t", "application/x-ndjson", "{\"f\":1}\n{\"f\":1e400}\n").await;
    assert!(code == 400 && body.contains("row 2"), "{code} {body}");
    assert_eq!(number(&client, "SELECT count(*) FROM t").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_is_stored_as_cast_makes_it() {
    let root = tempfile::tempdir().unwrap();
    let (client, _) = start(root.path()).await;
    let types = [
        "DECIMAL(10, 2)",
        "DECIMAL(38, 0)",
        "DOUBLE",
        "REAL",
        "INT",
        "BOOLEAN",
        "DATE",
        "TIMESTAMP",
        "TIME",
        "BLOB",
    ];
    let texts = [
        "1e2",
        " 7 ",
        "1.005",
        "+1.5e-1",
        "1_000",
        "yes",
        "on",
        "t",
        "2020-1-2",
        "2020-01-02",
        "2020-01-02 10:00",
        "2020-01-02T10:00:00Z",
        "10:30",
        "10:30:60",
        "1030",
        "\\xAA",
        "",
        "inf",
        "1e400",
        "12345678901234567890",
    ];
    for data_type in types {
        let mut kept = 0;
        number(&client, &format!("CREATE TABLE t (v {data_type})")).await;
        for text in texts {
            let cast = client.sql(format!("SELECT CAST('{text}' AS {data_type})")).collect().await;
            let stored = client.sql(format!("INSERT INTO t VALUES ('{text}')")).collect().await;
            assert_eq!(cast.is_ok(), stored.is_ok(), "{text} as {data_type}: {cast:?} {stored:?}");
            if cast.is_ok() {
                kept += 1;
                let same = format!("SELECT count(*) FROM t WHERE v = CAST('{text}' AS {data_type})");
                assert!(number(&client, &same).await > 0, "{text} as {data_type}");
            }
        }
        assert!(kept > 0, "{data_type}");
        number(&client, "DROP TABLE t").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_read_alike_at_each_door() {
    let root = tempfile::tempdir().unwrap();
    let (client, http) = start(root.path()).await;
    // An empty line of one column is a row.
    number(&client, "CREATE TABLE one (s TEXT)").await;
    let csv = "s\r\na\r\n\r\nb\n\n\"\"\n";
    std::fs::write(root.path().join("one.csv"), csv).unwrap();
    assert_eq!(number(&client, "COPY one FROM 'one.csv'").await, 5);
    assert_eq!(
        post(http, "one", "text/csv", csv).await,
        (200, "{\"rows\":5,\"version\":2,\"created\":false}\n".to_owned())
    );
    assert_eq!(number(&client, "SELECT count(*) FROM one WHERE s IS NULL").await, 6);
    // A column is found whatever the case of its letters; two that may be meant are an error.
    number(&client, "CREATE TABLE t (id INT NOT NULL, name TEXT)").await;
    let csv = "\n ID ,Name\n1,a\n\n2,b\n";
    std::fs::write(root.path().join("t.csv"), csv).unwrap();
    assert_eq!(number(&client, "COPY t FROM 't.csv'").await, 2);
    assert_eq!(number(&client, "COPY t (ID) FROM 't.csv'").await, 2);
    assert_eq!(post(http, "t", "text/csv", csv).await.0, 200);
    assert_eq!(number(&client, "SELECT sum(id) FROM t WHERE name IS NOT NULL").await, 6);
    number(&client, "CREATE TABLE two (\"a\" INT, \"A\" INT, \"Aa\" INT, \"aA\" INT)").await;
    std::fs::write(root.path().join("two.csv"), "A,a\n1,2\n").unwrap();
    assert_eq!(number(&client, "COPY two FROM 'two.csv'").await, 1);
    std::fs::write(root.path().join("two.csv"), "AA\n1\n").unwrap();
    refused(&client, "COPY two FROM 'two.csv'", ErrorReason::ColumnNotFound, &["may be \"Aa\" or \"aA\""])
        .await;
    let (code, body) = post(http, "two", "text/csv", "AA\n1\n").await;
    assert!(code >= 400 && body.contains("may be"), "{code} {body}");
    let (_, body) = post(http, "t", "text/csv", "id,nmae\n1,a\n").await;
    assert!(body.contains("did you mean \\\"name\\\"?"), "{body}");
    // What is wrong has its line and its column.
    for (csv, words) in [
        ("id,name\n1,a\n\nx,b\n", &["line 4", "column \"id\"", "x"][..]),
        ("id,name\n1,\"a\nb\"\n,c\n", &["line 4", "column \"id\"", "null"]),
        ("id,name\n1,a\n2\n", &["line 3", "1 fields, not 2"]),
        ("id,name\n1,a\n2,\"b\n", &["line 3", "column \"name\"", "not closed"]),
        ("id,name\n1,\"a\"b\n", &["line 2", "column \"name\"", "behind the quote"]),
    ] {
        refused_of_csv(&client, http, root.path(), csv, words).await;
    }
    number(&client, "COPY (SELECT 1 AS id UNION ALL SELECT NULL) TO 'n.parquet'").await;
    refused(&client, "COPY t FROM 'n.parquet'", ErrorReason::InvalidBatch, &["of the file", "column \"id\""])
        .await;
    let (code, body) = post(http, "t", "application/x-ndjson", "{\"id\":1}\n{\"id\":\"x\"}\n").await;
    assert!(code == 400 && body.contains("row 2, column \\\"id\\\""), "{code} {body}");
    assert_eq!(number(&client, "SELECT count(*) FROM t").await, 6);
    assert_eq!(reason(client.sql("COPY t FROM 'nowhere.csv'").collect().await), ErrorReason::InvalidQuery);
}

/// Two rows: a list, a struct and a map each, and one that has none.
fn nested() -> RecordBatch {
    let mut tags = ListBuilder::new(StringBuilder::new());
    tags.append_value([Some("x"), Some("y \"z\""), None]);
    tags.append_null();
    let n: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
    let fields = vec![Field::new("n", DataType::Int64, true)];
    let whole = StructArray::new(fields.into(), vec![n], Some(vec![true, false].into()));
    let mut counts = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    counts.keys().append_value("k");
    counts.values().append_value(1);
    counts.append(true).unwrap();
    counts.append(false).unwrap();
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(Int64Array::from(vec![1, 2]))),
        ("tags", Arc::new(tags.finish())),
        ("whole", Arc::new(whole)),
        ("counts", Arc::new(counts.finish())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_values_are_the_same_json_at_every_door() {
    let root = tempfile::tempdir().unwrap();
    let (client, http) = start(root.path()).await;
    let mut parquet = ArrowWriter::try_new(Vec::new(), nested().schema(), None).unwrap();
    parquet.write(&nested()).unwrap();
    let parquet = parquet.into_inner().unwrap();
    std::fs::write(root.path().join("n.parquet"), &parquet).unwrap();
    let mut arrow = StreamWriter::try_new(Vec::new(), &nested().schema()).unwrap();
    arrow.write(&nested()).unwrap();
    let arrow = arrow.into_inner().unwrap();
    let lines = "{\"id\": 1, \"tags\": [\"x\", \"y \\\"z\\\"\", null], \"whole\": {\"n\": 7}, \"counts\": {\"k\": 1}}\n{\"id\": 2}\n";
    let bodies = [
        ("application/x-ndjson", lines.as_bytes()),
        ("application/vnd.apache.parquet", parquet.as_slice()),
        ("application/vnd.apache.arrow.stream", arrow.as_slice()),
    ];
    let values = "SELECT 1 AS id, ['x', 'y \"z\"', NULL] AS tags, {'n': 7} AS whole, MAP {'k': 1} AS counts";
    let check = async |table: &str, rows: i64| {
        let sql = format!(
            "SELECT count(*) FROM {table} WHERE CASE id WHEN 1 THEN tags = '[\"x\",\"y \\\"z\\\"\",null]' AND whole = '{{\"n\":7}}' \
             AND counts = '{{\"k\":1}}' ELSE coalesce(tags, whole, counts) IS NULL END"
        );
        assert_eq!(number(&client, &sql).await, rows, "{table}");
        let all = format!("SELECT count(*) FROM {table}");
        assert_eq!(number(&client, &all).await, rows, "{table}");
    };
    number(&client, "CREATE TABLE t (id BIGINT, tags TEXT, whole TEXT, counts TEXT)").await;
    for (at, (media_type, body)) in bodies.into_iter().enumerate() {
        let (code, said) = post(http, "t", media_type, body).await;
        assert_eq!(code, 200, "{media_type}: {said}");
        let (code, said) = post(http, &format!("new{at}?create=true"), media_type, body).await;
        assert_eq!(code, 200, "{media_type}: {said}");
        check(&format!("new{at}"), 2).await;
    }
    check("t", 6).await;
    number(&client, "COPY t FROM 'n.parquet'").await;
    number(&client, &format!("INSERT INTO t {values}")).await;
    check("t", 9).await;
    number(&client, &format!("CREATE TABLE made AS {values}")).await;
    check("made", 1).await;
    // A column of anything else takes none.
    number(&client, "CREATE TABLE numbers (tags BIGINT)").await;
    refused(
        &client,
        "INSERT INTO numbers SELECT [1]",
        ErrorReason::TypeMismatch,
        &["is not stored as int64"],
    )
    .await;
    let (code, said) = post(http, "numbers", "application/x-ndjson", "{\"tags\": [1]}\n").await;
    assert!(
        code == 400 && said.contains("row 1, column \\\"tags\\\": \\\"[1]\\\" is no int64"),
        "{code} {said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_tell_how_long_a_statement_may_run() {
    let root = tempfile::tempdir().unwrap();
    let (client, _) = start(root.path()).await;
    assert_eq!(number(&client, "SELECT 30000").await, 30_000);
    let answer = client.sql("SHOW statement_timeout").collect().await.unwrap();
    assert!(format!("{:?}", answer.batches).contains("30000"), "{answer:?}");
}
