//! Values for deleted rows without one.
//!
//! A column may be told to have no nulls once the rows that have them are deleted. Their file is not written again: it has
//! the nulls still, and a column that is not nullable has a value in every row. Nobody reads those of deleted rows.

use arrow_array::{Array as _, ArrayRef, make_array, new_null_array};
use arrow_select::interleave::interleave;
use basalt_core::{
    logical,
    schema::{DataType, Field},
};

/// The column with some value where a row is null and deleted. A row that is null and is not deleted stays as it is.
pub(super) fn filled(
    column: &ArrayRef,
    field: &Field,
    is_deleted: impl Fn(usize) -> bool,
) -> Result<ArrayRef, String> {
    // One of its own has the column's bounds and bits as they are. A text may be long, and would be there many times.
    let own = match field.data_type {
        DataType::Utf8 => None,
        _ => (0..column.len()).find(|row| column.is_valid(*row)),
    };
    let value = match own {
        Some(row) => column.slice(row, 1),
        None => zero(field)?,
    };
    let place = |row: usize| match column.is_null(row) && is_deleted(row) {
        true => (1, 0),
        false => (0, row),
    };
    let places: Vec<(usize, usize)> = (0..column.len()).map(place).collect();
    interleave(&[column.as_ref(), value.as_ref()], &places).map_err(|e| e.to_string())
}

/// One row of zero, or of an empty text, in the form that the column has.
fn zero(field: &Field) -> Result<ArrayRef, String> {
    let null = new_null_array(&field.to_arrow_type(), 1).to_data();
    // Below a null there is zero.
    let zero = null.into_builder().nulls(None).build().map_err(|e| e.to_string())?;
    logical::to_form(&make_array(zero), field.logical).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringArray, cast::AsArray as _, types::Int64Type};
    use arrow_schema::{DataType as Arrow, TimeUnit};
    use basalt_core::fragment::check_array;

    use super::*;

    #[test]
    fn deleted_rows_have_values_and_others_stay_null() {
        let field = Field::new("n", DataType::Int64, false);
        let column: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(7), None, Some(9)]));
        let all = filled(&column, &field, |_| true).unwrap();
        assert!(all.as_primitive::<Int64Type>().iter().eq([7, 7, 7, 9].map(Some)), "{all:?}");
        check_array(&all, &field).unwrap();
        let some = filled(&column, &field, |row| row != 2).unwrap();
        assert!(some.as_primitive::<Int64Type>().iter().eq([Some(7), Some(7), None, Some(9)]), "{some:?}");
        let error = check_array(&some, &field).unwrap_err().to_string();
        assert!(error.contains("row 2") && error.contains("not nullable"), "{error}");
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("long"), None]));
        let texts = filled(&texts, &Field::new("t", DataType::Utf8, false), |row| row == 1).unwrap();
        assert!(texts.as_string::<i32>().iter().eq([Some("long"), Some("")]), "{texts:?}");
    }

    #[test]
    fn a_column_of_nulls_has_values_of_every_type() {
        let times = Arrow::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let of = [
            Arrow::Boolean,
            Arrow::Int8,
            Arrow::UInt64,
            Arrow::Float32,
            Arrow::Float64,
            Arrow::Date32,
            times,
            Arrow::Utf8,
            Arrow::Binary,
            Arrow::Time64(TimeUnit::Microsecond),
            Arrow::Decimal128(9, 2),
            Arrow::Decimal128(38, 2),
        ];
        for of in of {
            let field = Field::from_arrow("c", &of, false).unwrap();
            let nulls = new_null_array(&field.data_type.to_arrow(), 3);
            check_array(&nulls, &field).unwrap_err();
            let values = filled(&nulls, &field, |_| true).unwrap();
            assert_eq!((values.len(), values.null_count()), (3, 0), "{of}");
            check_array(&values, &field).unwrap();
        }
    }
}
