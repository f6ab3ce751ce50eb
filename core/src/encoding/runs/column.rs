//! Reading runs.

use std::sync::Arc;

use arrow_buffer::Buffer;

use super::{
    super::{
        Costs, KeyColumn, KeyEncoding, KeyTest, UNIT_ROWS,
        bytes::{corrupt, count, ensure},
        fallback, mask,
    },
    Runs,
    codes::{Codes, GROUP, Place},
};
use crate::error::Result;

/// The keys of runs.
#[derive(Debug)]
pub(super) enum RunKeys {
    /// Two take turns.
    Turns([i64; 2]),
    /// Each has its own; runs of `first` have a k of theirs.
    Own { first: i64, keys: Arc<dyn KeyColumn> },
}

/// A column of runs.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) buffer: Buffer,
    pub(super) keys: RunKeys,
    pub(super) codes: Codes,
}

/// Goes from run to run.
struct Cursor<'a> {
    column: &'a Column,
    place: Place,
    /// The keys of the unit of runs that holds the place, where they have their own.
    keys: Vec<i64>,
}

impl<'a> Cursor<'a> {
    fn new(column: &'a Column, place: Place) -> Self {
        let mut cursor = Self { column, place, keys: Vec::new() };
        cursor.load();
        cursor
    }

    /// Decodes the keys of the place's unit.
    fn load(&mut self) {
        if let RunKeys::Own { keys, .. } = &self.column.keys {
            let unit = self.place.run / UNIT_ROWS * UNIT_ROWS;
            if unit < keys.rows() {
                self.keys.resize((keys.rows() - unit).min(UNIT_ROWS), 0);
                keys.decode(unit, &mut self.keys);
            }
        }
    }

    /// The key of the next run.
    #[inline]
    fn next(&mut self) -> Option<i64> {
        let run = self.place.run;
        let (key, first) = match &self.column.keys {
            RunKeys::Turns(keys) => (keys[run % 2], run.is_multiple_of(2)),
            RunKeys::Own { first, .. } => {
                let key = self.keys[run % UNIT_ROWS];
                (key, key == *first)
            }
        };
        self.place = self.column.codes.next(self.place, first)?;
        if self.place.run.is_multiple_of(UNIT_ROWS) {
            self.load();
        }
        Some(key)
    }
}

impl Column {
    /// Checks that the codes are those of the runs, and the index that of the codes.
    pub(super) fn check(&self) -> Result<()> {
        let mut cursor = Cursor::new(self, Place::default());
        for run in 0..self.codes.runs {
            let place = cursor.place;
            if run.is_multiple_of(GROUP) {
                ensure(place == self.codes.group(run / GROUP), "the index is not that of the runs")?;
            }
            cursor.next().ok_or_else(|| corrupt("the runs end too soon"))?;
            ensure(cursor.place.row <= self.codes.rows, "the runs hold other rows")?;
        }
        ensure(self.codes.is_end(cursor.place), "the runs do not hold the rows")
    }

    /// Calls `work(key, from, to)` for the part of each run that lies in the rows; places count from `start`.
    fn each_run(&self, start: usize, rows: usize, mut work: impl FnMut(i64, usize, usize)) {
        let stop = start + rows;
        let mut cursor = Cursor::new(self, self.codes.find(start));
        let mut at = start;
        while at < stop {
            let Some(key) = cursor.next() else { return };
            let end = cursor.place.row.min(stop);
            if end > at {
                work(key, at - start, end - start);
                at = end;
            }
        }
    }
}

impl KeyColumn for Column {
    fn rows(&self) -> usize {
        self.codes.rows
    }

    fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    fn name(&self) -> String {
        match &self.keys {
            RunKeys::Turns(_) => Runs.name().to_owned(),
            RunKeys::Own { keys, .. } => format!("{}({})", Runs.name(), keys.name()),
        }
    }

    fn decode(&self, start: usize, out: &mut [i64]) {
        self.each_run(start, out.len(), |key, from, to| out[from..to].fill(key));
    }

    fn get(&self, row: usize) -> i64 {
        let mut found = 0;
        self.each_run(row, 1, |key, _, _| found = key);
        found
    }

    fn filter(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]) {
        mask::set_all(out, rows, false);
        self.each_run(start, rows, |key, from, to| {
            if test.passes(key) {
                mask::set_range(out, from, to);
            }
        });
    }

    fn sum(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> i128 {
        let mut sum = 0;
        self.each_run(start, rows, |key, from, to| {
            sum += i128::from(key) * mask::count_range(mask, from, to) as i128;
        });
        sum
    }

    fn min_max(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> Option<(i64, i64)> {
        let mut extremes = None;
        self.each_run(start, rows, |key, from, to| {
            if mask::count_range(mask, from, to) > 0 {
                extremes = fallback::widen(extremes, Some((key, key)));
            }
        });
        extremes
    }

    fn costs(&self) -> Costs {
        Costs { filter: count(3000 * self.codes.runs / self.codes.rows), get: 400 }
    }
}
