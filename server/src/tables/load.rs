//! From the store into memory: columns are read from their files and encoded again.

use std::{
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use basalt_core::{
    fragment::{FragmentData, RowBuffer},
    invariant::index,
    schema::{DataType, Schema},
    table::Table,
};
use basalt_proto::v1::ErrorReason;
use basalt_storage::{DataReader, FragmentEntry, TableEntry, TableLog, TableState};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior},
};

use super::{
    Durable, Tables, commit,
    stored::{Progress, Stored},
    unreadable::cannot_load,
};
use crate::{Error, cpu::Cpu, limits, status::RequestError};

/// Bytes that a fragment will take in memory: as it was written; of another writer's file, its size.
pub(super) fn expected_bytes(entry: &FragmentEntry) -> u64 {
    let part = || {
        let share =
            u128::from(entry.file.bytes()) * u128::from(entry.rows) / u128::from(entry.file.rows().max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    };
    entry.encoded_bytes().unwrap_or_else(part)
}

/// Bytes that so many of its columns will take, as if all took the same.
pub(super) fn expected_bytes_of(state: &TableState, entry: &FragmentEntry, columns: usize) -> u64 {
    expected_bytes(entry) / state.schema().fields().len().max(1) as u64 * columns as u64
}

/// Bytes that some columns of a fragment, given by their places, take while they are read and encoded, as far as that is
/// known before their file is looked into.
pub(super) fn decoded_bytes(state: &TableState, entry: &FragmentEntry, columns: &[usize]) -> u64 {
    let fields = state.schema().fields();
    let is_text = |place: &&usize| fields.get(**place).is_some_and(|field| field.data_type == DataType::Utf8);
    let texts = columns.iter().filter(is_text).count() as u64;
    // What texts take is in the file alone; there they are compressed.
    let texts =
        texts.saturating_mul(limits::TEXT_EXPANSION).saturating_mul(expected_bytes_of(state, entry, 1));
    encoding_bytes(u64::from(entry.rows), columns.len() as u64, texts)
}

/// Bytes that so many rows of so many columns take while they are read and encoded, with so many bytes of texts.
fn encoding_bytes(rows: u64, columns: u64, texts: u64) -> u64 {
    let rows = limits::ENCODE_ROW_BYTES.saturating_mul(rows).saturating_mul(columns);
    rows.saturating_add(texts.saturating_mul(limits::ENCODE_TEXT_HALVES) / 2)
}

/// Some columns of a fragment on their way from their file into memory. Nothing of them is read yet.
pub(super) struct Load {
    reader: DataReader,
    schema: Schema,
    rows: u32,
    /// Bytes of the texts of each column, where they are known.
    texts: Option<Vec<u64>>,
}

impl Load {
    /// Some columns, given by their places.
    pub(super) async fn open(
        log: &TableLog,
        state: &TableState,
        entry: &FragmentEntry,
        columns: &[usize],
    ) -> Result<Self, RequestError> {
        let fields = state.schema().fields();
        let fields = columns.iter().filter_map(|place| fields.get(*place).cloned());
        let schema = Schema::of_answer(fields.collect());
        let reader = log.read(state, entry, columns).await?;
        let texts = reader.text_bytes();
        Ok(Self { reader, schema, rows: entry.rows, texts })
    }

    /// Bytes that reading takes; `None` where the file does not say.
    pub(super) fn bytes(&self) -> Option<u64> {
        let texts = total(self.texts.as_ref()?);
        Some(encoding_bytes(u64::from(self.rows), self.schema.fields().len() as u64, texts))
    }

    /// A buffer with room for what is to come.
    fn buffer(&self) -> RowBuffer {
        let texts = self.texts.as_deref().map_or(Default::default(), believed);
        // Default: there is no room for what is not believed.
        let text_bytes = |place: usize| texts.get(place).map_or(0, |bytes| index(*bytes));
        RowBuffer::with_capacity(&self.schema, self.rows as usize, text_bytes)
    }

    /// Reads and encodes.
    pub(super) async fn read(mut self, cpu: &Cpu) -> Result<Arc<FragmentData>, RequestError> {
        let mut buffer = self.buffer();
        while let Some(batch) = self.reader.next().await? {
            let arrays: Vec<_> = batch.columns().iter().cloned().map(Some).collect();
            buffer.push(&arrays, batch.num_rows());
        }
        let Self { schema, reader, .. } = self;
        // The compressed columns are not needed any longer.
        drop(reader);
        let data = cpu.run(move || buffer.encode(&schema)).await??;
        Ok(Arc::new(data))
    }
}

fn total(texts: &[u64]) -> u64 {
    texts.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

/// What a file says of the bytes of its texts, as far as it is believed before they are read: all of it, or nothing.
fn believed(texts: &[u64]) -> &[u64] {
    if total(texts) <= limits::BELIEVED_TEXT_BYTES { texts } else { &[] }
}

/// How far loading is, in bytes of memory.
#[derive(Debug, Default)]
pub(super) struct Loading {
    loaded: AtomicU64,
    expected: AtomicU64,
}

impl Tables {
    /// The error of everything that needs the tables before they are there.
    pub(crate) fn loading(&self) -> RequestError {
        let megabytes = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed) / 1_000_000;
        let (loaded, expected) = (megabytes(&self.progress.loaded), megabytes(&self.progress.expected));
        let message = format!("the server is loading its tables: {loaded} of {expected} MB so far");
        RequestError::new(ErrorReason::Starting, message)
    }

    /// Loads all tables of the store. Until then there are none.
    ///
    /// # Errors
    /// A catalog that cannot be read; a store that does not tell writers apart. A table that cannot be read is left out.
    pub(crate) async fn load(&self) -> Result<(), Error> {
        let Some(durable) = &self.durable else { return Ok(()) };
        let started = Instant::now();
        let failed = |what: &str, e: &dyn std::fmt::Display| Error::Start(format!("{what}: {e}"));
        let at = self.shared.now();
        let catalog = durable.log.load().await.map_err(|e| failed("the catalog", &e))?;
        for folder in durable.log.unnamed_folders(&catalog).await.map_err(|e| failed("the store", &e))? {
            let folder = format!("{}/{folder}", durable.log.store().url());
            tracing::warn!(
                folder,
                "no entry of the catalog names this folder; it is neither served nor removed"
            );
        }
        durable.log.store().check_creates().await.map_err(|e| failed("the store", &e))?;
        self.start_with(durable, &catalog, at);
        let mut found = Vec::new();
        let mut all = 0;
        for entry in catalog.tables().values() {
            let (log, state) = match self.open_log(durable, entry).await {
                Ok(opened) => opened,
                // The others can be served without it.
                Err(error) => {
                    self.note_left_out(durable, entry, &error);
                    continue;
                }
            };
            let holds = |fragment: &&FragmentEntry| self.shared.peers().holds(entry.number(), fragment.id);
            let bytes: u64 = state.fragments().iter().filter(holds).map(expected_bytes).sum();
            all += bytes;
            found.push((entry.clone(), log, state));
        }
        let (tables, total) = (found.len(), all);
        let Loading { loaded, expected } = &*self.progress;
        expected.store(total, Ordering::Relaxed);
        let progress = |bytes: u64| {
            loaded.fetch_add(bytes, Ordering::Relaxed);
        };
        let load = async {
            let mut rows = 0;
            for (entry, log, state) in found {
                match self.add_with(durable, &entry, log, state, &progress).await {
                    Ok(table) => rows += self.rows(&table),
                    Err(error) => self.note_left_out(durable, &entry, &cannot_load(&entry, error)),
                }
            }
            rows
        };
        let mut ticks = tokio::time::interval(limits::LOAD_PROGRESS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        let mut load = std::pin::pin!(load);
        let rows = loop {
            tokio::select! {
                biased;
                rows = &mut load => break rows,
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
        durable: &Durable,
        entry: &TableEntry,
        log: TableLog,
        state: Arc<TableState>,
    ) -> Result<Arc<Table>, RequestError> {
        self.add_with(durable, entry, log, state, &|_| {}).await
    }

    /// Takes in a table that the catalog does not name yet.
    pub(super) async fn add_draft(
        &self,
        durable: &Durable,
        draft: &basalt_storage::Draft,
    ) -> Result<Arc<Table>, RequestError> {
        let stored = self.to_store(&draft.entry, draft.log.clone(), Arc::clone(&draft.table));
        let (stored, queue) = stored;
        stored.named.store(false, Ordering::Release);
        stored.begin(&|_| {}).await?;
        let table = Arc::clone(&stored.table);
        let mut tables = durable.tables.write().unwrap_or_else(PoisonError::into_inner);
        self.shared.catalog.note_draft(&table);
        tables.insert(table.id(), Arc::clone(&stored));
        drop(tables);
        self.shared.begin_commits(&stored, queue);
        self.shared.memory.count_tables(&self.shared.catalog);
        Ok(table)
    }

    /// A table as it is kept, before anybody knows of it, and the writes that it is given.
    fn to_store(
        &self,
        entry: &TableEntry,
        log: TableLog,
        state: Arc<TableState>,
    ) -> (Arc<Stored>, mpsc::Receiver<commit::Write>) {
        let schema = (**state.schema()).clone();
        let table = Arc::new(Table::new(&entry.name, entry.number(), schema, state.version()));
        let (sender, queue) = mpsc::channel(limits::WRITES);
        let shared = Arc::clone(&self.shared);
        // Default: only durable tables are kept so.
        let of = self.durable.as_ref().map(Arc::downgrade).unwrap_or_default();
        let stored = Stored::new(table, log, entry.attached, of, shared, state, sender);
        (Arc::new(stored), queue)
    }

    async fn add_with(
        &self,
        durable: &Durable,
        entry: &TableEntry,
        log: TableLog,
        state: Arc<TableState>,
        progress: Progress<'_>,
    ) -> Result<Arc<Table>, RequestError> {
        let (stored, queue) = self.to_store(entry, log, Arc::clone(&state));
        let table = Arc::clone(&stored.table);
        // A table is in the catalog once it can be read.
        let has_more = stored.begin(progress).await?;
        self.shared.request_log.restore(&table, self.shared.environment.wall(), state.requests().cloned());
        // Whoever finds it in the catalog finds here how it is kept.
        let mut tables = durable.tables.write().unwrap_or_else(PoisonError::into_inner);
        self.shared.catalog.insert(Arc::clone(&table))?;
        tables.insert(table.id(), Arc::clone(&stored));
        drop(tables);
        self.forget_unreadable(durable, entry.number());
        self.shared.begin_commits(&stored, queue);
        if has_more {
            self.in_background(async move { stored.read_late().await });
        }
        self.shared.memory.count_tables(&self.shared.catalog);
        Ok(table)
    }
}

fn per_second(n: u64, elapsed: Duration) -> u64 {
    let micros = elapsed.as_micros().max(1);
    u64::try_from(u128::from(n) * 1_000_000 / micros).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_room_is_made_for_texts_that_are_too_long_to_believe() {
        const MOST: u64 = limits::BELIEVED_TEXT_BYTES;
        assert_eq!(believed(&[MOST - 7, 0, 7]), [MOST - 7, 0, 7]);
        for texts in [&[MOST, 1][..], &[u64::MAX], &[u64::MAX, u64::MAX, 3]] {
            assert!(believed(texts).is_empty(), "{texts:?}");
        }
    }
}
