//! Lists, structs and maps of Arrow as JSON text: how a column of text holds them.
//!
//! Not `arrow-json`: that one writes NaN as null, and takes no map whose keys are not texts and no time in a zone that
//! it does not know.
//!
//! | value | JSON |
//! |---|---|
//! | null | `null` |
//! | bool, integer, decimal | as it is, every digit |
//! | float | the shortest number that reads back as it; `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | text | a string |
//! | binary | a string of hexadecimal digits |
//! | date, time, timestamp and others | a string, ISO 8601; timestamps with a zone in UTC |
//! | list | an array |
//! | struct | an object, every field in the type's order |
//! | map | an object, entries in the map's order; a key that is no text is the text of its JSON |
//!
//! [`csv`] splits the records of CSV, for every door through which rows come, and [`guess`] says of which type a column of texts is.
//! With the feature `parquet`, `parquet` checks files of that format before they are decoded.
//!
//! There are no spaces in JSON. What a text takes is bounded: a batch of more than [`MAX_BYTES`] of them is an error, as is a
//! type that nests deeper than [`MAX_DEPTH`]. Whoever takes less asks [`to_json_within`], and [`json_bytes`] before that.

pub mod csv;
pub mod guess;
#[cfg(feature = "parquet")]
pub mod parquet;
mod sizes;
mod texts;
mod times;

pub use sizes::json_bytes;
pub use texts::{Misfit, Texts, all_with_seconds, says_infinity, with_seconds};
pub use times::nanos_to_micros;

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, LargeBinaryArray, LargeListArray, LargeStringArray, OffsetSizeTrait,
    StringArray,
    builder::StringBuilder,
    cast::AsArray as _,
    types::{Float16Type, Float32Type, Float64Type},
};
use arrow_cast::{
    CastOptions, cast_with_options,
    display::{ArrayFormatter, FormatOptions},
};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};

/// How deep a type may nest.
pub const MAX_DEPTH: usize = 64;
/// What the texts of a batch may take.
pub const MAX_BYTES: usize = 1 << 30;
/// Elements of lists that share their values, which a few bytes can have without end.
const MAX_SHARED: usize = 1 << 26;

/// Whether a type is held as JSON text.
pub fn is_nested(data_type: &DataType) -> bool {
    use DataType as T;
    match data_type {
        T::List(_)
        | T::LargeList(_)
        | T::FixedSizeList(..)
        | T::ListView(_)
        | T::LargeListView(_)
        | T::Struct(_)
        | T::Map(..) => true,
        T::Dictionary(_, values) => is_nested(values),
        T::RunEndEncoded(_, values) => is_nested(values.data_type()),
        _ => false,
    }
}

/// Each value of an array as JSON; null where it is null.
///
/// # Errors
/// [`ArrowError`] for a type that has no text, for one that nests too deeply, and where the texts take too much.
pub fn to_json(array: &dyn Array) -> Result<StringArray, ArrowError> {
    written(array, MAX_BYTES)
}

/// The same, where a text has no more than `each` bytes; of what may take more than `all` nothing is made.
///
/// # Errors
/// As [`to_json`].
pub fn to_json_within(array: &dyn Array, each: usize, all: usize) -> Result<StringArray, ArrowError> {
    if json_bytes(array, all) > all {
        return Err(too_large(all));
    }
    written(array, each)
}

/// The texts, none of which has more than `most` bytes.
fn written(array: &dyn Array, most: usize) -> Result<StringArray, ArrowError> {
    let options = FormatOptions::default().with_display_error(false);
    let plain = plain(array, MAX_DEPTH)?;
    let node = Node::new(&plain, &options)?;
    let mut texts = StringBuilder::new();
    let (mut text, mut bytes) = (String::new(), 0);
    for row in 0..plain.array.len() {
        if plain.array.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        node.write(row, &mut text, most)?;
        bytes += text.len();
        if bytes > MAX_BYTES {
            return Err(too_large(MAX_BYTES));
        }
        if text.len() > most {
            return Err(too_long(most));
        }
        texts.append_value(&text);
    }
    Ok(texts.finish())
}

fn too_large(most: usize) -> ArrowError {
    let message = format!("as JSON text the values of a batch take more than {} MiB", most >> 20);
    ArrowError::InvalidArgumentError(message)
}

fn too_long(most: usize) -> ArrowError {
    if most >= MAX_BYTES {
        return too_large(most);
    }
    ArrowError::InvalidArgumentError(format!("as JSON text a value takes more than {most} bytes, the limit"))
}

