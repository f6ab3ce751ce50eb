//! Attributes of what a column refers to: from its keys to the values that another table has for them.
//!
//! The distinct values are sorted, and a key has the code of its value, in an array where keys lie close together. So
//! a group-by works on codes, and a text is looked at once.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, cast::AsArray};
use hashbrown::{HashMap, hash_map::Entry};

use crate::{
    encoding::CodeMap,
    error::{Error, ErrorKind, Result},
    fragment::{array_of_keys, check_array, push_keys},
    invariant::{Invariant, count, index},
    keys::{self, Native},
    limits::BLOCK_ROWS,
    schema::{DataType, Field, Reference},
    value::Value,
};

/// Keys that span at most this many are places in an array, ...
const DENSE_SPAN: u64 = 1 << 22;
/// ... or at most so many for each key: bytes, or few.
const SPAN_OF_KEY: u64 = 16;

/// The code of keys that no row has, and of those whose value is null; the codes of values come behind.
const ABSENT: u32 = 0;
const NULL: u32 = 1;
const FIRST: u32 = 2;

/// The values of an attribute, by keys of the column that refers to it.
#[derive(Debug)]
pub struct Lookup {
    data_type: DataType,
    values: Distinct,
    codes: Codes,
}

/// Sorted and distinct.
#[derive(Debug)]
enum Distinct {
    Keys(Vec<i64>),
    Texts(Vec<Arc<str>>),
}

#[derive(Debug)]
enum Codes {
    Bytes(Dense<u8>),
    Shorts(Dense<u16>),
    Words(Dense<u32>),
    Hash(HashMap<i64, u32>),
}

/// The codes of all keys from `first` on.
#[derive(Debug)]
struct Dense<C> {
    first: i64,
    codes: Vec<C>,
}

impl<C: Copy + Default + TryFrom<u32> + Into<u32>> Dense<C> {
    fn new(first: i64, span: usize) -> Self {
        Self { first, codes: vec![C::default(); span] }
    }

    #[inline]
    fn place(&self, key: i64) -> usize {
        index(key.wrapping_sub(self.first).cast_unsigned())
    }

    #[inline]
    fn get(&self, key: i64) -> u32 {
        self.codes.get(self.place(key)).map_or(ABSENT, |code| (*code).into())
    }

    /// The keys that have a value, and its place.
    fn values(&self) -> impl Iterator<Item = (i64, u32)> {
        let codes = self.codes.iter().enumerate().map(|(place, code)| (place, (*code).into()));
        codes.filter_map(|(place, code): (usize, u32)| {
            Some((self.first.wrapping_add_unsigned(place as u64), code.checked_sub(FIRST)?))
        })
    }

    /// Sets the code of a key; false when it has one.
    fn set(&mut self, key: i64, code: u32) -> bool {
        let place = self.place(key);
        let code = C::try_from(code).ok().invariant("codes are as wide as the greatest");
        let before = std::mem::replace(&mut self.codes[place], code);
        before.into() == ABSENT
    }
}

impl Codes {
    /// Room for keys from `low` to `high`, `n` of them, and codes below `most`.
    fn new(low: i64, high: i64, n: usize, most: usize) -> Self {
        let distance = high.abs_diff(low);
        match usize::try_from(distance) {
            Ok(span) if distance < DENSE_SPAN.max(SPAN_OF_KEY.saturating_mul(n as u64)) => match most {
                ..=0x100 => Self::Bytes(Dense::new(low, span + 1)),
                0x101..=0x1_0000 => Self::Shorts(Dense::new(low, span + 1)),
                _ => Self::Words(Dense::new(low, span + 1)),
            },
            _ => Self::Hash(HashMap::with_capacity(n)),
        }
    }

    fn set(&mut self, key: i64, code: u32) -> bool {
        match self {
            Self::Bytes(codes) => codes.set(key, code),
            Self::Shorts(codes) => codes.set(key, code),
            Self::Words(codes) => codes.set(key, code),
            Self::Hash(codes) => match codes.entry(key) {
                Entry::Occupied(_) => false,
                Entry::Vacant(entry) => {
                    entry.insert(code);
                    true
                }
            },
        }
    }

