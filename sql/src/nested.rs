//! Lists, structs and maps as text, in the form that DuckDB gives them: `[1, NULL]`, `{'a': 1}`, `{k=1}`; a struct whose
//! fields were not named is `(1, 2)`.

use std::fmt::Write as _;

use arrow_array::{
    Array as _, ArrayRef, StringArray,
    cast::AsArray as _,
    types::{Float32Type, Float64Type},
};
use arrow_schema::{DataType, Fields};
use datafusion::{
    arrow::{buffer::NullBuffer, compute::cast},
    common::Result,
};

use crate::{functions, lists};

/// Whether values of a type have values of their own.
pub(crate) fn is_nested(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::Struct(_)
            | DataType::Map(..)
    )
}

/// Values as text.
pub(crate) fn texts(array: &ArrayRef) -> Result<StringArray> {
    let values = Values::new(array)?;
    let text = |row: usize| {
        let mut text = String::new();
        array.is_valid(row).then(|| {
            values.write(row, false, &mut text);
            text
        })
    };
    Ok((0..array.len()).map(text).collect())
}

/// What is written of an array.
enum Values {
    Leaf(StringArray),
    List {
        spans: Vec<std::ops::Range<usize>>,
        nulls: Option<NullBuffer>,
        values: Box<Values>,
    },
    Struct {
        fields: Fields,
        nulls: Option<NullBuffer>,
        columns: Vec<Values>,
    },
    Map {
        spans: Vec<std::ops::Range<usize>>,
        nulls: Option<NullBuffer>,
        keys: Box<Values>,
        values: Box<Values>,
    },
}

fn spans(offsets: &[i32]) -> Vec<std::ops::Range<usize>> {
    // Default: none; offsets are not negative.
    let at = |offset: i32| usize::try_from(offset).unwrap_or_default();
    offsets.windows(2).map(|pair| at(pair[0])..at(pair[1])).collect()
}

impl Values {
    fn new(array: &ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                let list = lists::as_list(array)?;
                let values = Box::new(Self::new(list.values())?);
                Self::List { spans: spans(list.value_offsets()), nulls: list.nulls().cloned(), values }
            }
            DataType::Struct(fields) => {
                let of = array.as_struct();
                let columns = of.columns().iter().map(Self::new).collect::<Result<_>>()?;
                Self::Struct { fields: fields.clone(), nulls: of.nulls().cloned(), columns }
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let (keys, values) = (Self::new(map.keys())?, Self::new(map.values())?);
                Self::Map {
                    spans: spans(map.value_offsets()),
                    nulls: map.nulls().cloned(),
                    keys: Box::new(keys),
                    values: Box::new(values),
                }
            }
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>().iter();
                Self::Leaf(values.map(|value| value.map(|value| float(format!("{value:?}")))).collect())
            }
            DataType::Float32 => {
                let values = array.as_primitive::<Float32Type>().iter();
                Self::Leaf(values.map(|value| value.map(|value| float(format!("{value:?}")))).collect())
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                let bytes = cast(array, &DataType::Binary)?;
                let texts = bytes.as_binary::<i32>().iter().map(|value| value.map(escaped));
                Self::Leaf(texts.collect())
            }
            _ => Self::Leaf(functions::texts(array)?),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Leaf(texts) => texts.is_null(row),
            Self::List { nulls, .. } | Self::Struct { nulls, .. } | Self::Map { nulls, .. } => {
                nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
            }
        }
    }

    fn write(&self, row: usize, within: bool, text: &mut String) {
        if self.is_null(row) {
            text.push_str("NULL");
            return;
        }
        match self {
            Self::Leaf(texts) if within && is_quoted(texts.value(row)) => {
                let value = texts.value(row).replace('\\', "\\\\").replace('\'', "\\'");
                let _ = write!(text, "'{value}'");
            }
            Self::Leaf(texts) => text.push_str(texts.value(row)),
            Self::List { spans, values, .. } => {
                text.push('[');
                for (number, at) in spans[row].clone().enumerate() {
                    text.push_str(if number > 0 { ", " } else { "" });
                    values.write(at, true, text);
                }
                text.push(']');
            }
            Self::Struct { fields, columns, .. } => {
                let unnamed = fields.iter().enumerate().all(|(at, field)| *field.name() == format!("c{at}"));
                text.push(if unnamed { '(' } else { '{' });
                for (number, (field, column)) in fields.iter().zip(columns).enumerate() {
                    text.push_str(if number > 0 { ", " } else { "" });
                    if !unnamed {
                        let _ = write!(text, "'{}': ", field.name().replace('\'', "\\'"));
                    }
                    column.write(row, true, text);
                }
                text.push_str(match (unnamed, fields.len()) {
                    (true, 1) => ",)",
                    (true, _) => ")",
                    (false, _) => "}",
                });
            }
            Self::Map { spans, keys, values, .. } => {
                text.push('{');
                for (number, at) in spans[row].clone().enumerate() {
                    text.push_str(if number > 0 { ", " } else { "" });
                    keys.write(at, true, text);
                    text.push('=');
                    values.write(at, true, text);
                }
                text.push('}');
            }
        }
    }
}

/// Whether a text has to be told from what stands around it.
fn is_quoted(text: &str) -> bool {
    text.is_empty()
        || text.eq_ignore_ascii_case("null")
        || text.trim() != text
        || text.contains(['[', ']', '(', ')', '{', '}', ',', ':', '=', '\'', '"'])
}

/// With a sign and two digits in its exponent.
fn float(text: String) -> String {
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text.to_lowercase(),
    }
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' | b'\'' | b'"' | 0..=31 | 127..=255 => {
                let _ = write!(text, "\\x{byte:02X}");
            }
            byte => text.push(char::from(*byte)),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn floats_and_binary_are_written_as_people_read_them() {
        assert_eq!(float("1.0".to_owned()), "1.0");
        assert_eq!(float("1e20".to_owned()), "1e+20");
        assert_eq!(float("1.5e-7".to_owned()), "1.5e-07");
        assert_eq!(escaped(b"a\\\x00b"), "a\\x5C\\x00b");
        assert!(is_quoted("") && is_quoted("a b ") && is_quoted("Null") && !is_quoted("a b"));
        let strings: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
        assert_eq!(texts(&strings).unwrap().value(0), "x");
    }
}