/// The elements that the rows of an array have: it may be a part of a larger one.
fn elements<O: OffsetSizeTrait>(values: &ArrayRef, offsets: &[O]) -> ArrayRef {
    match offsets {
        [first, .., last] => {
            let (first, last) = (first.as_usize(), last.as_usize());
            values.slice(first, last - first)
        }
        _ => values.slice(0, 0),
    }
}

/// An array whose type is one of few, and those below it.
struct Plain {
    array: ArrayRef,
    children: Vec<Plain>,
}

/// Brings all texts, all binaries and all lists to one type each, and undoes dictionaries and runs.
fn plain(array: &dyn Array, depth: usize) -> Result<Plain, ArrowError> {
    use DataType as T;
    let depth = depth.checked_sub(1).ok_or_else(|| {
        ArrowError::InvalidArgumentError(format!("the type nests deeper than {MAX_DEPTH} levels"))
    })?;
    let large_list = |field: &FieldRef| T::LargeList(Arc::clone(field));
    let to = match array.data_type() {
        T::Utf8 | T::Utf8View => Some(T::LargeUtf8),
        T::Binary | T::BinaryView | T::FixedSizeBinary(_) => Some(T::LargeBinary),
        T::List(field) | T::FixedSizeList(field, _) => Some(large_list(field)),
        T::ListView(field) => {
            check_shared(array.as_list_view::<i32>().sizes().iter().map(|size| i64::from(*size)))?;
            Some(large_list(field))
        }
        T::LargeListView(field) => {
            check_shared(array.as_list_view::<i64>().sizes().iter().copied())?;
            Some(large_list(field))
        }
        T::Dictionary(_, values) => Some(values.as_ref().clone()),
        T::RunEndEncoded(_, values) => Some(values.data_type().clone()),
        // Its number is an instant; the zone's name would be looked up in a database that need not be there.
        T::Timestamp(unit, Some(zone)) if zone.as_ref() != "+00:00" => {
            let data = array.to_data().into_builder().data_type(T::Timestamp(*unit, Some("+00:00".into())));
            return Ok(Plain { array: arrow_array::make_array(data.build()?), children: Vec::new() });
        }
        _ => None,
    };
    if let Some(to) = to {
        let array = cast_with_options(array, &to, &CastOptions { safe: false, ..Default::default() })?;
        let children = match array.as_list_opt::<i64>() {
            Some(list) => vec![plain(&elements(list.values(), list.value_offsets()), depth)?],
            // A dictionary's values may be of any type.
            None if !matches!(to, T::LargeUtf8 | T::LargeBinary) => return plain(&array, depth),
            None => Vec::new(),
        };
        return Ok(Plain { array, children });
    }
    let children = match array.data_type() {
        T::LargeList(_) => {
            let list = array.as_list::<i64>();
            vec![plain(&elements(list.values(), list.value_offsets()), depth)?]
        }
        T::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            columns.map(|column| plain(column, depth)).collect::<Result<_, _>>()?
        }
        T::Map(..) => {
            let map = array.as_map();
            let part = |values| plain(&elements(values, map.value_offsets()), depth);
            vec![part(map.keys())?, part(map.values())?]
        }
        _ => Vec::new(),
    };
    Ok(Plain { array: arrow_array::make_array(array.to_data()), children })
}

fn check_shared(sizes: impl Iterator<Item = i64>) -> Result<(), ArrowError> {
    let elements = sizes.fold(0_usize, |sum, size| sum.saturating_add(usize::try_from(size).unwrap_or(0)));
    if elements > MAX_SHARED { Err(too_large(MAX_BYTES)) } else { Ok(()) }
}

