//! Rows on their way out: Arrow arrays to packed arrays or Arrow IPC.

use arrow_array::{
    Array, RecordBatch,
    cast::AsArray as _,
    types::{
        ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
        Int32Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType, UInt8Type, UInt16Type,
        UInt32Type, UInt64Type,
    },
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, TimeUnit};
use basalt_proto::v1::{self as pb, column::Values};
use prost::bytes::Bytes;

use crate::{logged, status::RequestError};

/// About how many bytes a message with these rows takes; never fewer than packed arrays do.
pub(crate) fn message_bytes(batch: &RecordBatch) -> usize {
    const COLUMN: usize = 32;
    batch.columns().iter().map(|column| COLUMN + column_bytes(column)).sum()
}

fn column_bytes(array: &dyn Array) -> usize {
    let rows = array.len();
    let values = match array.data_type() {
        // Lengths are varints of at most three bytes, for texts of at most 2^20.
        DataType::Utf8 => {
            let offsets = array.as_string::<i32>().value_offsets();
            let text = offsets.last().zip(offsets.first()).map_or(0, |(last, first)| last - first);
            usize::try_from(text).unwrap_or(usize::MAX / 2) + 3 * rows
        }
        DataType::Binary => {
            let offsets = array.as_binary::<i32>().value_offsets();
            let bytes = offsets.last().zip(offsets.first()).map_or(0, |(last, first)| last - first);
            usize::try_from(bytes).unwrap_or(usize::MAX / 2) + 3 * rows
        }
        DataType::Boolean => rows,
        data_type => data_type.primitive_width().unwrap_or(16).max(4) * rows,
    };
    values + if array.null_count() > 0 { rows.div_ceil(8) } else { 0 }
}

/// The rows as packed arrays.
pub(crate) fn to_rows(batch: &RecordBatch) -> Result<pb::RecordBatch, RequestError> {
    let rows = u32::try_from(batch.num_rows()).map_err(|_| RequestError::internal())?;
    let columns = batch.columns().iter().map(|column| to_column(column)).collect::<Result<_, _>>()?;
    Ok(pb::RecordBatch { rows, columns })
}

fn to_column(array: &dyn Array) -> Result<pb::Column, RequestError> {
    let values = match array.data_type() {
        DataType::Boolean => {
            Values::Bools(pb::Bools { values: array.as_boolean().values().iter().collect() })
        }
        DataType::Int8 => int32s::<Int8Type>(array),
        DataType::Int16 => int32s::<Int16Type>(array),
        DataType::Int32 => int32s::<Int32Type>(array),
        DataType::Date32 => int32s::<Date32Type>(array),
        DataType::Int64 => int64s::<Int64Type>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => int64s::<TimestampMicrosecondType>(array),
        DataType::UInt8 => uint32s::<UInt8Type>(array),
        DataType::UInt16 => uint32s::<UInt16Type>(array),
        DataType::UInt32 => uint32s::<UInt32Type>(array),
        DataType::UInt64 => Values::Uint64s(pb::Uint64s { values: natives::<UInt64Type>(array).to_vec() }),
        DataType::Float32 => Values::Floats(pb::Floats { values: natives::<Float32Type>(array).to_vec() }),
        DataType::Float64 => Values::Doubles(pb::Doubles { values: natives::<Float64Type>(array).to_vec() }),
        DataType::Decimal128(precision, _) => decimals(natives::<Decimal128Type>(array), *precision),
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            texts(array.value_offsets(), array.values())
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            texts(array.value_offsets(), array.values())
        }
        DataType::Time64(TimeUnit::Microsecond) => int64s::<Time64MicrosecondType>(array),
        other => {
            tracing::error!(%other, "an answer of a type that has no message");
            return Err(RequestError::internal());
        }
    };
    Ok(pb::Column { validity: validity(array), values: Some(values) })
}

fn validity(array: &dyn Array) -> Vec<u8> {
    match array.nulls() {
        Some(nulls) if nulls.null_count() > 0 => {
            let mut bytes = nulls.inner().sliced().to_vec();
            bytes.truncate(array.len().div_ceil(8));
            if let (Some(last), used @ 1..) = (bytes.last_mut(), array.len() % 8) {
                *last &= (1 << used) - 1;
            }
            bytes
        }
        _ => Vec::new(),
    }
}

fn natives<T: ArrowPrimitiveType>(array: &dyn Array) -> &[T::Native] {
    array.as_primitive::<T>().values()
}

fn int32s<T: ArrowPrimitiveType<Native: Into<i32>>>(array: &dyn Array) -> Values {
    Values::Int32s(pb::Int32s { values: natives::<T>(array).iter().map(|v| (*v).into()).collect() })
}

