//! Rows of a task as they travel: an Arrow IPC stream, in pieces.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use datafusion::{
    arrow::{
        buffer::Buffer,
        ipc::{reader::StreamDecoder, writer::StreamWriter},
    },
    execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation},
};

use super::framing::Framing;
use crate::error::{Error, Result};

/// Writes batches.
pub(super) struct Writer(StreamWriter<Vec<u8>>);

impl Writer {
    pub(super) fn new(schema: &SchemaRef) -> Result<Self> {
        Ok(Self(StreamWriter::try_new(Vec::new(), schema).map_err(unwritten)?))
    }

    /// The bytes of a batch, and of what comes before it.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<Bytes> {
        self.0.write(batch).map_err(unwritten)?;
        Ok(std::mem::take(self.0.get_mut()).into())
    }

    /// The last bytes.
    pub(super) fn finish(mut self) -> Result<Bytes> {
        self.0.finish().map_err(unwritten)?;
        Ok(std::mem::take(self.0.get_mut()).into())
    }
}

fn unwritten(error: datafusion::arrow::error::ArrowError) -> Error {
    Error::Internal(format!("rows of a task: {error}"))
}

/// Reads them. What has come of a batch is reserved until all of it is there.
pub(super) struct Reader {
    framing: Framing,
    decoder: StreamDecoder,
    piece: Buffer,
    held: MemoryReservation,
}

impl Reader {
    pub(super) fn new(pool: &Arc<dyn MemoryPool>) -> Self {
        Self {
            framing: Framing::new(),
            decoder: StreamDecoder::new(),
            piece: Buffer::from(Vec::<u8>::new()),
            held: MemoryConsumer::new("BasaltReceived").register(pool),
        }
    }

    /// The next bytes.
    pub(super) fn push(&mut self, piece: Bytes) -> Result<()> {
        self.framing.walk(&piece).map_err(unread)?;
        self.held.try_grow(piece.len())?;
        self.piece = Buffer::from(piece);
        Ok(())
    }

    /// The next batch of what is there; `None`: the next bytes are needed.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.piece.is_empty() {
            return Ok(None);
        }
        let (decoder, piece) = (&mut self.decoder, &mut self.piece);
        // It trusts the lengths in a stream, and panics on some.
        let read = catch_unwind(AssertUnwindSafe(|| decoder.decode(piece)));
        match read {
            Ok(Ok(batch)) => {
                if batch.is_some() {
                    self.held.shrink(self.held.size().saturating_sub(self.piece.len()));
                }
                Ok(batch)
            }
            Ok(Err(error)) => Err(unread(error)),
            Err(_) => Err(unread("it is malformed")),
        }
    }

    /// Fails where the stream is not whole.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.decoder.finish().map_err(unread)?;
        if self.framing.is_whole() { Ok(()) } else { Err(unread("it is cut off")) }
    }
}

fn unread(error: impl std::fmt::Display) -> Error {
    Error::Internal(format!("rows of another node's task: {error}"))
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Int64Array, NullArray, StringArray};
    use datafusion::{
        arrow::ipc::{CompressionType, writer::IpcWriteOptions},
        execution::memory_pool::GreedyMemoryPool,
    };

    use super::*;

    fn batch() -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", ""]));
        RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap()
    }

    fn stream() -> Vec<u8> {
        let mut writer = Writer::new(&batch().schema()).unwrap();
        let mut all = writer.write(&batch()).unwrap().to_vec();
        all.extend_from_slice(&writer.write(&batch().slice(1, 2)).unwrap());
        all.extend_from_slice(&writer.finish().unwrap());
        all
    }

    fn read(pieces: impl Iterator<Item = Bytes>) -> Result<Vec<RecordBatch>> {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(4096));
        let (mut reader, mut batches) = (Reader::new(&pool), Vec::new());
        for piece in pieces {
            reader.push(piece)?;
            while let Some(batch) = reader.next()? {
                batches.push(batch);
            }
        }
        reader.finish().map(|()| batches)
    }

    #[test]
    fn rows_travel_in_any_pieces() {
        let bytes = Bytes::from(stream());
        for size in [1, 7, 64, bytes.len()] {
            let pieces = (0..bytes.len()).step_by(size).map(|at| bytes.slice(at..bytes.len().min(at + size)));
            assert_eq!(read(pieces).unwrap(), [batch(), batch().slice(1, 2)]);
        }
        for end in 0..bytes.len() {
            assert!(read(std::iter::once(bytes.slice(..end))).is_err(), "{end}");
        }
    }

    /// That of one batch; the error of reading it.
    fn refused(batch: &RecordBatch, options: IpcWriteOptions) -> String {
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        writer.write(batch).unwrap();
        read(std::iter::once(writer.into_inner().unwrap().into())).unwrap_err().to_string()
    }

    #[test]
    fn what_would_take_more_than_its_bytes_is_refused() {
        let compressed = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME));
        assert!(refused(&batch(), compressed.unwrap()).contains("compressed"));
        let nothing: ArrayRef = Arc::new(NullArray::new(1 << 25));
        let many = RecordBatch::try_from_iter([("n", nothing)]).unwrap();
        assert!(refused(&many, IpcWriteOptions::default()).contains("too many rows"));
    }

    /// A body that says it is longer than memory is read for as long as there is room for what comes of it.
    #[test]
    fn a_body_without_end_is_refused() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![0; 1024]));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        let error = refused(&batch, IpcWriteOptions::default());
        assert!(error.contains("BasaltReceived"), "{error}");
    }

    #[test]
    fn garbage_is_an_error_and_no_panic() {
        let whole = stream();
        for at in 0..whole.len() {
            for value in [0x00, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let _ = read(std::iter::once(Bytes::from(bytes)));
            }
        }
    }
}
