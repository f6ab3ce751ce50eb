//! TLS, by rustls: at the doors of clients, and in both directions between the nodes.
//!
//! Certificates are files, and are read again when they change ([`crate::reload`]): connections that are there go on with
//! those that they began with. Whoever speaks without TLS to a door that has it is told so, and the other way round.

mod issue;
mod nodes;
mod peers;
mod stream;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};

use crate::reload::Reload;

pub use issue::Authority;
use nodes::NodeVerifier;
pub(crate) use peers::{Certificate, Peers, Way};
#[cfg(feature = "sql")]
pub(crate) use stream::begin;
pub(crate) use stream::{Door, accept, accept_peer};

/// A certificate with its key, and those that sign the other side's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    /// `None`: the other side shows none.
    pub(crate) ca: Option<PathBuf>,
}

impl Files {
    fn all(&self) -> Vec<PathBuf> {
        [Some(&self.cert), Some(&self.key), self.ca.as_ref()].into_iter().flatten().cloned().collect()
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        certificates(&self.cert)
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, String> {
        PrivateKeyDer::from_pem_file(&self.key).map_err(|e| named(&self.key, &e))
    }

    fn roots(&self) -> Result<Option<Arc<RootCertStore>>, String> {
        let Some(path) = &self.ca else { return Ok(None) };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(|e| named(path, &e))?;
        }
        Ok(Some(Arc::new(roots)))
    }

    /// What a door answers with. With a `ca`, clients show a certificate that it has signed.
    /// Where the door is that of nodes, others have none that is a server's certificate as well.
    fn server(&self, is_of_nodes: bool) -> Result<ServerConfig, String> {
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?;
        let builder = match self.roots()? {
            None => builder.with_no_client_auth(),
            Some(roots) => {
                let signed =
                    WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
                let signed = signed.build().map_err(|e| e.to_string())?;
                builder.with_client_cert_verifier(match is_of_nodes {
                    true => Arc::new(NodeVerifier::new(signed, roots, provider)),
                    false => signed,
                })
            }
        };
        builder.with_single_cert(self.chain()?, self.private_key()?).map_err(|e| named(&self.cert, &e))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).map_err(|e| named(path, &e))?;
    let certificates = read.collect::<Result<Vec<_>, _>>().map_err(|e| named(path, &e))?;
    if certificates.is_empty() {
        return Err(named(path, &"there is no certificate in it"));
    }
    Ok(certificates)
}

fn named(path: &Path, error: &dyn fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// What the doors of clients answer with.
#[derive(Debug)]
pub(crate) struct Server {
    files: Files,
    configs: RwLock<Configs>,
}

/// For each door, by its protocol.
#[derive(Clone, Debug)]
struct Configs {
    http2: Arc<ServerConfig>,
    http1: Arc<ServerConfig>,
    #[cfg(feature = "sql")]
    postgres: Arc<ServerConfig>,
}

impl Configs {
    fn new(files: &Files) -> Result<Self, String> {
        let config = files.server(false)?;
        let of = |door: Door| {
            let mut config = config.clone();
            config.alpn_protocols = vec![door.protocol().to_vec()];
            Arc::new(config)
        };
        Ok(Self {
            http2: of(Door::Http2),
            http1: of(Door::Http1),
            #[cfg(feature = "sql")]
            postgres: of(Door::Postgres),
        })
    }
}

impl Server {
    pub(crate) fn open(files: Files) -> Result<Self, String> {
        let configs = RwLock::new(Configs::new(&files)?);
        Ok(Self { files, configs })
    }

    /// What a new connection is answered with.
    fn config(&self, door: Door) -> Arc<ServerConfig> {
        let configs = self.configs.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(match door {
            Door::Http2 => &configs.http2,
            Door::Http1 => &configs.http1,
            #[cfg(feature = "sql")]
            Door::Postgres => &configs.postgres,
        })
    }
}

impl Reload for Server {
    fn files(&self) -> Vec<PathBuf> {
        self.files.all()
    }

    fn reload(&self) -> Result<String, String> {
        let configs = Configs::new(&self.files)?;
        *self.configs.write().unwrap_or_else(PoisonError::into_inner) = configs;
        Ok("certificate".to_owned())
    }
}
