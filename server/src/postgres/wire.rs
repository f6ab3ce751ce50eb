//! Messages on a connection: what is read is bounded before there is memory for it, and what is written waits for the
//! client, for a while.
//!
//! The messages of clients are read here, where every count is held against the bytes that are there, and a text that is
//! no UTF-8 is an error; those of the server are the crate `pgwire`'s.

use std::{io, str, sync::Arc};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use pgwire::messages::Message;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::{Duration, Instant, timeout, timeout_at},
};

use super::error::{Error, Result};
use crate::{
    environment::Stream,
    limits,
    memory::{Consumer, Reservation},
    pace::Pace,
    state::State,
};

/// Why there is no next message.
#[derive(Debug)]
pub(super) enum End {
    /// The client is gone, or takes nothing.
    Gone,
    /// It is told why the connection ends.
    Error(Error),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// A message of a client.
#[derive(Debug)]
pub(super) enum Frontend {
    Query(String),
    Parse {
        name: String,
        sql: String,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe {
        target: Target,
        name: String,
    },
    Execute {
        portal: String,
        rows: i32,
    },
    Close {
        target: Target,
        name: String,
    },
    Flush,
    Sync,
    Terminate,
    /// Bytes of the rows of a COPY.
    CopyData(Bytes),
    /// There are no more of them.
    CopyDone,
    /// There are none, and why.
    CopyFail(String),
}

/// See [`Frontend`].
#[derive(Debug)]
pub(super) struct Bind {
    pub(super) portal: String,
    pub(super) statement: String,
    pub(super) formats: Vec<i16>,
    /// `None`: NULL.
    pub(super) parameters: Vec<Option<Bytes>>,
    pub(super) results: Vec<i16>,
}

/// What is described or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Statement,
    Portal,
}

/// A connection.
pub(super) struct Wire {
    stream: Box<dyn Stream>,
    input: BytesMut,
    output: BytesMut,
    /// Of the message that is read.
    message: Reservation,
    /// Of whoever is there.
    pace: Option<Arc<Pace>>,
    /// Bytes that have come since it was asked.
    come: u64,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl Wire {
    pub(super) fn new(stream: Box<dyn Stream>, state: &State) -> Self {
        let message = state.memory.reserve(Consumer::Messages);
        Self { stream, input: BytesMut::new(), output: BytesMut::new(), message, pace: None, come: 0 }
    }

    /// Sends and reads at a pace from now on.
    pub(super) fn keep_pace(&mut self, pace: Option<Arc<Pace>>) {
        self.pace = pace;
    }

    /// The bytes of the first message, with its length; it has no type.
    pub(super) async fn first(&mut self) -> std::result::Result<BytesMut, End> {
        self.fill(4).await?;
        let length = self.length(0)?;
        if !(8..=limits::POSTGRES_STARTUP_BYTES).contains(&length) {
            return Err(Error::protocol("invalid length of startup packet").fatal().into());
        }
        self.fill(length).await?;
        Ok(self.input.split_to(length))
    }

    /// Whether a Sync is what has come behind the message in hand: the client waits for the answer to that.
    pub(super) fn syncs(&self) -> bool {
        self.input.first() == Some(&b'S')
    }

    /// Waits until the next message begins.
    pub(super) async fn begins(&mut self) -> std::result::Result<(), End> {
        self.fill(1).await
    }

    /// The next message, or what is wrong in it, with its type. One that has begun arrives within a time. Where the rows of no
    /// COPY are awaited many of them are passed over: the message is there, without them. That is not to be dropped midway.
    pub(super) async fn message(&mut self, copies: bool) -> std::result::Result<(u8, Result<Frontend>), End> {
        let come = std::mem::take(&mut self.come);
        if let Some(pace) = &self.pace {
            pace.wait(come).await;
        }
        self.begins().await?;
        let until = Instant::now() + limits::MESSAGE_TIMEOUT;
        timeout_at(until, self.rest(copies)).await.unwrap_or_else(|_| {
            Err(Error::protocol("a message that had begun did not arrive in time").fatal().into())
        })
    }

    /// What a client says about who it is: the body of a message of that kind.
    pub(super) async fn password(&mut self) -> std::result::Result<Bytes, End> {
        let until = Instant::now() + limits::POSTGRES_STARTUP_TIMEOUT;
        timeout_at(until, self.said()).await.unwrap_or(Err(End::Gone))
    }

    async fn said(&mut self) -> std::result::Result<Bytes, End> {
        self.fill(5).await?;
        let length = self.length(1)?;
        let fits = (4..=limits::POSTGRES_SMALL_MESSAGE_BYTES).contains(&length);
        if self.input.first() != Some(&b'p') || !fits {
            return Err(Error::protocol("expected a password").fatal().into());
        }
        self.fill(1 + length).await?;
        self.input.advance(5);
        Ok(self.input.split_to(length - 4).freeze())
    }

    async fn rest(&mut self, copies: bool) -> std::result::Result<(u8, Result<Frontend>), End> {
        self.fill(5).await?;
        let tag = self.input.first().copied().unwrap_or_default();
        let length = self.length(1)?;
        let most = match tag {
            b'Q' | b'P' => basalt_sql::limits::STATEMENT_BYTES + limits::POSTGRES_SMALL_MESSAGE_BYTES,
            b'B' => limits::MESSAGE_BYTES,
            b'd' => limits::POSTGRES_COPY_BYTES,
            b'D' | b'E' | b'C' | b'H' | b'S' | b'X' | b'p' | b'c' | b'f' => {
                limits::POSTGRES_SMALL_MESSAGE_BYTES
            }
            _ => return Err(Error::protocol(format!("invalid frontend message type {tag}")).fatal().into()),
        };
        if length < 4 {
            return Err(Error::protocol("invalid message length").fatal().into());
        }
        if length > most {
            let message = format!("a message of {length} bytes; the limit is {most}");
            return Err(Error::limit(message).fatal().into());
        }
        let is_large = length > limits::POSTGRES_SMALL_MESSAGE_BYTES;
        if is_large && tag == b'd' && !copies {
            self.pass_over(1 + length).await?;
            return Ok((tag, Ok(Frontend::CopyData(Bytes::new()))));
        }
        self.arrives(1 + length).await?;
        self.input.advance(5);
        let body = self.input.split_to(length - 4).freeze();
        let message = decode(tag, body);
        let is_roomy = self.input.is_empty() && self.input.capacity() > limits::POSTGRES_SMALL_MESSAGE_BYTES;
        if is_large || is_roomy {
            // The little that stands behind it does not keep all of its memory.
            self.input = BytesMut::from(&self.input[..]);
        }
        Ok((tag, message))
    }

    /// Reads a message of so many bytes. A large one is counted as it comes, whatever was announced.
    async fn arrives(&mut self, bytes: usize) -> std::result::Result<(), End> {
        let little = limits::POSTGRES_SMALL_MESSAGE_BYTES;
        loop {
            let next = bytes.min(self.input.len() + little);
            if next > little {
                let counted = next as u64 * limits::MESSAGE_COPIES;
                self.message.set(counted).map_err(|error| Error::from(error).fatal())?;
            }
            self.fill(next).await?;
            if next == bytes {
                return Ok(());
            }
        }
    }

    /// Reads past so many bytes, and keeps none of them.
    async fn pass_over(&mut self, bytes: usize) -> std::result::Result<(), End> {
        // Of a COPY that ended meanwhile there may be much.
        let there = bytes.min(self.input.len());
        self.input = BytesMut::from(&self.input[there..]);
        let mut left = bytes - there;
        while left > 0 {
            let piece = left.min(limits::POSTGRES_SMALL_MESSAGE_BYTES);
            self.fill(piece).await?;
            self.input.advance(piece);
            left -= piece;
        }
        Ok(())
    }

    /// What was read is done with.
    pub(super) fn forget(&mut self) {
        if self.message.bytes() > 0 {
            // What is less is always there.
            let _ = self.message.set(0);
        }
    }

    fn length(&self, at: usize) -> Result<usize> {
        let bytes = self.input.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        let length = bytes.and_then(|bytes| usize::try_from(i32::from_be_bytes(bytes)).ok());
        length.ok_or_else(|| Error::protocol("invalid message length").fatal())
    }

    /// Reads until so many bytes are there.
    async fn fill(&mut self, bytes: usize) -> std::result::Result<(), End> {
        while self.input.len() < bytes {
            if self.read(bytes - self.input.len()).await? == 0 {
                return Err(End::Gone);
            }
        }
        Ok(())
    }

    /// Reads some bytes; 0: there are no more. Room is made for those that are missing, but for a little at once, and for a Sync
    /// of five bytes behind them.
    async fn read(&mut self, missing: usize) -> io::Result<usize> {
        let most = limits::POSTGRES_SMALL_MESSAGE_BYTES;
        self.input.reserve(missing.clamp(512, most) + 5);
        let read = self.stream.read_buf(&mut (&mut self.input).limit(most + 5)).await?;
        self.come += read as u64;
        Ok(read)
    }

    /// Ends when the client has closed the connection. One that has sent more is there.
    pub(super) async fn gone(&mut self) {
        if self.input.is_empty() {
            let mut bytes = [0; 1];
            if matches!(self.stream.peek(&mut bytes).await, Ok(0) | Err(_)) {
                return;
            }
        }
        std::future::pending().await
    }

    /// The same, also where it has said goodbye before.
    pub(super) async fn closed(&mut self) {
        while self.says_goodbye() {
            if matches!(self.read(1).await, Ok(0) | Err(_)) {
                return;
            }
        }
        std::future::pending().await
    }

    /// Whether nothing has come behind the message in hand but a goodbye, or its beginning, and Syncs, behind which drivers say it:
    /// what else is there is to be done before the client is gone.
    fn says_goodbye(&self) -> bool {
        const SYNC: &[u8] = b"S\0\0\0\x04";
        const TERMINATE: &[u8] = b"X\0\0\0\x04";
        let mut come = &self.input[..];
        while let Some(behind) = come.strip_prefix(SYNC) {
            come = behind;
        }
        let is_little = self.input.len() < limits::POSTGRES_SMALL_MESSAGE_BYTES;
        is_little && (SYNC.starts_with(come) || TERMINATE.starts_with(come))
    }

    pub(super) fn put(&mut self, message: &impl Message) -> Result<()> {
        let at = self.output.len();
        message.encode(&mut self.output).map_err(|error| {
            self.output.truncate(at);
            Error::limit(format!("a message of the answer is too large: {error}"))
        })
    }

    /// Sends what was put, once there is much of it.
    pub(super) async fn flush_if_full(&mut self) -> std::result::Result<(), End> {
        if self.is_full() { self.flush().await } else { Ok(()) }
    }

    /// Bytes that were put.
    pub(super) fn put_bytes(&self) -> usize {
        self.output.len()
    }

    /// Whether much was put.
    pub(super) fn is_full(&self) -> bool {
        self.output.len() >= limits::POSTGRES_OUTPUT_BYTES
    }

    /// Sends what was put. A client that takes nothing for too long is gone.
    pub(super) async fn flush(&mut self) -> std::result::Result<(), End> {
        self.flush_within(limits::STALLED_TIMEOUT).await
    }

    /// The same, where it may take nothing for so long.
    pub(super) async fn flush_within(&mut self, patience: Duration) -> std::result::Result<(), End> {
        let mut output = std::mem::take(&mut self.output);
        let sent = self.send(&output, patience).await;
        if output.capacity() <= 2 * limits::POSTGRES_OUTPUT_BYTES {
            output.clear();
            self.output = output;
        }
        sent
    }

    /// Sends bytes in pieces. Patience begins anew with whatever is taken, however many there are: a slow client takes much of them
    /// at once, and then nothing for a while, as the system sees it.
    async fn send(&mut self, bytes: &[u8], patience: Duration) -> std::result::Result<(), End> {
        let mut left = bytes;
        while !left.is_empty() {
            let piece = &left[..left.len().min(limits::POSTGRES_OUTPUT_BYTES)];
            match timeout(patience, self.stream.write(piece)).await.map_err(|_| End::Gone)?? {
                0 => return Err(End::Gone),
                taken => left.advance(taken),
            }
        }
        timeout(patience, self.stream.flush()).await.map_err(|_| End::Gone)??;
        if let Some(pace) = &self.pace {
            pace.wait(bytes.len() as u64).await;
        }
        Ok(())
    }

    /// What is put next; rows are written there as they are made.
    pub(super) fn output(&mut self) -> &mut BytesMut {
        &mut self.output
    }

    pub(super) async fn shutdown(&mut self) {
        let _ = timeout(limits::CLOSE_TIMEOUT, self.stream.shutdown()).await;
    }
}

/// A message's body.
pub(super) struct Body(Bytes);

impl Body {
    fn bytes(&mut self, length: usize) -> Result<Bytes> {
        if length > self.0.len() {
            return Err(Error::protocol("insufficient data left in message"));
        }
        Ok(self.0.split_to(length))
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.bytes(1)?.get_u8())
    }

