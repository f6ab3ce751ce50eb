//! How a connection comes to be encrypted: a client asks before it says anything else, and is told in one byte.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{
    environment::Stream,
    tls::{self, Door},
};

/// "SSLRequest" and "GSSENCRequest": their length, and what stands in the place of a version.
const TLS: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
const GSS: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 48];

/// The connection once it is agreed on, and whether it is encrypted. Nothing is read ahead: what was sent in the clear is
/// never taken for something that came encrypted.
pub(super) async fn agree(
    mut stream: Box<dyn Stream>,
    server: Option<&tls::Server>,
) -> io::Result<(Box<dyn Stream>, bool)> {
    // Once for GSS, once for TLS.
    for _ in 0..2 {
        let (mut length, mut first) = ([0; 4], [0; 8]);
        stream.look(&mut length).await?;
        if length != TLS[..4] {
            break;
        }
        stream.look(&mut first).await?;
        if first != TLS && first != GSS {
            break;
        }
        stream.read_exact(&mut first).await?;
        match server {
            Some(server) if first == TLS => {
                stream.write_all(b"S").await?;
                stream.flush().await?;
                return Ok((tls::begin(stream, server, Door::Postgres).await?, true));
            }
            _ => {
                stream.write_all(b"N").await?;
                stream.flush().await?;
            }
        }
    }
    Ok((stream, false))
}
