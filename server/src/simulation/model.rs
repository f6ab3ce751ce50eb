//! What the table of a simulation may hold at each version, by what clients were told.
//!
//! A row is a number, and the change that wrote it. From the version on that acknowledged its change it is there, until the
//! version that acknowledged one that removed it. Of a change whose answer was lost nothing is known, except that it is
//! there as a whole or not at all; and whoever has answered for a version has said what everybody else answers for it.

use std::{collections::BTreeMap, ops::Range};

use twox_hash::XxHash3_64;

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Adds rows whose numbers nobody has had.
    Append,
    /// Adds rows, and removes those with the same numbers in the same version.
    Replace,
    /// Adds rows, and removes all others in the same version.
    ReplaceAll,
    /// Removes rows: those that were there some time between its question and its answer, at least those from before.
    Delete,
}

/// A change of rows, and what is known of it.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) kind: Kind,
    pub(super) rows: Range<i64>,
    /// It is in no version up to this one.
    after: u64,
    /// It is in this one, and those behind it.
    at: Option<u64>,
    /// Other changes that may remove rows of it.
    removers: Vec<usize>,
}

/// In the place of a change: the row is not there.
const NOBODY: usize = usize::MAX;

impl Change {
    fn adds(&self) -> bool {
        self.kind != Kind::Delete
    }

    /// The rows of other changes that it removes.
    fn removed(&self) -> Range<i64> {
        match self.kind {
            Kind::Append => 0..0,
            Kind::ReplaceAll => i64::MIN..i64::MAX,
            Kind::Replace | Kind::Delete => self.rows.clone(),
        }
    }

    fn is_known_by(&self, version: u64) -> bool {
        self.at.is_some_and(|at| at <= version)
    }

    /// Whether it may be in a version.
    fn may_be_in(&self, version: u64) -> bool {
        self.after < version && self.at.is_none_or(|at| at <= version)
    }

    /// Whether it may have removed, up to a version, what `other` has written.
    fn may_remove(&self, other: &Self, version: u64) -> bool {
        let is_before = self.at.is_some_and(|at| at <= other.at.unwrap_or(other.after));
        self.may_be_in(version) && !is_before
    }

    /// Whether it has certainly removed, up to a version, what `other` has written.
    fn must_remove(&self, other: &Self, version: u64) -> bool {
        let (Some(at), Some(written)) = (self.at, other.at) else { return false };
        at <= version
            && match self.kind {
                Kind::Append => false,
                Kind::Replace | Kind::ReplaceAll => written < at,
                // Which rows those are is found out before its version is made.
                Kind::Delete => written <= self.after,
            }
    }
}

fn overlap(a: &Range<i64>, b: &Range<i64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) changes: Vec<Change>,
    /// Hashes of the rows that versions were answered with.
    answers: BTreeMap<u64, u64>,
    sums: BTreeMap<u64, [i64; 3]>,
    /// The newest version that was acknowledged or answered.
    newest: u64,
    /// The newest that was acknowledged: whoever asks now is answered with it, or a newer one.
    pub(super) acknowledged: u64,
    next: i64,
}

impl Model {
    /// A write of so many new rows begins. Its place among the changes is what its rows have beside their numbers.
    pub(super) fn begin_append(&mut self, rows: i64) -> usize {
        self.begin(Kind::Append, self.next..self.next + rows)
    }

    pub(super) fn begin(&mut self, kind: Kind, rows: Range<i64>) -> usize {
        if kind != Kind::Delete {
            self.next = self.next.max(rows.end);
        }
        let mut change = Change { kind, rows, after: self.newest, at: None, removers: Vec::new() };
        let (place, removed) = (self.changes.len(), change.removed());
        for (i, other) in self.changes.iter_mut().enumerate() {
            if overlap(&other.removed(), &change.rows) {
                change.removers.push(i);
            }
            if overlap(&removed, &other.rows) {
                other.removers.push(place);
            }
        }
        self.changes.push(change);
        place
    }

    /// All numbers that were ever written or tried.
    pub(super) fn rows(&self) -> i64 {
        self.next
    }

    /// Versions that were answered for.
    pub(super) fn versions(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.answers.keys().copied()
    }

    /// These rows, if none of them may be appended later, which would make two of it; new ones otherwise.
    pub(super) fn replaceable(&self, rows: Range<i64>) -> Range<i64> {
        let is_coming = |change: &Change| {
            change.kind == Kind::Append && change.at.is_none() && overlap(&change.rows, &rows)
        };
        match self.changes.iter().any(is_coming) {
            true => self.next..self.next + (rows.end - rows.start),
            false => rows,
        }
    }

