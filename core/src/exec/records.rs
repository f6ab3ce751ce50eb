//! What the groups of a fragment come to: a record of words for each, one behind the other, so that a row touches one
//! place in memory however many aggregates there are.

use super::{
    Block,
    hash_aggregate::for_each_row,
    source::{Source, Texts},
    totals::{Argument, Arguments, Totals},
    vector::{Batch, Data},
};
use crate::{
    error::Result,
    fragment::Fragment,
    invariant::count,
    limits::BATCH_ROWS,
    mask::Mask,
    plan::expr::{BoundExpr, Slots},
};

/// The records of groups.
pub(super) struct Records<'a, 's> {
    words: Vec<u64>,
    /// A record without rows. The first word counts rows.
    empty: Vec<u64>,
    fields: Vec<Field<'a, 's>>,
    /// The block that rows are of, from 1 on.
    block: u64,
}

/// Where a record has what an argument comes to.
struct Field<'a, 's> {
    argument: &'s Argument<'a>,
    source: Option<Source<'a>>,
    /// Rows that are not null; none where no row is.
    counts: Option<usize>,
    ints: Option<usize>,
    /// The sum of integers takes two words.
    wide: bool,
    /// Rows and block of the last, the sum of that block, and of those before it.
    floats: Option<usize>,
    extremes: Option<usize>,
    texts: Option<Texts<'a>>,
}

/// Keys of less bits have a sum of 64 bits in a fragment.
const NARROW_KEY: u64 = 1 << 43;

impl<'a, 's> Records<'a, 's> {
    /// No groups.
    pub(super) fn new(arguments: &'s Arguments<'a>, fragment: &Fragment) -> Self {
        let mut empty = vec![0];
        let mut fields = Vec::with_capacity(arguments.all.len());
        for argument in &arguments.all {
            let column = match argument.expr {
                BoundExpr::Slot(slot) => fragment.column_at(*slot),
                _ => None,
            };
            let mut words = |wanted: bool, words: &[u64]| {
                let at = empty.len();
                empty.extend_from_slice(if wanted { words } else { &[] });
                wanted.then_some(at)
            };
            let nullable = column.is_none_or(|column| column.nulls() > 0);
            let wide = column.is_none_or(|column| {
                let ranges = column.zones().iter().filter_map(|zone| zone.range);
                ranges
                    .into_iter()
                    .any(|(low, high)| low.unsigned_abs().max(high.unsigned_abs()) >= NARROW_KEY)
            });
            let floats = words(argument.sums_floats(), &[0; 3]);
            fields.push(Field {
                argument,
                source: None,
                counts: words(nullable && floats.is_none(), &[0]),
                ints: words(argument.sums_ints(), if wide { &[0; 2] } else { &[0] }),
                wide,
                floats,
                extremes: words(argument.extremes, &[i64::MAX.cast_unsigned(), i64::MIN.cast_unsigned()]),
                texts: None,
            });
        }
        Self { words: Vec::new(), empty, fields, block: 0 }
    }

    /// Words of a record.
    pub(super) fn width(&self) -> usize {
        self.empty.len()
    }

    /// Makes room.
    pub(super) fn resize(&mut self, groups: usize) {
        let words = groups * self.width();
        if self.empty.iter().all(|word| *word == 0) {
            if self.words.is_empty() {
                // Pages that no group touches take no memory.
                self.words = vec![0; words];
            } else {
                self.words.resize(words, 0);
            }
            return;
        }
        self.words.reserve(words - self.words.len());
        for _ in self.words.len() / self.width()..groups {
            self.words.extend_from_slice(&self.empty);
        }
    }

    /// Turns to the rows of another block.
    pub(super) fn turn(&mut self, slots: &Slots, block: Block<'a>, mask: &Mask) -> Result<()> {
        self.block = block.block as u64 + 1;
        for field in &mut self.fields {
            field.source = field.argument.source(slots, block, mask)?;
        }
        Ok(())
    }

