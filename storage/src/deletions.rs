//! Deletion vectors: which rows of a data file are deleted. Their bytes are those of
//! [`basalt_sip::deletion_vector`]; short ones stand in the log, the others of a commit in one file.

use basalt_sip::{Limits, Sip, deletion_vector};
use uuid::Uuid;

use crate::{
    error::{Result, StorageError},
    limits::{DELETION_VECTOR_BYTES, INLINE_DELETION_VECTOR_BYTES},
    log::{DataFile, Descriptor, FragmentEntry},
    places,
    store::Store,
    z85,
};

/// Bytes around a vector in a file: its length, and its checksum.
const LENGTH: usize = 4;
const CHECKSUM: usize = 4;
/// The first byte of a file.
const FILE_VERSION: u8 = 1;
/// Characters of an encoded UUID.
const UUID_CHARS: usize = 20;

/// The deletion vectors of a commit.
pub(crate) struct Vectors {
    id: Uuid,
    file: Vec<u8>,
}

impl Vectors {
    pub(crate) fn new(id: Uuid) -> Self {
        Self { id, file: Vec::new() }
    }

    /// Takes in a set of rows; says where it will be.
    pub(crate) fn push(&mut self, deleted: &Sip) -> Result<Descriptor> {
        let blob = deletion_vector::write(&deleted.view())
            .map_err(|e| StorageError::corrupt("a deletion vector", e))?;
        let data = &blob[LENGTH..blob.len() - CHECKSUM];
        let size_in_bytes =
            u32::try_from(data.len()).map_err(|e| StorageError::corrupt("a deletion vector", e))?;
        let cardinality = deleted.cardinality();
        if data.len() <= INLINE_DELETION_VECTOR_BYTES {
            let path_or_inline_dv = z85::encode(data);
            return Ok(Descriptor {
                storage_type: "i".into(),
                path_or_inline_dv,
                offset: None,
                size_in_bytes,
                cardinality,
            });
        }
        if self.file.is_empty() {
            self.file.push(FILE_VERSION);
        }
        let offset =
            u32::try_from(self.file.len()).map_err(|e| StorageError::corrupt("deletion vectors", e))?;
        self.file.extend(blob);
        let path_or_inline_dv = z85::encode(self.id.as_bytes());
        Ok(Descriptor {
            storage_type: "u".into(),
            path_or_inline_dv,
            offset: Some(offset),
            size_in_bytes,
            cardinality,
        })
    }

    /// The file, if one is needed, and its name.
    pub(crate) fn finish(self) -> Option<(String, Vec<u8>)> {
        (!self.file.is_empty()).then(|| (file_name("", self.id), self.file))
    }
}

fn file_name(prefix: &str, id: Uuid) -> String {
    let folder = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    format!("{folder}deletion_vector_{id}.bin")
}

/// The file that holds a vector, from the table's folder; `None` for one that stands in the log.
pub(crate) fn file_of(store: &Store, descriptor: &Descriptor) -> Result<Option<String>> {
    let place = &descriptor.path_or_inline_dv;
    match descriptor.storage_type.as_str() {
        "i" => Ok(None),
        "u" => {
            let at = place.len().checked_sub(UUID_CHARS).filter(|at| place.is_char_boundary(*at));
            let id = at.and_then(|at| Uuid::from_slice(&z85::decode(&place[at..])?).ok());
            let (at, id) = at
                .zip(id)
                .ok_or_else(|| StorageError::corrupt("a deletion vector", "its UUID is not one"))?;
            places::below(store, "deletion vector", file_name(&place[..at], id)).map(Some)
        }
        "p" => match places::absolute(store, place) {
            Some(path) => Ok(Some(path)),
            None => {
                let feature = format!("deletion vectors outside of the table ({place})");
                Err(StorageError::Unsupported { feature })
            }
        },
        other => {
            Err(StorageError::Unsupported { feature: format!("deletion vectors of the kind {other:?}") })
        }
    }
}