    pub(super) fn done(&mut self, change: usize, version: u64) -> Result<(), String> {
        self.newest = self.newest.max(version);
        self.acknowledged = self.acknowledged.max(version);
        let known = &mut self.changes[change];
        match known.at {
            Some(at) if at != version => {
                Err(format!("change {change} was at version {at}, and is at {version}"))
            }
            // A deletion that finds nothing makes no version.
            _ if version <= known.after && known.adds() => {
                Err(format!("change {change} began behind {}, and is at {version}", known.after))
            }
            _ => {
                known.at = Some(version);
                Ok(())
            }
        }
    }

    /// Somebody answered for a version with the rows that it has.
    pub(super) fn answered(
        &mut self,
        version: u64,
        rows: impl Iterator<Item = (i64, i64)>,
    ) -> Result<(), String> {
        let mut written = vec![NOBODY; usize::try_from(self.next).unwrap()];
        let (mut of, mut more) = ([0; 3], 0);
        for (row, by) in rows {
            let change = usize::try_from(by).ok().filter(|by| {
                self.changes.get(*by).is_some_and(|change| change.adds() && change.rows.contains(&row))
            });
            let change =
                change.ok_or_else(|| format!("version {version}: nobody wrote row {row} as {by}"))?;
            more += i32::from(std::mem::replace(&mut written[index(row)], change) != NOBODY);
            of = [of[0] + 1, of[1] + row, of[2] + by];
        }
        if more > 0 {
            return Err(format!("version {version}: {more} rows are there more than once"));
        }
        self.check(version, &written)?;
        // Behind the last row that is there is nothing, however many were written since.
        let last = written.iter().rposition(|by| *by != NOBODY);
        let bytes = written[..last.map_or(0, |last| last + 1)].iter().flat_map(|by| by.to_le_bytes());
        let hash = XxHash3_64::oneshot(&bytes.collect::<Vec<u8>>());
        if self.answers.insert(version, hash).is_some_and(|known| known != hash) {
            return Err(format!("version {version}: other rows than in another answer, {} now", of[0]));
        }
        self.counted(version, of)
    }

