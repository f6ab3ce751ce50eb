//! The cache of encoded columns on disk: what a restart reads from it, and that no answer depends on it.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use basalt_client::{Query, WriteOptions, avg, col, count, count_distinct, max, min, sum};
use basalt_server::Config;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::support::Server;

const ROWS: i64 = 6000;

/// Where servers have their store and their cache, one after the other.
struct Place {
    store: TempDir,
    cache: TempDir,
}

/// A server, and where it tells its metrics.
struct Cached {
    server: Server,
    metrics: SocketAddr,
}

impl Place {
    fn new() -> Self {
        Self { store: TempDir::new().unwrap(), cache: TempDir::new().unwrap() }
    }

    async fn start(&self) -> Cached {
        self.with(|config| config.cache = Some(self.cache.path().to_owned())).await
    }

    async fn with(&self, change: impl FnOnce(&mut Config)) -> Cached {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let metrics = listener.local_addr().unwrap();
        drop(listener);
        let server = Server::with(|config| {
            config.store = self.store.path().to_str().unwrap().to_owned();
            config.metrics_listen = Some(metrics);
            change(config);
        });
        Cached { server: server.await, metrics }
    }

    /// The files of the cache.
    fn files(&self) -> Vec<PathBuf> {
        fn walk(folder: &Path, out: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.path().is_dir() { walk(&entry.path(), out) } else { out.push(entry.path()) }
            }
        }
        let mut files = Vec::new();
        walk(self.cache.path(), &mut files);
        files.retain(|file| file.extension().is_some_and(|end| end != "lock"));
        files.sort();
        files
    }
}

impl Cached {
    /// Waits for what is written in the background, and stops the server.
    async fn stop(mut self) {
        self.settle().await;
        self.server.signal();
        self.server.ended().await;
    }

    async fn settle(&self) {
        while self.metric("basalt_disk_cache_waiting").await > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn metric(&self, name: &str) -> u64 {
        let mut stream = TcpStream::connect(self.metrics).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let value =
            |line: &'_ str| Some(line.strip_prefix(name)?.strip_prefix('{')?.split_once("} ")?.1.to_owned());
        let line = text.lines().find_map(value);
        line.unwrap_or_else(|| panic!("{name}: {text}")).trim().parse().unwrap()
    }

    /// Fragments read from the store, and columns found on disk.
    async fn read(&self) -> (u64, u64) {
        let loaded = self.metric("basalt_fragments_loaded_total").await;
        (loaded, self.metric("basalt_disk_cache_hits_total").await)
    }

    async fn answers(&self) -> Vec<RecordBatch> {
        let mut answers = Vec::new();
        for query in queries(&self.server) {
            let answer = query.collect().await.unwrap();
            answers.push(arrow_select::concat::concat_batches(&answer.schema, &answer.batches).unwrap());
        }
        answers
    }
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("mixed", DataType::Int64, true),
        Field::new("part", DataType::Int64, false),
        Field::new("price", DataType::Float64, true),
        Field::new("flag", DataType::Boolean, false),
        Field::new("tag", DataType::Utf8, true),
    ]))
}

const COLUMNS: u64 = 6;

fn rows(ids: std::ops::Range<i64>, salt: i64) -> RecordBatch {
    // Values that no encoding makes smaller.
    let mixed = |i: i64| {
        let z = (i + salt).wrapping_mul(0x5e37_79b9_7f4a_7c15);
        (z ^ (z >> 29)).wrapping_mul(0x3f58_476d_1ce4_e5b9) >> 3
    };
    let columns: [ArrayRef; 6] = [
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(ids.clone().map(|i| (i % 7 != 0).then(|| mixed(i))).collect::<Int64Array>()),
        Arc::new(Int64Array::from_iter_values(ids.clone().map(|i| i % 13))),
        Arc::new(
            ids.clone().map(|i| (i % 11 != 0).then_some((i + salt) as f64 / 8.0)).collect::<Float64Array>(),
        ),
        Arc::new(ids.clone().map(|i| Some(i % 3 == 0)).collect::<BooleanArray>()),
        Arc::new(
            ids.map(|i| (i % 5 != 0).then(|| format!("tag {}", mixed(i) % 9000))).collect::<StringArray>(),
        ),
    ];
    RecordBatch::try_new(schema(), columns.to_vec()).unwrap()
}

fn queries(server: &Server) -> Vec<Query> {
    let t = || server.client.query("t");
    vec![
        t().select([count(), sum(col("part")), max(col("mixed")), min(col("price")), max(col("tag"))]),
        t().select([col("part"), count(), avg(col("price"))]).group_by([col("part")]),
        t().select([col("flag"), count(), count_distinct(col("tag"))]).group_by([col("flag")]),
        t().select([col("id"), col("mixed"), col("part"), col("price"), col("flag"), col("tag")])
            .order_by([col("id").asc()]),
    ]
}

