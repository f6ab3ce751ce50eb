//! What the encodings need to know of a column of texts for their size estimates, computed once.

use std::{cell::OnceCell, ops::Range};

use arrow_array::{Array, StringArray};
use hashbrown::HashMap;

use super::{places, trained::Trained};
use crate::encoding::{
    KeyStats,
    block_stats::ValueCounts,
    bytes::{bits, count, index},
    code_map::code_type,
    stats::{fill_nulls, value_counts},
};

/// Statistics of a column of texts. One under a null counts as empty, and is in no dictionary.
#[derive(Debug)]
pub struct TextStats<'a> {
    texts: Source<'a>,
    /// Bytes of all texts.
    pub bytes: usize,
    /// The most that a text begins above its unit's line when they are not compressed.
    pub(super) highest_place: u64,
    trained: OnceCell<Trained>,
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
        Self { distinct: distinct(texts), ..Self::without_distinct(texts) }
    }

    /// The same for an encoding that does not ask which texts are distinct.
    pub(super) fn without_distinct(texts: &'a StringArray) -> Self {
        Self::of(Source::Rows(texts))
    }

    fn of(texts: Source<'a>) -> Self {
        let mut stats = Self { texts, bytes: 0, highest_place: 0, trained: OnceCell::new(), distinct: None };
        let lengths = || stats.texts(0..stats.rows()).map(str::len);
        (stats.bytes, stats.highest_place) = (lengths().sum(), places::highest(lengths()));
        stats
    }

    /// Bytes that a dictionary takes at most; the greatest number where there is none.
    pub(super) fn dictionary_bytes(&self) -> usize {
        self.distinct.as_ref().map_or(usize::MAX, |distinct| {
            let entries = &distinct.entries;
            let codes = self.rows() * bits(entries.rows() as u64) as usize / 8;
            codes + entries.bytes + 4 * entries.rows()
        })
    }

    /// A compressor for the texts, trained when it is first asked for.
    pub(super) fn trained(&self) -> &Trained {
        self.trained.get_or_init(|| Trained::new(self.rows(), self.bytes, |row| self.text(row)))
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

/// Distinct texts up to which a dictionary is considered: they are sorted, and a quarter of a fragment's rows.
const MAX_ENTRIES: usize = 1 << 18;
/// Once so many have been seen, an eighth of the rows must have been repetitions: of texts that are nearly all
/// different the rest is not looked at.
const TELLING: usize = 1 << 16;

fn distinct(texts: &StringArray) -> Option<DistinctTexts<'_>> {
    let mut places: HashMap<&str, u32> = HashMap::new();
    let mut codes = Vec::with_capacity(texts.len());
    for text in texts {
        let Some(text) = text else {
            codes.push(0);
            continue;
        };
        let next = places.len();
        codes.push(i64::from(*places.entry(text).or_insert(count(next))));
        let too_many = places.len() > MAX_ENTRIES
            || next < TELLING && places.len() == TELLING && codes.len() < TELLING / 8 * 9;
        if too_many {
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
