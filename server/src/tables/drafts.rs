//! Tables that get their names when they have their rows: nobody else finds them before, and one step of the catalog names
//! them, perhaps in the place of others.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, atomic::Ordering},
};

use basalt_core::{
    error::ErrorKind,
    schema::Schema,
    table::{Change, Retention, Table},
};
use basalt_storage::{Deletes, StorageError, retention_properties};
use tokio::time::{Instant, sleep};

#[cfg(feature = "sql")]
use super::TableVersion;
use super::{Durable, Tables, closed, commit::Edit, rewrite};
use crate::{limits, status::RequestError};

/// A table that has no name yet.
#[derive(Debug)]
pub(crate) struct Draft {
    table: Arc<Table>,
    /// `None`: it is in memory alone.
    stored: Option<basalt_storage::Draft>,
}

impl Draft {
    /// For its rows.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }
}

/// A table that goes in the moment when drafts get their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    /// Its name.
    pub(crate) name: String,
    /// The id that it must have; `None`: it is whichever has the name, if one has.
    pub(crate) id: Option<u64>,
    /// The version that it must have: what takes its place was made from that. It has an id then.
    pub(crate) at: Option<u64>,
}

impl Tables {
    /// Makes an empty table that has no name before [`Tables::publish`].
    pub(crate) async fn draft(
        &self,
        name: &str,
        schema: Schema,
        retention: Option<Retention>,
        deletes: Deletes,
    ) -> Result<Draft, RequestError> {
        let Some(durable) = &self.durable else {
            let table = in_memory(|| self.shared.catalog.draft(name, schema), retention, deletes)?;
            return Ok(Draft { table, stored: None });
        };
        let properties = properties_of(retention.as_ref(), deletes);
        let made = durable.log.draft(&durable.state(), name, &schema, properties).await?;
        match self.add_draft(durable, &made).await {
            Ok(table) => Ok(Draft { table, stored: Some(made) }),
            Err(error) => {
                // What is left is removed later.
                let _ = durable.log.discard(&made).await;
                Err(error)
            }
        }
    }

    /// Drops a table; where there is a version, as it was then.
    pub(crate) async fn remove_at(
        &self,
        name: &str,
        at: Option<u64>,
    ) -> Result<Option<Arc<Table>>, RequestError> {
        if at.is_none() {
            return self.remove(name).await;
        }
        let table = self.shared.catalog.get(name)?;
        let gone = Gone { name: name.to_owned(), id: Some(table.id()), at };
        self.publish(Vec::new(), &[gone]).await?;
        Ok(Some(table))
    }

    /// Gives drafts their names, and removes those tables, all in one step, or nothing of it; then the drafts are discarded,
    /// unless that is not known.
    pub(crate) async fn publish(&self, drafts: Vec<Draft>, gone: &[Gone]) -> Result<(), RequestError> {
        let Some(durable) = &self.durable else {
            let published = self.publish_in_memory(&drafts, gone);
            if published.is_err() {
                self.discard_all(drafts).await;
            }
            return published;
        };
        let stored: Vec<_> = drafts.iter().filter_map(|draft| draft.stored.clone()).collect();
        let until = Instant::now() + limits::CLOSED_FOR;
        let closed = match durable.close(gone).await {
            Ok(closed) => closed,
            Err(error) => {
                self.discard_all(drafts).await;
                return Err(error);
            }
        };
        if let Err(error) = self.keep_requests(&drafts, gone).await {
            closed::open(closed).await;
            self.discard_all(drafts).await;
            return Err(error);
        }
        let gone = gone.iter().map(|gone| basalt_storage::Gone {
            name: gone.name.clone(),
            number: gone.id,
            until: gone.at.map(|_| until),
        });
        let gone: Vec<_> = gone.collect();
        let published = durable.log.publish(&durable.state(), &stored, &gone).await;
        // Of an entry that may be there it is not known who it names.
        if published.as_ref().is_err_and(|error| !matches!(error, StorageError::Unknown { .. })) {
            closed::open(closed).await;
            self.discard_all(drafts).await;
        }
        self.changed(durable, published).await?;
        // Others may have dropped it by now.
        stored.iter().for_each(|draft| self.drop_if_gone(durable, draft.entry.number()));
        Ok(())
    }

