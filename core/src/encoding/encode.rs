//! Encoding columns: what the engine calls.

use std::{borrow::Cow, sync::Arc};

use arrow_array::{Array, StringArray};

use super::{
    ENCODINGS, Encodings, KEY_ENCODINGS, KeyColumn, KeyStats, SizeEstimate, TEXT_ENCODINGS, TextColumn,
    TextEncoding, TextStats, ValueCounts,
    chooser::{self, Made},
    open::open_made,
    stats::{fill_nulls, value_counts},
    trade_off::TradeOff,
};
use crate::{
    error::{Error, ErrorKind, Result},
    keys::Native,
    limits::FRAGMENT_ROWS,
    schema::{DataType, Field, Optimize},
};

/// A column as it was encoded.
#[derive(Debug)]
pub struct Encoded<C: ?Sized> {
    /// The column.
    pub column: Arc<C>,
    /// The size estimate of each encoding that can hold the column, in the order of their list; exact where the column
    /// was encoded so.
    pub estimates: Vec<SizeEstimate>,
    /// The least and the greatest key (of text in a dictionary: code) of each block, where no row is null.
    pub ranges: Option<Vec<(i64, i64)>>,
    /// What the column could be made faster for, where it is balanced and no encoding is forced.
    pub(crate) trade_off: Option<TradeOff>,
    /// The distinct keys (of text in a dictionary: codes) in order and how often each occurs in rows that are
    /// not null, when they are at most [`MAX_VALUE_COUNTS`](super::MAX_VALUE_COUNTS).
    pub value_counts: Option<ValueCounts>,
}

/// How the encoding of a column is chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice<'a> {
    /// The encoding by name, where it can hold the values.
    pub forced: Option<&'a str>,
    /// What is chosen for otherwise, and in the parts of a column.
    pub optimize: Optimize,
}

impl<'a> From<Option<&'a str>> for Choice<'a> {
    fn from(forced: Option<&'a str>) -> Self {
        Self { forced, optimize: Optimize::default() }
    }
}

impl<'a> From<&'a Field> for Choice<'a> {
    fn from(field: &'a Field) -> Self {
        Self { forced: field.encoding.as_deref(), optimize: field.optimize }
    }
}

impl Choice<'_> {
    /// Whether the column may be made faster at the expense of others of its fragment.
    fn trades(self) -> bool {
        self.forced.is_none() && self.optimize == Optimize::Balanced
    }

    fn encodings(self) -> Encodings {
        ENCODINGS.optimized_for(self.optimize)
    }
}

/// A column of keys as it was encoded.
pub type EncodedKeys = Encoded<dyn KeyColumn>;
/// A column of texts as it was encoded.
pub type EncodedTexts = Encoded<dyn TextColumn>;

/// Encodes the keys of one column of a fragment. `valid` has a bit for each row that is not null (`None`: none
/// is null); the keys of the others are not looked at, and the column may hold any key of its type there.
///
/// The encoding is what `choice` says: the one that is forced, where that can hold these keys, or the best.
///
/// # Errors
/// [`ErrorKind::InvalidBatch`] when the rows are not those of a fragment or a key is not of its type.
pub fn encode_keys<'a>(
    keys: &[i64],
    native: Native,
    valid: Option<&[u64]>,
    choice: impl Into<Choice<'a>>,
) -> Result<EncodedKeys> {
    let choice = choice.into();
    check_rows(keys.len())?;
    if let Some(mask) = valid
        && mask.len() != keys.len().div_ceil(64)
    {
        return Err(Error::new(ErrorKind::InvalidBatch, "the validity has other rows than the keys"));
    }
    let (keys, valid_counts) = fill_nulls(keys, valid);
    let whole = matches!(keys, Cow::Borrowed(_));
    let stats = KeyStats::new(&keys, native);
    let (least, greatest) = native.key_range();
    if stats.min < least || stats.max > greatest {
        return Err(Error::new(ErrorKind::InvalidBatch, "a key is not of its type"));
    }
    let best = chooser::choose(&choice.encodings(), u8::MAX, &keys, &stats, choice.forced)?;
    let (column, estimates) = (best.column, best.estimates);
    let trade_off = choice.trades().then(|| TradeOff::of_keys(&*column, best.least, &stats)).flatten();
    let ranges = whole.then(|| stats.ranges());
    let value_counts = value_counts(valid_counts, stats.distinct);
    Ok(Encoded { column, estimates, ranges, trade_off, value_counts })
}

