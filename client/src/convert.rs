//! Between Arrow and the API's messages: schemas, values, columns.
//!
//! What comes from a server is checked as if it were hostile: lengths that disagree, texts that are not
//! UTF-8 and values out of their type's range are errors.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, PrimitiveArray, RecordBatch,
    RecordBatchOptions, StringArray,
    cast::AsArray as _,
    types::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
        Time64MicrosecondType, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use basalt_proto::v1::{self, column::Values};

use crate::{
    error::{Error, Result},
    types,
};

/// The key of a field's Arrow metadata that forces one encoding by name, instead of the smallest.
pub const ENCODING_KEY: &str = "basalt.encoding";

/// The key of a field's Arrow metadata that says what its encoding is chosen for: `size`, `balanced` or `speed`.
pub const OPTIMIZE_KEY: &str = "basalt.optimize";

/// The key of a field's Arrow metadata that says what its values are keys of, as `table.column`.
pub const REFERENCES_KEY: &str = "basalt.references";

/// Bytes that an Arrow message has room for before it is written: a slice says of itself what its whole array takes.
const IPC_BYTES: usize = 2 << 20;

/// The digits of a decimal that is sent in 64 bits.
const NARROW_DECIMAL_DIGITS: u8 = 18;

/// The API's schema for an Arrow schema.
///
/// # Errors
/// [`Error::UnsupportedType`] names the first column whose type no table has, [`Error::Malformed`] one that is optimized
/// for what nothing is.
pub fn schema_to_proto(schema: &Schema) -> Result<v1::Schema> {
    let field = |field: &Arc<Field>| {
        let data_type = types::from_arrow(field.data_type()).ok_or_else(|| unsupported(field))?;
        Ok(v1::Field {
            name: field.name().clone(),
            r#type: Some(data_type),
            nullable: field.is_nullable(),
            encoding: field.metadata().get(ENCODING_KEY).cloned().unwrap_or_default(),
            references: field.metadata().get(REFERENCES_KEY).map(|text| {
                let (table, column) = text.split_once('.').unwrap_or((text, ""));
                v1::Reference { table: table.to_owned(), column: column.to_owned() }
            }),
            optimize: field
                .metadata()
                .get(OPTIMIZE_KEY)
                .map_or(Ok(v1::Optimize::Unspecified), |name| optimize_of(field.name(), name))?
                .into(),
        })
    };
    Ok(v1::Schema { fields: schema.fields().iter().map(field).collect::<Result<_>>()? })
}

/// The Arrow schema for one of the API's.
///
/// # Errors
/// [`Error::Malformed`] when a type is unknown or impossible.
pub fn schema_from_proto(schema: &v1::Schema) -> Result<SchemaRef> {
    let fields = schema.fields.iter().map(field_from_proto).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

pub(crate) fn field_from_proto(field: &v1::Field) -> Result<Field> {
    let data_type = field.r#type.as_ref().ok_or_else(|| "no type".to_owned()).and_then(types::to_arrow);
    let data_type = data_type.map_err(|e| malformed(format!("column {:?}: {e}", field.name)))?;
    let encoding = (!field.encoding.is_empty()).then(|| (ENCODING_KEY.to_owned(), field.encoding.clone()));
    let references = field.references.as_ref();
    let references = references.map(|r| (REFERENCES_KEY.to_owned(), format!("{}.{}", r.table, r.column)));
    let optimize = optimize_name(field.optimize());
    let optimize = optimize.map(|name| (OPTIMIZE_KEY.to_owned(), name.to_owned()));
    let metadata = encoding.into_iter().chain(references).chain(optimize).collect();
    Ok(Field::new(&field.name, data_type, field.nullable).with_metadata(metadata))
}

fn optimize_of(column: &str, name: &str) -> Result<v1::Optimize> {
    Ok(match name {
        "size" => v1::Optimize::Size,
        "balanced" => v1::Optimize::Balanced,
        "speed" => v1::Optimize::Speed,
        _ => return Err(malformed(format!("column {column:?}: {OPTIMIZE_KEY} is {name:?}"))),
    })
}

/// What a column is optimized for where it is not the default: a schema is the same whether it says that or not.
fn optimize_name(optimize: v1::Optimize) -> Option<&'static str> {
    match optimize {
        v1::Optimize::Unspecified | v1::Optimize::Balanced => None,
        v1::Optimize::Size => Some("size"),
        v1::Optimize::Speed => Some("speed"),
    }
}