    /// Adds a batch, whose rows have these groups. They become places of words.
    pub(super) fn add(&mut self, batch: &Batch<'a, '_>, slots: &Slots, groups: &mut [u32]) -> Result<()> {
        let width = count(self.width());
        // Those of rows that are not selected mean nothing.
        groups.iter_mut().for_each(|group| *group = group.wrapping_mul(width));
        let values = self.fields.iter_mut().map(|field| field.read(batch, slots));
        let values = values.collect::<Result<Vec<_>>>()?;
        let words = self.words.as_mut_slice();
        for (at, places) in groups.chunks(NEAR_ROWS).enumerate() {
            let first = at * NEAR_ROWS;
            for_each_row(part_of(batch.mask(), first), places.len(), |row| words[places[row] as usize] += 1);
            for (field, values) in self.fields.iter().zip(&values) {
                field.add(&values.from(first), places, words, self.block);
            }
        }
        for values in values {
            batch.give(Data::Ints(values.keys));
            batch.give(Data::Floats(values.floats));
        }
        Ok(())
    }

    /// What the groups come to that have some of the rows, and which they are.
    pub(super) fn finish(mut self, rows: usize) -> (Vec<u32>, Totals<'a>, Vec<Totals<'a>>) {
        let width = self.width();
        let most = rows.min(self.words.len() / width);
        let (mut groups, mut counts) = (Vec::with_capacity(most), Vec::with_capacity(most));
        let mut totals: Vec<Totals<'a>> = Vec::with_capacity(self.fields.len());
        for field in &mut self.fields {
            let room = |wanted: bool| if wanted { most } else { 0 };
            totals.push(Totals {
                counts: Vec::with_capacity(most),
                ints: Vec::with_capacity(room(field.ints.is_some())),
                floats: Vec::with_capacity(room(field.floats.is_some())),
                extremes: Vec::with_capacity(room(field.extremes.is_some())),
                texts: field.texts.take(),
                ..Totals::default()
            });
        }
        // As many records at a time as stay in the cache while all of their fields are read.
        let mut first = 0;
        for records in self.words.chunks(BATCH_ROWS * width) {
            let from = groups.len();
            for (group, record) in (first..).zip(records.chunks_exact(width)) {
                if record[0] > 0 {
                    groups.push(group);
                    counts.push(record[0]);
                }
            }
            first += count(BATCH_ROWS);
            let records = groups[from..].iter().map(|group| &self.words[*group as usize * width..][..width]);
            for (field, totals) in self.fields.iter().zip(&mut totals) {
                field.finish(records.clone(), totals);
            }
        }
        (groups, Totals::of_counts(counts), totals)
    }
}

/// Rows whose records stay near while all of their fields are added to; whole words of masks.
const NEAR_ROWS: usize = 256;

/// What a field is made of: the values of a batch, and which rows count (`None`: all).
struct Values {
    keys: Vec<i64>,
    floats: Vec<f64>,
    mask: Option<Vec<u64>>,
}

/// Some of them.
struct Near<'v> {
    keys: &'v [i64],
    floats: &'v [f64],
    mask: Option<&'v [u64]>,
}

impl Values {
    /// Those of the rows from one on.
    fn from(&self, first: usize) -> Near<'_> {
        // Default: there are none of what the field is not made of.
        let (keys, floats) = (self.keys.get(first..).unwrap_or(&[]), self.floats.get(first..).unwrap_or(&[]));
        Near { keys, floats, mask: part_of(self.mask.as_deref(), first) }
    }
}

/// The words of a mask for [`NEAR_ROWS`] rows from one on.
fn part_of(mask: Option<&[u64]>, first: usize) -> Option<&[u64]> {
    let words = |mask: &'_ [u64]| first / 64..mask.len().min((first + NEAR_ROWS) / 64);
    mask.map(|mask| &mask[words(mask)])
}

/// Rows of a word that also has the block of the last.
const ROWS: u64 = (1 << 32) - 1;

