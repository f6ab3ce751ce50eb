//! Keys of clients. A key is 256 bits by chance, so nobody guesses it; the file of keys has its SHA-256, and what SCRAM
//! needs of it, with a name, a role and patterns of tables. It is read again when it changes.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::{
    file::KnownKey,
    quota::{Allowance, Quota},
    roles::{Grant, Role, Tables},
    scram::Verifier,
};
use crate::{limits, units};

/// With which every key begins, so that scanners for secrets know one.
pub(crate) const PREFIX: &str = "basalt_";

/// Of `Basic` credentials, which some clients send with padding and others without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What is known of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) grant: Grant,
    pub(super) quota: Quota,
    digest: [u8; 32],
    pub(crate) verifier: Verifier,
    gone: Gone,
}

impl Key {
    /// Whether it is in the file no longer, or not as it was: for good, since one that comes back is another one.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.0.load(Ordering::Acquire)
    }
}

/// What is asked at every step of a request, so without a lock. It is no part of what a key is.
#[derive(Debug, Default)]
struct Gone(AtomicBool);

impl PartialEq for Gone {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Gone {}

/// The file, as it stands in TOML.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// What users that are none are asked by, in hexadecimal digits: the same at all servers that have the file, and after a
    /// start, as with users that are there.
    scram_secret: Option<String>,
    #[serde(default)]
    key: Vec<Entry>,
}

/// What the file has.
#[derive(Debug)]
struct Parsed {
    secret: Option<[u8; 32]>,
    keys: Arc<[Arc<Key>]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    role: Role,
    tables: Vec<Tables>,
    /// At once, at one server; any number where it is missing.
    requests: Option<u32>,
    /// Memory that they hold at once, at one server; any where it is missing.
    #[serde(default, deserialize_with = "units::optional_bytes")]
    memory: Option<u64>,
    /// What is sent and received in a second, at one server; any where it is missing.
    #[serde(default, deserialize_with = "units::optional_bytes")]
    bytes_per_second: Option<u64>,
    sha256: String,
    scram: String,
}

