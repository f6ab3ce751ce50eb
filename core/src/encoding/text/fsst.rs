//! Texts compressed one by one by a table of symbols ([`symbols`](super::symbols)), for texts that are all
//! different.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head; the parameters are the width of a place in bits and the number of symbols |
//! | 8..12 | bytes of all codes, u32 |
//! | 12.. | where the codes of each text begin ([`places`](super::places)) |
//! | ... | the symbols |
//! | ... | the codes |

use std::{borrow::Cow, ops::Range, sync::Arc};

use arrow_buffer::Buffer;

use super::{
    TextStats,
    automaton::Automaton,
    matcher::Batch,
    places::{PlaceBuilder, Places, UnitPlaces, end_of_places},
    sieve::Found,
    symbols::{MAX_LENGTH, Symbols},
    trained::Trained,
};
use crate::{
    encoding::{
        Costs, Encodings, LOOK_UP_COST, SizeEstimate, TextColumn, TextEncoding, TextTest, Texts, UNIT_ROWS,
        bytes::{HEAD, Head, Reader, Writer, corrupt, count, ensure, index},
    },
    error::Result,
    invariant::Invariant,
    limits::BATCH_ROWS,
};

/// The encoding.
pub(in crate::encoding) struct Fsst;

/// Bytes of texts, at most: their codes may take twice as many.
const MAX_BYTES: usize = 1 << 30;
/// Texts that are decoded as one where most of them are wanted, ...
const RUN_ROWS: usize = 64;
/// ... unless they have more codes than this.
const RUN_CODES: usize = 1 << 12;
/// So many texts are asked for LIKE without being decoded: an automaton takes as long to make as a thousand to decode.
const AUTOMATON_ROWS: usize = 2048;
/// What [`Column::validate`] has seen to.
const UTF8: &str = "the texts of a column that was opened are UTF-8";

impl TextEncoding for Fsst {
    fn code(&self) -> u8 {
        66
    }

    fn name(&self) -> &'static str {
        "fsst"
    }

    fn estimate(&self, stats: &TextStats<'_>, _: &Encodings) -> Option<SizeEstimate> {
        let bytes = |codes: usize, highest: u64, symbols: usize| {
            end_of_places(HEAD + 4, highest, stats.rows()) + symbols + codes
        };
        if stats.bytes > MAX_BYTES {
            return None;
        }
        let least = bytes(stats.filled().max(stats.bytes / MAX_LENGTH), 0, 0);
        if least > stats.dictionary_bytes() {
            return Some(SizeEstimate::inexact(self.name(), least, 1).only_if_forced());
        }
        let trained = stats.trained();
        let codes = index(trained.estimate(stats.bytes as u64));
        let highest = trained.estimate(stats.highest_place());
        let bytes = bytes(codes, highest, Symbols::bytes(&trained.compressor));
        Some(SizeEstimate::inexact(self.name(), bytes + bytes / 50, 25))
    }

    fn encode(&self, stats: &TextStats<'_>, _: &Encodings) -> Result<Buffer> {
        let Trained { compressor, matcher, .. } = stats.trained();
        // Piece by piece: codes that grow as a whole would be there twice, and once more in what is written.
        let mut places = PlaceBuilder::new(stats.rows());
        let (mut pieces, mut batch) = (Vec::new(), Batch::default());
        for start in (0..stats.rows()).step_by(BATCH_ROWS) {
            batch.clear();
            stats.copy(start..stats.rows().min(start + BATCH_ROWS), &mut batch);
            let mut codes = Vec::new();
            matcher.compress(&mut batch, &mut codes, |length| places.push(length));
            pieces.push(codes);
        }
        let (places, codes) = (places.finish(), pieces.iter().map(Vec::len).sum());
        let symbols = compressor.symbol_lengths().len().to_le_bytes()[0];
        let bytes =
            end_of_places(HEAD + 4, places.highest, stats.rows()) + Symbols::bytes(compressor) + codes;
        let head = Head::text(self.code(), [places.width(), symbols], stats.rows());
        let mut writer = Writer::new(head, bytes);
        writer.put(count(codes));
        places.write(&mut writer);
        drop(places);
        Symbols::write(compressor, &mut writer);
        pieces.into_iter().for_each(|codes| writer.slice(&codes));
        Ok(writer.finish())
    }

    fn open(&self, buffer: Buffer, inner: &Encodings) -> Result<Arc<dyn TextColumn>> {
        let (head, mut reader) = Reader::text(buffer.clone())?;
        let bytes = reader.u32()?;
        let places = Places::read(&mut reader, head.params[0], head.rows, bytes, inner.made)?;
        let symbols = Symbols::read(&mut reader, head.params[1])?;
        let codes = reader.skip(bytes as usize)?;
        reader.finish()?;
        let column = Column { buffer, rows: head.rows, places, symbols, codes };
        if !inner.made {
            column.validate()?;
        }
        Ok(Arc::new(column))
    }
}

