//! The distinct texts in order, and codes into them: a column of texts and one of keys.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head |
//! | 8..12 | bytes of the entries, u32 |
//! | align 64 | the entries, a column of texts that is no dictionary |
//! | align 64 | the codes, a column of keys |

use std::{borrow::Cow, ops::Range, sync::Arc};

use arrow_buffer::Buffer;
use hashbrown::HashMap;

use super::{Raw, TextStats};
use crate::{
    encoding::{
        Bid, Codes, KeyColumn, TEXT_ENCODINGS, TextColumn, TextEncoding, TextTest, Texts,
        bytes::{ALIGNMENT, HEAD, Head, Reader, Writer, align, corrupt, count, ensure, index},
        chooser,
        dictionary::open_codes,
        open_text,
    },
    error::Result,
    limits::BATCH_ROWS,
    mask::selects,
};

/// The encoding.
pub(in crate::encoding) struct Dictionary;

/// The codes may be held by anything but a dictionary.
const LEVEL: u8 = 4;
/// Where the entries begin.
const ENTRIES: usize = align(HEAD + 4);

/// What the encodings that may hold the entries bid.
fn entry_bidders(entries: &TextStats<'_>) -> Vec<(&'static dyn TextEncoding, Bid)> {
    let encodings = TEXT_ENCODINGS.iter().filter(|encoding| encoding.code() != Dictionary.code());
    encodings.filter_map(|&encoding| Some((encoding, encoding.bid(entries)?))).collect()
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
        let entries = chooser::favourite(&entry_bidders(&distinct.entries))?;
        let padding = align(entries.bytes) - entries.bytes;
        Some(codes.and(entries).around(self.name(), ENTRIES + padding))
    }

    fn encode(&self, stats: &TextStats<'_>) -> Result<Buffer> {
        let distinct = stats.distinct.as_ref().ok_or_else(|| corrupt("too many distinct texts"))?;
        let entries = chooser::smallest(&mut entry_bidders(&distinct.entries), None, |encoding| {
            let entries = encoding.encode(&distinct.entries)?;
            let bytes = entries.len();
            Ok((entries, bytes))
        })?;
        let (codes, _) = chooser::choose(LEVEL, &distinct.codes, &distinct.stats, None)?;
        let bytes = ENTRIES + align(entries.len()) + codes.buffer().len();
        let mut writer = Writer::new(Head::text(self.code(), [0; 2], stats.rows()), bytes);
        writer.put(count(entries.len()));
        writer.align(ALIGNMENT);
        writer.slice(entries.as_slice());
        writer.align(ALIGNMENT);
        writer.slice(codes.buffer().as_slice());
        Ok(writer.finish())
    }

    fn open(&self, buffer: Buffer) -> Result<Arc<dyn TextColumn>> {
        let (head, mut reader) = Reader::text(buffer.clone())?;
        let bytes = reader.u32()? as usize;
        reader.align(ALIGNMENT)?;
        let entries = reader.skip(bytes)?;
        ensure(entries.first() != Some(&self.code()), "a dictionary in a dictionary")?;
        let entries = open_text(entries)?;
        ensure(ascending(&*entries), "the entries are not in order")?;
        reader.align(ALIGNMENT)?;
        let codes = open_codes(reader.rest()?, LEVEL, head.rows, entries.rows())?;
        Ok(Arc::new(Column { buffer, entries, codes }))
    }
}

/// Whether each text is greater than the one before it.
fn ascending(texts: &dyn TextColumn) -> bool {
    let mut last: Option<String> = None;
    (0..texts.rows()).step_by(BATCH_ROWS).all(|start| {
        let batch = texts.decode(start, (texts.rows() - start).min(BATCH_ROWS), None);
        let above_last = last.as_deref().is_none_or(|last| last < batch.get(0));
        last = Some(batch.get(batch.len() - 1).to_owned());
        above_last && (1..batch.len()).all(|row| batch.get(row - 1) < batch.get(row))
    })
}

#[derive(Debug)]
struct Column {
    buffer: Buffer,
    entries: Arc<dyn TextColumn>,
    codes: Arc<dyn KeyColumn>,
}

impl Column {
    /// The entries of codes, of which there are fewer than entries: one by one, each made once.
    fn pick(&self, codes: &[usize], selected: Option<&[u64]>) -> Texts<'_> {
        let lent = codes.iter().map(|&code| match self.entries.get(code) {
            Cow::Borrowed(text) => Some(text),
            Cow::Owned(_) => None,
        });
        if let Some(texts) = lent.collect() {
            return Texts::Lent(texts);
        }
        let mut arena = String::new();
        let mut known: HashMap<usize, Range<usize>> = HashMap::new();
        let mut place = |(row, &code): (usize, &usize)| {
            if !selects(selected, row) {
                return 0..0;
            }
            let make = || {
                let start = arena.len();
                arena.push_str(&self.entries.get(code));
                start..arena.len()
            };
            known.entry(code).or_insert_with(make).clone()
        };
        let places = codes.iter().enumerate().map(&mut place).collect();
        Texts::Made { arena, places }
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
        let (name, codes) = (Dictionary.name(), self.codes.name());
        match self.entries.name() {
            entries if entries == Raw.name() => format!("{name}({codes})"),
            entries => format!("{name}({entries}, {codes})"),
        }
    }

    fn get(&self, row: usize) -> Cow<'_, str> {
        self.entries.get(index(self.codes.get(row).cast_unsigned()))
    }

    fn decode(&self, start: usize, rows: usize, selected: Option<&[u64]>) -> Texts<'_> {
        let mut codes = vec![0; rows];
        self.codes.decode(start, &mut codes);
        let codes: Vec<usize> = codes.into_iter().map(|code| index(code.cast_unsigned())).collect();
        let entries = self.entries.rows();
        if entries > rows {
            return self.pick(&codes, selected);
        }
        let mut used = vec![0; entries.div_ceil(64)];
        for (_, code) in codes.iter().enumerate().filter(|(row, _)| selects(selected, *row)) {
            used[code / 64] |= 1 << (code % 64);
        }
        self.entries.decode(0, entries, Some(&used)).pick(&codes)
    }

    fn filter(&self, start: usize, rows: usize, test: &TextTest, _under: Option<&[u64]>, out: &mut [u64]) {
        self.codes.filter(start, rows, &test.over(&*self.entries), out);
    }

    fn codes(&self) -> Option<Codes<'_, dyn TextColumn>> {
        Some(Codes { codes: &*self.codes, entries: &*self.entries })
    }
}
