//! Arrow IPC streams on their way in.
//!
//! The readers of `arrow-ipc` trust the lengths in a stream: they allocate by them, and panic on some. So the
//! stream is walked here: every message is verified, the schema is compared with the expected one instead of
//! being converted, and an array is made of buffers that lie inside their body, by the constructor that
//! validates all it is given.

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_ipc::{
    DateUnit, Endianness, Field as IpcField, Message, MessageHeader, Precision, RecordBatch as IpcBatch,
    TimeUnit, Type, root_as_message,
};
use arrow_schema::SchemaRef;
use basalt_core::{
    error::{Error, ErrorKind, Result},
    limits::MAX_BATCH_ROWS,
    logical::Logical,
    schema::{DataType, Field},
};
use prost::bytes::Bytes;

use super::rows::invalid;

/// Before each message; streams older than Arrow 0.15 lack it.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Reads a stream whose columns are `fields`; `schema` is their Arrow schema.
pub(super) fn read(bytes: &Bytes, fields: &[Field], schema: &SchemaRef) -> Result<Vec<RecordBatch>> {
    let mut stream = Stream { rest: Buffer::from(bytes.clone()) };
    let (message, _) = stream.next()?.ok_or_else(|| invalid("the stream is empty"))?;
    check_schema(&parse(&message)?, fields)?;

    let (mut batches, mut rows) = (Vec::new(), 0);
    while let Some((message, body)) = stream.next()? {
        let message = parse(&message)?;
        let batch = match message.header_type() {
            MessageHeader::RecordBatch => message.header_as_record_batch(),
            other => {
                return Err(invalid(format!("a message of type {other:?} where a record batch is expected")));
            }
        };
        let batch = batch.ok_or_else(|| invalid("a record batch without a header"))?;
        let batch = decode(&batch, &body, fields, schema)?;
        rows += batch.num_rows();
        if rows > MAX_BATCH_ROWS {
            return Err(invalid(format!("more than {MAX_BATCH_ROWS} rows")));
        }
        batches.push(batch);
    }
    Ok(batches)
}

fn parse(bytes: &[u8]) -> Result<Message<'_>> {
    root_as_message(bytes).map_err(|e| invalid(format!("a message is malformed: {e}")))
}

/// The messages of a stream.
struct Stream {
    rest: Buffer,
}

impl Stream {
    /// The next message and its body; `None` at the end of the stream.
    fn next(&mut self) -> Result<Option<(Buffer, Buffer)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut size = self.take(4)?;
        if size.as_slice() == CONTINUATION {
            size = self.take(4)?;
        }
        let size = <[u8; 4]>::try_from(size.as_slice()).map_or(0, u32::from_le_bytes);
        if size == 0 {
            return if self.rest.is_empty() {
                Ok(None)
            } else {
                Err(invalid("bytes after the end of the stream"))
            };
        }
        let message = self.take(size as usize)?;
        let length = usize::try_from(parse(&message)?.bodyLength());
        let body = self.take(length.map_err(|_| invalid("a body of negative length"))?)?;
        Ok(Some((message, body)))
    }

    fn take(&mut self, n: usize) -> Result<Buffer> {
        if n > self.rest.len() {
            return Err(invalid(format!("the stream ends {} bytes too early", n - self.rest.len())));
        }
        let taken = self.rest.slice_with_length(0, n);
        self.rest.advance(n);
        Ok(taken)
    }
}

fn check_schema(message: &Message<'_>, fields: &[Field]) -> Result<()> {
    let schema =
        message.header_as_schema().ok_or_else(|| invalid("the stream does not begin with a schema"))?;
    if schema.endianness() != Endianness::Little {
        return Err(invalid("the stream is big-endian"));
    }
    let given = schema.fields().ok_or_else(|| invalid("a schema without fields"))?;
    if given.len() != fields.len() {
        return Err(invalid(format!("{} columns instead of {}", given.len(), fields.len())).at("columns"));
    }
    for (i, (given, field)) in given.iter().zip(fields).enumerate() {
        let place = format!("columns[{i}]");
        let name = given.name().unwrap_or_default();
        if name != field.name {
            return Err(invalid(format!("column {name:?} where {:?} is expected", field.name)).at(place));
        }
        if !field.logical.map_or_else(|| has_type(&given, field.data_type), |l| has_outer_type(&given, l)) {
            let plain = if given.dictionary().is_some() { "dictionary-encoded " } else { "" };
            let message =
                format!("column {name:?} is {}, not {plain}{:?}", field.type_name(), given.type_type());
            return Err(Error::new(ErrorKind::TypeMismatch, message).at(place));
        }
    }
    Ok(())
}

