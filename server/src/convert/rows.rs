//! Batches of rows, on their way in: packed arrays or Arrow IPC, to Arrow arrays.

use std::{fmt, sync::Arc};

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, PrimitiveArray, RecordBatch,
    RecordBatchOptions, StringArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    types::{
        ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
        UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::SchemaRef;
use basalt_core::{
    error::{Error, ErrorKind, Result},
    fragment::check_calendar,
    limits::MAX_BATCH_ROWS,
    logical::{self, Logical},
    schema::{DataType, Field},
};
use basalt_proto::v1::{self as pb, batch::Rows, column::Values};

use super::ipc;

/// Reads the batches of one write.
#[derive(Clone, Debug)]
pub(crate) struct BatchReader {
    pub(super) fields: Arc<[Field]>,
    /// The same fields, all nullable: the engine says which nulls are wrong, and where.
    pub(super) schema: SchemaRef,
    /// The same in the forms in which the engine holds them; of rows that were read.
    pub(super) forms: SchemaRef,
    /// Of another node's answer, which has what tables of other writers have, and what is computed.
    has_any_time: bool,
}

impl BatchReader {
    /// For batches whose columns are `fields`, in this order.
    pub(crate) fn new<'a>(fields: impl IntoIterator<Item = &'a Field>) -> Self {
        let fields: Arc<[Field]> = fields.into_iter().cloned().collect();
        let arrow = |f: &Field| arrow_schema::Field::new(&f.name, f.to_arrow_type(), true);
        let schema = Arc::new(arrow_schema::Schema::new(fields.iter().map(arrow).collect::<Vec<_>>()));
        let form = |f: &Field| arrow_schema::Field::new(&f.name, f.data_type.to_arrow(), true);
        let forms = match fields.iter().all(|field| field.logical.is_none()) {
            true => Arc::clone(&schema),
            false => Arc::new(arrow_schema::Schema::new(fields.iter().map(form).collect::<Vec<_>>())),
        };
        Self { fields, schema, forms, has_any_time: false }
    }

    /// For batches of another node: it sends values in the forms in which the engine holds them.
    pub(crate) fn of_forms(fields: &[Field]) -> Self {
        let fields: Vec<_> = fields.iter().map(|f| Field { logical: None, ..f.clone() }).collect();
        Self { has_any_time: true, ..Self::new(&fields) }
    }

    /// The rows of one message as one or more batches.
    pub(crate) fn read(&self, rows: Option<Rows>) -> Result<Vec<RecordBatch>> {
        let batches = match rows {
            Some(Rows::Columns(batch)) => vec![self.columns(batch)?],
            Some(Rows::ArrowIpc(bytes)) => {
                ipc::read(&bytes, &self.fields, &self.schema).map_err(|e| e.at("arrow_ipc"))?
            }
            None => return Err(invalid("a batch without rows, or of a kind that is not known here")),
        };
        if !self.has_any_time {
            for batch in &batches {
                for (i, (array, field)) in batch.columns().iter().zip(self.fields.iter()).enumerate() {
                    check_calendar(array, field, 0).map_err(|e| e.at(format!("columns[{i}]")))?;
                }
            }
        }
        if self.fields.iter().all(|field| field.logical.is_none()) {
            return Ok(batches);
        }
        batches.into_iter().map(|batch| self.to_form(&batch, 0)).collect()
    }

    /// The rows in the forms in which the engine holds them. What is no value is told with the number of its row, of which the
    /// first one has `first`.
    pub(super) fn to_form(&self, batch: &RecordBatch, first: u64) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.fields.len());
        for (i, (array, field)) in batch.columns().iter().zip(self.fields.iter()).enumerate() {
            let form = logical::to_form_from(array, field.logical, first).map_err(|e| {
                Error::new(e.kind(), format!("column {:?}, {e}", field.name)).at(format!("columns[{i}]"))
            })?;
            columns.push(form);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.forms), columns, &options)
            .map_err(|e| invalid(e.to_string()))
    }

    fn columns(&self, batch: pb::RecordBatch) -> Result<RecordBatch> {
        let rows = batch.rows as usize;
        if rows > MAX_BATCH_ROWS {
            return Err(invalid(format!("{rows} rows; the limit is {MAX_BATCH_ROWS}")).at("rows"));
        }
        if batch.columns.len() != self.fields.len() {
            let message = format!("{} columns instead of {}", batch.columns.len(), self.fields.len());
            return Err(invalid(message).at("columns"));
        }
        let mut arrays = Vec::with_capacity(self.fields.len());
        for (i, (column, field)) in batch.columns.into_iter().zip(self.fields.iter()).enumerate() {
            arrays.push(array(column, field, rows).map_err(|e| e.at(format!("columns[{i}]")))?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|e| invalid(e.to_string()))
    }
}