/// How the values of an array are written.
enum Node<'a> {
    Null,
    Bool(&'a BooleanArray),
    /// Digits.
    Number(ArrayFormatter<'a>),
    /// A float, where it is one of those that JSON has.
    Float(ArrayFormatter<'a>, &'a dyn Array),
    Text(&'a LargeStringArray),
    Bytes(&'a LargeBinaryArray),
    Quoted(ArrayFormatter<'a>),
    List(&'a LargeListArray, Box<Child<'a>>),
    /// The fields with their names as JSON.
    Struct(Vec<(String, Child<'a>)>),
    Map(&'a arrow_array::MapArray, Box<(Child<'a>, Child<'a>)>),
}

struct Child<'a> {
    array: &'a dyn Array,
    node: Node<'a>,
}

impl<'a> Child<'a> {
    fn new(plain: &'a Plain, options: &FormatOptions<'a>) -> Result<Self, ArrowError> {
        Ok(Self { array: &plain.array, node: Node::new(plain, options)? })
    }

    fn write(&self, row: usize, out: &mut String, most: usize) -> Result<(), ArrowError> {
        if out.len() > most {
            return Err(too_long(most));
        }
        if self.array.is_null(row) {
            out.push_str("null");
            return Ok(());
        }
        self.node.write(row, out, most)
    }
}

impl<'a> Node<'a> {
    fn new(plain: &'a Plain, options: &FormatOptions<'a>) -> Result<Self, ArrowError> {
        use DataType as T;
        let array: &'a dyn Array = &plain.array;
        let formatter = || ArrayFormatter::try_new(array, options);
        let child = |i: usize| Child::new(&plain.children[i], options);
        Ok(match array.data_type() {
            T::Null => Self::Null,
            T::Boolean => Self::Bool(array.as_boolean()),
            T::Float16 | T::Float32 | T::Float64 => Self::Float(formatter()?, array),
            t if t.is_integer() || t.is_decimal() => Self::Number(formatter()?),
            T::LargeUtf8 => Self::Text(array.as_string()),
            T::LargeBinary => Self::Bytes(array.as_binary()),
            T::LargeList(_) => Self::List(array.as_list(), Box::new(child(0)?)),
            T::Struct(fields) => {
                let name = |field: &Field| serde_json::Value::from(field.name().as_str()).to_string();
                let fields = fields.iter().enumerate().map(|(i, field)| Ok((name(field), child(i)?)));
                Self::Struct(fields.collect::<Result<_, ArrowError>>()?)
            }
            T::Map(..) => Self::Map(array.as_map(), Box::new((child(0)?, child(1)?))),
            _ => Self::Quoted(formatter()?),
        })
    }

    /// Writes a value that is not null, and gives up where there are more than `most` bytes.
    fn write(&self, row: usize, out: &mut String, most: usize) -> Result<(), ArrowError> {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(values) => out.push_str(if values.value(row) { "true" } else { "false" }),
            Self::Number(values) => out.push_str(&values.value(row).try_to_string()?),
            Self::Float(values, array) => match float(*array, row) {
                f if f.is_finite() => out.push_str(&values.value(row).try_to_string()?),
                f if f.is_nan() => out.push_str("\"NaN\""),
                f => out.push_str(if f > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" }),
            },
            Self::Text(values) => quote(values.value(row), out),
            Self::Bytes(values) => {
                out.push('"');
                for byte in values.value(row) {
                    out.extend(
                        [byte >> 4, byte & 15]
                            .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])),
                    );
                }
                out.push('"');
            }
            Self::Quoted(values) => quote(&values.value(row).try_to_string()?, out),
            Self::List(list, child) => {
                let offsets = list.value_offsets();
                let (first, start, end) = (offsets[0], offsets[row], offsets[row + 1]);
                out.push('[');
                for (i, at) in range(start - first, end - first).enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    child.write(at, out, most)?;
                }
                out.push(']');
            }
            Self::Struct(fields) => {
                out.push('{');
                for (i, (name, child)) in fields.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    out.push_str(name);
                    out.push(':');
                    child.write(row, out, most)?;
                }
                out.push('}');
            }
            Self::Map(map, children) => {
                let (keys, values) = children.as_ref();
                let offsets = map.value_offsets();
                let (first, start, end) = (offsets[0], offsets[row], offsets[row + 1]);
                out.push('{');
                for (i, at) in range((start - first).into(), (end - first).into()).enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    let mut key = String::new();
                    keys.write(at, &mut key, most)?;
                    if key.starts_with('"') {
                        out.push_str(&key)
                    } else {
                        quote(&key, out)
                    }
                    out.push(':');
                    values.write(at, out, most)?;
                }
                out.push('}');
            }
        }
        Ok(())
    }
}

/// Offsets that Arrow has checked.
fn range(start: i64, end: i64) -> std::ops::Range<usize> {
    usize::try_from(start).unwrap_or(0)..usize::try_from(end).unwrap_or(0)
}

fn float(array: &dyn Array, row: usize) -> f64 {
    match array.data_type() {
        DataType::Float16 => array.as_primitive::<Float16Type>().value(row).to_f64(),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).into(),
        _ => array.as_primitive::<Float64Type>().value(row),
    }
}

