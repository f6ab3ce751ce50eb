//! Columns whose values stand in the log: the same value in every row of a file, written as text.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, StringArray, TimestampMicrosecondArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array, new_null_array, types::Decimal128Type,
};
use arrow_cast::parse::parse_decimal;
use basalt_core::{
    logical::{self, Logical},
    schema::{DataType, Field},
    time,
};

/// `rows` times the value of a partition; empty text is null, as no value is. `None` when it is none of the type.
pub(super) fn constant(text: Option<&str>, field: &Field, rows: usize) -> Option<ArrayRef> {
    let data_type = field.data_type;
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Some(new_null_array(&data_type.to_arrow(), rows));
    };
    macro_rules! repeat {
        ($array:ty) => {
            Arc::new(<$array>::from_value(text.parse().ok()?, rows))
        };
    }
    if let Some(logical) = field.logical {
        let values: ArrayRef = match logical {
            Logical::Decimal { precision, scale } => {
                let value = parse_decimal::<Decimal128Type>(text, precision, scale.cast_signed()).ok()?;
                Arc::new(Decimal128Array::from_value(value, rows).with_data_type(logical.to_arrow()))
            }
            // The bytes of the text in UTF-8: what writers that put text there mean, and others read. JSON's escapes are
            // characters by now; one beyond ASCII that was to be a single byte cannot be told from such text.
            Logical::Binary => {
                Arc::new(BinaryArray::from_iter_values(std::iter::repeat_n(text.as_bytes(), rows)))
            }
            Logical::Time => Arc::new(Int64Array::from_value(text.parse().ok()?, rows)),
        };
        return logical::to_form(&values, Some(logical)).ok();
    }
    Some(match data_type {
        DataType::Bool => Arc::new(BooleanArray::from(vec![text.parse::<bool>().ok()?; rows])),
        DataType::Int8 => repeat!(Int8Array),
        DataType::Int16 => repeat!(Int16Array),
        DataType::Int32 => repeat!(Int32Array),
        DataType::Int64 => repeat!(Int64Array),
        DataType::UInt8 => repeat!(UInt8Array),
        DataType::UInt16 => repeat!(UInt16Array),
        DataType::UInt32 => repeat!(UInt32Array),
        DataType::UInt64 => repeat!(UInt64Array),
        DataType::Float32 => repeat!(Float32Array),
        DataType::Float64 => repeat!(Float64Array),
        DataType::Decimal { precision, scale } => {
            let value = parse_decimal::<Decimal128Type>(text, precision, scale.cast_signed());
            let values = Decimal128Array::from_value(value.ok()?, rows);
            Arc::new(values.with_precision_and_scale(precision, scale.cast_signed()).ok()?)
        }
        DataType::Date32 => Arc::new(Date32Array::from_value(time::parse_date(text)?, rows)),
        DataType::Timestamp => {
            let values = TimestampMicrosecondArray::from_value(time::parse_timestamp(text)?, rows);
            Arc::new(values.with_timezone("UTC"))
        }
        DataType::Utf8 => Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, rows))),
    })
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray as _;

    use super::*;

    #[test]
    fn a_binary_value_has_the_bytes_of_its_text() {
        let field = Field::from_arrow("data", &Logical::Binary.to_arrow(), true).unwrap();
        for text in ["hello", "a\u{1}\u{7f}", "\\u0001", "é", "😈"] {
            let column = constant(Some(text), &field, 2).unwrap();
            let column = logical::from_form(&column, Some(Logical::Binary)).unwrap();
            let values: Vec<_> = column.as_binary::<i32>().iter().collect();
            assert_eq!(values, [Some(text.as_bytes()); 2], "{text}");
        }
        assert_eq!(constant(Some(""), &field, 1).unwrap().null_count(), 1);
    }
}
