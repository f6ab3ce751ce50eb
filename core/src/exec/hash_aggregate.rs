//! Hash aggregates: the groups of a block's selected rows. A hash table numbers the groups. Where the keys span little
//! it is a perfect hash: a row's keys are a number, the offset in arrays of totals that the kernels add to.

use basalt_kernels::groups;

use super::{
    Block,
    distinct::Distinct,
    group_keys::{KeyTable, Partial},
    radix::{Code, KeyRange, Radix},
    source::Source,
    totals::{Argument, Arguments, Totals},
    vector::{Batch, Data, Rows},
};
use crate::{
    error::Result,
    invariant::{count, index},
    keys::NativeSlice,
    mask::Mask,
    plan::expr::{BoundExpr, Slots},
};

/// Places of a block's arrays, at most.
const MOST_PLACES: usize = 1 << 16;
/// Bytes of bitmaps of distinct keys in a block's arrays, at most.
const BITMAP_BYTES: usize = 1 << 20;

/// The groups of a block's selected rows.
pub(super) fn hash_aggregate<'a>(
    keys: &'a [BoundExpr],
    arguments: &Arguments<'a>,
    slots: &Slots,
    block: Block<'a>,
    mask: &Mask,
) -> Result<Partial<'a>> {
    let sources = keys.iter().map(|key| Source::new(key, slots, block, mask));
    let mut sources = sources.collect::<Result<Vec<_>>>()?;
    let query = Query { slots, block, mask, arguments };
    if let [BoundExpr::Slot(slot)] = keys
        && let Some(bytes) = query.bytes(*slot)
    {
        return query.bytes_as_places(bytes, sources);
    }
    // Integers of a dictionary are groups by their codes.
    let entries: Vec<_> = sources.iter_mut().map(Source::read_codes).collect();
    let ranges = keys.iter().zip(&sources).map(|(key, source)| query.range(key, source));
    // Few rows are not worth large arrays.
    let most = MOST_PLACES.min(4 * mask.count(block.rows()) + 256);
    match Radix::new(ranges, most) {
        Some(radix) if radix.size() <= 1 << 8 => query.by_place::<u8>(radix, sources, &entries),
        Some(radix) => query.by_place::<u16>(radix, sources, &entries),
        None => query.by_hash(sources, &entries),
    }
}

/// What is asked of a block.
struct Query<'a, 's> {
    slots: &'s Slots,
    block: Block<'a>,
    mask: &'s Mask,
    arguments: &'s Arguments<'a>,
}

