//! What the table of a simulation may hold at each version, by what clients were told.
//!
//! A row is a number that is written once. From the version on that acknowledged its write it is there, until the version
//! that acknowledged a deletion of it. Of a write whose answer was lost nothing is known, except that it is there as a
//! whole or not at all; and whoever has answered for a version has said what everybody else answers for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

/// A change of rows, and what is known of it.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) rows: Range<i64>,
    /// It is in no version up to this one.
    after: u64,
    /// It is in this one, and those behind it.
    at: Option<u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) writes: Vec<Change>,
    pub(super) deletes: Vec<Change>,
    answers: BTreeMap<u64, BTreeSet<i64>>,
    sums: BTreeMap<u64, (i64, i64)>,
    /// The newest version that was acknowledged or answered.
    newest: u64,
    /// The newest that was acknowledged: whoever asks now is answered with it, or a newer one.
    pub(super) acknowledged: u64,
    next: i64,
}

impl Model {
    /// A write of so many new rows begins.
    pub(super) fn begin_write(&mut self, rows: i64) -> usize {
        let range = self.next..self.next + rows;
        self.next += rows;
        self.writes.push(Change { rows: range, after: self.newest, at: None });
        self.writes.len() - 1
    }

    pub(super) fn begin_delete(&mut self, rows: Range<i64>) -> usize {
        self.deletes.push(Change { rows, after: self.newest, at: None });
        self.deletes.len() - 1
    }

    /// All rows that were ever written or tried.
    pub(super) fn rows(&self) -> i64 {
        self.next
    }

    /// Versions that were answered for.
    pub(super) fn versions(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.answers.keys().copied()
    }

    pub(super) fn written(&mut self, write: usize, version: u64) -> Result<(), String> {
        self.acknowledge(version);
        let change = &mut self.writes[write];
        match change.at {
            Some(at) if at != version => {
                Err(format!("write {write} was at version {at}, and is at {version}"))
            }
            _ if version <= change.after => {
                Err(format!("write {write} began behind {}, and is at {version}", change.after))
            }
            _ => {
                change.at = Some(version);
                Ok(())
            }
        }
    }

    fn acknowledge(&mut self, version: u64) {
        self.newest = self.newest.max(version);
        self.acknowledged = self.acknowledged.max(version);
    }

    pub(super) fn deleted(&mut self, delete: usize, version: u64) {
        self.acknowledge(version);
        self.deletes[delete].at = Some(version);
    }

    /// Somebody answered for a version with the rows that it has.
    pub(super) fn answered(&mut self, version: u64, rows: Vec<i64>) -> Result<(), String> {
        let all: BTreeSet<i64> = rows.iter().copied().collect();
        if all.len() != rows.len() {
            return Err(format!(
                "version {version}: {} rows are there more than once",
                rows.len() - all.len()
            ));
        }
        self.check(version, &all)?;
        self.newest = self.newest.max(version);
        if let Some(known) = self.answers.get(&version)
            && *known != all
        {
            let (lost, new) = (known.difference(&all).count(), all.difference(known).count());
            return Err(format!("version {version}: {lost} rows less and {new} more than another answer"));
        }
        let of = (i64::try_from(all.len()).unwrap(), all.iter().sum());
        self.answers.insert(version, all);
        self.counted(version, of)
    }

    /// The same with their number and their sum.
    pub(super) fn counted(&mut self, version: u64, of: (i64, i64)) -> Result<(), String> {
        self.newest = self.newest.max(version);
        match self.sums.insert(version, of) {
            Some(known) if known != of => {
                Err(format!("version {version}: count and sum {of:?}, and {known:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Versions of which only count and sum are known.
    pub(super) fn unchecked(&self) -> Vec<u64> {
        self.sums.keys().filter(|version| !self.answers.contains_key(version)).copied().collect()
    }

    fn check(&self, version: u64, rows: &BTreeSet<i64>) -> Result<(), String> {
        for (i, write) in self.writes.iter().enumerate() {
            let untouched = |row: &i64| !self.deletes.iter().any(|delete| delete.rows.contains(row));
            let (here, gone): (Vec<i64>, Vec<i64>) = write.rows.clone().partition(|row| rows.contains(row));
            let wrong = |what: &str| {
                Err(format!(
                    "version {version}: write {i} ({write:?}) {what}: {} rows are there, {} are not; deletes {:?}",
                    here.len(),
                    gone.len(),
                    self.deletes
                        .iter()
                        .filter(
                            |delete| delete.rows.start < write.rows.end && write.rows.start < delete.rows.end
                        )
                        .collect::<Vec<_>>()
                ))
            };
            match write.at {
                Some(at) if at <= version => {
                    let excused =
                        |row: &i64| self.deletes.iter().any(|d| d.rows.contains(row) && d.after < version);
                    if !gone.iter().all(excused) {
                        return wrong("was acknowledged and is lost");
                    }
                }
                _ if (write.at.is_some() || write.after >= version) && !here.is_empty() => {
                    return wrong("is there too soon");
                }
                _ if here.iter().any(untouched) && gone.iter().any(untouched) => {
                    return wrong("is there in part");
                }
                _ => {}
            }
            // Whoever deletes takes what was there: rows of writes that were acknowledged before it.
            let is_deleted = |row: &i64| {
                self.deletes.iter().any(|delete| {
                    let before = write.at.is_some_and(|at| at <= delete.after);
                    before && delete.rows.contains(row) && delete.at.is_some_and(|at| at <= version)
                })
            };
            if here.iter().any(is_deleted) {
                return wrong("is there again behind its deletion");
            }
        }
        if let Some(row) = rows.iter().find(|row| **row < 0 || **row >= self.next) {
            return Err(format!("version {version}: nobody wrote row {row}"));
        }
        Ok(())
    }
}
