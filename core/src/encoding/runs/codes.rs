//! The codes of runs, in groups.

use std::ops::Range;

use arrow_buffer::Buffer;
use basalt_kernels::{bits as streams, mask, runs};

use super::super::{
    UNIT_ROWS,
    bytes::{Reader, bits, bits_at, ensure, index},
};
use crate::error::Result;

/// Runs of a group.
pub(super) const GROUP: usize = 128;
/// The greatest k: a run is of fewer than 2^21 rows.
pub(super) const MAX_K: u32 = 20;
/// Bits that [`bits_at`] is sure to give.
const WINDOW: u32 = 57;

/// Bits of a row and of a bit's place in an entry of the index.
fn widths(rows: usize, code_bits: usize) -> [u32; 2] {
    [rows, code_bits].map(|most| bits(most as u64))
}

/// Bytes of the index.
pub(super) fn index_bytes(rows: usize, runs: usize, code_bits: usize) -> usize {
    let width: u32 = widths(rows, code_bits).iter().sum();
    (runs.div_ceil(GROUP).saturating_sub(1) * width as usize).div_ceil(8)
}

/// Writes codes.
pub(super) struct CodesWriter {
    row_width: u32,
    width: u32,
    run: usize,
    row: usize,
    bit: usize,
    entries: Vec<u64>,
    codes: Vec<u8>,
}

impl CodesWriter {
    /// Of `runs` runs of `rows` rows that take `bits` bits.
    pub(super) fn new(rows: usize, runs: usize, bits: usize) -> Self {
        let [row_width, bit_width] = widths(rows, bits);
        let entries = Vec::with_capacity(runs / GROUP);
        // With room for whole words.
        let codes = vec![0; bits.div_ceil(8) + 8];
        Self { row_width, width: row_width + bit_width, run: 0, row: 0, bit: 0, entries, codes }
    }

    /// Appends a run of `length` rows.
    pub(super) fn put(&mut self, length: usize, k: u32) {
        if self.run > 0 && self.run.is_multiple_of(GROUP) {
            self.entries.push(self.row as u64 | (self.bit as u64) << self.row_width);
        }
        let number = length - 1;
        let one = self.bit + (number >> k);
        // The one, and the low bits behind it.
        let code = 1 | (number as u64 & ((1 << k) - 1)) << 1;
        let bytes = (code << (one % 8)).to_le_bytes();
        for (byte, part) in self.codes[one / 8..].iter_mut().zip(bytes) {
            *byte |= part;
        }
        self.run += 1;
        self.row += length;
        self.bit = one + 1 + k as usize;
    }

    /// The index and the codes.
    pub(super) fn finish(mut self) -> (Vec<u8>, Vec<u8>) {
        let mut index = vec![0; (self.entries.len() * self.width as usize).div_ceil(8)];
        streams::pack(&self.entries, self.width, &mut index);
        self.codes.truncate(self.bit.div_ceil(8));
        (index, self.codes)
    }
}

/// Codes to be read.
#[derive(Debug)]
pub(super) struct Codes {
    pub(super) rows: usize,
    pub(super) runs: usize,
    /// k of the runs of the first key, and of others.
    parameters: [u32; 2],
    bits: usize,
    index: Buffer,
    codes: Buffer,
}

/// Where a run begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) run: usize,
    pub(super) row: usize,
    bit: usize,
}

impl Place {
    /// The place behind the run here, whose quotient is the number of zeros; the low bits begin a word.
    #[inline]
    fn behind(self, quotient: usize, k: u32, word: u64) -> Self {
        let low = index(word & ((1 << k) - 1));
        // The quotient is below 2^32, the number of bits.
        let row = self.row + (quotient << k | low) + 1;
        Self { run: self.run + 1, row, bit: self.bit + quotient + 1 + k as usize }
    }
}

impl Codes {
    /// Reads the sections; what they hold is for [`Self::next`] to see.
    pub(super) fn read(
        reader: &mut Reader,
        params: [u8; 2],
        rows: usize,
        runs: usize,
        bits: usize,
    ) -> Result<Self> {
        let parameters = params.map(u32::from);
        let within = parameters.iter().all(|k| *k <= MAX_K) && (1..=rows).contains(&runs);
        ensure(within, "the runs are out of bounds")?;
        let index = reader.skip(index_bytes(rows, runs, bits))?;
        let codes = reader.skip(bits.div_ceil(8))?;
        Ok(Self { rows, runs, parameters, bits, index, codes })
    }

    /// Groups of runs.
    pub(super) fn groups(&self) -> usize {
        self.runs.div_ceil(GROUP)
    }

