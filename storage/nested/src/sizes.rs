//! What JSON texts may take, found out before one of them is made.

use arrow_array::{Array, cast::AsArray as _, make_array};
use arrow_schema::DataType;

use super::{MAX_DEPTH, elements};

/// What stands around a value: quotes or brackets, and a comma.
const AROUND: usize = 3;
/// What stands around the name of a field: quotes and a colon; and around a key that is no text.
const AROUND_NAME: usize = 3;

/// The bytes that the JSON texts of an array take at most, about: a text of a dictionary counts as often as it is named. It is
/// counted no further than to more than `most`.
pub fn json_bytes(array: &dyn Array, most: usize) -> usize {
    let mut counted = Counted { bytes: 0, most };
    counted.take_in(array, MAX_DEPTH);
    counted.bytes
}

struct Counted {
    bytes: usize,
    most: usize,
}

impl Counted {
    fn is_full(&self) -> bool {
        self.bytes > self.most
    }

    fn add(&mut self, values: usize, each: usize) {
        self.bytes = self.bytes.saturating_add(values.saturating_mul(each));
    }

    fn take_in(&mut self, array: &dyn Array, depth: usize) {
        use DataType as T;
        // What nests deeper has no texts.
        let Some(depth) = depth.checked_sub(1) else { return };
        let rows = array.len();
        self.add(rows, AROUND);
        if self.is_full() {
            return;
        }
        match array.data_type() {
            T::Utf8 => self.texts(array.as_string::<i32>().iter()),
            T::LargeUtf8 => self.texts(array.as_string::<i64>().iter()),
            T::Utf8View => self.texts(array.as_string_view().iter()),
            T::Binary => self.digits(array.as_binary::<i32>().iter()),
            T::LargeBinary => self.digits(array.as_binary::<i64>().iter()),
            T::BinaryView => self.digits(array.as_binary_view().iter()),
            T::FixedSizeBinary(_) => self.digits(array.as_fixed_size_binary().iter()),
            T::List(_) => {
                let list = array.as_list::<i32>();
                self.take_in(&elements(list.values(), list.value_offsets()), depth);
            }
            T::LargeList(_) => {
                let list = array.as_list::<i64>();
                self.take_in(&elements(list.values(), list.value_offsets()), depth);
            }
            T::FixedSizeList(..) => self.take_in(array.as_fixed_size_list().values(), depth),
            T::ListView(_) => {
                let list = array.as_list_view::<i32>();
                self.each(rows, |counted, row| counted.take_in(&list.value(row), depth));
            }
            T::LargeListView(_) => {
                let list = array.as_list_view::<i64>();
                self.each(rows, |counted, row| counted.take_in(&list.value(row), depth));
            }
            T::Struct(fields) => {
                for (field, column) in fields.iter().zip(array.as_struct().columns()) {
                    self.add(rows, AROUND_NAME + escaped(field.name()));
                    self.take_in(column, depth);
                }
            }
            T::Map(..) => {
                let map = array.as_map();
                for values in [map.keys(), map.values()] {
                    let values = elements(values, map.value_offsets());
                    self.add(values.len(), AROUND_NAME);
                    self.take_in(&values, depth);
                }
            }
            T::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let values = dictionary.values();
                if values.is_empty() {
                    return;
                }
                let keys = dictionary.normalized_keys();
                self.each(rows, |counted, row| {
                    if array.is_valid(row) {
                        counted.take_in(&values.slice(keys[row], 1), depth);
                    }
                });
            }
            // Each of them may be the longest.
            T::RunEndEncoded(..) => {
                let data = array.to_data();
                if let Some(values) = data.child_data().get(1) {
                    let each = json_bytes(&make_array(values.clone()), self.most);
                    self.add(rows, each);
                }
            }
            other => self.add(rows, longest(other)),
        }
    }

    /// Takes in what each row has, until it is enough.
    fn each(&mut self, rows: usize, take_in: impl Fn(&mut Self, usize)) {
        for row in 0..rows {
            if self.is_full() {
                return;
            }
            take_in(self, row);
        }
    }

    fn texts<'a>(&mut self, texts: impl Iterator<Item = Option<&'a str>>) {
        for text in texts.flatten() {
            if self.is_full() {
                return;
            }
            self.add(1, escaped(text));
        }
    }

    fn digits<'a>(&mut self, values: impl Iterator<Item = Option<&'a [u8]>>) {
        for bytes in values.flatten() {
            self.add(2, bytes.len());
        }
    }
}