    fn get(&self, key: i64) -> u32 {
        match self {
            Self::Bytes(codes) => codes.get(key),
            Self::Shorts(codes) => codes.get(key),
            Self::Words(codes) => codes.get(key),
            Self::Hash(codes) => codes.get(&key).copied().unwrap_or(ABSENT),
        }
    }
}

impl PartialEq for Lookup {
    /// Whether it is the same one.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Lookup {
    /// The lookup of an attribute in rows of two columns: the keys in the column that `reference` names, of
    /// `key_type`, and the values. `column_type` is that of the column that refers to them: keys that it cannot hold
    /// are left out, and null is no key.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidQuery`] when a key stands there twice; [`ErrorKind::TypeMismatch`] or
    /// [`ErrorKind::InvalidBatch`] for other rows than these.
    pub fn new(
        reference: &Reference,
        (column_type, key_type): (DataType, DataType),
        data_type: DataType,
        rows: &[RecordBatch],
    ) -> Result<Self> {
        let fields = [&reference.column, "the attribute"]
            .into_iter()
            .zip([key_type, data_type])
            .map(|(name, data_type)| Field::new(name, data_type, true));
        let fields: Vec<Field> = fields.collect();
        let mut keys = Vec::new();
        let mut values: Vec<ArrayRef> = Vec::new();
        for batch in rows {
            let [key, value] = batch.columns() else {
                return Err(Error::new(ErrorKind::InvalidBatch, "not two columns"));
            };
            check_array(key.as_ref(), &fields[0])?;
            check_array(value.as_ref(), &fields[1])?;
            let mut own = Vec::with_capacity(key.len());
            push_keys(&mut own, key.as_ref());
            let own = own.into_iter().enumerate();
            keys.extend(
                own.map(|(row, k)| key.is_valid(row).then(|| convert(k, key_type, column_type)).flatten()),
            );
            values.push(Arc::clone(value));
        }
        let (distinct, codes_of_rows) = distinct(data_type, &values);
        let there = || keys.iter().copied().flatten();
        let (low, high) =
            there().fold((i64::MAX, i64::MIN), |(low, high), key| (low.min(key), high.max(key)));
        let n = there().count();
        let most = distinct.len() + FIRST as usize;
        let mut codes = if n == 0 { Codes::Hash(HashMap::new()) } else { Codes::new(low, high, n, most) };
        for (key, code) in keys.iter().zip(codes_of_rows) {
            if let Some(key) = key
                && !codes.set(*key, code)
            {
                return Err(twice(reference, Some(&Value::from_key(*key, column_type))));
            }
        }
        Ok(Self { data_type, values: distinct, codes })
    }

    /// The attribute's type.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// What it says, in batches that [`Lookup::new`] takes: a column of the keys, of the type of the column that refers
    /// to them, and one of their values. Keys without a value are left out; of none there is one batch without rows, so that
    /// they arrive where batches travel.
    ///
    /// # Errors
    /// None that a caller could cause.
    pub fn rows(&self, column_type: DataType) -> Result<Vec<RecordBatch>> {
        let pairs: Vec<(i64, u32)> = match &self.codes {
            Codes::Bytes(codes) => codes.values().collect(),
            Codes::Shorts(codes) => codes.values().collect(),
            Codes::Words(codes) => codes.values().collect(),
            Codes::Hash(codes) => {
                let places = codes.iter().filter_map(|(key, code)| Some((*key, code.checked_sub(FIRST)?)));
                let mut pairs: Vec<_> = places.collect();
                pairs.sort_unstable();
                pairs
            }
        };
        let batch = |pairs: &[(i64, u32)]| {
            let keys = array_of_keys(pairs.iter().map(|(key, _)| *key).collect(), None, column_type);
            let places = pairs.iter().map(|(_, place)| *place as usize);
            let values: ArrayRef = match &self.values {
                Distinct::Keys(values) => {
                    array_of_keys(places.map(|place| values[place]).collect(), None, self.data_type)
                }
                Distinct::Texts(texts) => {
                    Arc::new(StringArray::from_iter_values(places.map(|place| &*texts[place])))
                }
            };
            RecordBatch::try_from_iter([("key", keys), ("value", values)])
                .map_err(|e| Error::new(ErrorKind::InvalidBatch, e.to_string()))
        };
        if pairs.is_empty() {
            return Ok(vec![batch(&[])?]);
        }
        pairs.chunks(BLOCK_ROWS).map(batch).collect()
    }

