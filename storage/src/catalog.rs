//! Which tables there are: a journal of numbered files, each written if it is not there yet.
//!
//! An entry makes, drops or attaches one table, so that each of these happens once and for everyone, or not at
//! all. A new table's folder is written first and named by an entry then; what no entry names is removed by
//! [`CatalogLog::vacuum`].

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use basalt_core::{
    error::{Error, ErrorKind},
    limits::MAX_TABLES,
    schema::{Schema, check_name},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    error::{Result, StorageError},
    limits::{CONCURRENT_REQUESTS, FOLDER_NAME_CHARS, ORPHAN_AGE, SMALL_BYTES},
    log::{TableLog, TableState, now_millis},
    store::Store,
    vacuum::Vacuumed,
};

const JOURNAL: &str = "catalog";
const TABLES: &str = "tables";

/// A table of a catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableEntry {
    /// Its name.
    pub name: String,
    /// What tells it from a table of the same name before or behind it.
    pub id: Uuid,
    /// Its folder in the store; of an attached table, its address.
    pub location: String,
    /// Whether it belongs to another writer, and is read only.
    #[serde(default)]
    pub attached: bool,
    /// The id that stands in the log of an attached table: another one is another table. Entries of older versions
    /// have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_id: Option<String>,
}

impl TableEntry {
    /// The upper half of the id: sets of row addresses name their table by it.
    pub fn number(&self) -> u64 {
        self.id.as_u64_pair().0
    }
}

/// One entry of the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Step {
    Create(TableEntry),
    Drop(Uuid),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    /// Milliseconds since 1970.
    at: i64,
    /// Tells this entry from the same step of another node.
    entry: Uuid,
    step: Step,
}

/// The tables at one point of the journal; immutable.
#[derive(Clone, Debug, Default)]
pub struct CatalogState {
    /// Entries so far.
    entries: u64,
    tables: BTreeMap<String, TableEntry>,
    /// Tables that were dropped, by folder, and when.
    dropped: BTreeMap<String, i64>,
}

impl CatalogState {
    /// How many changes it has seen; it grows with each.
    pub fn version(&self) -> u64 {
        self.entries
    }

    /// All tables, by name.
    pub fn tables(&self) -> &BTreeMap<String, TableEntry> {
        &self.tables
    }

    fn apply(&mut self, entry: Entry) {
        self.entries += 1;
        match entry.step {
            Step::Create(table) => {
                self.tables.insert(table.name.clone(), table);
            }
            Step::Drop(id) => {
                if let Some(name) =
                    self.tables.values().find(|table| table.id == id).map(|table| table.name.clone())
                    && let Some(table) = self.tables.remove(&name)
                    && !table.attached
                {
                    self.dropped.insert(table.location, entry.at);
                }
            }
        }
    }

    fn get(&self, name: &str) -> Result<&TableEntry> {
        self.tables.get(name).ok_or_else(|| {
            let shown: String = name.chars().take(128).collect();
            Error::new(ErrorKind::TableNotFound, format!("there is no table {shown:?}")).at("table").into()
        })
    }

    fn check_free(&self, name: &str) -> Result<()> {
        if self.tables.contains_key(name) {
            return Err(Error::new(ErrorKind::TableExists, format!("table {name:?} exists"))
                .at("name")
                .into());
        }
        if self.tables.len() >= MAX_TABLES {
            let message = format!("there are {MAX_TABLES} tables, the most");
            return Err(Error::new(ErrorKind::MemoryLimit, message).into());
        }
        Ok(())
    }
}

/// The catalog of a store. A clone is the same catalog.
#[derive(Clone, Debug)]
pub struct CatalogLog {
    store: Store,
    keep: Duration,
}

impl CatalogLog {
    /// The catalog in a store; nothing is read yet. `keep`: how long what is no longer part of a table, and dropped
    /// tables, stay readable.
    pub fn new(store: Store, keep: Duration) -> Self {
        Self { store, keep }
    }

