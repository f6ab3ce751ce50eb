//! A file of the cache on disk: some columns of one fragment, as they are in memory.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | `BSLTCOLS` |
//! | 8..12, 12..16 | the version of this format, and that of the encodings |
//! | 16..20, 20..24, 24..28, 28..32 | rows, columns, bytes of the key, 0 |
//! | 32..40 | bytes of the file |
//! | 40..48 | XXH3 of the index, these bytes taken as 0 |
//! | 48.. | the key, padded to 8 bytes; then 64 bytes for each column: its id, the offset of its values, the lengths of values, validity and head, XXH3 of each |
//!
//! The index ends there. A column's values begin at a multiple of 64, its validity and its head at the next ones. Nothing
//! is believed: of a file that does not check no column is read, and no more memory is taken than it has bytes.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::FileExt as _,
    path::Path,
};

use arrow_buffer::{Buffer, MutableBuffer};
use basalt_core::{encoding, fragment::ColumnParts};
use twox_hash::XxHash3_64;

use crate::limits;

const MAGIC: [u8; 8] = *b"BSLTCOLS";
/// The version of the format.
pub(crate) const VERSION: u32 = 1;
const HEAD: usize = 48;
const HASH: std::ops::Range<usize> = 40..48;
const ENTRY: usize = 64;
const ALIGNMENT: usize = 64;
/// What is read at once: the index of most files.
const FIRST: usize = 4096;
/// What is copied at once.
const COPIED: usize = 1 << 20;

/// Why a file is not read.
#[derive(Debug)]
pub(crate) enum Problem {
    /// There is none.
    Missing,
    /// It is not what was written.
    Damaged(&'static str),
    Io(io::Error),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing,
            io::ErrorKind::UnexpectedEof => Self::Damaged("it ends too soon"),
            _ => Self::Io(error),
        }
    }
}

fn ensure(holds: bool, why: &'static str) -> Result<(), Problem> {
    if holds { Ok(()) } else { Err(Problem::Damaged(why)) }
}

/// Where a column lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    offset: u64,
    /// Of values, validity and head.
    lengths: [u64; 3],
    hashes: [u64; 3],
}

impl Entry {
    /// Bytes of its parts.
    pub(crate) fn bytes(&self) -> u64 {
        self.lengths.iter().sum()
    }

    /// Where its parts begin; `None` where that cannot be.
    fn offsets(&self) -> Option<[u64; 3]> {
        let next = |at: u64, length: u64| at.checked_add(length)?.checked_next_multiple_of(ALIGNMENT as u64);
        let validity = next(self.offset, self.lengths[0])?;
        Some([self.offset, validity, next(validity, self.lengths[1])?])
    }

    fn end(&self) -> Option<u64> {
        self.offsets()?[2].checked_add(self.lengths[2])
    }
}

/// The parts of a column in the order in which they lie.
fn sections(parts: &ColumnParts) -> [&[u8]; 3] {
    [&parts.values, parts.validity.as_ref().map_or(&[], Buffer::as_slice), &parts.head]
}

fn index_bytes(key: &str, columns: usize) -> usize {
    HEAD + key.len().next_multiple_of(8) + columns * ENTRY
}

/// Where a column that is written comes from.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    Memory(ColumnParts),
    /// Another file, from where it is copied as it is; whoever reads it sees whether it is damaged.
    File(&'a Opened, Entry),
}

impl Source<'_> {
    fn lengths(&self) -> [u64; 3] {
        match self {
            Self::Memory(parts) => sections(parts).map(|section| section.len() as u64),
            Self::File(_, entry) => entry.lengths,
        }
    }

    fn hashes(&self) -> [u64; 3] {
        match self {
            Self::Memory(parts) => sections(parts).map(XxHash3_64::oneshot),
            Self::File(_, entry) => entry.hashes,
        }
    }

    fn write(&self, section: usize, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Memory(parts) => out.write_all(sections(parts)[section]),
            Self::File(file, entry) => file.copy(entry, section, out),
        }
    }
}

/// What a file is to hold.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    key: &'a str,
    rows: u32,
    columns: Vec<(Entry, Source<'a>)>,
    bytes: u64,
}

