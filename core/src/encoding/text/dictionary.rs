//! The distinct texts in order, and codes into them held by an encoding of keys.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head |
//! | 8..12 | entries, u32 |
//! | 12.. | where each entry begins, and where the last ends, i32 |
//! | ... | the entries, UTF-8 |
//! | align 64 | the codes, a column of its own |

use std::sync::Arc;

use arrow_array::{Array, StringArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};

use super::TextStats;
use crate::{
    encoding::{
        Bid, Codes, KeyColumn, TextColumn, TextEncoding, TextTest,
        bytes::{ALIGNMENT, HEAD, Head, Reader, Writer, align, corrupt, count, ensure, index},
        chooser,
        dictionary::open_codes,
    },
    error::Result,
};

/// The encoding.
pub(in crate::encoding) struct Dictionary;

/// The codes may be held by anything but a dictionary.
const LEVEL: u8 = 4;

/// Bytes before the codes.
fn entries_end(entries: &[&str]) -> usize {
    let text: usize = entries.iter().map(|entry| entry.len()).sum();
    align(HEAD + 4 + 4 * (entries.len() + 1) + text)
}

impl TextEncoding for Dictionary {
    fn code(&self) -> u8 {
        65
    }

    fn name(&self) -> &'static str {
        "dictionary"
    }

    fn bid(&self, stats: &TextStats<'_>) -> Option<Bid> {
        let distinct = stats.distinct.as_ref()?;
        let codes = chooser::least_bid(LEVEL, &distinct.stats)?;
        Some(codes.around(self.name(), entries_end(&distinct.entries)))
    }

    fn encode(&self, stats: &TextStats<'_>) -> Result<Buffer> {
        let distinct = stats.distinct.as_ref().ok_or_else(|| corrupt("too many distinct texts"))?;
        let (codes, _) = chooser::choose(LEVEL, &distinct.codes, &distinct.stats, None)?;
        let bytes = entries_end(&distinct.entries) + codes.buffer().len();
        let mut writer = Writer::new(Head::text(self.code(), [0; 2], stats.rows()), bytes);
        writer.put(count(distinct.entries.len()));
        let mut end = 0;
        writer.put(0u32);
        for entry in &distinct.entries {
            end += entry.len();
            writer.put(count(end));
        }
        for entry in &distinct.entries {
            writer.slice(entry.as_bytes());
        }
        writer.align(ALIGNMENT);
        writer.slice(codes.buffer().as_slice());
        Ok(writer.finish())
    }

    fn open(&self, buffer: Buffer) -> Result<Arc<dyn TextColumn>> {
        let (head, mut reader) = Reader::text(buffer.clone())?;
        let entries = reader.u32()? as usize;
        let offsets: ScalarBuffer<i32> = reader.section(entries.saturating_add(1))?;
        ensure(offsets[0] == 0 && offsets.is_sorted(), "the entries are not in order")?;
        let bytes = usize::try_from(offsets[entries]).map_err(|_| corrupt("the entries are too long"))?;
        let entries = StringArray::try_new(OffsetBuffer::new(offsets), reader.skip(bytes)?, None)
            .map_err(|_| corrupt("an entry is not UTF-8"))?;
        let ascending = (1..entries.len()).all(|i| entries.value(i - 1) < entries.value(i));
        ensure(ascending, "the entries are not in order")?;
        reader.align(ALIGNMENT)?;
        let codes = open_codes(reader.rest()?, LEVEL, head.rows, entries.len())?;
        Ok(Arc::new(Column { buffer, entries, codes }))
    }
}

#[derive(Debug)]
struct Column {
    buffer: Buffer,
    entries: StringArray,
    codes: Arc<dyn KeyColumn>,
}

impl Column {
    fn entry(&self, code: i64) -> &str {
        self.entries.value(index(code.cast_unsigned()))
    }
}

impl TextColumn for Column {
    fn rows(&self) -> usize {
        self.codes.rows()
    }

    fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    fn name(&self) -> String {
        format!("{}({})", Dictionary.name(), self.codes.name())
    }

    fn get(&self, row: usize) -> &str {
        self.entry(self.codes.get(row))
    }

    fn decode<'a>(&'a self, start: usize, rows: usize, out: &mut Vec<&'a str>) {
        let mut codes = vec![0; rows];
        self.codes.decode(start, &mut codes);
        out.extend(codes.into_iter().map(|code| self.entry(code)));
    }

    fn filter(&self, start: usize, rows: usize, test: &TextTest, out: &mut [u64]) {
        self.codes.filter(start, rows, &test.over(&self.entries), out);
    }

    fn codes(&self) -> Option<Codes<'_, StringArray>> {
        Some(Codes { codes: &*self.codes, entries: &self.entries })
    }
}
