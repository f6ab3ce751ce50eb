//! Reading coded rows.

use arrow_buffer::Buffer;
use basalt_kernels::gaps::{self, Gaps, Highs};

use super::{
    super::bytes::{Reader, bits_at, corrupt, ensure},
    layout::Layout,
    line::LinesReader,
};
use crate::{error::Result, invariant::Invariant};

/// What [`Coded::check`] has seen to.
const ENDS: &str = "the rows of an interval end within it";

/// Positions that kernels may write behind those asked for.
const ROOM: usize = 32;

/// Coded rows.
#[derive(Debug)]
pub(super) struct Coded {
    layout: Layout,
    index: Buffer,
    before: LinesReader,
    /// The low parts, and the unary numbers behind them, for kernels read past the former.
    payload: Buffer,
    /// Where the unary numbers begin.
    unary: usize,
    /// The most rows that an interval has.
    most: usize,
}

/// What is coded of an interval, or of a part of it.
pub(super) struct Part<'a> {
    /// Coded rows before these.
    pub(super) rank: usize,
    /// The rows, counted from the interval's first.
    pub(super) positions: &'a [u16],
    /// The part's first row, in chunks of 64 rows from the interval's first.
    pub(super) from: usize,
    /// The part's first row, in chunks from the first row asked for.
    pub(super) at: usize,
}

impl Coded {
    /// Reads the code of rows below `rows`, which is checked unless it was `made` here.
    pub(super) fn read(reader: &mut Reader, layout: Layout, rows: usize, made: bool) -> Result<Self> {
        let [index, lows, unary] = layout.sections();
        let index = reader.skip(index)?;
        let payload = reader.skip(lows + unary)?;
        let before = layout.lines.reader();
        let mut coded = Self { layout, index, before, payload, unary: lows, most: 0 };
        if made {
            let intervals = 0..rows.div_ceil(1 << coded.layout.shift);
            let most = intervals.map(|interval| coded.interval(interval).1.count).max();
            coded.most = most.invariant("a column has a row");
        } else {
            coded.check(rows)?;
        }
        Ok(coded)
    }

    /// Checks that intervals follow each other, and hold ascending positions of their rows.
    fn check(&mut self, rows: usize) -> Result<()> {
        let shift = self.layout.shift;
        let mut positions = Vec::new();
        let mut before = [0; 2];
        let last = self.layout.lines.last();
        for (interval, first) in (0..rows).step_by(1 << shift).enumerate() {
            let behind = self.before(interval + 1);
            let ascend = (0..2).all(|i| before[i] <= behind[i] && behind[i] <= last[i]);
            ensure(ascend && self.before(interval) == before, "the intervals do not follow each other")?;
            let steps = behind[1] - before[1] == 1 << (shift - self.layout.k);
            ensure(self.layout.highs == Highs::Carried || steps, "an interval has other steps than rows")?;
            let (_, gaps) = self.interval(interval);
            positions.resize(positions.len().max(gaps.count + ROOM), 0);
            let end =
                gaps::positions(&gaps, &mut positions).ok_or_else(|| corrupt("an interval ends too soon"))?;
            let positions = &positions[..gaps.count];
            let ascend = positions.windows(2).fold(true, |ascend, pair| ascend & (pair[0] < pair[1]));
            let most = (rows - first).min(1 << shift);
            let inside = positions.last().is_none_or(|&last| usize::from(last) < most);
            ensure(ascend && inside, "the rows are not in order")?;
            let unread = (behind[0] + behind[1]).checked_sub(end);
            let zeros = |unread| {
                (0..unread).step_by(57).all(|i| {
                    let bits = bits_at(gaps.unary, end + i);
                    bits << (64 - (unread - i).min(57)) == 0
                })
            };
            ensure(unread.is_some_and(|unread| unread == 0 || zeros(unread)), "an interval has other rows")?;
            self.most = self.most.max(gaps.count);
            before = behind;
        }
        ensure(before == last, "the intervals do not hold the rows")
    }

    /// The ones and zeros of the unary numbers before an interval.
    #[inline]
    fn before(&self, interval: usize) -> [usize; 2] {
        self.before.get(&self.index, interval)
    }

    /// The coded rows before an interval, and its own.
    #[inline]
    fn interval(&self, interval: usize) -> (usize, Gaps<'_>) {
        let [rank, zeros] = self.before(interval);
        let [end, _] = self.before(interval + 1);
        let Layout { highs, k, .. } = self.layout;
        let gaps = Gaps {
            highs,
            k,
            count: end - rank,
            unary: &self.payload[self.unary..],
            unary_bit: rank + zeros,
            lows: &self.payload,
            lows_bit: rank * k as usize,
        };
        (rank, gaps)
    }

    /// Coded rows.
    pub(super) fn len(&self) -> usize {
        self.layout.rows()
    }

    /// Nanoseconds that [`Self::rank`] takes, roughly.
    pub(super) fn rank_cost(&self) -> u32 {
        match self.layout.highs {
            Highs::Steps => 30,
            Highs::Carried => 60,
        }
    }

    /// How many coded rows are below one, and whether it is one of them.
    pub(super) fn rank(&self, row: usize) -> (usize, bool) {
        let interval = row >> self.layout.shift;
        let (rank, gaps) = self.interval(interval);
        let position =
            u16::try_from(row - (interval << self.layout.shift)).invariant("an interval is a block at most");
        let (below, coded) = gaps::rank(&gaps, position).invariant(ENDS);
        (rank + below, coded)
    }

    /// Coded rows below `row`, which may be behind the last.
    pub(super) fn count_below(&self, row: usize, rows: usize) -> usize {
        if row < rows { self.rank(row).0 } else { self.layout.rows() }
    }

    /// Calls `work` with the parts of intervals that hold the rows from `start`, which is a multiple of 64.
    pub(super) fn each(&self, start: usize, rows: usize, mut work: impl FnMut(Part<'_>)) {
        let shift = self.layout.shift;
        let stop = start + rows;
        let mut positions = vec![0; self.most + ROOM];
        for interval in start >> shift..=(stop - 1) >> shift {
            let (rank, gaps) = self.interval(interval);
            gaps::positions(&gaps, &mut positions).invariant(ENDS);
            let first = interval << shift;
            let below = |row: usize| positions[..gaps.count].partition_point(|&p| usize::from(p) < row);
            let begin = if start > first { below(start - first) } else { 0 };
            let end = if stop < first + (1 << shift) { below(stop - first) } else { gaps.count };
            work(Part {
                rank: rank + begin,
                positions: &positions[begin..end],
                from: start.saturating_sub(first) / 64,
                at: first.saturating_sub(start) / 64,
            });
        }
    }
}