    /// The same with their number and their sums.
    pub(super) fn counted(&mut self, version: u64, of: [i64; 3]) -> Result<(), String> {
        self.newest = self.newest.max(version);
        match self.sums.insert(version, of) {
            Some(known) if known != of => {
                Err(format!("version {version}: count and sums {of:?}, and {known:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Versions of which only count and sums are known.
    pub(super) fn unchecked(&self) -> Vec<u64> {
        self.sums.keys().filter(|version| !self.answers.contains_key(version)).copied().collect()
    }

    /// `written`: by row, which change wrote it.
    fn check(&self, version: u64, written: &[usize]) -> Result<(), String> {
        let mut there = vec![0; self.changes.len()];
        written.iter().filter(|by| **by != NOBODY).for_each(|by| there[*by] += 1);
        let adding = self.changes.iter().enumerate().filter(|(_, change)| change.adds());
        for (i, change) in adding {
            self.check_change(version, i, change, (written, there[i]))?;
        }
        Ok(())
    }

    fn check_change(
        &self,
        version: u64,
        i: usize,
        change: &Change,
        (written, there): (&[usize], i64),
    ) -> Result<(), String> {
        let wrong = |what: &str, row: i64| {
            let others = self.changes.iter().enumerate().filter(|(other, _)| *other != i);
            let about: Vec<_> = others
                .map(|(_, other)| other)
                .filter(|other| other.rows.contains(&row) || other.removed().contains(&row))
                .collect();
            Err(format!(
                "version {version}: change {i} ({change:?}) {what}: {there} of its rows are there, and row {row}: \
                 {about:?}"
            ))
        };
        let is_there = |row: &i64| written[index(*row)] == i;
        if there > 0 && !change.may_be_in(version) {
            // Default: the first of all.
            let first = change.rows.clone().find(is_there).unwrap_or(change.rows.start);
            return wrong("is there too soon", first);
        }
        // Each answer is held against each change: of most of them all rows are there, or one other has removed all.
        let removers = || change.removers.iter().map(|other| &self.changes[*other]);
        if there < change.rows.end - change.rows.start {
            let may = removers().filter(|other| other.may_remove(change, version)).map(Change::removed);
            let may: Vec<Range<i64>> = may.collect();
            let is_removed = |row: &i64| may.iter().any(|rows| rows.contains(row));
            let all = may.iter().any(|rows| rows.start <= change.rows.start && change.rows.end <= rows.end);
            // What is not there, and was removed by nobody else.
            let missing = || change.rows.clone().find(|row| !is_there(row) && !is_removed(row));
            if let Some(row) = (!all).then(missing).flatten() {
                if change.is_known_by(version) {
                    return wrong("was acknowledged and is lost", row);
                }
                if there > 0 {
                    return wrong("is there in part", row);
                }
            }
        }
        if there > 0 {
            let mut must = removers().filter(|other| other.must_remove(change, version)).map(Change::removed);
            let both = |rows: Range<i64>| rows.start.max(change.rows.start)..rows.end.min(change.rows.end);
            if let Some(row) = must.find_map(|rows| both(rows).find(is_there)) {
                return wrong("is there again behind its removal", row);
            }
        }
        Ok(())
    }
}

/// The place of a row that somebody wrote.
fn index(row: i64) -> usize {
    usize::try_from(row).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes and the versions that acknowledged them.
    fn model(changes: &[(Kind, Range<i64>, Option<u64>)]) -> Model {
        let mut model = Model::default();
        for (kind, rows, version) in changes {
            let change = model.begin(*kind, rows.clone());
            version.iter().for_each(|version| model.done(change, *version).unwrap());
        }
        model
    }

    fn said(model: &mut Model, version: u64, rows: &[(i64, i64)]) -> String {
        model.answered(version, rows.iter().copied()).err().unwrap_or_default()
    }

    #[test]
    fn what_is_lost_double_halved_or_back_is_found() {
        use Kind::{Append, Delete, Replace, ReplaceAll};
        let changes = [(Append, 0..4, Some(1)), (Replace, 1..3, Some(2)), (Delete, 3..4, Some(3))];
        let mut known = model(&changes);
        assert_eq!(known.answered(3, [(0, 0), (1, 1), (2, 1)].into_iter()), Ok(()));
        assert_eq!(known.answered(2, [(0, 0), (1, 1), (2, 1), (3, 0)].into_iter()), Ok(()));
        let wrong = |version, rows: &[_], what| {
            let said = said(&mut model(&changes), version, rows);
            assert!(said.contains(what), "{said:?} of {rows:?}");
        };
        wrong(3, &[(0, 0), (1, 1), (1, 1), (2, 1)], "more than once");
        wrong(3, &[(1, 1), (2, 1)], "lost");
        wrong(3, &[(0, 0), (1, 1)], "lost");
        wrong(3, &[(0, 0), (1, 1), (2, 1), (3, 0)], "again");
        wrong(2, &[(0, 0), (1, 0), (2, 0), (3, 0)], "again");
        wrong(1, &[(0, 0), (1, 1), (2, 1), (3, 0)], "lost");
        wrong(3, &[(0, 0), (1, 1), (2, 1), (9, 0)], "nobody");

        // Of what nobody knows the end all is there or nothing.
        let unknown = [(Append, 0..4, Some(1)), (Replace, 1..3, None), (ReplaceAll, 7..9, None)];
        for rows in [
            &[(0, 0), (1, 0), (2, 0), (3, 0)][..],
            &[(0, 0), (1, 1), (2, 1), (3, 0)],
            &[(7, 2), (8, 2)],
            &[(1, 1), (2, 1), (7, 2), (8, 2)],
        ] {
            assert_eq!(said(&mut model(&unknown), 2, rows), "", "{rows:?}");
        }
        assert!(said(&mut model(&unknown), 2, &[(7, 2)]).contains("in part"));

        // Whichever it is, it is the same for everybody.
        let mut answered = model(&unknown);
        assert_eq!(said(&mut answered, 2, &[(7, 2), (8, 2)]), "");
        assert_eq!(said(&mut answered, 2, &[(8, 2), (7, 2)]), "");
        assert!(said(&mut answered, 2, &[(0, 0), (1, 0), (2, 0), (3, 0)]).contains("another answer"));

        let late = [(Append, 0..2, Some(5))];
        assert!(said(&mut model(&late), 4, &[(0, 0), (1, 0)]).contains("too soon"));

        let all = [(Append, 0..2, Some(1)), (ReplaceAll, 5..6, Some(2))];
        assert!(said(&mut model(&all), 2, &[(0, 0), (5, 1)]).contains("again"));
        assert_eq!(said(&mut model(&all), 2, &[(5, 1)]), "");
    }
}
