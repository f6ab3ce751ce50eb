//! Durable tables in a local directory: data files with the share of encoding, writing and syncing; commits;
//! opening a log. The directory is made below `BASALT_BENCH_DIR`, or the system's for temporary files: what is
//! measured is that disk.
//!
//! `cargo bench -p basalt-benches --bench storage`; `-- --small` for a quick look.

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

use arrow_array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    cast::AsArray as _, types::Int64Type,
};
use basalt_core::schema::{DataType, Field, Schema};
use basalt_storage::{Change, Store, TableLog, TableState};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

fn main() {
    let small = basalt_benches::timing::small();
    let base = std::env::var_os("BASALT_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into);
    let folder = base.join(format!("basalt-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        data_files(&folder, small).await;
        commits(&folder, small).await;
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

fn schema() -> Arc<Schema> {
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    let fields = vec![
        field("id", DataType::Int64),
        field("at", DataType::Timestamp),
        field("kind", DataType::Int32),
        field("status", DataType::Utf8),
        field("price", DataType::Float64),
        field("noise", DataType::Int64),
    ];
    Arc::new(Schema::new(fields).unwrap())
}

fn batch(first: i64, rows: usize) -> RecordBatch {
    let mut random = StdRng::seed_from_u64(first.cast_unsigned());
    let ids = first..first + i64::try_from(rows).unwrap();
    let mut column = |make: &mut dyn FnMut(&mut StdRng) -> ArrayRef| make(&mut random);
    let columns = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())) as ArrayRef,
        Arc::new(
            TimestampMicrosecondArray::from_iter_values(ids.map(|i| i * 1_000_000)).with_timezone("UTC"),
        ),
        column(&mut |r| Arc::new((0..rows).map(|_| Some(r.random_range(0..200))).collect::<Int32Array>())),
        column(&mut |r| {
            let status = ["shipped", "pending", "returned", "lost"];
            Arc::new(StringArray::from_iter_values((0..rows).map(|_| status[r.random_range(0..4)])))
        }),
        column(&mut |r| {
            let cents = (0..rows).map(|_| Some(f64::from(r.random_range(0..100_000)) / 100.0));
            Arc::new(cents.collect::<Float64Array>())
        }),
        column(&mut |r| Arc::new((0..rows).map(|_| Some(r.random::<i64>())).collect::<Int64Array>())),
    ];
    RecordBatch::try_new(schema().to_arrow(), columns).unwrap()
}

async fn table(store: Store) -> (TableLog, Arc<TableState>) {
    TableLog::create(store, "bench", &schema(), BTreeMap::new()).await.unwrap()
}

/// Prints a line of the first table.
fn line(what: &str, time: Duration, rows: usize, bytes: u64) {
    let seconds = time.as_secs_f64();
    let (rows, bytes) = (rows as f64 / 1e6 / seconds, bytes as f64 / 1e6 / seconds);
    println!("{what:<38} {:>9.1} {rows:>9.2} {bytes:>9.1}", seconds * 1e3);
}

async fn data_files(folder: &Path, small: bool) {
    let rows = if small { 1 << 17 } else { 1 << 20 };
    let schema = schema();
    let batch = batch(0, rows);
    let plain = batch.get_array_memory_size() as u64;
    let local = Store::open(folder.join("files").to_str().unwrap()).unwrap();
    let (memory, _) = table(Store::in_memory()).await;
    let (log, state) = table(local).await;

    println!("a data file of {rows} rows, {:.1} MB in Arrow", plain as f64 / 1e6);
    println!("{:<38} {:>9} {:>9} {:>9}", "", "ms", "Mrows/s", "MB/s");
    let start = Instant::now();
    memory.write_data(&schema, vec![batch.clone()]).await.unwrap();
    line("encode (Parquet, zstd 1)", start.elapsed(), rows, plain);
    let start = Instant::now();
    let file = log.write_data(&schema, vec![batch.clone()]).await.unwrap();
    line("encode, write, sync", start.elapsed(), rows, plain);
    let size = file.bytes();
    let bytes = vec![0x5a; usize::try_from(size).unwrap()];
    let start = Instant::now();
    let mut raw = std::fs::File::create(folder.join("raw")).unwrap();
    raw.write_all(&bytes).unwrap();
    line("  a file of as many bytes: write", start.elapsed(), rows, size);
    let start = Instant::now();
    raw.sync_all().unwrap();
    line("  and sync", start.elapsed(), rows, size);
    println!("{:<38} {:>9.1} MB", "its size", size as f64 / 1e6);

    let state = log.commit(&state, &Change { add: vec![file], ..Change::default() }).await.unwrap().state;
    for (what, columns) in
        [("read all columns", (0..6).collect()), ("read one column of 64-bit noise", vec![5])]
    {
        let start = Instant::now();
        let mut reader = log.read(&state, state.fragments().first().unwrap(), &columns).await.unwrap();
        let (mut read, mut sum) = (0, 0i64);
        while let Some(batch) = reader.next().await.unwrap() {
            read += batch.num_rows();
            let last = batch.column(columns.len() - 1).as_primitive::<Int64Type>();
            sum = last.values().iter().fold(sum, |sum, v| sum.wrapping_add(*v));
        }
        let time = start.elapsed();
        let noise = batch.column(5).as_primitive::<Int64Type>();
        assert_eq!((read, sum), (rows, noise.values().iter().fold(0, |s: i64, v| s.wrapping_add(*v))));
        line(what, time, rows, plain * columns.len() as u64 / 6);
    }
}

async fn commits(folder: &Path, small: bool) {
    let commits = if small { 50 } else { 500 };
    let schema = schema();
    println!("\n{commits} commits of one row each, one behind the other");
    println!("{:<38} {:>9} {:>9} {:>9}", "ms", "median", "p99", "most");
    let mut logs = Vec::new();
    for (name, store) in [
        ("memory", Store::in_memory()),
        ("local disk", Store::open(folder.join("commits").to_str().unwrap()).unwrap()),
    ] {
        let (log, mut state) = table(store).await;
        let (mut files, mut versions) = (Vec::new(), Vec::new());
        for i in 0..commits {
            let start = Instant::now();
            let file = log.write_data(&schema, vec![batch(i, 1)]).await.unwrap();
            files.push(start.elapsed());
            let start = Instant::now();
            let change = Change { add: vec![file], ..Change::default() };
            state = log.commit(&state, &change).await.unwrap().state;
            versions.push(start.elapsed());
        }
        spread(&format!("{name}: data file"), files);
        spread(&format!("{name}: version"), versions);
        logs.push((log, state));
    }

    let (log, state) = logs.pop().unwrap();
    for what in ["open: replay of all versions", "open: checkpoint"] {
        let start = Instant::now();
        let loaded = log.load().await.unwrap();
        println!("{what:<38} {:>9.2}", start.elapsed().as_secs_f64() * 1e3);
        assert_eq!((loaded.version(), loaded.rows()), (state.version(), state.rows()));
        let start = Instant::now();
        log.checkpoint(&state).await.unwrap();
        if what.ends_with("versions") {
            println!("{:<38} {:>9.2}", "write a checkpoint", start.elapsed().as_secs_f64() * 1e3);
        }
    }
    let start = Instant::now();
    log.refresh(&state).await.unwrap();
    println!("{:<38} {:>9.3}", "look for a new version", start.elapsed().as_secs_f64() * 1e3);
}

fn spread(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
    println!("{what:<38} {:>9.2} {:>9.2} {:>9.2}", at(50), at(99), at(100));
}
