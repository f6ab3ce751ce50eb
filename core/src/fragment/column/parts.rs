//! A column as bytes, to be kept elsewhere and opened again.
//!
//! The encoded values and the validity are the buffers that they are in memory. Statistics that cannot be had from these
//! cheaply stand in the head; null counts and zones are found again from the values, so that a column that was opened
//! never has a range or a code that its values do not have, whatever its bytes are:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | 1: counts follow; 2: the least and the greatest text follow |
//! | 8 | bytes of the texts that are not null |
//! | 2, then 16 each | how many counts; key and count of each |
//! | 4 and 4, then as many | bytes of the two texts; the texts |

use std::sync::Arc;

use arrow_buffer::Buffer;

use super::{Column, Values};
use crate::{
    encoding::{self, KeyColumn, KeyTest, MAX_VALUE_COUNTS},
    error::{Error, ErrorKind, Result},
    invariant::{Invariant as _, count, index},
    keys::Native,
    limits::{BLOCK_ROWS, MAX_TEXT_BYTES},
    mask,
    schema::DataType,
};

const HAS_COUNTS: u8 = 1;
const HAS_TEXT_RANGE: u8 = 2;

/// A column as bytes. Its type, and whose rows it has, are for whoever keeps them to know.
#[derive(Clone, Debug)]
pub struct ColumnParts {
    /// Statistics.
    pub head: Vec<u8>,
    /// The encoded values.
    pub values: Buffer,
    /// Which rows are not null, encoded; `None`: all.
    pub validity: Option<Buffer>,
}

impl ColumnParts {
    /// Bytes of all parts.
    pub fn bytes(&self) -> usize {
        // Default: no row is null.
        self.head.len() + self.values.len() + self.validity.as_ref().map_or(0, Buffer::len)
    }
}

impl Column {
    /// The column as bytes; the buffers are shared.
    pub fn to_parts(&self) -> ColumnParts {
        let mut head = Vec::new();
        let flag = |is_there, flag| if is_there { flag } else { 0 };
        head.push(flag(self.counts.is_some(), HAS_COUNTS) | flag(self.text_range.is_some(), HAS_TEXT_RANGE));
        head.extend((self.text_bytes as u64).to_le_bytes());
        if let Some(counts) = &self.counts {
            head.extend(u16::try_from(counts.len()).invariant("there are few counts").to_le_bytes());
            for (key, n) in counts {
                head.extend(key.to_le_bytes());
                head.extend(n.to_le_bytes());
            }
        }
        if let Some((lo, hi)) = &self.text_range {
            [lo, hi].iter().for_each(|text| head.extend(count(text.len()).to_le_bytes()));
            [lo, hi].iter().for_each(|text| head.extend(text.as_bytes()));
        }
        let values = match &self.values {
            Values::Keys(keys) => keys.buffer().clone(),
            Values::Text(texts) => texts.buffer().clone(),
        };
        ColumnParts { head, values, validity: self.validity.as_ref().map(|valid| valid.buffer().clone()) }
    }

    /// Opens a column of a type and of so many rows. Nothing in the parts is believed; buffers that are not aligned are
    /// copied.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when they are no such column.
    pub fn from_parts(parts: ColumnParts, data_type: DataType, rows: usize) -> Result<Self> {
        let values = match Native::of(data_type) {
            Some(native) => {
                let keys = encoding::open_keys(parts.values)?;
                ensure(keys.key_type() == native, "the keys are of another type")?;
                Values::Keys(keys)
            }
            None => Values::Text(encoding::open_text(parts.values)?),
        };
        let validity = parts.validity.map(encoding::open_keys).transpose()?;
        let valid = validity.as_deref().map(|validity| valid_words(validity, rows)).transpose()?;
        // Default: no row is null.
        let nulls = valid.as_deref().map_or(0, |valid| rows - mask::count(valid));
        ensure(nulls > 0 || valid.is_none(), "a validity without nulls")?;
        let mut column = Self {
            data_type,
            values,
            validity,
            zones: Vec::new(),
            nulls,
            counts: None,
            text_bytes: 0,
            text_range: None,
        };
        ensure(column.rows() == rows, "the column has other rows")?;
        column.zones = column.find_zones(rows, valid.as_deref());
        column.read_head(&parts.head)?;
        Ok(column)
    }

