//! The groups of one part of the rows: their records are sorted by number, those of a number in the order of rows, and
//! what follows each other with one number is a group.

use super::{
    aggregate::FragmentSum,
    control::{Control, Held},
    partitioned::{Field, Piece, Record},
    records::of_block,
    sorted_items::{CHECKED, Item, sort},
    totals::Totals,
};
use crate::{
    error::Result,
    invariant::{count, index},
};

/// Bits of the place of a record in its piece: an item is a record's number, and where it is, the place of its piece
/// and then its own.
const PLACE_BITS: u32 = 32;

/// What the parts use one after the other.
#[derive(Default)]
pub(super) struct Scratch {
    items: Vec<Item>,
    others: Vec<Item>,
    ends: Vec<usize>,
}

/// The groups of a part, in the order of their numbers; there may be no second ones.
pub(super) struct PartGroups {
    pub(super) numbers: [Vec<u64>; 2],
    pub(super) rows: Totals<'static>,
    /// What each argument comes to, ...
    pub(super) totals: Vec<Totals<'static>>,
    /// ... and its floats in each fragment.
    pub(super) sums: Vec<Vec<FragmentSum>>,
}

impl PartGroups {
    /// Those of a part of all pieces.
    pub(super) fn new(
        part: usize,
        pieces: &[Piece<'_>],
        record: &Record<'_, '_>,
        control: &Control,
        scratch: &mut Scratch,
    ) -> Result<Self> {
        let Scratch { items, others, ends } = scratch;
        let range = |piece: &Piece<'_>| piece.starts[part] as usize..piece.starts[part + 1] as usize;
        let records = pieces.iter().map(|piece| range(piece).len()).sum::<usize>();
        let mut held = Held::new(control);
        // Those of one number are sorted by the second with it at hand.
        let of_rest = usize::from(record.rest.is_some()) * size_of::<Item>();
        held.set(records * (2 * size_of::<Item>() + of_rest + size_of::<usize>()))?;
        items.clear();
        items.reserve_exact(records);
        for (at, piece) in (0_u64..).zip(pieces) {
            control.check()?;
            let range = range(piece);
            let words = &piece.words[range.start * record.width..range.end * record.width];
            let places = (at << PLACE_BITS | range.start as u64)..;
            items.extend(words.chunks_exact(record.width).map(|words| words[0]).zip(places));
        }
        others.resize(records, (0, 0));
        sort(items, others, control)?;
        let mut numbers = [Vec::with_capacity(records), Vec::new()];
        ends.clear();
        let mut at = 0;
        for items in items.chunk_by_mut(|a, b| a.0 == b.0) {
            if at / CHECKED != (at + items.len()) / CHECKED {
                control.check()?;
            }
            let Some(rest) = record.rest else {
                at += items.len();
                numbers[0].push(items[0].0);
                ends.push(at);
                continue;
            };
            let rest = |item: &Item| word(pieces, record.width, item, rest);
            // Those of a group stay in the order of rows.
            if items.len() > 1 {
                items.sort_by_cached_key(rest);
            }
            for items in items.chunk_by(|a, b| rest(a) == rest(b)) {
                at += items.len();
                numbers[0].push(items[0].0);
                numbers[1].push(rest(&items[0]));
                ends.push(at);
            }
        }
        let mut of_part = Self {
            numbers,
            rows: Totals::default(),
            totals: record.fields.iter().map(|_| Totals::default()).collect(),
            sums: record.fields.iter().map(|_| Vec::new()).collect(),
        };
        let mut first = 0;
        for ends in ends.chunks(CHECKED) {
            control.check()?;
            let group = count(of_part.rows.counts.len());
            let groups = Runs { part, pieces, width: record.width, items, first, group, ends };
            // Default: chunks have groups.
            first = ends.last().copied().unwrap_or(first);
            let rows: Vec<u64> = groups.all().map(|run| run.len() as u64).collect();
            for (at, field) in record.fields.iter().enumerate() {
                let valid = record.valid.filter(|_| field.nullable).map(|word| (word, at));
                groups.add(field, valid, &rows, &mut of_part.totals[at], &mut of_part.sums[at]);
            }
            of_part.rows.counts.extend(rows);
        }
        Ok(of_part)
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        let totals = |totals: &Totals<'_>| {
            totals.counts.len() * size_of::<u64>()
                + totals.ints.len() * size_of::<i128>()
                + totals.floats.len() * size_of::<f64>()
                + totals.extremes.len() * size_of::<(i64, i64)>()
        };
        let sums: usize = self.sums.iter().map(Vec::len).sum();
        self.numbers.iter().map(Vec::capacity).sum::<usize>() * size_of::<u64>()
            + self.totals.iter().chain([&self.rows]).map(totals).sum::<usize>()
            + sums * size_of::<FragmentSum>()
    }
}

