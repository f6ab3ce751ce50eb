//! The client's side of COPY: what it sends, as whoever reads rows wants it.

use std::{
    fmt,
    io::{self, Read},
    sync::{Mutex, PoisonError},
};

use basalt_proto::v1::ErrorReason;
use basalt_sql::Input;
use bytes::{Buf as _, Bytes};
use tokio::sync::mpsc;

use crate::{
    limits,
    status::{RequestError, Result},
};

/// What a client has to do with a COPY of its own.
#[derive(Default)]
pub(crate) enum Copying {
    /// Nothing.
    #[default]
    Not,
    /// It takes rows.
    Out,
    /// It sends rows, until they are asked for.
    In(Mutex<Option<Input>>),
}

impl fmt::Debug for Copying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Not => "Not",
            Self::Out => "Out",
            Self::In(_) => "In",
        })
    }
}

impl Copying {
    /// What the client sends; `None`: it sends nothing.
    pub(super) fn input(&self) -> Option<Result<Input>> {
        let Self::In(input) = self else { return None };
        let input = input.lock().unwrap_or_else(PoisonError::into_inner).take();
        let again = || {
            let message = "another write came first, and the rows that were sent are gone: send them again";
            RequestError::new(ErrorReason::WriteConflict, message)
        };
        Some(input.ok_or_else(again))
    }
}

/// Where a client's bytes go. Dropped before their end is told, what reads them fails.
#[derive(Debug)]
pub(crate) struct Sender(mpsc::Sender<Option<Bytes>>);

impl Sender {
    /// With the side of the statement.
    pub(crate) fn new() -> (Self, Copying) {
        let (sender, messages) = mpsc::channel(limits::COPY_PIECES);
        let input: Input = Box::new(Received { messages, now: Bytes::new(), ended: false });
        (Self(sender), Copying::In(Mutex::new(Some(input))))
    }

    /// Waits for room, and gives a piece of the bytes on: what waits to be read is a copy of that, not all that was sent at
    /// once. Where nobody reads any longer they are forgotten.
    pub(crate) async fn send(&self, bytes: &mut Bytes) {
        match self.0.reserve().await {
            Ok(room) => {
                let piece = bytes.split_to(bytes.len().min(limits::COPY_PIECE_BYTES));
                room.send(Some(Bytes::copy_from_slice(&piece)));
            }
            Err(_) => bytes.clear(),
        }
    }

    /// The client has sent all of it. Waits for room as well.
    pub(crate) async fn end(&self) {
        // Where nobody reads any longer the statement has ended.
        let _ = self.0.send(None).await;
    }
}

/// See [`Sender`].
struct Received {
    /// `None` is the end.
    messages: mpsc::Receiver<Option<Bytes>>,
    now: Bytes,
    ended: bool,
}

impl Read for Received {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.now.is_empty() && !self.ended {
            match self.messages.blocking_recv() {
                Some(Some(bytes)) => self.now = bytes,
                Some(None) => self.ended = true,
                None => {
                    let message = "the client has not sent all of its rows";
                    return Err(io::Error::new(io::ErrorKind::BrokenPipe, message));
                }
            }
        }
        let n = self.now.len().min(buffer.len());
        self.now.copy_to_slice(&mut buffer[..n]);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn an_end_that_was_not_told_is_none() {
        for is_told in [true, false] {
            let (sender, copying) = Sender::new();
            let mut input = copying.input().unwrap().unwrap();
            let read = tokio::task::spawn_blocking(move || {
                let mut read = Vec::new();
                let outcome = input.read_to_end(&mut read).map_err(|error| error.kind());
                outcome.map(|n| n == 200_000 && read.chunks(2).all(|line| line == b"1\n"))
            });
            let mut bytes = Bytes::from("1\n".repeat(100_000));
            while !bytes.is_empty() {
                sender.send(&mut bytes).await;
            }
            if is_told {
                sender.end().await;
            }
            drop(sender);
            let expected = if is_told { Ok(true) } else { Err(io::ErrorKind::BrokenPipe) };
            assert_eq!(read.await.unwrap(), expected);
            assert!(copying.input().unwrap().is_err(), "it is sent once");
        }
    }
}