    /// The value of a key.
    pub fn value(&self, key: i64) -> Value {
        let Some(code) = self.codes.get(key).checked_sub(FIRST) else { return Value::Null };
        match &self.values {
            Distinct::Keys(keys) => Value::from_key(keys[code as usize], self.data_type),
            Distinct::Texts(texts) => Value::Text(Arc::clone(&texts[code as usize])),
        }
    }

    /// The sorted texts, when the attribute is one.
    pub(crate) fn texts(&self) -> Option<&[Arc<str>]> {
        match &self.values {
            Distinct::Texts(texts) => Some(texts),
            Distinct::Keys(_) => None,
        }
    }

    /// The least and the greatest of what [`translate`](Self::translate) writes; none without values.
    pub(crate) fn range(&self) -> Option<(i64, i64)> {
        match &self.values {
            Distinct::Keys(keys) => keys.first().copied().zip(keys.last().copied()),
            Distinct::Texts(texts) => Some((0, count(texts.len().checked_sub(1)?).into())),
        }
    }

    /// Puts in place of each key that of its value, or the place of its text among [`texts`](Self::texts); where a key
    /// has no value, something in the [`range`](Self::range), and the row is taken out of `valid`.
    pub(crate) fn translate(&self, keys: &mut [i64], valid: &mut Option<Vec<u64>>) {
        match &self.codes {
            Codes::Bytes(codes) => self.translate_by(keys, valid, |key| codes.get(key)),
            Codes::Shorts(codes) => self.translate_by(keys, valid, |key| codes.get(key)),
            Codes::Words(codes) => self.translate_by(keys, valid, |key| codes.get(key)),
            Codes::Hash(_) => self.translate_by(keys, valid, |key| self.codes.get(key)),
        }
    }

