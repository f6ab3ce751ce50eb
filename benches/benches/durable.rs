//! Durable tables on a local disk: what a write takes and what of it, what a commit waits for, how fast a start loads.
//!
//! `cargo bench -p basalt-benches --bench durable`; `-- --small` for a quick look. The store is made in the directory
//! that `TMPDIR` names, which should be on the disk in question.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at what goes wrong"
)]

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use arrow_array::{ArrayRef, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use basalt_benches::{table, timing};
use basalt_client::{Client, count};
use basalt_core::{
    error::{Error, ErrorKind},
    fragment::RowBuffer,
    limits::FRAGMENT_ROWS,
    schema::{DataType, Field, Schema},
};
use basalt_server::Config;
use basalt_storage::{Change, FileEncoder, StorageError, Store, TableLog};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

const SEED: u64 = 7;
/// Writers at once, where commits are shared.
const WRITERS: usize = 64;

fn main() {
    let small = timing::small();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let wanted = |part: &str| {
        let mut parts = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).peekable();
        parts.peek().is_none() || parts.any(|arg| arg == part)
    };
    runtime.block_on(async {
        if wanted("steps") {
            steps(if small { 1 } else { 4 }).await;
        }
        if wanted("load") {
            load(if small { 1 } else { 16 }, if small { 1 } else { 3 }).await;
        }
        if wanted("single") {
            single(if small { 20 } else { 300 }).await;
        }
    });
}

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("order", DataType::Int64, false),
        Field::new("day", DataType::Date32, false),
        Field::new("price", DataType::Float64, false),
        Field::new("kind", DataType::Utf8, false),
        Field::new("customer", DataType::Int64, true),
    ])
    .unwrap()
}

/// Rows as of orders: ascending numbers, days that change slowly, prices in cents, few kinds, customers at random.
fn rows(first: i64, n: usize) -> RecordBatch {
    let mut rng = StdRng::seed_from_u64(SEED ^ first.cast_unsigned());
    let numbers = || first..first + i64::try_from(n).unwrap();
    let kinds = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(numbers())),
        Arc::new(Date32Array::from_iter_values(numbers().map(|i| i32::try_from(i / 5000).unwrap()))),
        Arc::new(Float64Array::from_iter_values(
            (0..n).map(|_| f64::from(rng.random_range(100..1_000_000)) / 100.0),
        )),
        Arc::new(StringArray::from_iter_values((0..n).map(|_| kinds[rng.random_range(0..kinds.len())]))),
        Arc::new(Int64Array::from_iter(
            (0..n).map(|_| rng.random_ratio(9, 10).then(|| rng.random_range(0..150_000))),
        )),
    ];
    RecordBatch::try_new(schema().to_arrow(), columns).unwrap()
}

/// Bytes of rows as plain arrays.
fn plain(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap()).sum()
}

