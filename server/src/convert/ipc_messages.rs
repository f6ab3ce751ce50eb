//! Messages of Arrow IPC on their way in, one by one, with the columns that other programs write: dictionaries, views, large
//! texts. What writes to a table by `basalt.v1` is read more strictly, by [`super::ipc`].
//!
//! The reader of `arrow-ipc` takes lengths and counts as they are and panics on some. So every message is checked here first:
//! columns are of a closed list of types, whose arrays are as long as their batch, or have few elements where they stand in lists,
//! and buffers lie inside their body, one behind the other: what is made of columns that share bytes could be many times their
//! message.

use std::collections::HashMap;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::{
    Endianness, FieldNode, Message, MessageHeader, MetadataVersion, RecordBatch as IpcBatch,
    convert::fb_to_schema,
    reader::{read_dictionary, read_record_batch},
    root_as_message,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use basalt_core::{
    error::{Error, Result},
    limits::MAX_COLUMNS,
};
use prost::bytes::Bytes;

use super::rows::invalid;
use crate::{limits, panics};

/// Reads the messages of one stream.
#[derive(Debug, Default)]
pub(crate) struct MessageReader {
    schema: Option<SchemaRef>,
    dictionaries: HashMap<i64, ArrayRef>,
    /// Bytes of the messages in which each of them came: its texts lie there.
    kept: HashMap<i64, u64>,
}

impl MessageReader {
    /// The columns, once their message was read.
    pub(crate) fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// Bytes that dictionaries take until the stream ends.
    pub(crate) fn held(&self) -> u64 {
        self.kept.values().fold(0, |held, bytes| held.saturating_add(*bytes))
    }

    /// Reads a message; the answer is its rows, if it has any.
    pub(crate) fn read(&mut self, header: &[u8], body: Bytes) -> Result<Option<RecordBatch>> {
        let message =
            root_as_message(header).map_err(|error| invalid(format!("a message is malformed: {error}")))?;
        if !matches!(message.version(), MetadataVersion::V4 | MetadataVersion::V5) {
            return Err(invalid(format!("a message of version {:?}", message.version())));
        }
        // Of what was not thought of, nobody but this stream hears.
        let read = panics::reading(|| self.message(&message, Buffer::from(body)));
        read.unwrap_or_else(|| Err(invalid("a message that cannot be read")))
    }

    fn message(&mut self, message: &Message<'_>, body: Buffer) -> Result<Option<RecordBatch>> {
        match message.header_type() {
            MessageHeader::Schema => {
                if self.schema.is_some() {
                    return Err(invalid("a second schema"));
                }
                self.schema = Some(schema(message)?.into());
                Ok(None)
            }
            MessageHeader::RecordBatch => {
                let schema = self.schema.clone().ok_or_else(no_schema)?;
                let batch = message.header_as_record_batch().ok_or_else(headless)?;
                let fields = schema.fields().iter();
                check(&batch, &body, &fields.map(|field| field.data_type()).collect::<Vec<_>>())?;
                let rows =
                    read_record_batch(&body, batch, schema, &self.dictionaries, None, &message.version());
                rows.map(Some).map_err(unread)
            }
            MessageHeader::DictionaryBatch => {
                let schema = self.schema.clone().ok_or_else(no_schema)?;
                let batch = message.header_as_dictionary_batch().ok_or_else(headless)?;
                // Dictionaries have values without others inside.
                check(&batch.data().ok_or_else(headless)?, &body, &[&DataType::Null])?;
                self.keep(batch.id(), batch.isDelta(), body.len() as u64)?;
                read_dictionary(&body, batch, &schema, &mut self.dictionaries, &message.version())
                    .map_err(unread)?;
                Ok(None)
            }
            other => Err(invalid(format!("a message of type {other:?}"))),
        }
    }

    /// Counts a dictionary that comes in so many bytes, in the place of the one before, or behind it.
    fn keep(&mut self, id: i64, is_delta: bool, bytes: u64) -> Result<()> {
        let kept = self.kept.entry(id).or_default();
        *kept = if is_delta { kept.saturating_add(bytes) } else { bytes };
        if self.held() > limits::FOREIGN_DICTIONARY_BYTES {
            let most = limits::FOREIGN_DICTIONARY_BYTES >> 20;
            return Err(invalid(format!("dictionaries of more than {most} MiB")));
        }
        Ok(())
    }
}

fn no_schema() -> Error {
    invalid("the stream does not begin with a schema")
}

fn headless() -> Error {
    invalid("a message without a header")
}

fn unread(error: arrow_schema::ArrowError) -> Error {
    invalid(format!("a message cannot be read: {error}"))
}

/// The columns of a stream, all of types that can be read.
fn schema(message: &Message<'_>) -> Result<Schema> {
    let schema = message.header_as_schema().ok_or_else(headless)?;
    if schema.endianness() != Endianness::Little {
        return Err(invalid("the stream is big-endian"));
    }
    let columns = schema.fields().map_or(0, |fields| fields.len());
    if columns > MAX_COLUMNS {
        return Err(invalid(format!("{columns} columns; the limit is {MAX_COLUMNS}")).at("columns"));
    }
    let schema = fb_to_schema(schema);
    let parts = schema.fields().iter().map(|field| parts(field.data_type())).sum::<usize>();
    if parts > limits::FOREIGN_PARTS {
        let most = limits::FOREIGN_PARTS;
        return Err(invalid(format!("columns of {parts} parts; the limit is {most}")).at("columns"));
    }
    for (i, field) in schema.fields().iter().enumerate() {
        if !is_read(field.data_type()) {
            let message = format!("column {:?} is {}, which is not read", field.name(), field.data_type());
            return Err(invalid(message).at(format!("columns[{i}]")));
        }
    }
    Ok(schema)
}

/// How many arrays a column has, itself among them.
fn parts(data_type: &DataType) -> usize {
    let inside = inside(data_type).into_iter();
    inside.fold(1, |sum, field| sum.saturating_add(parts(field.data_type())))
}

/// What is inside of a list, a struct or a map.
fn inside(data_type: &DataType) -> Vec<&Field> {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => vec![field.as_ref()],
        DataType::Struct(fields) => fields.iter().map(|field| field.as_ref()).collect(),
        _ => Vec::new(),
    }
}