impl<'a> Field<'a, '_> {
    /// The values of a batch.
    fn read(&mut self, batch: &Batch<'a, '_>, slots: &Slots) -> Result<Values> {
        let (mut keys, mut floats, mut valid) = (Vec::new(), Vec::new(), None);
        if let Some(source) = &self.source {
            (keys, valid) = source.keys(batch, slots)?;
            if self.texts.is_none() {
                self.texts = source.texts().cloned();
            }
        }
        if self.argument.sums_floats() {
            (floats, valid) = batch.floats(self.argument.expr, slots)?;
        } else if self.source.is_none() && self.counts.is_some() {
            valid = batch.validity(self.argument.expr, slots)?;
        }
        let mask = batch.mask_of(valid.as_deref()).map(std::borrow::Cow::into_owned);
        Ok(Values { keys, floats, mask })
    }

    /// Adds values to records.
    fn add(&self, values: &Near<'_>, places: &[u32], words: &mut [u64], block: u64) {
        let Near { keys, floats, mask } = *values;
        let rows = places.len();
        if let Some(at) = self.counts {
            for_each_row(mask, rows, |row| words[places[row] as usize + at] += 1);
        }
        match (self.ints, self.wide) {
            (Some(at), false) => for_each_row(mask, rows, |row| {
                let sum = &mut words[places[row] as usize + at];
                *sum = sum.wrapping_add(keys[row].cast_unsigned());
            }),
            (Some(at), true) => for_each_row(mask, rows, |row| {
                let sum = &mut words[places[row] as usize + at..][..2];
                let (low, carry) = sum[0].overflowing_add(keys[row].cast_unsigned());
                let high = (keys[row] >> 63).cast_unsigned();
                (sum[0], sum[1]) = (low, sum[1].wrapping_add(high).wrapping_add(carry.into()));
            }),
            (None, _) => {}
        }
        if let Some(at) = self.floats {
            for_each_row(mask, rows, |row| {
                let sum = &mut words[places[row] as usize + at..][..3];
                add_float(sum, floats[row], block);
            });
        }
        if let Some(at) = self.extremes {
            for_each_row(mask, rows, |row| {
                let extremes = &mut words[places[row] as usize + at..][..2];
                let (key, least, greatest) =
                    (keys[row], extremes[0].cast_signed(), extremes[1].cast_signed());
                (extremes[0], extremes[1]) =
                    (least.min(key).cast_unsigned(), greatest.max(key).cast_unsigned());
            });
        }
    }

    /// Appends what some groups come to.
    fn finish<'w>(&self, records: impl Iterator<Item = &'w [u64]> + Clone, totals: &mut Totals<'a>) {
        let from = totals.counts.len();
        let (at, rows) = match self.floats {
            Some(at) => (at, ROWS),
            // Default: where no row is null, all are counted.
            None => (self.counts.unwrap_or(0), u64::MAX),
        };
        totals.counts.extend(records.clone().map(|record| record[at] & rows));
        if let Some(at) = self.ints {
            let (bias, wide) = (self.argument.bias(), self.wide);
            totals.ints.extend(records.clone().zip(&totals.counts[from..]).map(|(record, n)| {
                let high = if wide { record[at + 1].cast_signed() } else { record[at].cast_signed() >> 63 };
                ((i128::from(high) << 64) | i128::from(record[at])) + bias * i128::from(*n)
            }));
        }
        if let Some(at) = self.floats {
            totals.floats.extend(records.clone().map(|record| float_sum(&record[at..])));
        }
        if let Some(at) = self.extremes {
            let extremes = |record: &[u64]| (record[at].cast_signed(), record[at + 1].cast_signed());
            totals.extremes.extend(records.map(extremes));
        }
    }
}

/// The sum of a block: all that are not numbers are one.
#[inline]
pub(super) fn of_block(sum: f64) -> f64 {
    if sum.is_nan() { f64::NAN } else { sum }
}

/// What [`add_float`] has added up.
#[inline]
pub(super) fn float_sum(sum: &[u64]) -> f64 {
    f64::from_bits(sum[2]) + of_block(f64::from_bits(sum[1]))
}

/// Adds a value: values of a block are added up in the order of their rows, then blocks in theirs.
#[inline]
pub(super) fn add_float(sum: &mut [u64], value: f64, block: u64) {
    let is_first = sum[0] >> 32 != block;
    // Adding 0.0 is the same as adding nothing: sums that begin with 0.0 are never -0.0.
    let (before, own) =
        if is_first { (of_block(f64::from_bits(sum[1])), 0.0) } else { (0.0, f64::from_bits(sum[1])) };
    sum[2] = (f64::from_bits(sum[2]) + before).to_bits();
    sum[1] = (own + value).to_bits();
    sum[0] = (block << 32) | ((sum[0] & ROWS) + 1);
}
