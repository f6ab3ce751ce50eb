//! What other nodes have announced: how new the catalog and the tables are at least.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use basalt_core::limits::MAX_TABLES;
use basalt_proto::cluster::v1::TableVersion;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    /// 0: none.
    catalog: AtomicU64,
    /// By table id.
    tables: Mutex<BTreeMap<u64, u64>>,
}

impl Announced {
    /// Notes an announcement.
    pub(crate) fn note(&self, catalog: u64, announced: &[TableVersion]) {
        self.catalog.fetch_max(catalog, Ordering::AcqRel);
        let mut tables = self.tables();
        for table in announced {
            // Those that are gone are never reached, and are forgotten by and by.
            if tables.len() >= 2 * MAX_TABLES && !tables.contains_key(&table.table_id) {
                continue;
            }
            let version = tables.entry(table.table_id).or_default();
            *version = table.version.max(*version);
        }
    }

    /// The newest version of the catalog that was announced, and that [`Announced::catalog_reached`] was not told of.
    pub(crate) fn catalog(&self) -> Option<u64> {
        Some(self.catalog.load(Ordering::Acquire)).filter(|announced| *announced > 0)
    }

    /// This node has read all that the catalog has since a version was announced: what was announced, whether it was true or
    /// not, is looked for no longer, and what is announced from now on is.
    pub(crate) fn catalog_reached(&self, version: u64) {
        // Where another one was announced meanwhile, that is looked for.
        let _ = self.catalog.compare_exchange(version, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The newest version of a table that was announced, and that [`Announced::reached`] was not told of.
    pub(crate) fn version(&self, table: u64) -> Option<u64> {
        self.tables().get(&table).copied()
    }

    /// Whether all that was announced was reached.
    pub(crate) fn is_quiet(&self) -> bool {
        self.catalog().is_none() && self.tables().is_empty()
    }

    /// This node has read a table up to a version.
    pub(crate) fn reached(&self, table: u64, version: u64) {
        let mut tables = self.tables();
        if tables.get(&table).is_some_and(|announced| *announced <= version) {
            tables.remove(&table);
        }
    }

    /// Forgets what was announced of tables that are gone.
    pub(crate) fn retain(&self, is_there: impl Fn(u64) -> bool) {
        self.tables().retain(|table, _| is_there(*table));
    }

    fn tables(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_only_rise_until_they_are_reached() {
        let announced = Announced::default();
        let of = |version| [TableVersion { table_id: 7, version }];
        announced.note(3, &of(5));
        announced.note(2, &of(4));
        assert_eq!(
            (announced.catalog(), announced.version(7), announced.version(8)),
            (Some(3), Some(5), None)
        );
        announced.reached(7, 4);
        assert_eq!(announced.version(7), Some(5));
        announced.reached(7, 6);
        assert_eq!(announced.version(7), None);
        assert_eq!((announced.catalog(), announced.version(7)), (Some(3), None));
        announced.catalog_reached(2);
        assert_eq!(announced.catalog(), Some(3));
        announced.catalog_reached(3);
        assert_eq!(announced.catalog(), None);
        // Who lies once is not believed for ever.
        announced.note(u64::MAX, &[]);
        announced.catalog_reached(u64::MAX);
        announced.note(4, &[]);
        assert_eq!(announced.catalog(), Some(4));
        announced.catalog_reached(4);
        announced.note(0, &of(9));
        announced.retain(|table| table == 7);
        assert!(!announced.is_quiet());
        announced.retain(|table| table != 7);
        assert!(announced.is_quiet());
    }
}