async fn fill(server: &Cached) {
    server.server.client.create_table("t", &schema()).await.unwrap();
    for write in 0..2 {
        let batch = rows(write * ROWS..(write + 1) * ROWS, 0);
        server.server.client.write_all("t", &[batch]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_reads_no_column_from_the_store() {
    let place = Place::new();
    // What a write encodes is kept, and so is what a start reads.
    let first = place.with(|_| {}).await;
    fill(&first).await;
    let expected = first.answers().await;
    first.stop().await;
    assert!(place.files().is_empty());
    let second = place.start().await;
    assert_eq!(second.answers().await, expected);
    assert_eq!(second.read().await, (2, 0));
    second.server.client.write_all("t", &[rows(2 * ROWS..3 * ROWS, 0)]).await.unwrap();
    let expected = second.answers().await;
    second.stop().await;
    for _ in 0..2 {
        let server = place.start().await;
        assert_eq!(server.answers().await, expected);
        // What is not asked for is read as well.
        while server.read().await.1 < 3 * COLUMNS {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(server.read().await, (0, 3 * COLUMNS));
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_cache_answers_the_same() {
    let place = Place::new();
    let server = place.start().await;
    fill(&server).await;
    let expected = server.answers().await;
    server.stop().await;
    for way in 0..6 {
        let files = place.files();
        // A fragment's columns are in more files where queries came before all were read.
        assert!(files.len() >= 2, "{way}");
        let bytes: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
        for (i, file) in files.iter().enumerate() {
            let mut own = bytes[i].clone();
            let spoilt = match way {
                0 => Vec::new(),
                1 => own[..own.len() * 2 / 3].to_vec(),
                2 => {
                    let other = |at: &usize| files[*at].file_stem() != files[i].file_stem();
                    bytes[(0..files.len()).find(other).unwrap()].clone()
                }
                3 => vec![0xff; own.len()],
                4 => {
                    (1000..own.len()).step_by(997).for_each(|at| own[at] ^= 0x10);
                    own
                }
                _ => {
                    fs::remove_file(file).unwrap();
                    continue;
                }
            };
            fs::write(file, spoilt).unwrap();
        }
        let server = place.start().await;
        assert_eq!(server.answers().await, expected, "{way}");
        assert!(server.read().await.0 >= 2, "{way}");
        assert_eq!(server.metric("basalt_disk_cache_damaged_total").await > 0, way < 5, "{way}");
        server.stop().await;
    }
    // And now they are whole again.
    let server = place.start().await;
    assert_eq!(server.answers().await, expected);
    assert_eq!(server.read().await.0, 0);
    // Its folder goes while it runs.
    fs::remove_dir_all(place.cache.path()).unwrap();
    assert_eq!(server.answers().await, expected);
    server.server.client.write_all("t", &[rows(2 * ROWS..3 * ROWS, 0)]).await.unwrap();
    assert_eq!(server.answers().await[0].num_rows(), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_changes_is_never_read_as_it_was() {
    let place = Place::new();
    let mut server = place.start().await;
    fill(&server).await;
    for change in 0..5 {
        let client = &server.server.client;
        match change {
            0 => drop(client.delete("t", col("part").eq(3)).await.unwrap()),
            1 => {
                let options = WriteOptions::new().replace_by(["id"]);
                let mut writer = client.write("t", options).await.unwrap();
                writer.send(&rows(ROWS / 2..ROWS, 77)).await.unwrap();
                writer.commit().await.unwrap();
            }
            // Of one size, to be merged.
            2 => {
                for write in 10..20 {
                    client.write_all("t", &[rows(write * 4200..(write + 1) * 4200, 5)]).await.unwrap();
                }
            }
            3 => {
                client.drop_table("t").await.unwrap();
                client.create_table("t", &schema()).await.unwrap();
                client.write_all("t", &[rows(0..ROWS, 99)]).await.unwrap();
            }
            _ => drop(client.delete("t", col("flag").eq(true)).await.unwrap()),
        }
        let before = server.answers().await;
        server.stop().await;
        server = place.start().await;
        let with = server.answers().await;
        server.stop().await;
        let without = place.with(|_| {}).await;
        assert_eq!(without.answers().await, with, "{change}");
        assert_eq!(with, before, "{change}");
        without.stop().await;
        server = place.start().await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cache_stays_within_its_size_and_belongs_to_one_server() {
    let place = Place::new();
    let small = |config: &mut Config| {
        config.cache = Some(place.cache.path().to_owned());
        config.cache_size = 1 << 20;
    };
    let server = place.with(small).await;
    fill(&server).await;
    // Too few to be merged.
    for write in 2..7 {
        server.server.client.write_all("t", &[rows(write * 30_000..(write + 1) * 30_000, 1)]).await.unwrap();
    }
    let expected = server.answers().await;
    server.settle().await;
    let size = || place.files().iter().map(|file| fs::metadata(file).unwrap().len()).sum::<u64>();
    assert!((1 << 17..=1 << 20).contains(&size()), "{}", size());
    assert!(server.metric("basalt_disk_cache_bytes").await <= 1 << 20);
    // Another one is pointed at the same folder by mistake.
    let other = place.with(small).await;
    assert_eq!(other.answers().await, expected);
    assert_eq!((other.read().await.1, other.metric("basalt_disk_cache_bytes").await), (0, 0));
    other.stop().await;
    server.stop().await;
    let server = place.with(small).await;
    assert_eq!(server.answers().await, expected);
    let (loaded, hits) = server.read().await;
    assert!(loaded > 0 && hits > 0, "{loaded} {hits}");
    server.settle().await;
    assert!(size() <= 1 << 20);
    server.stop().await;
}
