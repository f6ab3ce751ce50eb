//! The codes of runs, in groups.

use arrow_buffer::Buffer;
use basalt_kernels::bits as streams;

use super::super::bytes::{Reader, bits, bits_at, count, ensure, index};
use crate::error::Result;

/// Runs of a group.
pub(super) const GROUP: usize = 128;
/// Runs of a unit, whose groups are read side by side.
pub(super) const UNIT: usize = super::super::UNIT_ROWS;
/// Words of a bit for each run of a unit.
pub(super) const UNIT_WORDS: usize = UNIT / 64;
/// Groups of a unit.
const SIDE_BY_SIDE: usize = UNIT / GROUP;
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
    /// The place behind the run here, whose quotient is told by so many zeros; the low bits begin a word.
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

    /// Whether the first run of a group begins at a row or before it.
    pub(super) fn begins(&self, run: usize, row: usize) -> bool {
        run < self.runs && self.group(run / GROUP).row <= row
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

    /// The rows behind each run of a unit, for the runs that it has; `others` has a bit for each that is not of the
    /// first key. A run waits for the one before it, so the groups take turns.
    pub(super) fn ends(&self, unit: usize, others: &[u64; UNIT_WORDS], ends: &mut [u32; UNIT]) {
        let first = unit * SIDE_BY_SIDE;
        let groups = SIDE_BY_SIDE.min(self.groups() - first);
        let mut places = [Place::default(); SIDE_BY_SIDE];
        for (place, group) in places.iter_mut().zip(first..first + groups) {
            *place = self.group(group);
        }
        let step = |place: &mut Place, run: usize| {
            let k = self.parameters[usize::from(others[run / 64] >> (run % 64) & 1 == 1)];
            *place = self.behind(*place, k).unwrap_or(*place);
            count(place.row)
        };
        if self.runs - unit * UNIT >= UNIT {
            for run in 0..GROUP {
                for (group, place) in places.iter_mut().enumerate() {
                    ends[group * GROUP + run] = step(place, group * GROUP + run);
                }
            }
            return;
        }
        for (run, end) in ends.iter_mut().enumerate().take(self.runs - unit * UNIT) {
            *end = step(&mut places[run / GROUP], run);
        }
    }

    /// Whether a place is behind the last run.
    pub(super) fn is_end(&self, place: Place) -> bool {
        place == Place { run: self.runs, row: self.rows, bit: self.bits }
    }
}
