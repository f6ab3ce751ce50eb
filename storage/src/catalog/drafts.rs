//! Tables that get their names when they have their rows.
//!
//! A draft is a table in a folder that no entry of the journal names: whoever makes it writes to it, and nobody else knows of it.
//! One entry then gives it its name, perhaps in the place of another table. Until that entry a file in the folder marks it
//! as a draft, which is what tells it from a table whose entry was lost: a draft whose maker was cut off is removed by a
//! [vacuum](CatalogLog::vacuum), after a day.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use basalt_core::{
    error::{Error, ErrorKind},
    schema::{Schema, check_name},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::Instant;
use uuid::Uuid;

use super::{CatalogLog, CatalogState, Change, Step, TableEntry, location};
use crate::{
    error::{Result, StorageError},
    limits::{CONCURRENT_REQUESTS, DRAFT_AGE, ORPHAN_AGE},
    log::{TableLog, TableState},
};

/// What marks a folder as a draft's; the name begins with what Delta's own clean-up leaves alone.
pub(crate) const MARK: &str = "_basalt_draft";

/// A table that has no name yet.
#[derive(Clone, Debug)]
pub struct Draft {
    /// What will be its entry.
    pub entry: TableEntry,
    /// Its log.
    pub log: TableLog,
    /// Its state, without rows.
    pub table: Arc<TableState>,
    /// Milliseconds since 1970.
    made: i64,
}

/// A table that goes in the moment when drafts get their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone {
    /// Its name.
    pub name: String,
    /// The [number](TableEntry::number) that it must have; `None`: it is whichever has the name, if one has.
    pub number: Option<u64>,
    /// Until when it may go, where its log is closed for as long.
    pub until: Option<Instant>,
}

impl Gone {
    /// Which table of a state it is.
    fn of(&self, state: &CatalogState) -> Result<Option<Uuid>> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            let message = format!("the catalog has no answer for so long that table {:?} stays", self.name);
            return Err(Error::new(ErrorKind::WriteConflict, message).into());
        }
        match self.number {
            Some(number) => {
                let same = state.same(&self.name, |table| table.number() == number).map(Some);
                same.map_err(|error| match self.until {
                    // What takes its place was made of it, and is to be made again.
                    Some(_) => {
                        let message = format!("table {:?} was dropped or replaced meanwhile", self.name);
                        Error::new(ErrorKind::WriteConflict, message).into()
                    }
                    None => error,
                })
            }
            None => Ok(state.tables().get(&self.name).map(|table| table.id)),
        }
    }
}

impl CatalogLog {
    /// Makes an empty table that has no name before it is [published](Self::publish).
    ///
    /// # Errors
    /// Those of [`create`](Self::create); that the name is taken is found when it is published.
    pub async fn draft(
        &self,
        state: &Arc<CatalogState>,
        name: &str,
        schema: &Schema,
        properties: BTreeMap<String, String>,
    ) -> Result<Draft> {
        check_name(name).map_err(|e| e.at("name"))?;
        // A store with folders and without a journal would be taken for one that has lost it.
        self.begun(state).await?;
        let (id, made) = (self.store.new_id(), self.store.now_millis());
        let location = location(name, id);
        let folder = self.store.folder(&location)?;
        // Before there is a table: one that is cut off is a draft, or nothing.
        folder.put(MARK, Bytes::new()).await?;
        let (log, table) = TableLog::create(folder, name, schema, properties).await?;
        let delta_id = Some(table.id().to_owned());
        let entry = TableEntry { name: name.to_owned(), id, location, attached: false, delta_id };
        Ok(Draft { entry, log: log.keeping(self.keep), table, made })
    }

    /// Gives drafts their names; those tables go in the same moment, whose names they may take. All of it happens, or
    /// nothing.
    ///
    /// # Errors
    /// After [`StorageError::Unknown`] the drafts may have their names, and must not be [discarded](Self::discard); after any
    /// other error nothing has happened. [`StorageError::Invalid`] with [`ErrorKind::TableExists`] where a name is taken, with
    /// [`ErrorKind::TableNotFound`] where a table that goes is not there, or a draft is too old, with
    /// [`ErrorKind::WriteConflict`] where it is too late for one, or one is not there that has an end.
    pub async fn publish(
        &self,
        state: &Arc<CatalogState>,
        drafts: &[Draft],
        gone: &[Gone],
    ) -> Result<Arc<CatalogState>> {
        let now = self.store.now_millis();
        // Default: a clock that was put back makes none old.
        let age = |draft: &Draft| Duration::from_millis(u64::try_from(now - draft.made).unwrap_or(0));
        if let Some(old) = drafts.iter().find(|draft| age(draft) > DRAFT_AGE) {
            let message = format!("table {:?} was begun too long ago, and is given up", old.entry.name);
            return Err(Error::new(ErrorKind::TableNotFound, message).into());
        }
        let step = |state: &CatalogState| {
            let mut drop = gone.iter().map(|gone| gone.of(state)).collect::<Result<Vec<_>>>()?;
            drop.retain(Option::is_some);
            let drop: Vec<Uuid> = drop.into_iter().flatten().collect();
            let mut after = CatalogState::clone(state);
            drop.iter().for_each(|id| after.remove(*id, now));
            for draft in drafts {
                after.check_free(&draft.entry.name)?;
                after.tables.insert(draft.entry.name.clone(), draft.entry.clone());
            }
            let create: Vec<_> = drafts.iter().map(|draft| draft.entry.clone()).collect();
            // What older versions know as well.
            Ok(match (<[_; 1]>::try_from(create), &drop[..]) {
                (Ok([table]), []) => Step::Create(table),
                (Ok(create), _) => Step::Change(Change { drop, create: create.into() }),
                (Err(create), _) => Step::Change(Change { drop, create }),
            })
        };
        let state = self.step(state, step).await?;
        for draft in drafts {
            // It has a name now: the mark says nothing any more.
            let mark = format!("{}/{MARK}", draft.entry.location);
            let _ = self.store.delete_mark("its table has a name", &mark).await;
        }
        Ok(state)
    }

    /// Removes a draft that was not published, nor will be.
    ///
    /// # Errors
    /// [`StorageError::Store`]; what is left then is removed by a vacuum.
    pub async fn discard(&self, draft: &Draft) -> Result<()> {
        self.remove_folder("its table got no name", &draft.entry.location).await.map(|_| ())
    }

    /// Those of some folders, which no entry names, that are drafts: with whether each is too old, at a time, to be published.
    pub(crate) async fn drafts_among(
        &self,
        folders: Vec<String>,
        now: SystemTime,
    ) -> Result<Vec<(String, bool)>> {
        let looked = folders.into_iter().map(|folder| async move {
            let mark = self.store.head(&format!("{folder}/{MARK}")).await?;
            Ok::<_, StorageError>(mark.map(|mark| (folder, mark.by(now).age() > ORPHAN_AGE)))
        });
        let mut found = stream::iter(looked).buffered(CONCURRENT_REQUESTS);
        let mut drafts = Vec::new();
        while let Some(looked) = found.try_next().await? {
            drafts.extend(looked);
        }
        Ok(drafts)
    }
}
