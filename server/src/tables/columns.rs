//! A table whose columns change: the columns belong to the version. A newer version with others becomes a table of its
//! own under the same name and id, which takes the old one's place at one moment. Queries that run go on with the old
//! one; its versions are not read any longer after that.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError},
};

use basalt_core::{
    fragment::{Fragment, FragmentData},
    table::Table,
};
use basalt_proto::v1::ErrorReason;
use basalt_storage::{FragmentEntry, TableState};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
};

use super::{Tables, commit, follow::Followed, load, stored::Stored};
use crate::{limits, memory::Consumer, status::Fault};

impl Tables {
    /// Goes to a version with other columns, which was the newest at a moment. The caller holds the lock of the old ones.
    pub(super) async fn replace(
        &self,
        old: &Arc<Stored>,
        state: Arc<TableState>,
        followed: Followed,
    ) -> Result<(), Fault> {
        let Some(at_rest) = &self.at_rest else { return Ok(()) };
        let (name, id) = (old.table.name(), old.table.id());
        let fragments = old.with_columns_of(&state).await?;
        let table = Arc::new(Table::new(name, id, (**state.schema()).clone(), state.version()));
        let (sender, queue) = mpsc::channel(limits::WRITES);
        let (shared, attached) = (Arc::clone(&self.shared), old.attached);
        let new =
            Stored::new(Arc::clone(&table), old.log.clone(), attached, shared, Arc::clone(&state), sender);
        new.set_followed(|known| *known = followed);
        let new = Arc::new(new);
        new.advance(Arc::clone(&state), fragments, &|_| {}).await?;
        let mut tables = at_rest.tables.write().unwrap_or_else(PoisonError::into_inner);
        // It may have been dropped meanwhile.
        let is_there = tables.get(&id).is_some_and(|known| Arc::ptr_eq(known, old));
        if is_there && self.shared.catalog.replace(table).is_ok() {
            tokio::spawn(commit::run(Arc::downgrade(&new), queue, self.shared.commit_delay));
            tables.insert(id, new);
            tracing::info!(table = name, version = state.version(), "the table has other columns");
        }
        drop(tables);
        self.shared.memory.count_tables(&self.shared.catalog);
        Ok(())
    }
}

/// The error of what was begun with columns that the table has no longer.
pub(super) fn other_columns(table: &Table) -> Fault {
    let message = format!("the columns of table {:?} have changed; ask again", table.name());
    Fault::new(ErrorReason::VersionGone, message)
}

impl Stored {
    /// The fragments that this node holds of a version with other columns and of this one: what is the same in both is
    /// shared, and the rest is read. Fragments of other files are left to the caller.
    async fn with_columns_of(
        self: &Arc<Self>,
        state: &Arc<TableState>,
    ) -> Result<HashMap<u32, Fragment>, Fault> {
        let (before, current) = (self.state(), self.table.snapshot());
        let columns = 0..state.schema().fields().len();
        let same: Arc<[Option<usize>]> = columns.map(|place| state.same_column(place, &before)).collect();
        let permits = Arc::new(Semaphore::new(limits::LOADS));
        let mut reads = JoinSet::new();
        for entry in state.fragments().iter() {
            let (is_mine, source) = (self.shared.peers().holds(self.table.id(), entry.id), entry.source());
            let held = current.fragment(entry.id).filter(|_| is_mine);
            let Some((fragment, was)) = held.and_then(|held| Some((held, held.source()?))) else { continue };
            if was.rows != source.rows {
                continue;
            }
            let has_same_deleted = was == source;
            let (stored, state, entry, fragment, same, permits) = (
                Arc::clone(self),
                Arc::clone(state),
                entry.clone(),
                fragment.clone(),
                Arc::clone(&same),
                Arc::clone(&permits),
            );
            reads.spawn(async move {
                let _permit = permits.acquire_owned().await;
                let data = stored.with_columns(&state, &entry, fragment.data(), &same).await?;
                if has_same_deleted {
                    let fragment = Fragment::new(entry.id, data).with_deleted(fragment.deleted().cloned());
                    return Ok(fragment.with_source(source));
                }
                load::fragment(&stored.log, &state, &entry, Some(data), &stored.shared.cpu).await
            });
        }
        let mut fragments = HashMap::new();
        while let Some(read) = reads.join_next().await {
            let fragment = read.map_err(|_| Fault::internal())??;
            fragments.insert(fragment.id(), fragment);
        }
        Ok(fragments)
    }

    /// The rows of a fragment with the columns of another version: those that `same` names by their places are shared.
    async fn with_columns(
        &self,
        state: &TableState,
        entry: &FragmentEntry,
        data: &FragmentData,
        same: &[Option<usize>],
    ) -> Result<Arc<FragmentData>, Fault> {
        let new: Vec<usize> = (0..same.len()).filter(|place| same[*place].is_none()).collect();
        let mut held = self.shared.memory.reserve(Consumer::Maintenance);
        let share = u128::from(load::expected_bytes(entry)) * new.len() as u128 / same.len().max(1) as u128;
        held.set(u64::try_from(share).unwrap_or(u64::MAX))?;
        let read = match new.is_empty() {
            true => None,
            false => Some(load::read_columns(&self.log, state, entry, &new, &self.shared.cpu).await?),
        };
        let mut read = read.iter().flat_map(|read| read.columns());
        let column = |place: &Option<usize>| match place {
            Some(place) => data.columns().get(*place),
            None => read.next(),
        };
        let columns: Option<Vec<_>> = same.iter().map(column).map(|found| found.cloned()).collect();
        let columns = columns.ok_or_else(Fault::internal)?;
        Ok(Arc::new(FragmentData::of_columns(data.rows(), columns)?))
    }
}