/// A word of an item's record.
#[inline]
fn word(pieces: &[Piece<'_>], width: usize, (_, place): &Item, at: usize) -> u64 {
    pieces[index(place >> PLACE_BITS)].words[index(place & u64::from(u32::MAX)) * width + at]
}

/// The sorted records of a part, and where each group ends.
struct Runs<'r> {
    part: usize,
    pieces: &'r [Piece<'r>],
    width: usize,
    items: &'r [Item],
    /// The first of their items, and their first group.
    first: usize,
    group: u32,
    ends: &'r [usize],
}

impl<'r> Runs<'r> {
    /// The records of each group.
    fn all(&self) -> impl Iterator<Item = &'r [Item]> {
        let mut start = self.first;
        self.ends.iter().map(move |end| &self.items[std::mem::replace(&mut start, *end)..*end])
    }

    /// A word of a record.
    #[inline]
    fn word(&self, item: &Item, at: usize) -> u64 {
        word(self.pieces, self.width, item, at)
    }

    /// Adds what an argument comes to; `valid` is the word and the bit that say whether it is not null.
    fn add(
        &self,
        field: &Field<'_, '_>,
        valid: Option<(usize, usize)>,
        rows: &[u64],
        totals: &mut Totals<'static>,
        sums: &mut Vec<FragmentSum>,
    ) {
        let counts = |item: &&Item| valid.is_none_or(|(word, bit)| self.word(item, word) >> bit & 1 == 1);
        let from = totals.counts.len();
        match valid {
            None => totals.counts.extend_from_slice(rows),
            Some(_) => totals.counts.extend(self.all().map(|run| run.iter().filter(counts).count() as u64)),
        }
        if let Some(key) = field.key {
            let keys = |run: &'r [Item]| {
                run.iter().filter(counts).map(move |item| self.word(item, key).cast_signed())
            };
            if field.argument.sums_ints() {
                let bias = field.argument.bias();
                let sum = |(run, n): (&'r [Item], &u64)| {
                    keys(run).map(i128::from).sum::<i128>() + bias * i128::from(*n)
                };
                totals.ints.extend(self.all().zip(&totals.counts[from..]).map(sum));
            }
            if field.argument.extremes {
                let widened = |(least, greatest): (i64, i64), key: i64| (least.min(key), greatest.max(key));
                totals.extremes.extend(self.all().map(|run| keys(run).fold((i64::MAX, i64::MIN), widened)));
            }
        }
        if let Some(float) = field.float {
            totals.floats.reserve_exact(self.ends.len());
            for (group, run) in (self.group..).zip(self.all()) {
                let values = run.iter().filter(counts);
                let values = values.map(|item| (item.1, f64::from_bits(self.word(item, float))));
                let mut total = 0.0;
                self.float_sums(values, |piece, sum| {
                    total += sum;
                    if sum != 0.0 {
                        let fragment = self.pieces[piece].fragment.id();
                        sums.push(FragmentSum { group, fragment, sum });
                    }
                });
                totals.floats.push(total);
            }
        }
    }

    /// Calls `each` with what a group's floats come to in each fragment: values of a block are added up in the order
    /// of their rows, then blocks in theirs.
    #[inline]
    fn float_sums(&self, values: impl Iterator<Item = (u64, f64)>, mut each: impl FnMut(usize, f64)) {
        let mut values = values.peekable();
        while let Some((place, value)) = values.next() {
            let piece = place >> PLACE_BITS;
            let (mut fragment, mut block) = (0.0, 0.0 + value);
            let in_piece = |next: &(u64, f64)| next.0 >> PLACE_BITS == piece;
            let mut end = None;
            while let Some((next, value)) = values.next_if(in_piece) {
                if next & u64::from(u32::MAX) >= *end.get_or_insert_with(|| self.end_of_block(place)) {
                    fragment += of_block(std::mem::replace(&mut block, 0.0));
                    end = Some(self.end_of_block(next));
                }
                block += value;
            }
            each(index(piece), fragment + of_block(block));
        }
    }

    /// Where the records of the block of a record end.
    fn end_of_block(&self, place: u64) -> u64 {
        let piece = &self.pieces[index(place >> PLACE_BITS)];
        let ends = piece.ends.iter().map(|ends| u64::from(ends[self.part]));
        let mut behind = ends.filter(|end| *end > place & u64::from(u32::MAX));
        // Default: behind the last block's there are none.
        behind.next().unwrap_or(u64::MAX)
    }
}