#[derive(Debug)]
struct Column {
    buffer: Buffer,
    rows: usize,
    places: Places,
    symbols: Symbols,
    codes: Buffer,
}

/// Texts that were decoded.
#[derive(Debug, Default)]
struct Made {
    /// The texts; those behind `end` are room for more.
    bytes: Vec<u8>,
    end: usize,
    /// Where the text of each row lies.
    places: Vec<Range<usize>>,
    /// Where the bytes of each code of a run begin.
    at: Vec<usize>,
}

impl Made {
    fn clear(&mut self) {
        self.places.clear();
        self.end = 0;
    }

    /// Decodes codes at the end.
    #[inline(always)]
    fn push(&mut self, symbols: &Symbols, codes: &[u8], each: impl FnMut(usize, usize)) {
        // Decoding writes whole symbols.
        let room = self.end + MAX_LENGTH * (codes.len() + 1);
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        self.end = symbols.decode(codes, &mut self.bytes, self.end, each);
    }

    fn into_texts(mut self) -> Texts<'static> {
        self.bytes.truncate(self.end);
        Texts::Made { arena: String::from_utf8(self.bytes).invariant(UTF8), places: self.places }
    }

    /// The texts.
    fn text(&self) -> &str {
        str::from_utf8(&self.bytes[..self.end]).invariant(UTF8)
    }
}

impl Column {
    fn validate(&self) -> Result<()> {
        let (mut unit_places, mut made) = ([0; UNIT_ROWS + 1], Made::default());
        for unit in 0..self.rows.div_ceil(UNIT_ROWS) {
            let places = self.places.unit(unit, &mut unit_places);
            let mut texts = places.windows(2).map(|place| &self.codes[place[0]..place[1]]);
            let all = &self.codes[places[0]..places[places.len() - 1]];
            let known = self.symbols.are_symbols(all) || texts.all(|codes| self.symbols.are_codes(codes));
            ensure(known, "a code has no symbol")?;
            made.clear();
            self.make(places, None, &mut made);
            let text = str::from_utf8(&made.bytes[..made.end]).map_err(|_| corrupt("a text is not UTF-8"))?;
            let whole = |place: &Range<usize>| text.is_char_boundary(place.start);
            ensure(made.places.iter().all(whole), "a text is not UTF-8")?;
        }
        Ok(())
    }

    /// Appends the texts of the first rows of a unit whose codes begin at `places`; those that are not wanted may
    /// be empty.
    fn make(&self, places: &[usize], wanted: Option<&[u64]>, made: &mut Made) {
        for first in (0..places.len() - 1).step_by(RUN_ROWS) {
            let places = &places[first..places.len().min(first + RUN_ROWS + 1)];
            self.make_run(places, wanted.map_or(u64::MAX, |words| words[first / RUN_ROWS]), made);
        }
    }

    /// The same for up to 64 rows.
    fn make_run(&self, places: &[usize], wanted: u64, made: &mut Made) {
        let rows = places.len() - 1;
        let (first, codes) = (places[0], places[rows] - places[0]);
        if 2 * (wanted.count_ones() as usize) < rows || codes > RUN_CODES {
            for (row, place) in places.windows(2).enumerate() {
                let start = made.end;
                if wanted >> row & 1 == 1 {
                    made.push(&self.symbols, &self.codes[place[0]..place[1]], |_, _| {});
                }
                made.places.push(start..made.end);
            }
            return;
        }
        // Texts are short, and each would end with a branch that nobody foresees: so all are decoded as one, and
        // where each begins is looked up.
        let mut at = std::mem::take(&mut made.at);
        at.resize(RUN_CODES + 1, 0);
        made.push(&self.symbols, &self.codes[first..first + codes], |code, place| at[code] = place);
        at[codes] = made.end;
        made.places.extend(places.windows(2).map(|place| at[place[0] - first]..at[place[1] - first]));
        made.at = at;
    }
}

const _: () = assert!(RUN_ROWS == 64, "a run is asked for by one word of a mask");