    fn read_head(&mut self, head: &[u8]) -> Result<()> {
        let mut head = Head(head);
        let [flags] = head.array()?;
        ensure(flags & !(HAS_COUNTS | HAS_TEXT_RANGE) == 0, "an unknown statistic")?;
        let text_bytes = u64::from_le_bytes(head.array()?);
        let is_text = matches!(self.values, Values::Text(_));
        let present = self.rows() - self.nulls;
        let most = if is_text { present as u64 * MAX_TEXT_BYTES as u64 } else { 0 };
        ensure(text_bytes <= most, "more bytes than the texts may have")?;
        self.text_bytes = index(text_bytes);
        if flags & HAS_COUNTS != 0 {
            self.counts = Some(self.read_counts(&mut head)?);
        }
        let has_range = is_text && present > 0 && self.keys().is_none();
        ensure(has_range == (flags & HAS_TEXT_RANGE != 0), "a range of texts is missing or too many")?;
        if has_range {
            let [lo, hi] = [u32::from_le_bytes(head.array()?), u32::from_le_bytes(head.array()?)];
            let (lo, hi) = (head.text(lo)?, head.text(hi)?);
            ensure(lo <= hi, "the least text is above the greatest")?;
            self.text_range = Some((lo, hi));
        }
        ensure(head.0.is_empty(), "bytes follow the statistics")
    }

    fn read_counts(&self, head: &mut Head<'_>) -> Result<Vec<(i64, u64)>> {
        ensure(self.keys().is_some(), "counts of no keys")?;
        let n = usize::from(u16::from_le_bytes(head.array()?));
        ensure(n <= MAX_VALUE_COUNTS, "too many counts")?;
        let mut counts = Vec::with_capacity(n);
        for _ in 0..n {
            counts.push((i64::from_le_bytes(head.array()?), u64::from_le_bytes(head.array()?)));
        }
        ensure(counts.is_sorted_by(|a, b| a.0 < b.0), "the counts are not in order")?;
        let rows = (self.rows() - self.nulls) as u64;
        let sum = counts.iter().try_fold(0_u64, |sum, (_, n)| sum.checked_add(*n));
        ensure(sum == Some(rows) && counts.iter().all(|(_, n)| *n > 0), "the counts are not of the rows")?;
        let ranges = self.zones.iter().filter_map(|zone| zone.range);
        let range = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let ends = counts.first().zip(counts.last()).map(|(first, last)| (first.0, last.0));
        ensure(ends == range, "the counts are of other keys")?;
        Ok(counts)
    }
}

/// The mask words of the rows that are not null.
fn valid_words(validity: &dyn KeyColumn, rows: usize) -> Result<Vec<u64>> {
    ensure(validity.key_type() == Native::Bool && validity.rows() == rows, "a validity of other rows")?;
    let mut words = vec![0; rows.div_ceil(64)];
    for start in (0..rows).step_by(BLOCK_ROWS) {
        let n = (rows - start).min(BLOCK_ROWS);
        let out = &mut words[start / 64..(start + n).div_ceil(64)];
        validity.filter(start, n, &KeyTest::Range { lo: 1, hi: 1 }, out);
    }
    Ok(words)
}

/// What is left of a head.
struct Head<'a>(&'a [u8]);

impl Head<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk().ok_or_else(|| corrupt("the head ends too soon"))?;
        self.0 = rest;
        Ok(*array)
    }

    fn text(&mut self, bytes: u32) -> Result<Arc<str>> {
        ensure(bytes as usize <= MAX_TEXT_BYTES, "a text is too long")?;
        let split = self.0.split_at_checked(bytes as usize);
        let (text, rest) = split.ok_or_else(|| corrupt("the head ends too soon"))?;
        self.0 = rest;
        std::str::from_utf8(text).map(Arc::from).map_err(|_| corrupt("a text is not UTF-8"))
    }
}

