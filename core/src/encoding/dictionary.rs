//! The distinct keys in order, and codes into them held by any other encoding.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head |
//! | 8..12 | entries, u32 |
//! | align 64 | the entries, ascending, i64 |
//! | align 64 | the codes, a column of its own |

use std::sync::Arc;

use arrow_buffer::{Buffer, ScalarBuffer};
use basalt_kernels::FloatSum;

use super::{
    Codes, Costs, Encodings, KeyColumn, KeyEncoding, KeyTest, SizeEstimate, UNIT_ROWS,
    bytes::{ALIGNMENT, HEAD, Head, Reader, Writer, align, count, ensure, index},
    chooser,
    code_map::{CodeMap, code_type},
    fallback, floats, mask,
    open::open_below,
    stats::KeyStats,
};
use crate::{
    error::Result,
    invariant::Invariant,
    keys::{self, Native},
};

/// The encoding.
pub(super) struct Dictionary;

/// Rows whose entries are looked up at a time: codes and floats stay in the L1 cache.
const PIECE: usize = 2 * UNIT_ROWS;

/// Bytes before the codes.
fn entries_end(entries: usize) -> usize {
    align(align(HEAD + 4) + 8 * entries)
}

/// Opens the codes of a dictionary: as many as its rows, all of them below the number of entries.
pub(super) fn open_codes(
    inner: &Encodings,
    buffer: Buffer,
    level: u8,
    rows: usize,
    entries: usize,
) -> Result<Arc<dyn KeyColumn>> {
    let codes = open_below(inner, buffer, level)?;
    ensure(codes.rows() == rows, "the codes have other rows than the dictionary")?;
    let extremes = || codes.min_max(0, rows, None);
    let inside = || extremes().is_some_and(|(min, max)| min >= 0 && max < count(entries).into());
    inner.ensure(inside, "a code has no entry")?;
    Ok(codes)
}

/// What a dictionary costs to read whose codes cost so much.
fn costs(codes: Costs) -> Costs {
    Costs { get: codes.get + 2, ..codes }
}

/// The statistics of the codes, as if each were as frequent in every block as in all.
fn stats_of_codes(stats: &KeyStats, distinct: &[(i64, u64)]) -> KeyStats {
    let counts = (0..).zip(distinct.iter().map(|(_, n)| *n)).collect();
    KeyStats {
        runs: stats.runs,
        common: stats.common.and_then(|common| common.of_codes(distinct)),
        lengths: stats.lengths.and_then(|lengths| lengths.of_codes(distinct)),
        ..KeyStats::of_counts(counts, stats.rows, code_type(distinct.len()))
    }
}

impl KeyEncoding for Dictionary {
    fn code(&self) -> u8 {
        5
    }

    fn name(&self) -> &'static str {
        "dictionary"
    }

    fn level(&self) -> u8 {
        4
    }

    fn estimate(&self, stats: &KeyStats, inner: &Encodings) -> Option<SizeEstimate> {
        let distinct = stats.distinct.as_ref()?;
        let head = entries_end(distinct.len());
        if distinct.len() as u64 - 1 == stats.span() {
            // The codes are the keys less the first: what holds them holds the keys as well.
            let codes = chooser::least_estimate(inner, self.level(), stats)?;
            return Some(codes.around(self.name(), head).about(32).only_if_forced());
        }
        let codes = chooser::least_estimate(inner, self.level(), &stats_of_codes(stats, distinct))?;
        Some(codes.around(self.name(), head).about(32))
    }

    fn expected_costs(&self, stats: &KeyStats, inner: &Encodings) -> Option<Costs> {
        let codes = stats_of_codes(stats, stats.distinct.as_ref()?);
        chooser::expected_costs(inner, self.level(), &codes).map(costs)
    }

    fn encode(&self, keys: &[i64], stats: &KeyStats, inner: &Encodings) -> Result<Buffer> {
        let distinct = stats.distinct.as_ref().invariant("a dictionary is made where keys were counted");
        let entries: Vec<i64> = distinct.iter().map(|(key, _)| *key).collect();
        let codes = CodeMap::new(&entries).codes(keys, i64::from);
        let codes = chooser::choose_below(inner, self.level(), &codes, code_type(entries.len()))?;
        let bytes = entries_end(entries.len()) + codes.buffer().len();
        let mut writer = Writer::new(Head::keys(self.code(), stats.native, [0; 2], keys.len()), bytes);
        writer.put(count(entries.len()));
        writer.align(ALIGNMENT);
        writer.slice(&entries);
        writer.align(ALIGNMENT);
        writer.slice(codes.buffer().as_slice());
        Ok(writer.finish())
    }

    fn open(&self, buffer: Buffer, inner: &Encodings) -> Result<Arc<dyn KeyColumn>> {
        let (head, _, mut reader) = Reader::keys(buffer.clone())?;
        let entries = reader.u32()? as usize;
        reader.align(ALIGNMENT)?;
        let entries: ScalarBuffer<i64> = reader.section(entries)?;
        ensure(entries.is_sorted_by(|a, b| a < b), "the entries are not in order")?;
        reader.align(ALIGNMENT)?;
        let codes = open_codes(inner, reader.rest()?, self.level(), head.rows, entries.len())?;
        Ok(Arc::new(Column { buffer, entries, codes }))
    }
}

