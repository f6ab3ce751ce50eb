//! One type for what several files have in a column.
//!
//! Integers become wider ones, floats and decimals what holds both, dates timestamps; whatever has nothing else in
//! common is text. That the values fit is checked value by value when they are read: an integer that a float cannot
//! hold is an error, never another number.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::source::InputFile;
use crate::{
    cli::CliError,
    types::{MAX_DECIMAL_DIGITS, timestamp_type, type_name},
};

/// The columns of the files so far.
#[derive(Default)]
pub(super) struct Columns {
    fields: Option<Vec<Field>>,
    notes: Vec<String>,
}

impl Columns {
    /// Adds those of a file; `has_optional`: some of them may be missing in its rows, and in other files.
    pub(super) fn add(
        &mut self,
        file: &InputFile,
        fields: &[Field],
        has_optional: bool,
    ) -> Result<(), CliError> {
        let Some(known) = &mut self.fields else {
            self.fields = Some(fields.to_vec());
            return Ok(());
        };
        let has_same =
            known.len() == fields.len() && known.iter().all(|k| fields.iter().any(|f| f.name() == k.name()));
        if !has_same && !has_optional {
            let names: Vec<_> = known.iter().map(|f| f.name().as_str()).collect();
            return Err(file.error(format!("its columns are not {}", names.join(", "))));
        }
        for known in known.iter_mut().filter(|k| !fields.iter().any(|f| f.name() == k.name())) {
            known.set_nullable(true);
        }
        for field in fields {
            let Some(known) = known.iter_mut().find(|k| k.name() == field.name()) else {
                known.push(field.clone().with_nullable(true));
                continue;
            };
            known.set_nullable(known.is_nullable() || field.is_nullable());
            let (a, b) = (known.data_type(), field.data_type());
            let both = common(a, b);
            if both == DataType::Utf8 && a != b {
                self.notes.push(format!(
                    "column {:?} is text: in {} it is {}, before it was {}",
                    field.name(),
                    file.name(),
                    type_name(b),
                    type_name(a)
                ));
            }
            known.set_data_type(both);
        }
        Ok(())
    }

    /// The columns that hold those of all files, and what was widened to text.
    pub(super) fn finish(self) -> (SchemaRef, Vec<String>) {
        (Arc::new(Schema::new(self.fields.unwrap_or_default())), self.notes)
    }
}

/// The least type that holds the values of both, of those that columns have.
fn common(a: &DataType, b: &DataType) -> DataType {
    use DataType as T;
    if a == b {
        return a.clone();
    }
    let wide = |t: &T| t.primitive_width().unwrap_or(0);
    let is_float = |t: &T| matches!(t, T::Float32 | T::Float64);
    match (a, b) {
        (a, b) if a.is_integer() && b.is_integer() && a.is_signed_integer() == b.is_signed_integer() => {
            if wide(a) >= wide(b) {
                a.clone()
            } else {
                b.clone()
            }
        }
        (a, b) if a.is_integer() && b.is_integer() => {
            let (signed, unsigned) = if a.is_signed_integer() { (a, b) } else { (b, a) };
            let needed = match unsigned {
                T::UInt8 => T::Int16,
                T::UInt16 => T::Int32,
                T::UInt32 => T::Int64,
                _ => return decimal(a, b),
            };
            common(signed, &needed)
        }
        (a, b) if is_float(a) && is_float(b) => T::Float64,
        (float, int) | (int, float) if is_float(float) && int.is_integer() => {
            if *float == T::Float32 && wide(int) <= 2 { T::Float32 } else { T::Float64 }
        }
        (T::Decimal128(..), other) | (other, T::Decimal128(..))
            if other.is_integer() || matches!(other, T::Decimal128(..)) =>
        {
            decimal(a, b)
        }
        // A float holds as many digits as they are written.
        (T::Decimal128(digits, _), float) | (float, T::Decimal128(digits, _))
            if is_float(float) && u32::from(*digits) <= f64::DIGITS =>
        {
            T::Float64
        }
        (T::Date32, T::Timestamp(..)) | (T::Timestamp(..), T::Date32) => timestamp_type(),
        _ => T::Utf8,
    }
}

/// The decimal that holds two types of integers or decimals, if it has not too many digits.
fn decimal(a: &DataType, b: &DataType) -> DataType {
    let digits = |t: &DataType| match t {
        DataType::Decimal128(precision, scale) => {
            (i16::from(*precision) - i16::from(*scale), i16::from(*scale))
        }
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        _ => (20, 0),
    };
    let ((a_whole, a_scale), (b_whole, b_scale)) = (digits(a), digits(b));
    let scale = a_scale.max(b_scale);
    let precision = a_whole.max(b_whole) + scale;
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(precision), Ok(scale)) if precision <= MAX_DECIMAL_DIGITS => {
            DataType::Decimal128(precision, scale)
        }
        _ => DataType::Utf8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::parse_type;

    #[test]
    fn two_types_have_one() {
        let check = |a: &str, b: &str, expected: &str| {
            let (a, b) = (parse_type(a).unwrap(), parse_type(b).unwrap());
            assert_eq!(type_name(&common(&a, &b)), expected);
            assert_eq!(type_name(&common(&b, &a)), expected);
        };
        check("int8", "int64", "int64");
        check("uint8", "uint32", "uint32");
        check("int8", "uint8", "int16");
        check("int64", "uint32", "int64");
        check("int32", "float64", "float64");
        check("int16", "float32", "float32");
        check("int32", "float32", "float64");
        check("float32", "float64", "float64");
        check("decimal(5,2)", "decimal(4,3)", "decimal(6,3)");
        check("decimal(5,2)", "int16", "decimal(7,2)");
        check("decimal(5,2)", "float64", "float64");
        check("decimal(15,2)", "float32", "float64");
        check("decimal(16,2)", "float64", "utf8");
        check("date32", "timestamp", "timestamp");
        check("int64", "uint64", "decimal(20,0)");
        check("decimal(38,2)", "int64", "decimal(38,2)");
        check("decimal(38,2)", "decimal(38,4)", "utf8");
        check("binary", "utf8", "utf8");
        check("time", "timestamp", "utf8");
        check("bool", "int8", "utf8");
        check("utf8", "date32", "utf8");
    }
}
