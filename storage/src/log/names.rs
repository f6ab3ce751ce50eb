//! Names of a log's files.

/// The folder of a table's log.
pub(crate) const FOLDER: &str = "_delta_log";
/// The file that says which checkpoint is the last.
pub(crate) const LAST_CHECKPOINT: &str = "_delta_log/_last_checkpoint";

/// The file of a version.
pub(crate) fn commit(version: u64) -> String {
    format!("{FOLDER}/{version:020}.json")
}

/// The checkpoint of a version, in one file.
pub(crate) fn checkpoint(version: u64) -> String {
    format!("{FOLDER}/{version:020}.checkpoint.parquet")
}

/// A checkpoint's file of several; the first is 1.
pub(crate) fn checkpoint_part(version: u64, part: u64, parts: u64) -> String {
    format!("{FOLDER}/{version:020}.checkpoint.{part:010}.{parts:010}.parquet")
}

/// What a file of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFile {
    Commit(u64),
    /// Part 1 of 1, if there is one file.
    Checkpoint {
        version: u64,
        part: u64,
        parts: u64,
    },
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
        let rest = rest.strip_prefix("checkpoint.")?;
        if rest == "parquet" {
            return Some(Self::Checkpoint { version, part: 1, parts: 1 });
        }
        let (part, parts) = rest.strip_suffix(".parquet")?.split_once('.')?;
        let (part, parts) = (number(part, 10)?, number(parts, 10)?);
        (1..=parts).contains(&part).then_some(Self::Checkpoint { version, part, parts })
    }

    pub(crate) fn version(self) -> u64 {
        match self {
            Self::Commit(version) | Self::Checkpoint { version, .. } => version,
        }
    }
}

fn number(digits: &str, length: usize) -> Option<u64> {
    (digits.len() == length && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_written() {
        assert_eq!(LogFile::of(&commit(42)), Some(LogFile::Commit(42)));
        assert_eq!(LogFile::of(&checkpoint(7)), Some(LogFile::Checkpoint { version: 7, part: 1, parts: 1 }));
        let parts = LogFile::Checkpoint { version: 7, part: 2, parts: 3 };
        assert_eq!(LogFile::of(&checkpoint_part(7, 2, 3)), Some(parts));
        for other in [
            "_delta_log/_last_checkpoint",
            "_delta_log/00000000000000000042.crc",
            "_delta_log/42.json",
            "_delta_log/000000000000000000+2.json",
            "_delta_log/00000000000000000007.checkpoint.0000000004.0000000003.parquet",
            "_delta_log/00000000000000000007.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet",
            "part-0.parquet",
        ] {
            assert_eq!(LogFile::of(other), None, "{other}");
        }
    }
}
