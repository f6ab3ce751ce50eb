//! The bytes of all texts in a row, and where each begins: its place behind the first text of its unit of 512
//! rows, bit-packed.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head; the first parameter is the width of a place in bits |
//! | 8..12 | bytes of all texts, u32 |
//! | 12.. | where each unit begins, u32 |
//! | align 64 | the places (`basalt_kernels::packed`), u64 |
//! | ... | the texts, UTF-8 |

use std::{borrow::Cow, ops::Range, sync::Arc};

use arrow_array::StringArray;
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};

use super::TextStats;
use crate::{
    encoding::{
        Bid, TextColumn, TextEncoding, TextTest, Texts, UNIT_ROWS, bitpack,
        bytes::{ALIGNMENT, HEAD, Head, Reader, Writer, align, corrupt, count, ensure, index},
    },
    error::Result,
    mask::selects,
};

/// The encoding.
pub(in crate::encoding) struct Raw;

impl TextEncoding for Raw {
    fn code(&self) -> u8 {
        64
    }

    fn name(&self) -> &'static str {
        "text"
    }

    fn bid(&self, stats: &TextStats<'_>) -> Option<Bid> {
        let units = stats.rows().div_ceil(UNIT_ROWS);
        let words = bitpack::words(stats.start_width, stats.rows());
        Some(Bid::exact(self.name(), align(HEAD + 4 + 4 * units) + 8 * words + stats.bytes))
    }

    fn encode(&self, stats: &TextStats<'_>) -> Result<Buffer> {
        let rows = stats.rows();
        let width = stats.start_width;
        let bytes = self.bid(stats).map_or(0, |bid| bid.bytes);
        // At most 64.
        let head = Head::text(self.code(), [width.to_le_bytes()[0], 0], rows);
        let mut writer = Writer::new(head, bytes);
        writer.put(count(stats.bytes));
        let (mut places, mut start) = (Vec::with_capacity(rows), 0);
        for unit in (0..rows).step_by(UNIT_ROWS) {
            writer.put(count(start));
            let first = start;
            for text in stats.texts(unit..rows.min(unit + UNIT_ROWS)) {
                places.push((start - first) as u64);
                start += text.len();
            }
        }
        writer.align(ALIGNMENT);
        bitpack::pack(width, &places, writer.zeros(bitpack::words(width, rows)));
        for text in stats.texts(0..rows) {
            writer.slice(text.as_bytes());
        }
        Ok(writer.finish())
    }

    fn open(&self, buffer: Buffer) -> Result<Arc<dyn TextColumn>> {
        let (head, mut reader) = Reader::text(buffer.clone())?;
        let width = u32::from(head.params[0]);
        // A place is below 2^32, as the bytes are.
        ensure(width <= 32, "the width is out of bounds")?;
        let bytes = reader.u32()?;
        let units = reader.section(head.rows.div_ceil(UNIT_ROWS))?;
        reader.align(ALIGNMENT)?;
        let words = reader.section(bitpack::words(width, head.rows))?;
        let texts = one_text(reader.skip(bytes as usize)?)?;
        reader.finish()?;
        let column = Column { buffer, rows: head.rows, width, units, words, texts };
        column.validate()?;
        Ok(Arc::new(column))
    }
}

/// An array of one text, so that UTF-8 is validated once for all.
fn one_text(bytes: Buffer) -> Result<StringArray> {
    let end = i32::try_from(bytes.len()).map_err(|_| corrupt("the texts are too long"))?;
    let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0, end]));
    StringArray::try_new(offsets, bytes, None).map_err(|_| corrupt("a text is not UTF-8"))
}

#[derive(Debug)]
struct Column {
    buffer: Buffer,
    rows: usize,
    width: u32,
    units: ScalarBuffer<u32>,
    words: ScalarBuffer<u64>,
    texts: StringArray,
}

impl Column {
    fn validate(&self) -> Result<()> {
        let texts = self.texts.value(0);
        let mut last = 0;
        let mut places = [0; UNIT_ROWS];
        for unit in 0..self.units.len() {
            for &start in self.starts(unit, &mut places) {
                let start = index(start.cast_unsigned());
                ensure(start >= last && texts.is_char_boundary(start), "a text begins out of order")?;
                last = start;
            }
        }
        ensure(self.start(0) == 0, "the first text does not begin at 0")
    }

    fn places(&self) -> bitpack::Codes<'_> {
        bitpack::Codes { width: self.width, words: &self.words }
    }

    /// Where the texts of a unit begin.
    fn starts<'a>(&self, unit: usize, out: &'a mut [i64; UNIT_ROWS]) -> &'a [i64] {
        let first = unit * UNIT_ROWS;
        let out = &mut out[..(self.rows - first).min(UNIT_ROWS)];
        self.places().unpack(first, self.units[unit].into(), out);
        out
    }

    fn start(&self, row: usize) -> usize {
        match self.units.get(row / UNIT_ROWS) {
            Some(&unit) if row < self.rows => unit as usize + index(self.places().get(row)),
            _ => self.texts.value_data().len(),
        }
    }

    fn text(&self, bytes: Range<usize>) -> &str {
        self.texts.value(0).get(bytes).unwrap_or_default()
    }

    /// Calls `work` with each text of the rows.
    fn each<'a>(&'a self, start: usize, rows: usize, mut work: impl FnMut(&'a str)) {
        let mut places = [0; UNIT_ROWS];
        for first in (start..start + rows).step_by(UNIT_ROWS) {
            let n = (start + rows - first).min(UNIT_ROWS);
            let starts = &self.starts(first / UNIT_ROWS, &mut places)[..n];
            let ends = starts[1..].iter().map(|&end| index(end.cast_unsigned()));
            for (&start, end) in starts.iter().zip(ends.chain([self.start(first + n)])) {
                work(self.text(index(start.cast_unsigned())..end));
            }
        }
    }
}

impl TextColumn for Column {
    fn rows(&self) -> usize {
        self.rows
    }

    fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    fn name(&self) -> String {
        Raw.name().to_owned()
    }

    fn get(&self, row: usize) -> Cow<'_, str> {
        Cow::Borrowed(self.text(self.start(row)..self.start(row + 1)))
    }

    fn decode(&self, start: usize, rows: usize, _selected: Option<&[u64]>) -> Texts<'_> {
        let mut texts = Vec::with_capacity(rows);
        self.each(start, rows, |text| texts.push(text));
        Texts::Lent(texts)
    }

    fn filter(&self, start: usize, rows: usize, test: &TextTest, under: Option<&[u64]>, out: &mut [u64]) {
        out.fill(0);
        let mut row = 0;
        self.each(start, rows, |text| {
            let passes = selects(under, row) && test.passes(text);
            out[row / 64] |= u64::from(passes) << (row % 64);
            row += 1;
        });
    }
}