    /// Where a group begins.
    pub(super) fn group(&self, group: usize) -> Place {
        if group == 0 {
            return Place::default();
        }
        let [row, bit] = widths(self.rows, self.bits);
        let entry = bits_at(&self.index, (group - 1) * (row + bit) as usize);
        let part = |shift: u32, width: u32| index(entry >> shift & ((1 << width) - 1));
        Place { run: group * GROUP, row: part(0, row), bit: part(row, bit) }
    }

    /// The group that holds a row.
    pub(super) fn find(&self, row: usize) -> Place {
        let (mut from, mut to) = (0, self.groups());
        while to - from > 1 {
            let middle = usize::midpoint(from, to);
            if self.group(middle).row <= row { from = middle } else { to = middle }
        }
        self.group(from)
    }

    /// Whether the runs of the first key have the parameter of all.
    pub(super) fn are_alike(&self) -> bool {
        self.parameters[0] == self.parameters[1]
    }

    /// Where the run behind the one at `place`, of the first key or another, begins; `None` where there is no such code.
    #[inline]
    pub(super) fn next(&self, place: Place, first: bool) -> Option<Place> {
        self.behind(place, self.parameters[usize::from(!first)])
    }

    /// The same of a run whose parameter is `k`.
    #[inline]
    fn behind(&self, place: Place, k: u32) -> Option<Place> {
        let word = bits_at(&self.codes, place.bit);
        let zeros = word.trailing_zeros();
        if zeros + k >= WINDOW {
            return self.far_behind(place, k);
        }
        Some(place.behind(zeros as usize, k, word >> zeros >> 1))
    }

    /// The same of a code that a window may not hold.
    #[cold]
    fn far_behind(&self, place: Place, k: u32) -> Option<Place> {
        let mut bit = place.bit;
        let mut word = bits_at(&self.codes, bit);
        while word << (u64::BITS - WINDOW) == 0 {
            bit += WINDOW as usize;
            if bit >= self.bits {
                return None;
            }
            word = bits_at(&self.codes, bit);
        }
        bit += word.trailing_zeros() as usize;
        Some(place.behind(bit - place.bit, k, bits_at(&self.codes, bit + 1)))
    }

    /// Marks the last row of each run among the rows from `start` on, a multiple of 64, that have a bit in `out`. The
    /// answer is the number of the run that the first of them is in. `others` has a bit for each run of
    /// [`Self::runs_of`] that is not of the first key; nobody looks at it where runs are alike.
    pub(super) fn ends(&self, start: usize, others: &[u64], out: &mut [u64]) -> usize {
        let first = self.find(start);
        if let Some(k) = self.parameters.first().filter(|k| **k <= runs::MAX_K && self.are_alike()) {
            return self.ends_of_groups(first, start, *k, out);
        }
        out.fill(0);
        let (mut place, mut run) = (first, first.run);
        let (from, stop) = (self.runs_of(start, 1).start, (start + 64 * out.len()).min(self.rows));
        let is_first = |run: usize| others.get(run / 64).is_none_or(|word| word >> (run % 64) & 1 == 0);
        while place.row < stop
            && let Some(next) = self.next(place, is_first(place.run - from))
        {
            place = next;
            match (place.row - 1).checked_sub(start) {
                None => run = place.run,
                Some(row) if place.row <= stop => out[row / 64] |= 1 << (row % 64),
                Some(_) => {}
            }
        }
        run
    }

    /// The runs of the groups that hold some rows, from a multiple of [`UNIT_ROWS`] on.
    pub(super) fn runs_of(&self, start: usize, rows: usize) -> Range<usize> {
        let from = self.find(start).run / UNIT_ROWS * UNIT_ROWS;
        from..(self.find(start + rows - 1).run + GROUP).min(self.runs)
    }

    /// The same of runs that have all one parameter: whole groups are read by a kernel.
    fn ends_of_groups(&self, first: Place, start: usize, k: u32, out: &mut [u64]) -> usize {
        let stop = (start + 64 * out.len()).min(self.rows);
        let behind = self.find(stop - 1).run / GROUP + 1;
        let (row, bit) = match self.groups() > behind {
            true => (self.group(behind).row, self.group(behind).bit),
            false => (self.rows, self.bits),
        };
        let base = first.row / 64 * 64;
        let mut ends = vec![0; (row - base).div_ceil(64)];
        runs::ends(&self.codes, first.bit..bit, k, first.row - base, &mut ends);
        let (before, ends) = ends.split_at((start - base) / 64);
        let n = ends.len().min(out.len());
        out[..n].copy_from_slice(&ends[..n]);
        out[n..].fill(0);
        first.run + index(mask::count_ones(before))
    }

    /// Whether a place is behind the last run.
    pub(super) fn is_end(&self, place: Place) -> bool {
        place == Place { run: self.runs, row: self.rows, bit: self.bits }
    }
}
