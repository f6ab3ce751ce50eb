//! Reading runs.

use std::sync::Arc;

use arrow_buffer::Buffer;
use basalt_kernels::mask as words;

use super::{
    super::{
        Costs, KeyColumn, KeyEncoding, KeyTest,
        bytes::{corrupt, count, ensure},
        fallback, mask,
    },
    Runs,
    codes::{Codes, GROUP, Place, UNIT, UNIT_WORDS},
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

/// Runs of one unit.
struct Unit<'a> {
    /// The first of them.
    run: usize,
    /// The row behind each.
    ends: &'a [u32],
}

impl Column {
    /// Checks that the codes are those of the runs, and the index that of the codes.
    pub(super) fn check(&self) -> Result<()> {
        let mut place = Place::default();
        let mut keys = [0; UNIT];
        for first in (0..self.codes.runs).step_by(UNIT) {
            let runs = UNIT.min(self.codes.runs - first);
            self.keys_of(first, &mut keys[..runs]);
            for (run, key) in (first..).zip(&keys[..runs]) {
                if run.is_multiple_of(GROUP) {
                    ensure(place == self.codes.group(run / GROUP), "the index is not that of the runs")?;
                }
                let next = self.codes.next(place, *key == self.first());
                place = next.ok_or_else(|| corrupt("the runs end too soon"))?;
                ensure(place.row <= self.codes.rows, "the runs hold other rows")?;
            }
        }
        ensure(self.codes.is_end(place), "the runs do not hold the rows")
    }

    /// The key whose runs have a parameter of their own.
    fn first(&self) -> i64 {
        match &self.keys {
            RunKeys::Turns([first, _]) | RunKeys::Own { first, .. } => *first,
        }
    }

    /// Writes the keys of runs from the beginning of a unit on.
    fn keys_of(&self, first: usize, out: &mut [i64]) {
        match &self.keys {
            RunKeys::Turns(keys) => out.iter_mut().enumerate().for_each(|(run, key)| *key = keys[run % 2]),
            RunKeys::Own { keys, .. } => keys.decode(first, out),
        }
    }

    /// Writes which runs from the beginning of a unit on pass.
    fn runs_that_pass(&self, first: usize, runs: usize, test: &KeyTest, out: &mut [u64]) {
        match &self.keys {
            RunKeys::Turns(keys) => {
                let turns = keys.map(|key| if test.passes(key) { u64::MAX } else { 0 });
                out.fill(turns[0] & EVEN | turns[1] & !EVEN);
            }
            RunKeys::Own { keys, .. } => keys.filter(first, runs, test, out),
        }
    }

    /// Calls `work` with the units of runs that hold the rows, one after the other.
    fn each_unit(&self, start: usize, rows: usize, mut work: impl FnMut(&Unit<'_>)) {
        let mut ends = [0; UNIT];
        let first = self.codes.find(start).run / UNIT;
        for unit in first..self.codes.runs.div_ceil(UNIT) {
            let unit = self.unit(unit, &mut ends);
            work(&unit);
            if unit.end() >= start + rows {
                return;
            }
        }
    }

    fn unit<'e>(&self, unit: usize, ends: &'e mut [u32; UNIT]) -> Unit<'e> {
        let run = unit * UNIT;
        let runs = UNIT.min(self.codes.runs - run);
        let mut others = [0; UNIT_WORDS];
        if !self.codes.are_alike() {
            let first = KeyTest::Range { lo: self.first(), hi: self.first() };
            let others = &mut others[..runs.div_ceil(64)];
            self.runs_that_pass(run, runs, &first, others);
            words::not(others, runs);
        }
        self.codes.ends(unit, &others, ends);
        Unit { run, ends: &ends[..runs] }
    }

    /// Calls `work(key, from, to)` for the part of each run that lies in the rows; places count from `start`.
    fn each_run(&self, start: usize, rows: usize, mut work: impl FnMut(i64, usize, usize)) {
        let (mut keys, mut at) = ([0; UNIT], 0);
        self.each_unit(start, rows, |unit| {
            let keys = &mut keys[..unit.ends.len()];
            self.keys_of(unit.run, keys);
            unit.each(start, rows, &mut at, |i, from, to| work(keys[i], from, to));
        });
    }
}