    fn publish_in_memory(&self, drafts: &[Draft], gone: &[Gone]) -> Result<(), RequestError> {
        let tables: Vec<_> = drafts.iter().map(|draft| Arc::clone(&draft.table)).collect();
        let catalog = &self.shared.catalog;
        #[cfg(feature = "sql")]
        let _views = {
            let names = || tables.iter().map(|table| table.name());
            let goes =
                |gone: &&Gone| names().all(|name| name != gone.name) && catalog.find(&gone.name).is_ok();
            self.without_views(names(), gone.iter().filter(goes).count())?
        };
        let publish = || {
            let gone = gone.iter().filter_map(|gone| match gone.id {
                Some(id) => Some((id, gone.at)),
                None => catalog.find(&gone.name).ok().map(|table| (table.id(), None)),
            });
            catalog.publish(&tables, &gone.collect::<Vec<_>>())
        };
        let mut published = publish();
        for _ in 1..limits::COMMIT_ATTEMPTS {
            let is_other = published.as_ref().is_err_and(|error| error.kind() == ErrorKind::TableNotFound);
            // Another one took the name of whichever has it, between the two looks.
            if !is_other || gone.iter().any(|gone| gone.id.is_some()) {
                break;
            }
            published = publish();
        }
        for old in published? {
            if let Some(new) = tables.iter().find(|new| new.name() == old.name()) {
                self.shared.request_log.inherit(new, &old);
            }
            self.forget(&old);
        }
        self.shared.memory.count_tables(catalog);
        Ok(())
    }

    /// The writes that tables know by their ids are those of what takes their place as well: whoever tries one again names the
    /// table, and must not make it twice.
    async fn keep_requests(&self, drafts: &[Draft], gone: &[Gone]) -> Result<(), RequestError> {
        for draft in drafts {
            let is_gone = |table: &Table| {
                gone.iter().any(|gone| gone.name == table.name() && gone.id.is_none_or(|id| id == table.id()))
            };
            let Ok(old) = self.shared.catalog.get(draft.table.name()) else { continue };
            let Some(old) = self.newest_stored(&old)?.filter(|_| is_gone(&old)) else { continue };
            let requests: Vec<_> = old.state().requests().map(|done| done.request.clone()).collect();
            let Some(new) = self.newest_stored(&draft.table)?.filter(|_| !requests.is_empty()) else {
                continue;
            };
            new.commit(Vec::new(), requests, Edit::Append).await?;
            let known = new.state();
            let known = known.requests().cloned();
            self.shared.request_log.restore(&draft.table, self.shared.environment.wall(), known);
        }
        Ok(())
    }

    async fn discard_all(&self, drafts: Vec<Draft>) {
        for draft in drafts {
            self.discard(draft).await;
        }
    }

    /// Removes a draft that was not published.
    pub(crate) async fn discard(&self, draft: Draft) {
        let Draft { table, stored } = draft;
        if let (Some(durable), Some(draft)) = (&self.durable, stored) {
            let stored = durable.tables.write().unwrap_or_else(PoisonError::into_inner).remove(&table.id());
            if let Some(stored) = stored {
                if let Some(disk) = &self.shared.disk {
                    disk.forget_table(&stored.state());
                }
                // Files that are being written for it come to their end first.
                for _ in 0..limits::DISCARD_LOOKS {
                    if Arc::strong_count(&stored) == 1 {
                        break;
                    }
                    sleep(limits::DISCARD_LOOK).await;
                }
            }
            if let Err(error) = durable.log.discard(&draft).await {
                tracing::warn!(table = table.name(), %error, "cannot remove what is left of a table that got no name");
            }
        }
        self.forget(&table);
    }

    /// A draft as it is now.
    #[cfg(feature = "sql")]
    pub(crate) fn pin_draft(&self, table: &Arc<Table>) -> Result<TableVersion, RequestError> {
        Ok(match self.newest_stored(table)? {
            Some(stored) => TableVersion::Stored(stored.state()),
            None => TableVersion::InMemory(table.snapshot()),
        })
    }

    /// Whether a table has no name yet.
    #[cfg(feature = "sql")]
    pub(crate) fn is_draft(&self, table: &Table) -> bool {
        self.newest_stored(table).is_ok_and(|stored| stored.is_some_and(|stored| !stored.is_named()))
    }

    /// Gives the draft with an id its name here, if there is such a draft.
    pub(super) fn name_draft(&self, durable: &Durable, id: u64) -> bool {
        let tables = durable.tables.read().unwrap_or_else(PoisonError::into_inner);
        let Some(stored) = tables.get(&id).filter(|stored| !stored.is_named()) else { return false };
        stored.named.store(true, Ordering::Release);
        self.shared.catalog.put(Arc::clone(&stored.table));
        true
    }
}

/// A new table in memory alone.
pub(super) fn in_memory(
    table: impl FnOnce() -> basalt_core::error::Result<Arc<Table>>,
    retention: Option<Retention>,
    deletes: Deletes,
) -> Result<Arc<Table>, RequestError> {
    if deletes == Deletes::Rewrite {
        return Err(rewrite::no_files());
    }
    let table = table()?;
    if let Some(retention) = retention {
        table.commit(Change { retention: Some(Some(Arc::new(retention))), ..Change::default() })?;
    }
    Ok(table)
}

/// What the log of a new table says of it.
pub(super) fn properties_of(retention: Option<&Retention>, deletes: Deletes) -> BTreeMap<String, String> {
    let properties = retention_properties(retention).into_iter().chain([deletes.property()]);
    properties.filter_map(|(name, value)| Some((name, value?))).collect()
}
