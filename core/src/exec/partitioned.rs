//! Groups that are nearly as many as the rows. Nothing is gained there by making a fragment's groups first: every
//! selected row becomes a record, its group's number and what is aggregated, and records are parted by ranges of the
//! numbers. A part fits the cache; its records are sorted, and its groups come out in the order of their keys.

use std::sync::Arc;

use basalt_kernels::mask;
use rayon::prelude::*;

use super::{
    Block, Scan,
    aggregate::State,
    control::{Control, Held},
    dense_groups,
    fragment_aggregate::{MOST_PLACES, Query, RowKeys},
    group_keys::KeyTable,
    groups::{Groups, To},
    hash_aggregate::for_each_row,
    numbering::{selected, threads},
    numbers::Numbers,
    parted_groups::{PartGroups, Scratch},
    profile::{Step, Watch},
    radix::Radix,
    source::Source,
    totals::{Argument, Arguments, grow},
    vector::{Batch, Data},
};
use crate::{
    error::Result,
    fragment::Fragment,
    invariant::{Invariant, index},
    mask::Mask,
    plan::expr::BoundExpr,
    schema::DataType,
};

/// Rows from which on they are parted.
const FEW_ROWS: usize = 1 << 17;
/// Rows of a group, from which on groups that have places are made in fragments.
const ROWS_OF_GROUP: usize = 16;
/// Rows of a group, from which on its keys are looked up in every block where one number does not hold them.
const ROWS_OF_KEYS: usize = 64;
/// Blocks that say how many groups there are, and where.
const SAMPLED: usize = 8;
/// One of so many numbers may lie far from the others, at either end.
const FAR: usize = 1 << 10;
/// Bits of a number that say its part.
const PREFIX_BITS: u32 = 14;
/// Words of the records of a part, about: the cache has as many again for their order.
const PART_WORDS: usize = 1 << 15;
/// Parts, about.
const PARTS: usize = 1 << 11;
/// Groups that are handed out at once, at least.
const HANDED: usize = 1 << 16;
/// Arguments whose rows have a bit each in a word.
const FLAGGED: usize = 64;

/// How rows are parted.
#[derive(Debug)]
pub(super) struct Parts {
    /// Where nearly all numbers begin: those below are with the first of them, those far above with the last.
    low: u64,
    shift: u32,
    /// The part of the numbers with a prefix.
    of_prefix: Vec<u16>,
    all: usize,
}

impl Parts {
    /// For numbers of which `sample` says how they lie; each has about as many as the others of them.
    fn new(sample: &mut [u64], wanted: usize) -> Self {
        let far = sample.len() / FAR;
        let low = *sample.select_nth_unstable(far).1;
        let high = *sample.select_nth_unstable(sample.len() - 1 - far).1;
        let shift = (u64::BITS - (high - low).leading_zeros()).saturating_sub(PREFIX_BITS);
        let mut parts = Self { low, shift, of_prefix: Vec::new(), all: 0 };
        let mut counts = vec![0; index((high - low) >> shift) + 1];
        let last = counts.len() - 1;
        sample.iter().for_each(|number| counts[parts.prefix(*number).min(last)] += 1);
        let share = sample.len() / wanted.clamp(1, PARTS) + 1;
        let (mut part, mut filled) = (0_u16, 0);
        let mut part_of = |n: &usize| {
            if filled > 0 && filled + n > share {
                (part, filled) = (part + 1, 0);
            }
            filled += n;
            part
        };
        parts.of_prefix = counts.iter().map(&mut part_of).collect();
        parts.all = usize::from(part) + 1;
        parts
    }

    #[inline]
    fn prefix(&self, number: u64) -> usize {
        index(number.saturating_sub(self.low) >> self.shift)
    }

    #[inline]
    fn of(&self, number: u64) -> usize {
        self.of_prefix[self.prefix(number).min(self.of_prefix.len() - 1)].into()
    }
}

