//! One column of a fragment: encoded values, encoded validity, and statistics.

mod parts;

use std::sync::Arc;

pub use self::parts::ColumnParts;
use super::budget::First;
use crate::{
    encoding::{self, Form, KeyColumn, KeyTest, SizeEstimate, TextColumn, TradeOff},
    error::Result,
    invariant::{Invariant, broken, count, index},
    limits::{BATCH_ROWS, BLOCK_ROWS},
    mask::{self, Mask, selects},
    schema::{DataType, Field, Optimize},
    value::Value,
};

/// The encoded values of a column.
#[derive(Clone, Debug)]
pub enum Values {
    /// Fixed-width types, as keys.
    Keys(Arc<dyn KeyColumn>),
    /// Text.
    Text(Arc<dyn TextColumn>),
}

/// What is known of one block of a column without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Rows that are null.
    pub nulls: u32,
    /// The least and the greatest key (for text: code) of the others; `None` when there are none, or when
    /// the column is text without codes.
    pub range: Option<(i64, i64)>,
}

/// One column of a fragment.
#[derive(Clone, Debug)]
pub struct Column {
    data_type: DataType,
    values: Values,
    validity: Option<Arc<dyn KeyColumn>>,
    zones: Vec<Zone>,
    nulls: usize,
    counts: Option<Vec<(i64, u64)>>,
    /// Bytes of the texts that are not null.
    text_bytes: usize,
    /// The least and the greatest text, where there are no codes.
    text_range: Option<(Arc<str>, Arc<str>)>,
}

/// The least and the greatest of some texts.
fn ends<'a>(texts: impl Iterator<Item = &'a str>) -> Option<(Arc<str>, Arc<str>)> {
    // The first bytes, which are quicker to compare, decide about nearly all of them.
    let front = |text: &str| match text.as_bytes().first_chunk() {
        Some(front) => u64::from_be_bytes(*front),
        None => text.bytes().enumerate().fold(0, |front, (i, byte)| front | u64::from(byte) << (56 - 8 * i)),
    };
    let mut texts = texts.map(|text| (front(text), text));
    let first = texts.next()?;
    let (least, greatest) = texts.fold((first, first), |(least, greatest), text| {
        (if text < least { text } else { least }, if text > greatest { text } else { greatest })
    });
    Some((least.1.into(), greatest.1.into()))
}

impl Column {
    /// Encodes keys; `valid` has a bit set for every row that is not null (`None`: all).
    ///
    /// # Errors
    /// Those of the encodings.
    pub fn from_keys(field: &Field, keys: &[i64], valid: Option<&[u64]>) -> Result<Self> {
        Ok(Self::first_of_keys(field, keys, valid)?.column)
    }

    /// The same, with what the column could be made faster for.
    pub(super) fn first_of_keys(field: &Field, keys: &[i64], valid: Option<&[u64]>) -> Result<First> {
        let native = crate::keys::Native::of(field.data_type).ok_or_else(|| {
            crate::error::Error::new(crate::error::ErrorKind::TypeMismatch, "text has no keys")
        })?;
        let encoded = encoding::encode_keys(keys, native, valid, field)?;
        let column = Self {
            data_type: field.data_type,
            values: Values::Keys(encoded.column),
            validity: None,
            zones: Vec::new(),
            nulls: 0,
            counts: encoded.value_counts,
            text_bytes: 0,
            text_range: None,
        };
        let (column, validity) = column.with_validity(keys.len(), valid, encoded.ranges, field.optimize)?;
        Ok(First { column, values: encoded.trade_off, validity })
    }

    /// Encodes texts.
    ///
    /// # Errors
    /// Those of the encodings.
    pub fn from_texts(
        field: &Field,
        texts: &arrow_array::StringArray,
        valid: Option<&[u64]>,
    ) -> Result<Self> {
        Ok(Self::first_of_texts(field, texts, valid)?.column)
    }

    /// The same, with what the column could be made faster for.
    pub(super) fn first_of_texts(
        field: &Field,
        texts: &arrow_array::StringArray,
        valid: Option<&[u64]>,
    ) -> Result<First> {
        let encoded = encoding::encode_texts(texts, field)?;
        let (rows, values) = (arrow_array::Array::len(texts), texts.offsets());
        let text_bytes = match arrow_array::Array::null_count(texts) {
            0 => index(i64::from(values[rows] - values[0]).cast_unsigned()),
            _ => texts.iter().flatten().map(str::len).sum(),
        };
        let text_range = if encoded.column.codes().is_none() { ends(texts.iter().flatten()) } else { None };
        let column = Self {
            data_type: field.data_type,
            values: Values::Text(encoded.column),
            validity: None,
            zones: Vec::new(),
            nulls: 0,
            counts: encoded.value_counts,
            text_bytes,
            text_range,
        };
        let (column, validity) = column.with_validity(rows, valid, encoded.ranges, field.optimize)?;
        Ok(First { column, values: encoded.trade_off, validity })
    }

