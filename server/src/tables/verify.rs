//! Reading all that tables have on storage, to find what is damaged while it can still be mended: when somebody asks, and
//! in the background, everything once in a while.
//!
//! What is found is said in the log and counted. Tables are served on from memory, which holds what was written.

use std::{
    sync::{Arc, PoisonError, Weak},
    time::Duration,
};

use basalt_proto::v1::ErrorReason;
use basalt_storage::{Damage, DataFile, StorageError, TableLog, TableState};
use tokio::time::{Instant, sleep, timeout_at};

use super::{Durable, Tables, stored::Stored};
use crate::{limits, panics::caught_async, status::RequestError};

/// What reading some files of a table has found.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) damage: Vec<Damage>,
    /// The last file, where there are others behind it.
    pub(crate) next: Option<String>,
}

/// Where the reading in the background is.
#[derive(Debug, Default)]
pub(super) struct Place {
    table: String,
    file: String,
}

impl Tables {
    /// Reads the files of a table whose place in the log is behind `after`, as many as half of the time until the
    /// deadline allows.
    pub(crate) async fn verify(
        &self,
        name: &str,
        after: &str,
        deadline: Instant,
    ) -> Result<Page, RequestError> {
        let Some(durable) = &self.durable else { return Err(super::in_memory_only(name)) };
        let enough = Instant::now() + deadline.saturating_duration_since(Instant::now()) / 2;
        let read = async {
            let _alone = self.verifying.acquire().await;
            self.verify_page(durable, name, after, enough).await
        };
        timeout_at(deadline, read).await.map_err(|_| RequestError::deadline())?
    }

    async fn verify_page(
        &self,
        durable: &Durable,
        name: &str,
        after: &str,
        enough: Instant,
    ) -> Result<Page, RequestError> {
        let entry = durable.state().tables().get(name).cloned();
        let entry = entry.ok_or_else(|| {
            RequestError::new(ErrorReason::TableNotFound, format!("there is no table {name:?}")).at("name")
        })?;
        let stored = {
            let tables = durable.tables.read().unwrap_or_else(PoisonError::into_inner);
            tables.get(&entry.number()).cloned()
        };
        let mut page = Page::default();
        // Whether a start would find the table: the journal is short, and read as at a start.
        if after.is_empty()
            && let Err(error) = durable.log.load().await
        {
            self.found(name, &damage_of(durable.log.store().url(), error)?, &mut page);
        }
        let log = match &stored {
            Some(stored) => stored.log.clone(),
            None => {
                self.check_place(&entry, &entry.location)?;
                durable.log.table(&entry)?
            }
        };
        // The log is read as at a start: once for a table, and always where nobody has its state.
        let read = if after.is_empty() || stored.is_none() { Some(log.load().await) } else { None };
        let state = match (read, &stored) {
            (Some(Ok(state)), _) => state,
            (Some(Err(error)), _) => {
                self.found(name, &damage_of(log.store().url(), error)?, &mut page);
                match &stored {
                    Some(stored) => stored.state(),
                    None => return Ok(page),
                }
            }
            (None, Some(stored)) => stored.state(),
            (None, None) => return Ok(page),
        };
        for file in state.files_after(after) {
            if page.files > 0 && Instant::now() >= enough || page.damage.len() >= limits::DAMAGE_PAGE {
                // What was read last is the place to go on from.
                return Ok(page);
            }
            self.verify_file(name, &log, &state, stored.as_deref(), file, &mut page).await?;
            page.next = Some(file.path().to_owned());
        }
        page.next = None;
        Ok(page)
    }

    async fn verify_file(
        &self,
        name: &str,
        log: &TableLog,
        state: &TableState,
        stored: Option<&Stored>,
        file: &Arc<DataFile>,
        page: &mut Page,
    ) -> Result<(), RequestError> {
        let verified = log.verify(state, file).await?;
        self.shared.metrics.verified(verified.bytes);
        page.files += 1;
        page.bytes += verified.bytes;
        // A file that has left the table meanwhile may be gone.
        let is_there = |stored: &Stored| {
            let now = stored.state();
            now.version() < state.version() || now.files_after("").any(|known| known.path() == file.path())
        };
        if !verified.damage.is_empty() && stored.is_none_or(is_there) {
            for damage in &verified.damage {
                self.found(name, damage, page);
            }
        }
        Ok(())
    }

    /// Something is damaged.
    fn found(&self, table: &str, damage: &Damage, page: &mut Page) {
        let Damage { path, column, why } = damage;
        tracing::error!(table, file = path, column, error = why, "damaged");
        self.shared.metrics.damage_found();
        page.damage.push(damage.clone());
    }

