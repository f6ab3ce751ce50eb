//! How the rows of the other keys are coded, and how long that is.

use basalt_kernels::{
    bits,
    gaps::{Highs, MAX_K},
};

use super::{
    super::{
        bytes::{Reader, count, ensure},
        rice::Rice,
    },
    line::Lines,
    others::Others,
};
use crate::{error::Result, invariant::Invariant};

/// Rows that are coded by themselves, an interval, are 2 to the power of one of these: from a unit to a block.
pub(super) const SHIFTS: std::ops::RangeInclusive<u32> = 9..=16;

/// Bits that an interval is to take, at least. They are a cache line or two, of which a row is found in some 50 ns;
/// the index adds about a percent to them.
const INTERVAL_BITS: usize = 1024;

/// How much larger intervals for random access may be than blocks: by one part in so many, as in the chooser's size/speed
/// trade-off.
const TRADE_OFF: usize = 70;

/// How rows are coded.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Layout {
    pub(super) highs: Highs,
    pub(super) shift: u32,
    /// Bits of a low part.
    pub(super) k: u32,
    /// The ones and the zeros of the unary numbers before each interval; ones are rows.
    pub(super) lines: Lines,
}

/// Ones and zeros before each interval.
type Before = [Vec<u32>; 2];

impl Layout {
    /// The Rice code: in intervals for random access, where these are within the trade-off.
    pub(super) fn rice(others: &Others) -> Self {
        let near = Self::rice_by(others, shift(others.rows(), others.len()));
        if near.lines.bytes() <= near.bytes() / TRADE_OFF {
            return near;
        }
        let far = Self::rice_by(others, *SHIFTS.end());
        if near.bytes() <= far.bytes() + far.bytes() / TRADE_OFF { near } else { far }
    }

    /// The Rice code in intervals of `1 << shift` rows.
    pub(super) fn rice_by(others: &Others, shift: u32) -> Self {
        let mut gaps = Vec::with_capacity(others.len());
        for positions in others.intervals(shift) {
            let mut next = 0;
            gaps.extend(positions.map(|position| {
                let gap = u32::from(position) - next;
                next = u32::from(position) + 1;
                gap
            }));
        }
        Self::new(Highs::Carried, shift, Rice::best(&gaps, MAX_K).k, others)
    }

    /// The Elias-Fano code.
    pub(in super::super) fn elias_fano(others: &Others) -> Self {
        let (shift, k) = elias_fano(others.rows(), others.len());
        Self::new(Highs::Steps, shift, k, others)
    }

    /// About the Elias-Fano code of the rows, which are of a column of `rows`.
    pub(in super::super) fn as_elias_fano(&self, rows: usize) -> Self {
        let (shift, k) = elias_fano(rows, self.rows());
        let intervals = rows.div_ceil(1 << shift);
        let lines = self.lines.with_steps(intervals, count(intervals << (shift - k)));
        Self { highs: Highs::Steps, shift, k, lines }
    }

    fn new(highs: Highs, shift: u32, k: u32, others: &Others) -> Self {
        let layout = Self { highs, shift, k, lines: Lines::default() };
        Self { lines: Lines::new(&layout.before(others)), ..layout }
    }

    /// Reads the lines of a layout of `rows` rows.
    pub(super) fn read(highs: Highs, shift: u32, k: u32, rows: usize, reader: &mut Reader) -> Result<Self> {
        let within = SHIFTS.contains(&shift) && k <= MAX_K.min(shift);
        ensure(within, "the layout is out of bounds")?;
        let lines = Lines::read_head(reader, rows.div_ceil(1 << shift))?;
        let layout = Self { highs, shift, k, lines };
        ensure(layout.rows() <= rows, "more rows are coded than there are")?;
        Ok(layout)
    }

    /// What the unary number of each position is.
    fn numbers(&self, positions: impl Iterator<Item = u16>) -> impl Iterator<Item = usize> {
        let k = self.k;
        let (mut next, carried) = (0, self.highs == Highs::Carried);
        positions.map(move |position| {
            let position = usize::from(position);
            if carried {
                let gap = position - next;
                next = position + 1;
                gap >> k
            } else {
                let step = (position >> k) - next;
                next = position >> k;
                step
            }
        })
    }

    fn before(&self, others: &Others) -> Before {
        let (mut ones, mut zeros) = (vec![0], vec![0]);
        let (mut one, mut zero) = (0, 0);
        for positions in others.intervals(self.shift) {
            one += positions.len();
            zero += match self.highs {
                Highs::Carried => self.numbers(positions).sum::<usize>(),
                // So many in any case: a row is found by counting them.
                Highs::Steps => 1 << (self.shift - self.k),
            };
            ones.push(count(one));
            zeros.push(count(zero));
        }
        [ones, zeros]
    }

    /// The same of `to` rows, as if they went on like these `from`.
    pub(super) fn scaled(self, from: usize, to: usize) -> Self {
        Self { lines: self.lines.scaled(from, to, to.div_ceil(1 << self.shift)), ..self }
    }

    /// Rows that are coded.
    pub(super) fn rows(&self) -> usize {
        self.lines.last()[0]
    }

    /// Bytes of the index, of the low parts and of the unary numbers.
    pub(super) fn sections(&self) -> [usize; 3] {
        let [ones, zeros] = self.lines.last();
        [self.lines.bytes(), (ones * self.k as usize).div_ceil(8), (ones + zeros).div_ceil(8)]
    }

    /// Bytes of the code, the index included.
    pub(super) fn bytes(&self) -> usize {
        self.sections().iter().sum()
    }

    /// The sections.
    pub(super) fn encode(&self, others: &Others) -> [Vec<u8>; 3] {
        let before = self.before(others);
        let mut sections = self.sections().map(|bytes| vec![0; bytes]);
        let [packed, lows, unary] = &mut sections;
        *packed = self.lines.pack(&before);
        let mut parts = Vec::with_capacity(others.len());
        for (interval, positions) in others.intervals(self.shift).enumerate() {
            let mut bit = (before[0][interval] + before[1][interval]) as usize;
            for number in self.numbers(positions.clone()) {
                bit += number;
                unary[bit / 8] |= 1 << (bit % 8);
                bit += 1;
            }
            parts.extend(positions.map(u64::from));
        }
        bits::pack(&parts, self.k, lows);
        sections
    }
}

/// Log2 of the rows of an interval, where `others` of `rows` are about evenly spread.
fn shift(rows: usize, others: usize) -> u32 {
    let others = others.max(1);
    // A Rice code takes about 1.5 bits more than the logarithm of the mean gap.
    let bits = others * ((rows / others).max(1).ilog2() as usize + 2);
    (INTERVAL_BITS * rows / bits).next_power_of_two().ilog2().clamp(*SHIFTS.start(), *SHIFTS.end())
}

/// The same of an Elias-Fano code, and the bits of its low parts.
fn elias_fano(rows: usize, others: usize) -> (u32, u32) {
    // Half as many rows: what is counted to find one is half as long.
    let shift = (shift(rows, others) - 1).max(*SHIFTS.start());
    let rows = rows.next_multiple_of(1 << shift);
    let bits = |k: &u32| others * *k as usize + (rows >> k);
    (shift, (0..=MAX_K.min(shift)).min_by_key(bits).invariant("low parts have 0 bits or more"))
}
