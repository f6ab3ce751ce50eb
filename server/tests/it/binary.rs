//! The binary: its log, its signals, its mistakes.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use basalt_client::{Client, ClientOptions, RetryPolicy, col, keys_of, lit, sum};
use serde_json::Value;

fn basalt(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Ends the process with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a query that is cut off waits with is there until it has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_is_cut_off_does_not_panic() {
    let store = tempfile::TempDir::new().unwrap();
    let mut serve = basalt(&["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--threads", "2"]);
    serve.args(["--shutdown-grace", "50ms", "--store"]).arg(store.path());
    let mut server = Running(serve.spawn().unwrap());
    let mut log = BufReader::new(server.0.stderr.take().unwrap());
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    let started: Value = serde_json::from_str(&line).unwrap();
    let rest = std::thread::spawn(move || {
        let mut rest = String::new();
        log.read_to_string(&mut rest).unwrap();
        rest
    });
    let options = ClientOptions::new().retry(RetryPolicy::never());
    let address = format!("http://{}", started["address"].as_str().unwrap());
    let client = Client::connect_with(&address, options).await.unwrap();
    while client.list_tables().await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..500_000));
    let rows = RecordBatch::try_from_iter([("a", numbers)]).unwrap();
    client.create_table("t", &rows.schema()).await.unwrap();
    client.write_all("t", &[rows]).await.unwrap();
    let queries: Vec<_> = (0..6)
        .map(|i| {
            let long = |k: i64| (0..20).fold(col("a") / lit(3), |e, n| e + col("a") / lit(k + n));
            let filter = col("a").in_keys(keys_of("t", "a").filter(col("a").gt(i)));
            let query = client.query("t").filter(filter).select((1..=20).map(|k| sum(long(k))));
            tokio::spawn(async move { query.collect().await.map(drop) })
        })
        .collect();
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    assert!(queries.iter().any(|query| !query.is_finished()), "too fast to be cut off");
    let pid = server.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(server.0.wait().unwrap().success());
    let rest = rest.join().unwrap();
    assert!(!rest.contains("panic") && rest.contains("stopped"), "{rest}");
}

#[tokio::test]
async fn it_logs_requests_and_stops_on_a_signal() {
    for signal in ["INT", "TERM"] {
        let serve = [
            "serve",
            "--store",
            "memory:",
            "--listen",
            "127.0.0.1:0",
            "--log-format",
            "json",
            "--log",
            "info,basalt_server::call=debug",
            "--threads",
            "1",
        ];
        let mut server = Running(basalt(&serve).spawn().unwrap());
        let mut log = BufReader::new(server.0.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let started: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&started["message"], &started["threads"]), (&"listening".into(), &1.into()));

        let client =
            Client::connect(&format!("http://{}", started["address"].as_str().unwrap())).await.unwrap();
        assert!(client.list_tables().await.unwrap().is_empty());
        assert!(client.query("no").collect().await.is_err());
        drop(client);
        let pid = server.0.id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success());
        assert!(server.0.wait().unwrap().success());

        let mut rest = String::new();
        log.read_to_string(&mut rest).unwrap();
        let lines: Vec<Value> = rest.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let requests: Vec<_> = lines.iter().filter(|l| l["message"] == "request").collect();
        assert_eq!((&requests[0]["method"], &requests[0]["code"]), (&"ListTables".into(), &"Ok".into()));
        let failed = &requests[1];
        assert_eq!((&failed["method"], &failed["reason"]), (&"Query".into(), &"TABLE_NOT_FOUND".into()));
        let ids: Vec<_> = requests.iter().map(|line| line["request_id"].as_str().unwrap()).collect();
        assert!(ids[0].contains('-') && ids[0] != ids[1], "{ids:?}");
        assert!(failed["elapsed_us"].is_u64() && failed["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
        assert_eq!(lines.last().unwrap()["message"], "stopped");
    }
}