/// Whether a field has the Arrow type of what a column holds in the form of another.
fn has_outer_type(field: &IpcField<'_>, logical: Logical) -> bool {
    field.dictionary().is_none()
        && match logical {
            Logical::Decimal { scale, .. } => {
                field.type_as_decimal().is_some_and(|d| d.bitWidth() == 128 && d.scale() == i32::from(scale))
            }
            Logical::Binary => field.type_type() == Type::Binary,
            Logical::Time => {
                field.type_as_time().is_some_and(|t| t.unit() == TimeUnit::MICROSECOND && t.bitWidth() == 64)
            }
        }
}

/// Whether a field has exactly the Arrow type of a logical one; any time zone will do for an instant.
fn has_type(field: &IpcField<'_>, data_type: DataType) -> bool {
    let int =
        |bits, signed| field.type_as_int().is_some_and(|i| i.bitWidth() == bits && i.is_signed() == signed);
    let float = |precision| field.type_as_floating_point().is_some_and(|f| f.precision() == precision);
    field.dictionary().is_none()
        && match data_type {
            DataType::Bool => field.type_type() == Type::Bool,
            DataType::Int8 => int(8, true),
            DataType::Int16 => int(16, true),
            DataType::Int32 => int(32, true),
            DataType::Int64 => int(64, true),
            DataType::UInt8 => int(8, false),
            DataType::UInt16 => int(16, false),
            DataType::UInt32 => int(32, false),
            DataType::UInt64 => int(64, false),
            DataType::Float32 => float(Precision::SINGLE),
            DataType::Float64 => float(Precision::DOUBLE),
            DataType::Decimal { scale, .. } => {
                field.type_as_decimal().is_some_and(|d| d.bitWidth() == 128 && d.scale() == i32::from(scale))
            }
            DataType::Date32 => field.type_as_date().is_some_and(|d| d.unit() == DateUnit::DAY),
            DataType::Timestamp => {
                field.type_as_timestamp().is_some_and(|t| t.unit() == TimeUnit::MICROSECOND)
            }
            DataType::Utf8 => field.type_type() == Type::Utf8,
        }
}

