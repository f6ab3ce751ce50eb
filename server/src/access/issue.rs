//! New keys: the secret for its owner, and the entry for the file.

use std::{
    fmt::Write as _,
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};

use super::{
    keys::{PREFIX, check_name},
    quota::Allowance,
    roles::{Role, Tables},
    scram::Verifier,
};
use crate::{Error, Memory, limits};

/// A key that nobody has seen yet.
#[derive(Debug)]
pub struct Issued {
    /// What its owner sends. It is kept nowhere.
    pub secret: String,
    /// What stands in the file of keys.
    pub entry: String,
}

impl Issued {
    /// A new key with a name that the file does not have yet, for tables by patterns; its owner may use so much of a server.
    ///
    /// # Errors
    /// A name or a pattern that is none, and a system without chance.
    pub fn new(name: &str, role: Role, tables: &[String], allowance: Allowance) -> Result<Self, Error> {
        check_name(name).map_err(Error::Config)?;
        for tables in tables {
            tables.parse::<Tables>().map_err(Error::Config)?;
        }
        let chance = chance::<48>()?;
        let (bits, salt) = chance.split_at(32);
        let mut first = [0; 16];
        first.copy_from_slice(salt);
        let secret = format!("{PREFIX}{}", BASE64.encode(bits));
        let sha256 = hex(&Sha256::digest(&secret));
        let scram = Verifier::new(&secret, first, limits::SCRAM_ITERATIONS);
        let tables: Vec<String> = tables.iter().map(|tables| format!("{tables:?}")).collect();
        let Allowance { requests, memory, bytes_per_second } = allowance;
        let text = |bytes| format!("\"{}\"", Memory::Bytes(bytes));
        let quota = [
            ("requests", requests.map(|most| most.to_string())),
            ("memory", memory.map(text)),
            ("bytes_per_second", bytes_per_second.map(text)),
        ];
        let line = |(name, most): (&str, Option<String>)| Some(format!("{name} = {}\n", most?));
        let quota: String = quota.into_iter().filter_map(line).collect();
        let entry = format!(
            "[[key]]\nname = \"{name}\"\nrole = \"{role}\"\ntables = [{}]\n{quota}sha256 = \"{sha256}\"\nscram = \"{scram}\"\n\n",
            tables.join(", ")
        );
        Ok(Self { secret, entry })
    }

    /// Adds the entry to a file that its owner alone can read, which is made if it is not there. Servers that have the
    /// file open take the key from then on.
    ///
    /// # Errors
    /// A file that is no file of keys, that another command changes all the time, or that has the name already; and what the
    /// system says.
    pub fn add_to(&self, path: &Path) -> Result<(), Error> {
        let _held = super::file::hold(path)?;
        let before = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        let before = super::keys::unmarked(&before);
        let wrong = |error| Error::Config(format!("{}: {error}", path.display()));
        let end = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
        let mut text = format!("{before}{end}{}", self.entry);
        if !super::keys::check(&text).map_err(wrong)? {
            let secret = hex(&chance::<32>()?);
            text = format!(
                "# What users are asked by that are none, so that nobody finds out which there are.\n\
                 scram_secret = \"{secret}\"\n\n{text}"
            );
            super::keys::check(&text).map_err(wrong)?;
        }
        super::file::replace(path, &text)
    }

    /// Writes the secret to a file of its own, which its owner alone can read and which must not be there yet.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_secret(&self, path: &Path) -> Result<(), Error> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(self.secret.as_bytes())?;
        file.write_all(b"\n")?;
        Ok(file.sync_all()?)
    }
}

fn chance<const N: usize>() -> Result<[u8; N], Error> {
    let mut chance = [0; N];
    let filled = SystemRandom::new().fill(&mut chance);
    filled.map_err(|_| Error::Start("the system gives no random numbers".to_owned()))?;
    Ok(chance)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // A string takes everything.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::keys::Keys;

    #[test]
    fn keys_are_added_to_a_file_that_its_owner_alone_reads() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        let all = Allowance { requests: Some(2), memory: Some(3 << 30), bytes_per_second: Some(5 << 20) };
        let new =
            |name: &str| Issued::new(name, Role::Writer, &["a\"b".to_owned(), "c*".to_owned()], all).unwrap();
        let (first, second) = (new("first"), new("second"));
        first.add_to(&path).unwrap();
        second.add_to(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let keys = Keys::open(&path, [0; 32]).unwrap();
        // Wherever the file is open, users that are none are the same.
        let other = Keys::open(&path, [1; 32]).unwrap();
        assert_eq!(keys.of_name("nobody").1, other.of_name("nobody").1);
        assert_eq!(std::fs::read_to_string(&path).unwrap().matches("scram_secret").count(), 1);
        for (issued, name) in [(&first, "first"), (&second, "second")] {
            assert_eq!(keys.of_secret(issued.secret.as_bytes()).unwrap().name, name);
        }
        assert!(first.entry.contains("memory = \"3GiB\"\nbytes_per_second = \"5MiB\"\n"), "{}", first.entry);
        assert!(new("first").add_to(&path).unwrap_err().to_string().contains("two keys"));
        assert!(Issued::new("a b", Role::Reader, &[], Allowance::default()).is_err());
        assert!(Issued::new("a", Role::Reader, &["[".to_owned()], Allowance::default()).is_err());
        let secret = folder.path().join("secret");
        first.write_secret(&secret).unwrap();
        assert_eq!(std::fs::read_to_string(&secret).unwrap().trim(), first.secret);
        assert!(first.write_secret(&secret).is_err(), "it is there already");
        // As others have written it: with a mark of the order of bytes, without an end of the line, behind a link.
        let (old, link) = (folder.path().join("old.toml"), folder.path().join("link.toml"));
        std::fs::write(&old, format!("\u{feff}# ours\n{}", first.entry.trim_end())).unwrap();
        std::os::unix::fs::symlink(&old, &link).unwrap();
        second.add_to(&link).unwrap();
        new("third").add_to(&old).unwrap();
        let keys = Keys::open(&link, [0; 32]).unwrap();
        assert!(["first", "second", "third"].iter().all(|name| keys.of_name(name).0.is_some()));
        // A file that is being written is none without keys.
        std::fs::write(&old, "").unwrap();
        assert!(keys.reload().unwrap_err().contains("no keys") && keys.of_name("third").0.is_some());
    }
}