    fn i16(&mut self) -> Result<i16> {
        Ok(self.bytes(2)?.get_i16())
    }

    fn i32(&mut self) -> Result<i32> {
        Ok(self.bytes(4)?.get_i32())
    }

    /// How many there are of what takes so many bytes each.
    fn count(&mut self, bytes: usize, most: usize) -> Result<usize> {
        let count = usize::from(self.bytes(2)?.get_u16());
        if count > most {
            return Err(Error::limit(format!("{count} parameters or columns; the limit is {most}")));
        }
        if count * bytes > self.0.len() {
            return Err(Error::protocol("insufficient data left in message"));
        }
        Ok(count)
    }

    fn text(&mut self) -> Result<String> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| Error::protocol("invalid string in message"))?;
        let text = self.bytes(end)?;
        self.0.advance(1);
        let text = str::from_utf8(&text);
        Ok(text.map_err(|_| Error::new("22021", "a text is no UTF-8"))?.to_owned())
    }

    fn name(&mut self) -> Result<String> {
        let name = self.text()?;
        if name.len() > limits::POSTGRES_NAME_BYTES {
            let message = format!("a name of {} bytes", name.len());
            return Err(Error::limit(message));
        }
        Ok(name)
    }

    fn target(&mut self) -> Result<Target> {
        match self.byte()? {
            b'S' => Ok(Target::Statement),
            b'P' => Ok(Target::Portal),
            other => Err(Error::protocol(format!("neither a statement nor a portal: {other}"))),
        }
    }

    fn formats(&mut self) -> Result<Vec<i16>> {
        let count = self.count(2, basalt_sql::limits::ANSWER_COLUMNS.max(basalt_sql::limits::PARAMETERS))?;
        let formats = (0..count).map(|_| match self.i16()? {
            format @ (0 | 1) => Ok(format),
            other => Err(Error::new("22023", format!("unsupported format code: {other}"))),
        });
        formats.collect()
    }
}

