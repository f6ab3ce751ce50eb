//! Reading columns of a common key: work is done on the rows of the other keys, and counted for the rest.

use std::sync::Arc;

use arrow_buffer::Buffer;
use basalt_kernels::{gaps, mask as words};

use super::{
    super::{Costs, KeyColumn, KeyTest, UNIT_ROWS, bytes::count, fallback, mask},
    coded::Coded,
};

/// Where more than one row in so many is another, setting its bit takes less.
const DENSE: usize = 32;

/// The keys of the other rows, in order.
#[derive(Debug)]
pub(super) enum OtherKeys {
    /// All hold the same.
    One(i64),
    /// A column of them.
    Column(Arc<dyn KeyColumn>),
}

/// A column of a common key.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) buffer: Buffer,
    pub(super) rows: usize,
    pub(super) common: i64,
    pub(super) others: OtherKeys,
    pub(super) coded: Coded,
}

/// Other rows by rank, of which some are selected.
struct Ranks {
    /// A multiple of [`UNIT_ROWS`].
    start: usize,
    rows: usize,
    /// `None`: all of them.
    mask: Option<Vec<u64>>,
    selected: usize,
}

impl Ranks {
    /// The ranks `from..to`.
    fn all(from: usize, to: usize) -> Self {
        let start = from / UNIT_ROWS * UNIT_ROWS;
        let mask = (from > start).then(|| {
            let mut mask = vec![0; (to - start).div_ceil(64)];
            mask::set_range(&mut mask, from - start, to - start);
            mask
        });
        Self { start, rows: to - start, mask, selected: to - from }
    }
}

impl Column {
    /// The ranks of the other rows among `start..start + rows`.
    fn ranks(&self, start: usize, rows: usize) -> (usize, usize) {
        let rank = |row| self.coded.count_below(row, self.rows);
        (rank(start), rank(start + rows))
    }

    /// The other rows among `start..start + rows` that `mask` selects.
    fn selected(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> Ranks {
        let (from, to) = self.ranks(start, rows);
        let mut ranks = Ranks::all(from, to);
        if let Some(mask) = mask {
            let mut selected = vec![0; ranks.rows.div_ceil(64)];
            self.coded.each(start, rows, |part| {
                let mask = &mask[part.at..];
                for (rank, &position) in (part.rank - ranks.start..).zip(part.positions) {
                    let place = usize::from(position) - 64 * part.from;
                    selected[rank / 64] |= (mask[place / 64] >> (place % 64) & 1) << (rank % 64);
                }
            });
            ranks.selected = mask::count_ones(&selected);
            ranks.mask = Some(selected);
        }
        ranks
    }
}

impl KeyColumn for Column {
    fn rows(&self) -> usize {
        self.rows
    }

    fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    fn name(&self) -> String {
        match &self.others {
            OtherKeys::One(_) => self.name.to_owned(),
            OtherKeys::Column(keys) => format!("{}({})", self.name, keys.name()),
        }
    }

    fn decode(&self, start: usize, out: &mut [i64]) {
        out.fill(self.common);
        let (mut keys, mut first) = (Vec::new(), 0);
        if let OtherKeys::Column(column) = &self.others {
            let (from, to) = self.ranks(start, out.len());
            first = from / UNIT_ROWS * UNIT_ROWS;
            if from < to {
                keys.resize(to - first, 0);
                column.decode(first, &mut keys);
            }
        }
        self.coded.each(start, out.len(), |part| {
            let out = &mut out[64 * part.at..];
            for (rank, &position) in (part.rank..).zip(part.positions) {
                out[usize::from(position) - 64 * part.from] = match &self.others {
                    OtherKeys::One(key) => *key,
                    OtherKeys::Column(_) => keys[rank - first],
                };
            }
        });
    }

    fn get(&self, row: usize) -> i64 {
        match (self.coded.rank(row), &self.others) {
            ((_, false), _) => self.common,
            (_, OtherKeys::One(key)) => *key,
            ((rank, true), OtherKeys::Column(keys)) => keys.get(rank),
        }
    }

    fn filter(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]) {
        // The rows are selected whose answer is another than that of the common key.
        let common = test.passes(self.common);
        match &self.others {
            OtherKeys::One(key) if test.passes(*key) == common => {
                return mask::set_all(out, rows, common);
            }
            OtherKeys::One(_) => {
                out.fill(0);
                self.coded.each(start, rows, |part| {
                    gaps::set(part.positions, part.from, &mut out[part.at..]);
                });
            }
            OtherKeys::Column(keys) => {
                out.fill(0);
                let (from, to) = self.ranks(start, rows);
                if from < to {
                    let first = from / UNIT_ROWS * UNIT_ROWS;
                    let mut passing = vec![0; (to - first).div_ceil(64)];
                    keys.filter(first, to - first, test, &mut passing);
                    if common {
                        words::not(&mut passing, to - first);
                    }
                    self.coded.each(start, rows, |part| {
                        let rank = part.rank - first;
                        gaps::set_chosen(part.positions, part.from, &passing, rank, &mut out[part.at..]);
                    });
                }
            }
        }
        if common {
            words::not(out, rows);
        }
    }

    fn sum(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> i128 {
        let ranks = self.selected(start, rows, mask);
        let selected = mask.map_or(rows, mask::count_ones) - ranks.selected;
        let others = match &self.others {
            _ if ranks.selected == 0 => 0,
            OtherKeys::One(key) => i128::from(*key) * ranks.selected as i128,
            OtherKeys::Column(keys) => keys.sum(ranks.start, ranks.rows, ranks.mask.as_deref()),
        };
        i128::from(self.common) * selected as i128 + others
    }

    fn min_max(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> Option<(i64, i64)> {
        let ranks = self.selected(start, rows, mask);
        let selected = mask.map_or(rows, mask::count_ones) - ranks.selected;
        let others = match &self.others {
            _ if ranks.selected == 0 => None,
            OtherKeys::One(key) => Some((*key, *key)),
            OtherKeys::Column(keys) => keys.min_max(ranks.start, ranks.rows, ranks.mask.as_deref()),
        };
        fallback::widen((selected > 0).then_some((self.common, self.common)), others)
    }

    fn costs(&self) -> Costs {
        let part = |picoseconds: usize| count(picoseconds * self.coded.len() / self.rows);
        let get = self.coded.rank_cost();
        let is_dense = self.coded.len() * DENSE > self.rows;
        match &self.others {
            OtherKeys::One(_) => {
                Costs { filter: 5 + part(if is_dense { 750 } else { 1200 }), look_up: 0, get }
            }
            OtherKeys::Column(keys) => {
                let keys = keys.costs();
                let others = if is_dense { 800 } else { 1800 };
                Costs {
                    filter: 5 + part(others + keys.filter as usize),
                    look_up: part(keys.look_up as usize),
                    get: get + part(keys.get as usize),
                }
            }
        }
    }
}