/// The API's batch of packed arrays for an Arrow batch.
///
/// # Errors
/// [`Error::UnsupportedType`] names the first column whose type no table has, [`Error::InvalidBatch`] a
/// decimal of more than 18 digits.
pub fn batch_to_proto(batch: &RecordBatch) -> Result<v1::RecordBatch> {
    let schema = batch.schema_ref();
    let columns =
        batch.columns().iter().zip(schema.fields()).map(|(array, field)| column_to_proto(array, field));
    let rows = u32::try_from(batch.num_rows())
        .map_err(|_| Error::InvalidBatch(format!("{} rows in one batch", batch.num_rows())))?;
    Ok(v1::RecordBatch { rows, columns: columns.collect::<Result<_>>()? })
}

/// An Arrow batch as a stream of itself.
///
/// # Errors
/// [`Error::InvalidBatch`] when Arrow cannot write it.
pub(crate) fn batch_to_ipc(batch: &RecordBatch) -> Result<Vec<u8>> {
    let write = || {
        let room = Vec::with_capacity(batch.get_array_memory_size().min(IPC_BYTES));
        let mut writer = StreamWriter::try_new(room, batch.schema_ref())?;
        writer.write(batch)?;
        writer.into_inner()
    };
    write().map_err(|error| Error::InvalidBatch(error.to_string()))
}

fn column_to_proto(array: &ArrayRef, field: &Field) -> Result<v1::Column> {
    let values = match array.data_type() {
        DataType::Boolean => {
            Values::Bools(v1::Bools { values: array.as_boolean().values().iter().collect() })
        }
        DataType::Int8 => int32s::<Int8Type>(array),
        DataType::Int16 => int32s::<Int16Type>(array),
        DataType::Int32 => int32s::<Int32Type>(array),
        DataType::Date32 => int32s::<Date32Type>(array),
        DataType::Int64 => Values::Int64s(v1::Int64s { values: widen::<Int64Type, _>(array) }),
        data_type if *data_type == types::timestamp_type() => {
            Values::Int64s(v1::Int64s { values: widen::<TimestampMicrosecondType, _>(array) })
        }
        DataType::UInt8 => uint32s::<UInt8Type>(array),
        DataType::UInt16 => uint32s::<UInt16Type>(array),
        DataType::UInt32 => uint32s::<UInt32Type>(array),
        DataType::UInt64 => Values::Uint64s(v1::Uint64s { values: widen::<UInt64Type, _>(array) }),
        DataType::Float32 => Values::Floats(v1::Floats { values: widen::<Float32Type, _>(array) }),
        DataType::Float64 => Values::Doubles(v1::Doubles { values: widen::<Float64Type, _>(array) }),
        DataType::Decimal128(..=NARROW_DECIMAL_DIGITS, _) => {
            Values::Int64s(v1::Int64s { values: unscaled(array, field)? })
        }
        DataType::Decimal128(..) => {
            let values = array.as_primitive::<Decimal128Type>().values();
            Values::Int128s(v1::Int128s { data: values.iter().flat_map(|v| v.to_le_bytes()).collect() })
        }
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            Values::Texts(texts(array.value_offsets(), array.value_data()))
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            Values::Texts(texts(array.value_offsets(), array.value_data()))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            Values::Int64s(v1::Int64s { values: widen::<Time64MicrosecondType, _>(array) })
        }
        _ => return Err(unsupported(field)),
    };
    Ok(v1::Column { validity: validity(array.nulls()), values: Some(values) })
}

fn widen<T: ArrowPrimitiveType, W: From<T::Native>>(array: &ArrayRef) -> Vec<W> {
    array.as_primitive::<T>().values().iter().map(|&v| W::from(v)).collect()
}

fn int32s<T: ArrowPrimitiveType<Native: Into<i32>>>(array: &ArrayRef) -> Values {
    let values = array.as_primitive::<T>().values();
    Values::Int32s(v1::Int32s { values: values.iter().map(|&v| v.into()).collect() })
}

fn uint32s<T: ArrowPrimitiveType<Native: Into<u32>>>(array: &ArrayRef) -> Values {
    let values = array.as_primitive::<T>().values();
    Values::Uint32s(v1::Uint32s { values: values.iter().map(|&v| v.into()).collect() })
}

