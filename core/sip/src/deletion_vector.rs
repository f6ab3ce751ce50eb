//! Deletion vectors: the blob `deletion-vector-v1` of Iceberg's Puffin files, which Delta Lake stores, too.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | number of bytes of magic and positions, big-endian |
//! | 4 | `d1 d3 39 64` |
//! | | the positions: portable 64-bit roaring, as under tag 0x01 |
//! | 4 | CRC-32 of magic and positions, big-endian |
//!
//! A position is at most 2^63 - 1. Writers need not choose the smallest containers, and some write a bitmap
//! without ids for a bucket that holds none; what [`read`] makes of such a blob is canonical again.

use crate::{BLOCK_IDS, Limits, Sip, SipError, Tag, View, encode, roaring};

const MAGIC: [u8; 4] = [0xd1, 0xd3, 0x39, 0x64];
/// Bytes before the positions.
const START: usize = 8;
/// Bytes of the checksum.
const CHECKSUM: usize = 4;
/// The greatest position.
const MAX_POSITION: u64 = i64::MAX as u64;
/// The length is a signed number for most readers.
const MAX_LENGTH: usize = i32::MAX as usize;

/// What is wrong with a deletion vector; places count from the blob's first byte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeletionVectorError {
    /// The blob's length is not what it says.
    #[error("the deletion vector says that magic and positions take {declared} bytes, and there are {found}")]
    Length {
        /// What it says.
        declared: u32,
        /// Bytes between the length and the checksum.
        found: usize,
    },
    /// It begins with another magic number.
    #[error("the deletion vector has the magic number {found:02x?}, not d1 d3 39 64")]
    Magic {
        /// Its bytes.
        found: [u8; 4],
    },
    /// Its bytes are not those that were written.
    #[error("the deletion vector's checksum is {declared:#010x}, that of its bytes {computed:#010x}")]
    Checksum {
        /// What it says.
        declared: u32,
        /// What its bytes have.
        computed: u32,
    },
    /// A position is above 2^63 - 1.
    #[error("position {position} is above 2^63 - 1, the last one of a deletion vector")]
    Position {
        /// The greatest one.
        position: u64,
    },
    /// The positions take more than 2^31 - 1 bytes, at least as many as are named.
    #[error("the positions take {bytes} bytes or more, more than a deletion vector can hold")]
    TooLong {
        /// Their number, at least.
        bytes: usize,
    },
    /// The bitmap is not valid, or exceeds a limit.
    #[error("the deletion vector's bitmap: {0}")]
    Bitmap(#[from] SipError),
}

/// The blob that holds `set`.
///
/// # Errors
/// [`DeletionVectorError::Position`] and [`DeletionVectorError::TooLong`].
pub fn write(set: &View<'_>) -> Result<Vec<u8>, DeletionVectorError> {
    if let Some(position) = set.last().filter(|last| *last > MAX_POSITION) {
        return Err(DeletionVectorError::Position { position });
    }
    // A full block takes 10 bytes, and no other less.
    let least = set.cardinality() / BLOCK_IDS * 10;
    if least > MAX_LENGTH as u64 {
        return Err(DeletionVectorError::TooLong { bytes: usize::try_from(least).unwrap_or(usize::MAX) });
    }
    let positions = match set.tag() {
        // No buckets.
        Tag::Empty => vec![0; 8],
        Tag::Roaring => body(set.as_bytes()).to_vec(),
        _ => body(encode::view(set, Tag::Roaring).as_bytes()).to_vec(),
    };
    let length = MAGIC.len() + positions.len();
    let declared = u32::try_from(length).ok().filter(|_| length <= MAX_LENGTH);
    let declared = declared.ok_or(DeletionVectorError::TooLong { bytes: length })?;
    let mut blob = Vec::with_capacity(START + positions.len() + CHECKSUM);
    blob.extend(declared.to_be_bytes());
    blob.extend(MAGIC);
    blob.extend(positions);
    let checksum = crc32fast::hash(&blob[4..]);
    blob.extend(checksum.to_be_bytes());
    Ok(blob)
}

/// The set that a blob holds. Nothing is allocated in proportion to what the blob merely claims.
///
/// # Errors
/// A [`DeletionVectorError`] for anything but a deletion vector whose bitmap is within the limits.
pub fn read(blob: &[u8], limits: &Limits) -> Result<Sip, DeletionVectorError> {
    let truncated = |at| SipError::Truncated { at, need: START + CHECKSUM - at };
    let (length, rest) = blob.split_first_chunk().ok_or(truncated(0))?;
    let (hashed, checksum) = rest.split_last_chunk().ok_or(truncated(4))?;
    let (magic, positions) = hashed.split_first_chunk().ok_or(truncated(4))?;
    Limits::check(START, "body_bytes", positions.len() as u64, limits.body_bytes as u64)?;
    let declared = u32::from_be_bytes(*length);
    if declared as usize != hashed.len() {
        return Err(DeletionVectorError::Length { declared, found: hashed.len() });
    }
    if *magic != MAGIC {
        return Err(DeletionVectorError::Magic { found: *magic });
    }
    let (declared, computed) = (u32::from_be_bytes(*checksum), crc32fast::hash(hashed));
    if declared != computed {
        return Err(DeletionVectorError::Checksum { declared, computed });
    }
    let set = roaring::read_foreign(&blob[..START + positions.len()], START, limits)?;
    match set.last().filter(|last| *last > MAX_POSITION) {
        Some(position) => Err(DeletionVectorError::Position { position }),
        None => Ok(set),
    }
}

/// What stands behind the tag.
fn body(sip: &[u8]) -> &[u8] {
    sip.get(1..).unwrap_or_default()
}