    #[inline]
    fn translate_by(&self, keys: &mut [i64], valid: &mut Option<Vec<u64>>, code: impl Fn(i64) -> u32) {
        let mut all = true;
        let rows = keys.len();
        let mut words = Vec::with_capacity(rows.div_ceil(64));
        for chunk in keys.chunks_mut(64) {
            let mut word = 0;
            for (row, key) in chunk.iter_mut().enumerate() {
                let found = code(*key);
                word |= u64::from(found >= FIRST) << row;
                *key = i64::from(found.saturating_sub(FIRST));
            }
            all &= word == u64::MAX >> (64 - chunk.len());
            words.push(word);
        }
        if let Distinct::Keys(values) = &self.values {
            match values.as_slice() {
                // No key has a value.
                [] => keys.fill(0),
                values => keys.iter_mut().for_each(|key| *key = values[index(key.cast_unsigned())]),
            }
        }
        if !all {
            match valid {
                Some(valid) => basalt_kernels::mask::and(valid, &words),
                None => *valid = Some(words),
            }
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let values = match &self.values {
            Distinct::Keys(keys) => size_of_val(keys.as_slice()),
            Distinct::Texts(texts) => texts.iter().map(|text| text.len() + 32).sum(),
        };
        values
            + match &self.codes {
                Codes::Bytes(dense) => dense.codes.len(),
                Codes::Shorts(dense) => 2 * dense.codes.len(),
                Codes::Words(dense) => 4 * dense.codes.len(),
                Codes::Hash(table) => table.allocation_size(),
            }
    }
}

/// The error of a key that is not the key of one row.
pub(crate) fn twice(reference: &Reference, key: Option<&Value>) -> Error {
    let shown = key.map_or_else(
        || "a value".to_owned(),
        |key| std::fmt::from_fn(|f| crate::plan::expr::fmt_value(f, key)).to_string(),
    );
    let message = format!("a reference needs {reference} to be a key: {shown} stands there twice");
    Error::new(ErrorKind::InvalidQuery, message)
}

/// A key of one type as a key of another that it goes with; none where that cannot hold it.
fn convert(key: i64, from: DataType, to: DataType) -> Option<i64> {
    let key = match (from == DataType::UInt64, to == DataType::UInt64) {
        (false, true) => u64::try_from(key).ok().map(keys::of_u64)?,
        (true, false) => i64::try_from(keys::to_u64(key)).ok()?,
        _ => key,
    };
    let native = match to {
        DataType::Int8 => Native::I8,
        DataType::Int16 => Native::I16,
        DataType::Int32 => Native::I32,
        DataType::UInt8 => Native::U8,
        DataType::UInt16 => Native::U16,
        DataType::UInt32 => Native::U32,
        _ => return Some(key),
    };
    let (least, greatest) = native.key_range();
    (least..=greatest).contains(&key).then_some(key)
}

impl Distinct {
    fn len(&self) -> usize {
        match self {
            Self::Keys(keys) => keys.len(),
            Self::Texts(texts) => texts.len(),
        }
    }
}

/// The distinct values of arrays, and the code of each row.
fn distinct(data_type: DataType, arrays: &[ArrayRef]) -> (Distinct, Vec<u32>) {
    let valid = || arrays.iter().flat_map(|array| (0..array.len()).map(|row| array.is_valid(row)));
    let with_nulls =
        |codes: Vec<u32>| codes.into_iter().zip(valid()).map(|(code, v)| if v { code } else { NULL });
    if data_type != DataType::Utf8 {
        let mut keys = Vec::new();
        arrays.iter().for_each(|array| push_keys(&mut keys, array.as_ref()));
        let mut values: Vec<i64> =
            keys.iter().zip(valid()).filter_map(|(key, v)| v.then_some(*key)).collect();
        values.sort_unstable();
        values.dedup();
        // What stands under a null is any key.
        let Some(&known) = values.first() else { return (Distinct::Keys(values), vec![NULL; keys.len()]) };
        keys.iter_mut().zip(valid()).filter(|(_, v)| !v).for_each(|(key, _)| *key = known);
        let codes = CodeMap::new(&values).codes(&keys, |code| code + FIRST);
        return (Distinct::Keys(values), with_nulls(codes).collect());
    }
    let texts =
        // Default: any text will do under a null.
        || arrays.iter().flat_map(|array| array.as_string::<i32>().iter().map(Option::unwrap_or_default));
    let mut ids: HashMap<&str, u32> = HashMap::new();
    let mut firsts: Vec<&str> = Vec::new();
    let mut of_rows = Vec::new();
    let mut last: Option<(&str, u32)> = None;
    for (text, v) in texts().zip(valid()) {
        // Equal texts often follow each other.
        let id = match last {
            Some((before, id)) if before == text => id,
            _ if !v => 0,
            _ => *ids.entry(text).or_insert_with(|| {
                firsts.push(text);
                count(firsts.len() - 1)
            }),
        };
        if v {
            last = Some((text, id));
        }
        of_rows.push(id);
    }
    let mut sorted: Vec<u32> = (0..count(firsts.len())).collect();
    sorted.sort_unstable_by_key(|id| firsts[*id as usize]);
    let mut codes = vec![FIRST; firsts.len().max(1)];
    for (code, id) in (FIRST..).zip(&sorted) {
        codes[*id as usize] = code;
    }
    let of_rows = of_rows.into_iter().map(|id| codes[id as usize]).collect();
    let values = sorted.iter().map(|id| Arc::from(firsts[*id as usize])).collect();
    (Distinct::Texts(values), with_nulls(of_rows).collect())
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int32Array, Int64Array, StringArray, UInt64Array};

    use super::*;

    fn reference() -> Reference {
        Reference { table: "t".to_owned(), column: "k".to_owned() }
    }

    fn rows(keys: ArrayRef, values: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable([("k", keys, true), ("v", values, true)]).unwrap()
    }