impl<'a> Contents<'a> {
    /// `None`: that is more than a file may hold.
    pub(crate) fn new(key: &'a str, rows: u32, columns: Vec<(u64, Source<'a>)>) -> Option<Self> {
        if key.len() > limits::CACHE_KEY_BYTES || columns.len() > basalt_core::limits::MAX_COLUMNS {
            return None;
        }
        let mut end = index_bytes(key, columns.len()) as u64;
        let mut placed = Vec::with_capacity(columns.len());
        for (id, source) in columns {
            let offset = end.next_multiple_of(ALIGNMENT as u64);
            let entry = Entry { id, offset, lengths: source.lengths(), hashes: source.hashes() };
            end = entry.end()?;
            placed.push((entry, source));
        }
        Some(Self { key, rows, columns: placed, bytes: end })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn index(&self) -> Vec<u8> {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
        let mut index = Vec::with_capacity(index_bytes(self.key, self.columns.len()));
        index.extend(MAGIC);
        index.extend(VERSION.to_le_bytes());
        index.extend(encoding::FORMAT_VERSION.to_le_bytes());
        index.extend(self.rows.to_le_bytes());
        index.extend(number(self.columns.len()));
        index.extend(number(self.key.len()));
        index.extend([0; 4]);
        index.extend(self.bytes.to_le_bytes());
        index.extend([0; 8]);
        index.extend(self.key.as_bytes());
        index.resize(HEAD + self.key.len().next_multiple_of(8), 0);
        for (entry, _) in &self.columns {
            let fields = [entry.id, entry.offset].into_iter().chain(entry.lengths).chain(entry.hashes);
            fields.for_each(|field| index.extend(field.to_le_bytes()));
        }
        let hash = XxHash3_64::oneshot(&index);
        index[HASH].copy_from_slice(&hash.to_le_bytes());
        index
    }

    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let index = self.index();
        out.write_all(&index)?;
        let mut at = index.len() as u64;
        for (entry, source) in &self.columns {
            let offsets = entry.offsets().ok_or(io::ErrorKind::InvalidData)?;
            for (section, offset) in offsets.into_iter().enumerate() {
                let padding = usize::try_from(offset - at).unwrap_or(ALIGNMENT).min(ALIGNMENT);
                out.write_all(&[0; ALIGNMENT][..padding])?;
                source.write(section, out)?;
                at = offset + entry.lengths[section];
            }
        }
        Ok(())
    }
}

/// A file that is read.
#[derive(Debug)]
pub(crate) struct Opened {
    file: File,
    entries: Vec<Entry>,
}

