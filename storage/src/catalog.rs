//! Which tables there are: a journal of numbered files, each written if it is not there yet.
//!
//! An entry makes, drops or attaches one table, or several at once, or makes or drops a view, so that each of these happens once and
//! for everyone, or not at all. The first entry begins the journal, so that a store whose journal is lost is told from a new one. A new table's
//! folder is written before the entry that names it: a creation that is cut off between the two leaves a folder that
//! nothing names. It stays, for nothing tells it from a table whose entry was lost; only what the entry of a drop names
//! is ever removed ([`CatalogLog::vacuum`]).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use basalt_core::{
    error::{Error, ErrorKind},
    schema::{Schema, check_name},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::{
    error::{Result, StorageError},
    limits::{CONCURRENT_REQUESTS, FOLDER_NAME_CHARS, RESOLVE_DELAY, RESOLVE_FOR, SMALL_BYTES},
    log::{TableLog, TableState},
    store::Store,
};

mod drafts;
mod state;

pub(crate) use drafts::MARK;
pub use drafts::{Draft, Gone};
pub use state::CatalogState;

pub(crate) const JOURNAL: &str = "catalog";
pub(crate) const TABLES: &str = "tables";

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
    /// The id in the log of the Delta table: another one is another table. Entries of older versions lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta_id: Option<String>,
}

impl TableEntry {
    /// The upper half of the id: sets of row addresses name their table by it.
    pub fn number(&self) -> u64 {
        self.id.as_u64_pair().0
    }

    /// Whether its folder is the one that Basalt gave it when it made it.
    pub(crate) fn is_in_own_folder(&self) -> bool {
        !self.attached && self.location == location(&self.name, self.id)
    }
}

/// One entry of the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Step {
    /// The first entry: the id is that of the store.
    Begin(Uuid),
    Create(TableEntry),
    Drop(Uuid),
    /// Tables go, and others come, perhaps in their place: all of it, or nothing.
    Change(Change),
    /// It takes the place of one of the same name.
    CreateView(ViewEntry),
    DropView(String),
}

/// Tables that go and come at once.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Change {
    drop: Vec<Uuid>,
    create: Vec<TableEntry>,
}

/// A query that has a name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ViewEntry {
    name: String,
    /// Its text.
    sql: Arc<str>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    /// Milliseconds since 1970.
    at: i64,
    /// Tells this entry from the same step of another node.
    entry: Uuid,
    step: Step,
}

/// The second line of an entry's file: what tells that the first is whole, and in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seal {
    number: u64,
    crc32: u32,
}

/// The catalog of a store. A clone is the same catalog.
#[derive(Clone, Debug)]
pub struct CatalogLog {
    pub(crate) store: Store,
    pub(crate) keep: Duration,
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
    /// [`StorageError::Corrupt`] for a journal with holes or other errors; [`StorageError::Address`] for a store that
    /// has no journal and is not new: there are folders where those of tables would be.
    pub async fn load(&self) -> Result<Arc<CatalogState>> {
        let listed = self.store.list(JOURNAL, None).await?;
        let entries = listed.iter().filter(|file| number_of(&file.path).is_some()).count() as u64;
        let read = async |number: u64| self.read(number).await;
        let mut found = stream::iter(0..entries).map(read).buffered(CONCURRENT_REQUESTS);
        let mut state = CatalogState::default();
        while let Some(entry) = found.try_next().await? {
            let missing = || {
                let path = format!("{}/{}", self.store.url(), entry_path(state.entries));
                StorageError::corrupt(path, "the entry is missing, and later ones are there: put it back")
            };
            let (entry, sealed) = entry.ok_or_else(missing)?;
            state.apply(entry, sealed)?;
        }
        drop(found);
        self.refresh(&Arc::new(state)).await
    }

    /// Follows the journal: the same state when nothing has changed.
    ///
    /// # Errors
    /// As [`load`](Self::load); [`StorageError::Corrupt`] also when what was read before is gone, or another's.
    pub async fn refresh(&self, state: &Arc<CatalogState>) -> Result<Arc<CatalogState>> {
        let next = self.newer(state).await?;
        match state.last {
            Some(last) => self.check_still_there(state.entries - 1, last).await?,
            // A journal that is begun meanwhile is begun before there are tables.
            None if next.entries == 0 => {
                if let Err(lost) = self.check_new().await
                    && self.read(0).await?.is_none()
                {
                    return Err(lost);
                }
            }
            None => {}
        }
        Ok(next)
    }