    /// Reads the next file of all tables that this node looks after; how long to wait for the one behind it, so that
    /// everything is read once in [`limits::VERIFY_PERIOD`].
    pub(super) async fn verify_next(&self, place: &mut Place) -> Duration {
        let (least, most) = limits::VERIFY_PAUSE;
        let mut tables = self.list_stored();
        tables.retain(|stored| self.shared.peers().owns(stored.table.id()));
        tables.sort_by(|a, b| a.table.name().cmp(b.table.name()));
        let total: u64 = tables.iter().map(|stored| stored.state().bytes()).fold(0, u64::saturating_add);
        let done = tables.partition_point(|stored| stored.table.name() < place.table.as_str());
        for stored in tables.iter().skip(done) {
            let name = stored.table.name();
            if name != place.table {
                *place = Place { table: name.to_owned(), file: String::new() };
            }
            let state = stored.state();
            let Some(file) = state.files_after(&place.file).next().cloned() else { continue };
            file.path().clone_into(&mut place.file);
            let _alone = self.verifying.acquire().await;
            let mut page = Page::default();
            let read = self.verify_file(name, &stored.log, &state, Some(stored), &file, &mut page).await;
            if let Err(error) = read {
                tracing::warn!(table = name, error = error.message(), "cannot verify a file");
            }
            let share =
                u128::from(file.bytes()) * limits::VERIFY_PERIOD.as_millis() / u128::from(total.max(1));
            return Duration::from_millis(u64::try_from(share).unwrap_or(u64::MAX)).clamp(least, most);
        }
        *place = Place::default();
        most
    }
}

/// What an error of a table's log is damaged of; a store that fails is none.
fn damage_of(table: &str, error: StorageError) -> Result<Damage, RequestError> {
    let (path, why) = match error {
        StorageError::Corrupt { path, why } => (path, why),
        StorageError::Missing { ref path } => (path.clone(), "the file is missing".to_owned()),
        // Tables without a catalog are at no address of a store.
        StorageError::Address { .. } | StorageError::NoTable { .. } | StorageError::Limit { .. } => {
            (table.to_owned(), error.to_string())
        }
        other => return Err(other.into()),
    };
    Ok(Damage { path, column: None, why })
}

/// Verifies all tables, again and again, for as long as there are any.
pub(crate) async fn run(tables: Weak<Tables>) {
    let mut place = Place::default();
    let mut pause = limits::VERIFY_PAUSE.0;
    loop {
        sleep(pause).await;
        let Some(tables) = tables.upgrade() else { return };
        // A file that panics is behind the place by then.
        let verified = caught_async(async { Ok(tables.verify_next(&mut place).await) });
        pause = verified.await.unwrap_or(limits::VERIFY_PAUSE.0);
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use basalt_core::{
        schema::{DataType, Field, Schema},
        table::Appender,
    };

    use super::*;
    use crate::{
        Config,
        state::State,
        tables::{NewRows, Replaces},
    };

    fn data_files(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = entries.flat_map(|path| if path.is_dir() { data_files(&path) } else { vec![path] });
        files.filter(|path| path.extension().is_some_and(|end| end == "parquet")).collect()
    }

    async fn write(state: &State, table: &str, values: Vec<i64>) {
        let table = state.catalog.get(table).unwrap();
        let mut appender = Appender::new(table, &[]).unwrap();
        let column: ArrayRef = Arc::new(Int64Array::from(values));
        appender.push(&RecordBatch::try_from_iter_with_nullable([("a", column, true)]).unwrap()).unwrap();
        let rows = NewRows { appender, writing: None, replaces: Replaces::Nothing, request: None };
        state.tables.write(rows).await.unwrap();
    }

    #[tokio::test]
    async fn the_background_reads_every_file_in_turn_and_counts_what_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().display().to_string();
        let state =
            State::new(crate::environment::process(), &Config { store, ..Config::default() }, None).unwrap();
        state.tables.load().await.unwrap();
        for table in ["s", "t"] {
            let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]).unwrap();
            state.tables.create(table, schema, None, Default::default()).await.unwrap();
            for i in 0..3 {
                write(&state, table, (0..100).map(|n| n * i).collect()).await;
            }
        }
        let files = data_files(folder.path());
        assert_eq!(files.len(), 6);
        let (mut place, mut seen) = (Place::default(), Vec::new());
        let (least, most) = limits::VERIFY_PAUSE;
        for _ in &files {
            let pause = state.tables.verify_next(&mut place).await;
            assert!(pause > least && pause <= most, "{pause:?}");
            seen.push((place.table.clone(), place.file.clone()));
        }
        seen.dedup();
        assert_eq!((seen.len(), seen.is_sorted()), (6, true), "{seen:?}");
        let counted = |name: &str| {
            let text = state.metrics.render(&state).unwrap();
            let value =
                |line: &str| line.strip_prefix(name)?.strip_prefix('{')?.split_once("} ")?.1.parse().ok();
            let line = text.lines().find_map(value);
            line.unwrap_or_else(|| panic!("no {name}: {text}"))
        };
        let counts = || -> (u64, u64) {
            (counted("basalt_verified_files_total"), counted("basalt_damage_found_total"))
        };
        assert_eq!(counts(), (6, 0));
        assert_eq!(state.tables.verify_next(&mut place).await, most, "all were read; it starts again");

        let mut bytes = std::fs::read(&files[3]).unwrap();
        bytes[20] ^= 1;
        std::fs::write(&files[3], bytes).unwrap();
        for _ in &files {
            state.tables.verify_next(&mut place).await;
        }
        assert_eq!(counts(), (12, 1));
    }
}