    #[test]
    fn texts_dense_and_scattered() {
        for factor in [1, 1 << 40] {
            let keys =
                [Some(5), Some(-3), None, Some(8), Some(6)].map(|k: Option<i64>| k.map(|k| k * factor));
            let texts = [Some("b"), Some("a"), Some("x"), None, Some("b")];
            let batch =
                rows(Arc::new(Int64Array::from(keys.to_vec())), Arc::new(StringArray::from(texts.to_vec())));
            let types = (DataType::Int64, DataType::Int64);
            let lookup = Lookup::new(&reference(), types, DataType::Utf8, &[batch]).unwrap();
            assert_eq!(matches!(lookup.codes, Codes::Hash(_)), factor > 1);
            assert_eq!(lookup.value(5 * factor), Value::Text("b".into()));
            assert_eq!(lookup.value(8 * factor), Value::Null);
            assert_eq!(lookup.value(7 * factor), Value::Null);

            let (mut keys, mut valid) = ([-3, 5, 6, 7, 8].map(|k| k * factor), Some(vec![0b1_1101]));
            lookup.translate(&mut keys, &mut valid);
            let found: Vec<_> =
                keys[..3].iter().map(|k| &*lookup.texts().unwrap()[usize::try_from(*k).unwrap()]).collect();
            assert_eq!(found, ["a", "b", "b"]);
            assert_eq!(valid, Some(vec![0b0_0101]));

            let rows = lookup.rows(DataType::Int64).unwrap();
            let again = Lookup::new(&reference(), types, DataType::Utf8, &rows).unwrap();
            for key in -5..10 {
                assert_eq!(again.value(key * factor), lookup.value(key * factor));
            }
            assert_eq!(lookup.range(), Some((0, 2)));
        }
    }

    #[test]
    fn keys_of_other_types() {
        let batch =
            rows(Arc::new(UInt64Array::from(vec![7, u64::MAX])), Arc::new(Int32Array::from(vec![-70, 900])));
        let new = |column| {
            Lookup::new(
                &reference(),
                (column, DataType::UInt64),
                DataType::Int32,
                std::slice::from_ref(&batch),
            )
            .unwrap()
        };
        assert_eq!(new(DataType::Int8).value(7), Value::Int(-70));
        assert_eq!(new(DataType::Int64).value(-1), Value::Null);
        assert_eq!(new(DataType::UInt64).value(keys::of_u64(u64::MAX)), Value::Int(900));
        assert_eq!(new(DataType::UInt64).range(), Some((-70, 900)));
    }

    #[test]
    fn keys_that_the_column_cannot_hold_are_left_out() {
        let keys = vec![1, 257, 3, -1, 1 << 40];
        let batch =
            rows(Arc::new(Int64Array::from(keys)), Arc::new(Int32Array::from(vec![10, 20, 30, 40, 50])));
        for (column, kept) in [(DataType::UInt8, 2), (DataType::Int8, 3), (DataType::Int32, 4)] {
            let types = (column, DataType::Int64);
            let lookup =
                Lookup::new(&reference(), types, DataType::Int32, std::slice::from_ref(&batch)).unwrap();
            assert_eq!(lookup.value(1), Value::Int(10), "{column}");
            assert_eq!(lookup.rows(column).unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), kept);
        }
    }

    #[test]
    fn what_is_refused() {
        let check = |keys: ArrayRef, data_type, message: &str| {
            let values: ArrayRef = Arc::new(Int32Array::from(vec![1; keys.len()]));
            let types = (DataType::Int64, DataType::Int64);
            let error = Lookup::new(&reference(), types, data_type, &[rows(keys, values)]).unwrap_err();
            assert_eq!(error.message(), message);
        };
        check(
            Arc::new(Int64Array::from(vec![4, 9, 4])),
            DataType::Int32,
            "a reference needs t.k to be a key: 4 stands there twice",
        );
        let mismatch = "column \"the attribute\" is utf8, not Int32";
        check(Arc::new(Int64Array::from(vec![4])), DataType::Utf8, mismatch);
        check(Arc::new(Int32Array::from(vec![4])), DataType::Int32, "column \"k\" is int64, not Int32");
    }
}