    /// `ranges` are those of the blocks where no row is null, if they are known.
    fn with_validity(
        mut self,
        rows: usize,
        valid: Option<&[u64]>,
        ranges: Option<Vec<(i64, i64)>>,
        optimize: Optimize,
    ) -> Result<(Self, Option<TradeOff>)> {
        let mut trade_off = None;
        if let Some(valid) = valid {
            self.nulls = rows - mask::count(valid);
            if self.nulls > 0 {
                let encoded = encoding::encode_validity(valid, rows, optimize)?;
                (self.validity, trade_off) = (Some(encoded.column), encoded.trade_off);
            }
        }
        let found = |column: &Self| column.find_zones(rows, valid.filter(|_| column.nulls > 0));
        self.zones = match ranges.filter(|_| self.nulls == 0) {
            Some(ranges) => {
                let zones = ranges.into_iter().map(|range| Zone { nulls: 0, range: Some(range) });
                let zones: Vec<Zone> = zones.collect();
                debug_assert!(zones == found(&self), "the values of a block are those that were encoded");
                zones
            }
            None => found(&self),
        };
        Ok((self, trade_off))
    }

    /// The same rows in other forms of the values and of which rows are null, where these are given: zones and codes stay what
    /// they are.
    pub(super) fn in_forms(&self, values: Option<&Form>, validity: Option<&Form>) -> Result<Self> {
        let mut column = self.clone();
        if let Some(form) = values {
            column.values = match &self.values {
                Values::Keys(keys) => Values::Keys(encoding::keys_in_form(keys.as_ref(), form)?),
                Values::Text(texts) => Values::Text(encoding::texts_in_form(texts.as_ref(), form)?),
            };
        }
        if let (Some(form), Some(held)) = (validity, &self.validity) {
            column.validity = Some(encoding::keys_in_form(held.as_ref(), form)?);
        }
        Ok(column)
    }

    /// What each block holds, from the encoded values.
    fn find_zones(&self, rows: usize, valid: Option<&[u64]>) -> Vec<Zone> {
        (0..rows)
            .step_by(BLOCK_ROWS)
            .map(|start| {
                let n = (rows - start).min(BLOCK_ROWS);
                let mask = valid.map(|v| &v[start / 64..(start + n).div_ceil(64)]);
                let set = mask.map_or(n, mask::count);
                Zone {
                    nulls: count(n - set),
                    range: self.keys().and_then(|keys| keys.min_max(start, n, mask)),
                }
            })
            .collect()
    }

    /// Its logical type.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The values.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The keys of a fixed-width column, or the codes of a text one that has them.
    pub fn keys(&self) -> Option<&dyn KeyColumn> {
        match &self.values {
            Values::Keys(keys) => Some(keys.as_ref()),
            Values::Text(texts) => texts.codes().map(|c| c.codes),
        }
    }

    /// Rows held.
    pub fn rows(&self) -> usize {
        match &self.values {
            Values::Keys(keys) => keys.rows(),
            Values::Text(texts) => texts.rows(),
        }
    }

    /// Rows that are null.
    pub fn nulls(&self) -> usize {
        self.nulls
    }

    /// What is known of each block.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// How often each key (or code) occurs among the rows that are not null, sorted by key; only where there
    /// are few different ones.
    pub fn counts(&self) -> Option<&[(i64, u64)]> {
        self.counts.as_deref()
    }

    /// Bytes held: values, validity and statistics.
    pub fn bytes(&self) -> usize {
        let values = match &self.values {
            Values::Keys(keys) => keys.buffer().len(),
            Values::Text(texts) => texts.buffer().len(),
        };
        let optional = [
            self.validity.as_ref().map(|v| v.buffer().len()),
            self.counts.as_ref().map(|c| size_of_val(c.as_slice())),
            self.text_range.as_ref().map(|(lo, hi)| lo.len() + hi.len()),
        ];
        values + size_of_val(self.zones.as_slice()) + optional.into_iter().flatten().sum::<usize>()
    }

    /// The encodings in use: `packed`, `dictionary(bitcompress)`, `packed + runs` with the validity's second.
    pub fn encoding(&self) -> String {
        let values = match &self.values {
            Values::Keys(keys) => keys.name(),
            Values::Text(texts) => texts.name(),
        };
        match &self.validity {
            Some(validity) => format!("{values} + {}", validity.name()),
            None => values,
        }
    }

    /// Every encoding's size estimate for the values, as if they were to be encoded again: decodes all of them.
    pub fn estimates(&self) -> Vec<SizeEstimate> {
        match &self.values {
            Values::Keys(keys) => encoding::estimates_for_keys(keys.as_ref()),
            Values::Text(texts) => {
                let is_null = |row| self.validity.as_ref().is_some_and(|validity| validity.get(row) == 0);
                let text = |row| (!is_null(row)).then(|| texts.get(row));
                encoding::estimates_for_texts(&(0..self.rows()).map(text).collect())
            }
        }
    }

