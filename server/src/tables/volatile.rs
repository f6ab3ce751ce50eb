//! What is done in the background to tables that are in memory alone: versions that nobody needs any longer are forgotten, and
//! with them the rows that they alone have.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use basalt_core::{limits::KEPT_VERSIONS, table::Table};
use tokio::time::Instant;

use super::Tables;
use crate::limits;

/// Since when tables have their versions.
#[derive(Debug, Default)]
pub(super) struct Ages {
    /// By the id of a table: its newest version whenever that was another one, and when it was first seen. Whatever is
    /// before it was superseded by then.
    seen: HashMap<u64, VecDeque<(Instant, u64)>>,
}

impl Ages {
    /// Forgets the versions that were superseded longer ago than they are kept, or than a moment ago where there is little
    /// memory left. Those that kept sets pin stay, and those that are read.
    pub(super) fn forget_old(&mut self, tables: &Tables) {
        let (memory, keep) = (&tables.shared.memory, tables.shared.keep);
        let free = memory.limit().saturating_sub(memory.held());
        let keep = match free < memory.limit() / limits::SHORT_MEMORY_PART {
            true => keep.min(limits::SHORT_MEMORY_KEEP),
            false => keep,
        };
        self.forget(&tables.shared.catalog.list(), keep, Instant::now());
    }

    fn forget(&mut self, tables: &[Arc<Table>], keep: Duration, now: Instant) {
        let mut before = std::mem::take(&mut self.seen);
        for table in tables {
            // Default: it is seen for the first time.
            let mut seen = before.remove(&table.id()).unwrap_or_default();
            let newest = table.snapshot().version();
            if seen.back().is_none_or(|(_, version)| *version != newest) {
                seen.push_back((now, newest));
            }
            let is_over = |(at, _): &(Instant, u64)| now.duration_since(*at) > keep;
            // The last of those that are over tells of all before it, and a table keeps no more than so many itself.
            while seen.get(1).is_some_and(is_over) || seen.len() > KEPT_VERSIONS + 1 {
                seen.pop_front();
            }
            // Again and again: what was read or pinned the last time may not be any longer.
            if let Some(first) = seen.front()
                && is_over(first)
            {
                table.forget_before(first.1);
            }
            self.seen.insert(table.id(), seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use basalt_core::{
        schema::{DataType, Field, Schema},
        table::Change,
    };

    use super::*;
    use crate::{Config, environment, memory::Consumer, state::State};

    const MINUTE: Duration = Duration::from_secs(60);

    fn state() -> State {
        let config = Config { threads: 2, store: "memory:".into(), ..Config::default() };
        State::new(environment::process(), &config, None).unwrap()
    }

    async fn table(state: &State) -> Arc<Table> {
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]).unwrap();
        state.tables.create("t", schema, None, Default::default()).await.unwrap()
    }

    /// The versions below five that can be read.
    fn kept(table: &Table) -> Vec<u64> {
        (0..5).filter(|version| table.snapshot_at(Some(*version)).is_ok()).collect()
    }

    #[tokio::test]
    async fn versions_that_are_too_old_are_forgotten() {
        let state = state();
        let table = table(&state).await;
        let (tables, mut ages, start) = ([Arc::clone(&table)], Ages::default(), Instant::now());
        ages.forget(&tables, MINUTE, start);
        table.commit(Change::default()).unwrap();
        table.commit(Change::default()).unwrap();
        ages.forget(&tables, MINUTE, start + MINUTE / 2);
        table.commit(Change::default()).unwrap();
        // The first two were superseded half a minute after the start, as far as anybody has seen.
        for (after, versions) in [(MINUTE, vec![0, 1, 2, 3]), (MINUTE * 3 / 2 + MINUTE / 60, vec![2, 3])] {
            ages.forget(&tables, MINUTE, start + after);
            assert_eq!(kept(&table), versions);
        }
        // A kept set needs one, and somebody reads it.
        let pin = state.tables.pin_version("t", 0, 2).await.unwrap().unwrap();
        let read = table.snapshot_at(Some(2)).unwrap();
        ages.forget(&tables, MINUTE, start + 3 * MINUTE);
        assert_eq!(kept(&table), [2, 3]);
        drop(pin);
        ages.forget(&tables, MINUTE, start + 3 * MINUTE);
        assert_eq!(kept(&table), [2, 3]);
        drop(read);
        ages.forget(&tables, MINUTE, start + 3 * MINUTE);
        assert_eq!(kept(&table), [3]);
        ages.forget(&[], MINUTE, start + 3 * MINUTE);
        assert!(ages.seen.is_empty(), "those of tables that are gone");
    }

    #[tokio::test]
    async fn where_memory_is_short_they_go_sooner() {
        let state = state();
        let table = table(&state).await;
        let mut ages = Ages::default();
        ages.forget_old(&state.tables);
        table.commit(Change::default()).unwrap();
        ages.forget_old(&state.tables);
        tokio::time::sleep(limits::SHORT_MEMORY_KEEP + Duration::from_millis(100)).await;
        ages.forget_old(&state.tables);
        assert_eq!(kept(&table), [0, 1]);
        let memory = &state.tables.shared.memory;
        let mut write = memory.reserve(Consumer::Writes);
        write.set(memory.limit() - memory.limit() / 8).unwrap();
        ages.forget_old(&state.tables);
        assert_eq!(kept(&table), [1]);
    }
}