#[tokio::test]
async fn metrics_and_probes() {
    let listen = ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"];
    let serve = [&["serve", "--store", "memory:", "--log-format", "json"], &listen[..]].concat();
    let mut server = Running(basalt(&serve).spawn().unwrap());
    let mut log = BufReader::new(server.0.stderr.take().unwrap());
    let mut address = |message: &str| -> String {
        let mut lines =
            log.by_ref().lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let line = lines.find(|line| line["message"] == message).unwrap();
        line["address"].as_str().unwrap().to_owned()
    };
    let (metrics, clients) = (address("metrics"), address("listening"));
    let client = Client::connect(&clients).await.unwrap();
    assert!(client.list_tables().await.unwrap().is_empty());

    let get = |path: &str| {
        let mut stream = std::net::TcpStream::connect(&metrics).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get("/readyz").starts_with("HTTP/1.1 200 "));
    assert!(get("/no").starts_with("HTTP/1.1 404 "));
    let told = get("/metrics");
    assert!(told.contains("content-type: application/openmetrics-text; version=1.0.0"), "{told}");
    let counted = |line: &str| {
        line.starts_with("basalt_requests_total{node=\"")
            && line.ends_with(r#"",method="ListTables",code="Ok"} 1"#)
    };
    assert!(told.lines().any(counted), "{told}");
}

/// Whatever is under way for tables when a signal comes, it is no failure of the store.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_has_nothing_to_complain_of() {
    const TABLES: usize = 30;
    let store = tempfile::TempDir::new().unwrap();
    let start = || {
        let mut serve = basalt(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--log-format",
            "json",
            "--threads",
            "2",
            "--store",
        ]);
        let mut server = Running(serve.arg(store.path()).spawn().unwrap());
        let mut log = BufReader::new(server.0.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let started: Value = serde_json::from_str(&line).unwrap();
        let rest = std::thread::spawn(move || {
            let mut rest = String::new();
            log.read_to_string(&mut rest).unwrap();
            rest
        });
        (server, started["address"].as_str().unwrap().to_owned(), rest)
    };
    let stop = |mut server: Running| {
        let pid = server.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(server.0.wait().unwrap().success());
    };
    let (server, address, rest) = start();
    let client = Client::connect(&format!("http://{address}")).await.unwrap();
    while client.list_tables().await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    for i in 0..TABLES {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        let rows = RecordBatch::try_from_iter([("a", numbers)]).unwrap();
        client.create_table(&format!("t{i}"), &rows.schema()).await.unwrap();
        client.write_all(&format!("t{i}"), &[rows]).await.unwrap();
    }
    drop(client);
    stop(server);
    let mut logs = vec![rest.join().unwrap()];
    for millis in [0, 30, 100, 300, 1000, 1003, 2050, 3010] {
        let (server, _, rest) = start();
        tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
        stop(server);
        logs.push(rest.join().unwrap());
    }
    for log in logs {
        assert!(log.contains("\"stopped\""), "{log}");
        let is_bad = |line: &&str| {
            let line: Value = serde_json::from_str(line).unwrap();
            ["WARN", "ERROR"].contains(&line["level"].as_str().unwrap())
        };
        let bad: Vec<_> = log.lines().filter(is_bad).collect();
        assert!(bad.is_empty(), "{bad:?}");
    }
}

/// A second server over the same folder says that it is not alone; a node of a cluster, and one that comes later, do not.
#[test]
fn a_second_server_over_one_store_says_so() {
    let store = tempfile::TempDir::new().unwrap();
    let start = |more: &[&str]| {
        let mut serve = basalt(&["serve", "--listen", "127.0.0.1:0", "--log-format", "json"]);
        serve.args(more).arg("--store").arg(store.path());
        let mut server = Running(serve.spawn().unwrap());
        let mut log = BufReader::new(server.0.stderr.take().unwrap());
        let mut told = String::new();
        while !told.contains("\"listening\"") {
            assert!(log.read_line(&mut told).unwrap() > 0, "{told}");
        }
        // Whoever reads no longer would end it.
        std::thread::spawn(move || log.read_to_string(&mut String::new()));
        (server, told.contains("another process of this machine serves this store"))
    };
    let (first, warned) = start(&[]);
    assert!(!warned, "the first is told of another");
    let (second, warned) = start(&[]);
    assert!(warned, "the second is not told");
    let (node, warned) = start(&["--peer-listen", "127.0.0.1:0"]);
    assert!(!warned, "a node of a cluster is told");
    // Killed, they leave nothing behind.
    drop((first, second, node));
    assert!(!start(&[]).1, "one that comes later is told");
}

