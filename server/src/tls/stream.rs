//! A connection from its first byte to the end of its handshake, and what goes through it then.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{Certificate, Peers, Server};
use crate::{environment::Stream, limits};

/// The first byte of a client that speaks TLS: the record of a handshake.
const HANDSHAKE: u8 = 0x16;
/// A fatal alert, "protocol version": what TLS has for a server that has no version of it.
const NO_VERSION: &[u8] = &[0x15, 3, 1, 0, 2, 2, 70];

/// What is spoken at a door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// gRPC, of clients or of other nodes.
    Http2,
    Http1,
    #[cfg(feature = "sql")]
    Postgres,
}

impl Door {
    pub(super) fn protocol(self) -> &'static [u8] {
        match self {
            Self::Http2 => b"h2",
            Self::Http1 => b"http/1.1",
            #[cfg(feature = "sql")]
            Self::Postgres => b"postgresql",
        }
    }

    /// What a client is told that speaks without TLS, in its protocol.
    fn plain(self) -> Vec<u8> {
        const WHY: &str = "this port speaks TLS alone: https";
        match self {
            // SETTINGS without any, and GOAWAY with INADEQUATE_SECURITY (RFC 9113, sections 6.5, 6.8 and 7).
            Self::Http2 => {
                let length = u8::try_from(8 + WHY.len()).unwrap_or(u8::MAX);
                let mut frames = vec![0, 0, 0, 4, 0, 0, 0, 0, 0];
                frames.extend([0, 0, length, 7, 0, 0, 0, 0, 0]);
                frames.extend([0, 0, 0, 0, 0, 0, 0, 0xc]);
                frames.extend(WHY.as_bytes());
                frames
            }
            Self::Http1 => {
                let length = WHY.len() + 1;
                format!(
                    "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\
                     connection: close\r\n\r\n{WHY}\n"
                )
                .into_bytes()
            }
            // Whoever has not asked for TLS is told by the session.
            #[cfg(feature = "sql")]
            Self::Postgres => Vec::new(),
        }
    }
}

/// A client's connection once it is encrypted; as it is, where the door has no TLS. Whoever speaks otherwise is told so,
/// and that is an error.
pub(crate) async fn accept(
    mut stream: Box<dyn Stream>,
    server: Option<&Server>,
    door: Door,
) -> io::Result<Box<dyn Stream>> {
    match (begins_tls(&mut *stream).await?, server) {
        (false, None) => Ok(stream),
        (true, Some(server)) => begin(stream, server, door).await,
        (true, None) => {
            turn_away(&mut *stream, NO_VERSION).await;
            Err(other("a client speaks TLS, of which this server has none (tls_cert, tls_key)"))
        }
        (false, Some(_)) => {
            turn_away(&mut *stream, &door.plain()).await;
            Err(other("a client speaks without TLS"))
        }
    }
}

/// The same of another node, with the certificate that it has shown.
pub(crate) async fn accept_peer(
    mut stream: Box<dyn Stream>,
    peers: Option<&Peers>,
) -> io::Result<(Box<dyn Stream>, Option<Arc<Certificate>>)> {
    match (begins_tls(&mut *stream).await?, peers) {
        (false, None) => Ok((stream, None)),
        (true, Some(peers)) => {
            let stream = TlsAcceptor::from(peers.server()).accept(stream).await?;
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let certificate = shown.map(|shown| Arc::new(Certificate::new(shown.clone().into_owned())));
            Ok((Box::new(Secure::new(stream)), certificate))
        }
        (true, None) => {
            turn_away(&mut *stream, NO_VERSION).await;
            Err(other("a node speaks TLS, of which this one has none (peer_cert, peer_key, peer_ca)"))
        }
        (false, Some(_)) => {
            turn_away(&mut *stream, &Door::Http2.plain()).await;
            Err(other("a node speaks without TLS"))
        }
    }
}

/// The handshake with a client that has begun it.
pub(crate) async fn begin(
    stream: Box<dyn Stream>,
    server: &Server,
    door: Door,
) -> io::Result<Box<dyn Stream>> {
    let acceptor = TlsAcceptor::from(server.config(door));
    Ok(Box::new(Secure::new(acceptor.accept(stream).await?)))
}

async fn begins_tls(stream: &mut dyn Stream) -> io::Result<bool> {
    let mut first = [0];
    match stream.peek(&mut first).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(first == [HANDSHAKE]),
    }
}

/// Says something to whoever is not served, who may not listen.
async fn turn_away(stream: &mut dyn Stream, says: &[u8]) {
    let mut unread = [0; 1024];
    // What has come is read: a system that closes with bytes unread may take back what was sent.
    let _ = stream.read(&mut unread).await;
    let _ = stream.write_all(says).await;
    let _ = stream.shutdown().await;
    // So may one to whose closed end more bytes come: they are read until the client has heard of it.
    let until_it_ends = async { while matches!(stream.read(&mut unread).await, Ok(1..)) {} };
    let _ = timeout(limits::TURNED_AWAY, until_it_ends).await;
}

fn other(message: &'static str) -> io::Error {
    io::Error::other(message)
}

/// A connection that is encrypted.
struct Secure {
    inner: TlsStream<Box<dyn Stream>>,
    /// What was looked at and not read.
    ahead: Vec<u8>,
}

impl Secure {
    fn new(inner: TlsStream<Box<dyn Stream>>) -> Self {
        Self { inner, ahead: Vec::new() }
    }
}

#[tonic::async_trait]
impl Stream for Secure {
    async fn peek(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.ahead.len() < bytes.len() {
            let n = self.inner.read(bytes).await?;
            self.ahead.extend_from_slice(&bytes[..n]);
        }
        let n = self.ahead.len().min(bytes.len());
        bytes[..n].copy_from_slice(&self.ahead[..n]);
        Ok(n)
    }
}

impl AsyncRead for Secure {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let me = &mut *self;
        if me.ahead.is_empty() {
            ready!(Pin::new(&mut me.inner).poll_read(context, buffer))?;
        } else {
            let n = me.ahead.len().min(buffer.remaining());
            buffer.put_slice(&me.ahead[..n]);
            me.ahead.drain(..n);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Secure {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
