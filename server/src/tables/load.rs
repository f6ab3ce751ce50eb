//! From the store into memory: fragments are read from their files and encoded anew.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use basalt_core::{
    fragment::{Deleted, Fragment, FragmentData, RowBuffer},
    schema::Schema,
    table::Table,
};
use basalt_proto::v1::ErrorReason;
use basalt_storage::{FragmentEntry, TableEntry, TableLog, TableState};
use tokio::{sync::mpsc, time::MissedTickBehavior};

use super::{
    AtRest, Tables, commit,
    stored::Stored,
    unreadable::{cannot_load, cannot_open},
};
use crate::{Error, cpu::Cpu, limits, moment::Moment, status::Fault};

/// Bytes that a fragment will take in memory: as it was written; of another writer's file, its size.
pub(super) fn expected_bytes(entry: &FragmentEntry) -> u64 {
    let part = || {
        let share =
            u128::from(entry.file.bytes()) * u128::from(entry.rows) / u128::from(entry.file.rows().max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    };
    entry.encoded_bytes().unwrap_or_else(part)
}

/// Reads a fragment, and encodes it.
pub(super) async fn read(
    log: &TableLog,
    state: &TableState,
    entry: &FragmentEntry,
    cpu: &Cpu,
) -> Result<Arc<FragmentData>, Fault> {
    let columns: Vec<usize> = (0..state.schema().fields().len()).collect();
    read_columns(log, state, entry, &columns, cpu).await
}

/// The same of some columns, given by their places.
pub(super) async fn read_columns(
    log: &TableLog,
    state: &TableState,
    entry: &FragmentEntry,
    columns: &[usize],
    cpu: &Cpu,
) -> Result<Arc<FragmentData>, Fault> {
    let fields = state.schema().fields();
    let fields = columns.iter().filter_map(|place| fields.get(*place).cloned());
    let schema = Schema::of_answer(fields.collect());
    let mut reader = log.read(state, entry, columns).await?;
    let mut buffer = RowBuffer::new(&schema);
    while let Some(batch) = reader.next().await? {
        let arrays: Vec<_> = batch.columns().iter().cloned().map(Some).collect();
        buffer.push(&arrays, batch.num_rows());
    }
    let data = cpu.run(move || buffer.encode(&schema)).await??;
    Ok(Arc::new(data))
}

/// A fragment with its deleted rows; of `data`, where that is at hand.
pub(super) async fn fragment(
    log: &TableLog,
    state: &TableState,
    entry: &FragmentEntry,
    data: Option<Arc<FragmentData>>,
    cpu: &Cpu,
) -> Result<Fragment, Fault> {
    let data = match data {
        Some(data) => data,
        None => read(log, state, entry, cpu).await?,
    };
    let deleted = log.deleted_rows(entry).await?;
    let deleted = deleted.and_then(|places| Deleted::new(&places, data.rows())).map(Arc::new);
    Ok(Fragment::new(entry.id, data).with_deleted(deleted).with_source(entry.source()))
}

/// How far loading is, in bytes of memory.
#[derive(Debug, Default)]
pub(super) struct Progress {
    loaded: AtomicU64,
    expected: AtomicU64,
}

impl Tables {
    /// The error of everything that needs the tables before they are there.
    pub(crate) fn loading(&self) -> Fault {
        let megabytes = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed) / 1_000_000;
        let (loaded, expected) = (megabytes(&self.progress.loaded), megabytes(&self.progress.expected));
        let message = format!("the server is loading its tables: {loaded} of {expected} MB so far");
        Fault::new(ErrorReason::Starting, message)
    }

    /// Loads all tables of the store. Until then there are none.
    ///
    /// # Errors
    /// A catalog that cannot be read; tables that are larger than the memory limit. A table that cannot be read is left
    /// out.
    pub(crate) async fn load(&self) -> Result<(), Error> {
        let Some(at_rest) = &self.at_rest else { return Ok(()) };
        let started = Instant::now();
        let failed = |what: &str, e: &dyn std::fmt::Display| Error::Start(format!("{what}: {e}"));
        let at = Moment::now();
        let catalog = at_rest.log.load().await.map_err(|e| failed("the catalog", &e))?;
        for folder in at_rest.log.unnamed_folders(&catalog).await.map_err(|e| failed("the store", &e))? {
            let folder = format!("{}/{folder}", at_rest.log.store().url());
            tracing::warn!(
                folder,
                "no entry of the catalog names this folder; it is neither served nor removed"
            );
        }
        self.start_with(at_rest, &catalog, at);
        let mut found = Vec::new();
        let mut all = 0;
        let limit = self.shared.memory.limit();
        for entry in catalog.tables().values() {
            let (log, state) = match at_rest.log.open(entry).await {
                Ok(opened) => opened,
                // The others can be served without it.
                Err(error) => {
                    self.note_left_out(at_rest, entry, &cannot_open(entry, error));
                    continue;
                }
            };
            let holds = |fragment: &&FragmentEntry| self.shared.peers().holds(entry.number(), fragment.id);
            let bytes: u64 = state.fragments().iter().filter(holds).map(expected_bytes).sum();
            all += bytes;
            if all > limit {
                return Err(Error::Start(format!(
                    "table {:?} takes {bytes} bytes of memory, and the tables up to it {all}; the limit is {limit} \
                     (--memory)",
                    entry.name
                )));
            }
            found.push((entry.clone(), log, state));
        }
        let (tables, total) = (found.len(), all);
        let Progress { loaded, expected } = &*self.progress;
        expected.store(total, Ordering::Relaxed);
        let progress = |data: &FragmentData| {
            loaded.fetch_add(data.bytes() as u64, Ordering::Relaxed);
        };
        let load = async {
            let mut rows = 0;
            for (entry, log, state) in found {
                match self.add_with(at_rest, &entry, log, state, &progress).await {
                    Ok(table) => rows += table.snapshot().rows(),
                    // More memory is needed, or fewer tables: what is left out now would not be missed less later.
                    Err(fault) if !entry.attached && fault.reason() == "MEMORY_LIMIT" => {
                        return Err(failed(&format!("table {:?}", entry.name), &fault.message()));
                    }
                    Err(fault) => self.note_left_out(at_rest, &entry, &cannot_load(&entry, fault)),
                }
            }
            Ok(rows)
        };
        let mut ticks = tokio::time::interval(limits::LOAD_PROGRESS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        let mut load = std::pin::pin!(load);
        let rows = loop {
            tokio::select! {
                rows = &mut load => break rows?,
                _ = ticks.tick() => {
                    let bytes = loaded.load(Ordering::Relaxed);
                    tracing::info!(bytes, total_bytes = total, "loading");
                }
            }
        };
        let (bytes, elapsed) = (loaded.load(Ordering::Relaxed), started.elapsed());
        tracing::info!(tables, rows, bytes, rows_per_second = per_second(rows, elapsed), ?elapsed, "loaded");
        Ok(())
    }

    /// Takes in a table of the catalog.
    pub(super) async fn add(
        &self,
        at_rest: &AtRest,
        entry: &TableEntry,
        log: TableLog,
        state: Arc<TableState>,
    ) -> Result<Arc<Table>, Fault> {
        self.add_with(at_rest, entry, log, state, &|_| {}).await
    }

    async fn add_with(
        &self,
        at_rest: &AtRest,
        entry: &TableEntry,
        log: TableLog,
        state: Arc<TableState>,
        progress: &(dyn Fn(&FragmentData) + Sync),
    ) -> Result<Arc<Table>, Fault> {
        let schema = (**state.schema()).clone();
        let table = Arc::new(Table::new(&entry.name, entry.number(), schema, state.version()));
        let (sender, queue) = mpsc::channel(limits::WRITES);
        let shared = Arc::clone(&self.shared);
        let stored = Stored::new(Arc::clone(&table), log, entry.attached, shared, Arc::clone(&state), sender);
        let stored = Arc::new(stored);
        // A table is in the catalog once it can be read.
        stored.advance(Arc::clone(&state), Default::default(), progress).await?;
        self.shared.ledger.restore(&table, state.requests().cloned());
        self.shared.catalog.insert(Arc::clone(&table))?;
        self.forget_unreadable(at_rest, entry.number());
        tokio::spawn(commit::run(Arc::downgrade(&stored), queue, self.shared.commit_delay));
        let mut tables = at_rest.tables.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        tables.insert(table.id(), stored);
        drop(tables);
        self.shared.memory.count_tables(&self.shared.catalog);
        Ok(table)
    }
}

fn per_second(n: u64, elapsed: Duration) -> u64 {
    let micros = elapsed.as_micros().max(1);
    u64::try_from(u128::from(n) * 1_000_000 / micros).unwrap_or(u64::MAX)
}