/// The keys of a file.
pub(crate) struct Keys {
    path: PathBuf,
    keys: RwLock<Arc<[Arc<Key>]>>,
    /// For verifiers of nobody.
    secret: RwLock<[u8; 32]>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Keys {
    /// Reads the file. `secret` is one that nobody guesses, for a file without.
    pub(crate) fn open(path: &Path, secret: [u8; 32]) -> Result<Self, String> {
        let read = read(path)?;
        // Default: one that an earlier version has made, which knew none.
        let secret = read.secret.unwrap_or(secret);
        Ok(Self { path: path.to_owned(), keys: RwLock::new(read.keys), secret: RwLock::new(secret) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file again; how many keys there are. When that fails, those before stay. A key that is the same has the
    /// requests under way that it had; all others are gone from then on. A file without any is one that somebody is about to
    /// write.
    pub(crate) fn reload(&self) -> Result<usize, String> {
        let before = self.all();
        let read = read(&self.path)?;
        if read.keys.is_empty() && !before.is_empty() {
            return Err(format!("{}: it has no keys, where it had {}", self.path.display(), before.len()));
        }
        if let Some(secret) = read.secret {
            *self.secret.write().unwrap_or_else(PoisonError::into_inner) = secret;
        }
        // Default: a key that is new is its own.
        let same = |key: &Arc<Key>| Arc::clone(before.iter().find(|known| *known == key).unwrap_or(key));
        let keys: Arc<[Arc<Key>]> = read.keys.iter().map(same).collect();
        let n = keys.len();
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&keys);
        for key in before.iter().filter(|key| !keys.iter().any(|stays| Arc::ptr_eq(stays, key))) {
            key.gone.0.store(true, Ordering::Release);
        }
        Ok(n)
    }

    fn secret(&self) -> [u8; 32] {
        *self.secret.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Arc<[Arc<Key>]> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whose a secret is. All are looked at, however soon one fits.
    pub(crate) fn of_secret(&self, secret: &[u8]) -> Option<Arc<Key>> {
        let digest: [u8; 32] = Sha256::digest(secret).into();
        let keys = self.all();
        let mut found = None;
        for key in keys.iter() {
            if bool::from(key.digest.ct_eq(&digest)) {
                found = Some(Arc::clone(key));
            }
        }
        found
    }

    /// Whose a header `authorization` is: `Bearer KEY`, or `Basic` with the key as the password.
    pub(crate) fn of_header(&self, header: &[u8]) -> Option<Arc<Key>> {
        let (scheme, credentials) = std::str::from_utf8(header).ok()?.split_once(' ')?;
        let credentials = credentials.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.of_secret(credentials.as_bytes());
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let decoded = BASE64.decode(credentials).ok()?;
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        self.of_secret(&decoded[colon + 1..])
    }

    /// The key of a name; and what is asked of whoever says that it is his, which is asked of anybody.
    pub(crate) fn of_name(&self, name: &str) -> (Option<Arc<Key>>, Verifier) {
        let key = self.all().iter().find(|key| key.name == name).cloned();
        let verifier = key.as_ref().map(|key| key.verifier.clone());
        (key, verifier.unwrap_or_else(|| Verifier::of_nobody(name, &self.secret())))
    }
}

fn read(path: &Path) -> Result<Parsed, String> {
    let wrong = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
    let length = fs::metadata(path).map_err(|e| wrong(&e))?.len();
    if length > limits::KEYS_FILE_BYTES {
        return Err(wrong(&format_args!("it has {length} bytes, of at most {}", limits::KEYS_FILE_BYTES)));
    }
    let text = fs::read_to_string(path).map_err(|e| wrong(&e))?;
    parse(&text).map_err(|e| wrong(&e))
}

fn parse(text: &str) -> Result<Parsed, String> {
    let source = config::File::from_str(text, config::FileFormat::Toml);
    let built = config::Config::builder().add_source(source).build();
    let file: File = built.and_then(config::Config::try_deserialize).map_err(|e| e.to_string())?;
    let digits = |text: &String| from_hex(text).ok_or("scram_secret: it is 64 hexadecimal digits");
    let secret = file.scram_secret.as_ref().map(digits).transpose()?;
    let mut keys: Vec<Arc<Key>> = Vec::with_capacity(file.key.len());
    for Entry { name, role, tables, requests, memory, bytes_per_second, sha256, scram } in file.key {
        check_name(&name)?;
        let wrong = |key: &str, why: &str| format!("key {name:?}: {key}: {why}");
        if keys.iter().any(|key| key.name == name) {
            return Err(format!("two keys have the name {name:?}"));
        }
        if tables.is_empty() {
            return Err(wrong("tables", "there is none; \"*\" is all of them"));
        }
        if requests == Some(0) {
            return Err(wrong("requests", "it is at least 1"));
        }
        if memory.is_some_and(|bytes| bytes < limits::LEAST_KEY_MEMORY) {
            return Err(wrong("memory", "it is at least 1MiB"));
        }
        if bytes_per_second.is_some_and(|bytes| bytes < limits::LEAST_PACE) {
            return Err(wrong("bytes_per_second", "it is at least 1MiB"));
        }
        let digest = from_hex(&sha256).ok_or_else(|| wrong("sha256", "it is 64 hexadecimal digits"))?;
        let verifier = scram.parse().map_err(|why| wrong("scram", why))?;
        let (grant, quota) =
            (Grant { role, tables }, Quota::new(&name, Allowance { requests, memory, bytes_per_second }));
        keys.push(Arc::new(Key { grant, quota, digest, verifier, name, gone: Gone::default() }));
    }
    Ok(Parsed { secret, keys: keys.into() })
}

/// That a text is a file of keys; whether it has a secret for SCRAM.
pub(super) fn check(text: &str) -> Result<bool, String> {
    parse(text).map(|parsed| parsed.secret.is_some())
}

/// A text without the mark of the order of bytes, which some editors set, and which stands at a beginning alone.
pub(super) fn unmarked(text: &str) -> &str {
    // Default: it has none.
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The keys of a text, without what they are known by.
pub(super) fn known(text: &str) -> Result<Vec<KnownKey>, String> {
    let known = |key: &Arc<Key>| KnownKey {
        name: key.name.clone(),
        role: key.grant.role,
        tables: key.grant.tables.iter().map(ToString::to_string).collect(),
        allowance: key.quota.allowance(),
    };
    parse(unmarked(text)).map(|parsed| parsed.keys.iter().map(known).collect())
}

/// Names stand in log lines and are users of PostgreSQL's clients.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    if name.is_empty() || name.len() > limits::KEY_NAME_BYTES || !name.chars().all(plain) {
        let most = limits::KEY_NAME_BYTES;
        return Err(format!("{name:?} is no name of a key: letters, digits, and -_.@, at most {most}"));
    }
    Ok(())
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut out = [0; 32];
    if text.len() != 2 * out.len() {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::issue::Issued;

    fn keys(text: &str) -> Keys {
        Keys {
            path: PathBuf::new(),
            keys: RwLock::new(parse(text).unwrap().keys),
            secret: RwLock::new([9; 32]),
        }
    }

    #[test]
    fn a_key_is_found_by_what_only_its_owner_has() {
        let issued =
            Issued::new("sales", Role::Reader, &["sales_*".to_owned()], Allowance::default()).unwrap();
        let other = Issued::new("other", Role::Admin, &["*".to_owned()], Allowance::default()).unwrap();
        let keys = keys(&format!("{}{}", issued.entry, other.entry));
        let name = |key: Option<Arc<Key>>| key.map(|key| key.name.clone());
        assert_eq!(name(keys.of_secret(issued.secret.as_bytes())).as_deref(), Some("sales"));
        assert_eq!(name(keys.of_secret(other.secret.as_bytes())).as_deref(), Some("other"));
        for header in [format!("Bearer {}", issued.secret), format!("bearer  {} ", issued.secret)] {
            assert_eq!(name(keys.of_header(header.as_bytes())).as_deref(), Some("sales"), "{header}");
        }
        // Users of three lengths, so that the padding is of none, one and two signs.
        let mut paddings = Vec::new();
        for user in ["any", "anyb", "anybo"] {
            let basic = BASE64.encode(format!("{user}:{}", issued.secret));
            let plain = basic.trim_end_matches('=');
            paddings.push(basic.len() - plain.len());
            for credentials in [&*basic, plain] {
                let header = format!("Basic {credentials}");
                assert_eq!(name(keys.of_header(header.as_bytes())).as_deref(), Some("sales"), "{header}");
            }
        }
        paddings.sort_unstable();
        assert_eq!(paddings, [0, 1, 2]);
        let cut = &issued.secret[..issued.secret.len() - 1];
        for header in
            ["", "Bearer", "Bearer ", "Basic Og==", "Basic !", &issued.secret, &format!("Bearer {cut}")]
        {
            assert_eq!(name(keys.of_header(header.as_bytes())), None, "{header}");
        }
        let (key, verifier) = keys.of_name("sales");
        assert_eq!(key.unwrap().verifier, verifier);
        assert!(keys.of_name("nobody").0.is_none());
        assert!(!format!("{:?} {:?}", keys, keys.all()).contains(&issued.secret));
    }

    /// Who came with a key is asked for nothing but the key itself whether it is still good.
    #[test]
    fn a_key_that_is_removed_or_changed_is_gone_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        let entry = |name: &str| {
            Issued::new(name, Role::Writer, &["*".to_owned()], Allowance::default()).unwrap().entry
        };
        let (stays, goes, changes) = (entry("stays"), entry("goes"), entry("changes"));
        fs::write(&path, format!("{stays}{goes}{changes}")).unwrap();
        let keys = Keys::open(&path, [9; 32]).unwrap();
        let of = |name: &str| keys.of_name(name).0.unwrap();
        let all = [of("stays"), of("goes"), of("changes")];
        let gone = || all.each_ref().map(|key| key.is_gone());
        assert_eq!((keys.reload(), gone()), (Ok(3), [false; 3]));
        // What cannot be read changes nothing.
        fs::write(&path, "none").unwrap();
        assert!(keys.reload().is_err());
        assert_eq!(gone(), [false; 3]);
        fs::write(&path, format!("{}{stays}", changes.replace("writer", "reader"))).unwrap();
        assert_eq!((keys.reload(), gone()), (Ok(2), [false, true, true]));
        assert!(!of("changes").is_gone());
        fs::write(&path, format!("{stays}{goes}{changes}")).unwrap();
        assert_eq!((keys.reload(), gone()), (Ok(3), [false, true, true]));
        assert!(["stays", "goes", "changes"].iter().all(|name| !of(name).is_gone()));
    }

    #[test]
    fn a_file_that_is_wrong_says_where() {
        let entry = Issued::new("a", Role::Reader, &["*".to_owned()], Allowance::default()).unwrap().entry;
        for (text, says) in [
            (format!("{entry}{entry}"), "two keys"),
            (entry.replace("reader", "owner"), "variant constructor owner"),
            (entry.replace("\"a\"", "\"a b\""), "no name of a key"),
            (entry.replace("[\"*\"]", "[]"), "tables"),
            (entry.replace("sha256 = \"", "sha256 = \"0"), "sha256"),
            (entry.replace("SHA-256$", "SHA-1$"), "scram"),
            (entry.replace("sha256", "requests = 0\nsha256"), "requests"),
            (entry.replace("sha256", "memory = \"1%\"\nsha256"), "no share"),
            (entry.replace("sha256", "memory = \"0B\"\nsha256"), "memory"),
            (entry.replace("sha256", "memory = \"5\"\nsha256"), "at least 1MiB"),
            (entry.replace("sha256", "bytes_per_second = \"1KiB\"\nsha256"), "at least 1MiB"),
            (entry.replace("sha256", "requests = -1\nsha256"), "invalid"),
            (entry.replace("role", "rule"), "unknown field"),
            ("key = 1".to_owned(), "invalid type"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(parse("").unwrap().keys.len(), 0);
    }
}
