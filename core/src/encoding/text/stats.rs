//! What the encodings need to know of a column of texts for their size estimates, computed once.

use std::{borrow::Cow, cell::OnceCell, ops::Range};

use arrow_array::{Array, StringArray};

use super::{matcher::Batch, numbers::Numbers, places, trained::Trained};
use crate::encoding::{
    KeyStats,
    block_stats::ValueCounts,
    bytes::{bits, index},
    code_map::code_type,
    stats::{fill_nulls, value_counts},
};

/// Statistics of a column of texts. One under a null counts as empty, and is in no dictionary.
#[derive(Debug)]
pub struct TextStats<'a> {
    texts: Source<'a>,
    /// Bytes of all texts.
    pub bytes: usize,
    highest_place: OnceCell<u64>,
    /// Texts that are not empty.
    filled: usize,
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
        let (highest_place, trained) = (OnceCell::new(), OnceCell::new());
        let stats = Self { texts, bytes: 0, highest_place, filled: 0, trained, distinct: None };
        let (bytes, filled) = match &stats.texts {
            Source::Rows(texts) if texts.null_count() == 0 => {
                let offsets = texts.value_offsets();
                let bytes = index(i64::from(offsets[texts.len()] - offsets[0]).cast_unsigned());
                (bytes, offsets.windows(2).filter(|place| place[0] != place[1]).count())
            }
            _ => {
                let lengths = || stats.texts(0..stats.rows()).map(str::len);
                (lengths().sum(), lengths().filter(|length| *length > 0).count())
            }
        };
        Self { bytes, filled, ..stats }
    }

    /// Calls `work` with the bytes of each text.
    pub(super) fn for_each_length(&self, mut work: impl FnMut(usize)) {
        match &self.texts {
            Source::Rows(texts) if texts.null_count() == 0 => texts.offsets().lengths().for_each(work),
            _ => self.texts(0..self.rows()).for_each(|text| work(text.len())),
        }
    }

    /// The most that a text begins above its unit's line when they are not compressed: found when it is first asked for.
    pub(super) fn highest_place(&self) -> u64 {
        *self.highest_place.get_or_init(|| {
            let mut highest = places::Highest::default();
            self.for_each_length(|length| highest.push(length));
            highest.finish()
        })
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

    /// Texts that are not empty.
    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    /// Appends the texts of some rows.
    pub(super) fn copy(&self, rows: Range<usize>, batch: &mut Batch) {
        match &self.texts {
            Source::Rows(texts) if texts.null_count() == 0 => {
                let offsets = texts.value_offsets();
                let place = |row: usize| index(i64::from(offsets[row]).cast_unsigned());
                let (start, before) = (place(rows.start), batch.bytes.len());
                batch.ends.extend(rows.clone().map(|row| before + place(row + 1) - start));
                batch.bytes.extend_from_slice(&texts.value_data()[start..place(rows.end)]);
            }
            _ => self.texts(rows).for_each(|text| batch.push(text.as_bytes())),
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
    let mut numbers = Numbers::new(texts);
    let mut number_of_row = Vec::with_capacity(texts.len());
    for row in 0..texts.len() {
        if texts.is_null(row) {
            number_of_row.push(0);
            continue;
        }
        let before = numbers.len();
        number_of_row.push(numbers.of(row));
        if numbers.len() == before {
            continue;
        }
        let too_many =
            numbers.len() > MAX_ENTRIES || numbers.len() == TELLING && number_of_row.len() < TELLING / 8 * 9;
        if too_many {
            return None;
        }
    }
    let mut entries: Vec<(&str, u32)> = numbers.texts().zip(0..).collect();
    drop(numbers);
    entries.sort_unstable();
    let mut code_of_number = vec![0; entries.len().max(1)];
    for (code, &(_, number)) in (0..).zip(&entries) {
        code_of_number[number as usize] = code;
    }
    let codes: Vec<i64> = number_of_row.iter().map(|&number| code_of_number[number as usize]).collect();
    drop(number_of_row);
    let mut entries: Vec<&str> = entries.into_iter().map(|(text, _)| text).collect();
    if entries.is_empty() {
        entries.push("");
    }
    let valid: Option<Vec<u64>> =
        texts.nulls().map(|nulls| nulls.inner().bit_chunks().iter_padded().collect());
    let (filled, counts) = fill_nulls(&codes, valid.as_deref());
    let codes = match filled {
        Cow::Borrowed(_) => codes,
        Cow::Owned(filled) => filled,
    };
    let stats = KeyStats::new(&codes, code_type(entries.len()));
    let counts = value_counts(counts, stats.distinct.clone());
    let entries = Box::new(TextStats::of(Source::Entries(entries)));
    Some(DistinctTexts { entries, codes, stats, counts })
}