/// The words of a row's record: its number, and the second one where there are such; which arguments are not null where any
/// may be, and what they are.
pub(super) struct Record<'a, 's> {
    pub(super) width: usize,
    /// Where the second number is.
    pub(super) rest: Option<usize>,
    /// Where the bits of what is not null are.
    pub(super) valid: Option<usize>,
    pub(super) fields: Vec<Field<'a, 's>>,
}

/// Where a record has an argument.
pub(super) struct Field<'a, 's> {
    pub(super) argument: &'s Argument<'a>,
    pub(super) nullable: bool,
    /// As a key, for integer sums, minima and maxima.
    pub(super) key: Option<usize>,
    pub(super) float: Option<usize>,
}

impl<'a, 's> Record<'a, 's> {
    fn new<'f>(
        arguments: &'s Arguments<'a>,
        has_rest: bool,
        fragments: impl Iterator<Item = &'f Fragment> + Clone,
    ) -> Self {
        let nullable = |argument: &Argument<'_>| match argument.expr {
            BoundExpr::Slot(slot) => fragments
                .clone()
                .any(|fragment| fragment.column_at(*slot).is_some_and(|column| column.nulls() > 0)),
            _ => true,
        };
        let nullable: Vec<bool> = arguments.all.iter().map(nullable).collect();
        let mut width = 1;
        let mut word = |wanted: bool| {
            width += usize::from(wanted);
            wanted.then_some(width - 1)
        };
        let rest = word(has_rest);
        let valid = word(nullable.contains(&true));
        let field = |(argument, nullable): (&'s Argument<'a>, bool)| Field {
            argument,
            nullable,
            key: word(argument.sums_ints() || argument.extremes),
            float: word(argument.sums_floats()),
        };
        let fields = arguments.all.iter().zip(nullable).map(field).collect();
        Self { width, rest, valid, fields }
    }
}

/// The records of a fragment's rows, part by part, each part's in the order of rows.
pub(super) struct Piece<'a> {
    pub(super) fragment: &'a Fragment,
    pub(super) words: Vec<u64>,
    /// Where each part begins, in records.
    pub(super) starts: Vec<u32>,
    /// Where each part's records of a block end.
    pub(super) ends: Vec<Vec<u32>>,
}

impl Piece<'_> {
    /// Records.
    fn len(&self) -> usize {
        // Default: the last part ends with the records.
        self.starts.last().map_or(0, |end| *end as usize)
    }

    fn bytes(&self) -> usize {
        let ends: usize = self.ends.iter().map(Vec::len).sum();
        self.words.len() * size_of::<u64>() + (self.starts.len() + ends) * size_of::<u32>()
    }
}

/// What is done with the rows of a query.
pub(super) struct Partitioned<'a, 's> {
    query: &'s Query<'a, 's>,
    parts: Parts,
    record: Record<'a, 's>,
}

impl<'a, 's> Partitioned<'a, 's> {
    /// How the rows of a query are parted, where that is better than to make the groups of fragments.
    pub(super) fn new(
        query: &'s Query<'a, 's>,
        scan: &Scan<'a, '_>,
        control: &Control,
    ) -> Result<Option<Self>> {
        let all = &query.arguments.all;
        let has_texts =
            all.iter().any(|argument| argument.extremes && argument.data_type == Some(DataType::Utf8));
        let (rows, size) = (selected(scan), query.numbering.radix().size());
        let has_rest = query.numbering.rest().is_some();
        // Groups that have places, each of them many rows, are made faster in fragments.
        let few = !has_rest && size <= MOST_PLACES && size < rows / ROWS_OF_GROUP;
        if rows < FEW_ROWS || few || has_texts || all.len() > FLAGGED {
            return Ok(None);
        }
        let fragments =
            scan.blocks.chunk_by(|(a, _), (b, _)| a.at == b.at).map(|blocks| blocks[0].0.fragment);
        let record = Record::new(query.arguments, has_rest, fragments);
        let bytes = rows * record.width * size_of::<u64>();
        if bytes > control.memory() / 2 {
            return Ok(None);
        }
        let (mut held, mut sample, mut rests) = (Held::new(control), Vec::new(), Vec::new());
        for at in 0..SAMPLED.min(scan.blocks.len()) {
            control.check()?;
            let (block, mask) =
                scan.mask(at * scan.blocks.len() / SAMPLED.min(scan.blocks.len()), query.slots)?;
            held.set(held.bytes() + mask.count(block.rows()) * 2 * size_of::<u64>())?;
            query.numbers(block, &mask, &mut sample, &mut rests)?;
        }
        held.set(held.bytes() + 2 * sample.len())?;
        let groups = match has_rest {
            false => distinct(sample.iter().copied()),
            true => distinct(sample.iter().zip(&rests).map(|(number, rest)| number ^ mixed(*rest))),
        };
        // What has two numbers would be looked up key by key instead.
        let least = if has_rest { sample.len() / ROWS_OF_KEYS } else { sample.len() / 2 };
        if sample.is_empty() || groups <= least {
            return Ok(None);
        }
        let parts = Parts::new(&mut sample, rows * record.width / PART_WORDS);
        Ok(Some(Self { query, parts, record }))
    }

