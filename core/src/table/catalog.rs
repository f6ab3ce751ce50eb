//! All tables, by name.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock, Weak},
};

use super::{Table, no_table};
use crate::{
    error::{Error, ErrorKind, Result},
    limits::MAX_TABLES,
    schema::{Schema, check_name},
};

/// All tables, by name.
#[derive(Debug, Default)]
pub struct Catalog {
    /// What the ids of the tables that are created here are made of.
    seed: u64,
    tables: RwLock<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    by_name: BTreeMap<String, Arc<Table>>,
    /// Why tables cannot be read, with their ids; some of them were never read, and are not in `by_name`.
    unreadable: BTreeMap<String, (u64, Error)>,
    /// Tables that have no name here yet, for as long as somebody has them.
    drafts: Vec<Weak<Table>>,
    created: u64,
    /// Above those of all tables that were dropped.
    first_version: u64,
}

impl Catalog {
    /// No tables.
    pub fn new() -> Self {
        Self::default()
    }

    /// No tables. The seed tells the ids of tables that are created here from those of other catalogs.
    pub fn with_seed(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Adds an empty table. It begins at version 0, or above all versions of tables that were dropped before, so
    /// that a name and a version never stand for two sets of rows.
    ///
    /// # Errors
    /// Those of [`Catalog::insert`].
    pub fn create(&self, name: &str, schema: Schema) -> Result<Arc<Table>> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.created += 1;
        let id = id(self.seed, tables.created);
        let table = Arc::new(Table::new(name, id, schema, tables.first_version));
        tables.insert(Arc::clone(&table))?;
        Ok(table)
    }

    /// Makes an empty table that nobody finds by its name before [`Catalog::publish`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`].
    pub fn draft(&self, name: &str, schema: Schema) -> Result<Arc<Table>> {
        check_name(name).map_err(|e| e.at("name"))?;
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.created += 1;
        let id = id(self.seed, tables.created);
        let table = Arc::new(Table::new(name, id, schema, tables.first_version));
        tables.note_draft(&table);
        Ok(table)
    }

    /// Counts a table among the drafts, as long as somebody has it.
    pub fn note_draft(&self, table: &Arc<Table>) {
        self.tables.write().unwrap_or_else(PoisonError::into_inner).note_draft(table);
    }

