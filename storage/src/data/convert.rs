//! From the types of a Parquet file to those of a table.

use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, cast::AsArray as _, types::TimestampMicrosecondType};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType as Arrow, TimeUnit};
use basalt_core::{
    logical::{self, Logical},
    schema::{DataType, Field},
};

/// A column of a file as a column of a table.
///
/// A file has the table's type; what differs is how writers lay a type out (times of other units, 96-bit ones
/// among them, texts with long offsets, Basalt's unsigned integers), and a type that the table has widened since.
pub(super) fn to_table(column: &ArrayRef, field: &Field) -> Result<ArrayRef, String> {
    let Some(logical) = field.logical else { return to_type(column, field.data_type) };
    let target = logical.to_arrow();
    let is_read = match (column.data_type(), logical) {
        (given, Logical::Decimal { .. }) => given.is_integer() || given.is_decimal(),
        (given, Logical::Binary) => {
            matches!(
                given,
                Arrow::Binary | Arrow::LargeBinary | Arrow::BinaryView | Arrow::FixedSizeBinary(_)
            )
        }
        // Its form is what the file has.
        (given, Logical::Time) => {
            return to_type(column, DataType::Int64).map_err(|_| format!("{given} is no time"));
        }
    };
    if !is_read {
        return Err(format!("{} in the file is not {logical}", column.data_type()));
    }
    let exactly = CastOptions { safe: false, ..CastOptions::default() };
    let values = cast_with_options(column, &target, &exactly).map_err(|e| e.to_string())?;
    logical::to_form(&values, Some(logical)).map_err(|e| e.to_string())
}

fn to_type(column: &ArrayRef, data_type: DataType) -> Result<ArrayRef, String> {
    let target = data_type.to_arrow();
    if *column.data_type() == target {
        return Ok(column.clone());
    }
    if !may_be_read(column.data_type(), data_type) {
        return Err(format!("{} in the file is not {data_type}", column.data_type()));
    }
    let exactly = CastOptions { safe: false, ..CastOptions::default() };
    if data_type != DataType::Timestamp {
        return cast_with_options(column, &target, &exactly).map_err(|e| e.to_string());
    }
    // Default: they are no nanoseconds.
    let column = &basalt_nested::nanos_to_micros(column).unwrap_or_else(|| Arc::clone(column));
    // In a zone or in none, the numbers count from 1970 in UTC.
    let zone = match column.data_type() {
        Arrow::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    let micros = cast_with_options(column, &Arrow::Timestamp(TimeUnit::Microsecond, zone), &exactly);
    let micros = micros.map_err(|e| e.to_string())?;
    let micros = micros.as_primitive_opt::<TimestampMicrosecondType>().ok_or("it is no timestamp")?;
    Ok(Arc::new(micros.clone().with_timezone("UTC")))
}

fn may_be_read(file: &Arrow, table: DataType) -> bool {
    match (file, table) {
        (Arrow::Int8, t) => matches!(t, DataType::Int16 | DataType::Int32 | DataType::Int64) || of_integer(t),
        (Arrow::Int16, t) => {
            matches!(t, DataType::Int8 | DataType::Int32 | DataType::Int64 | DataType::UInt8) || of_integer(t)
        }
        (Arrow::Int32, t) => {
            matches!(
                t,
                DataType::Int8 | DataType::Int16 | DataType::Int64 | DataType::UInt8 | DataType::UInt16
            ) || of_integer(t)
        }
        (Arrow::Int64, t) => matches!(t, DataType::UInt32 | DataType::Decimal { .. }),
        (Arrow::Decimal128(_, 0), DataType::UInt64) => true,
        (Arrow::Decimal32(..) | Arrow::Decimal64(..) | Arrow::Decimal128(..), DataType::Decimal { .. }) => {
            true
        }
        (Arrow::Float32, DataType::Float64) => true,
        (Arrow::LargeUtf8 | Arrow::Utf8View, DataType::Utf8) => true,
        (
            Arrow::Timestamp(TimeUnit::Nanosecond | TimeUnit::Microsecond | TimeUnit::Millisecond, _),
            DataType::Timestamp,
        ) => true,
        (Arrow::Date32, DataType::Timestamp) => true,
        _ => false,
    }
}

/// What integers of up to 32 bits may be widened to.
fn of_integer(table: DataType) -> bool {
    matches!(table, DataType::Float64 | DataType::Decimal { .. })
}

#[cfg(test)]
mod tests {
    use arrow_array::TimestampNanosecondArray;

    use super::*;

    #[test]
    fn nanoseconds_of_other_writers_are_cut_towards_the_past() {
        let field = Field::new("at", DataType::Timestamp, true);
        let times = TimestampNanosecondArray::from(vec![Some(-1), None, Some(-1000), Some(1999)]);
        for times in [times.clone(), times.with_timezone("UTC")] {
            let made = to_table(&(Arc::new(times) as ArrayRef), &field).unwrap();
            assert_eq!(*made.data_type(), field.to_arrow_type());
            let made = made.as_primitive::<TimestampMicrosecondType>();
            assert!(made.iter().eq([Some(-1_i64), None, Some(-1), Some(1)]), "{made:?}");
        }
    }
}
