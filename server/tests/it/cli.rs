//! Sets by the commands of the binary: selected, written, inspected, and filters of queries.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::Server;

/// What a command answered: its output if it went well, what it complained about otherwise.
pub(crate) async fn basalt(server: &Server, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    command.args(arguments).env("BASALT_SERVER", &server.address).env("NO_COLOR", "1");
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let Output { status, stdout, stderr } = output;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if status.success() { Ok(text(stdout)) } else { Err(text(stderr)) }
}

/// Two tables of one column `a`: 0 to 999 again and again, and 995 to 1,004.
async fn tables() -> Server {
    let server = Server::start().await;
    server.numbers("t", (0..200_000).map(|i| i % 1000)).await;
    server.numbers("u", 995..1005).await;
    server
}

async fn count(server: &Server, sql: &str, sets: &[&str]) -> Result<String, String> {
    let query = ["query", sql, "--format", "csv"];
    let answer = basalt(server, &[&query, sets].concat()).await?;
    Ok(answer.lines().nth(1).unwrap().to_owned())
}

#[tokio::test]
async fn files_of_sets() {
    let server = tables().await;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (rows, keys) = (path("rows.sip"), path("keys.sip"));

    let summary = basalt(&server, &["select", "SELECT * FROM t WHERE a < 10", "-o", &rows]).await.unwrap();
    assert!(summary.contains("rows of t, version 1  2,000"), "{summary}");
    let select = ["select", "SELECT a FROM t WHERE a >= 998", "--tag", "roaring", "-o", &keys];
    let summary = basalt(&server, &select).await.unwrap();
    assert!(summary.contains("values of t.a (int64), version 1    2  roaring"), "{summary}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);

    let facts: Value =
        serde_json::from_str(&basalt(&server, &["sip", "inspect", "--json", &keys]).await.unwrap()).unwrap();
    assert_eq!((&facts["tag"], &facts["cardinality"]), (&"roaring".into(), &2.into()));
    assert_eq!(facts["first_ids"], json!([998, 999]));
    assert_eq!(facts["scope"]["key"], json!({ "column": "a", "type": "int64", "has_null": false }));

    let of_t = "SELECT count(*) FROM t WHERE a > 4";
    assert_eq!(count(&server, of_t, &["--rows", &rows]).await.unwrap(), "1000");
    let of_u = "SELECT count(*) FROM u";
    let by_keys = format!("a={keys}");
    assert_eq!(count(&server, of_u, &["--keys", &by_keys]).await.unwrap(), "2");
    assert_eq!(count(&server, of_t, &["--rows", &rows, "--keys", &by_keys]).await.unwrap(), "0");
    let mismatch = count(&server, of_u, &["--rows", &rows]).await.unwrap_err();
    assert!(mismatch.contains("SCOPE_MISMATCH"), "{mismatch}");

    let explain = ["explain", "--analyze", of_t, "--rows", &rows];
    let plan = basalt(&server, &explain).await.unwrap();
    let table = |head: &str| plan.lines().skip_while(|line| !line.contains(head)).nth(1).unwrap();
    assert!(table("rows in  passed").contains("request"), "{plan}");
    assert!(table("rows in  rows out").contains("prepare"), "{plan}");

    std::fs::write(&rows, &std::fs::read(&rows).unwrap()[..20]).unwrap();
    let damaged = basalt(&server, &["sip", "inspect", &rows]).await.unwrap_err();
    assert!(damaged.starts_with(&format!("error: {rows}: the SIP ends too early")), "{damaged}");
}

#[tokio::test]
async fn kept_sets() {
    let server = tables().await;
    let keep = async |sql: &str| basalt(&server, &["select", sql, "--keep", "1m"]).await;
    let rows = keep("SELECT * FROM t WHERE a IN (SELECT a FROM u)").await.unwrap();
    let keys = format!("a={}", keep("SELECT a FROM u").await.unwrap().trim());
    let of_t = "SELECT count(*) FROM t";
    assert_eq!(count(&server, of_t, &["--rows", rows.trim()]).await.unwrap(), "1000");
    assert_eq!(count(&server, of_t, &["--keys", &keys]).await.unwrap(), "1000");
    assert_eq!(count(&server, of_t, &["--keys", &keys, "--rows", rows.trim()]).await.unwrap(), "1000");
    let unknown = count(&server, of_t, &["--rows", &"00".repeat(32)]).await.unwrap_err();
    assert!(unknown.contains("SIP_NOT_FOUND") && unknown.contains("hint:"), "{unknown}");
}

#[tokio::test]
async fn semi_joins_in_sql() {
    let server = tables().await;
    for (condition, expected) in [
        ("a IN (SELECT a FROM u)", "1000"),
        ("a NOT IN (SELECT a FROM u)", "199000"),
        ("a IN (SELECT a FROM u WHERE a NOT IN (SELECT a FROM t WHERE a < 998))", "400"),
    ] {
        let sql = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(count(&server, &sql, &[]).await.unwrap(), expected, "{condition}");
    }
    let exists = "SELECT count(*) FROM t WHERE EXISTS (SELECT a FROM u)";
    match count(&server, exists, &[]).await {
        Ok(rows) if cfg!(feature = "sql") => assert_eq!(rows, "200000"),
        Ok(rows) => panic!("{rows}"),
        Err(refused) => assert!(refused.contains("column IN (SELECT ...) does the same"), "{refused}"),
    }
}

#[tokio::test]
async fn deletes_replaces_and_attaches() {
    let theirs = tempfile::tempdir().unwrap();
    let server =
        Server::with(|config| config.store = theirs.path().join("store").display().to_string()).await;
    let csv = |name: &str, text: &str| {
        let path = theirs.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let first = csv("first.csv", "k,v\n1,10\n2,20\n3,30\n");
    let second = csv("second.csv", "k,v\n2,21\n4,40\n");
    let schema = ["--schema", "k int64 not null, v int64"];
    basalt(&server, &[&["load", "t", &first], schema.as_slice()].concat()).await.unwrap();
    let told = basalt(&server, &["load", "t", &second, "--replace-by", "k"]).await.unwrap();
    assert!(told.starts_with("t  2 rows loaded, 1 row replaced, in "), "{told}");
    let twice = csv("twice.csv", "k,v\n7,70\n8,80\n8,81\n");
    let told = basalt(&server, &["load", "t", &twice, "--replace-by", "k"]).await.unwrap_err();
    assert!(told.contains("rows 2 and 3 of the write have the same key: k = 8 (INVALID_BATCH)"), "{told}");
    let all = async || basalt(&server, &["query", "SELECT k, v FROM t ORDER BY k", "--format", "csv"]).await;
    assert_eq!(all().await.unwrap(), "k,v\n1,10\n2,21\n3,30\n4,40\n");

    let told = basalt(&server, &["delete", "t", "--where", "k IN (1, 4) OR v = 5"]).await.unwrap();
    assert!(told.starts_with("deleted 2 rows of t; version "), "{told}");
    assert_eq!(all().await.unwrap(), "k,v\n2,21\n3,30\n");
    let which = basalt(&server, &["delete", "t"]).await.unwrap_err();
    assert!(which.contains("--where") && which.contains("--all"), "{which}");
    let wrong = basalt(&server, &["delete", "t", "--where", "nothing = 1"]).await.unwrap_err();
    assert!(wrong.contains("COLUMN_NOT_FOUND"), "{wrong}");

    let tables = theirs.path().join("store/tables");
    let folder = std::fs::read_dir(tables).unwrap().next().unwrap().unwrap().path().display().to_string();
    let reader =
        Server::with(|config| config.store = theirs.path().join("other").display().to_string()).await;
    let told = basalt(&reader, &["attach", "again", &folder]).await.unwrap();
    assert!(told.starts_with("attached again at version ") && told.ends_with(": 2 rows\n"), "{told}");
    let refused = basalt(&reader, &["delete", "again", "--all"]).await.unwrap_err();
    assert!(refused.contains("READ_ONLY"), "{refused}");
    assert!(basalt(&server, &["delete", "t", "--all"]).await.unwrap().starts_with("deleted 2 rows"));
    assert_eq!(all().await.unwrap(), "k,v\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn verifies_and_rewrites() {
    let files = tempfile::tempdir().unwrap();
    let store = files.path().join("store");
    let server = Server::with(|config| config.store = store.display().to_string()).await;
    let path = files.path().join("t.csv");
    std::fs::write(&path, "a,b\n1,x\n2,y\n").unwrap();
    let path = path.display().to_string();
    let load = async |more: &[&str]| basalt(&server, &[&["load", "t", path.as_str()], more].concat()).await;
    load(&["--deletes", "rewrite"]).await.unwrap();
    assert_eq!(basalt(&server, &["deletes", "t"]).await.unwrap(), "t: deletes rewrite files\n");
    assert!(basalt(&server, &["describe", "t"]).await.unwrap().contains(" held, deletes rewrite files"));
    let other = load(&["--deletes", "vectors"]).await.unwrap_err();
    assert!(other.contains("exists with other deletes"), "{other}");
    load(&["--replace"]).await.unwrap();
    assert_eq!(basalt(&server, &["deletes", "t"]).await.unwrap(), "t: deletes rewrite files\n");
    let told = basalt(&server, &["deletes", "t", "vectors"]).await.unwrap();
    assert_eq!(told, "t: deletes leave vectors\n");
    assert!(!basalt(&server, &["describe", "t"]).await.unwrap().contains("deletes"));

    let told = basalt(&server, &["verify"]).await.unwrap();
    assert!(told.starts_with("t: 1 file, ") && told.ends_with(": as written\n"), "{told}");
    let tables = std::fs::read_dir(store.join("tables")).unwrap().map(|entry| entry.unwrap().path());
    let data =
        tables.flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    for file in data.filter(|path| path.extension().is_some_and(|end| end == "parquet")) {
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[20] ^= 1;
        std::fs::write(&file, bytes).unwrap();
    }
    let error = basalt(&server, &["verify", "t"]).await.unwrap_err();
    assert!(error.contains("1 of these tables damaged"), "{error}");
    assert!(basalt(&server, &["verify", "u"]).await.unwrap_err().contains("TABLE_NOT_FOUND"));
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_rows_for_a_time() {
    let (server, files) = (Server::start().await, tempfile::tempdir().unwrap());
    let path = files.path().join("t.csv");
    std::fs::write(&path, "at,day\n2000-01-01T00:00:00Z,2000-01-01\n2999-01-01T00:00:00Z,2000-01-02\n")
        .unwrap();
    let path = path.display().to_string();
    let load = async |more: &[&str]| basalt(&server, &[&["load", "t", path.as_str()], more].concat()).await;
    let rows =
        async || basalt(&server, &["query", "SELECT count(*) FROM t", "--format", "csv"]).await.unwrap();
    load(&["--retention", "at=30d"]).await.unwrap();
    assert_eq!(rows().await, "count(*)\n1\n");
    let shown = basalt(&server, &["retention", "t"]).await.unwrap();
    assert_eq!(shown, "t: rows are kept for 30 days by at\n");
    assert!(basalt(&server, &["describe", "t"]).await.unwrap().contains("kept for 30 days by at"));
    let other = load(&["--retention", "at=31d"]).await.unwrap_err();
    assert!(other.contains("exists with another retention"), "{other}");
    // A table that takes the place of another keeps its rows as long; a mistake costs nothing.
    let wrong = load(&["--replace", "--retention", "then=30d"]).await.unwrap_err();
    assert!(wrong.contains("no column \"then\""), "{wrong}");
    load(&["--replace"]).await.unwrap();
    assert_eq!(rows().await, "count(*)\n1\n");
    let told = basalt(&server, &["retention", "t", "day=1h"]).await.unwrap();
    assert_eq!(
        (told.as_str(), rows().await.as_str()),
        ("t: rows are kept for 1 h by day\n", "count(*)\n0\n")
    );
    assert_eq!(basalt(&server, &["retention", "t", "none"]).await.unwrap(), "t: rows are kept for good\n");
    assert!(basalt(&server, &["retention", "t", "soon"]).await.unwrap_err().contains("at=30d"));
}
