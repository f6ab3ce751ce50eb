//! Certificates for those who have no authority of their own: one is made, and signs one for each node.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::{Error, limits};

/// An authority in a folder: `ca.pem`, which everybody may have, and `ca.key`, which signs.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// That of the folder; a new one where there is none.
    ///
    /// # Errors
    /// What the system says, and a `ca.key` that is none.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        fs::create_dir_all(folder)?;
        let (path, certificate) = (folder.join("ca.key"), folder.join("ca.pem"));
        let mut params = authority();
        valid_for(&mut params, limits::AUTHORITY_AGE);
        let key = match fs::read_to_string(&path) {
            Ok(pem) => {
                KeyPair::from_pem(&pem).map_err(|e| Error::Config(format!("{}: {e}", path.display())))?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let key = KeyPair::generate().map_err(failed)?;
                let signed = params.self_signed(&key).map_err(failed)?;
                write(&path, &key.serialize_pem(), 0o600)?;
                write(&certificate, &signed.pem(), 0o644)?;
                key
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self { folder: folder.to_owned(), issuer: Issuer::new(params, key) })
    }

    /// Makes `NAME.pem` and `NAME.key`, for a server that is reached under `hosts`, names or addresses, and that reaches
    /// other nodes. Those that are there are replaced, as before they expire.
    ///
    /// # Errors
    /// A name that is no name of a file, a host that is none, and what the system says.
    pub fn issue(&self, name: &str, hosts: &[String]) -> Result<(), Error> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name == "ca" || name.starts_with('.') || !name.chars().all(plain) {
            return Err(Error::Config(format!("{name:?} is no name for a certificate's files")));
        }
        let wrong = |error: rcgen::Error| Error::Config(format!("hosts: {error}"));
        let mut params = CertificateParams::new(hosts).map_err(wrong)?;
        params.distinguished_name.push(DnType::CommonName, name);
        valid_for(&mut params, limits::CERTIFICATE_AGE);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(failed)?;
        let signed = params.signed_by(&key, &self.issuer).map_err(failed)?;
        write(&self.folder.join(format!("{name}.key")), &key.serialize_pem(), 0o600)?;
        write(&self.folder.join(format!("{name}.pem")), &signed.pem(), 0o644)
    }
}

/// What every authority says of itself, apart from its key.
fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "Basalt cluster authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// From a day ago, for clocks that are behind.
fn valid_for(params: &mut CertificateParams, age: Duration) {
    let now = SystemTime::now();
    params.not_before = (now - Duration::from_secs(24 * 60 * 60)).into();
    params.not_after = (now + age).into();
}

fn failed(error: rcgen::Error) -> Error {
    Error::Start(format!("a certificate cannot be made: {error}"))
}

/// Whoever reads the file meanwhile has what was there before, or all of this.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let part = path.with_extension("part");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&part)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(fs::rename(&part, path)?)
}
