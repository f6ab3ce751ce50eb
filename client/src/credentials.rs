//! Who the client is, and whom it believes.

use std::{fmt, fs, net::IpAddr, path::Path};

use tonic::{
    metadata::{Ascii, MetadataValue},
    transport::{Certificate, ClientTlsConfig, Identity},
};

use crate::error::{Error, Result};

/// What a [`Client`](crate::Client) shows a server and asks of it: a key, by which the server knows who calls, and for
/// `https://` the authorities that may have signed the server's certificate, the system's by default.
///
/// ```no_run
/// # async fn example() -> basalt_client::Result<()> {
/// use basalt_client::{Client, ClientOptions, Credentials};
///
/// let credentials = Credentials::new().key("basalt_...")?.ca_file("ca.pem")?;
/// let client = Client::connect_as("https://db1:7700", ClientOptions::default(), &credentials).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Credentials {
    header: Option<MetadataValue<Ascii>>,
    ca: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the key nor the certificate's own is for anybody's log.
        f.debug_struct("Credentials")
            .field("key", &self.header.is_some())
            .field("ca", &self.ca.is_some())
            .field("identity", &self.identity.is_some())
            .finish()
    }
}

impl Credentials {
    /// None: nobody in particular, who believes the system's authorities.
    pub fn new() -> Self {
        Self::default()
    }

    /// The client's key, as `basalt key new` prints it.
    ///
    /// # Errors
    /// [`Error::Credentials`] where it is none.
    pub fn key(mut self, key: &str) -> Result<Self> {
        let header = format!("Bearer {}", key.trim()).parse::<MetadataValue<Ascii>>();
        let mut header = header.map_err(|_| Error::Credentials("the key is none".to_owned()))?;
        header.set_sensitive(true);
        self.header = Some(header);
        Ok(self)
    }

    /// The key that stands in a file.
    ///
    /// # Errors
    /// [`Error::Credentials`] with the path.
    pub fn key_file(self, path: impl AsRef<Path>) -> Result<Self> {
        let text = read(path.as_ref())?;
        let text = String::from_utf8(text).map_err(|e| named(path.as_ref(), &e))?;
        match text.trim() {
            key if !key.is_empty() && !key.contains(char::is_whitespace) => self.key(key),
            _ => Err(named(path.as_ref(), &"it holds no key: a key is one line `basalt_...`")),
        }
    }

    /// The authorities, certificates in PEM, that may have signed the server's certificate; the system's do not count then.
    ///
    /// # Errors
    /// [`Error::Credentials`] with the path.
    pub fn ca_file(mut self, path: impl AsRef<Path>) -> Result<Self> {
        self.ca = Some(read(path.as_ref())?);
        Ok(self)
    }

    /// The client's own certificate and its key, in PEM, for a server that asks for one.
    ///
    /// # Errors
    /// [`Error::Credentials`] with the path.
    pub fn identity_files(mut self, cert: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self> {
        self.identity = Some((read(cert.as_ref())?, read(key.as_ref())?));
        Ok(self)
    }

    /// What goes with every call.
    pub(crate) fn header(&self) -> Option<&MetadataValue<Ascii>> {
        self.header.as_ref()
    }

    pub(crate) fn tls(&self) -> ClientTlsConfig {
        let config = match &self.ca {
            None => ClientTlsConfig::new().with_native_roots(),
            Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)),
        };
        match &self.identity {
            None => config,
            Some((cert, key)) => config.identity(Identity::from_pem(cert, key)),
        }
    }
}

/// Why a key is not sent: on the way anybody could take it.
pub(crate) const WITH_TLS_ALONE: &str = "a key goes to another machine with TLS alone: https://";

/// Whether a host is this machine.
pub(crate) fn is_local(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| named(path, &e))
}

fn named(path: &Path, error: &dyn fmt::Display) -> Error {
    Error::Credentials(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_to_nobody_on_the_way() {
        let with = Credentials::new().key(" basalt_secret\n").unwrap();
        assert_eq!(with.header().unwrap(), "Bearer basalt_secret");
        assert!(!format!("{with:?} {:?}", with.header()).contains("secret"), "{with:?}");
        for (host, may) in
            [("127.0.0.1", true), ("localhost", true), ("[::1]", true), ("db1", false), ("10.0.0.1", false)]
        {
            assert_eq!(is_local(host), may, "{host}");
        }
        assert!(Credentials::new().key("a\nb").is_err());
        let file = std::env::temp_dir().join(format!("basalt-no-key-{}", std::process::id()));
        for none in ["", "\n", "basalt_a\nbasalt_b\n", "[[key]]\nname = \"a\"\n"] {
            fs::write(&file, none).unwrap();
            let told = Credentials::new().key_file(&file).unwrap_err().to_string();
            assert!(told.contains("it holds no key"), "{none:?}: {told}");
        }
        fs::write(&file, "basalt_secret\n").unwrap();
        assert!(Credentials::new().key_file(&file).is_ok());
        fs::remove_file(&file).unwrap();
        let missing = Credentials::new().ca_file("/nowhere/ca.pem").unwrap_err().to_string();
        assert!(missing.contains("/nowhere/ca.pem"), "{missing}");
    }
}
