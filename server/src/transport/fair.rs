//! Reading from a connection as long as others need not wait.
//!
//! A task may poll what is ready so many times before the runtime asks it to let others run. A read of a socket counts once
//! however much it brings, and small frames of HTTP/2, such as pings, cost far more a byte than they take to send: by bytes
//! read, a client that sends nothing else keeps a thread for a moment only.

use std::task::{Context, Poll, Waker};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::coop::poll_proceed,
};
use tokio_util::io::InspectReader;

use crate::{environment::Stream, limits};

/// See the module.
pub(super) fn fair(stream: Box<dyn Stream>) -> impl AsyncRead + AsyncWrite + Unpin {
    InspectReader::new(stream, |bytes| {
        for _ in 0..bytes.len() / limits::READ_TURN_BYTES {
            match poll_proceed(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(turn) => turn.made_progress(),
                // The next read waits for its turn, and is woken for it; this one has been.
                Poll::Pending => break,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
    };

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
        task::yield_now,
    };

    use super::*;

    #[tonic::async_trait]
    impl Stream for DuplexStream {
        async fn peek(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    #[tokio::test]
    async fn others_have_their_turn_while_much_is_read() {
        const BYTES: usize = 1 << 20;
        let (mut client, server) = duplex(BYTES);
        client.write_all(&vec![1; BYTES]).await.unwrap();
        let turns = Arc::new(AtomicU32::new(0));
        let others = tokio::spawn({
            let turns = Arc::clone(&turns);
            async move {
                loop {
                    turns.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
            }
        });
        let read = tokio::spawn(async move {
            let (mut stream, mut bytes) = (fair(Box::new(server)), vec![0; 64 << 10]);
            for _ in 0..BYTES / bytes.len() {
                stream.read_exact(&mut bytes).await.unwrap();
            }
            turns.load(Ordering::Relaxed)
        });
        let turns = read.await.unwrap();
        others.abort();
        assert!(turns >= 6, "{turns}");
    }
}