/// Bytes of a text as JSON has it, without quotes.
fn escaped(text: &str) -> usize {
    let of = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..=31 => 6,
        _ => 1,
    };
    text.bytes().map(of).sum()
}

/// Bytes of the longest value of a type whose values have nothing inside.
fn longest(data_type: &DataType) -> usize {
    use DataType as T;
    match data_type {
        T::Null | T::Boolean => 5,
        T::Int8 | T::UInt8 => 4,
        T::Int16 | T::UInt16 => 6,
        T::Int32 | T::UInt32 => 11,
        T::Int64 | T::UInt64 => 20,
        T::Float16 | T::Float32 | T::Float64 => 25,
        T::Date32 | T::Date64 | T::Time32(_) | T::Time64(_) | T::Timestamp(..) => 36,
        // Decimals of 76 digits, and intervals in words.
        _ => 128,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, DictionaryArray, FixedSizeListArray, Float64Array, Int64Array, StringArray, StructArray,
        builder::{Int32Builder, MapBuilder, StringBuilder},
        types::Int8Type,
    };
    use arrow_schema::Field;

    use super::*;
    use crate::{MAX_BYTES, to_json, to_json_within};

    fn lists(values: ArrayRef, each: i32) -> FixedSizeListArray {
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        FixedSizeListArray::new(field, each, values, None)
    }

    #[track_caller]
    fn check(array: &dyn Array) {
        let texts = to_json(array).unwrap();
        let bytes: usize = texts.iter().flatten().map(str::len).sum();
        let counted = json_bytes(array, MAX_BYTES);
        assert!(bytes <= counted, "{bytes} of {counted}: {texts:?}");
    }

    #[test]
    fn no_text_is_longer_than_was_counted() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![
            Some("a\"b\\c\u{1}\u{8}\n"),
            None,
            Some(""),
            Some("\u{7f}\u{e4}"),
        ]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(0), Some(7)]));
        let floats: ArrayRef =
            Arc::new(Float64Array::from(vec![f64::NAN, -f64::MIN_POSITIVE, 0.1, f64::MIN]));
        for values in [texts, numbers, floats] {
            check(&lists(Arc::clone(&values), 2));
            check(&lists(Arc::clone(&values), 2).slice(1, 1));
            check(&StructArray::from(vec![(
                Arc::new(Field::new("n \"x\"", values.data_type().clone(), true)),
                values,
            )]));
        }
        let mut map = MapBuilder::new(None, Int32Builder::new(), StringBuilder::new());
        map.keys().append_value(i32::MIN);
        map.values().append_value("x");
        map.append(true).unwrap();
        check(&map.finish());
    }

    #[test]
    fn what_a_dictionary_names_is_counted_as_often() {
        let long = "x".repeat(1000);
        let names: DictionaryArray<Int8Type> = std::iter::repeat_n(Some(long.as_str()), 64).collect();
        let lists = lists(Arc::new(names), 32);
        check(&lists);
        assert!(json_bytes(&lists, MAX_BYTES) > 64_000);
        // It is counted no further than is asked for, and not made.
        assert!((10_001..12_000).contains(&json_bytes(&lists, 10_000)));
        let error = to_json_within(&lists, 1 << 20, 60_000).unwrap_err().to_string();
        assert!(error.contains("take more than"), "{error}");
        let error = to_json_within(&lists, 1 << 10, 1 << 20).unwrap_err().to_string();
        assert!(error.contains("more than 1024 bytes"), "{error}");
        assert_eq!(to_json_within(&lists, 1 << 20, 1 << 20).unwrap(), to_json(&lists).unwrap());
    }
}
