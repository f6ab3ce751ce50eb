//! Digests of a data file's bytes: what was written is what is read.
//!
//! A file that Basalt writes has them in the log, in the tag [`TAG`] of its `add`: XXH3 of 64 bits of the footer, of
//! what stands around the columns, and of each column of each row group, so that a column that is read alone is checked
//! too. XXH3 takes little beside what decompressing takes, misses a change with a chance of 2^-64, and its crate is in the
//! tree already: `parquet` uses it.
//!
//! A file without them, of another writer or of an older Basalt, is remembered as it was when it was first read: what
//! is read later must be the same.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use parquet::file::metadata::ParquetMetaData;
use twox_hash::XxHash3_64;

use super::footer::END;
use crate::{
    limits::{FILE_DIGESTS, SEEN_DIGESTS},
    log::DataFile,
    z85,
};

/// The tag of a data file that holds its digests, each as the ten characters of Z85 that its eight bytes, the greatest
/// first, are: of the footer, its length and the last `PAR1` included; of the first `PAR1` and what stands between the
/// columns and the footer; then of the columns of each row group in their order.
pub(crate) const TAG: &str = "basalt.xxh3";
/// Characters of a digest.
const DIGEST_CHARS: usize = 10;

/// A part of a file that has a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Footer,
    /// What is neither footer nor column.
    Rest,
    Column {
        group: usize,
        leaf: usize,
        /// How many the file has.
        of: usize,
    },
}

impl Piece {
    fn place(self) -> usize {
        match self {
            Self::Footer => 0,
            Self::Rest => 1,
            Self::Column { group, leaf, of } => 2 + group * of + leaf,
        }
    }
}

pub(crate) fn of(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Where the columns of a file end.
pub(crate) fn end_of_columns(metadata: &ParquetMetaData) -> u64 {
    let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    columns.map(|column| column.byte_range()).map(|(start, length)| start + length).max().unwrap_or(4)
}

/// The tag of a file; `None` for one whose metadata do not fit it.
pub(crate) fn tag(file: &[u8], metadata: &ParquetMetaData) -> Option<String> {
    let range =
        |range: Range<u64>| file.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?);
    let length = file.get(file.len().checked_sub(END)?..)?.first_chunk().map(|l| u32::from_le_bytes(*l))?;
    let footer = file.len().checked_sub(END + usize::try_from(length).ok()?)?;
    let mut digests = vec![of(file.get(footer..)?)];
    let between = range(end_of_columns(metadata)..footer as u64)?;
    digests.push(of(&[file.get(..4)?, between].concat()));
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        let (start, length) = column.byte_range();
        digests.push(of(range(start..start + length)?));
    }
    let bytes: Vec<u8> = digests.into_iter().flat_map(u64::to_be_bytes).collect();
    (bytes.len() / 8 <= FILE_DIGESTS).then(|| z85::encode(&bytes))
}

/// The entry of a Parquet file's own metadata that holds the digest of the file with zeros in the place of that digest:
/// for files that no entry of a log could speak of, which are checkpoints. Two nodes may write the same one at once, so
/// that `_last_checkpoint` cannot speak of it, either.
pub(crate) const SEAL: &str = "basalt.file.xxh3";
/// What stands there before the digest is known.
pub(crate) const UNSEALED: &str = "0000000000";

/// The header of a field that is a text and follows its predecessor, and a text's length of [`DIGEST_CHARS`].
const TEN_CHARS: [u8; 2] = [0x18, 10];

/// Where the digest of a sealed file is. It is behind the last place of its name; a text in Thrift's compact protocol
/// follows the header of its field and its length.
fn place_of_seal(file: &[u8]) -> Option<Range<usize>> {
    let start = file.windows(SEAL.len()).rposition(|name| name == SEAL.as_bytes())? + SEAL.len();
    let is_text = file.get(start..)?.starts_with(&TEN_CHARS);
    let start = start + 2;
    (is_text && file.len() >= start + DIGEST_CHARS).then_some(start..start + DIGEST_CHARS)
}

/// Puts the digest of a file that is whole but for that into it.
pub(crate) fn seal(file: &mut [u8]) -> Option<()> {
    let place = place_of_seal(file)?;
    let digest = z85::encode(&of(file).to_be_bytes());
    file.get_mut(place)?.copy_from_slice(digest.as_bytes());
    Some(())
}

