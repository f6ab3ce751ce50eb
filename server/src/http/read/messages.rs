//! Arrow IPC streams that come in pieces of any size.

use std::collections::VecDeque;

use arrow_array::RecordBatch;
use hyper::body::Bytes;

use super::{invalid, too_large, unread};
use crate::{convert::MessageReader, limits, status::Result};

/// The messages of an Arrow IPC stream.
#[derive(Default)]
pub(super) struct Messages {
    pub(super) reader: MessageReader,
    pub(super) unread: Vec<u8>,
    is_over: bool,
}

impl Messages {
    pub(super) fn take_in(&mut self, bytes: &[u8], rows: &mut VecDeque<RecordBatch>) -> Result<()> {
        self.unread.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((header, body, end)) = self.whole(at)? {
            if header.is_empty() {
                self.is_over = true;
                at = end;
                break;
            }
            let body = self.unread.get(body..end).unwrap_or_default();
            let header = self.unread.get(header).unwrap_or_default();
            rows.extend(self.reader.read(header, Bytes::copy_from_slice(body))?);
            at = end;
        }
        self.unread.drain(..at);
        Ok(())
    }

    /// The places of the header and of the body of a message that is whole, and its end.
    fn whole(&self, at: usize) -> Result<Option<(std::ops::Range<usize>, usize, usize)>> {
        if self.is_over && self.unread.len() > at {
            return Err(invalid("bytes after the end of the stream"));
        }
        let number = |at: usize| -> Option<u32> {
            let bytes = self.unread.get(at..at + 4)?;
            <[u8; 4]>::try_from(bytes).ok().map(u32::from_le_bytes)
        };
        let Some(first) = number(at) else { return Ok(None) };
        let (size, start) = match first {
            u32::MAX => match number(at + 4) {
                Some(size) => (size as usize, at + 8),
                None => return Ok(None),
            },
            // Before Arrow 0.15.
            size => (size as usize, at + 4),
        };
        if size == 0 {
            return Ok(Some((start..start, start, start)));
        }
        if size > limits::HTTP_MESSAGE_BYTES {
            return Err(too_large("a message", limits::HTTP_MESSAGE_BYTES));
        }
        let Some(header) = self.unread.get(start..start + size) else { return Ok(None) };
        let message = arrow_ipc::root_as_message(header).map_err(unread)?;
        let body = usize::try_from(message.bodyLength()).map_err(|_| invalid("a body of negative length"))?;
        if body > limits::HTTP_MESSAGE_BYTES {
            return Err(too_large("a message", limits::HTTP_MESSAGE_BYTES));
        }
        let body_at = start + size;
        Ok((self.unread.len() >= body_at + body).then_some((start..body_at, body_at, body_at + body)))
    }

    pub(super) fn end(&self) -> Result<()> {
        if self.reader.schema().is_none() {
            return Err(invalid("the body has no Arrow stream"));
        }
        // A stream that ends without its end was cut off, unless the body ends where a message does.
        if !self.unread.is_empty() {
            return Err(invalid("the stream ends within a message"));
        }
        Ok(())
    }
}
