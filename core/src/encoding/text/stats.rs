//! What the encodings need to know of a column of texts before they bid, computed once.

use std::ops::Range;

use arrow_array::{Array, StringArray};
use hashbrown::HashMap;

use crate::encoding::{
    KeyStats, UNIT_ROWS,
    bytes::{bits, count, index},
    dictionary::code_type,
    stats::{MAX_DISTINCT, ValueCounts, fill_nulls, value_counts},
};

/// Statistics of a column of texts. One under a null counts as empty, and is in no dictionary.
#[derive(Debug)]
pub struct TextStats<'a> {
    texts: Source<'a>,
    /// Bytes of all texts.
    pub bytes: usize,
    /// Bits of the place of a text behind the first of its 512.
    pub start_width: u32,
    /// `None` when there are more distinct texts than a dictionary takes, and for the entries of one.
    pub distinct: Option<DistinctTexts<'a>>,
}

/// Where the texts are.
#[derive(Debug)]
enum Source<'a> {
    Rows(&'a StringArray),
    Entries(Vec<&'a str>),
}

/// The distinct texts of a column.
#[derive(Debug)]
pub struct DistinctTexts<'a> {
    /// In order; never none.
    pub entries: Box<TextStats<'a>>,
    /// One for each row; under a null whatever encodes best.
    pub codes: Vec<i64>,
    /// Of the codes.
    pub stats: KeyStats,
    /// How often each code occurs in rows that are not null, where the codes are few.
    pub counts: Option<ValueCounts>,
}

impl<'a> TextStats<'a> {
    /// The statistics of `texts`, of which there is at least one.
    pub fn new(texts: &'a StringArray) -> Self {
        Self { distinct: distinct(texts), ..Self::of(Source::Rows(texts)) }
    }

    fn of(texts: Source<'a>) -> Self {
        let mut stats = Self { texts, bytes: 0, start_width: 0, distinct: None };
        for unit in (0..stats.rows()).step_by(UNIT_ROWS) {
            let (mut start, mut width) = (0, 0);
            for text in stats.texts(unit..stats.rows().min(unit + UNIT_ROWS)) {
                width = width.max(bits(start));
                start += text.len() as u64;
            }
            stats.start_width = stats.start_width.max(width);
            stats.bytes += index(start);
        }
        stats
    }

    /// Texts.
    pub fn rows(&self) -> usize {
        match &self.texts {
            Source::Rows(texts) => texts.len(),
            Source::Entries(texts) => texts.len(),
        }
    }

    /// The text of a row.
    pub fn text(&self, row: usize) -> &'a str {
        match &self.texts {
            Source::Rows(texts) if texts.is_null(row) => "",
            Source::Rows(texts) => texts.value(row),
            Source::Entries(texts) => texts[row],
        }
    }

    /// The texts of some rows.
    pub fn texts(&self, rows: Range<usize>) -> impl Iterator<Item = &'a str> {
        rows.map(|row| self.text(row))
    }
}

fn distinct(texts: &StringArray) -> Option<DistinctTexts<'_>> {
    let mut places: HashMap<&str, u32> = HashMap::new();
    let mut codes = Vec::with_capacity(texts.len());
    for text in texts {
        let Some(text) = text else {
            codes.push(0);
            continue;
        };
        let next = count(places.len());
        codes.push(i64::from(*places.entry(text).or_insert(next)));
        if places.len() > MAX_DISTINCT {
            return None;
        }
    }
    let mut entries: Vec<(&str, u32)> = places.into_iter().collect();
    entries.sort_unstable();
    let mut code_of_place = vec![0; entries.len().max(1)];
    for (code, &(_, place)) in (0..).zip(&entries) {
        code_of_place[place as usize] = code;
    }
    for code in &mut codes {
        *code = code_of_place[index(code.cast_unsigned())];
    }
    let mut entries: Vec<&str> = entries.into_iter().map(|(text, _)| text).collect();
    if entries.is_empty() {
        entries.push("");
    }
    let valid: Option<Vec<u64>> =
        texts.nulls().map(|nulls| nulls.inner().bit_chunks().iter_padded().collect());
    let (codes, counts) = fill_nulls(&codes, valid.as_deref());
    let codes = codes.into_owned();
    let stats = KeyStats::new(&codes, code_type(entries.len()));
    let counts = value_counts(counts, stats.distinct.clone());
    let entries = Box::new(TextStats::of(Source::Entries(entries)));
    Some(DistinctTexts { entries, codes, stats, counts })
}