    /// The column in a form that is read faster and takes more bytes: the same rows, nulls, zones and codes. `None`: it is
    /// as fast as it gets. While it is made, what [`Column::bytes_while_made_faster`] says is held beside it.
    ///
    /// # Errors
    /// Those of the encodings.
    pub fn faster(&self) -> Result<Option<Self>> {
        let values = match &self.values {
            Values::Keys(keys) => encoding::faster_keys(keys.as_ref())?.map(Values::Keys),
            Values::Text(texts) => encoding::faster_texts(texts.as_ref())?.map(Values::Text),
        };
        let validity = self.validity.as_ref().map(|validity| encoding::faster_keys(validity.as_ref()));
        let validity = validity.transpose()?.flatten();
        if values.is_none() && validity.is_none() {
            return Ok(None);
        }
        // Default: the part is as fast as it gets.
        let values = values.unwrap_or_else(|| self.values.clone());
        let faster = Self { values, validity: validity.or_else(|| self.validity.clone()), ..self.clone() };
        debug_assert_eq!(faster.rows(), self.rows(), "a faster form has the same rows");
        Ok(Some(faster))
    }

    /// Bytes that [`Column::faster`] takes at most while it works, the column that it makes among them: keys, what is
    /// known of them, and two encodings of them; of texts the texts twice.
    pub fn bytes_while_made_faster(&self) -> usize {
        4 * self.decoded_bytes().max(8 * self.rows())
    }

    /// Which rows of a block are not null.
    pub fn validity_mask(&self, block: usize) -> Mask {
        let start = block * BLOCK_ROWS;
        let rows = (self.rows() - start).min(BLOCK_ROWS);
        let nulls = self.zones[block].nulls as usize;
        match &self.validity {
            Some(_) if nulls == rows => Mask::Empty,
            Some(validity) if nulls > 0 => {
                Mask::from_fn(rows, |out| validity.filter(start, rows, &KeyTest::Range { lo: 1, hi: 1 }, out))
            }
            _ => Mask::Full,
        }
    }

    /// The mask words of the rows `start..start + rows` that are not null, `None` when all are;
    /// `start` is a multiple of [`encoding::UNIT_ROWS`].
    pub fn validity_words(&self, start: usize, rows: usize) -> Option<Vec<u64>> {
        let validity = self.validity.as_ref()?;
        if self.zones[start / BLOCK_ROWS].nulls == 0 {
            return None;
        }
        let mut out = vec![0; rows.div_ceil(64)];
        validity.filter(start, rows, &KeyTest::Range { lo: 1, hi: 1 }, &mut out);
        Some(out)
    }

    /// The value of one row.
    pub fn value(&self, row: usize) -> Value {
        if self.validity.as_ref().is_some_and(|v| v.get(row) == 0) {
            return Value::Null;
        }
        match &self.values {
            Values::Keys(keys) => Value::from_key(keys.get(row), self.data_type),
            Values::Text(texts) => Value::Text(texts.get(row).into()),
        }
    }

    /// The least and the greatest value; `None` when all are null.
    pub fn range(&self) -> Option<(Value, Value)> {
        match &self.values {
            Values::Text(texts) if texts.codes().is_none() => {
                let (lo, hi) = self.text_range.clone()?;
                Some((Value::Text(lo), Value::Text(hi)))
            }
            values => {
                let ranges = self.zones.iter().filter_map(|z| z.range);
                let (lo, hi) = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
                let value = |key: i64| match values {
                    Values::Keys(_) => Value::from_key(key, self.data_type),
                    Values::Text(texts) => {
                        let codes = texts.codes().invariant("zones of texts are of codes");
                        Value::Text(codes.entries.get(index(key.cast_unsigned())).into())
                    }
                };
                Some((value(lo), value(hi)))
            }
        }
    }

    /// Calls `each` with the texts that are not null.
    pub(crate) fn for_each_text(&self, mut each: impl FnMut(&str)) {
        let Values::Text(texts) = &self.values else { broken("texts are asked for of a column of texts") };
        for start in (0..self.rows()).step_by(BATCH_ROWS) {
            let rows = (self.rows() - start).min(BATCH_ROWS);
            let valid = self.validity_words(start, rows);
            let batch = texts.decode(start, rows, valid.as_deref());
            for row in (0..rows).filter(|&row| selects(valid.as_deref(), row)) {
                each(batch.get(row));
            }
        }
    }

    /// Bytes of the texts that are not null.
    pub(crate) fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// Bytes that the rows take as keys, or as texts and their places.
    pub(crate) fn decoded_bytes(&self) -> usize {
        self.decoded_bytes_of(self.rows())
    }

    /// The same of so many of them, at most: any texts may be theirs.
    pub(crate) fn decoded_bytes_of(&self, rows: usize) -> usize {
        match &self.values {
            Values::Keys(_) => rows * 8,
            Values::Text(_) => rows * 4 + self.text_bytes(),
        }
    }
}