    /// Where it is.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Reads the whole journal; that of a new store is empty.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`] for a journal with holes or other faults.
    pub async fn load(&self) -> Result<Arc<CatalogState>> {
        let listed = self.store.list(JOURNAL, None).await?;
        let entries = listed.iter().filter(|file| number_of(&file.path).is_some()).count() as u64;
        let read = async |number: u64| self.read(number).await;
        let mut found = stream::iter(0..entries).map(read).buffered(CONCURRENT_REQUESTS);
        let mut state = CatalogState::default();
        while let Some(entry) = found.try_next().await? {
            let missing = || StorageError::corrupt(entry_path(state.entries), "the entry is missing");
            state.apply(entry.ok_or_else(missing)?);
        }
        drop(found);
        self.refresh(&Arc::new(state)).await
    }

    /// Follows the journal: the same state when nothing has changed.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn refresh(&self, state: &Arc<CatalogState>) -> Result<Arc<CatalogState>> {
        let mut next: Option<CatalogState> = None;
        while let Some(entry) = self.read(next.as_ref().unwrap_or(state).entries).await? {
            next.get_or_insert_with(|| CatalogState::clone(state)).apply(entry);
        }
        Ok(next.map_or_else(|| Arc::clone(state), Arc::new))
    }

    async fn read(&self, number: u64) -> Result<Option<Entry>> {
        let path = entry_path(number);
        let Some(bytes) = self.store.get(&path, SMALL_BYTES).await? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| StorageError::corrupt(path, e))
    }

    /// Makes an empty table.
    ///
    /// # Errors
    /// [`StorageError::Invalid`] with [`ErrorKind::TableExists`] or [`ErrorKind::InvalidName`], or for a schema
    /// that Delta cannot hold; [`StorageError::Store`].
    pub async fn create(
        &self,
        state: &Arc<CatalogState>,
        name: &str,
        schema: &Schema,
        properties: BTreeMap<String, String>,
    ) -> Result<Created> {
        check_name(name).map_err(|e| e.at("name"))?;
        state.check_free(name)?;
        let id = Uuid::new_v4();
        let location = format!("{TABLES}/{}", folder_name(name, id));
        let (log, table) = TableLog::create(self.store.folder(&location)?, name, schema, properties).await?;
        let entry = TableEntry { name: name.to_owned(), id, location, attached: false, log_id: None };
        let state = self.add(state, entry.clone()).await?;
        Ok(Created { catalog: state, entry, log: log.keeping(self.keep), table })
    }

    /// Attaches the table of another writer under a name, read-only, by its address.
    ///
    /// # Errors
    /// Those of [`create`](Self::create), and of [`TableLog::load`].
    pub async fn attach(&self, state: &Arc<CatalogState>, name: &str, url: &str) -> Result<Created> {
        check_name(name).map_err(|e| e.at("name"))?;
        state.check_free(name)?;
        let log = TableLog::new(Store::open_existing(url)?);
        let table = log.load().await?;
        let location = log.store().url().to_owned();
        let (id, log_id) = (Uuid::new_v4(), Some(table.id().to_owned()));
        let entry = TableEntry { name: name.to_owned(), id, location, attached: true, log_id };
        let state = self.add(state, entry.clone()).await?;
        Ok(Created { catalog: state, entry, log, table })
    }

    async fn add(&self, state: &Arc<CatalogState>, table: TableEntry) -> Result<Arc<CatalogState>> {
        let name = table.name.clone();
        self.step(state, Step::Create(table), |state| state.check_free(&name)).await
    }

    /// Drops a table, or detaches one that is attached. Its files stay for as long as the catalog keeps them.
    ///
    /// # Errors
    /// [`StorageError::Invalid`] with [`ErrorKind::TableNotFound`]; [`StorageError::Store`].
    pub async fn remove(&self, state: &Arc<CatalogState>, name: &str) -> Result<Arc<CatalogState>> {
        let id = state.get(name)?.id;
        let same = |state: &CatalogState| match state.get(name) {
            Ok(table) if table.id == id => Ok(()),
            Ok(_) => Err(Error::new(ErrorKind::TableNotFound, format!("table {name:?} was replaced")).into()),
            Err(e) => Err(e),
        };
        self.step(state, Step::Drop(id), same).await
    }

    /// Writes an entry behind those that there are, as long as `check` finds that it makes sense there.
    async fn step(
        &self,
        state: &Arc<CatalogState>,
        step: Step,
        check: impl Fn(&CatalogState) -> Result<()>,
    ) -> Result<Arc<CatalogState>> {
        let entry = Entry { at: now_millis(), entry: Uuid::new_v4(), step };
        let bytes = serde_json::to_vec(&entry).map_err(|e| StorageError::corrupt("the catalog", e))?;
        let bytes = Bytes::from(bytes);
        let mut state = self.refresh(state).await?;
        loop {
            check(&state)?;
            let path = entry_path(state.entries);
            let created = self.store.create(&path, bytes.clone()).await;
            // Its answer may have been lost; the bytes tell whose entry it is.
            let ours = matches!(created, Ok(true))
                || self.store.get(&path, SMALL_BYTES).await?.is_some_and(|found| found == bytes);
            if ours {
                let mut next = CatalogState::clone(&state);
                next.apply(entry);
                return Ok(Arc::new(next));
            }
            created?;
            state = self.refresh(&state).await?;
        }
    }

    /// The log of a table, and its newest state.
    ///
    /// # Errors
    /// Those of [`table`](Self::table) and of [`TableLog::load`]; [`StorageError::Replaced`] when another table is
    /// where one was attached.
    pub async fn open(&self, entry: &TableEntry) -> Result<(TableLog, Arc<TableState>)> {
        let log = self.table(entry)?;
        let state = log.load().await?;
        if let Some(id) = entry.log_id.as_ref().filter(|id| *id != state.id()) {
            let why = format!("another table is there, with the id {}, not {id}", state.id());
            return Err(StorageError::Replaced { path: log.store().url().to_owned(), why });
        }
        Ok((log, state))
    }

    /// The log of a table.
    ///
    /// # Errors
    /// [`StorageError::Address`] when an attached table's store is gone.
    pub fn table(&self, entry: &TableEntry) -> Result<TableLog> {
        let store = match entry.attached {
            true => Store::open_existing(&entry.location)?,
            false => self.store.folder(&entry.location)?,
        };
        Ok(TableLog::new(store).keeping(self.keep))
    }

    /// Removes the files of tables that were dropped longer ago than the catalog keeps them, and of tables whose
    /// creation was cut off.
    ///
    /// # Errors
    /// [`StorageError::Store`]; what was removed until then is gone.
    pub async fn vacuum(&self, state: &CatalogState) -> Result<Vacuumed> {
        let live: BTreeSet<&str> = state.tables.values().map(|table| table.location.as_str()).collect();
        let keep = i64::try_from(self.keep.as_millis()).unwrap_or(i64::MAX);
        let mut done = Vacuumed::default();
        for folder in self.store.folders(TABLES).await? {
            if live.contains(folder.as_str()) {
                continue;
            }
            let files = self.store.list(&folder, None).await?;
            let gone = match state.dropped.get(&folder) {
                Some(at) => now_millis().saturating_sub(*at) > keep,
                None => files.iter().all(|file| file.age() > ORPHAN_AGE + self.keep),
            };
            if gone {
                done.add(&files);
                self.store.delete(files.into_iter().map(|file| file.path)).await?;
            }
        }
        self.store.delete_leftovers(ORPHAN_AGE).await?;
        Ok(done)
    }
}

/// A table that has just come into the catalog.
#[derive(Clone, Debug)]
pub struct Created {
    /// The catalog with it.
    pub catalog: Arc<CatalogState>,
    /// Its entry.
    pub entry: TableEntry,
    /// Its log.
    pub log: TableLog,
    /// Its state.
    pub table: Arc<TableState>,
}

fn entry_path(number: u64) -> String {
    format!("{JOURNAL}/{number:020}.json")
}

fn number_of(path: &str) -> Option<u64> {
    path.strip_prefix(JOURNAL)?.strip_prefix('/')?.strip_suffix(".json")?.parse().ok()
}

/// A folder's name: the table's, for people, as far as every store takes its characters, and a part of the id.
fn folder_name(name: &str, id: Uuid) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().take(FOLDER_NAME_CHARS).map(plain).collect();
    format!("{name}-{:08x}", id.as_fields().0)
}