/// Types of values, and those with others inside that have a node for each: dictionaries are of texts and numbers.
fn is_read(data_type: &DataType) -> bool {
    match data_type {
        // A map is one of entries, which are structs of two fields.
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => fields.len() == 2 && is_read(entries.data_type()),
            _ => false,
        },
        DataType::FixedSizeList(field, size) => *size >= 0 && is_read(field.data_type()),
        DataType::List(_) | DataType::LargeList(_) | DataType::Struct(_) => {
            inside(data_type).into_iter().all(|field| is_read(field.data_type()))
        }
        DataType::Null
        | DataType::Boolean
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Date32
        | DataType::Date64
        | DataType::Timestamp(..) => true,
        DataType::Dictionary(_, values) => {
            !matches!(**values, DataType::Dictionary(..)) && inside(values).is_empty() && is_read(values)
        }
        other => other.is_numeric(),
    }
}

/// Nodes on their way through the columns that they are of.
struct Nodes<I> {
    nodes: I,
    /// Values that may come still.
    left: usize,
}

impl<'a, I: Iterator<Item = &'a FieldNode>> Nodes<I> {
    /// Checks those of a column of so many rows; of elements of a list there may be any number, as long as values are few.
    /// `None`: one is not as it should be.
    fn check(&mut self, data_type: &DataType, rows: Option<usize>) -> Option<()> {
        let node = self.nodes.next()?;
        let length = usize::try_from(node.length()).ok()?;
        let nulls = usize::try_from(node.null_count()).ok()?;
        if rows.is_some_and(|rows| rows != length) || nulls > length {
            return None;
        }
        self.left = self.left.checked_sub(length)?;
        let rows = match data_type {
            DataType::Struct(_) => Some(length),
            DataType::FixedSizeList(_, size) => Some(length.checked_mul(usize::try_from(*size).ok()?)?),
            _ => None,
        };
        inside(data_type).into_iter().try_for_each(|field| self.check(field.data_type(), rows))
    }
}