impl<'a> Query<'a, '_> {
    /// The range of a key's values in this block.
    fn range(&self, key: &BoundExpr, source: &Source<'a>) -> Option<KeyRange> {
        let (low, high) = source.range()?;
        let column = match key {
            BoundExpr::Slot(slot) => self.block.fragment.column_at(*slot),
            _ => None,
        };
        let nullable = column.is_none_or(|column| column.zones()[self.block.block].nulls > 0);
        Some(KeyRange { low, high, nullable })
    }

    /// A column of this block that is held as bytes and has no nulls.
    fn bytes(&self, slot: usize) -> Option<&'a [u8]> {
        let column = self.block.fragment.column_at(slot)?;
        match column.keys()?.native()? {
            NativeSlice::Bool(bytes) | NativeSlice::U8(bytes)
                if column.zones()[self.block.block].nulls == 0 =>
            {
                Some(bytes)
            }
            _ => None,
        }
    }

    /// Bytes are numbers as they are.
    fn bytes_as_places(&self, bytes: &[u8], sources: Vec<Source<'a>>) -> Result<Partial<'a>> {
        let mut sums = Sums::new(self, 1 << 8)?;
        self.block.for_each_few(self.mask, |batch| match batch.places() {
            Rows::From(_) => sums.add(batch, self.slots, &bytes[batch.first_row()..][..batch.rows()]),
            Rows::At(places) => {
                let first = self.block.start();
                let bytes: Vec<u8> = places.iter().map(|place| bytes[first + usize::from(*place)]).collect();
                sums.add(batch, self.slots, &bytes)
            }
        })?;
        let key = |place: usize, key: &mut [Option<i64>]| key[0] = Some(count(place).into());
        Ok(sums.occupied(sources, key))
    }

    fn by_place<C: Code>(
        &self,
        radix: Radix,
        sources: Vec<Source<'a>>,
        entries: &[Option<&[i64]>],
    ) -> Result<Partial<'a>> {
        let mut sums = Sums::new(self, radix.size())?;
        let mut places: Vec<C> = Vec::new();
        self.block.for_each_few(self.mask, |batch| {
            let columns = sources.iter().map(|s| s.keys(batch, self.slots));
            let mut columns = columns.collect::<Result<Vec<_>>>()?;
            radix.places(&mut columns, &mut places);
            columns.into_iter().for_each(|(keys, _)| batch.give(Data::Ints(keys)));
            sums.add(batch, self.slots, &places)
        })?;
        Ok(sums.occupied(sources, |place, key| {
            radix.key(place, key);
            decode(key, entries);
        }))
    }

    fn by_hash(&self, sources: Vec<Source<'a>>, entries: &[Option<&[i64]>]) -> Result<Partial<'a>> {
        let mut sums = Sums::new(self, 0)?;
        let mut table = KeyTable::new(sources.len(), None);
        let (mut key, mut last) = (vec![None; sources.len()], (Vec::new(), 0));
        let mut places: Vec<u32> = Vec::new();
        self.block.for_each_few(self.mask, |batch| {
            let columns = sources.iter().map(|s| s.keys(batch, self.slots)).collect::<Result<Vec<_>>>()?;
            places.clear();
            places.resize(batch.rows(), 0);
            basalt_kernels::mask::for_each(batch.selected(), |row| {
                for (part, (keys, valid)) in key.iter_mut().zip(&columns) {
                    *part = crate::mask::selects(valid.as_deref(), row).then(|| keys[row]);
                }
                // Equal keys often follow each other.
                if last.0 != key {
                    last.0.clone_from(&key);
                    decode(&mut key, entries);
                    last.1 = table.group(&key);
                }
                places[row] = last.1;
            });
            sums.resize(table.len());
            sums.add(batch, self.slots, &places)
        })?;
        let (rows, totals) = sums.finish();
        let key_texts = sources.into_iter().map(Source::into_texts).collect();
        Ok(Partial { keys: table, key_texts, rows, totals })
    }
}

/// Turns codes into the keys that they stand for.
pub(super) fn decode(key: &mut [Option<i64>], entries: &[Option<&[i64]>]) {
    for (part, entries) in key.iter_mut().zip(entries) {
        if let (Some(part), Some(entries)) = (part, entries) {
            *part = entries[index(part.cast_unsigned())];
        }
    }
}

/// The totals by place, a group's number.
struct Sums<'a, 's> {
    rows: Vec<u64>,
    sums: Vec<Sum<'a, 's>>,
    /// Words of a bitmap of distinct keys, at most.
    bitmap: u64,
}

/// The values of an argument, and what they come to by place.
struct Sum<'a, 's> {
    argument: &'s Argument<'a>,
    source: Option<Source<'a>>,
    /// The counts are those of the rows until a row is null.
    totals: Totals<'a>,
    nulls: bool,
}

impl<'a, 's> Sums<'a, 's> {
    fn new(query: &Query<'a, 's>, places: usize) -> Result<Self> {
        let arguments = &query.arguments.all;
        let sum = |argument: &'s Argument<'a>| {
            let source = argument.source(query.slots, query.block, query.mask)?;
            Ok(Sum { argument, source, totals: Totals::default(), nulls: false })
        };
        let sets = places * arguments.iter().filter(|argument| argument.distinct).count();
        let mut sums = Self {
            rows: Vec::new(),
            sums: arguments.iter().map(sum).collect::<Result<_>>()?,
            // Default: without sets none is asked for.
            bitmap: (BITMAP_BYTES / 8).checked_div(sets).unwrap_or(0) as u64,
        };
        sums.resize(places);
        Ok(sums)
    }