fn int64s<T: ArrowPrimitiveType<Native = i64>>(array: &dyn Array) -> Values {
    Values::Int64s(pb::Int64s { values: natives::<T>(array).to_vec() })
}

fn uint32s<T: ArrowPrimitiveType<Native: Into<u32>>>(array: &dyn Array) -> Values {
    Values::Uint32s(pb::Uint32s { values: natives::<T>(array).iter().map(|v| (*v).into()).collect() })
}

/// Decimals of up to 18 digits fit 64 bits.
fn decimals(values: &[i128], precision: u8) -> Values {
    if precision <= 18 {
        // What lies under a null may be anything.
        Values::Int64s(pb::Int64s { values: values.iter().map(|v| i64::try_from(*v).unwrap_or(0)).collect() })
    } else {
        Values::Int128s(pb::Int128s { data: values.iter().flat_map(|v| v.to_le_bytes()).collect() })
    }
}

fn texts(offsets: &[i32], values: &[u8]) -> Values {
    let at = |offset: Option<&i32>| offset.map_or(0, |o| o.unsigned_abs() as usize);
    let data = values.get(at(offsets.first())..at(offsets.last())).unwrap_or_default().to_vec();
    let lengths = offsets.windows(2).map(|w| (w[1] - w[0]).unsigned_abs()).collect();
    Values::Texts(pb::Texts { data, lengths })
}

/// The rows as an Arrow IPC stream of its own.
pub(crate) fn to_ipc(batch: &RecordBatch) -> Result<Bytes, RequestError> {
    let write = || -> Result<Vec<u8>, arrow_schema::ArrowError> {
        let mut writer =
            StreamWriter::try_new(Vec::with_capacity(message_bytes(batch) + 1024), &batch.schema())?;
        writer.write(batch)?;
        writer.into_inner()
    };
    write().map(Bytes::from).map_err(|error| {
        tracing::error!(error = logged::text(&error.to_string()), "an answer cannot be written as Arrow IPC");
        RequestError::internal()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, BooleanArray, Decimal128Array, Int8Array, StringArray, TimestampMicrosecondArray,
    };
    use basalt_core::schema::{DataType as Logical, Field};
    use basalt_proto::v1::batch::Rows;
    use prost::Message as _;

    use super::*;
    use crate::convert::BatchReader;

    fn batch() -> RecordBatch {
        let decimals = Decimal128Array::from(vec![Some(-1), Some(i128::from(i64::MAX) / 10), None, Some(5)]);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("i", Arc::new(Int8Array::from(vec![Some(-128), None, Some(127), Some(0)]))),
            ("t", Arc::new(StringArray::from(vec![Some("a"), Some(""), None, Some("ünï")]))),
            ("b", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true)]))),
            ("d", Arc::new(decimals.with_precision_and_scale(18, 2).unwrap())),
            ("s", Arc::new(TimestampMicrosecondArray::from(vec![1, 2, 3, 4]).with_timezone("UTC"))),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
    }

    fn reader() -> BatchReader {
        BatchReader::new(&[
            Field::new("i", Logical::Int8, true),
            Field::new("t", Logical::Utf8, true),
            Field::new("b", Logical::Bool, true),
            Field::new("d", Logical::Decimal { precision: 18, scale: 2 }, true),
            Field::new("s", Logical::Timestamp, true),
        ])
    }

    #[test]
    fn what_goes_out_comes_in() {
        for (start, n) in [(0, 4), (1, 3), (2, 1), (0, 0)] {
            let slice = batch().slice(start, n);
            let rows = to_rows(&slice).unwrap();
            assert!(
                rows.encoded_len() <= message_bytes(&slice),
                "{} {}",
                rows.encoded_len(),
                message_bytes(&slice)
            );
            assert_eq!(reader().read(Some(Rows::Columns(rows))).unwrap(), std::slice::from_ref(&slice));
            assert_eq!(reader().read(Some(Rows::ArrowIpc(to_ipc(&slice).unwrap()))).unwrap(), [slice]);
        }
    }

    #[test]
    fn wide_decimals_take_sixteen_bytes() {
        let wide = Decimal128Array::from(vec![i128::MIN, -1]).with_precision_and_scale(38, 0).unwrap();
        let column = to_column(&wide).unwrap();
        let mut expected = i128::MIN.to_le_bytes().to_vec();
        expected.extend([0xff; 16]);
        assert_eq!(column.values, Some(Values::Int128s(pb::Int128s { data: expected })));
        assert!(column.validity.is_empty());
    }
}