#[derive(Debug)]
struct Column {
    buffer: Buffer,
    entries: ScalarBuffer<i64>,
    codes: Arc<dyn KeyColumn>,
}

impl Column {
    fn entry(&self, code: i64) -> i64 {
        self.entries[index(code.cast_unsigned())]
    }

    /// The entries of a column of floats.
    fn floats(&self) -> Vec<f64> {
        let double = self.key_type() == Native::F64;
        let float = |key: &i64| if double { keys::to_f64(*key) } else { keys::to_f32(*key).into() };
        self.entries.iter().map(float).collect()
    }
}

impl KeyColumn for Column {
    fn rows(&self) -> usize {
        self.codes.rows()
    }

    fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    fn name(&self) -> String {
        format!("{}({})", Dictionary.name(), self.codes.name())
    }

    fn decode(&self, start: usize, out: &mut [i64]) {
        self.codes.decode(start, out);
        for key in out {
            *key = self.entry(*key);
        }
    }

    fn get(&self, row: usize) -> i64 {
        self.entry(self.codes.get(row))
    }

    fn gather(&self, start: usize, places: &[u16], out: &mut [i64]) {
        self.codes.gather(start, places, out);
        out.iter_mut().for_each(|key| *key = self.entry(*key));
    }

    fn filter(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]) {
        self.codes.filter(start, rows, &test.over(&self.entries), out);
    }

    fn sum(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> i128 {
        fallback::sum(self, start, rows, mask)
    }

    /// Looks up the entries of selected rows alone, as floats, once for all rows.
    fn sum_floats(&self, start: usize, rows: usize, mask: Option<&[u64]>, sum: &mut FloatSum) {
        if floats::sum_few(start, rows, mask, sum, |places, out| self.gather_floats(start, places, out)) {
            return;
        }
        if self.entries.len() > rows / 4 {
            return floats::sum(rows, mask, sum, |at, out| self.decode_floats(start + at, out));
        }
        let entries = self.floats();
        let (mut codes, mut floats, mut places) = ([0; PIECE], [0.0; PIECE], [0; PIECE + 64]);
        for at in (0..rows).step_by(PIECE) {
            let n = (rows - at).min(PIECE);
            let mask = mask.map(|mask| &mask[at / 64..][..n.div_ceil(64)]);
            let selected = mask.map_or(n, mask::count_ones);
            if selected == 0 {
                continue;
            }
            self.codes.decode(start + at, &mut codes[..n]);
            let float = |code: i64| entries[index(code.cast_unsigned())];
            match mask {
                Some(mask) if selected < n / 2 => {
                    basalt_kernels::mask::positions(mask, &mut places);
                    for place in places[..selected].iter().map(|place| usize::from(*place)) {
                        floats[place] = float(codes[place]);
                    }
                }
                _ => floats.iter_mut().zip(&codes[..n]).for_each(|(out, code)| *out = float(*code)),
            }
            floats::add(&floats[..n], mask, sum);
        }
    }

    fn min_max(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> Option<(i64, i64)> {
        self.codes.min_max(start, rows, mask).map(|(min, max)| (self.entry(min), self.entry(max)))
    }

    fn codes(&self) -> Option<Codes<'_, [i64]>> {
        Some(Codes { codes: &*self.codes, entries: &self.entries })
    }

    fn costs(&self) -> Costs {
        costs(self.codes.costs())
    }
}
