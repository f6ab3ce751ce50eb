//! The messages of an Arrow IPC stream, walked before anything is read of them.
//!
//! The reader of `arrow-ipc` believes what a message says of itself: it makes room for what compressed buffers say that they
//! are, and rows of columns that take no bytes are as many as their message says. What we write has neither.

use datafusion::arrow::ipc::{MessageHeader, RecordBatch, root_as_message};

use crate::limits;

const CONTINUATION: [u8; 4] = [0xff; 4];

/// Where in a stream its next byte is.
#[derive(Debug)]
enum At {
    /// Among the eight bytes before a message, so many of which are known.
    Prefix([u8; 8], usize),
    /// Among those of a header, of which so many are to come.
    Header(Vec<u8>, usize),
    /// Among those of a body, of which so many are to come.
    Body(u64),
    End,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Framing(At);

type Checked<T> = Result<T, &'static str>;

impl Framing {
    pub(super) fn new() -> Self {
        Self(At::Prefix([0; 8], 0))
    }

    /// Goes on over the next bytes; the error says what is wrong with them.
    pub(super) fn walk(&mut self, mut piece: &[u8]) -> Checked<()> {
        let mut take = |n: usize| {
            let (taken, rest) = piece.split_at(n.min(piece.len()));
            piece = rest;
            (taken, rest.is_empty())
        };
        loop {
            let is_over;
            match &mut self.0 {
                At::Prefix(known, n) => {
                    let (taken, is_last) = take(8 - *n);
                    known[*n..*n + taken.len()].copy_from_slice(taken);
                    (*n, is_over) = (*n + taken.len(), is_last);
                    if *n == 8 {
                        self.0 = behind_prefix(*known)?;
                    }
                }
                At::Header(known, left) => {
                    let (taken, is_last) = take(*left);
                    known.extend_from_slice(taken);
                    (*left, is_over) = (*left - taken.len(), is_last);
                    if *left == 0 {
                        self.0 = At::Body(check(known)?);
                    }
                }
                At::Body(left) => {
                    let (taken, is_last) = take(usize::try_from(*left).unwrap_or(usize::MAX));
                    (*left, is_over) = (*left - taken.len() as u64, is_last);
                    if *left == 0 {
                        self.0 = At::Prefix([0; 8], 0);
                    }
                }
                At::End => {
                    return if take(1).0.is_empty() { Ok(()) } else { Err("it goes on behind its end") };
                }
            }
            // A message without a body ends with its header.
            if is_over && !matches!(self.0, At::Body(0)) {
                return Ok(());
            }
        }
    }

    /// Whether the stream has come to its end.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.0, At::End)
    }
}

fn behind_prefix(prefix: [u8; 8]) -> Checked<At> {
    let [mark @ .., a, b, c, d] = prefix;
    match usize::try_from(u32::from_le_bytes([a, b, c, d])) {
        _ if mark != CONTINUATION => Err("a message does not begin as one"),
        Ok(0) => Ok(At::End),
        Ok(length) if length <= limits::TASK_HEADER_BYTES => Ok(At::Header(Vec::new(), length)),
        _ => Err("the header of a message is too long"),
    }
}

/// Checks a header; the bytes of the body behind it.
fn check(header: &[u8]) -> Checked<u64> {
    let message = root_as_message(header).map_err(|_| "the header of a message is malformed")?;
    match message.header_type() {
        MessageHeader::Schema => {}
        MessageHeader::RecordBatch => check_rows(message.header_as_record_batch())?,
        MessageHeader::DictionaryBatch => {
            check_rows(message.header_as_dictionary_batch().and_then(|batch| batch.data()))?;
        }
        _ => return Err("a message of a type that is not sent"),
    }
    u64::try_from(message.bodyLength()).map_err(|_| "a body of less than nothing")
}

fn check_rows(batch: Option<RecordBatch<'_>>) -> Checked<()> {
    let batch = batch.ok_or("a message without a header")?;
    if batch.compression().is_some() {
        return Err("its buffers are compressed");
    }
    match u64::try_from(batch.length()).is_ok_and(|rows| rows <= limits::TASK_BATCH_ROWS) {
        true => Ok(()),
        false => Err("a batch has too many rows"),
    }
}
