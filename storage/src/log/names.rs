//! Names of a log's files.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use uuid::Uuid;

/// The folder of a table's log.
pub(crate) const FOLDER: &str = "_delta_log";
/// The file that says which checkpoint is the last.
pub(crate) const LAST_CHECKPOINT: &str = "_delta_log/_last_checkpoint";

/// What stands encoded in the one spelling of a data file's path: all but what a URI's path may have as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b':')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=');

/// The one spelling of a data file's path. A log has it as a URI, which writers spell in more than one way: `é`, that another one has
/// as `%C3%A9`, is the same file. What is no text once it is decoded stays as it is.
pub(crate) fn spelled(path: &str) -> Cow<'_, str> {
    let Ok(decoded) = percent_decode_str(path).decode_utf8() else { return Cow::Borrowed(path) };
    let encoded = utf8_percent_encode(&decoded, ENCODED).to_string();
    if encoded == path { Cow::Borrowed(path) } else { Cow::Owned(encoded) }
}

/// The file of a version.
pub(crate) fn commit(version: u64) -> String {
    format!("{FOLDER}/{version:020}.json")
}

/// The checkpoint of a version, in one file.
pub(crate) fn checkpoint(version: u64) -> String {
    format!("{FOLDER}/{version:020}.checkpoint.parquet")
}

/// A file of actions that a checkpoint names.
pub(crate) fn sidecar(name: &str) -> String {
    format!("{FOLDER}/_sidecars/{name}")
}

/// A checkpoint, as the names of its files have it. Of those of one version any may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Checkpoint {
    pub(crate) version: u64,
    pub(crate) naming: Naming,
}

/// How the files of a checkpoint are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Naming {
    /// After the version alone, or the version and the part: so many of Parquet.
    Parts(u64),
    /// By an id, so that none replaces another; one of JSON or of Parquet.
    Uuid(Uuid, Format),
}

/// What the file of a UUID-named checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Format {
    Json,
    Parquet,
}

impl Checkpoint {
    /// How many files it has, beside sidecars.
    pub(crate) fn files(self) -> u64 {
        match self.naming {
            Naming::Parts(parts) => parts,
            Naming::Uuid(..) => 1,
        }
    }

    /// One of them; the first is 1.
    pub(crate) fn file(self, part: u64) -> String {
        let version = self.version;
        match self.naming {
            Naming::Parts(1) => checkpoint(version),
            Naming::Parts(parts) => {
                format!("{FOLDER}/{version:020}.checkpoint.{part:010}.{parts:010}.parquet")
            }
            Naming::Uuid(id, Format::Json) => format!("{FOLDER}/{version:020}.checkpoint.{id}.json"),
            Naming::Uuid(id, Format::Parquet) => format!("{FOLDER}/{version:020}.checkpoint.{id}.parquet"),
        }
    }
}

/// What a file of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFile {
    Commit(u64),
    /// One of the files of a checkpoint.
    Checkpoint(Checkpoint),
}

impl LogFile {
    /// By its path; `None` for any other file.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let name = path.strip_prefix(FOLDER)?.strip_prefix('/')?;
        let (version, rest) = name.split_once('.')?;
        let version = number(version, 20)?;
        if rest == "json" {
            return Some(Self::Commit(version));
        }
        let naming = naming(rest.strip_prefix("checkpoint.")?)?;
        Some(Self::Checkpoint(Checkpoint { version, naming }))
    }

    pub(crate) fn version(self) -> u64 {
        match self {
            Self::Commit(version) | Self::Checkpoint(Checkpoint { version, .. }) => version,
        }
    }
}

/// By the end of a checkpoint's name.
fn naming(end: &str) -> Option<Naming> {
    if end == "parquet" {
        return Some(Naming::Parts(1));
    }
    let (rest, format) = match end.rsplit_once('.')? {
        (rest, "json") => (rest, Format::Json),
        (rest, "parquet") => (rest, Format::Parquet),
        _ => return None,
    };
    if let Ok(id) = Uuid::try_parse(rest) {
        // Of the ways to write one, that of a name.
        return (id.to_string() == rest).then_some(Naming::Uuid(id, format));
    }
    let (part, parts) = rest.split_once('.').filter(|_| format == Format::Parquet)?;
    let (part, parts) = (number(part, 10)?, number(parts, 10)?);
    (1..=parts).contains(&part).then_some(Naming::Parts(parts))
}

fn number(digits: &str, length: usize) -> Option<u64> {
    (digits.len() == length && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling() {
        let own = "part-0b9d8ee6-1c4c-4d1a-9f7d-6f9f3a1e7c11.zstd.parquet";
        for same in [own, "d=2024-01-01/part-00000-x.c000.snappy.parquet", "file:///lake/t/a@b;c,d.parquet"] {
            assert!(matches!(spelled(same), Cow::Borrowed(path) if path == same), "{same}");
        }
        for spellings in [
            ["p=a\u{e9}b/x", "p=a%C3%A9b/x", "p=a%c3%a9b/x"],
            ["p=a b/x", "p=a%20b/x", "p%3Da%20b/x"],
            ["p=a+b", "p=a%2Bb", "p=%61%2bb"],
            // Hive has encoded it once before.
            ["p=a%253Ab", "p=a%253Ab", "p=a%25%33Ab"],
        ] {
            let all: Vec<_> = spellings.iter().map(|path| spelled(path)).collect();
            assert!(all.iter().all(|path| *path == all[0]), "{all:?}");
            assert_eq!(spelled(&all[0]), all[0]);
            let decoded = |path: &str| percent_decode_str(path).decode_utf8().unwrap().into_owned();
            assert_eq!(decoded(&all[0]), decoded(spellings[0]));
        }
        assert_ne!(spelled("p=a%3Ab"), spelled("p=a%253Ab"));
        assert_ne!(spelled("p=a b"), spelled("p=a+b"));
        for kept in ["p=%ff", "p=%C3%28"] {
            assert_eq!(spelled(kept), kept);
        }
    }

    #[test]
    fn names_are_read_as_written() {
        assert_eq!(LogFile::of(&commit(42)), Some(LogFile::Commit(42)));
        let id = Uuid::from_u128(0x80a0_83e8_7026_4e79_81be_64bd_76c4_3a11);
        for naming in [
            Naming::Parts(1),
            Naming::Parts(3),
            Naming::Uuid(id, Format::Json),
            Naming::Uuid(id, Format::Parquet),
        ] {
            let checkpoint = Checkpoint { version: 7, naming };
            for part in 1..=checkpoint.files() {
                assert_eq!(LogFile::of(&checkpoint.file(part)), Some(LogFile::Checkpoint(checkpoint)));
            }
        }
        for other in [
            "_delta_log/_last_checkpoint",
            "_delta_log/00000000000000000042.crc",
            "_delta_log/42.json",
            "_delta_log/000000000000000000+2.json",
            "_delta_log/00000000000000000007.checkpoint.0000000004.0000000003.parquet",
            "_delta_log/00000000000000000007.checkpoint.0000000001.0000000003.json",
            "_delta_log/00000000000000000007.checkpoint.80A083E8-7026-4E79-81BE-64BD76C43A11.parquet",
            "_delta_log/00000000000000000007.checkpoint.80a083e870264e7981be64bd76c43a11.json",
            "_delta_log/00000000000000000007.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.orc",
            "_delta_log/00000000000000000007.checkpoint.json",
            "_delta_log/_sidecars/00000000000000000007.checkpoint.parquet",
            "part-0.parquet",
        ] {
            assert_eq!(LogFile::of(other), None, "{other}");
        }
    }
}