    /// The state behind all entries that have come since: one read of the store where none has. Unlike
    /// [`refresh`](Self::refresh) it does not look whether the journal is still there.
    ///
    /// # Errors
    /// [`StorageError::Store`]; [`StorageError::Corrupt`] for an entry that is not whole.
    pub async fn newer(&self, state: &Arc<CatalogState>) -> Result<Arc<CatalogState>> {
        let mut next: Option<CatalogState> = None;
        while let Some((entry, sealed)) = self.read(next.as_ref().unwrap_or(state).entries).await? {
            next.get_or_insert_with(|| CatalogState::clone(state)).apply(entry, sealed)?;
        }
        Ok(next.map_or_else(|| Arc::clone(state), Arc::new))
    }

    /// That an entry is the one that was read before.
    async fn check_still_there(&self, number: u64, id: Uuid) -> Result<()> {
        let why = match self.read(number).await? {
            Some((entry, _)) if entry.entry == id => return Ok(()),
            Some(_) => "it is another entry than was read before",
            None => "the entry was read before, and is gone",
        };
        let why = format!(
            "{why}: the catalog was removed or replaced. Until it is back, no table is made, attached or dropped"
        );
        Err(StorageError::corrupt(format!("{}/{}", self.store.url(), entry_path(number)), why))
    }

    /// That a store without a journal has no tables either.
    async fn check_new(&self) -> Result<()> {
        let folders = self.store.folders(TABLES).await?;
        let (found, n) = match folders.first() {
            Some(first) => (first.clone(), folders.len()),
            None => match self.store.list(TABLES, None).await?.first() {
                Some(file) => (file.path.clone(), 1),
                None => return Ok(()),
            },
        };
        let why = format!(
            "it has {n} folders or files below {TABLES}/ ({found} is one), and no {JOURNAL}/ that names them. If these \
             are Basalt's tables, their catalog is lost or not mounted: put {JOURNAL}/ back. If they are another \
             program's, give Basalt a folder of its own, such as {}/basalt, and attach them",
            self.store.url()
        );
        Err(StorageError::Address { url: self.store.url().to_owned(), why })
    }

    /// The folders of tables that no entry names: of creations that were cut off, or of tables whose entries were lost.
    /// Those of [drafts](Self::draft) are not among them.
    ///
    /// # Errors
    /// [`StorageError::Store`].
    pub async fn unnamed_folders(&self, state: &CatalogState) -> Result<Vec<String>> {
        let mut folders = self.store.folders(TABLES).await?;
        folders.retain(|folder| !state.names(folder));
        let drafts = self.drafts_among(folders.clone(), self.store.environment().wall()).await?;
        folders.retain(|folder| drafts.iter().all(|(draft, _)| draft != folder));
        let mut unnamed = Vec::new();
        for folder in folders {
            // Where a removal was late, a folder without files may be left.
            if !self.store.list(&folder, None).await?.is_empty() {
                unnamed.push(folder);
            }
        }
        Ok(unnamed)
    }

    /// The journal with its first entry.
    async fn begun(&self, state: &Arc<CatalogState>) -> Result<Arc<CatalogState>> {
        let state = self.refresh(state).await?;
        if state.entries > 0 {
            return Ok(state);
        }
        let entry = Entry {
            at: self.store.now_millis(),
            entry: self.store.new_id(),
            step: Step::Begin(self.store.new_id()),
        };
        self.store.create(&entry_path(0), bytes_of(0, &entry)?).await?;
        self.refresh(&state).await
    }

    /// An entry, and whether it has a seal.
    async fn read(&self, number: u64) -> Result<Option<(Entry, bool)>> {
        let path = entry_path(number);
        let Some(bytes) = self.store.get(&path, SMALL_BYTES).await? else { return Ok(None) };
        let corrupt = |why: String| StorageError::corrupt(format!("{}/{path}", self.store.url()), why);
        let end = bytes.iter().position(|b| *b == b'\n').map_or(bytes.len(), |end| end + 1);
        let (line, seal) = bytes.split_at(end);
        let sealed = !seal.is_empty();
        if sealed {
            let seal: Seal =
                serde_json::from_slice(seal).map_err(|e| corrupt(format!("its second line: {e}")))?;
            if seal.number != number {
                return Err(corrupt(format!(
                    "it is entry {}, and stands in the place of another",
                    seal.number
                )));
            }
            if seal.crc32 != crc32fast::hash(line) {
                return Err(corrupt("its bytes are not those that were written".to_owned()));
            }
        }
        let entry = serde_json::from_slice(line).map_err(|e| corrupt(e.to_string()))?;
        Ok(Some((entry, sealed)))
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
        let state = self.begun(state).await?;
        let id = self.store.new_id();
        let location = location(name, id);
        let (log, table) = TableLog::create(self.store.folder(&location)?, name, schema, properties).await?;
        let delta_id = Some(table.id().to_owned());
        let entry = TableEntry { name: name.to_owned(), id, location, attached: false, delta_id };
        let state = match self.add(&state, entry.clone()).await {
            Ok(state) => state,
            Err(error) => {
                // Another table took the name: no entry names this one, nor will. Of a store that failed that is not
                // known.
                if let StorageError::Invalid(_) = error {
                    let _ = self.remove_folder("its table's name was taken", &entry.location).await;
                }
                return Err(error);
            }
        };
        Ok(Created { catalog: state, entry, log: log.keeping(self.keep), table })
    }

