//! All tables, by name.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
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
        let table = tables.by_name.remove(name).ok_or_else(|| no_table(name))?;
        tables.unreadable.remove(name);
        table.set_dropped();
        tables.first_version = tables.first_version.max(table.snapshot().version() + 1);
        Ok(table)
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
            return Err(Error::new(ErrorKind::TableExists, format!("table {name:?} exists")).at("name"));
        }
        if self.by_name.len() >= MAX_TABLES {
            return Err(Error::new(
                ErrorKind::MemoryLimit,
                format!("there are {MAX_TABLES} tables, the most"),
            ));
        }
        self.unreadable.remove(&name);
        self.by_name.insert(name, table);
        Ok(())
    }
}

/// The id of the nth table of a catalog, never 0 (`splitmix64`, Steele, Lea and Flood 2014).
fn id(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).max(1)
}
