//! What other nodes have announced: how new the catalog and the tables are at least.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use basalt_proto::cluster::v1::TableVersion;
use hashbrown::HashMap;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    catalog: AtomicU64,
    /// By table id.
    tables: Mutex<HashMap<u64, u64>>,
}

impl Heard {
    /// Notes an announcement.
    pub(crate) fn note(&self, catalog: u64, announced: &[TableVersion]) {
        self.catalog.fetch_max(catalog, Ordering::AcqRel);
        let mut tables = self.tables();
        for table in announced {
            let version = tables.entry(table.table_id).or_default();
            *version = table.version.max(*version);
        }
    }

    /// The newest entry of the catalog that was announced.
    pub(crate) fn catalog(&self) -> u64 {
        self.catalog.load(Ordering::Acquire)
    }

    /// The newest version of a table that was announced, and that [`Heard::reached`] was not told of.
    pub(crate) fn version(&self, table: u64) -> Option<u64> {
        self.tables().get(&table).copied()
    }

    /// This node has read a table up to a version.
    pub(crate) fn reached(&self, table: u64, version: u64) {
        let mut tables = self.tables();
        if tables.get(&table).is_some_and(|announced| *announced <= version) {
            tables.remove(&table);
        }
    }

    /// Forgets tables that are gone.
    pub(crate) fn retain(&self, exists: impl Fn(u64) -> bool) {
        self.tables().retain(|table, _| exists(*table));
    }

    fn tables(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_only_rise_until_they_are_reached() {
        let heard = Heard::default();
        let of = |version| [TableVersion { table_id: 7, version }];
        heard.note(3, &of(5));
        heard.note(2, &of(4));
        assert_eq!((heard.catalog(), heard.version(7), heard.version(8)), (3, Some(5), None));
        heard.reached(7, 4);
        assert_eq!(heard.version(7), Some(5));
        heard.reached(7, 6);
        assert_eq!(heard.version(7), None);
        heard.note(0, &of(8));
        heard.retain(|table| table != 7);
        assert_eq!((heard.catalog(), heard.version(7)), (3, None));
    }
}