/// What is done for each fragment of a write, step by step.
async fn steps(fragments: usize) {
    let folder = tempfile::tempdir().unwrap();
    let schema = Arc::new(schema());
    let (memory, disk) = (Store::in_memory(), Store::open(folder.path().to_str().unwrap()).unwrap());
    let create = async |store: &Store| {
        TableLog::create(store.folder("t").unwrap(), "t", &schema, BTreeMap::new()).await.unwrap()
    };
    let ((in_memory, _), (on_disk, mut state)) = (create(&memory).await, create(&disk).await);
    let mut times = [Duration::ZERO; 5];
    let (mut plain_bytes, mut file_bytes, mut encoded_bytes) = (0, 0, 0);
    for i in 0..fragments {
        let batch = rows(i64::try_from(i * FRAGMENT_ROWS).unwrap(), FRAGMENT_ROWS);
        plain_bytes += plain(&batch);
        let mut step = 0;
        let mut took = |since: Instant| {
            times[step] += since.elapsed();
            step += 1;
        };
        let started = Instant::now();
        let mut buffer = RowBuffer::new(&schema);
        buffer.push(&batch.columns().iter().cloned().map(Some).collect::<Vec<_>>(), batch.num_rows());
        encoded_bytes += buffer.encode(&schema).unwrap().bytes();
        took(started);
        let started = Instant::now();
        in_memory.write_data(&schema, vec![batch.clone()]).await.unwrap();
        took(started);
        let started = Instant::now();
        let mut buffer = RowBuffer::new(&schema);
        buffer.push(&batch.columns().iter().cloned().map(Some).collect::<Vec<_>>(), batch.num_rows());
        let encoder = FileEncoder::new(&schema, batch.num_rows()).unwrap();
        let failed = |e: StorageError| Error::new(ErrorKind::InvalidBatch, e.to_string());
        let column = |place, array| encoder.column(place, &[array]).map_err(failed);
        let (_, columns) = buffer.encode_and(&schema, column).unwrap();
        encoder.finish(columns).unwrap();
        took(started);
        let started = Instant::now();
        let file = on_disk.write_data(&schema, vec![batch]).await.unwrap();
        took(started);
        file_bytes += file.bytes();
        let started = Instant::now();
        let change = Change { add: vec![file], ..Change::default() };
        state = on_disk.commit(&state, &change).await.unwrap().state;
        took(started);
    }
    let [encode, parquet, both, written, commit] = times;
    let disk = written.saturating_sub(parquet);
    let all = both + disk + commit;
    let n = fragments * FRAGMENT_ROWS;
    let line =
        |name: &str, time: Duration| vec![name.to_owned(), millis(time / u32::try_from(fragments).unwrap())];
    table::print(
        &format!("A fragment of {FRAGMENT_ROWS} rows made durable, one step after the other"),
        &["step", "time"],
        &[
            line("encode for memory", encode),
            line("Parquet, zstd", parquet),
            line("both at once, as a write does", both),
            line("write and sync the file", disk),
            line("commit: write and sync the log", commit),
            line("all but the first two", all),
        ],
    );
    println!(
        "{}; {:.1} bytes a row plain, {:.1} in memory, {:.1} in the file\n",
        rate(n, plain_bytes, all),
        per(plain_bytes, n),
        per(encoded_bytes, n),
        per(usize::try_from(file_bytes).unwrap(), n)
    );
}

/// One write over gRPC, and the start after it.
async fn load(fragments: usize, times: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (client, running) = start(folder.path()).await;
    let batches: Vec<_> = (0..fragments * 16)
        .map(|i| rows(i64::try_from(i * FRAGMENT_ROWS / 16).unwrap(), FRAGMENT_ROWS / 16))
        .collect();
    let bytes: usize = batches.iter().map(plain).sum();
    let n = fragments * FRAGMENT_ROWS;
    for i in 0..times {
        let table = format!("t{i}");
        client.create_table(&table, &schema().to_arrow()).await.unwrap();
        let (started, cpu) = (Instant::now(), cpu_time());
        client.write_all(&table, &batches).await.unwrap();
        let (took, cpu) = (started.elapsed(), cpu_time().saturating_sub(cpu));
        println!("one write of {n} rows over gRPC: {} (CPU: {})", rate(n, bytes, took), millis(cpu));
    }
    drop(batches);
    stop(running).await;

    let started = Instant::now();
    let (client, running) = start(folder.path()).await;
    let took = started.elapsed();
    let answer = client.query("t0").select([count()]).collect().await.unwrap();
    assert_eq!(answer.rows, 1);
    println!("start-up: {} in {}\n", rate(n * times, bytes * times, took), millis(took));
    stop(running).await;
}