    /// Makes room.
    fn resize(&mut self, places: usize) {
        self.rows.resize(places, 0);
        for Sum { argument, source, totals, nulls } in &mut self.sums {
            let room = |wanted: bool| if wanted { places } else { 0 };
            totals.counts.resize(room(*nulls), 0);
            totals.ints.resize(room(argument.sums_ints()), 0);
            totals.floats.resize(room(argument.sums_floats()), 0.0);
            totals.extremes.resize(room(argument.extremes), (i64::MAX, i64::MIN));
            let range = source.as_ref().and_then(Source::range);
            let set = || Distinct::of_range(range, self.bitmap);
            totals.sets.resize_with(room(argument.distinct), set);
        }
    }

    /// Adds a batch, whose rows have these places.
    fn add<C: Code>(&mut self, batch: &Batch<'a, '_>, slots: &Slots, places: &[C]) -> Result<()> {
        for sum in &mut self.sums {
            sum.add(batch, slots, places, &self.rows)?;
        }
        groups::count(places, batch.mask(), &mut self.rows);
        Ok(())
    }

    /// What the groups come to, whose number is their place.
    fn finish(self) -> (Totals<'a>, Vec<Totals<'a>>) {
        let totals = self.sums.into_iter().map(|sum| sum.finish(&self.rows)).collect();
        (Totals::of_counts(self.rows), totals)
    }

    /// The groups of the places that have rows.
    fn occupied(self, sources: Vec<Source<'a>>, key_of: impl Fn(usize, &mut [Option<i64>])) -> Partial<'a> {
        let places: Vec<usize> = (0..self.rows.len()).filter(|place| self.rows[*place] > 0).collect();
        let mut keys = KeyTable::new(sources.len(), None);
        let mut key = vec![None; sources.len()];
        for place in &places {
            key_of(*place, &mut key);
            keys.push(&key);
        }
        let (rows, totals) = self.finish();
        Partial {
            keys,
            key_texts: sources.into_iter().map(Source::into_texts).collect(),
            rows: rows.of_places(&places),
            totals: totals.into_iter().map(|totals| totals.of_places(&places)).collect(),
        }
    }
}

impl<'a> Sum<'a, '_> {
    fn add<C: Code>(
        &mut self,
        batch: &Batch<'a, '_>,
        slots: &Slots,
        places: &[C],
        rows: &[u64],
    ) -> Result<()> {
        let Self { argument, source, totals, nulls } = self;
        let (mut keys, mut floats, mut valid) = (Vec::new(), Vec::new(), None);
        if let Some(source) = source {
            (keys, valid) = source.keys(batch, slots)?;
        }
        if argument.sums_floats() {
            (floats, valid) = batch.floats(argument.expr, slots)?;
        } else if source.is_none() {
            valid = batch.validity(argument.expr, slots)?;
        }
        if valid.is_some() && !*nulls {
            *nulls = true;
            totals.counts = rows.to_vec();
        }
        let mask = batch.mask_of(valid.as_deref());
        let mask = mask.as_deref();
        if *nulls {
            groups::count(places, mask, &mut totals.counts);
        }
        if argument.sums_ints() {
            groups::sum(places, &keys, mask, &mut totals.ints);
        }
        if argument.sums_floats() {
            groups::sum_floats(places, &floats, mask, &mut totals.floats);
        }
        if argument.extremes {
            groups::min_max(places, &keys, mask, &mut totals.extremes);
        }
        if argument.distinct {
            for_each_row(mask, keys.len(), |row| totals.sets[places[row].place()].insert(keys[row]));
        }
        batch.give(Data::Ints(keys));
        batch.give(Data::Floats(floats));
        Ok(())
    }

    fn finish(mut self, rows: &[u64]) -> Totals<'a> {
        if !self.nulls {
            self.totals.counts = rows.to_vec();
        }
        let bias = self.argument.bias();
        for (sum, n) in self.totals.ints.iter_mut().zip(&self.totals.counts) {
            *sum += bias * i128::from(*n);
        }
        self.totals.floats.iter_mut().filter(|sum| sum.is_nan()).for_each(|sum| *sum = f64::NAN);
        self.totals.texts = self.source.and_then(Source::into_texts);
        self.totals
    }
}

/// Calls `each` with the rows that a mask selects (`None`: all).
pub(super) fn for_each_row(mask: Option<&[u64]>, rows: usize, each: impl FnMut(usize)) {
    match mask {
        Some(mask) => basalt_kernels::mask::for_each(mask, each),
        None => (0..rows).for_each(each),
    }
}