impl TextColumn for Column {
    fn rows(&self) -> usize {
        self.rows
    }

    fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    fn name(&self) -> String {
        Fsst.name().to_owned()
    }

    fn get(&self, row: usize) -> Cow<'_, str> {
        let mut made = Made::default();
        made.push(&self.symbols, &self.codes[self.places.range(row)], |_, _| {});
        made.bytes.truncate(made.end);
        Cow::Owned(String::from_utf8(made.bytes).invariant(UTF8))
    }

    fn decode(&self, start: usize, rows: usize, selected: Option<&[u64]>) -> Texts<'_> {
        let (mut unit_places, mut made) = ([0; UNIT_ROWS + 1], Made::default());
        made.places.reserve(rows);
        for first in (0..rows).step_by(UNIT_ROWS) {
            let n = (rows - first).min(UNIT_ROWS);
            let wanted = selected.map(|words| &words[first / 64..(first + n).div_ceil(64)]);
            let places = self.places.unit((start + first) / UNIT_ROWS, &mut unit_places);
            self.make(&places[..=n], wanted, &mut made);
        }
        made.into_texts()
    }

    fn pick(&self, rows: &[usize]) -> Texts<'_> {
        let mut made = Made::default();
        for &row in rows {
            let start = made.end;
            made.push(&self.symbols, &self.codes[self.places.range(row)], |_, _| {});
            made.places.push(start..made.end);
        }
        made.into_texts()
    }

    fn filter(&self, start: usize, rows: usize, test: &TextTest, under: Option<&[u64]>, out: &mut [u64]) {
        let may_begin: [bool; 256] = std::array::from_fn(|code| {
            let symbol = self.symbols.get(code.to_le_bytes()[0]);
            symbol.is_none_or(|symbol| test.may_begin(symbol))
        });
        let empty_passes = test.passes("");
        let asked = under.map_or(rows, |under| under.iter().map(|word| word.count_ones() as usize).sum());
        let automaton = match test {
            TextTest::Like(pattern) if asked >= AUTOMATON_ROWS => Automaton::new(pattern, &self.symbols),
            _ => None,
        };
        let (mut unit_places, mut made): (UnitPlaces, _) = ([0; UNIT_ROWS + 1], Made::default());
        let mut found = Found::default();
        out.fill(0);
        for first in (0..rows).step_by(UNIT_ROWS) {
            let n = (rows - first).min(UNIT_ROWS);
            let places = &self.places.unit((start + first) / UNIT_ROWS, &mut unit_places)[..=n];
            // Most texts fail by their first symbol, without being decoded.
            let mut wanted = [0; UNIT_ROWS / 64];
            for (row, place) in places.windows(2).enumerate() {
                let passes = match self.codes[place[0]..place[1]].first() {
                    Some(code) => may_begin[usize::from(*code)],
                    None => empty_passes,
                };
                wanted[row / 64] |= u64::from(passes) << (row % 64);
            }
            let out = &mut out[first / 64..(first + n).div_ceil(64)];
            for (i, (out, wanted)) in out.iter_mut().zip(&mut wanted).enumerate() {
                *wanted &= under.map_or(u64::MAX, |under| under[first / 64 + i]);
                *out = *wanted;
            }
            let wanted = &wanted[..out.len()];
            if wanted.iter().all(|word| *word == 0) {
                continue;
            }
            if let Some(automaton) = &automaton {
                automaton.test(&self.codes, places, wanted, &mut found, out);
                continue;
            }
            made.clear();
            self.make(places, Some(wanted), &mut made);
            let text = made.text();
            basalt_kernels::mask::for_each(wanted, |row| {
                let passes = test.passes(&text[made.places[row].clone()]);
                out[row / 64] &= !(u64::from(!passes) << (row % 64));
            });
        }
    }

    fn costs(&self) -> Costs {
        // Where the first symbol turns most texts away it is a sixth of that.
        Costs { filter: 20_000, look_up: 2 * LOOK_UP_COST, get: 60 }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn what_is_no_utf8_is_no_empty_text() {
        let made = |bytes: &[u8]| Made { bytes: bytes.to_vec(), end: bytes.len(), ..Made::default() };
        assert_eq!(made("é".as_bytes()).text(), "é");
        assert!(catch_unwind(|| made(&[0xff]).text().len()).is_err());
        assert!(catch_unwind(|| made(&[0xff]).into_texts().len()).is_err());
    }
}