#[test]
fn keys_are_listed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (file, secret) = (folder.path().join("keys.toml"), folder.path().join("one.secret"));
    let key = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
        let output = command.arg("key").args(arguments).arg("--file").arg(&file).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    };
    let (made, told, said) = key(&["new", "one", "--role", "reader", "-o", secret.to_str().unwrap()]);
    assert!(made && told.is_empty() && said.contains("one.secret"), "{said}");
    assert!(key(&["new", "two", "--role", "writer", "--table", "a,b*", "--requests", "3"]).0);
    let (_, listed, _) = key(&["list"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines.len() == 3 && lines[1].contains("one") && lines[1].contains("reader"), "{listed}");
    assert!(lines[2].contains("a, b*") && lines[2].contains("3 requests"), "{listed}");
    let hidden = std::fs::read_to_string(&file).unwrap();
    let digest = hidden.split("sha256 = \"").nth(1).unwrap().split('"').next().unwrap();
    assert!(!listed.contains(digest));
    assert!(key(&["remove", "one"]).0);
    let (_, listed, _) = key(&["list"]);
    assert!(!listed.contains("one") && listed.contains("two"), "{listed}");
    let (removed, _, said) = key(&["remove", "two"]);
    assert!(!removed && said.contains("its only key"), "{said}");
}

#[test]
fn mistakes_are_told_and_end_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let cases: [(&[&str], &str); 4] = [
        (&["serve", "--config", "no/such.toml"], "no/such.toml"),
        (&["serve", "--default-deadline", "1h"], "default_deadline"),
        (&["serve", "--log", "a=b=c"], "log"),
        (&["serve", "--store", "memory:", "--listen", &address], "in use"),
    ];
    for (arguments, words) in cases {
        let output = basalt(arguments).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn the_connection_is_an_option_of_the_client_commands() {
    let commands: [(&[&str], bool); 6] = [
        (&["serve"], false),
        (&["demo"], false),
        (&["sip"], false),
        (&["sip", "inspect"], false),
        (&["query"], true),
        (&["tables"], true),
    ];
    for (command, expected) in commands {
        for help in ["-h", "--help"] {
            let output = basalt(&[command, &[help]].concat()).stdout(Stdio::piped()).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            for option in ["--server", "--timeout", "Connection:"] {
                assert_eq!(text.contains(option), expected, "{command:?} {help}: {option}: {text}");
            }
            assert!(text.contains("--version"), "{text}");
        }
    }
}

/// The log of slow queries says what was read, where and by what, and no literals.
#[cfg(feature = "sql")]
#[tokio::test(flavor = "multi_thread")]
async fn slow_queries_have_their_plan_in_the_log() {
    let mut serve =
        basalt(&["serve", "--store", "memory:", "--listen", "127.0.0.1:0", "--log-format", "json"]);
    serve.args(["--slow-query", "1us", "--log-literals"]);
    let mut server = Running(serve.spawn().unwrap());
    let mut log = BufReader::new(server.0.stderr.take().unwrap());
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    let started: Value = serde_json::from_str(&line).unwrap();
    let client = Client::connect(&format!("http://{}", started["address"].as_str().unwrap())).await.unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..150_000));
    let rows = RecordBatch::try_from_iter([("a", numbers)]).unwrap();
    for table in ["t", "u"] {
        client.create_table(table, &rows.schema()).await.unwrap();
        client.write_all(table, std::slice::from_ref(&rows)).await.unwrap();
    }
    let version = client.table("t").await.unwrap().table.version;
    let mut plan_of = async |text: &str| {
        loop {
            line.clear();
            assert!(log.read_line(&mut line).unwrap() > 0, "{text} is not in the log");
            let told: Value = serde_json::from_str(&line).unwrap();
            if told["message"] == "slow query" && told["text"].as_str().unwrap().starts_with(text) {
                return told["plan"].as_str().unwrap().to_owned();
            }
        }
    };
    client.query("t").filter(col("a").lt(77)).collect().await.unwrap();
    let expected = format!("t@{version}: 1 of 3 blocks, 77 of 150000 rows");
    assert_eq!(plan_of("SELECT * FROM t WHERE").await, expected);
    for (sql, expected) in [
        ("SELECT count(*) FROM t WHERE a < 77", format!("{expected}; above: nothing")),
        (
            "SELECT x.a FROM t x JOIN u y ON x.a = y.a + 1 WHERE x.a < 77 ORDER BY y.a DESC",
            format!("{expected}; u@{version}: 3 of 3 blocks, 150000 of 150000 rows; above: Sort, HashJoin"),
        ),
        ("SELECT 1 AS one", "above: nothing".to_owned()),
    ] {
        client.sql(sql).collect().await.unwrap();
        let mut told: Vec<_> = plan_of(&sql[..12]).await.split("; ").map(str::to_owned).collect();
        let mut expected: Vec<_> = expected.split("; ").map(str::to_owned).collect();
        // Which side of a join is read first is nobody's promise.
        told.sort();
        expected.sort();
        assert_eq!(told, expected, "{sql}");
    }
}
