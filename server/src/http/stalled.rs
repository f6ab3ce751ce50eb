//! Connections that take nothing: one whose client leaves what is sent to it unread for a while is cut off, with what its answer
//! holds.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use crate::limits;

/// See the module.
pub(super) struct Stalled<S> {
    stream: S,
    /// When it is cut off, while it takes nothing.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalled<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, until: None }
    }

    /// What has come of sending.
    fn sent<T>(&mut self, context: &mut Context<'_>, sent: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if sent.is_ready() {
            self.until = None;
            return sent;
        }
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(limits::STALLED_TIMEOUT)));
        until.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalled<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.sent(context, sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.sent(context, sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut self.stream).poll_flush(context);
        self.sent(context, sent)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut self.stream).poll_shutdown(context);
        self.sent(context, sent)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        time::Instant,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_for_a_while_is_cut_off() {
        let (here, mut there) = duplex(64);
        let mut here = Stalled::new(here);
        let begun = Instant::now();
        let reads = tokio::spawn(async move {
            // Slowly, but all the time.
            for _ in 0..8 {
                sleep(limits::STALLED_TIMEOUT / 2).await;
                there.read_exact(&mut [0; 64]).await.unwrap();
            }
            there
        });
        here.write_all(&[0; 9 * 64]).await.unwrap();
        assert!(begun.elapsed() > limits::STALLED_TIMEOUT * 3);
        let _there = reads.await.unwrap();
        let (begun, sent) = (Instant::now(), here.write_all(&[0; 64]).await);
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!((limits::STALLED_TIMEOUT..limits::STALLED_TIMEOUT * 2).contains(&begun.elapsed()));
    }
}