fn corrupt(message: &str) -> Error {
    Error::new(ErrorKind::Corrupt, message)
}

fn ensure(holds: bool, message: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(corrupt(message)) }
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;

    use super::*;
    use crate::{
        encoding::{KEY_ENCODINGS, TEXT_ENCODINGS},
        schema::Field,
    };

    fn field(data_type: DataType, encoding: &str) -> Field {
        Field { encoding: Some(encoding.to_owned()), ..Field::new("a", data_type, true) }
    }

    fn valid(rows: usize) -> Vec<u64> {
        let mut words = vec![0_u64; rows.div_ceil(64)];
        for row in (0..rows).filter(|row| row % 7 != 3) {
            words[row / 64] |= 1 << (row % 64);
        }
        words
    }

    /// Columns of every type and encoding, with and without nulls.
    fn columns(rows: usize) -> Vec<Column> {
        let mut columns = Vec::new();
        let valid = valid(rows);
        for valid in [None, Some(&*valid)] {
            for data_type in DataType::KINDS {
                let Some(native) = Native::of(data_type) else { continue };
                let top = native.key_range().1.clamp(1, 50).cast_unsigned();
                let shapes: [fn(usize) -> u64; 4] =
                    [|_| 0, |row| row as u64 / 9, |row| row as u64 * 31 % 17, |row| u64::from(row % 90 == 5)];
                for shape in shapes {
                    let least = if native == Native::Bool { 0 } else { native.key_range().0 / 2 };
                    let key = |row| least + (shape(row) % (top + 1)).cast_signed();
                    let keys: Vec<i64> = (0..rows).map(key).collect();
                    let encodings = KEY_ENCODINGS.iter().map(|encoding| field(data_type, encoding.name()));
                    columns
                        .extend(encodings.filter_map(|field| Column::from_keys(&field, &keys, valid).ok()));
                }
            }
            for shape in [3, 1000] {
                let text = |row: usize| {
                    let is_valid = valid.is_none_or(|valid| mask::selects(Some(valid), row));
                    is_valid.then(|| format!("the text {}", row * 7 % shape))
                };
                let texts: StringArray = (0..rows).map(text).collect();
                let encodings = TEXT_ENCODINGS.iter().map(|encoding| field(DataType::Utf8, encoding.name()));
                columns.extend(encodings.filter_map(|field| Column::from_texts(&field, &texts, valid).ok()));
            }
        }
        columns
    }

    fn check_same(a: &Column, b: &Column) {
        assert_eq!((a.data_type(), a.rows(), a.nulls()), (b.data_type(), b.rows(), b.nulls()));
        assert_eq!((a.encoding(), a.zones(), a.counts()), (b.encoding(), b.zones(), b.counts()));
        assert_eq!((a.range(), a.text_bytes(), a.bytes()), (b.range(), b.text_bytes(), b.bytes()));
        for row in 0..a.rows() {
            assert_eq!(a.value(row), b.value(row), "{} row {row}", a.encoding());
        }
    }

    #[test]
    fn every_encoding_and_type_comes_back() {
        let mut names = std::collections::BTreeSet::new();
        for column in columns(600).iter().chain(&columns(1)) {
            let parts = column.to_parts();
            let again = Column::from_parts(parts.clone(), column.data_type(), column.rows()).unwrap();
            check_same(column, &again);
            names
                .insert((column.encoding().split(['(', ' ']).next().unwrap().to_owned(), column.nulls() > 0));
            // Other types and other rows are refused.
            let other =
                |data_type, rows| Column::from_parts(parts.clone(), data_type, rows).unwrap_err().kind();
            assert_eq!(other(column.data_type(), column.rows() + 1), ErrorKind::Corrupt);
            let native = Native::of(column.data_type());
            for data_type in DataType::KINDS.into_iter().filter(|data_type| Native::of(*data_type) != native)
            {
                assert_eq!(other(data_type, column.rows()), ErrorKind::Corrupt);
            }
        }
        let known = KEY_ENCODINGS.iter().map(|encoding| encoding.name());
        for name in known.chain(TEXT_ENCODINGS.iter().map(|encoding| encoding.name())) {
            // A constant has no nulls: the validity would be constant.
            assert!(names.iter().any(|(known, _)| known == name), "{name}: {names:?}");
        }
    }

    #[test]
    fn blocks_have_their_zones_again() {
        let rows = BLOCK_ROWS + 700;
        let keys: Vec<i64> = (0..rows).map(|row| (row as i64 * 37) % 5000).collect();
        let field = Field::new("a", DataType::Int64, true);
        let column = Column::from_keys(&field, &keys, Some(&valid(rows))).unwrap();
        let again = Column::from_parts(column.to_parts(), DataType::Int64, rows).unwrap();
        assert_eq!((column.zones().len(), column.zones()), (2, again.zones()));
    }

    /// That nothing asked of a column that was opened from such bytes panics, and that its statistics are of its values.
    fn behaves(column: &Column) {
        let present =
            (0..column.rows()).filter(|row| column.value(*row) != crate::value::Value::Null).count();
        assert_eq!(present, column.rows() - column.nulls());
        let (mut least, mut greatest) = (i64::MAX, i64::MIN);
        if let Some(keys) = column.keys() {
            for row in (0..column.rows()).filter(|row| column.value(*row) != crate::value::Value::Null) {
                (least, greatest) = (least.min(keys.get(row)), greatest.max(keys.get(row)));
            }
            let range = (least <= greatest).then_some((least, greatest));
            assert_eq!(column.zones()[0].range, range);
            let counts = column.counts().into_iter().flatten();
            assert!(counts.clone().all(|(key, _)| (least..=greatest).contains(key)));
            assert!(column.counts().is_none() || counts.map(|(_, n)| n).sum::<u64>() == present as u64);
        }
        column.range();
        column.decoded_bytes();
        column.validity_mask(0);
    }

    #[test]
    fn spoilt_parts_are_refused_or_behave() {
        let (mut refused, mut opened) = (0, 0);
        for column in columns(70).into_iter().step_by(13) {
            let parts = column.to_parts();
            let mut check = |parts| match Column::from_parts(parts, column.data_type(), column.rows()) {
                Ok(column) => {
                    opened += 1;
                    behaves(&column);
                }
                Err(error) => {
                    refused += 1;
                    assert_eq!(error.kind(), ErrorKind::Corrupt);
                }
            };
            let spoilt = |bytes: &[u8]| {
                let mut all: Vec<Vec<u8>> = (0..bytes.len()).map(|end| bytes[..end].to_vec()).collect();
                for at in 0..bytes.len() {
                    for fill in [0x00, 0x7F, 0xFF, bytes[at] ^ 1, bytes[at] ^ 0x80] {
                        let mut bytes = bytes.to_vec();
                        bytes[at] = fill;
                        all.push(bytes);
                    }
                }
                all.push([bytes, &[0]].concat());
                all
            };
            for head in spoilt(&parts.head) {
                check(ColumnParts { head, ..parts.clone() });
            }
            for values in spoilt(&parts.values) {
                check(ColumnParts { values: Buffer::from(values), ..parts.clone() });
            }
            for validity in parts.validity.iter().flat_map(|validity| spoilt(validity)) {
                check(ColumnParts { validity: Some(Buffer::from(validity)), ..parts.clone() });
            }
            check(ColumnParts { validity: None, ..parts.clone() });
            check(ColumnParts { validity: Some(parts.values.clone()), ..parts.clone() });
        }
        assert!(refused > 1000 && opened > 100, "{refused} {opened}");
    }
}