/// What the process has used of the CPUs, as Linux says it in ticks of 10 ms; nothing elsewhere.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Default: no fields, no time.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// Writes of one row each.
async fn single(commits: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (client, running) = start(folder.path()).await;
    client.create_table("small", &schema().to_arrow()).await.unwrap();
    let line = |name: String, (latencies, took): &(Vec<Duration>, Duration)| {
        let at = |share: usize| millis(latencies[(latencies.len() - 1) * share / 100]);
        let per_second = per(latencies.len(), 1) / took.as_secs_f64();
        vec![name, at(50), at(99), at(100), format!("{per_second:.0}")]
    };
    let (lone, raw) = lone(&client, folder.path(), commits).await;
    let alone = latencies(&client, 1, commits).await;
    let together = latencies(&client, WRITERS, commits).await;
    table::print(
        "Single rows, from opening the write to its acknowledgement",
        &["writers", "p50", "p99", "most", "writes/s"],
        &[
            line("two new files and their folders, synced".into(), &raw),
            line("1, a write now and then".into(), &lone),
            line("1".into(), &alone),
            line(WRITERS.to_string(), &together),
        ],
    );
    stop(running).await;
}

/// The times of writes of one row each with pauses between them, and beside each that of what a file system needs for
/// one: a data file and an entry of the log, each written under another name, synced, renamed, and its folder synced.
async fn lone(
    client: &Client,
    folder: &Path,
    writes: usize,
) -> ((Vec<Duration>, Duration), (Vec<Duration>, Duration)) {
    let (data, log) = (folder.join("raw"), folder.join("raw/log"));
    std::fs::create_dir_all(&log).unwrap();
    let durable = |folder: &Path, i: usize, bytes: &[u8]| {
        let staged = folder.join(format!("{i}#1"));
        let mut file = std::fs::File::create(&staged).unwrap();
        file.write_all(bytes).unwrap();
        file.sync_all().unwrap();
        std::fs::rename(staged, folder.join(format!("{i}"))).unwrap();
        std::fs::File::open(folder).unwrap().sync_all().unwrap();
    };
    let (mut lone, mut raw) = (Vec::new(), Vec::new());
    for i in 0..writes {
        // Nobody else's commit is waited for.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let started = Instant::now();
        durable(&data, i, &[b'd'; 2600]);
        durable(&log, i, &[b'l'; 900]);
        raw.push(started.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
        let row = rows(i64::try_from(i).unwrap(), 1);
        let started = Instant::now();
        client.write_all("small", &[row]).await.unwrap();
        lone.push(started.elapsed());
    }
    let sorted = |mut times: Vec<Duration>| {
        times.sort_unstable();
        let all = times.iter().sum();
        (times, all)
    };
    (sorted(lone), sorted(raw))
}

/// The times of writes of one row each, sorted, by so many writers, and what all took.
async fn latencies(client: &Client, writers: usize, writes: usize) -> (Vec<Duration>, Duration) {
    let started = Instant::now();
    let writer = |writer: usize| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut times = Vec::with_capacity(writes);
            for i in 0..writes {
                let row = rows(i64::try_from(writer * writes + i).unwrap(), 1);
                let started = Instant::now();
                client.write_all("small", &[row]).await.unwrap();
                times.push(started.elapsed());
            }
            times
        })
    };
    let mut all = Vec::new();
    for writer in (0..writers).map(writer).collect::<Vec<_>>() {
        all.extend(writer.await.unwrap());
    }
    let took = started.elapsed();
    all.sort_unstable();
    (all, took)
}

type Running = (oneshot::Sender<()>, JoinHandle<Result<(), basalt_server::Error>>);

/// Starts a server, and waits until it is ready.
async fn start(store: &Path) -> (Client, Running) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let config = Config { store: store.to_str().unwrap().to_owned(), ..Config::default() };
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(basalt_server::run(listener, config, async move {
        let _ = stopped.await;
    }));
    let client = Client::connect(&address).await.unwrap();
    while client.list_tables().await.is_err() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    (client, (stop, server))
}

async fn stop((stop, server): Running) {
    let _ = stop.send(());
    server.await.unwrap().unwrap();
}

fn rate(rows: usize, bytes: usize, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    format!(
        "{:.2} M rows/s, {:.0} MB/s (plain)",
        per(rows, 1_000_000) / seconds,
        per(bytes, 1_000_000) / seconds
    )
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn per(a: usize, b: usize) -> f64 {
    a as f64 / b as f64
}