impl Opened {
    /// Opens a file, and checks its index.
    pub(crate) fn open(path: &Path, key: &str, rows: u32) -> Result<Self, Problem> {
        // What is no file may wait for ever when it is opened.
        ensure(fs::symlink_metadata(path)?.is_file(), "it is no file")?;
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let entries = read_index(&file, bytes, key, rows)?;
        Ok(Self { file, entries })
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    fn copy(&self, entry: &Entry, section: usize, out: &mut impl Write) -> io::Result<()> {
        let offsets = entry.offsets().ok_or(io::ErrorKind::InvalidData)?;
        let (mut at, mut left) = (offsets[section], entry.lengths[section]);
        let mut bytes = vec![0; usize::try_from(left).unwrap_or(COPIED).min(COPIED)];
        while left > 0 {
            let n = usize::try_from(left).unwrap_or(COPIED).min(COPIED);
            self.file.read_exact_at(&mut bytes[..n], at)?;
            out.write_all(&bytes[..n])?;
            (at, left) = (at + n as u64, left - n as u64);
        }
        Ok(())
    }

    /// Reads a column.
    pub(crate) fn read(&self, entry: &Entry) -> Result<ColumnParts, Problem> {
        let offsets = entry.offsets().ok_or(Problem::Damaged("a length overflows"))?;
        let section = |i: usize| {
            let length =
                usize::try_from(entry.lengths[i]).map_err(|_| Problem::Damaged("a length overflows"))?;
            let mut bytes = MutableBuffer::from_len_zeroed(length);
            self.file.read_exact_at(&mut bytes, offsets[i])?;
            ensure(XxHash3_64::oneshot(&bytes) == entry.hashes[i], "a column does not have its hash")?;
            Ok::<_, Problem>(Buffer::from(bytes))
        };
        let validity = if entry.lengths[1] == 0 { None } else { Some(section(1)?) };
        Ok(ColumnParts { head: section(2)?.to_vec(), values: section(0)?, validity })
    }
}

fn read_index(file: &File, bytes: u64, key: &str, rows: u32) -> Result<Vec<Entry>, Problem> {
    let mut index = vec![0; FIRST.min(usize::try_from(bytes).unwrap_or(FIRST))];
    file.read_exact_at(&mut index, 0)?;
    let head = index.get(..HEAD).ok_or(Problem::Damaged("it ends too soon"))?;
    let number = |at: usize| {
        let field = head[at..].first_chunk().copied();
        field.map(u32::from_le_bytes).ok_or(Problem::Damaged("it ends too soon"))
    };
    ensure(head[..8] == MAGIC, "it is no file of the cache")?;
    ensure(number(8)? == VERSION && number(12)? == encoding::FORMAT_VERSION, "it is of another version")?;
    ensure(head[32..40] == bytes.to_le_bytes(), "it has another length")?;
    let (columns, key_bytes) = (number(20)? as usize, number(24)? as usize);
    ensure(columns <= basalt_core::limits::MAX_COLUMNS, "it has too many columns")?;
    ensure(key_bytes == key.len() && number(16)? == rows, "it is of other rows")?;
    let end = index_bytes(key, columns);
    ensure(end as u64 <= bytes, "it ends too soon")?;
    if end > index.len() {
        let read = index.len();
        index.resize(end, 0);
        file.read_exact_at(&mut index[read..], read as u64)?;
    }
    index.truncate(end);
    let hash = index[HASH].first_chunk().copied().map(u64::from_le_bytes);
    index[HASH].fill(0);
    ensure(hash == Some(XxHash3_64::oneshot(&index)), "its index does not have its hash")?;
    ensure(index[HEAD..].starts_with(key.as_bytes()), "it is of other rows")?;
    let entries = index[end - columns * ENTRY..].chunks_exact(ENTRY).map(|bytes| {
        let field = |at: usize| {
            let field = bytes[at * 8..].first_chunk().copied();
            field.map_or(u64::MAX, u64::from_le_bytes)
        };
        Entry {
            id: field(0),
            offset: field(1),
            lengths: [field(2), field(3), field(4)],
            hashes: [field(5), field(6), field(7)],
        }
    });
    let entries: Vec<Entry> = entries.collect();
    // Columns that lie over each other could take more memory than the file has bytes.
    let mut from = end as u64;
    for entry in &entries {
        let end = entry
            .end()
            .filter(|end| *end <= bytes)
            .ok_or(Problem::Damaged("a column lies behind its end"))?;
        let is_aligned = entry.offset.is_multiple_of(ALIGNMENT as u64);
        ensure(entry.offset >= from && is_aligned, "a column lies where it cannot")?;
        from = end;
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use basalt_core::{
        fragment::Column,
        schema::{DataType, Field},
    };

    use super::*;

    const ROWS: u32 = 40;
    const KEY: &str = "table\nfile\n0";

    fn columns() -> Vec<(u64, Column)> {
        let keys: Vec<i64> = (0..i64::from(ROWS)).map(|i| i * i % 1001).collect();
        let field = Field::new("a", DataType::Int64, true);
        let texts: arrow_array::StringArray = keys.iter().map(|key| Some(format!("text {key}"))).collect();
        vec![
            (7, Column::from_keys(&field, &keys, None).unwrap()),
            (9, Column::from_keys(&field, &keys, Some(&[0x55_5555_5555])).unwrap()),
            (11, Column::from_texts(&Field::new("t", DataType::Utf8, true), &texts, None).unwrap()),
        ]
    }

    fn written() -> Vec<u8> {
        let columns = columns();
        let sources = columns.iter().map(|(id, column)| (*id, Source::Memory(column.to_parts())));
        let contents = Contents::new(KEY, ROWS, sources.collect()).unwrap();
        let mut bytes = Vec::new();
        contents.write(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, contents.bytes());
        bytes
    }

    type Found = (u64, Result<ColumnParts, Problem>);

    /// The columns that a file has, as far as it can be read.
    fn read(path: &Path) -> Result<Vec<Found>, Problem> {
        let opened = Opened::open(path, KEY, ROWS)?;
        Ok(opened.entries().iter().map(|entry| (entry.id, opened.read(entry))).collect())
    }

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, written()).unwrap();
        for ((id, column), (found, parts)) in columns().iter().zip(read(&path).unwrap()) {
            let parts = parts.unwrap();
            assert_eq!(parts.values.as_ptr().align_offset(ALIGNMENT), 0);
            let again = Column::from_parts(parts, column.data_type(), ROWS as usize).unwrap();
            assert_eq!((*id, column.encoding()), (found, again.encoding()));
            assert!((0..ROWS as usize).all(|row| column.value(row) == again.value(row)));
        }
        for (key, rows) in [("table\nfile\n1", ROWS), ("table\nfile\n00", ROWS), (KEY, ROWS + 1)] {
            assert!(matches!(Opened::open(&path, key, rows), Err(Problem::Damaged("it is of other rows"))));
        }
        assert!(matches!(Opened::open(&folder.path().join("b"), KEY, ROWS), Err(Problem::Missing)));
        assert!(matches!(Opened::open(folder.path(), KEY, ROWS), Err(Problem::Damaged("it is no file"))));
    }

