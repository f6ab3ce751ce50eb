//! TLS between the nodes: each shows a certificate that one authority has signed, and its own name stands in it.

use std::{
    fmt, io,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use rustls::{
    ClientConfig, ServerConfig,
    pki_types::{CertificateDer, ServerName},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{TlsConnector, client::TlsStream};
use webpki::EndEntityCert;

use super::{Files, provider};
use crate::reload::Reload;

/// Both sides of the connections between nodes.
#[derive(Debug)]
pub(crate) struct Peers {
    files: Files,
    configs: RwLock<(Arc<ServerConfig>, Arc<ClientConfig>)>,
}

impl Peers {
    /// The files name an authority.
    pub(crate) fn open(files: Files) -> Result<Self, String> {
        let configs = configs(&files)?;
        Ok(Self { files, configs: RwLock::new(configs) })
    }

    /// Whether the certificate has a node's name; a node without would be believed by nobody.
    pub(crate) fn check_name(&self, node: &str) -> Result<(), String> {
        let chain = self.files.chain()?;
        // There is one, or the files would not have been opened.
        let has = chain.first().is_some_and(|first| Certificate::new(first.clone()).is_of(node));
        match has {
            true => Ok(()),
            false => Err(format!(
                "{}: the name of this node, {node}, does not stand in it",
                self.files.cert.display()
            )),
        }
    }

    pub(super) fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.configs.read().unwrap_or_else(PoisonError::into_inner).0)
    }

    /// With which a node is reached that was found behind a name, if it was; that name may stand in its certificate then.
    pub(crate) fn towards(self: &Arc<Self>, name: Option<&str>) -> Way {
        let name = name.and_then(|name| name.rsplit_once(':')).map(|(host, _)| host.into());
        Way { peers: Arc::clone(self), name }
    }
}

/// How one other node is reached.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    peers: Arc<Peers>,
    name: Option<Arc<str>>,
}

impl Way {
    /// The handshake with the node. The name by which it was found stands in its certificate, else its host.
    pub(crate) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        let name = subject(self.name.as_deref().unwrap_or(host)).ok_or(io::ErrorKind::InvalidInput)?;
        let config = Arc::clone(&self.peers.configs.read().unwrap_or_else(PoisonError::into_inner).1);
        TlsConnector::from(config).connect(name, stream).await
    }
}

fn configs(files: &Files) -> Result<(Arc<ServerConfig>, Arc<ClientConfig>), String> {
    let alpn = vec![b"h2".to_vec()];
    let mut server = files.server(true)?;
    server.alpn_protocols.clone_from(&alpn);
    let roots = files.roots()?.ok_or("peer_ca: it says whose certificates are believed")?;
    let mut client = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_client_auth_cert(files.chain()?, files.private_key()?)
        .map_err(|e| super::named(&files.cert, &e))?;
    client.alpn_protocols = alpn;
    Ok((Arc::new(server), Arc::new(client)))
}

impl Reload for Peers {
    fn files(&self) -> Vec<PathBuf> {
        self.files.all()
    }

    fn reload(&self) -> Result<String, String> {
        let configs = configs(&self.files)?;
        *self.configs.write().unwrap_or_else(PoisonError::into_inner) = configs;
        Ok("certificate between nodes".to_owned())
    }
}

/// What another node has shown, signed by the authority.
pub(crate) struct Certificate(CertificateDer<'static>);

impl Certificate {
    pub(super) fn new(shown: CertificateDer<'static>) -> Self {
        Self(shown)
    }

    /// Whether it is of a node's host: a name or an address that stands in it.
    pub(crate) fn is_of(&self, node: &str) -> bool {
        let Some(name) = node.rsplit_once(':').and_then(|(host, _)| subject(host)) else { return false };
        EndEntityCert::try_from(&self.0)
            .is_ok_and(|certificate| certificate.verify_is_valid_for_subject_name(&name).is_ok())
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate")
    }
}

/// A host as it stands in a certificate.
fn subject(host: &str) -> Option<ServerName<'static>> {
    ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).ok()
}