fn array(column: pb::Column, field: &Field, rows: usize) -> Result<ArrayRef> {
    let nulls = validity(column.validity, rows).map_err(|e| e.at("validity"))?;
    let column_values = column.values.ok_or_else(|| invalid("a column without values"))?;
    let wrong = |given: &str| {
        let message = format!("column {:?} is {}, which is not sent as {given}", field.name, field.data_type);
        Error::new(ErrorKind::TypeMismatch, message)
    };
    if let Some(logical) = field.logical {
        return match (logical, column_values) {
            (Logical::Decimal { precision, scale }, Values::Int128s(v)) => {
                let (values, rest) = v.data.as_chunks::<16>();
                if !rest.is_empty() || values.len() != rows {
                    let message = format!("{} bytes instead of 16 for each of {rows} rows", v.data.len());
                    return Err(invalid(message));
                }
                let values: Vec<i128> = values.iter().map(|bytes| i128::from_le_bytes(*bytes)).collect();
                let decimals = Decimal128Array::new(values.into(), nulls);
                let typed = Logical::Decimal { precision, scale }.to_arrow();
                Ok(Arc::new(decimals.with_data_type(typed)))
            }
            (Logical::Binary, Values::Texts(v)) => {
                let (offsets, data) = offsets(v, rows)?;
                let array = BinaryArray::try_new(offsets, data, nulls);
                Ok(Arc::new(array.map_err(|e| invalid(e.to_string()))?))
            }
            (Logical::Time, Values::Int64s(v)) => {
                let values = ScalarBuffer::from(counted(v.values, rows)?);
                Ok(Arc::new(Time64MicrosecondArray::new(values, nulls)))
            }
            _ => Err(Error::new(
                ErrorKind::TypeMismatch,
                format!("column {:?} is {logical}, which is not sent like that", field.name),
            )),
        };
    }
    let array: ArrayRef = match (field.data_type, column_values) {
        (DataType::Bool, Values::Bools(v)) => {
            let values = BooleanBuffer::from(counted(v.values, rows)?);
            Arc::new(BooleanArray::new(values, nulls))
        }
        (DataType::Int8, Values::Int32s(v)) => narrow::<Int8Type, _>(v.values, rows, nulls)?,
        (DataType::Int16, Values::Int32s(v)) => narrow::<Int16Type, _>(v.values, rows, nulls)?,
        (DataType::Int32, Values::Int32s(v)) => as_they_are::<Int32Type>(v.values, rows, nulls)?,
        (DataType::Date32, Values::Int32s(v)) => {
            Arc::new(Date32Array::new(ScalarBuffer::from(counted(v.values, rows)?), nulls))
        }
        (DataType::Int64, Values::Int64s(v)) => as_they_are::<Int64Type>(v.values, rows, nulls)?,
        (DataType::Timestamp, Values::Int64s(v)) => {
            let values = TimestampMicrosecondArray::new(ScalarBuffer::from(counted(v.values, rows)?), nulls);
            Arc::new(values.with_timezone("UTC"))
        }
        (DataType::Decimal { .. }, Values::Int64s(v)) => {
            let values: Vec<i128> = counted(v.values, rows)?.into_iter().map(i128::from).collect();
            let decimals = Decimal128Array::new(values.into(), nulls);
            Arc::new(decimals.with_data_type(field.data_type.to_arrow()))
        }
        (DataType::UInt8, Values::Uint32s(v)) => narrow::<UInt8Type, _>(v.values, rows, nulls)?,
        (DataType::UInt16, Values::Uint32s(v)) => narrow::<UInt16Type, _>(v.values, rows, nulls)?,
        (DataType::UInt32, Values::Uint32s(v)) => as_they_are::<UInt32Type>(v.values, rows, nulls)?,
        (DataType::UInt64, Values::Uint64s(v)) => as_they_are::<UInt64Type>(v.values, rows, nulls)?,
        (DataType::Float32, Values::Floats(v)) => as_they_are::<Float32Type>(v.values, rows, nulls)?,
        (DataType::Float64, Values::Doubles(v)) => as_they_are::<Float64Type>(v.values, rows, nulls)?,
        (DataType::Utf8, Values::Texts(v)) => texts(v, rows, nulls)?,
        (_, Values::Bools(_)) => return Err(wrong("bools")),
        (_, Values::Int32s(_)) => return Err(wrong("int32s")),
        (_, Values::Int64s(_)) => return Err(wrong("int64s")),
        (_, Values::Uint32s(_)) => return Err(wrong("uint32s")),
        (_, Values::Uint64s(_)) => return Err(wrong("uint64s")),
        (_, Values::Floats(_)) => return Err(wrong("floats")),
        (_, Values::Doubles(_)) => return Err(wrong("doubles")),
        (_, Values::Texts(_)) => return Err(wrong("texts")),
        (_, Values::Int128s(_)) => return Err(wrong("int128s")),
    };
    Ok(array)
}

