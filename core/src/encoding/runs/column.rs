//! Reading runs.

use std::sync::Arc;

use arrow_buffer::Buffer;
use basalt_kernels::mask as words;

use super::{
    super::{
        Costs, KeyColumn, KeyTest, UNIT_ROWS,
        bytes::{corrupt, count, ensure, index},
        cache::{Blocks, Id, with_block},
        fallback, mask,
    },
    codes::{Codes, GROUP, Place},
};
use crate::{
    error::Result,
    invariant::{Invariant, broken},
    limits::BLOCK_ROWS,
};

/// What the encoding is called.
pub(super) const NAME: &str = "runs";

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
    pub(super) id: Id,
    pub(super) keys: RunKeys,
    pub(super) codes: Codes,
}

/// What [`Blocks::words`] sees to.
const EMPTY: &str = "a block of runs is decoded to its first run and a mask";

/// Some rows of one block, by the runs that they are in.
struct Part<'a> {
    /// The first row behind those that come before, and how many there are.
    at: usize,
    rows: usize,
    /// The run that the first row is in, and how many runs there are.
    run: usize,
    runs: usize,
    /// Selects the last row of each run.
    ends: &'a [u64],
}

impl Column {
    /// Checks that the codes are those of the runs, and the index that of the codes.
    pub(super) fn check(&self) -> Result<()> {
        let mut place = Place::default();
        let mut keys = [0; UNIT_ROWS];
        for first in (0..self.codes.runs).step_by(UNIT_ROWS) {
            let runs = UNIT_ROWS.min(self.codes.runs - first);
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

    /// Writes the keys of runs from a multiple of [`UNIT_ROWS`] on.
    fn keys_of(&self, first: usize, out: &mut [i64]) {
        match &self.keys {
            RunKeys::Turns(keys) => out.iter_mut().enumerate().for_each(|(run, key)| *key = keys[run % 2]),
            RunKeys::Own { keys, .. } => keys.decode(first, out),
        }
    }

    /// Writes which runs from a multiple of [`UNIT_ROWS`] on pass.
    fn runs_that_pass(&self, first: usize, runs: usize, test: &KeyTest, out: &mut [u64]) {
        match &self.keys {
            RunKeys::Turns(keys) => {
                let turns = keys.map(|key| if test.passes(key) { u64::MAX } else { 0 });
                out.fill(turns[0] & EVEN | turns[1] & !EVEN);
            }
            RunKeys::Own { keys, .. } => keys.filter(first, runs, test, out),
        }
    }

    /// The key of a run.
    fn key_of(&self, run: usize) -> i64 {
        match &self.keys {
            RunKeys::Turns(keys) => keys[run % 2],
            RunKeys::Own { keys, .. } => keys.get(run),
        }
    }

    /// Calls `work` with the parts of rows that blocks hold.
    fn each_part(&self, start: usize, rows: usize, mut work: impl FnMut(&Part<'_>)) {
        let stop = start + rows;
        for block in start / BLOCK_ROWS..stop.div_ceil(BLOCK_ROWS) {
            let first = block * BLOCK_ROWS;
            let (from, to) = (start.max(first), stop.min(first + BLOCK_ROWS));
            self.with_ends(block, |run, ends| {
                let (before, ends) = ends.split_at((from - first) / 64);
                let rows = to - from;
                let run = run + mask::count_ones(before);
                let runs = 1 + mask::count_range(Some(ends), 0, rows - 1);
                let ends = &ends[..rows.div_ceil(64)];
                work(&Part { at: from - start, rows, run, runs, ends });
            });
        }
    }

    /// Calls `work` with the run that a block's first row is in, and the mask of the last rows of its runs.
    fn with_ends<R>(&self, block: usize, work: impl FnOnce(usize, &[u64]) -> R) -> R {
        with_block(
            (self.id, block),
            self,
            |_| 1,
            |words| match words {
                [run, ends @ ..] => work(index(*run), ends),
                [] => broken(EMPTY),
            },
        )
    }

    /// Calls `work(key, from, to)` for the part of each run that lies in the rows; places count from `start`.
    fn each_run(&self, start: usize, rows: usize, mut work: impl FnMut(i64, usize, usize)) {
        let mut keys = Vec::new();
        self.each_part(start, rows, |part| {
            let skipped = part.run % UNIT_ROWS;
            keys.resize(skipped + part.runs, 0);
            self.keys_of(part.run - skipped, &mut keys);
            let mut from = 0;
            let mut keys = keys[skipped..].iter();
            words::for_each(part.ends, |last| {
                let to = (last + 1).min(part.rows);
                if let Some(key) = keys.next() {
                    work(*key, part.at + from, part.at + to);
                }
                from = to;
            });
            if let Some(key) = keys.next() {
                work(*key, part.at + from, part.at + part.rows);
            }
        });
    }
}

impl Blocks for Column {
    /// The run that its first row is in, and a mask.
    fn words(&self, block: usize) -> usize {
        1 + BLOCK_ROWS.min(self.codes.rows - block * BLOCK_ROWS).div_ceil(64)
    }

    fn decode(&self, first: usize, out: &mut [&mut [u64]]) {
        for (block, out) in (first..).zip(out) {
            let start = block * BLOCK_ROWS;
            let mut others = Vec::new();
            if !self.codes.are_alike() {
                let runs = self.codes.runs_of(start, BLOCK_ROWS.min(self.codes.rows - start));
                others.resize(runs.len().div_ceil(64), 0);
                let first = KeyTest::Range { lo: self.first(), hi: self.first() };
                self.runs_that_pass(runs.start, runs.len(), &first, &mut others);
                words::not(&mut others, runs.len());
            }
            let [run, ends @ ..] = &mut **out else { broken(EMPTY) };
            *run = self.codes.ends(start, &others, ends) as u64;
        }
    }
}

/// Every other run, from the first of a unit on.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// Runs that are read in the time that it takes to find a single row, about.
const ROW_RUNS: usize = 256;

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
            RunKeys::Turns(_) => NAME.to_owned(),
            RunKeys::Own { keys, .. } => format!("{}({})", NAME, keys.name()),
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
        let alike = self.codes.are_alike();
        let mut place = self.codes.find(row);
        loop {
            let next = self.codes.next(place, alike || self.key_of(place.run) == self.first());
            let next = next.invariant("a row is in a run");
            if next.row > row {
                return self.key_of(place.run);
            }
            place = next;
        }
    }

    fn gather(&self, start: usize, places: &[u16], out: &mut [i64]) {
        let runs = self.codes.runs * BLOCK_ROWS / self.codes.rows;
        if places.len() * ROW_RUNS < runs {
            return out
                .iter_mut()
                .zip(places)
                .for_each(|(out, place)| *out = self.get(start + usize::from(*place)));
        }
        let mut numbers = vec![0; places.len()];
        let first = self.with_ends(start / BLOCK_ROWS, |run, ends| {
            basalt_kernels::runs::numbers(ends, places, &mut numbers);
            run
        });
        match &self.keys {
            RunKeys::Turns(keys) => {
                out.iter_mut()
                    .zip(&numbers)
                    .for_each(|(out, run)| *out = keys[(first + usize::from(*run)) % 2]);
            }
            RunKeys::Own { keys, .. } => {
                // Places among the keys of one block of them, and then among those of the next.
                let (block, behind) = (first / BLOCK_ROWS * BLOCK_ROWS, first % BLOCK_ROWS);
                let here = numbers.partition_point(|run| behind + usize::from(*run) < BLOCK_ROWS);
                numbers.iter_mut().for_each(|run| *run = run.wrapping_add(places16(behind)));
                let (out, next) = out.split_at_mut(here);
                keys.gather(block, &numbers[..here], out);
                if !next.is_empty() {
                    keys.gather(block + BLOCK_ROWS, &numbers[here..], next);
                }
            }
        }
    }

    fn filter(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]) {
        let mut passing = Vec::new();
        self.each_part(start, rows, |part| {
            let skipped = part.run % UNIT_ROWS;
            passing.resize((skipped + part.runs).div_ceil(64), 0);
            self.runs_that_pass(part.run - skipped, skipped + part.runs, test, &mut passing);
            let out = &mut out[part.at / 64..][..part.ends.len()];
            basalt_kernels::runs::spread(part.ends, &passing, skipped, out);
            if let Some(last) = out.last_mut().filter(|_| !part.rows.is_multiple_of(64)) {
                *last &= (1 << (part.rows % 64)) - 1;
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
        let part = |picoseconds: usize| count(picoseconds * self.codes.runs / self.codes.rows);
        let look_up = match &self.keys {
            RunKeys::Turns(_) => 0,
            RunKeys::Own { keys, .. } => part(keys.costs().look_up as usize),
        };
        Costs { filter: part(1500), look_up, get: 400 }
    }
}

/// A place in a block.
fn places16(place: usize) -> u16 {
    u16::try_from(place).invariant("a place in a block is a u16")
}