/// Checks the counts of a batch of columns of these types before anything is made of them.
fn check(batch: &IpcBatch<'_>, body: &Buffer, types: &[&DataType]) -> Result<()> {
    let columns = types.len();
    let wrong = || invalid("a record batch whose header disagrees with its body or the schema");
    if batch.compression().is_some() {
        return Err(invalid("compressed buffers, which are not read here"));
    }
    let rows = usize::try_from(batch.length()).ok().filter(|rows| *rows <= limits::FOREIGN_BATCH_ROWS);
    let Some(rows) = rows else {
        let most = limits::FOREIGN_BATCH_ROWS;
        return Err(invalid(format!("a batch of {} rows; the limit is {most}", batch.length())));
    };
    if rows.saturating_mul(columns) > limits::FOREIGN_BATCH_VALUES {
        let most = limits::FOREIGN_BATCH_VALUES;
        return Err(invalid(format!(
            "a batch of {rows} rows of {columns} columns; the limit is {most} values"
        )));
    }
    let nodes = batch.nodes().ok_or_else(wrong)?;
    let mut nodes = Nodes { nodes: nodes.into_iter(), left: limits::FOREIGN_BATCH_VALUES };
    for data_type in types {
        nodes.check(data_type, Some(rows)).ok_or_else(wrong)?;
    }
    if nodes.nodes.next().is_some() {
        return Err(wrong());
    }
    let buffers = batch.buffers().ok_or_else(wrong)?;
    let mut free = 0;
    for buffer in buffers {
        let start = usize::try_from(buffer.offset()).map_err(|_| wrong())?;
        let length = usize::try_from(buffer.length()).map_err(|_| wrong())?;
        let end = start.checked_add(length).filter(|end| *end <= body.len()).ok_or_else(wrong)?;
        // An empty buffer may stand anywhere: writers differ in where they put one.
        if length > 0 {
            if start < free {
                return Err(wrong());
            }
            free = end;
        }
    }
    // Default: without views there are no such counts.
    let views = batch.variadicBufferCounts().into_iter().flatten();
    let mut left = buffers.len();
    for count in views {
        left = usize::try_from(count).ok().and_then(|count| left.checked_sub(count)).ok_or_else(wrong)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        Array as _, BooleanArray, Decimal128Array, DictionaryArray, FixedSizeListArray, Int64Array,
        ListArray, NullArray, StringArray, StringViewArray, StructArray,
        builder::{Int32Builder, MapBuilder, StringBuilder},
        types::Int8Type,
    };
    use arrow_buffer::OffsetBuffer;
    use arrow_ipc::writer::StreamWriter;

    use super::*;

    fn batch() -> RecordBatch {
        let words = ["a", "b", "a long text that is in a buffer of its own"];
        let dictionary: DictionaryArray<Int8Type> = words.into_iter().map(Some).collect();
        let items: ArrayRef = Arc::new(dictionary.clone());
        let item = |array: &ArrayRef| Arc::new(Field::new_list_field(array.data_type().clone(), true));
        let list = ListArray::new(item(&items), OffsetBuffer::from_lengths([2, 0, 1]), items, None);
        let pairs: ArrayRef = Arc::new(Int64Array::from_iter_values(0..6));
        let pairs: ArrayRef = Arc::new(FixedSizeListArray::new(item(&pairs), 2, pairs, None));
        let fields = vec![Field::new("p", pairs.data_type().clone(), true)];
        let nulls = Some(vec![true, false, true].into());
        let of_pairs = StructArray::new(fields.into(), vec![pairs], nulls);
        let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        for i in 0..3 {
            map.keys().append_value(format!("k{i}"));
            map.values().append_option((i != 1).then_some(i));
            map.append(i != 2).unwrap();
        }
        let columns: [(&str, ArrayRef); 10] = [
            ("l", Arc::new(list)),
            ("p", Arc::new(of_pairs)),
            ("map", Arc::new(map.finish())),
            ("i", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
            ("t", Arc::new(StringArray::from(words.to_vec()))),
            ("v", Arc::new(StringViewArray::from(words.to_vec()))),
            ("d", Arc::new(dictionary)),
            ("b", Arc::new(BooleanArray::from(vec![true, false, true]))),
            ("n", Arc::new(NullArray::new(3))),
            ("m", Arc::new(Decimal128Array::from(vec![1, 2, 3]))),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
    }

    /// The headers and the bodies of a stream's messages.
    fn messages(batch: &RecordBatch) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        writer.write(batch).unwrap();
        let (stream, mut at, mut messages) = (writer.into_inner().unwrap(), 0, Vec::new());
        loop {
            let size = u32::from_le_bytes(stream[at + 4..at + 8].try_into().unwrap()) as usize;
            if size == 0 {
                return messages;
            }
            let header = stream[at + 8..at + 8 + size].to_vec();
            let length = usize::try_from(root_as_message(&header).unwrap().bodyLength()).unwrap();
            let body = stream[at + 8 + size..at + 8 + size + length].to_vec();
            at += 8 + size + length;
            messages.push((header, body));
        }
    }

    fn read(messages: &[(Vec<u8>, Vec<u8>)]) -> Result<Vec<RecordBatch>> {
        let mut reader = MessageReader::default();
        let mut batches = Vec::new();
        for (header, body) in messages {
            batches.extend(reader.read(header, Bytes::from(body.clone()))?);
        }
        Ok(batches)
    }

    #[test]
    fn what_other_programs_write_is_read() {
        assert_eq!(read(&messages(&batch())).unwrap(), [batch()]);
    }

    #[test]
    fn a_stream_begins_with_one_schema() {
        let messages = messages(&batch());
        assert!(read(&messages[1..]).unwrap_err().to_string().contains("begin with a schema"));
        let twice = [messages[0].clone(), messages[0].clone()];
        assert!(read(&twice).unwrap_err().to_string().contains("a second schema"));
    }

    #[test]
    fn dictionaries_are_counted_as_long_as_they_are_kept() {
        let messages = messages(&batch());
        let dictionary = messages.iter().find(|(header, _)| {
            root_as_message(header).unwrap().header_type() == MessageHeader::DictionaryBatch
        });
        let (header, body) = dictionary.unwrap();
        let mut reader = MessageReader::default();
        assert!(reader.read(&messages[0].0, Bytes::new()).unwrap().is_none());
        assert_eq!(reader.held(), 0);
        // One that comes again takes the place of the other.
        for _ in 0..3 {
            assert!(reader.read(header, Bytes::from(body.clone())).unwrap().is_none());
            assert_eq!(reader.held(), body.len() as u64);
        }
        // What lies behind it in its message is kept as well.
        let most = usize::try_from(limits::FOREIGN_DICTIONARY_BYTES).unwrap();
        let mut long = body.clone();
        long.resize(most + 1, 0);
        let error = reader.read(header, Bytes::from(long)).unwrap_err();
        assert!(error.to_string().contains("dictionaries of more than 64 MiB"), "{error}");
    }

    #[test]
    fn rows_of_nothing_are_not_any_number() {
        let of = |rows: usize| {
            let nulls = |i: usize| (format!("n{i}"), Arc::new(NullArray::new(rows)) as ArrayRef, true);
            messages(&RecordBatch::try_from_iter_with_nullable((0..100).map(nulls)).unwrap())
        };
        assert_eq!(read(&of(1 << 20)).unwrap()[0].num_rows(), 1 << 20);
        let error = read(&of(1 << 24)).unwrap_err().to_string();
        assert!(error.contains("a batch of 16777216 rows of 100 columns"), "{error}");
    }

    /// A list may say of elements that take no bytes that it has any number of them.
    #[test]
    fn elements_of_lists_are_not_any_number() {
        let of = |length: i32| {
            let nulls = NullArray::new(usize::try_from(length).unwrap());
            let item = Arc::new(Field::new_list_field(DataType::Null, true));
            let offsets = OffsetBuffer::new(vec![0, length].into());
            let list = ListArray::new(item, offsets, Arc::new(nulls), None);
            messages(&RecordBatch::try_from_iter([("l", Arc::new(list) as ArrayRef)]).unwrap())
        };
        assert_eq!(read(&of(1 << 20)).unwrap()[0].num_rows(), 1);
        assert!(read(&of(i32::MAX)).unwrap_err().to_string().contains("disagrees with its body"));
    }

    /// What is made of them could be many times the message.
    #[test]
    fn columns_that_share_bytes_are_refused() {
        let column = || -> ArrayRef { Arc::new(Int64Array::from_iter_values(0..8)) };
        let batch = RecordBatch::try_from_iter([("a", column()), ("b", column())]).unwrap();
        let mut messages = messages(&batch);
        assert_eq!(read(&messages).unwrap(), [batch]);
        // Where the header says that values lie: an offset, then the length.
        let header = &mut messages[1].0;
        let message = root_as_message(header).unwrap();
        let buffers = message.header_as_record_batch().unwrap().buffers().unwrap();
        let begin = buffers.bytes().as_ptr().addr() - header.as_ptr().addr();
        let places: Vec<usize> =
            (0..buffers.len()).filter(|at| buffers.get(*at).length() > 1).map(|at| begin + at * 16).collect();
        let [first, last] = places[..] else { panic!("{places:?}") };
        header.copy_within(first..first + 8, last);
        assert!(read(&messages).unwrap_err().to_string().contains("disagrees with its body"));
    }

    /// Every field of every header with other bytes, and bodies that end early: rows or an error, no panic and nothing
    /// beyond the batch.
    #[test]
    fn what_is_broken_is_an_error() {
        let messages = messages(&batch());
        let mut refused = 0;
        for (i, (header, body)) in messages.iter().enumerate() {
            let try_with = |header: Vec<u8>, body: Vec<u8>| {
                let mut changed = messages.clone();
                changed[i] = (header, body);
                match read(&changed) {
                    Ok(batches) => assert!(batches.iter().all(|batch| batch.num_rows() <= 4), "{batches:?}"),
                    Err(_) => return 1,
                }
                0
            };
            for at in 0..header.len() {
                for (width, byte) in [(1, 0x00), (1, 0x7f), (1, 0xff), (8, 0x00), (8, 0x7f), (8, 0xff)] {
                    let mut header = header.clone();
                    let end = (at + width).min(header.len());
                    header[at..end].fill(byte);
                    refused += try_with(header, body.clone());
                }
            }
            for end in 0..body.len() {
                refused += try_with(header.clone(), body[..end].to_vec());
            }
        }
        assert!(refused > 1000, "{refused}");
    }
}
