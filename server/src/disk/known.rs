//! The files of the cache on disk as far as this process knows them, and which of them goes first.

use std::collections::{BTreeMap, HashMap};

use tokio::time::Instant;

/// Names a file: that of the table, of the rows, and which of the files of these rows it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    pub(super) table: u64,
    pub(super) rows: u64,
    pub(super) part: u8,
}

#[derive(Debug)]
struct Known {
    bytes: u64,
    turn: u64,
    /// `None`: by an earlier process.
    used: Option<Instant>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Files {
    /// When this process began. What an earlier one left counts as used then: a start reads it soon, and may come to it
    /// last.
    pub(super) since: Instant,
    of: HashMap<Name, Known>,
    /// By when they were used last.
    order: BTreeMap<u64, Name>,
    turns: u64,
    bytes: u64,
}

impl Files {
    pub(super) fn new(since: Instant) -> Self {
        Self { since, of: HashMap::new(), order: BTreeMap::new(), turns: 0, bytes: 0 }
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A file is there, and was used at a moment.
    pub(super) fn insert(&mut self, name: Name, bytes: u64, used: Option<Instant>) {
        self.remove(name);
        // A file takes blocks of its file system.
        let bytes = bytes.next_multiple_of(4096);
        self.turns += 1;
        self.of.insert(name, Known { bytes, turn: self.turns, used });
        self.order.insert(self.turns, name);
        self.bytes += bytes;
    }

    /// A file is read.
    pub(super) fn touch(&mut self, name: Name, now: Instant) {
        if let Some(known) = self.of.get_mut(&name) {
            self.turns += 1;
            self.order.remove(&known.turn);
            self.order.insert(self.turns, name);
            (known.turn, known.used) = (self.turns, Some(now));
        }
    }

    /// A file is no longer there.
    pub(super) fn remove(&mut self, name: Name) {
        if let Some(known) = self.of.remove(&name) {
            self.order.remove(&known.turn);
            self.bytes -= known.bytes;
        }
    }

    /// The file that was not used for the longest, and when it was.
    pub(super) fn oldest(&self) -> Option<(Name, Instant)> {
        let name = *self.order.first_key_value()?.1;
        // Default: not used by this process.
        Some((name, self.of.get(&name)?.used.unwrap_or(self.since)))
    }

    /// All files of a table.
    pub(super) fn of_table(&self, table: u64) -> Vec<Name> {
        self.of.keys().filter(|name| name.table == table).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_used_last_goes_last() {
        let name = |rows| Name { table: 1, rows, part: 0 };
        let since = Instant::now();
        let (mut files, now) = (Files::new(since), since + Duration::from_secs(1));
        (0..3).for_each(|rows| files.insert(name(rows), 5000, None));
        assert_eq!((files.bytes(), files.oldest()), (3 * 8192, Some((name(0), since))));
        files.touch(name(0), now);
        files.touch(name(9), now);
        assert_eq!(files.oldest(), Some((name(1), since)));
        files.remove(name(1));
        files.insert(name(2), 1, Some(now));
        assert_eq!((files.bytes(), files.oldest()), (8192 + 4096, Some((name(0), now))));
        assert_eq!(files.of_table(1).len(), 2);
        files.remove(name(0));
        files.remove(name(2));
        assert_eq!((files.bytes(), files.oldest()), (0, None));
    }
}
