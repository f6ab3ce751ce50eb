//! `basalt bench` against a server: what it reports, and that it notices a wrong answer.

use std::{
    path::Path,
    process::{Command, Output},
    sync::Arc,
};

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use serde_json::Value;

use crate::support::Server;

/// A short load of few rows.
const SHORT: [&str; 8] =
    ["bench", "--rows", "20000", "--connections", "4", "--warm-up", "100ms", "--duration"];

async fn bench(server: &Server, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    command.args(SHORT).args(arguments).env("BASALT_SERVER", &server.address);
    tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn a_load_is_reported() {
    let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
    let (json, svg) = (folder.path().join("report.json"), folder.path().join("latency.svg"));
    let files = ["--json", json.to_str().unwrap(), "--svg", svg.to_str().unwrap()];
    let mix = ["--mix", "point=4,filter=3,group=2,semi-join=2,write=1", "--keep"];
    for (load, least) in [(["1s", "--rate", "200"].as_slice(), 200), (&["500ms"], 5)] {
        let output = bench(&server, &[load, &mix, &files].concat()).await;
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("every answer was right"), "{text}");
        let report: Value = serde_json::from_str(&read(&json)).unwrap();
        let operations = report["operations"].as_array().unwrap();
        assert_eq!(operations.len(), 5);
        let answered = |operation: &Value| operation["answered"].as_u64().unwrap();
        assert!(operations.iter().map(answered).sum::<u64>() >= least, "{report}");
        assert!(operations.iter().all(|operation| operation["failed"] == 0), "{report}");
        for operation in operations {
            let us = |name: &str| operation["latency_us"][name].as_f64().unwrap();
            assert!(1.0 < us("p50") && us("p50") <= us("p99") && us("p99") <= us("max"), "{report}");
        }
        let writes = &report["rows_written"];
        assert!(writes["found"] == writes["acknowledged"] && writes["found"].as_u64() > Some(0), "{report}");
        assert_eq!((&report["events"], &report["right"]), (&20_000.into(), &true.into()));
        let picture = read(&svg);
        for name in ["point", "filter", "group", "semi-join", "write"] {
            assert!(picture.contains(&format!("<path class=\"line {name}\" d=\"M")), "{picture}");
        }
    }
    assert_eq!(server.rows("bench_users").await, 50_000);
}

#[tokio::test]
async fn a_load_leaves_nothing_behind() {
    let server = Server::start().await;
    let output = bench(&server, &["300ms", "--mix", "point=1"]).await;
    let told = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}", told(&output));
    let made = "makes bench_events (20,000 rows) and bench_users (50,000 rows), which are dropped at the end";
    assert!(told(&output).contains(made), "{}", told(&output));
    assert!(server.client.list_tables().await.unwrap().is_empty());
    // What was there before stays.
    assert!(bench(&server, &["1s", "--prepare-only"]).await.status.success());
    let output = bench(&server, &["300ms", "--mix", "point=1"]).await;
    assert!(
        output.status.success() && told(&output).contains("`basalt drop bench_events`"),
        "{}",
        told(&output)
    );
    assert_eq!(server.client.list_tables().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_wrong_answer_is_noticed() {
    let server = Server::start().await;
    assert!(bench(&server, &["1s", "--prepare-only"]).await.status.success());
    // Events that no load has made, among those that are asked about.
    for (id, word) in [(1_i64 << 32, "where Some(Total"), (-1, "--fresh makes it again")] {
        let batch = RecordBatch::try_from_iter([
            ("id", Arc::new(Int64Array::from(vec![id])) as ArrayRef),
            ("user", Arc::new(Int32Array::from(vec![5]))),
            ("kind", Arc::new(StringArray::from(vec!["view"]))),
            ("amount", Arc::new(Int32Array::from(vec![7]))),
        ]);
        server.client.write_all("bench_events", &[batch.unwrap()]).await.unwrap();
        let output = bench(&server, &["300ms", "--mix", "group=1"]).await;
        let told = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        assert!(!output.status.success() && told.contains(word), "{told}");
    }
}