    #[test]
    fn a_spoilt_file_is_damaged_or_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let bytes = written();
        let expected: Vec<_> = columns().iter().map(|(id, column)| (*id, column.to_parts())).collect();
        let (mut damaged, mut same) = (0, 0);
        let mut check = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let found = match read(&path) {
                Ok(found) => found,
                Err(Problem::Damaged(_)) => return damaged += 1,
                Err(problem) => panic!("{problem:?}"),
            };
            assert_eq!(found.len(), expected.len());
            for ((id, parts), (expected_id, expected)) in found.into_iter().zip(&expected) {
                assert_eq!(id, *expected_id);
                match parts {
                    Ok(parts) => {
                        same += 1;
                        assert_eq!(sections(&parts), sections(expected));
                    }
                    Err(Problem::Damaged(_)) => damaged += 1,
                    Err(problem) => panic!("{problem:?}"),
                }
            }
        };
        for end in 0..bytes.len() {
            check(&bytes[..end]);
        }
        check(&[&bytes[..], &[0]].concat());
        let mut spoilt = bytes.clone();
        for bit in 0..bytes.len() * 8 {
            spoilt[bit / 8] ^= 1 << (bit % 8);
            check(&spoilt);
            spoilt[bit / 8] = bytes[bit / 8];
        }
        assert!(damaged > bytes.len() * 8 && same > bytes.len(), "{damaged} {same}");
    }

    #[test]
    fn an_index_that_has_its_hash_is_not_believed_either() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let bytes = written();
        let end = index_bytes(KEY, 3);
        for at in (0..end).step_by(8) {
            for field in [0, 1, 64, 1 << 20, u64::MAX, u64::MAX / 2, u64::from(u32::MAX), u64::MAX - 63] {
                let mut spoilt = bytes.clone();
                spoilt[at..at + 8].copy_from_slice(&field.to_le_bytes());
                spoilt[HASH].fill(0);
                let hash = XxHash3_64::oneshot(&spoilt[..end]);
                spoilt[HASH].copy_from_slice(&hash.to_le_bytes());
                fs::write(&path, &spoilt).unwrap();
                let Ok(opened) = Opened::open(&path, KEY, ROWS) else { continue };
                let total: u64 = opened.entries().iter().map(Entry::bytes).sum();
                assert!(total <= bytes.len() as u64);
                for entry in opened.entries() {
                    let _ = opened.read(entry);
                }
            }
        }
    }
}