/// The rows of a file that are deleted; `None` when none is.
pub(crate) async fn of_file(store: &Store, file: &DataFile) -> Result<Option<Sip>> {
    let Some(descriptor) = file.deletion_vector.as_deref() else { return Ok(None) };
    let place = || match file_of(store, descriptor) {
        Ok(Some(path)) => format!("{}/{path}, the deletion vector of {}", store.url(), file.path()),
        _ => format!("the deletion vector of {}/{}", store.url(), file.path()),
    };
    let size = u64::from(descriptor.size_in_bytes);
    if size > DELETION_VECTOR_BYTES {
        return Err(StorageError::Limit {
            path: place(),
            what: "its size in bytes",
            found: size,
            limit: DELETION_VECTOR_BYTES,
        });
    }
    let blob = match file_of(store, descriptor)? {
        None => {
            inline(descriptor).ok_or_else(|| StorageError::corrupt(place(), "it is not Z85 of its length"))?
        }
        Some(path) => {
            // Default: the file's beginning; what is there must have the length and the checksum.
            let start = u64::from(descriptor.offset.unwrap_or(0));
            let range = start..start + size + (LENGTH + CHECKSUM) as u64;
            store.get_ranges(&path, &[range]).await?.concat()
        }
    };
    let limits = Limits { cardinality: file.rows(), ..Limits::default() };
    let set = deletion_vector::read(&blob, &limits).map_err(|e| StorageError::corrupt(place(), e))?;
    if set.cardinality() != descriptor.cardinality {
        let why = format!("{} rows are in it, {} in the log", set.cardinality(), descriptor.cardinality);
        return Err(StorageError::corrupt(place(), why));
    }
    if let Some(last) = set.view().last().filter(|last| *last >= file.rows()) {
        return Err(StorageError::corrupt(place(), format!("row {last} of {}", file.rows())));
    }
    Ok(Some(set))
}

/// The rows of a fragment that are deleted, as offsets in it; `None` when none is.
pub(crate) async fn read(store: &Store, fragment: &FragmentEntry) -> Result<Option<Sip>> {
    let Some(set) = of_file(store, &fragment.file).await? else { return Ok(None) };
    let first = fragment.first_row;
    let whole = fragment.is_whole_file();
    let part = if whole {
        set
    } else {
        let part = Sip::from_ranges([first..=first + u64::from(fragment.rows) - 1]);
        let rows: Vec<u64> = set.view().intersection(&part.view()).iter().map(|row| row - first).collect();
        Sip::from_sorted_ids(&rows)
    };
    Ok((!part.is_empty()).then_some(part))
}

/// Reads all that the deletion vector of a fragment is stored as, the first byte of its file included, on which no
/// answer depends.
pub(crate) async fn verify(store: &Store, fragment: &FragmentEntry) -> Result<()> {
    read(store, fragment).await?;
    let descriptor = fragment.file.deletion_vector.as_deref();
    let path = descriptor.map(|descriptor| file_of(store, descriptor)).transpose()?;
    let Some(path) = path.flatten() else { return Ok(()) };
    let range = 0..1;
    let first = store.get_ranges(&path, &[range]).await?.concat();
    if first != [FILE_VERSION] {
        let why = format!("its version is {first:?}, not {FILE_VERSION}");
        return Err(StorageError::corrupt(format!("{}/{path}", store.url()), why));
    }
    Ok(())
}

/// A vector of the log, with length and checksum around it as in a file.
fn inline(descriptor: &Descriptor) -> Option<Vec<u8>> {
    let decoded = z85::decode(&descriptor.path_or_inline_dv)?;
    let data = decoded.get(..descriptor.size_in_bytes as usize)?;
    let mut blob = descriptor.size_in_bytes.to_be_bytes().to_vec();
    blob.extend_from_slice(data);
    blob.extend(crc32fast::hash(data).to_be_bytes());
    Some(blob)
}
