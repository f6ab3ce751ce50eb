//! Encoded rows as Arrow arrays, as they came in.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, PrimitiveArray, RecordBatch, StringArray,
    types::{
        ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};

use super::{Column, FragmentData, Values};
use crate::{
    error::{Error, ErrorKind, Result},
    keys,
    limits::{BATCH_ROWS, BLOCK_ROWS},
    mask::selects,
    schema::{DataType, Schema},
};

impl FragmentData {
    /// The rows as Arrow batches of at most a block each, in the types of the table's schema.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when the columns are not those of the schema: all of them.
    pub fn batches<'a>(&'a self, schema: &'a Schema) -> impl Iterator<Item = Result<RecordBatch>> + 'a {
        (0..self.rows).step_by(BLOCK_ROWS).map(|start| {
            let rows = (self.rows - start).min(BLOCK_ROWS);
            let arrays = self.columns().map(|column| decoded(column, start, rows)).collect();
            RecordBatch::try_new(schema.to_arrow(), arrays)
                .map_err(|e| Error::new(ErrorKind::Corrupt, e.to_string()))
        })
    }
}

/// The rows `start..start + rows` of a column, within one block.
fn decoded(column: &Column, start: usize, rows: usize) -> ArrayRef {
    let valid = column.validity_words(start, rows);
    let nulls = valid
        .as_deref()
        .map(|words| NullBuffer::new(BooleanBuffer::new(Buffer::from_slice_ref(words), 0, rows)));
    let values = match column.values() {
        Values::Text(texts) => {
            let mut array = arrow_array::builder::StringBuilder::new();
            for first in (0..rows).step_by(BATCH_ROWS) {
                let n = (rows - first).min(BATCH_ROWS);
                let words = valid.as_deref().map(|words| &words[first / 64..(first + n).div_ceil(64)]);
                let batch = texts.decode(start + first, n, words);
                (0..n).for_each(|row| array.append_option(selects(words, row).then(|| batch.get(row))));
            }
            return Arc::<StringArray>::new(array.finish());
        }
        Values::Keys(keys) => {
            let mut values = vec![0; rows];
            keys.decode(start, &mut values);
            values
        }
    };
    array_of_keys(values.into(), nulls, column.data_type())
}

/// Keys of a fixed-width type as an array of it, which shares them where they are the values.
#[allow(clippy::cast_possible_truncation, reason = "a key of a type fits the type")]
pub(crate) fn array_of_keys(
    values: ScalarBuffer<i64>,
    nulls: Option<NullBuffer>,
    data_type: DataType,
) -> ArrayRef {
    macro_rules! primitive {
        ($type:ty, $value:expr) => {
            array::<$type>(values.iter().copied().map($value).collect(), nulls, data_type)
        };
    }
    match data_type {
        DataType::Bool => Arc::new(BooleanArray::new(values.iter().map(|key| *key != 0).collect(), nulls)),
        DataType::Int8 => primitive!(Int8Type, |key| key as i8),
        DataType::Int16 => primitive!(Int16Type, |key| key as i16),
        DataType::Int32 => primitive!(Int32Type, |key| key as i32),
        DataType::Int64 | DataType::Utf8 => array::<Int64Type>(values, nulls, data_type),
        DataType::UInt8 => primitive!(UInt8Type, |key| key as u8),
        DataType::UInt16 => primitive!(UInt16Type, |key| key as u16),
        DataType::UInt32 => primitive!(UInt32Type, |key| key as u32),
        DataType::UInt64 => primitive!(UInt64Type, keys::to_u64),
        DataType::Float32 => primitive!(Float32Type, keys::to_f32),
        DataType::Float64 => primitive!(Float64Type, keys::to_f64),
        DataType::Decimal { .. } => primitive!(Decimal128Type, i128::from),
        DataType::Date32 => primitive!(Date32Type, |key| key as i32),
        DataType::Timestamp => array::<TimestampMicrosecondType>(values, nulls, data_type),
    }
}

fn array<T: ArrowPrimitiveType>(
    values: ScalarBuffer<T::Native>,
    nulls: Option<NullBuffer>,
    data_type: DataType,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values, nulls).with_data_type(data_type.to_arrow()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fragment::RowBuffer, schema::Field};

    #[test]
    fn rows_come_out_as_they_went_in() {
        let n = BLOCK_ROWS as i64 + 1000;
        let valid = |i: &i64| i % 7 != 0;
        let decimal = DataType::Decimal { precision: 12, scale: 2 };
        let columns: Vec<(DataType, ArrayRef)> = vec![
            (
                DataType::Int64,
                Arc::new((0..n).map(|i| valid(&i).then_some(i * i)).collect::<PrimitiveArray<Int64Type>>()),
            ),
            (
                DataType::UInt64,
                Arc::new(
                    (0..n)
                        .map(|i| u64::MAX - i.cast_unsigned())
                        .map(Some)
                        .collect::<PrimitiveArray<UInt64Type>>(),
                ),
            ),
            (
                DataType::Float64,
                Arc::new(
                    (0..n)
                        .map(|i| valid(&i).then(|| i as f64 / 8.0 - 5.0))
                        .collect::<PrimitiveArray<Float64Type>>(),
                ),
            ),
            (
                DataType::Bool,
                Arc::new((0..n).map(|i| valid(&i).then_some(i % 3 == 0)).collect::<BooleanArray>()),
            ),
            (
                decimal,
                Arc::new(
                    (0..n)
                        .map(|i| Some(i128::from(i) - 9))
                        .collect::<PrimitiveArray<Decimal128Type>>()
                        .with_data_type(decimal.to_arrow()),
                ),
            ),
            (
                DataType::Timestamp,
                Arc::new(
                    (0..n)
                        .map(Some)
                        .collect::<PrimitiveArray<TimestampMicrosecondType>>()
                        .with_data_type(DataType::Timestamp.to_arrow()),
                ),
            ),
            (
                DataType::Utf8,
                Arc::new(
                    (0..n)
                        .map(|i| valid(&i).then(|| format!("text {}", i % 50_000)))
                        .collect::<StringArray>(),
                ),
            ),
        ];
        let fields = columns
            .iter()
            .enumerate()
            .map(|(i, (data_type, _))| Field::new(format!("c{i}"), *data_type, true));
        let schema = Schema::new(fields.collect()).unwrap();
        let mut buffer = RowBuffer::new(&schema);
        let arrays: Vec<_> = columns.iter().map(|(_, array)| Some(Arc::clone(array))).collect();
        buffer.push(&arrays, usize::try_from(n).unwrap());
        let data = buffer.encode(&schema).unwrap();
        let mut start = 0;
        for batch in data.batches(&schema).map(Result::unwrap) {
            for (i, (_, array)) in columns.iter().enumerate() {
                assert_eq!(
                    batch.column(i).to_data(),
                    array.slice(start, batch.num_rows()).to_data(),
                    "column {i}"
                );
            }
            start += batch.num_rows();
        }
        assert_eq!(start, data.rows());
    }
}