    /// Reads the log of another writer's table by its address, to be attached under a name. Its errors are of that table,
    /// and not of the catalog.
    ///
    /// # Errors
    /// A name that is none, or taken, is [`StorageError::Invalid`]; those of [`TableLog::load`].
    pub async fn look_at(
        &self,
        state: &CatalogState,
        name: &str,
        url: &str,
    ) -> Result<(TableLog, Arc<TableState>)> {
        check_name(name).map_err(|e| e.at("name"))?;
        state.check_free(name)?;
        let log = TableLog::new(Store::open_existing_in(Arc::clone(self.store.environment()), url)?);
        let table = log.load().await?;
        Ok((log, table))
    }

    /// Attaches the table of another writer that was [looked at](Self::look_at) under a name, read-only.
    ///
    /// # Errors
    /// Those of [`create`](Self::create).
    pub async fn attach(
        &self,
        state: &Arc<CatalogState>,
        name: &str,
        (log, table): (TableLog, Arc<TableState>),
    ) -> Result<Created> {
        let location = log.store().url().to_owned();
        let (id, delta_id) = (self.store.new_id(), Some(table.id().to_owned()));
        let entry = TableEntry { name: name.to_owned(), id, location, attached: true, delta_id };
        let state = self.add(&self.begun(state).await?, entry.clone()).await?;
        Ok(Created { catalog: state, entry, log, table })
    }

    async fn add(&self, state: &Arc<CatalogState>, table: TableEntry) -> Result<Arc<CatalogState>> {
        let step = |state: &CatalogState| {
            state.check_free(&table.name)?;
            Ok(Step::Create(table.clone()))
        };
        self.step(state, step).await
    }

    /// Drops a table, or detaches one that is attached. Its files stay for as long as the catalog keeps them.
    ///
    /// # Errors
    /// [`StorageError::Invalid`] with [`ErrorKind::TableNotFound`]; [`StorageError::Store`].
    pub async fn remove(&self, state: &Arc<CatalogState>, name: &str) -> Result<Arc<CatalogState>> {
        let id = state.get(name)?.id;
        self.step(state, |state| state.same(name, |table| table.id == id).map(Step::Drop)).await
    }

    /// Writes an entry without effect: whoever was about to write one, and goes by what was there before, looks again.
    ///
    /// # Errors
    /// [`StorageError::Store`].
    pub async fn touch(&self, state: &Arc<CatalogState>) -> Result<Arc<CatalogState>> {
        self.step(state, |_| Ok(self.nothing())).await
    }

    /// What no table is changed by.
    fn nothing(&self) -> Step {
        Step::Drop(self.store.new_id())
    }

    /// Gives a query a name; `replace`: in the place of a view that has it.
    ///
    /// # Errors
    /// [`StorageError::Invalid`] with [`ErrorKind::TableExists`] or [`ErrorKind::InvalidName`]; [`StorageError::Store`].
    pub async fn create_view(
        &self,
        state: &Arc<CatalogState>,
        name: &str,
        sql: &str,
        replace: bool,
    ) -> Result<Arc<CatalogState>> {
        check_name(name).map_err(|e| e.at("name"))?;
        let check = |state: &CatalogState| match state.views.contains_key(name) && replace {
            true => Ok(()),
            false => state.check_free(name),
        };
        check(state)?;
        let state = self.begun(state).await?;
        let view = ViewEntry { name: name.to_owned(), sql: sql.into() };
        self.step(&state, |state| check(state).map(|()| Step::CreateView(view.clone()))).await
    }