fn decode(batch: &IpcBatch<'_>, body: &Buffer, fields: &[Field], schema: &SchemaRef) -> Result<RecordBatch> {
    let wrong = || invalid("a record batch whose header disagrees with its body or the schema");
    if batch.compression().is_some() {
        return Err(invalid("compressed buffers, which are not read here"));
    }
    let rows = usize::try_from(batch.length()).ok().filter(|rows| *rows <= MAX_BATCH_ROWS);
    let rows =
        rows.ok_or_else(|| invalid(format!("{} rows; the limit is {MAX_BATCH_ROWS}", batch.length())))?;
    let nodes = batch.nodes().ok_or_else(wrong)?;
    if nodes.len() != fields.len() {
        return Err(wrong());
    }
    let mut buffers = batch.buffers().ok_or_else(wrong)?.iter();
    // The next buffer, cut to the bytes that are used. It is copied: messages arrive at any address, arrays
    // are aligned. Buffers lie one behind the other, so that the copies are no larger than the message.
    let mut free = 0;
    let mut next = |used: Option<usize>| {
        let buffer = buffers.next()?;
        let (start, length) =
            (usize::try_from(buffer.offset()).ok()?, usize::try_from(buffer.length()).ok()?);
        let end = start.checked_add(length)?;
        // An empty buffer may stand anywhere: writers differ in where they put one.
        if length > 0 {
            free = if start >= free { end } else { return None };
        }
        let bytes = body.get(start..end)?;
        bytes.get(..used.unwrap_or(bytes.len())).map(Buffer::from_slice_ref)
    };
    let mut columns = Vec::with_capacity(fields.len());
    for (i, (node, arrow)) in nodes.iter().zip(schema.fields()).enumerate() {
        let has_nulls = node.null_count() != 0;
        let validity = next(Some(if has_nulls { rows.div_ceil(8) } else { 0 })).ok_or_else(wrong)?;
        let validity = has_nulls.then_some(validity);
        let mut values = Vec::with_capacity(2);
        match arrow.data_type() {
            arrow_schema::DataType::Utf8 | arrow_schema::DataType::Binary => {
                values.push(next(Some(if rows > 0 { 4 * (rows + 1) } else { 0 })).ok_or_else(wrong)?);
                values.push(next(None).ok_or_else(wrong)?);
            }
            arrow_schema::DataType::Boolean => values.push(next(Some(rows.div_ceil(8))).ok_or_else(wrong)?),
            _ => {
                let width = arrow.data_type().primitive_width().ok_or_else(wrong)?;
                values.push(next(Some(rows * width)).ok_or_else(wrong)?);
            }
        }
        if node.length() != batch.length() {
            return Err(wrong());
        }
        let data = ArrayData::try_new(arrow.data_type().clone(), rows, validity, 0, values, Vec::new());
        let array: ArrayRef =
            make_array(data.map_err(|e| invalid(e.to_string()).at(format!("columns[{i}]")))?);
        columns.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(|e| invalid(e.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BooleanArray, Int64Array, StringArray};
    use arrow_ipc::writer::StreamWriter;

    use super::*;
    use crate::convert::BatchReader;
    use basalt_proto::v1::batch::Rows;

    fn fields() -> Vec<Field> {
        vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", DataType::Utf8, true),
            Field::new("c", DataType::Bool, true),
        ]
    }

    fn batch() -> RecordBatch {
        let columns: [(&str, ArrayRef); 3] = [
            ("a", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
            ("b", Arc::new(StringArray::from(vec![Some("x"), Some("é"), None]))),
            ("c", Arc::new(BooleanArray::from(vec![true, false, true]))),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
    }

    fn stream(batches: &[RecordBatch]) -> Vec<u8> {
        let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.into_inner().unwrap()
    }

    fn read(bytes: Vec<u8>) -> Result<Vec<RecordBatch>> {
        BatchReader::new(&fields()).read(Some(Rows::ArrowIpc(bytes.into())))
    }

    #[test]
    fn reads_what_arrow_writes() {
        let batches = read(stream(&[batch(), batch().slice(1, 2)])).unwrap();
        assert_eq!(batches, [batch(), batch().slice(1, 2)]);
    }

    #[test]
    fn another_schema_is_refused() {
        let check = |batch: RecordBatch, kind, words: &str| {
            let error = read(stream(&[batch])).unwrap_err();
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains(words), "{error}");
        };
        check(
            batch().project(&[0, 1]).unwrap(),
            ErrorKind::InvalidBatch,
            "2 columns instead of 3 (at arrow_ipc.columns)",
        );
        check(batch().project(&[1, 0, 2]).unwrap(), ErrorKind::InvalidBatch, "\"b\" where \"a\" is expected");
        let (a, b) = (Arc::clone(batch().column(0)), Arc::clone(batch().column(1)));
        let swapped = RecordBatch::try_from_iter([("a", b), ("b", Arc::clone(&a)), ("c", a)]).unwrap();
        check(swapped, ErrorKind::TypeMismatch, "(at arrow_ipc.columns[0])");
        check(
            RecordBatch::new_empty(Arc::new(arrow_schema::Schema::empty())),
            ErrorKind::InvalidBatch,
            "0 columns",
        );
    }

    /// Every buffer is copied, so columns that share bytes could make a small message large.
    #[test]
    fn buffers_that_overlap_are_refused() {
        let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int64, false));
        let read = |bytes: Vec<u8>| BatchReader::new(&fields).read(Some(Rows::ArrowIpc(bytes.into())));
        let column = || -> ArrayRef { Arc::new(Int64Array::from_iter_values(0..8)) };
        let good = stream(&[RecordBatch::try_from_iter([("a", column()), ("b", column())]).unwrap()]);
        assert_eq!(read(good.clone()).unwrap()[0].num_rows(), 8);
        // Where the header says that 64 bytes of values lie: an offset, then the length.
        let number = |at: usize| i64::from_le_bytes(good[at..at + 8].try_into().unwrap());
        let is_values =
            |at: &usize| number(at + 8) == 64 && (0..512).contains(&number(*at)) && number(*at) % 8 == 0;
        let places: Vec<usize> = (0..good.len() - 16).step_by(8).filter(is_values).collect();
        let (first, last) = (places[0], places[places.len() - 1]);
        assert_ne!(number(first), number(last));
        let mut bad = good.clone();
        bad.copy_within(first..first + 8, last);
        assert_eq!(read(bad).unwrap_err().kind(), ErrorKind::InvalidBatch);
    }

    /// Fills every field of one, four and eight bytes with extreme values, and cuts the stream everywhere:
    /// that may be an error or other rows, never a panic or a large allocation.
    #[test]
    fn hostile_bytes_do_no_harm() {
        let good = stream(&[batch()]);
        for end in 0..good.len() {
            let _ = read(good[..end].to_vec());
        }
        for width in [1, 4, 8] {
            for at in 0..=good.len() - width {
                for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                    let mut bad = good.clone();
                    bad[at..at + width].fill(value);
                    let _ = read(bad);
                }
            }
        }
        assert_eq!(read(vec![0xff; 64]).unwrap_err().kind(), ErrorKind::InvalidBatch);
        assert_eq!(read(vec![]).unwrap_err().place(), Some("arrow_ipc"));
    }
}
