//! COPY: what is copied comes back, and no file beyond the configured folders is reached.

use std::path::Path;

use basalt_client::{Client, ErrorReason};
use basalt_server::Config;

use crate::{
    promises::{number, reason},
    serve,
};

async fn start(root: &Path) -> Client {
    let root = root.to_owned();
    let address = serve("memory:", |config: &mut Config| config.copy_roots = vec![root]).await;
    let client = Client::connect(&address).await.unwrap();
    for sql in [
        "CREATE TABLE t (k BIGINT NOT NULL, s TEXT, d DECIMAL(10, 2), at TIMESTAMP, b BOOLEAN, f DOUBLE, u TINYINT UNSIGNED)",
        "INSERT INTO t SELECT value, 'a \"b\", ' || value, value / 4.0, '2013-01-01 10:00:00', value % 2 = 0, value / 3.0, \
         value % 200 FROM generate_series(1, 20000)",
        "INSERT INTO t (k) VALUES (-1)",
    ] {
        number(&client, sql).await;
    }
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_copied_comes_back() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("in")).unwrap();
    let client = start(root.path()).await;
    let whole = root.path().canonicalize().unwrap().join("whole.csv");
    for (to, from) in [
        ("'t.parquet'".to_owned(), "'t.parquet'".to_owned()),
        ("'in/t.csv'".to_owned(), "'./in/t.csv'".to_owned()),
        (
            format!("'{}' (DELIMITER ';', QUOTE '''')", whole.display()),
            "'whole.csv' (DELIMITER ';', QUOTE '''')".to_owned(),
        ),
        ("'t.dat' (FORMAT csv, HEADER false)".to_owned(), "'t.dat' (FORMAT csv, HEADER false)".to_owned()),
    ] {
        assert_eq!(number(&client, &format!("COPY t TO {to}")).await, 20_001, "{to}");
        number(&client, "CREATE TABLE u AS SELECT * FROM t WHERE k = 0").await;
        assert_eq!(number(&client, &format!("COPY u FROM {from}")).await, 20_001, "{from}");
        let same = "SELECT count(*) FROM (SELECT * FROM t INTERSECT SELECT * FROM u)";
        assert_eq!(number(&client, same).await, 20_001, "{to}");
        number(&client, "DROP TABLE u").await;
    }
    let some = "COPY (SELECT k AS key, s FROM t WHERE k BETWEEN 1 AND 10) TO 'some.parquet'";
    assert_eq!(number(&client, some).await, 10);
    number(&client, "CREATE TABLE some (s TEXT, key INT)").await;
    assert_eq!(number(&client, "COPY some (key) FROM 'some.parquet'").await, 10);
    assert_eq!(number(&client, "SELECT sum(key) FROM some WHERE s IS NULL").await, 55);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_come_back_as_their_digits() {
    let root = tempfile::tempdir().unwrap();
    let client = start(root.path()).await;
    number(&client, "CREATE TABLE b (k BIGINT, v BYTEA)").await;
    let rows = "(1, CAST('\\x00\\xff' AS BYTEA)), (2, CAST('12' AS BYTEA)), (3, NULL)";
    number(&client, &format!("INSERT INTO b VALUES {rows}")).await;
    assert_eq!(number(&client, "COPY b TO 'b.csv'").await, 3);
    let written = std::fs::read_to_string(root.path().join("b.csv")).unwrap();
    assert_eq!(written, "k,v\n1,00ff\n2,3132\n3,\n");
    std::fs::write(root.path().join("prefixed.csv"), "V,k\n\\x00FF,1\n\\x3132,2\n,3\n").unwrap();
    for file in ["b.csv", "prefixed.csv"] {
        number(&client, "CREATE TABLE c (k BIGINT, v BYTEA)").await;
        assert_eq!(number(&client, &format!("COPY c FROM '{file}'")).await, 3, "{file}");
        for condition in [
            "k = 1 AND v = CAST('\\x00\\xff' AS BYTEA)",
            "k = 2 AND v = CAST('12' AS BYTEA)",
            "k = 3 AND v IS NULL",
        ] {
            let count = format!("SELECT count(*) FROM c WHERE {condition}");
            assert_eq!(number(&client, &count).await, 1, "{file}: {condition}");
        }
        number(&client, "DROP TABLE c").await;
    }
    std::fs::write(root.path().join("bad.csv"), "k,v\n1,00\n2,hello\n").unwrap();
    let error = client.sql("COPY b FROM 'bad.csv'").collect().await.unwrap_err();
    assert!(
        error.to_string().contains("line 3 of the file: column \"v\": this stands for no bytes"),
        "{error}"
    );
    // A column that is not asked for may be anything.
    assert_eq!(number(&client, "COPY b (k) FROM 'bad.csv'").await, 2);
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_beyond_the_folders_is_reached() {
    let outside = tempfile::tempdir().unwrap();
    let root = outside.path().join("root");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::write(outside.path().join("secret.csv"), "k\n1\n").unwrap();
    std::fs::write(root.join("bad.csv"), "k\n1\nmany\n").unwrap();
    std::os::unix::fs::symlink(outside.path(), root.join("link")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret.csv"), root.join("link.csv")).unwrap();
    let client = start(&root).await;
    number(&client, "CREATE TABLE u (k BIGINT)").await;
    let secret = outside.path().join("secret.csv");
    for path in [
        "../secret.csv",
        "sub/../../secret.csv",
        "link/secret.csv",
        "link.csv",
        secret.to_str().unwrap(),
        "/etc/passwd",
        "sub",
        "",
        "nowhere.csv",
        "nowhere/x.csv",
    ] {
        let from = client.sql(format!("COPY u FROM '{path}' (FORMAT csv)")).collect().await;
        assert_eq!(reason(from), ErrorReason::InvalidQuery, "from {path}");
        if ["link.csv", "nowhere.csv"].contains(&path) {
            continue;
        }
        if path != "sub" {
            let to = client.sql(format!("COPY t TO '{path}' (FORMAT csv)")).collect().await;
            assert_eq!(reason(to), ErrorReason::InvalidQuery, "to {path}");
        }
    }
    // A link is replaced by the file, and what it led to stays.
    assert_eq!(number(&client, "COPY u TO 'link.csv'").await, 0);
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "k\n1\n");
    for sql in [
        "COPY u FROM 'bad.csv'",
        "COPY t TO 'x.txt'",
        "COPY t TO STDOUT",
        "COPY t TO PROGRAM 'cat'",
        "COPY u FROM 'bad.csv' (NULL 'x')",
        "COPY (SELECT 1 / (k + 1) AS x FROM t) TO 'never.csv'",
        "COPY (SELECT 1 / (k + 1) AS x FROM t) TO 'never.parquet'",
    ] {
        assert!(client.sql(sql).collect().await.is_err(), "{sql}");
    }
    assert_eq!(number(&client, "SELECT count(*) FROM u").await, 0);
    // Of a file that is not complete nothing is left.
    for _ in 0..500 {
        if files(&root).len() == 4 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(files(&root), ["bad.csv", "link", "link.csv", "sub"]);
    assert_eq!(files(outside.path()), ["root", "secret.csv"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_folder_there_are_no_files() {
    let client = Client::connect(&serve("memory:", |_| {}).await).await.unwrap();
    number(&client, "CREATE TABLE t (k INT)").await;
    for sql in ["COPY t TO 'x.csv'", "COPY t FROM '/etc/passwd' (FORMAT csv)"] {
        let error = client.sql(sql).collect().await.unwrap_err();
        assert!(error.to_string().contains("--copy-root"), "{error}");
    }
}