pub(super) fn decode(tag: u8, body: Bytes) -> Result<Frontend> {
    let mut body = Body(body);
    let message = match tag {
        b'Q' => Frontend::Query(body.text()?),
        b'P' => {
            let (name, sql) = (body.name()?, body.text()?);
            let types = body.count(4, basalt_sql::limits::PARAMETERS)?;
            let types = (0..types).map(|_| Ok(body.i32()?.cast_unsigned())).collect::<Result<_>>()?;
            Frontend::Parse { name, sql, types }
        }
        b'B' => {
            let (portal, statement, formats) = (body.name()?, body.name()?, body.formats()?);
            let count = body.count(4, basalt_sql::limits::PARAMETERS)?;
            let parameters = (0..count).map(|_| match body.i32()? {
                -1 => Ok(None),
                length => {
                    let length = usize::try_from(length);
                    body.bytes(length.map_err(|_| Error::protocol("invalid length of a parameter"))?)
                        .map(Some)
                }
            });
            let parameters = parameters.collect::<Result<_>>()?;
            Frontend::Bind(Bind { portal, statement, formats, parameters, results: body.formats()? })
        }
        b'D' => Frontend::Describe { target: body.target()?, name: body.name()? },
        b'E' => Frontend::Execute { portal: body.name()?, rows: body.i32()? },
        b'C' => Frontend::Close { target: body.target()?, name: body.name()? },
        b'H' => Frontend::Flush,
        b'S' => Frontend::Sync,
        b'X' => Frontend::Terminate,
        b'd' => return Ok(Frontend::CopyData(body.0)),
        b'c' => Frontend::CopyDone,
        b'f' => Frontend::CopyFail(body.text()?),
        b'p' => return Err(Error::protocol("no password was asked for")),
        other => return Err(Error::protocol(format!("invalid frontend message type {other}"))),
    };
    if !body.0.is_empty() {
        return Err(Error::protocol("invalid message format"));
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::{
        io::{DuplexStream, duplex},
        time::sleep,
    };

    use super::*;
    use crate::memory::MemoryPool;

    fn wire(stream: DuplexStream) -> Wire {
        let message = Arc::new(MemoryPool::new(1 << 20)).reserve(Consumer::Messages);
        let (input, output) = (BytesMut::new(), BytesMut::new());
        Wire { stream: Box::new(stream), input, output, message, pace: None, come: 0 }
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_for_a_while_is_gone() {
        let (here, mut there) = duplex(64);
        let (mut wire, begun) = (wire(here), Instant::now());
        let reads = tokio::spawn(async move {
            // Slowly, but all the time.
            for _ in 0..8 {
                sleep(limits::STALLED_TIMEOUT / 2).await;
                there.read_exact(&mut [0; 64]).await.unwrap();
            }
            there
        });
        wire.output().extend_from_slice(&[0; 9 * 64]);
        wire.flush().await.unwrap();
        assert!(begun.elapsed() > limits::STALLED_TIMEOUT * 3);
        let _there = reads.await.unwrap();
        // However much is to be sent.
        for patience in [limits::STALLED_TIMEOUT, limits::UNCOUNTED_STALLED_TIMEOUT] {
            let begun = Instant::now();
            wire.output().extend_from_slice(&vec![0; 4 << 20]);
            assert!(matches!(wire.flush_within(patience).await, Err(End::Gone)));
            assert!((patience..patience * 2).contains(&begun.elapsed()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_said_more_than_goodbye_is_there() {
        let (sync, goodbye) = (&b"S\0\0\0\x04"[..], &b"X\0\0\0\x04"[..]);
        for (said, is_gone) in [
            (vec![], true),
            (vec![goodbye], true),
            (vec![sync, goodbye], true),
            (vec![&b"Q\0\0\0\x0dSELECT 1\0"[..], goodbye], false),
            (vec![sync, &b"P"[..], goodbye], false),
            (vec![goodbye, sync], false),
        ] {
            let (here, mut there) = duplex(64);
            let mut wire = wire(here);
            there.write_all(&said.concat()).await.unwrap();
            assert!(timeout(Duration::from_secs(1), wire.closed()).await.is_err(), "{said:?}");
            drop(there);
            let closed = timeout(Duration::from_secs(1), wire.closed()).await;
            assert_eq!(closed.is_ok(), is_gone, "{said:?}");
            assert_eq!(wire.input, said.concat()[..]);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(tag: u8, body: Vec<u8>) {
            drop(decode(tag, Bytes::from(body)));
        }

        /// What is cut short is an error, and what stands behind a message's end too.
        #[test]
        fn half_a_message_is_an_error(cut in 0_usize..40, more: bool) {
            let mut whole = b"portal\0statement\0\0\x01\0\x01\0\x02\0\0\0\x03abc\xff\xff\xff\xff\0\x01\0\0".to_vec();
            let Frontend::Bind(bind) = decode(b'B', Bytes::from(whole.clone())).unwrap() else { panic!() };
            assert_eq!((bind.portal.as_str(), bind.statement.as_str()), ("portal", "statement"));
            assert_eq!((bind.formats.as_slice(), bind.results.as_slice()), (&[1][..], &[0][..]));
            assert_eq!(bind.parameters, [Some(Bytes::from("abc")), None]);
            if more { whole.push(0) } else { whole.truncate(cut.min(whole.len() - 1)) }
            prop_assert!(decode(b'B', Bytes::from(whole)).is_err());
        }
    }

    #[test]
    fn counts_that_are_not_there_are_errors() {
        for (tag, body) in [
            (b'P', &b"\0\0\xff\xff"[..]),
            (b'P', b"\0SELECT\0\0\x01"),
            (b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff\0\0"),
            (b'B', b"\0\0\0\0\0\x01\x80\0\0\0\0\0"),
            (b'B', b"\0\0\xff\xff"),
            (b'B', b"\0\0\0\0\0\0\xff\xff"),
            (b'E', b"\0\0\0"),
            (b'D', b""),
            (b'D', b"X\0"),
            (b'Q', b"SELECT 1"),
            (b'Q', b"\xff\0"),
        ] {
            assert!(decode(tag, Bytes::from_static(body)).is_err(), "{tag} {body:?}");
        }
    }
}