/// That a file which is sealed is as it was then; of others nothing is known.
pub(crate) fn check_seal(file: &[u8]) -> Result<(), String> {
    let Some(place) = place_of_seal(file) else { return Ok(()) };
    let (mut unsealed, told) = (file.to_vec(), file[place.clone()].to_vec());
    unsealed[place].copy_from_slice(UNSEALED.as_bytes());
    match z85::encode(&of(&unsealed).to_be_bytes()).into_bytes() == told {
        true => Ok(()),
        false => Err("the bytes are not those that were written".to_owned()),
    }
}

/// The digests of a file, as memory holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Digests {
    /// Eight bytes each.
    Bytes(Box<[u8]>),
    /// A tag that is not all Z85.
    Text(Box<str>),
}

impl Digests {
    /// Of the tag of a file.
    pub(crate) fn of_tag(tag: String) -> Self {
        match z85::decode(&tag) {
            Some(bytes) => Self::Bytes(bytes.into()),
            None => Self::Text(tag.into()),
        }
    }

    /// The tag.
    pub(crate) fn to_tag(&self) -> String {
        match self {
            Self::Bytes(bytes) => z85::encode(bytes),
            Self::Text(tag) => tag.to_string(),
        }
    }

    /// Characters of the tag.
    fn chars(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len() / 4 * 5,
            Self::Text(tag) => tag.len(),
        }
    }

    /// Bytes that they take.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Text(tag) => tag.len(),
        }
    }

    fn get(&self, piece: Piece) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => {
                bytes.get(piece.place() * 8..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
            }
            Self::Text(tag) => {
                let at = piece.place() * DIGEST_CHARS;
                let bytes = z85::decode(tag.get(at..at + DIGEST_CHARS)?)?;
                bytes.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
            }
        }
    }
}

/// That the log has as many digests of a file as it needs.
pub(crate) fn check_count(file: &DataFile, metadata: &ParquetMetaData) -> Result<(), String> {
    let Some(digests) = file.digests() else { return Ok(()) };
    let columns: usize = metadata.row_groups().iter().map(|group| group.num_columns()).sum();
    if digests.chars() == (2 + columns) * DIGEST_CHARS && 2 + columns <= FILE_DIGESTS {
        return Ok(());
    }
    Err(format!("it has {columns} columns in all row groups, and the log has digests of another number"))
}

/// What files without digests in the log were when they were first read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    files: HashMap<Arc<str>, KnownFile>,
    digests: usize,
}

#[derive(Debug)]
struct KnownFile {
    bytes: u64,
    modified: i64,
    digests: HashMap<usize, u64>,
}

impl Seen {
    /// That a piece of a file is what was written, or what was read before.
    pub(crate) fn check(&self, file: &DataFile, piece: Piece, bytes: &[u8]) -> Result<(), String> {
        let found = of(bytes);
        let expected = match file.digests() {
            Some(digests) => digests
                .get(piece)
                .ok_or("the log has digests of it, and none of this part that can be read")?,
            None => self.first(file, piece, found),
        };
        if expected == found {
            return Ok(());
        }
        let by = if file.digests().is_some() { "that were written" } else { "that were read before" };
        Err(format!("the bytes are not those {by}: their digest is {found:016x}, not {expected:016x}"))
    }

    /// The digest that a piece had when it was first read; beyond a limit it is not remembered.
    fn first(&self, file: &DataFile, piece: Piece, found: u64) -> u64 {
        let mut known = self.known();
        let full = known.digests >= SEEN_DIGESTS;
        let (bytes, modified) = (file.bytes(), file.modified_millis());
        let known_file = known.files.get(file.path());
        let same = known_file.filter(|known| (known.bytes, known.modified) == (bytes, modified));
        if let Some(digest) = same.and_then(|known| known.digests.get(&piece.place())) {
            return *digest;
        }
        if full {
            return found;
        }
        if same.is_none() {
            // Another file of this name, as far as the log says.
            let file_now = KnownFile { bytes, modified, digests: HashMap::new() };
            let gone = known.files.insert(file.path().into(), file_now);
            // Default: nothing was known of it.
            known.digests -= gone.map_or(0, |gone| gone.digests.len());
        }
        if let Some(known_file) = known.files.get_mut(file.path()) {
            known_file.digests.insert(piece.place(), found);
            known.digests += 1;
        }
        found
    }

    /// Forgets the files that are not among some.
    pub(crate) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        let mut known = self.known();
        if !known.files.is_empty() {
            known.files.retain(|path, _| is_there(path));
            known.digests = known.files.values().map(|file| file.digests.len()).sum();
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