    /// Adds the groups of all rows; `held` counts what all groups hold.
    pub(super) fn run(
        &self,
        groups: &mut Groups<'_>,
        scan: &mut Scan<'a, '_>,
        mut to: To<'_>,
        control: &Control,
        held: &mut Held<'_>,
    ) -> Result<()> {
        let mut pieces: Vec<Piece<'a>> = Vec::new();
        let mut of_pieces = Held::new(control);
        scan.run_fragments(
            self.query.slots,
            1,
            |masks, selected| self.piece(masks, selected),
            |_, piece| {
                of_pieces.set(of_pieces.bytes() + piece.bytes())?;
                pieces.push(piece);
                Ok(())
            },
        )?;
        let watch = Watch::start(control);
        let keeps_sums = groups.states.iter().any(State::keeps_sums);
        let one = |scratch: &mut Scratch, part: usize| -> Result<_> {
            let groups = match dense_groups::groups(part, &pieces, &self.record, keeps_sums, control)? {
                Some(groups) => groups,
                None => PartGroups::new(part, &pieces, &self.record, control, scratch)?,
            };
            let mut held = Held::new(control);
            held.set(groups.bytes())?;
            Ok((groups, held))
        };
        let (mut numbers, mut records): ([Vec<u64>; 2], usize) = ([Vec::new(), Vec::new()], 0);
        let all: usize = pieces.iter().map(Piece::len).sum();
        let mut scratch = Scratch::default();
        let parts: Vec<usize> = (0..self.parts.all).collect();
        'parts: for parts in parts.chunks(4 * control.install(threads)) {
            let results: Vec<Result<_>> = control.install(|| match rayon::current_thread_index() {
                None => parts.iter().map(|part| one(&mut scratch, *part)).collect(),
                Some(_) => {
                    parts.par_iter().map_init(Scratch::default, |scratch, part| one(scratch, *part)).collect()
                }
            });
            for result in results {
                let (part, of_part) = result?;
                let is_first = records == 0;
                records += index(part.rows.counts.iter().sum());
                for (numbers, more) in numbers.iter_mut().zip(&part.numbers) {
                    grow(numbers, more.len());
                    numbers.extend_from_slice(more);
                }
                for (state, argument) in groups.states.iter_mut().zip(&groups.arguments.of) {
                    match argument {
                        None => state.append(&part.rows, &[]),
                        Some(at) => state.append(&part.totals[*at], &part.sums[*at]),
                    }
                }
                held.set(bytes_of(groups, &numbers))?;
                drop(of_part);
                if let To::Sink(sink) = &mut to {
                    if numbers[0].len() >= HANDED {
                        groups.keys = self.keys(std::mem::take(&mut numbers));
                        let goes_on = sink(groups)?;
                        groups.states.iter_mut().for_each(State::clear);
                        if !goes_on {
                            break 'parts;
                        }
                    }
                } else if is_first && records > 0 {
                    // The first part tells how many groups the others have, about: what holds them is not moved as it
                    // grows.
                    let more = numbers[0].len() * (all - records) / records;
                    numbers
                        .iter_mut()
                        .filter(|numbers| !numbers.is_empty())
                        .for_each(|n| n.reserve_exact(more));
                    groups.states.iter_mut().for_each(|state| state.reserve(more));
                    held.set(bytes_of(groups, &numbers))?;
                }
            }
        }
        groups.keys = self.keys(numbers);
        if let To::Sink(sink) = to {
            sink(groups)?;
            groups.states.iter_mut().for_each(State::clear);
            groups.keys = self.keys([Vec::new(), Vec::new()]);
        }
        watch.stop(Step::Merge, 0, 0);
        Ok(())
    }

    fn keys(&self, [numbers, rests]: [Vec<u64>; 2]) -> KeyTable {
        let radix = Arc::clone(self.query.numbering.radix());
        match self.query.numbering.rest() {
            Some(rest) => KeyTable::numbered_twice([radix, Arc::clone(rest)], [numbers, rests]),
            None => KeyTable::numbered(radix, Numbers::of(numbers)),
        }
    }

    /// The records of a fragment's selected rows.
    fn piece(&self, masks: &[(Block<'a>, Mask)], selected: usize) -> Result<Piece<'a>> {
        let (block, _) = masks[0];
        let mut held = Held::new(block.control);
        let width = self.record.width;
        let of_numbers = 1 + usize::from(self.record.rest.is_some());
        held.set(selected * (width + of_numbers) * size_of::<u64>())?;
        let (mut numbers, mut rests) = (Vec::with_capacity(selected), Vec::new());
        for (block, mask) in masks {
            self.query.numbers(*block, mask, &mut numbers, &mut rests)?;
        }
        let mut starts = vec![0_u32; self.parts.all + 1];
        numbers.iter().for_each(|number| starts[self.parts.of(*number) + 1] += 1);
        for part in 0..self.parts.all {
            starts[part + 1] += starts[part];
        }
        let mut next = starts.clone();
        let mut words = vec![0; selected * width];
        let mut ends = Vec::with_capacity(masks.len());
        let (mut left, mut rests, mut places) = (numbers.as_slice(), rests.iter(), Vec::new());
        for (block, mask) in masks {
            let sources = self.record.fields.iter();
            let sources = sources.map(|field| field.argument.source(self.query.slots, *block, mask));
            let sources = sources.collect::<Result<Vec<_>>>()?;
            block.for_each_few(mask, |batch| {
                places.clear();
                places.resize(batch.rows(), 0);
                for_each_row(batch.mask(), batch.rows(), |row| {
                    let (number, others) = left.split_first().invariant("every selected row has a number");
                    left = others;
                    let next = &mut next[self.parts.of(*number)];
                    places[row] = *next as usize * width;
                    words[places[row]] = *number;
                    if let Some((at, rest)) = self.record.rest.zip(rests.next()) {
                        words[places[row] + at] = *rest;
                    }
                    *next += 1;
                });
                self.put(batch, &sources, &places, &mut words)
            })?;
            ends.push(next[..self.parts.all].to_vec());
        }
        Ok(Piece { fragment: block.fragment, words, starts, ends })
    }

    /// Writes the arguments of a batch to records.
    fn put(
        &self,
        batch: &Batch<'a, '_>,
        sources: &[Option<Source<'a>>],
        places: &[usize],
        words: &mut [u64],
    ) -> Result<()> {
        let slots = self.query.slots;
        for ((at, field), source) in self.record.fields.iter().enumerate().zip(sources) {
            let mut valid = None;
            if let (Some(key), Some(source)) = (field.key, source) {
                let keys;
                (keys, valid) = source.keys(batch, slots)?;
                for_each_row(batch.mask(), keys.len(), |row| {
                    words[places[row] + key] = keys[row].cast_unsigned()
                });
                batch.give(Data::Ints(keys));
            }
            if let Some(float) = field.float {
                let floats;
                (floats, valid) = batch.floats(field.argument.expr, slots)?;
                for_each_row(batch.mask(), floats.len(), |row| {
                    words[places[row] + float] = floats[row].to_bits()
                });
                batch.give(Data::Floats(floats));
            } else if source.is_none() {
                valid = batch.validity(field.argument.expr, slots)?;
            }
            if let (true, Some(word)) = (field.nullable, self.record.valid) {
                let mask = batch.mask_of(valid.as_deref());
                for_each_row(mask.as_deref(), places.len(), |row| words[places[row] + word] |= 1 << at);
            }
        }
        Ok(())
    }
}

impl<'a> Query<'a, '_> {
    /// Appends the numbers of a block's selected rows, and their second numbers where there are such.
    fn numbers(&self, block: Block<'a>, mask: &Mask, out: &mut Vec<u64>, rests: &mut Vec<u64>) -> Result<()> {
        let mut of_batch: Vec<u64> = Vec::new();
        self.for_each_batch(block, mask, &[], |batch, columns| {
            let (first, last) = columns.split_at_mut(self.numbering.radix().width());
            let mut add = |radix: &Radix, columns: &mut [RowKeys], out: &mut Vec<u64>| {
                radix.places(columns, &mut of_batch);
                match batch.mask() {
                    None => out.extend_from_slice(&of_batch),
                    Some(mask) => mask::for_each(mask, |row| out.push(of_batch[row])),
                }
            };
            add(self.numbering.radix(), first, out);
            if let Some(rest) = self.numbering.rest() {
                add(rest, last, rests);
            }
            Ok(())
        })
    }
}

/// Bytes of groups, one of whose columns is there twice while it grows.
fn bytes_of(groups: &Groups<'_>, numbers: &[Vec<u64>; 2]) -> usize {
    let numbers = numbers.iter().map(|numbers| numbers.capacity() * size_of::<u64>()).sum();
    let states = || groups.states.iter().map(State::bytes);
    let most = states().fold(numbers, usize::max);
    numbers + states().sum::<usize>() + most + groups.text_bytes()
}

/// About how many of some numbers are distinct: of a bitmap of as many bits for each, those that none of them sets
/// tell how many set the others.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an estimate"
)]
fn distinct(numbers: impl ExactSizeIterator<Item = u64>) -> usize {
    let bits = (numbers.len() * 8).next_power_of_two().max(64);
    let mut words = vec![0_u64; bits / 64];
    for number in numbers {
        let bit = index(mixed(number) >> (64 - bits.trailing_zeros()));
        words[bit / 64] |= 1 << (bit % 64);
    }
    let clear = bits - index(mask::count_ones(&words));
    (-(bits as f64) * (clear.max(1) as f64 / bits as f64).ln()) as usize
}