fn validity(bytes: Vec<u8>, rows: usize) -> Result<Option<NullBuffer>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.len() != rows.div_ceil(8) {
        return Err(invalid(format!(
            "{} bytes instead of {} for {rows} rows",
            bytes.len(),
            rows.div_ceil(8)
        )));
    }
    let nulls = NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(bytes), 0, rows));
    Ok((nulls.null_count() > 0).then_some(nulls))
}

/// The values, if there is one for every row.
fn counted<T>(values: Vec<T>, rows: usize) -> Result<Vec<T>> {
    if values.len() == rows {
        Ok(values)
    } else {
        Err(invalid(format!("{} values instead of {rows}", values.len())))
    }
}

fn as_they_are<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    Ok(Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(counted(values, rows)?), nulls)))
}

/// Values of a type that is narrower than it is sent; those under a null are ignored.
fn narrow<T, W>(values: Vec<W>, rows: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType<Native: TryFrom<W> + Default>,
    W: Copy + fmt::Display,
{
    let mut out = Vec::with_capacity(rows);
    for (row, value) in counted(values, rows)?.into_iter().enumerate() {
        out.push(match T::Native::try_from(value) {
            Ok(value) => value,
            Err(_) if nulls.as_ref().is_some_and(|n| n.is_null(row)) => T::Native::default(),
            Err(_) => {
                return Err(invalid(format!("row {row}: {value} is out of the range of {}", T::DATA_TYPE)));
            }
        });
    }
    Ok(Arc::new(PrimitiveArray::<T>::new(out.into(), nulls)))
}

fn texts(texts: pb::Texts, rows: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let (lengths, (offsets, data)) = (texts.lengths.clone(), offsets(texts, rows)?);
    let array = StringArray::try_new(offsets, data.clone(), nulls).map_err(|_| not_utf8(&lengths, &data))?;
    Ok(Arc::new(array))
}

/// Where each text ends, and all of them.
fn offsets(texts: pb::Texts, rows: usize) -> Result<(OffsetBuffer<i32>, Buffer)> {
    let lengths = counted(texts.lengths, rows)?;
    let mut offsets = Vec::with_capacity(rows + 1);
    let mut end = 0_i32;
    offsets.push(end);
    for length in &lengths {
        let next = i32::try_from(*length).ok().and_then(|length| end.checked_add(length));
        end = next.ok_or_else(|| invalid("the lengths add up to more than 2 GiB"))?;
        offsets.push(end);
    }
    if usize::try_from(end) != Ok(texts.data.len()) {
        return Err(invalid(format!("the lengths add up to {end}, the data has {} bytes", texts.data.len())));
    }
    Ok((OffsetBuffer::new(offsets.into()), Buffer::from_vec(texts.data)))
}

/// The error of texts that Arrow refuses, with the first row that is not UTF-8 by itself.
fn not_utf8(lengths: &[u32], mut data: &[u8]) -> Error {
    for (row, length) in lengths.iter().enumerate() {
        let (text, rest) = data.split_at_checked(*length as usize).unwrap_or((data, &[]));
        if std::str::from_utf8(text).is_err() {
            return invalid(format!("row {row}: the text is not UTF-8"));
        }
        data = rest;
    }
    invalid("the texts are not UTF-8")
}

pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidBatch, message)
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array as _, cast::AsArray as _};

    use super::*;

    fn read(data_type: DataType, validity: &[u8], values: Values, rows: u32) -> Result<ArrayRef> {
        let reader = BatchReader::new(&[Field::new("a", data_type, true)]);
        let columns = vec![pb::Column { validity: validity.to_vec(), values: Some(values) }];
        let batches = reader.read(Some(Rows::Columns(pb::RecordBatch { rows, columns })))?;
        Ok(Arc::clone(batches[0].column(0)))
    }

    fn int32s(values: &[i32]) -> Values {
        Values::Int32s(pb::Int32s { values: values.to_vec() })
    }

    fn texts(data: &[u8], lengths: &[u32]) -> Values {
        Values::Texts(pb::Texts { data: data.to_vec(), lengths: lengths.to_vec() })
    }

    #[test]
    fn values_arrive() {
        let array = read(DataType::Int8, &[0b101], int32s(&[-128, 4000, 127]), 3).unwrap();
        let array = array.as_primitive::<Int8Type>();
        assert_eq!(array.iter().collect::<Vec<_>>(), [Some(-128), None, Some(127)]);

        let array = read(DataType::Utf8, &[], texts("aéb".as_bytes(), &[3, 0, 1]), 3).unwrap();
        assert_eq!(array.as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["aé", "", "b"]);

        let array = read(DataType::Bool, &[], Values::Bools(pb::Bools { values: vec![] }), 0).unwrap();
        assert_eq!(array.len(), 0);
    }

    #[test]
    fn what_disagrees_is_refused_with_its_place() {
        let check = |result: Result<ArrayRef>, kind, words: &str| {
            let error = result.unwrap_err();
            assert_eq!(
                (error.kind(), error.place().is_some_and(|p| p.starts_with("columns"))),
                (kind, true),
                "{error}"
            );
            assert!(error.to_string().contains(words), "{error}");
        };
        let batch = ErrorKind::InvalidBatch;
        check(read(DataType::Int8, &[], int32s(&[1, 128]), 2), batch, "row 1: 128 is out of the range");
        check(read(DataType::Int32, &[], int32s(&[1, 128]), 3), batch, "2 values instead of 3");
        check(read(DataType::Int32, &[1, 1], int32s(&[1]), 1), batch, "(at columns[0].validity)");
        check(
            read(DataType::Int64, &[], int32s(&[1]), 1),
            ErrorKind::TypeMismatch,
            "int64, which is not sent as int32s",
        );
        check(read(DataType::Utf8, &[], texts(b"ab", &[1]), 1), batch, "add up to 1, the data has 2");
        check(read(DataType::Utf8, &[], texts(b"", &[u32::MAX]), 1), batch, "more than 2 GiB");
        check(read(DataType::Utf8, &[], texts(b"a\xff", &[1, 1]), 2), batch, "row 1: the text is not UTF-8");
        check(
            read(DataType::Utf8, &[], texts("é".as_bytes(), &[1, 1]), 2),
            batch,
            "row 0: the text is not UTF-8",
        );
    }

    #[test]
    fn counts_are_checked_first() {
        let reader = BatchReader::new(&[Field::new("a", DataType::Int8, true)]);
        let read =
            |rows, columns| reader.read(Some(Rows::Columns(pb::RecordBatch { rows, columns }))).unwrap_err();
        assert_eq!(read(u32::MAX, vec![]).place(), Some("rows"));
        assert_eq!(read(1, vec![]).place(), Some("columns"));
        assert_eq!(read(1, vec![pb::Column::default()]).place(), Some("columns[0]"));
        assert_eq!(reader.read(None).unwrap_err().kind(), ErrorKind::InvalidBatch);
    }
}
