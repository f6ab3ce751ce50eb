//! What the size of a table costs that no query reads: its log opened, a point query pruned, a commit, a checkpoint, an older
//! version, and the memory of its state, for 10^3, 10^4 and 10^5 fragments of 2^20 rows and 16 columns; and the
//! placement of fragments on simulated nodes. The data files are not there: their log is.
//!
//! `cargo bench -p basalt-benches --bench scale`; `-- --small` for a quick look. The log is made below
//! `BASALT_BENCH_DIR`, or the system's directory for temporary files, and takes 3 KB a fragment there.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a benchmark prints, and stops at what goes wrong"
)]

use std::{
    collections::BTreeMap,
    hint::black_box,
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use arrow_array::{RecordBatch, new_null_array};
use basalt_benches::{
    scale::log::{self, FRAGMENT_ROWS},
    table::{self, figure, grouped, millis},
    timing,
};
use basalt_core::{
    exec,
    plan::Plan,
    query::{CompareOp, Expr, Filter, Literal},
    table::{Snapshot, Table},
};
use basalt_sip::Sip;
use basalt_storage::{Change, Store, TableLog, TableState};
use peak_alloc::PeakAlloc;

#[allow(dead_code, reason = "a benchmark needs a part of it")]
#[path = "../../server/src/membership/placement.rs"]
mod placement;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const COMMITS: usize = 64;
/// Nodes that leave, one after the other.
const LEAVING: usize = 10;
/// Scores that are taken to choose whom to ask, at most.
const CHOSEN: usize = 20_000_000;

fn main() {
    let small = timing::small();
    let base = std::env::var_os("BASALT_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into);
    let folder = base.join(format!("basalt-bench-{}", std::process::id()));
    let sizes: &[usize] = if small { &[100, 1000] } else { &[1000, 10_000, 100_000] };
    // One thread, so that its CPU time is that of what is measured.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut times, mut memory) = (Vec::new(), Vec::new());
    for fragments in sizes {
        let (time, bytes) = runtime.block_on(of_size(&folder, *fragments));
        times.push(time);
        memory.push(bytes);
        std::fs::remove_dir_all(&folder).unwrap();
    }
    let header = [
        "fragments",
        "open: all commits",
        "open: checkpoint",
        "pin and prune",
        "commit: median",
        "most",
        "its CPU",
        "checkpoint",
        "older version",
    ];
    table::print("A table's log, milliseconds", &header, &times);
    let header = [
        "fragments",
        "bounds",
        "data files",
        "all of the state",
        "50 commits more",
        "peak: open",
        "peak: checkpoint",
    ];
    table::print("Memory, bytes a fragment and column", &header, &memory);
    place(if small { 1000 } else { 100_000 });
}

fn state_bytes(bytes: usize, fragments: usize) -> String {
    figure(bytes as f64 / (fragments * log::schema().fields().len()) as f64)
}

async fn of_size(folder: &Path, fragments: usize) -> (Vec<String>, Vec<String>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    let store = Store::open(folder.to_str().unwrap()).unwrap();
    let schema = log::schema();
    let (table_log, _) = TableLog::create(store, "scale", &schema, BTreeMap::new()).await.unwrap();
    let versions = log::write(&folder.join("_delta_log"), fragments, now).unwrap();

    let (by_commits, state) = opened(&table_log, fragments, versions).await;
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let start = Instant::now();
    table_log.checkpoint(&state).await.unwrap();
    let checkpoint = start.elapsed();
    let checkpoint_peak = HEAP.peak_usage() - before;
    drop(state);

    // What the process holds before is what it holds without the state.
    let log_again = TableLog::new(table_log.store().clone());
    let before = HEAP.current_usage();
    HEAP.reset_peak_usage();
    let (by_checkpoint, mut state) = opened(&log_again, fragments, versions).await;
    let (held, peak) = (HEAP.current_usage() - before, HEAP.peak_usage() - before);
    let (bounds, files) = state.held_bytes();

    let prune = prune(&state, fragments);
    let mut files_to_add = Vec::new();
    for _ in 0..COMMITS {
        files_to_add.push(log_again.write_data(&schema, vec![one_row()]).await.unwrap());
    }
    let before = HEAP.current_usage();
    let (mut all, mut cpu, mut kept) = (Vec::new(), Duration::ZERO, Vec::new());
    for (i, file) in files_to_add.into_iter().enumerate() {
        let change = match i % 4 {
            3 => Change { deletions: vec![(i as u32, Sip::from_sorted_ids(&[1, 7]))], ..Change::default() },
            2 => Change { remove: vec![i as u32], add: vec![file], ..Change::default() },
            _ => Change { add: vec![file], ..Change::default() },
        };
        let (start, used) = (Instant::now(), cpu_time());
        let next = log_again.commit(&state, &change).await.unwrap().state;
        all.push(start.elapsed());
        cpu += cpu_time() - used;
        // Older versions stay, as they do in a server.
        kept.push(std::mem::replace(&mut state, next));
    }
    let older_bytes = HEAP.current_usage() - before;
    all.sort_unstable();
    let oldest = &kept[1];
    let start = Instant::now();
    let rebuilt = log_again.at(&state, oldest.version()).await.unwrap().unwrap();
    let older = start.elapsed();
    assert_eq!((rebuilt.rows(), rebuilt.bytes()), (oldest.rows(), oldest.bytes()));
    let loaded = TableLog::new(table_log.store().clone()).load().await.unwrap();
    assert_eq!(
        (loaded.version(), loaded.rows(), loaded.bytes()),
        (state.version(), state.rows(), state.bytes())
    );

    let ms = |time: Duration| millis(time.as_secs_f64());
    let times = vec![
        grouped(fragments),
        ms(by_commits),
        ms(by_checkpoint),
        ms(prune),
        ms(all[all.len() / 2]),
        ms(all[all.len() - 1]),
        ms(cpu / COMMITS as u32),
        ms(checkpoint),
        ms(older),
    ];
    let each = |bytes: usize| state_bytes(bytes, fragments);
    let memory = vec![
        grouped(fragments),
        each(bounds as usize),
        each(files as usize),
        each(held),
        each(older_bytes),
        each(peak),
        each(checkpoint_peak),
    ];
    (times, memory)
}

/// Opens the table, and checks what it is.
async fn opened(log: &TableLog, fragments: usize, version: u64) -> (Duration, Arc<TableState>) {
    let start = Instant::now();
    let state = log.load().await.unwrap();
    let time = start.elapsed();
    assert_eq!((state.version(), state.fragments().len()), (version, fragments));
    assert_eq!(state.rows(), fragments as u64 * FRAGMENT_ROWS);
    let last = fragments as u32 - 1;
    let (from, to) = log::ids(last.into());
    assert_eq!(state.bounds(last, 0), Some((from as i64, to as i64)));
    (time, state)
}

/// The fastest of some runs of what a coordinator does to find the fragments of `id = n`: it lists them all, and asks the
/// bounds of each.
fn prune(state: &Arc<TableState>, fragments: usize) -> Duration {
    let table = Table::new("scale", 1, (**state.schema()).clone(), state.version());
    let snapshot = Snapshot::new(state.version(), Vec::new());
    let mut fastest = Duration::MAX;
    for i in 0..20 {
        let wanted = fragments * i / 20;
        let id = Literal::Int((wanted as i64) * FRAGMENT_ROWS as i64 + 77);
        let filter = Filter::Compare(CompareOp::Eq, Expr::Column("id".to_owned()), Expr::Literal(id));
        let start = Instant::now();
        let (_, pred) = Plan::filter(&table, &snapshot, Some(&filter)).unwrap();
        let ids: Vec<u32> = state.fragments().iter().map(|entry| entry.id).collect();
        let may = |id: &u32| exec::may_select(pred.as_ref(), *id, &|column| state.bounds(*id, column));
        let found: Vec<u32> = black_box(ids).into_iter().filter(may).collect();
        fastest = fastest.min(start.elapsed());
        assert_eq!(found, [wanted as u32]);
    }
    fastest
}

fn one_row() -> RecordBatch {
    let schema = log::schema().to_arrow();
    let columns = schema.fields().iter().map(|field| new_null_array(field.data_type(), 1));
    RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap()
}

/// What this thread has taken of the CPU; without Linux, the time.
fn cpu_time() -> Duration {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    let read = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        text.split_ascii_whitespace().next()?.parse().ok()
    };
    read().map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// Microseconds that a coordinator takes for each fragment to choose whom it asks, and what it would take to put all nodes
/// in their order; both choose the same.
fn choose(seeds: &[placement::TableSeed], fragments: usize) -> (f64, f64) {
    const REPLICAS: usize = 2;
    let fragments = fragments.min(CHOSEN / seeds.len()) as u64;
    let health = |_| placement::Health::Good;
    let start = Instant::now();
    let chosen: Vec<usize> = (0..fragments)
        .map(|fragment| placement::choose(seeds, (0, REPLICAS), fragment, health).unwrap())
        .collect();
    let took = start.elapsed();
    let start = Instant::now();
    for (fragment, chosen) in (0..fragments).zip(chosen) {
        let mut places: Vec<usize> = (0..seeds.len()).collect();
        places.sort_by_cached_key(|&place| std::cmp::Reverse(seeds[place].score(fragment)));
        let first = if places[..REPLICAS].contains(&0) { 0 } else { places[0] };
        assert_eq!(first, chosen, "fragment {fragment}");
    }
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / fragments as f64;
    (micros(took), micros(start.elapsed()))
}

/// Fragments on simulated nodes.
fn place(fragments: usize) {
    const TABLE: u64 = 0x5eed;
    let seeds = |nodes: usize| -> Vec<_> {
        let name = |node: usize| {
            placement::Seed::of(&format!("10.{}.{}.{}:7701", node >> 16, node >> 8 & 255, node & 255))
        };
        (0..nodes).map(|node| name(node).of_table(TABLE)).collect()
    };
    let owners = |seeds: &[placement::TableSeed]| -> Vec<usize> {
        (0..fragments as u64).map(|fragment| placement::first(seeds, fragment, |_| true).unwrap()).collect()
    };
    let mut lines = Vec::new();
    for nodes in [10, 100, 1000] {
        let seeds = seeds(nodes + 1);
        let start = Instant::now();
        let before = owners(&seeds[..nodes]);
        let time = start.elapsed();
        let joined = owners(&seeds);
        let moved = before.iter().zip(&joined).filter(|(a, b)| a != b).count();
        assert!(before.iter().zip(&joined).all(|(a, b)| a == b || *b == nodes), "only to the new node");
        // One node after the other leaves and is back: what was its own goes to others, and nothing else moves.
        let leaving = nodes.min(LEAVING);
        let lost: usize = (0..leaving)
            .map(|gone| {
                let left = (0..fragments as u64).zip(&before).filter(|(fragment, owner)| {
                    let owner_now = placement::first(&seeds[..nodes], *fragment, |node| node != gone);
                    assert!(owner_now == Some(**owner) || **owner == gone, "only its own");
                    owner_now != Some(**owner)
                });
                left.count()
            })
            .sum();
        let (chosen, sorted) = choose(&seeds[..nodes], fragments);
        let mut shares = vec![0_usize; nodes];
        before.iter().for_each(|owner| shares[*owner] += 1);
        let fair = fragments as f64 / nodes as f64;
        let times = |n: usize, fair: f64| figure(n as f64 / fair);
        lines.push(vec![
            grouped(nodes),
            grouped(fragments),
            times(moved, fragments as f64 / (nodes + 1) as f64),
            times(lost, fair * leaving as f64),
            times(*shares.iter().min().unwrap(), fair),
            times(*shares.iter().max().unwrap(), fair),
            millis(time.as_secs_f64()),
            figure(chosen),
            figure(sorted),
        ]);
    }
    let header = [
        "nodes",
        "fragments",
        "moved: join",
        "moved: leave",
        "least share",
        "greatest",
        "to place all, ms",
        "whom to ask, us",
        "all in order, us",
    ];
    table::print("Placement, shares as times of the fair one", &header, &lines);
}