    /// Drops a view.
    ///
    /// # Errors
    /// [`StorageError::Invalid`] with [`ErrorKind::TableNotFound`]; [`StorageError::Store`].
    pub async fn remove_view(&self, state: &Arc<CatalogState>, name: &str) -> Result<Arc<CatalogState>> {
        let step = |state: &CatalogState| match state.views.contains_key(name) {
            true => Ok(Step::DropView(name.to_owned())),
            false => Err(no_view(name).into()),
        };
        self.step(state, step).await
    }

    /// Writes an entry behind those that there are: what `step` makes of these, or its error.
    async fn step(
        &self,
        state: &Arc<CatalogState>,
        step: impl Fn(&CatalogState) -> Result<Step>,
    ) -> Result<Arc<CatalogState>> {
        let (at, id) = (self.store.now_millis(), self.store.new_id());
        let mut state = self.refresh(state).await?;
        loop {
            let entry = Entry { at, entry: id, step: step(&state)? };
            let bytes = bytes_of(state.entries, &entry)?;
            if self.put_entry(state.entries, bytes).await? {
                let mut next = CatalogState::clone(&state);
                next.apply(entry, true)?;
                return Ok(Arc::new(next));
            }
            state = self.refresh(&state).await?;
        }
    }

    /// Writes an entry with a number; `false`: another one has it. Of one whose answer was lost it is found out whether it
    /// is there, and where it is not, which does not mean that it never comes, another without effect takes its number.
    async fn put_entry(&self, number: u64, bytes: Bytes) -> Result<bool> {
        let path = entry_path(number);
        let error = match self.store.create(&path, bytes.clone()).await {
            Ok(true) => return Ok(true),
            Ok(false) => StorageError::corrupt(&path, "it exists and cannot be read"),
            Err(error) => error,
        };
        let until = Instant::now() + RESOLVE_FOR;
        let mut delay = RESOLVE_DELAY;
        loop {
            match self.store.get(&path, SMALL_BYTES).await {
                Ok(Some(found)) if found == bytes => {
                    // It counts once it would outlive a crash.
                    let synced = self.store.sync(&path).await;
                    return synced.map(|()| true).map_err(|error| StorageError::unknown(path, error));
                }
                Ok(Some(_)) => return Ok(false),
                // What a directory has not got after an error it will not get.
                Ok(None) if self.store.is_local() => return Err(error),
                Ok(None) => {
                    let (at, entry) = (self.store.now_millis(), self.store.new_id());
                    let nothing = Entry { at, entry, step: self.nothing() };
                    if matches!(self.store.create(&path, bytes_of(number, &nothing)?).await, Ok(true)) {
                        let store = self.store.url();
                        tracing::warn!(
                            store,
                            number,
                            "an entry without effect keeps a lost one out of the catalog"
                        );
                        return Ok(false);
                    }
                }
                Err(_) => {}
            }
            if Instant::now() >= until {
                return Err(StorageError::unknown(path, error));
            }
            sleep(delay).await;
            delay = (delay * 2).min(Duration::from_secs(1));
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
        if let Some(id) = entry.delta_id.as_ref().filter(|id| *id != state.id()) {
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
            true => Store::open_existing_in(Arc::clone(self.store.environment()), &entry.location)?,
            false => self.store.folder(&entry.location)?,
        };
        Ok(TableLog::new(store).keeping(self.keep))
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

/// The error of a name that is no view's.
pub fn no_view(name: &str) -> Error {
    let shown: String = name.chars().take(128).collect();
    Error::new(ErrorKind::TableNotFound, format!("there is no view {shown:?}")).at("name")
}

fn bytes_of(number: u64, entry: &Entry) -> Result<Bytes> {
    let failed = |e: serde_json::Error| StorageError::corrupt("the catalog", e);
    let mut bytes = serde_json::to_vec(entry).map_err(failed)?;
    bytes.push(b'\n');
    let seal = Seal { number, crc32: crc32fast::hash(&bytes) };
    serde_json::to_writer(&mut bytes, &seal).map_err(failed)?;
    Ok(bytes.into())
}

fn entry_path(number: u64) -> String {
    format!("{JOURNAL}/{number:020}.json")
}

fn number_of(path: &str) -> Option<u64> {
    path.strip_prefix(JOURNAL)?.strip_prefix('/')?.strip_suffix(".json")?.parse().ok()
}

/// The folder of a table that Basalt makes.
fn location(name: &str, id: Uuid) -> String {
    format!("{TABLES}/{}", folder_name(name, id))
}

/// A folder's name: the table's, for people, as far as every store takes its characters, and a part of the id.
fn folder_name(name: &str, id: Uuid) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().take(FOLDER_NAME_CHARS).map(plain).collect();
    format!("{name}-{:08x}", id.as_fields().0)
}
