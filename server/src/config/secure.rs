//! What the configuration says about who is let in, and how it is encrypted.

use std::{net::SocketAddr, path::Path, sync::Arc};

use super::Config;
use crate::{
    Error,
    access::{Access, keys::Keys},
    environment::Environment,
    tls::{self, Files},
};

/// Files of a folder that `basalt secure` has made.
const CERT: &str = "server.pem";
const KEY: &str = "server.key";
const CA: &str = "ca.pem";
const KEYS: &str = "keys.toml";

impl Config {
    /// TLS for clients; `None`: there is none.
    fn tls_files(&self) -> Result<Option<Files>, Error> {
        match (&self.tls_cert, &self.tls_key, &self.secrets) {
            (Some(cert), Some(key), _) => {
                Ok(Some(Files { cert: cert.clone(), key: key.clone(), ca: self.tls_client_ca.clone() }))
            }
            (None, None, Some(folder)) => {
                Ok(Some(Files { ca: self.tls_client_ca.clone(), ..of_folder(folder) }))
            }
            (None, None, None) if self.tls_client_ca.is_none() => Ok(None),
            _ => Err(Error::Config("tls_cert, tls_key: TLS needs both".to_owned())),
        }
    }

    /// TLS between nodes; `None`: there is none.
    fn peer_files(&self) -> Result<Option<Files>, Error> {
        match (&self.peer_cert, &self.peer_key, &self.peer_ca, &self.secrets) {
            (Some(cert), Some(key), Some(ca), _) => {
                Ok(Some(Files { cert: cert.clone(), key: key.clone(), ca: Some(ca.clone()) }))
            }
            (None, None, None, folder) => Ok(folder.as_deref().map(of_folder)),
            _ => Err(Error::Config(
                "peer_cert, peer_key, peer_ca: TLS between nodes needs all three".to_owned(),
            )),
        }
    }

    /// What the doors of clients answer with.
    pub(crate) fn tls(&self) -> Result<Option<Arc<tls::Server>>, Error> {
        let opened = self.tls_files()?.map(tls::Server::open).transpose();
        Ok(opened.map_err(|error| Error::Config(format!("tls: {error}")))?.map(Arc::new))
    }

    /// What nodes show each other. A node whose name does not stand in its certificate does not start.
    pub(crate) fn peer_tls(&self, name: Option<&str>) -> Result<Option<Arc<tls::Peers>>, Error> {
        let Some(name) = name else { return Ok(None) };
        let wrong = |error: String| Error::Config(format!("tls between nodes: {error}"));
        let Some(peers) = self.peer_files()?.map(tls::Peers::open).transpose().map_err(wrong)? else {
            if self.keys.is_some() && !self.insecure {
                let message = "keys: whoever has none could come as a node; a cluster needs peer_cert, peer_key, peer_ca";
                return Err(Error::Config(message.to_owned()));
            }
            return Ok(None);
        };
        peers.check_name(name).map_err(wrong)?;
        Ok(Some(Arc::new(peers)))
    }

    /// Who is let in.
    pub(crate) fn access(&self, environment: &dyn Environment) -> Result<Access, Error> {
        let path = self.keys.clone().or_else(|| self.secrets.as_ref().map(|folder| folder.join(KEYS)));
        let Some(path) = path else { return Ok(Access::default()) };
        let mut secret = [0; 32];
        let (low, high) = secret.split_at_mut(16);
        low.copy_from_slice(&environment.random().to_le_bytes());
        high.copy_from_slice(&environment.random().to_le_bytes());
        let keys = Keys::open(&path, secret).map_err(|error| Error::Config(format!("keys: {error}")))?;
        Ok(Access::with(Arc::new(keys)))
    }

    /// Fails where a door would let everybody in from other machines, who was not meant.
    pub(crate) fn check_door(&self, key: &str, address: SocketAddr) -> Result<(), Error> {
        if address.ip().is_loopback() || self.insecure {
            return Ok(());
        }
        let (is_peers, folder) = (key == "peer_listen", self.secrets.is_some());
        let missing = match is_peers {
            true if !folder && self.peer_ca.is_none() => "TLS between nodes",
            false if !folder && self.tls_cert.is_none() => "TLS",
            false if !folder && self.keys.is_none() => "keys",
            _ => return Ok(()),
        };
        Err(Error::Config(format!(
            "{key}: {address} is reached from other machines, and there is no security: {missing} is missing. \
             `basalt secure` makes a folder for --secrets; --insecure lets everybody do everything"
        )))
    }
}

fn of_folder(folder: &Path) -> Files {
    Files { cert: folder.join(CERT), key: folder.join(KEY), ca: Some(folder.join(CA)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_loopback_there_is_security_or_somebody_has_said_no() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let none = Config::default();
        for door in ["listen", "metrics_listen", "postgres", "peer_listen"] {
            assert!(none.check_door(door, address("127.0.0.1:1")).is_ok());
            assert!(none.check_door(door, address("[::1]:1")).is_ok());
            for open in ["0.0.0.0:1", "10.0.0.1:1", "[::]:1"] {
                let error = none.check_door(door, address(open)).unwrap_err().to_string();
                assert!(error.contains("--insecure") && error.contains(door), "{error}");
                assert!(Config { insecure: true, ..none.clone() }.check_door(door, address(open)).is_ok());
                let secured = Config { secrets: Some("secrets".into()), ..none.clone() };
                assert!(secured.check_door(door, address(open)).is_ok());
            }
        }
        let tls = Config { tls_cert: Some("a".into()), tls_key: Some("b".into()), ..none.clone() };
        assert!(tls.check_door("listen", address("0.0.0.0:1")).unwrap_err().to_string().contains("keys"));
        assert!(Config { tls_cert: Some("a".into()), ..none.clone() }.tls_files().is_err());
        assert!(Config { tls_client_ca: Some("a".into()), ..none.clone() }.tls_files().is_err());
        assert!(Config { peer_ca: Some("a".into()), ..none }.peer_files().is_err());
    }
}
