//! Reading from a connection that floods, in pieces.
//!
//! A request that is refused costs little more than to be woken for it, to read it and to send the answer, and each of these
//! takes as long for one as for many. So what comes on a connection whose queries are turned away is left where it is for a
//! moment, as network cards moderate their interrupts.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep_until},
};

use crate::connection::Connection;

/// A stream that is not read while its connection [pauses](Connection::pause).
pub(super) struct Pausing<S> {
    stream: S,
    connection: Arc<Connection>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<S> Pausing<S> {
    pub(super) fn new(stream: S, connection: &Arc<Connection>) -> Self {
        Self { stream, connection: Arc::clone(connection), sleep: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Pausing<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.sleep.is_none() {
            self.sleep = self.connection.pause().map(|until| Box::pin(sleep_until(until)));
        }
        if let Some(sleep) = &mut self.sleep {
            ready!(sleep.as_mut().poll(context));
            self.sleep = None;
        }
        Pin::new(&mut self.stream).poll_read(context, bytes)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Pausing<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