/// Decimals as i64; what lies under a null does not count.
fn unscaled(array: &ArrayRef, field: &Field) -> Result<Vec<i64>> {
    let array = array.as_primitive::<Decimal128Type>();
    let narrow = |value: Option<i128>| {
        i64::try_from(value.unwrap_or(0)).map_err(|_| {
            Error::InvalidBatch(format!("column {:?}: a decimal of more than 18 digits", field.name()))
        })
    };
    array.iter().map(narrow).collect()
}

fn texts(offsets: &[i32], values: &[u8]) -> v1::Texts {
    let at = |offset: Option<&i32>| offset.map_or(0, |&o| o.cast_unsigned() as usize);
    v1::Texts {
        data: values[at(offsets.first())..at(offsets.last())].to_vec(),
        lengths: offsets.windows(2).map(|pair| (pair[1] - pair[0]).cast_unsigned()).collect(),
    }
}

/// One bit a row, the unused bits of the last byte 0; empty without nulls.
fn validity(nulls: Option<&NullBuffer>) -> Vec<u8> {
    let Some(nulls) = nulls.filter(|n| n.null_count() > 0) else { return Vec::new() };
    let mut bytes = nulls.inner().sliced().as_slice().to_vec();
    if let Some(last) = bytes.last_mut()
        && !nulls.len().is_multiple_of(8)
    {
        *last &= (1 << (nulls.len() % 8)) - 1;
    }
    bytes
}

/// The Arrow batch for one of the API's, which must agree with `schema` in every respect.
///
/// # Errors
/// [`Error::Malformed`] says which column disagrees, and how.
pub fn batch_from_proto(schema: &SchemaRef, batch: v1::RecordBatch) -> Result<RecordBatch> {
    let rows = batch.rows as usize;
    if batch.columns.len() != schema.fields().len() {
        let message = format!("a batch of {} columns, not {}", batch.columns.len(), schema.fields().len());
        return Err(malformed(message));
    }
    let column = |(field, column): (&Arc<Field>, v1::Column)| {
        column_from_proto(field.data_type(), column, rows)
            .map_err(|e| malformed(format!("column {:?}: {e}", field.name())))
    };
    let columns = schema.fields().iter().zip(batch.columns).map(column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|e| malformed(e.to_string()))
}

fn column_from_proto(data_type: &DataType, column: v1::Column, rows: usize) -> Result<ArrayRef, String> {
    let nulls = nulls(column.validity, rows)?;
    let values = column.values.ok_or("no values")?;
    match (data_type, values) {
        (DataType::Boolean, Values::Bools(v)) => {
            check_rows(v.values.len(), rows)?;
            Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(v.values), nulls)))
        }
        (DataType::Int8, Values::Int32s(v)) => narrow::<Int8Type, _>(&v.values, nulls, rows),
        (DataType::Int16, Values::Int32s(v)) => narrow::<Int16Type, _>(&v.values, nulls, rows),
        (DataType::Int32, Values::Int32s(v)) => primitive::<Int32Type>(v.values, nulls, rows),
        (DataType::Date32, Values::Int32s(v)) => primitive::<Date32Type>(v.values, nulls, rows),
        (DataType::Int64, Values::Int64s(v)) => primitive::<Int64Type>(v.values, nulls, rows),
        (DataType::Timestamp(..), Values::Int64s(v)) => {
            check_rows(v.values.len(), rows)?;
            let array = PrimitiveArray::<TimestampMicrosecondType>::new(v.values.into(), nulls);
            Ok(Arc::new(array.with_data_type(data_type.clone())))
        }
        (DataType::UInt8, Values::Uint32s(v)) => narrow::<UInt8Type, _>(&v.values, nulls, rows),
        (DataType::UInt16, Values::Uint32s(v)) => narrow::<UInt16Type, _>(&v.values, nulls, rows),
        (DataType::UInt32, Values::Uint32s(v)) => primitive::<UInt32Type>(v.values, nulls, rows),
        (DataType::UInt64, Values::Uint64s(v)) => primitive::<UInt64Type>(v.values, nulls, rows),
        (DataType::Float32, Values::Floats(v)) => primitive::<Float32Type>(v.values, nulls, rows),
        (DataType::Float64, Values::Doubles(v)) => primitive::<Float64Type>(v.values, nulls, rows),
        (DataType::Decimal128(..), Values::Int64s(v)) => {
            check_rows(v.values.len(), rows)?;
            decimals(v.values.into_iter().map(i128::from).collect(), nulls, data_type)
        }
        (DataType::Decimal128(..), Values::Int128s(v)) => {
            let (values, rest) = v.data.as_chunks::<16>();
            check_rows(values.len(), rows)?;
            if !rest.is_empty() {
                return Err(format!("{} bytes are not whole 128-bit values", v.data.len()));
            }
            decimals(values.iter().map(|b| i128::from_le_bytes(*b)).collect(), nulls, data_type)
        }
        (DataType::Utf8, Values::Texts(v)) => {
            let (offsets, data) = offsets(v, rows)?;
            Ok(Arc::new(StringArray::try_new(offsets, data, nulls).map_err(|e| e.to_string())?))
        }
        (DataType::Binary, Values::Texts(v)) => {
            let (offsets, data) = offsets(v, rows)?;
            Ok(Arc::new(BinaryArray::try_new(offsets, data, nulls).map_err(|e| e.to_string())?))
        }
        (DataType::Time64(TimeUnit::Microsecond), Values::Int64s(v)) => {
            primitive::<Time64MicrosecondType>(v.values, nulls, rows)
        }
        _ => Err("the values are not of the column's type".to_owned()),
    }
}