    /// The tables that have no name here yet.
    pub fn drafts(&self) -> Vec<Arc<Table>> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.drafts.iter().filter_map(Weak::upgrade).collect()
    }

    /// Gives drafts their names, and removes the tables with the ids `gone`, each at the version that it must have if there is
    /// one: all in one moment, or nothing of it. The versions of a draft go on above all that its name has stood for.
    ///
    /// # Errors
    /// [`ErrorKind::TableNotFound`] where one that is to go is not there, [`ErrorKind::WriteConflict`] where it is to have a
    /// version and has another, or is not there; [`ErrorKind::TableExists`] where a name is taken by another; [`ErrorKind::MemoryLimit`] when there are
    /// [`MAX_TABLES`].
    pub fn publish(&self, drafts: &[Arc<Table>], gone: &[(u64, Option<u64>)]) -> Result<Vec<Arc<Table>>> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let is_gone = |table: &Arc<Table>| gone.iter().any(|(id, _)| *id == table.id());
        let removed: Vec<_> = tables.by_name.values().filter(|table| is_gone(table)).cloned().collect();
        if let Some((_, at)) = gone.iter().find(|(id, _)| removed.iter().all(|table| table.id() != *id)) {
            let message = "a table that was to go was dropped or replaced meanwhile";
            // What was made of its version is to be made again.
            let kind = if at.is_some() { ErrorKind::WriteConflict } else { ErrorKind::TableNotFound };
            return Err(Error::new(kind, message).at("table"));
        }
        for (i, draft) in drafts.iter().enumerate() {
            let name = draft.name();
            let is_taken = tables.by_name.get(name).is_some_and(|known| !is_gone(known));
            if is_taken || drafts[..i].iter().any(|before| before.name() == name) {
                return Err(table_exists(name));
            }
        }
        if tables.by_name.len() - removed.len() + drafts.len() > MAX_TABLES {
            return Err(too_many());
        }
        for (i, table) in removed.iter().enumerate() {
            let at = gone.iter().find(|(id, _)| *id == table.id()).and_then(|(_, at)| *at);
            if !table.set_dropped_at(at) {
                removed[..i].iter().for_each(|table| table.set_kept());
                let message = format!("another write to table {:?} came first", table.name());
                return Err(Error::new(ErrorKind::WriteConflict, message));
            }
        }
        removed.iter().for_each(|table| {
            tables.remove(table.name());
        });
        for draft in drafts {
            draft.lift(tables.first_version);
            tables.put(Arc::clone(draft));
        }
        Ok(removed)
    }

    /// Gives a table its name, in the place of whichever has it: the answer is that one.
    pub fn put(&self, table: Arc<Table>) -> Option<Arc<Table>> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let before = tables.remove(table.name());
        tables.put(table);
        before
    }

    /// Adds a table that has an id.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`], [`ErrorKind::TableExists`]; [`ErrorKind::MemoryLimit`] when there are
    /// [`MAX_TABLES`].
    pub fn insert(&self, table: Arc<Table>) -> Result<()> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner).insert(table)
    }

    /// Puts a table with other columns in the place of that with its id: whoever asks from now on gets the new one,
    /// and queries that run go on with what they have.
    ///
    /// # Errors
    /// [`ErrorKind::TableNotFound`] when the table is gone.
    pub fn replace(&self, table: Arc<Table>) -> Result<()> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let known = tables.by_name.get_mut(table.name()).filter(|known| known.id() == table.id());
        match known {
            Some(known) => *known = table,
            None => return Err(no_table(table.name())),
        }
        Ok(())
    }

    /// Says why the table with a name and an id cannot be read: requests for it fail with that error from now on.
    pub fn set_unreadable(&self, name: &str, id: u64, why: Error) {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        // Another table may have taken the name.
        if tables.by_name.get(name).is_none_or(|known| known.id() == id) {
            tables.unreadable.insert(name.to_owned(), (id, why));
        }
    }

    /// Says that the table with an id can be read again, or that it is gone.
    pub fn set_readable(&self, id: u64) {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.unreadable.retain(|_, (known, _)| *known != id);
    }

    /// The tables that cannot be read, by name, with their ids.
    pub fn unreadable(&self) -> Vec<(String, u64, Error)> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.unreadable.iter().map(|(name, (id, error))| (name.clone(), *id, error.clone())).collect()
    }

    /// Removes a table; queries that run go on with their snapshot.
    ///
    /// # Errors
    /// [`ErrorKind::TableNotFound`].
    pub fn remove(&self, name: &str) -> Result<Arc<Table>> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.remove(name).ok_or_else(|| no_table(name))
    }

    /// A table by name.
    ///
    /// # Errors
    /// [`ErrorKind::TableNotFound`]; the error that [`Catalog::set_unreadable`] was given.
    pub fn get(&self, name: &str) -> Result<Arc<Table>> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        match tables.unreadable.get(name) {
            Some((_, error)) => Err(error.clone().at("table")),
            None => tables.by_name.get(name).cloned().ok_or_else(|| no_table(name)),
        }
    }

    /// A table by name, whether it can be read or not.
    ///
    /// # Errors
    /// [`ErrorKind::TableNotFound`].
    pub fn find(&self, name: &str) -> Result<Arc<Table>> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.by_name.get(name).cloned().ok_or_else(|| no_table(name))
    }

    /// How many tables have names.
    pub fn count(&self) -> usize {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).by_name.len()
    }

    /// All tables, by name.
    pub fn list(&self) -> Vec<Arc<Table>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).by_name.values().cloned().collect()
    }
}

impl Tables {
    fn insert(&mut self, table: Arc<Table>) -> Result<()> {
        let name = table.name().to_owned();
        check_name(&name).map_err(|e| e.at("name"))?;
        if self.by_name.contains_key(&name) {
            return Err(table_exists(&name));
        }
        if self.by_name.len() >= MAX_TABLES {
            return Err(too_many());
        }
        self.put(table);
        Ok(())
    }