fn quote(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        BinaryArray, Decimal128Array, Float64Array, Int32Array, Int64Array, ListViewArray, MapArray,
        StructArray, TimestampMicrosecondArray,
        builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder},
        types::Int32Type,
    };
    use arrow_schema::Fields;

    use super::*;

    #[track_caller]
    fn check(array: &dyn Array, expected: &[Option<&str>]) {
        assert!(is_nested(array.data_type()), "{}", array.data_type());
        let texts = to_json(array).unwrap();
        assert_eq!(texts.iter().collect::<Vec<_>>(), expected);
        for text in expected.iter().flatten() {
            serde_json::from_str::<serde_json::Value>(text).unwrap();
        }
    }

    fn of_one(name: &str, array: ArrayRef) -> StructArray {
        let fields = Fields::from(vec![Field::new(name, array.data_type().clone(), true)]);
        StructArray::new(fields, vec![array], None)
    }

    #[test]
    fn lists_maps_and_structs() {
        let mut lists = ListBuilder::new(Int32Builder::new());
        lists.append_value([Some(1), None]);
        lists.append_null();
        lists.append_value([]);
        check(&lists.finish(), &[Some("[1,null]"), None, Some("[]")]);

        let mut map = MapBuilder::new(None, Int32Builder::new(), StringBuilder::new());
        map.keys().append_value(7);
        map.values().append_value("a\"b\n");
        map.append(true).unwrap();
        map.append(false).unwrap();
        let map: MapArray = map.finish();
        check(&map, &[Some(r#"{"7":"a\"b\n"}"#), None]);
        check(
            &of_one("m \"x\"", Arc::new(map)),
            &[Some(r#"{"m \"x\"":{"7":"a\"b\n"}}"#), Some(r#"{"m \"x\"":null}"#)],
        );
    }

    #[test]
    fn parts_of_arrays_are_those_parts() {
        let mut lists = ListBuilder::new(Int32Builder::new());
        let mut map = MapBuilder::new(None, Int32Builder::new(), StringBuilder::new());
        for i in 0..5 {
            lists.append_value([Some(i), Some(10 * i)]);
            map.keys().append_value(i);
            map.values().append_value(format!("v{i}"));
            map.append(true).unwrap();
        }
        check(&lists.finish().slice(2, 2), &[Some("[2,20]"), Some("[3,30]")]);
        check(&map.finish().slice(3, 1), &[Some(r#"{"3":"v3"}"#)]);
    }

    #[test]
    fn leaves_keep_every_digit() {
        let one = |array: ArrayRef, expected: &str| {
            check(&of_one("v", array), &[Some(&format!(r#"{{"v":{expected}}}"#))]);
        };
        one(Arc::new(Float64Array::from(vec![f64::NAN])), r#""NaN""#);
        one(Arc::new(Float64Array::from(vec![f64::NEG_INFINITY])), r#""-Infinity""#);
        one(Arc::new(Float64Array::from(vec![0.1])), "0.1");
        one(Arc::new(Int64Array::from(vec![i64::MIN])), "-9223372036854775808");
        let decimal =
            Decimal128Array::from(vec![10_i128.pow(37) + 1]).with_precision_and_scale(38, 2).unwrap();
        one(Arc::new(decimal), "100000000000000000000000000000000000.01");
        one(Arc::new(BinaryArray::from(vec![b"\x00\xffA".as_slice()])), r#""00ff41""#);
        let time = TimestampMicrosecondArray::from(vec![1]).with_timezone("Europe/Berlin");
        one(Arc::new(time), r#""1970-01-01T00:00:00.000001Z""#);
        let codes = arrow_array::DictionaryArray::<Int32Type>::from_iter(["x"]);
        one(Arc::new(codes), r#""x""#);
    }

    #[test]
    fn what_takes_too_much_is_an_error() {
        let mut array: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        for _ in 0..MAX_DEPTH {
            array = Arc::new(of_one("a", array));
        }
        assert!(to_json(&array).unwrap_err().to_string().contains("deeper"));
        // Lists that share one child: a few bytes each, and as many elements as they say.
        let child: ArrayRef = Arc::new(Int32Array::from(vec![7; 1 << 16]));
        let views = (MAX_SHARED >> 16) + 1;
        let list = ListViewArray::new(
            Arc::new(Field::new_list_field(DataType::Int32, false)),
            vec![0; views].into(),
            vec![1 << 16; views].into(),
            child,
            None,
        );
        assert!(to_json(&list).unwrap_err().to_string().contains("MiB"));
        // A time that no calendar has.
        let time = of_one("t", Arc::new(TimestampMicrosecondArray::from(vec![i64::MAX])));
        assert!(to_json(&time).is_err());
    }
}
