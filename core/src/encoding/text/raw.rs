//! The bytes of all texts in a row, and where each begins.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head; the first parameter is the width of a place in bits |
//! | 8..12 | bytes of all texts, u32 |
//! | 12.. | where each text begins ([`places`](super::places)) |
//! | ... | the texts, UTF-8 |

use std::{borrow::Cow, ops::Range, sync::Arc};

use arrow_array::StringArray;
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};

use super::{
    TextStats,
    places::{PlaceBuilder, Places, end_of_places},
};
use crate::{
    encoding::{
        Costs, Encodings, LOOK_UP_COST, SizeEstimate, TextColumn, TextEncoding, TextTest, Texts, UNIT_ROWS,
        bytes::{HEAD, Head, Reader, Writer, corrupt, count, ensure},
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

    fn estimate(&self, stats: &TextStats<'_>, _: &Encodings) -> Option<SizeEstimate> {
        if stats.bytes > stats.dictionary_bytes() {
            return Some(SizeEstimate::inexact(self.name(), stats.bytes, 1).only_if_forced());
        }
        Some(SizeEstimate::exact(self.name(), bytes(stats)))
    }

    fn encode(&self, stats: &TextStats<'_>, _: &Encodings) -> Result<Buffer> {
        let mut places = PlaceBuilder::new(stats.rows());
        stats.for_each_length(|length| places.push(length));
        let places = places.finish();
        let head = Head::text(self.code(), [places.width(), 0], stats.rows());
        let mut writer = Writer::new(head, bytes(stats));
        writer.put(count(stats.bytes));
        places.write(&mut writer);
        for text in stats.texts(0..stats.rows()) {
            writer.slice(text.as_bytes());
        }
        Ok(writer.finish())
    }

    fn open(&self, buffer: Buffer, inner: &Encodings) -> Result<Arc<dyn TextColumn>> {
        let (head, mut reader) = Reader::text(buffer.clone())?;
        let bytes = reader.u32()?;
        let places = Places::read(&mut reader, head.params[0], head.rows, bytes, inner.made)?;
        let texts = one_text(reader.skip(bytes as usize)?)?;
        reader.finish()?;
        let column = Column { buffer, rows: head.rows, places, texts };
        if !inner.made {
            column.validate()?;
        }
        Ok(Arc::new(column))
    }
}

impl Raw {
    /// A column of texts, of which there is at least one.
    pub(in crate::encoding) fn of_texts(
        texts: &StringArray,
        inner: &Encodings,
    ) -> Result<Arc<dyn TextColumn>> {
        Self.open(Self.encode(&TextStats::without_distinct(texts), inner)?, inner)
    }
}

/// Bytes of the column.
fn bytes(stats: &TextStats<'_>) -> usize {
    end_of_places(HEAD + 4, stats.highest_place(), stats.rows()) + stats.bytes
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
    places: Places,
    texts: StringArray,
}

impl Column {
    fn validate(&self) -> Result<()> {
        let (texts, mut unit_places) = (self.texts.value(0), [0; UNIT_ROWS + 1]);
        for unit in 0..self.rows.div_ceil(UNIT_ROWS) {
            let mut places = self.places.unit(unit, &mut unit_places).iter();
            ensure(places.all(|&place| texts.is_char_boundary(place)), "a text is not UTF-8")?;
        }
        Ok(())
    }

    fn text(&self, place: Range<usize>) -> &str {
        &self.texts.value(0)[place]
    }

    /// Calls `work` with each text of the rows.
    fn each<'a>(&'a self, start: usize, rows: usize, mut work: impl FnMut(&'a str)) {
        let mut unit_places = [0; UNIT_ROWS + 1];
        for first in (start..start + rows).step_by(UNIT_ROWS) {
            let n = (start + rows - first).min(UNIT_ROWS);
            let places = &self.places.unit(first / UNIT_ROWS, &mut unit_places)[..=n];
            places.windows(2).for_each(|place| work(self.text(place[0]..place[1])));
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
        Cow::Borrowed(self.text(self.places.range(row)))
    }

    fn decode(&self, start: usize, rows: usize, _selected: Option<&[u64]>) -> Texts<'_> {
        let mut texts = Vec::with_capacity(rows);
        self.each(start, rows, |text| texts.push(text));
        Texts::Lent(texts)
    }

    fn pick(&self, rows: &[usize]) -> Texts<'_> {
        Texts::Lent(rows.iter().map(|&row| self.text(self.places.range(row))).collect())
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

    fn costs(&self) -> Costs {
        Costs { filter: 12_000, look_up: LOOK_UP_COST, get: 10 }
    }
}
