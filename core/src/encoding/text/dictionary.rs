//! The distinct texts in order, and codes into them: a column of texts and one of keys.
//!
//! | byte | what |
//! |---|---|
//! | 0..8 | head |
//! | 8..12 | bytes of the entries, u32 |
//! | align 64 | the entries, a column of texts that is no dictionary |
//! | align 64 | the codes, a column of keys |

use std::{borrow::Cow, sync::Arc};

use arrow_buffer::Buffer;

use super::{Raw, TextStats};
use crate::{
    encoding::{
        Codes, Costs, Encodings, KeyColumn, SizeEstimate, TextColumn, TextEncoding, TextTest, Texts,
        bytes::{ALIGNMENT, HEAD, Head, Reader, Writer, align, corrupt, count, ensure, index},
        chooser::{self, Candidate, Made},
        dictionary::open_codes,
        open::open_text,
    },
    error::Result,
    limits::BATCH_ROWS,
    mask::selects,
    schema::Optimize,
};

/// The encoding.
pub(in crate::encoding) struct Dictionary;

/// The codes may be held by anything but a dictionary.
pub(in crate::encoding) const LEVEL: u8 = 4;
/// Where the entries begin.
const ENTRIES: usize = align(HEAD + 4);

/// The encodings that may hold the entries, with their size estimates. Entries that are little beside the bytes of
/// the codes are held raw, the fastest, unless the column is to be small whatever it costs.
fn entry_candidates(
    entries: &TextStats<'_>,
    codes: usize,
    inner: &Encodings,
) -> Vec<Candidate<&'static dyn TextEncoding>> {
    let few = entries.bytes < codes / 32 && inner.optimize != Optimize::Size;
    let fits = |code: u8| if few { code == Raw.code() } else { code != Dictionary.code() };
    let encodings = inner.texts.iter().filter(|encoding| fits(encoding.code()));
    encodings.filter_map(|&encoding| Some((encoding, encoding.estimate(entries, inner)?))).collect()
}

/// The buffer of a dictionary.
fn assembled(rows: usize, entries: &Buffer, codes: &Buffer) -> Buffer {
    let bytes = ENTRIES + align(entries.len()) + codes.len();
    let mut writer = Writer::new(Head::text(Dictionary.code(), [0; 2], rows), bytes);
    writer.put(count(entries.len()));
    writer.align(ALIGNMENT);
    writer.slice(entries.as_slice());
    writer.align(ALIGNMENT);
    writer.slice(codes.as_slice());
    writer.finish()
}

impl Dictionary {
    /// A dictionary of entries and codes that were encoded before.
    pub(in crate::encoding) fn of_parts(
        rows: usize,
        entries: &Buffer,
        codes: &Buffer,
        inner: &Encodings,
    ) -> Result<Arc<dyn TextColumn>> {
        Self.open(assembled(rows, entries, codes), inner)
    }
}

impl TextEncoding for Dictionary {
    fn code(&self) -> u8 {
        65
    }

    fn name(&self) -> &'static str {
        "dictionary"
    }

    fn estimate(&self, stats: &TextStats<'_>, inner: &Encodings) -> Option<SizeEstimate> {
        let distinct = stats.distinct.as_ref()?;
        let codes = chooser::least_estimate(inner, LEVEL, &distinct.stats)?;
        let entries = chooser::expected_choice(
            &entry_candidates(&distinct.entries, codes.bytes, inner),
            inner.optimize,
        )?;
        let padding = align(entries.bytes) - entries.bytes;
        Some(codes.and(entries).around(self.name(), ENTRIES + padding))
    }

    fn encode(&self, stats: &TextStats<'_>, inner: &Encodings) -> Result<Buffer> {
        let distinct = stats.distinct.as_ref().ok_or_else(|| corrupt("too many distinct texts"))?;
        let best = chooser::choose(inner, LEVEL, &distinct.codes, &distinct.stats, None)?;
        let codes = best.column;
        let mut candidates = entry_candidates(&distinct.entries, codes.buffer().len(), inner);
        let (_, entries) = chooser::chosen(
            &mut candidates,
            None,
            inner.optimize,
            |_| 0,
            |encoding| {
                let entries = encoding.encode(&distinct.entries, inner)?;
                let bytes = entries.len();
                Ok(Made { column: entries, bytes, cost: 0, extra: 0 })
            },
        )?;
        let entries = entries.column;
        // Few entries are not compressed: how small they could be is not known.
        let fewest = candidates.iter().map(|(_, estimate)| estimate.least).min();
        // Default: there is an encoding at least.
        let fewest = fewest.filter(|_| candidates.len() > 1).unwrap_or(0).min(entries.len());
        chooser::add_extra(codes.buffer().len() - best.least + entries.len() - fewest);
        Ok(assembled(stats.rows(), &entries, codes.buffer()))
    }

    fn open(&self, buffer: Buffer, inner: &Encodings) -> Result<Arc<dyn TextColumn>> {
        let (head, mut reader) = Reader::text(buffer.clone())?;
        let bytes = reader.u32()? as usize;
        reader.align(ALIGNMENT)?;
        let entries = reader.skip(bytes)?;
        ensure(entries.first() != Some(&self.code()), "a dictionary in a dictionary")?;
        let entries = open_text(inner, entries)?;
        inner.ensure(|| ascending(&*entries), "the entries are not in order")?;
        reader.align(ALIGNMENT)?;
        let codes = open_codes(inner, reader.rest()?, LEVEL, head.rows, entries.rows())?;
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
        let codes = codes.into_iter().map(|code| index(code.cast_unsigned()));
        let mut wanted = Vec::new();
        let mut place_of_code = vec![usize::MAX; self.entries.rows()];
        let place = |(row, code): (usize, usize)| {
            if !selects(selected, row) {
                return 0;
            }
            let place = &mut place_of_code[code];
            if *place == usize::MAX {
                *place = wanted.len();
                wanted.push(code);
            }
            *place
        };
        let places: Vec<usize> = codes.enumerate().map(place).collect();
        if wanted.is_empty() {
            wanted.push(0);
        }
        self.entries.pick(&wanted).pick(&places)
    }

    fn pick(&self, rows: &[usize]) -> Texts<'_> {
        let code = |row: &usize| index(self.codes.get(*row).cast_unsigned());
        self.entries.pick(&rows.iter().map(code).collect::<Vec<_>>())
    }

    fn filter(&self, start: usize, rows: usize, test: &TextTest, _under: Option<&[u64]>, out: &mut [u64]) {
        self.codes.filter(start, rows, &test.over(&*self.entries), out);
    }

    fn codes(&self) -> Option<Codes<'_, dyn TextColumn>> {
        Some(Codes { codes: &*self.codes, entries: &*self.entries })
    }

    fn costs(&self) -> Costs {
        // Each entry is tested once.
        let (codes, entries) = (self.codes.costs(), self.entries.costs());
        let tests = entries.filter as usize * self.entries.rows() / self.rows();
        Costs { filter: codes.filter + count(tests), get: codes.get + entries.get, ..codes }
    }
}
