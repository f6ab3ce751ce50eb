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
    fragment_aggregate::{MOST_PLACES, Query},
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
const ROWS_OF_GROUP: usize = 8;
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

/// The words of a row's record: its number, which arguments are not null where any may be, and what they are.
pub(super) struct Record<'a, 's> {
    pub(super) width: usize,
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
    fn new<'f>(arguments: &'s Arguments<'a>, fragments: impl Iterator<Item = &'f Fragment> + Clone) -> Self {
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
        let valid = word(nullable.contains(&true));
        let field = |(argument, nullable): (&'s Argument<'a>, bool)| Field {
            argument,
            nullable,
            key: word(argument.sums_ints() || argument.extremes),
            float: word(argument.sums_floats()),
        };
        let fields = arguments.all.iter().zip(nullable).map(field).collect();
        Self { width, valid, fields }
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
        // Groups that have places, each of them many rows, are made faster in fragments.
        let few = size <= MOST_PLACES && size < rows / ROWS_OF_GROUP;
        if rows < FEW_ROWS || few || has_texts || all.len() > FLAGGED {
            return Ok(None);
        }
        let fragments =
            scan.blocks.chunk_by(|(a, _), (b, _)| a.at == b.at).map(|blocks| blocks[0].0.fragment);
        let record = Record::new(query.arguments, fragments);
        let bytes = rows * record.width * size_of::<u64>();
        if bytes > control.memory() / 2 {
            return Ok(None);
        }
        let (mut held, mut sample) = (Held::new(control), Vec::new());
        for at in 0..SAMPLED.min(scan.blocks.len()) {
            control.check()?;
            let (block, mask) =
                scan.mask(at * scan.blocks.len() / SAMPLED.min(scan.blocks.len()), query.slots)?;
            held.set(held.bytes() + mask.count(block.rows()) * size_of::<u64>())?;
            query.numbers(block, &mask, &mut sample)?;
        }
        held.set(held.bytes() + 2 * sample.len())?;
        if sample.is_empty() || distinct(&sample) <= sample.len() / 2 {
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
        let one = |scratch: &mut Scratch, part: usize| -> Result<_> {
            let groups = PartGroups::new(part, &pieces, &self.record, control, scratch)?;
            let mut held = Held::new(control);
            held.set(groups.bytes())?;
            Ok((groups, held))
        };
        let (mut numbers, mut records): (Vec<u64>, usize) = (Vec::new(), 0);
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
                grow(&mut numbers, part.numbers.len());
                numbers.extend_from_slice(&part.numbers);
                for (state, argument) in groups.states.iter_mut().zip(&groups.arguments.of) {
                    match argument {
                        None => state.append(&part.rows, &[]),
                        Some(at) => state.append(&part.totals[*at], &part.sums[*at]),
                    }
                }
                held.set(bytes_of(groups, &numbers))?;
                drop(of_part);
                if let To::Sink(sink) = &mut to {
                    if numbers.len() >= HANDED {
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
                    let more = numbers.len() * (all - records) / records;
                    numbers.reserve_exact(more);
                    groups.states.iter_mut().for_each(|state| state.reserve(more));
                    held.set(bytes_of(groups, &numbers))?;
                }
            }
        }
        groups.keys = self.keys(numbers);
        if let To::Sink(sink) = to {
            sink(groups)?;
            groups.states.iter_mut().for_each(State::clear);
            groups.keys = self.keys(Vec::new());
        }
        watch.stop(Step::Merge, 0, 0);
        Ok(())
    }

    fn keys(&self, numbers: Vec<u64>) -> KeyTable {
        KeyTable::numbered(Arc::clone(self.radix()), Numbers::of(numbers))
    }

    fn radix(&self) -> &Arc<Radix> {
        self.query.numbering.radix()
    }

    /// The records of a fragment's selected rows.
    fn piece(&self, masks: &[(Block<'a>, Mask)], selected: usize) -> Result<Piece<'a>> {
        let (block, _) = masks[0];
        let mut held = Held::new(block.control);
        let width = self.record.width;
        held.set(selected * (width + 1) * size_of::<u64>())?;
        let mut numbers = Vec::with_capacity(selected);
        for (block, mask) in masks {
            self.query.numbers(*block, mask, &mut numbers)?;
        }
        let mut starts = vec![0_u32; self.parts.all + 1];
        numbers.iter().for_each(|number| starts[self.parts.of(*number) + 1] += 1);
        for part in 0..self.parts.all {
            starts[part + 1] += starts[part];
        }
        let mut next = starts.clone();
        let mut words = vec![0; selected * width];
        let mut ends = Vec::with_capacity(masks.len());
        let (mut rest, mut places) = (numbers.as_slice(), Vec::new());
        for (block, mask) in masks {
            let sources = self.record.fields.iter();
            let sources = sources.map(|field| field.argument.source(self.query.slots, *block, mask));
            let sources = sources.collect::<Result<Vec<_>>>()?;
            block.for_each_few(mask, |batch| {
                places.clear();
                places.resize(batch.rows(), 0);
                for_each_row(batch.mask(), batch.rows(), |row| {
                    let (number, others) = rest.split_first().invariant("every selected row has a number");
                    rest = others;
                    let next = &mut next[self.parts.of(*number)];
                    places[row] = *next as usize * width;
                    words[places[row]] = *number;
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
    /// Appends the numbers of a block's selected rows.
    fn numbers(&self, block: Block<'a>, mask: &Mask, out: &mut Vec<u64>) -> Result<()> {
        let mut of_batch: Vec<u64> = Vec::new();
        self.for_each_batch(block, mask, &[], |batch, columns| {
            self.numbering.radix().places(columns, &mut of_batch);
            match batch.mask() {
                None => out.extend_from_slice(&of_batch),
                Some(mask) => mask::for_each(mask, |row| out.push(of_batch[row])),
            }
            Ok(())
        })
    }
}

/// Bytes of groups, one of whose columns is there twice while it grows.
fn bytes_of(groups: &Groups<'_>, numbers: &Vec<u64>) -> usize {
    let numbers = numbers.capacity() * size_of::<u64>();
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
fn distinct(numbers: &[u64]) -> usize {
    let bits = (numbers.len() * 8).next_power_of_two().max(64);
    let mut words = vec![0_u64; bits / 64];
    for number in numbers {
        let mixed = (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bit = index(mixed >> (64 - bits.trailing_zeros()));
        words[bit / 64] |= 1 << (bit % 64);
    }
    let clear = bits - index(mask::count_ones(&words));
    (-(bits as f64) * (clear.max(1) as f64 / bits as f64).ln()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_numbers_are_estimated() {
        for (n, of) in [(100_000, 100_000), (100_000, 1000), (5000, 4000), (1, 1)] {
            let numbers: Vec<u64> = (0..n).map(|at| at % of * 1_000_003).collect();
            let (found, of) = (distinct(&numbers), usize::try_from(of).unwrap());
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
