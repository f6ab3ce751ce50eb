//! The groups of one part of the rows, where their numbers lie close together: each number has a place, and records are
//! added to theirs one after the other, as they lie in memory. Nothing is sorted.

use std::ops::Range;

use super::{
    aggregate::FragmentSum,
    control::{Control, Held},
    parted_groups::PartGroups,
    partitioned::{Field, Piece, Record},
    records::{add_float, float_sum},
    totals::Totals,
};
use crate::{
    error::Result,
    invariant::{count, index},
};

/// Places for each record, at most: all are looked at once for each argument and fragment.
const PLACES_OF_RECORD: usize = 2;

/// The groups of a part in the order of their numbers, where they have places. `keeps_sums`: the float sums of fragments
/// are wanted, too.
pub(super) fn groups(
    part: usize,
    pieces: &[Piece<'_>],
    record: &Record<'_, '_>,
    keeps_sums: bool,
    control: &Control,
) -> Result<Option<PartGroups>> {
    let mut records = Records { part, pieces, width: record.width, low: 0, control };
    let all = pieces.iter().map(|piece| records.of(piece).len()).sum::<usize>();
    let most = PLACES_OF_RECORD * all;
    if record.rest.is_some() || all == 0 {
        return Ok(None);
    }
    let (mut low, mut high) = (u64::MAX, 0);
    for piece in pieces {
        control.check()?;
        records.in_range(piece, records.of(piece), |_, words| {
            (low, high) = (low.min(words[0]), high.max(words[0]));
        });
        // Those of one fragment mostly show that the numbers lie far apart.
        if high.saturating_sub(low) >= most as u64 {
            return Ok(None);
        }
    }
    records.low = low;
    let places = index(high - low) + 1;
    let mut held = Held::new(control);
    let of_place = size_of::<Sum>() + 2 * size_of::<i128>() * (1 + record.fields.len());
    // What holds the sums of fragments doubles as it grows.
    let floats = record.fields.iter().filter(|field| keeps_sums && field.float.is_some()).count();
    held.set(places * of_place + 2 * all * floats * size_of::<FragmentSum>())?;
    let mut rows = vec![0_u64; places];
    records.each(|place, _| rows[place] += 1)?;
    let taken: Vec<usize> = (0..places).filter(|place| rows[*place] > 0).collect();
    let mut sums = Vec::with_capacity(record.fields.len());
    let mut totals = Vec::with_capacity(record.fields.len());
    for (at, field) in record.fields.iter().enumerate() {
        let valid = record.valid.filter(|_| field.nullable).map(|word| (word, at));
        let (of_field, mut of_fragments) = records.totals(field, valid, &rows, keeps_sums)?;
        totals.push(of_field.of_places(&taken));
        // They came fragment by fragment.
        of_fragments.sort_by_key(|sum| sum.group);
        let mut group = 0;
        for sum in &mut of_fragments {
            while taken[group] < sum.group as usize {
                group += 1;
            }
            sum.group = count(group);
        }
        sums.push(of_fragments);
    }
    let numbers = taken.iter().map(|place| low + *place as u64).collect();
    let rows = Totals::of_counts(rows).of_places(&taken);
    Ok(Some(PartGroups { numbers: [numbers, Vec::new()], rows, totals, sums }))
}

/// The records of a part, fragment by fragment and row by row.
struct Records<'r, 'p> {
    part: usize,
    pieces: &'r [Piece<'p>],
    width: usize,
    /// The number of the first place.
    low: u64,
    control: &'r Control,
}

/// What the floats of a place come to in one fragment, as [`add_float`] has it.
type Sum = [u64; 3];

impl Records<'_, '_> {
    /// Calls `to` with each record and its place.
    #[inline]
    fn each(&self, mut to: impl FnMut(usize, &[u64])) -> Result<()> {
        for piece in self.pieces {
            self.control.check()?;
            self.in_range(piece, self.of(piece), &mut to);
        }
        Ok(())
    }

    /// Where the records of the part are in a piece.
    fn of(&self, piece: &Piece<'_>) -> Range<usize> {
        piece.starts[self.part] as usize..piece.starts[self.part + 1] as usize
    }

    #[inline]
    fn in_range(&self, piece: &Piece<'_>, range: Range<usize>, mut to: impl FnMut(usize, &[u64])) {
        let words = &piece.words[range.start * self.width..range.end * self.width];
        words.chunks_exact(self.width).for_each(|words| to(index(words[0] - self.low), words));
    }

    /// What an argument comes to at each place, of which `rows` says how many rows it has; and its floats in each
    /// fragment, by place, where they are wanted. `valid` is the word and the bit that say whether it is not null.
    fn totals(
        &self,
        field: &Field<'_, '_>,
        valid: Option<(usize, usize)>,
        rows: &[u64],
        keeps_sums: bool,
    ) -> Result<(Totals<'static>, Vec<FragmentSum>)> {
        let counts = |words: &[u64]| valid.is_none_or(|(word, bit)| words[word] >> bit & 1 == 1);
        let filled = match valid {
            None => rows.to_vec(),
            Some(_) => {
                let mut filled = vec![0; rows.len()];
                self.each(|place, words| filled[place] += u64::from(counts(words)))?;
                filled
            }
        };
        let mut totals = Totals::of_counts(filled);
        if let Some(key) = field.key.filter(|_| field.argument.sums_ints()) {
            let bias = field.argument.bias();
            totals.ints = totals.counts.iter().map(|n| bias * i128::from(*n)).collect();
            let ints = &mut totals.ints;
            self.each(|place, words| {
                if counts(words) {
                    ints[place] += i128::from(words[key].cast_signed());
                }
            })?;
        }
        if let Some(key) = field.key.filter(|_| field.argument.extremes) {
            totals.extremes = vec![(i64::MAX, i64::MIN); rows.len()];
            let extremes = &mut totals.extremes;
            self.each(|place, words| {
                if counts(words) {
                    let (key, extremes) = (words[key].cast_signed(), &mut extremes[place]);
                    *extremes = (extremes.0.min(key), extremes.1.max(key));
                }
            })?;
        }
        let mut of_fragments = Vec::new();
        if let Some(float) = field.float {
            totals.floats = vec![0.0; rows.len()];
            let mut sums = vec![Sum::default(); rows.len()];
            for piece in self.pieces {
                self.control.check()?;
                let mut start = self.of(piece).start;
                for (block, ends) in (1..).zip(&piece.ends) {
                    let end = ends[self.part] as usize;
                    self.in_range(piece, start..end, |place, words| {
                        if counts(words) {
                            add_float(&mut sums[place], f64::from_bits(words[float]), block);
                        }
                    });
                    start = end;
                }
                // What has no rows there is 0.0, which adds nothing.
                for (place, sum) in sums.iter_mut().enumerate() {
                    let sum = float_sum(&std::mem::take(sum));
                    totals.floats[place] += sum;
                    if keeps_sums && sum != 0.0 {
                        let (group, fragment) = (count(place), piece.fragment.id());
                        of_fragments.push(FragmentSum { group, fragment, sum });
                    }
                }
            }
        }
        Ok((totals, of_fragments))
    }
}
