//! What a client does to a server on a disk, and what there must be then.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, cast::AsArray as _, types::Int64Type};
use arrow_schema::{DataType, Field, Schema};
use basalt_client::{Client, WriteOptions, col, count, max, min};

use super::{
    Disk,
    killed::{Running, start_on},
};

/// Rows of each write.
const ROWS: i64 = 7;
const DAY: u64 = 24 * 3600;

/// Files, by pattern; every call that matters is to one of them.
pub(super) const FILES: [(&str, &str); 14] = [
    ("data file", "*/part-*"),
    ("deletion vector", "*/deletion_vector*"),
    ("checkpoint", "*/_delta_log/0*.checkpoint*"),
    ("version", "*/_delta_log/0*0.json*"),
    ("version", "*/_delta_log/0*1.json*"),
    ("version", "*/_delta_log/0*[2-9].json*"),
    ("hint", "*/_delta_log/_last_checkpoint*"),
    ("folder of a log", "*/_delta_log"),
    ("journal of tables", "*/catalog/*"),
    ("folder of that journal", "*/catalog"),
    ("folder of a table", "*/tables/*-????????"),
    ("folder of tables", "*/tables"),
    ("cache", "*/cache/*"),
    ("folder of the cache", "*/cache"),
];

/// What a client does, one after the other.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Create(&'static str),
    Drop(&'static str),
    /// Rows of this id, or new ones in place of those that it has.
    Write(i64),
    Replace(i64),
    Delete(i64),
    /// Time passes, and what is done meanwhile is done.
    Later(u64),
}

pub(super) fn steps() -> Vec<Step> {
    use Step::{Create, Delete, Drop, Later, Replace, Write};
    let mut steps = vec![Create("t")];
    steps.extend((0..6).map(Write));
    steps.extend([Delete(1), Replace(2), Create("u"), Later(5)]);
    steps.extend((6..14).map(Write));
    steps.extend([Drop("u"), Replace(2), Delete(6), Later(5), Replace(7)]);
    steps.extend((14..32).map(Write));
    steps.extend([Delete(8), Replace(9), Later(5), Create("v"), Drop("v"), Later(2 * DAY), Later(700)]);
    steps.extend([Write(40), Replace(10), Delete(11), Create("w"), Later(5), Write(41)]);
    steps
}

/// What there must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) tables: BTreeSet<String>,
    /// How often the rows of an id were replaced.
    pub(super) ids: BTreeMap<i64, i64>,
}

impl Model {
    pub(super) fn after(&self, step: &Step) -> Self {
        let mut model = self.clone();
        match step {
            Step::Create(name) => drop(model.tables.insert((*name).to_owned())),
            Step::Drop(name) => drop(model.tables.remove(*name)),
            Step::Write(id) => drop(model.ids.insert(*id, 0)),
            Step::Replace(id) => *model.ids.get_mut(id).unwrap() += 1,
            Step::Delete(id) => drop(model.ids.remove(id)),
            Step::Later(_) => {}
        }
        model
    }

    pub(super) async fn found(client: &Client) -> Result<Self, String> {
        let (tables, damaged) = client.list_all_tables().await.map_err(|e| format!("tables: {e}"))?;
        if !damaged.is_empty() {
            return Err(format!("{damaged:?}"));
        }
        let tables: BTreeSet<String> = tables.into_iter().map(|table| table.name).collect();
        let mut ids = BTreeMap::new();
        if tables.contains("t") {
            let query = client.query("t").group_by([col("id")]);
            let query = query.select([col("id"), count(), min(col("n")), max(col("n"))]);
            for batch in query.collect().await.map_err(|e| format!("a query: {e}"))?.batches {
                let column = |i: usize| batch.column(i).as_primitive::<Int64Type>().clone();
                let [id, rows, least, most] = [0, 1, 2, 3].map(column);
                for i in 0..batch.num_rows() {
                    let [id, rows, least, most] = [&id, &rows, &least, &most].map(|column| column.value(i));
                    if rows != ROWS || least != most {
                        return Err(format!("id {id} has {rows} rows of {least} to {most}"));
                    }
                    ids.insert(id, most);
                }
            }
        }
        for table in &tables {
            let verified = client.verify_table(table).await.map_err(|e| format!("verifying {table}: {e}"))?;
            if !verified.damage.is_empty() {
                return Err(format!("{table}: {:?}", verified.damage));
            }
        }
        Ok(Self { tables, ids })
    }
}

pub(super) async fn run(
    client: &Client,
    disk: &Disk,
    model: &Model,
    number: usize,
    step: &Step,
) -> basalt_client::Result<()> {
    let write = |id: i64, n: i64, replaces: bool| async move {
        let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
        let columns = [
            column(vec![id; usize::try_from(ROWS).unwrap()]),
            column((0..ROWS).collect()),
            column(vec![n; usize::try_from(ROWS).unwrap()]),
        ];
        let rows = RecordBatch::try_new(Arc::new(schema()), columns.into()).unwrap();
        let mut options = WriteOptions::new().request_id(format!("step {number}"));
        if replaces {
            options = options.replace_by(["id", "row"]);
        }
        let mut writer = client.write("t", options).await?;
        writer.send(&rows).await?;
        writer.commit().await.map(drop)
    };
    match step {
        Step::Create(name) => client.create_table_if_missing(name, &schema()).await.map(drop),
        Step::Drop(name) => client.drop_table_if_exists(name).await,
        Step::Write(id) => write(*id, 0, false).await,
        Step::Replace(id) => write(*id, model.ids[id] + 1, true).await,
        Step::Delete(id) => client.delete("t", col("id").eq(*id)).await.map(drop),
        Step::Later(seconds) => later(client, disk, *seconds).await,
    }
}

/// The clocks are set ahead, and requests wake whoever waits for a time.
pub(super) async fn later(client: &Client, disk: &Disk, seconds: u64) -> basalt_client::Result<()> {
    disk.set_ahead(disk.ahead() + seconds);
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        client.list_tables().await?;
        disk.set_ahead(disk.ahead() + 2);
    }
    Ok(())
}

fn schema() -> Schema {
    Schema::new(["id", "row", "n"].map(|name| Field::new(name, DataType::Int64, false)).to_vec())
}

pub(super) async fn start(disk: &Disk) -> Option<(Running, Client)> {
    let [store, cache] = ["store", "cache"].map(|name| place(disk, name));
    start_on("127.0.0.1:0", &store, Some(disk), &["--cache", &cache, "--keep-versions", "1m"]).await
}

pub(super) fn place(disk: &Disk, name: &str) -> String {
    disk.root().join(name).to_str().unwrap().to_owned()
}

/// Whether a pattern with `*`, `?` and `[a-b]` is that of a path, as `fnmatch` has it.
pub(super) fn matches(pattern: &[u8], path: &[u8]) -> bool {
    match (pattern, path) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=path.len()).any(|i| matches(rest, &path[i..])),
        ([b'[', from, b'-', to, b']', rest @ ..], [c, path @ ..]) => {
            (from..=to).contains(&c) && matches(rest, path)
        }
        ([p, rest @ ..], [c, path @ ..]) => (*p == b'?' || p == c) && matches(rest, path),
        _ => false,
    }
}