/// A number whose high bits hang on all bits of another.
fn mixed(number: u64) -> u64 {
    let mixed = (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_numbers_are_estimated() {
        for (n, of) in [(100_000, 100_000), (100_000, 1000), (5000, 4000), (1, 1)] {
            let numbers: Vec<u64> = (0..n).map(|at| at % of * 1_000_003).collect();
            let (found, of) = (distinct(numbers.iter().copied()), usize::try_from(of).unwrap());
            assert!(found.abs_diff(of) <= of / 20 + 1, "{found} of {of}");
        }
    }

    #[test]
    fn parts_are_ranges_and_share_what_is_known() {
        let number = |at: u64| if at.is_multiple_of(2) { 7 } else { at * 10 };
        // One of them is far away.
        let mut sample: Vec<u64> = (0..100_000).map(number).chain([1 << 60]).collect();
        let parts = Parts::new(&mut sample, 50);
        let of: Vec<usize> = (0..1_000_000).map(|number| parts.of(number)).collect();
        assert!(of.is_sorted());
        assert_eq!(of.last(), Some(&(parts.all - 1)));
        let mut sizes = vec![0; parts.all];
        sample.iter().for_each(|number| sizes[parts.of(*number)] += 1);
        assert!(sizes[1..].iter().all(|n| *n <= 100_000 / 50 + 1), "{sizes:?}");
        assert!((25..=100).contains(&parts.all));
        assert_eq!(parts.of(u64::MAX), parts.all - 1);
        assert_eq!(Parts::new(&mut [0], 9).all, 1);
    }
}