    fn put(&mut self, table: Arc<Table>) {
        self.unreadable.remove(table.name());
        self.drafts.retain(|draft| draft.strong_count() > 0 && draft.as_ptr() != Arc::as_ptr(&table));
        self.by_name.insert(table.name().to_owned(), table);
    }

    fn remove(&mut self, name: &str) -> Option<Arc<Table>> {
        let table = self.by_name.remove(name)?;
        self.unreadable.remove(name);
        table.set_dropped();
        self.first_version = self.first_version.max(table.snapshot().version() + 1);
        Some(table)
    }

    fn note_draft(&mut self, table: &Arc<Table>) {
        self.drafts.retain(|draft| draft.strong_count() > 0);
        self.drafts.push(Arc::downgrade(table));
    }
}

fn table_exists(name: &str) -> Error {
    Error::new(ErrorKind::TableExists, format!("table {name:?} exists")).at("name")
}

fn too_many() -> Error {
    Error::new(ErrorKind::MemoryLimit, format!("there are {MAX_TABLES} tables, the most"))
}

/// The id of the nth table of a catalog, never 0 (`splitmix64`, Steele, Lea and Flood 2014).
fn id(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        schema::{DataType, Field},
        table::Change,
    };

    fn columns() -> Schema {
        Schema::new(vec![Field::new("n", DataType::Int64, true)]).unwrap()
    }

    #[test]
    fn drafts_are_found_by_nobody_before_they_are_published() {
        let catalog = Catalog::new();
        let draft = catalog.draft("t", columns()).unwrap();
        assert!(catalog.get("t").is_err());
        assert_eq!(catalog.drafts().len(), 1);
        assert!(catalog.publish(std::slice::from_ref(&draft), &[]).unwrap().is_empty());
        assert_eq!(catalog.get("t").unwrap().id(), draft.id());
        assert!(catalog.drafts().is_empty());
        drop(catalog.draft("u", columns()).unwrap());
        assert!(catalog.drafts().is_empty());
    }

    #[test]
    fn what_takes_the_place_of_a_table_goes_on_above_its_versions() {
        let catalog = Catalog::new();
        let old = catalog.create("t", columns()).unwrap();
        let draft = catalog.draft("t", columns()).unwrap();
        draft.commit(Change::default()).unwrap();
        for _ in 0..7 {
            old.commit(Change::default()).unwrap();
        }
        assert!(catalog.publish(std::slice::from_ref(&draft), &[]).is_err(), "the name is taken");
        assert!(
            catalog.publish(std::slice::from_ref(&draft), &[(old.id() + 1, None)]).is_err(),
            "no such table"
        );
        assert_eq!(catalog.get("t").unwrap().id(), old.id());
        let (other, at) = (catalog.create("u", columns()).unwrap(), |version| Some(version));
        for gone in [[(old.id(), at(6)), (other.id(), at(0))], [(old.id(), at(7)), (other.id(), at(1))]] {
            let error = catalog.publish(std::slice::from_ref(&draft), &gone).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WriteConflict);
        }
        other.commit(Change::default()).unwrap();
        let gone = catalog.publish(std::slice::from_ref(&draft), &[(old.id(), at(7))]).unwrap();
        assert_eq!(gone.iter().map(|table| table.id()).collect::<Vec<_>>(), [old.id()]);
        assert!(old.commit(Change::default()).is_err(), "nothing is written to what is gone");
        let now = catalog.get("t").unwrap();
        assert_eq!((now.id(), now.snapshot().version()), (draft.id(), 8));
        assert!(now.snapshot_at(Some(1)).is_err(), "a version of it would be that of two tables");
        assert_eq!(now.commit(Change::default()).unwrap(), 9);
    }

    #[test]
    fn names_are_given_all_or_none() {
        let catalog = Catalog::new();
        catalog.create("b", columns()).unwrap();
        let new = |name| catalog.draft(name, columns()).unwrap();
        assert!(catalog.publish(&[new("a"), new("b")], &[]).is_err());
        assert!(catalog.publish(&[new("a"), new("a")], &[]).is_err());
        assert!(catalog.get("a").is_err());
    }
}
