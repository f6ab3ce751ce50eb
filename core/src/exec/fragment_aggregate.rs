//! Aggregates of many groups: those of a whole fragment at once. A fragment's groups are few beside its rows where a
//! block's are not, and they are told apart by numbers that all fragments share.

use std::sync::Arc;

use super::{
    Block,
    control::Held,
    group_keys::{KeyTable, Partial},
    hash_aggregate::{decode, for_each_row},
    numbering::Numbering,
    numbers::Numbers,
    radix::Radix,
    records::Records,
    source::Source,
    totals::Arguments,
    vector::{Batch, Data},
};
use crate::{
    error::Result,
    invariant::Invariant,
    mask::Mask,
    plan::expr::{BoundExpr, Slots},
};

/// Groups that have places in an array, however few rows there are.
const FEW_PLACES: usize = 1 << 12;
/// The same, however many rows there are.
pub(super) const MOST_PLACES: usize = 1 << 21;

/// The records of all places take this part of the memory that a query may hold, at most.
const PLACES_MEMORY_PART: usize = 8;

/// What is asked of a fragment.
pub(super) struct Query<'a, 's> {
    pub(super) keys: &'a [BoundExpr],
    pub(super) arguments: &'s Arguments<'a>,
    pub(super) slots: &'s Slots,
    pub(super) numbering: &'s Numbering<'s>,
}

impl<'a> Query<'a, '_> {
    /// The groups of a fragment's `selected` rows.
    pub(super) fn aggregate(&self, masks: &[(Block<'a>, Mask)], selected: usize) -> Result<Partial<'a>> {
        let (block, _) = masks[0];
        let records = Records::new(self.arguments, block.fragment);
        // Records of groups that there are not must not be what a query has no memory for.
        let room = block.control.memory() / PLACES_MEMORY_PART / (records.width() * size_of::<u64>());
        let most = (2 * selected).clamp(FEW_PLACES, MOST_PLACES).min(room);
        let all = self.numbering.radix();
        if let Some(own) = self.numbering.of_fragment(block.fragment, most) {
            let entries = |key| self.numbering.entries(key, block.fragment);
            let entries: Vec<_> = (0..self.keys.len()).map(entries).collect();
            return self.by_place(masks, selected, (&own, &entries), records, |place| {
                let mut key = vec![None; self.keys.len()];
                own.key(place as usize, &mut key);
                decode(&mut key, &entries);
                all.place(&key) as u64
            });
        }
        if all.size() <= most {
            return self.by_place(masks, selected, (all, &[]), records, u64::from);
        }
        self.by_number(masks, selected, records)
    }

    fn by_place(
        &self,
        masks: &[(Block<'a>, Mask)],
        selected: usize,
        (radix, entries): (&Radix, &[Option<&[i64]>]),
        mut records: Records<'a, '_>,
        number: impl Fn(u32) -> u64,
    ) -> Result<Partial<'a>> {
        let mut held = Held::new(masks[0].0.control);
        held.set(radix.size() * records.width() * size_of::<u64>())?;
        records.resize(radix.size());
        let mut places: Vec<u32> = Vec::new();
        for (block, mask) in masks {
            records.turn(self.slots, *block, mask)?;
            self.for_each_batch(*block, mask, entries, |batch, columns| {
                radix.places(columns, &mut places);
                records.add(batch, self.slots, &mut places)
            })?;
        }
        let (places, rows, totals) = records.finish(selected);
        let numbers = Numbers::of(places.into_iter().map(number).collect());
        let keys = KeyTable::numbered(Arc::clone(self.numbering.radix()), numbers);
        Ok(Partial { keys, key_texts: Vec::new(), rows, totals })
    }

    fn by_number(
        &self,
        masks: &[(Block<'a>, Mask)],
        selected: usize,
        mut records: Records<'a, '_>,
    ) -> Result<Partial<'a>> {
        let control = masks[0].0.control;
        let mut held = Held::new(control);
        let of_row = size_of::<u64>() + size_of::<u32>();
        held.set(selected * of_row)?;
        let radix = self.numbering.radix();
        let mut numbers: Vec<u64> = Vec::with_capacity(selected);
        let mut of_batch: Vec<u64> = Vec::new();
        for (block, mask) in masks {
            self.for_each_batch(*block, mask, &[], |batch, columns| {
                radix.places(columns, &mut of_batch);
                for_each_row(batch.mask(), batch.rows(), |row| numbers.push(of_batch[row]));
                Ok(())
            })?;
        }
        let mut found = Numbers::new(usize::MAX, usize::MAX);
        let mut groups: Vec<u32> = Vec::new();
        found.groups(&numbers, &mut groups, control)?;
        drop(numbers);
        held.set(selected * of_row + found.bytes() + found.len() * records.width() * size_of::<u64>())?;
        records.resize(found.len());
        let (mut rest, mut of_batch) = (groups.iter(), Vec::new());
        for (block, mask) in masks {
            records.turn(self.slots, *block, mask)?;
            block.for_each_few(mask, |batch| {
                of_batch.clear();
                of_batch.resize(batch.rows(), 0);
                for_each_row(batch.mask(), batch.rows(), |row| {
                    of_batch[row] = *rest.next().invariant("every selected row has a group");
                });
                records.add(batch, self.slots, &mut of_batch)
            })?;
        }
        let (_, rows, totals) = records.finish(selected);
        let keys = KeyTable::numbered(Arc::clone(radix), found.done());
        Ok(Partial { keys, key_texts: Vec::new(), rows, totals })
    }

    /// Calls `each` with every batch of a block and the keys of its rows; those of integers that have `entries` are
    /// their codes.
    pub(super) fn for_each_batch(
        &self,
        block: Block<'a>,
        mask: &Mask,
        entries: &[Option<&[i64]>],
        mut each: impl FnMut(&Batch<'a, '_>, &mut [RowKeys]) -> Result<()>,
    ) -> Result<()> {
        let sources =
            self.keys.iter().enumerate().map(|(at, key)| match self.numbering.of_rows(at, block.at) {
                Some(numbers) => Ok(KeySource::Rows(key, numbers)),
                None => Source::new(key, self.slots, block, mask).map(|mut source| {
                    if let Some(Some(_)) = entries.get(at) {
                        source.turn_to_codes();
                    }
                    KeySource::Keys(source)
                }),
            });
        let sources = sources.collect::<Result<Vec<_>>>()?;
        block.for_each_few(mask, |batch| {
            let mut columns = Vec::with_capacity(sources.len());
            for (key, source) in sources.iter().enumerate() {
                columns.push(match source {
                    KeySource::Keys(source) => {
                        let (mut keys, valid) = source.keys(batch, self.slots)?;
                        self.numbering.translate(key, block.at, &mut keys);
                        (keys, valid)
                    }
                    KeySource::Rows(key, numbers) => {
                        let mut keys = batch.ints();
                        let rows = keys.iter_mut().enumerate();
                        rows.for_each(|(row, key)| *key = numbers[batch.row(row)].into());
                        (keys, batch.validity(key, self.slots)?)
                    }
                });
            }
            each(batch, &mut columns)?;
            columns.into_iter().for_each(|(keys, _)| batch.give(Data::Ints(keys)));
            Ok(())
        })
    }
}

/// Where the keys of rows come from.
enum KeySource<'a, 's> {
    /// They are numbers, or codes.
    Keys(Source<'a>),
    /// Every row of the fragment has its number.
    Rows(&'a BoundExpr, &'s [u32]),
}

/// The keys of rows, and which are not null (`None`: all).
pub(super) type RowKeys = (Vec<i64>, Option<Vec<u64>>);
