//! Types of columns that a client was told before: what comes in other types is sent in these.

use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, ListArray, RecordBatch, cast::AsArray as _, new_null_array};
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, Schema};
use basalt_sql::system::postgres_type;

use super::{
    error::{Error, Result},
    rows::{self, Column},
    types,
};

/// The columns of an answer in the formats that were asked for. Types that were told before hold: what has another one now
/// is sent as text where it was told to be text, and is cast to what was told else.
pub(super) fn columns(schema: &Schema, formats: &[i16], told: Option<&[DataType]>) -> Result<Vec<Column>> {
    let mut columns = rows::columns(schema, formats)?;
    let Some(told) = told else { return Ok(columns) };
    if told.len() != columns.len() {
        return Err(Error::retyped());
    }
    for (column, told) in columns.iter_mut().zip(told) {
        if column.oid() == postgres_type(told).oid {
            continue;
        }
        if *told == DataType::Utf8 {
            column.format = 0;
        } else {
            column.data_type = widest(told);
            column.is_cast = true;
        }
    }
    Ok(columns)
}

/// The widest of the types that clients are told as the same.
fn widest(told: &DataType) -> DataType {
    if let DataType::List(item) = told {
        let item = item.as_ref().clone();
        let widest = widest(item.data_type());
        return DataType::List(Arc::new(item.with_data_type(widest)));
    }
    match postgres_type(told).oid {
        types::INT2 => DataType::Int16,
        types::INT4 => DataType::Int32,
        types::INT8 => DataType::Int64,
        types::NUMERIC => DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
        _ => told.clone(),
    }
}

/// Rows in the types that were told.
///
/// # Errors
/// A value is none of the type that was told.
pub(super) fn as_told(batch: RecordBatch, columns: &[Column]) -> Result<RecordBatch> {
    if !columns.iter().any(|column| column.is_cast) {
        return Ok(batch);
    }
    let arrays = batch.columns().iter().zip(columns).map(|(array, column)| match column.is_cast {
        true => cast(array, &column.data_type),
        false => Ok(Arc::clone(array)),
    });
    let arrays = arrays.collect::<Result<Vec<_>>>()?;
    let fields = arrays.iter().zip(columns);
    let fields = fields.map(|(array, column)| Field::new(&column.name, array.data_type().clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), arrays).map_err(|_| Error::retyped())
}

/// Values of another type, all of which are values of this one. NULL is one of every type.
fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let from = array.data_type();
    if from.is_null() || array.null_count() == array.len() {
        return Ok(new_null_array(to, array.len()));
    }
    if let (DataType::List(item), Some(list)) = (to, array.as_list_opt::<i32>()) {
        let values = cast(list.values(), item.data_type())?;
        let lists =
            ListArray::try_new(Arc::clone(item), list.offsets().clone(), values, list.nulls().cloned());
        return lists.map(|lists| Arc::new(lists) as ArrayRef).map_err(|_| Error::retyped());
    }
    let may_be = match to {
        DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            from.is_integer() || matches!(from, DataType::Decimal128(_, 0))
        }
        DataType::Decimal128(..) => from.is_integer(),
        DataType::Float64 => {
            from.is_integer() || matches!(from, DataType::Float32 | DataType::Decimal128(..))
        }
        _ => false,
    };
    // What is out of range is an error.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let cast = may_be.then(|| cast_with_options(array, to, &options).ok()).flatten();
    cast.ok_or_else(Error::retyped)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int32Array, Int64Array, StringArray, types::Int32Type};
    use basalt_sql::system::OID_VALUE;

    use super::*;

    /// A column of an answer, where it was told to be of a type before.
    fn sent(array: ArrayRef, told: &DataType) -> Result<(Column, ArrayRef)> {
        let batch = RecordBatch::try_from_iter([("a", array)]).unwrap();
        let columns = columns(&batch.schema(), &[1], Some(std::slice::from_ref(told)))?;
        let batch = as_told(batch, &columns)?;
        Ok((columns.into_iter().next().unwrap(), Arc::clone(batch.column(0))))
    }

    #[test]
    fn values_are_sent_in_the_types_that_were_told() {
        let longs = |value: Option<i64>| -> ArrayRef { Arc::new(Int64Array::from(vec![value, None])) };
        let (column, array) = sent(longs(Some(8)), &DataType::Int32).unwrap();
        assert_eq!((column.oid(), column.format), (types::INT4, 1));
        assert_eq!(array.as_primitive::<Int32Type>(), &Int32Array::from(vec![Some(8), None]));
        assert_eq!(sent(longs(Some(1 << 40)), &DataType::Int32).unwrap_err().code(), "0A000");
        // What is told as two bytes has more than what is held in one.
        assert!(sent(longs(Some(300)), &DataType::Int8).is_ok());
        let decimal = DataType::Decimal128(9, 2);
        assert_eq!(sent(longs(Some(8)), &decimal).unwrap().1.data_type(), &DataType::Decimal128(38, 0));
        assert_eq!(sent(longs(Some(8)), &DataType::Float64).unwrap().0.oid(), types::FLOAT8);
        assert_eq!(sent(longs(Some(8)), &DataType::Date32).unwrap_err().code(), "0A000");
        assert_eq!(sent(longs(None), &DataType::Date32).unwrap().1.null_count(), 2);
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
        assert!(sent(floats, &DataType::Int64).is_err());
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["8"]));
        assert!(sent(texts, &DataType::Int64).is_err());
        // Lists are told by their values.
        let item = |name: &str, of: DataType| DataType::List(Arc::new(Field::new(name, of, true)));
        let lists = || -> ArrayRef {
            let lists = [Some(vec![Some(8), None]), None, Some(vec![])];
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))
        };
        let (column, array) = sent(lists(), &item("item", DataType::Int64)).unwrap();
        assert_eq!((column.oid(), array.data_type()), (1016, &item("item", DataType::Int64)));
        let (column, array) = sent(lists(), &item(OID_VALUE, DataType::Int32)).unwrap();
        assert_eq!((column.oid(), array.len(), array.null_count()), (1028, 3, 1));
        assert!(sent(lists(), &item("item", DataType::Utf8)).is_err());
        // As text it is what it is.
        let (column, array) = sent(longs(Some(8)), &DataType::Utf8).unwrap();
        assert_eq!((column.oid(), column.format, array.data_type()), (types::INT8, 0, &DataType::Int64));
    }
}