/// Encodes the texts of one column of a fragment.
///
/// The encoding is what `choice` says: the one that is forced, where that can hold these texts, or the best.
///
/// # Errors
/// [`ErrorKind::InvalidBatch`] when the rows are not those of a fragment.
pub fn encode_texts<'a>(texts: &StringArray, choice: impl Into<Choice<'a>>) -> Result<EncodedTexts> {
    let choice = choice.into();
    let encodings = &choice.encodings();
    check_rows(texts.len())?;
    let stats = TextStats::new(texts);
    let mut candidates: Vec<(&dyn TextEncoding, SizeEstimate)> = TEXT_ENCODINGS
        .iter()
        .filter_map(|&encoding| Some((encoding, encoding.estimate(&stats, encodings)?)))
        .collect();
    let (place, made) = chooser::chosen(
        &mut candidates,
        choice.forced,
        choice.optimize,
        |_| 0,
        |encoding| {
            let (buffer, extra) = chooser::with_extra(|| encoding.encode(&stats, encodings))?;
            let column = open_made(encodings, buffer, |buffer, encodings| encoding.open(buffer, encodings))?;
            assert_eq!(column.rows(), texts.len(), "{} holds the rows that it was given", encoding.name());
            let bytes = column.buffer().len();
            let cost = column.costs().of_queries(bytes, texts.len());
            Ok(Made { column, bytes, cost, extra })
        },
    )?;
    let trade_off = || {
        let small = encodings.optimized_for(Optimize::Size);
        let least =
            chooser::fewest(&candidates, (place, &made), |encoding| encoding.estimate(&stats, &small));
        TradeOff::of_texts(&*made.column, least, &stats)
    };
    let trade_off = choice.trades().then(trade_off).flatten();
    let column = made.column;
    let estimates = candidates.into_iter().map(|(_, estimate)| estimate).collect();
    let distinct = stats.distinct.filter(|_| column.codes().is_some());
    let whole = texts.null_count() == 0;
    let ranges = distinct.as_ref().filter(|_| whole).map(|distinct| distinct.stats.ranges());
    let value_counts = distinct.and_then(|distinct| distinct.counts);
    Ok(Encoded { column, estimates, ranges, trade_off, value_counts })
}

/// Each encoding's size estimate for a column that is held, in the order of their list: decodes all of it.
pub fn estimates_for_keys(column: &dyn KeyColumn) -> Vec<SizeEstimate> {
    let mut keys = vec![0; column.rows()];
    column.decode(0, &mut keys);
    chooser::estimates(&ENCODINGS, &KeyStats::new(&keys, column.key_type()))
}

/// Each encoding's size estimate for texts, in the order of their list.
pub fn estimates_for_texts(texts: &StringArray) -> Vec<SizeEstimate> {
    let stats = TextStats::new(texts);
    TEXT_ENCODINGS.iter().filter_map(|encoding| encoding.estimate(&stats, &ENCODINGS)).collect()
}

/// Encodes which of `rows` rows are not null: a column of 0 and 1, without nulls of its own.
///
/// # Errors
/// [`ErrorKind::InvalidBatch`] when the rows are not those of a fragment.
pub fn encode_validity(valid: &[u64], rows: usize, optimize: Optimize) -> Result<EncodedKeys> {
    let keys: Vec<i64> = (0..rows).map(|row| (valid[row / 64] >> (row % 64) & 1).cast_signed()).collect();
    encode_keys(&keys, Native::Bool, None, Choice { forced: None, optimize })
}

/// Checks the name of an encoding that a column of the type is to use.
///
/// # Errors
/// [`ErrorKind::InvalidSchema`], with the names there are.
pub fn check_forced(name: &str, data_type: DataType) -> Result<()> {
    let names: Vec<&str> = match Native::of(data_type) {
        Some(_) => KEY_ENCODINGS.iter().map(|encoding| encoding.name()).collect(),
        None => TEXT_ENCODINGS.iter().map(|encoding| encoding.name()).collect(),
    };
    if names.contains(&name) {
        return Ok(());
    }
    let shown: String = name.chars().take(40).collect();
    let message = format!("{shown:?} is not an encoding of {data_type}; there are {}", names.join(", "));
    Err(Error::new(ErrorKind::InvalidSchema, message))
}

fn check_rows(rows: usize) -> Result<()> {
    if (1..=FRAGMENT_ROWS).contains(&rows) {
        return Ok(());
    }
    let message = format!("{rows} rows; a fragment has 1 to {FRAGMENT_ROWS}");
    Err(Error::new(ErrorKind::InvalidBatch, message))
}