fn nulls(validity: Vec<u8>, rows: usize) -> Result<Option<NullBuffer>, String> {
    if validity.is_empty() {
        return Ok(None);
    }
    if validity.len() != rows.div_ceil(8) {
        return Err(format!("{} bytes of validity for {rows} rows", validity.len()));
    }
    Ok(Some(NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(validity), 0, rows))))
}

fn check_rows(values: usize, rows: usize) -> Result<(), String> {
    if values == rows { Ok(()) } else { Err(format!("{values} values for {rows} rows")) }
}

fn primitive<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
    rows: usize,
) -> Result<ArrayRef, String> {
    check_rows(values.len(), rows)?;
    Ok(Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls)))
}

/// Values in a narrower type; what lies under a null does not count.
fn narrow<T: ArrowPrimitiveType<Native: TryFrom<W>>, W: Copy + std::fmt::Display>(
    values: &[W],
    nulls: Option<NullBuffer>,
    rows: usize,
) -> Result<ArrayRef, String> {
    let is_null = |row: usize| nulls.as_ref().is_some_and(|n| n.is_null(row));
    check_rows(values.len(), rows)?;
    let narrowed = values.iter().enumerate().map(|(row, &value)| match T::Native::try_from(value) {
        Ok(value) => Ok(value),
        Err(_) if is_null(row) => Ok(T::Native::default()),
        Err(_) => Err(format!("{value} is out of the type's range")),
    });
    let narrowed = narrowed.collect::<Result<Vec<_>, _>>()?;
    primitive::<T>(narrowed, nulls, rows)
}

fn decimals(values: Vec<i128>, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef, String> {
    let DataType::Decimal128(precision, scale) = *data_type else { return Err("not a decimal".to_owned()) };
    let array = PrimitiveArray::<Decimal128Type>::new(values.into(), nulls);
    let array = array.with_precision_and_scale(precision, scale).map_err(|e| e.to_string())?;
    array.validate_decimal_precision(precision).map_err(|e| e.to_string())?;
    Ok(Arc::new(array))
}

fn offsets(texts: v1::Texts, rows: usize) -> Result<(OffsetBuffer<i32>, Buffer), String> {
    check_rows(texts.lengths.len(), rows)?;
    let total: u64 = texts.lengths.iter().map(|&l| u64::from(l)).sum();
    if total != texts.data.len() as u64 || i32::try_from(total).is_err() {
        return Err(format!("lengths of {total} bytes for {} bytes of text", texts.data.len()));
    }
    let offsets = OffsetBuffer::from_lengths(texts.lengths.iter().map(|&l| l as usize));
    Ok((offsets, Buffer::from_vec(texts.data)))
}

fn unsupported(field: &Field) -> Error {
    Error::UnsupportedType { column: field.name().clone(), data_type: field.data_type().clone() }
}

fn malformed(message: impl Into<String>) -> Error {
    Error::Malformed(message.into())
}

#[cfg(test)]
mod tests;