impl Unit<'_> {
    /// The row behind the last run.
    fn end(&self) -> usize {
        self.ends.last().map_or(usize::MAX, |end| *end as usize)
    }

    /// The run that holds a row of the unit.
    #[inline]
    fn holding(&self, row: usize) -> usize {
        self.ends.partition_point(|end| *end as usize <= row)
    }

    /// Calls `work(run, from, to)` for the part of each run that lies in the rows from `start + at` on.
    #[inline]
    fn each(&self, start: usize, rows: usize, at: &mut usize, mut work: impl FnMut(usize, usize, usize)) {
        for (run, end) in self.ends.iter().enumerate().skip(self.holding(start + *at)) {
            let end = (*end as usize - start).min(rows);
            work(run, *at, end);
            *at = end;
            if end == rows {
                return;
            }
        }
    }
}

/// Every other run, from the first of a unit on.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// Keys that are written at once, whatever the length of their run.
const EIGHT: usize = 8;

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
        self.each_run(start, out.len(), |key, from, to| {
            // Most runs are short; what is too much is written over by the next.
            match out[from..].first_chunk_mut::<EIGHT>() {
                Some(first) => {
                    *first = [key; EIGHT];
                    if to > from + EIGHT {
                        out[from + EIGHT..to].fill(key);
                    }
                }
                None => out[from..to].fill(key),
            }
        });
    }

    fn get(&self, row: usize) -> i64 {
        let key_of = |run: usize| match &self.keys {
            RunKeys::Turns(keys) => keys[run % 2],
            RunKeys::Own { keys, .. } => keys.get(run),
        };
        let alike = self.codes.are_alike();
        let mut place = self.codes.find(row);
        while let Some(next) = self.codes.next(place, alike || key_of(place.run) == self.first())
            && next.row <= row
        {
            place = next;
        }
        key_of(place.run)
    }

    fn gather(&self, start: usize, places: &[u16], out: &mut [i64]) {
        let (mut ends, mut keys) = ([0; UNIT], [0; UNIT]);
        let (mut places, mut out) = (places, out);
        let mut next = 0;
        while let Some(first) = places.first() {
            let row = start + usize::from(*first);
            // The next unit, most often.
            if !self.codes.begins(next * UNIT, row) || self.codes.begins((next + 1) * UNIT, row) {
                next = self.codes.find(row).run / UNIT;
            }
            let unit = self.unit(next, &mut ends);
            let keys = &mut keys[..unit.ends.len()];
            self.keys_of(unit.run, keys);
            let inside = places.partition_point(|place| start + usize::from(*place) < unit.end());
            let (here, rest) = places.split_at(inside);
            let (found, behind) = std::mem::take(&mut out).split_at_mut(inside);
            for (out, place) in found.iter_mut().zip(here) {
                *out = keys[unit.holding(start + usize::from(*place))];
            }
            (places, out, next) = (rest, behind, next + 1);
        }
    }

    fn filter(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]) {
        let first = self.codes.find(start).run / UNIT * UNIT;
        let runs = (self.codes.find(start + rows - 1).run + GROUP).min(self.codes.runs) - first;
        let mut passing = vec![0; runs.div_ceil(64)];
        self.runs_that_pass(first, runs, test, &mut passing);
        let (mut writer, mut at) = (mask::RunWriter::new(out), 0);
        self.each_unit(start, rows, |unit| {
            let passing = &passing[(unit.run - first) / 64..];
            unit.each(start, rows, &mut at, |run, _, to| {
                writer.put(passing[run / 64] >> (run % 64) & 1 == 1, to);
            });
        });
        writer.finish();
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
