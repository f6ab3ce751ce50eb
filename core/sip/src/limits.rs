//! What a reader is willing to take on.

use crate::SipError;

/// Limits on a SIP that comes from outside, checked before anything is allocated for it.
///
/// A few bytes of runs can stand for billions of ids, so the size of the body alone bounds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes behind the tag; 64 MiB by default.
    pub body_bytes: usize,
    /// Ids in the set; 2^32 by default.
    pub cardinality: u64,
    /// Bytes that a reader may need to hold the set in its own form; 256 MiB by default. Counted as body +
    /// 128 per bucket + 64 per container for tag 0x01, as 8 per id for tags 0x02 and 0x04, and as 16 per
    /// range for tag 0x03.
    pub decoded_bytes: u64,
    /// Buckets (distinct upper halves of ids) of tag 0x01; 262,144 by default.
    pub buckets: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { body_bytes: 64 << 20, cardinality: 1 << 32, decoded_bytes: 256 << 20, buckets: 1 << 18 }
    }
}

impl Limits {
    /// No limits, for bytes that one has written oneself.
    pub const NONE: Self =
        Self { body_bytes: usize::MAX, cardinality: u64::MAX, decoded_bytes: u64::MAX, buckets: usize::MAX };

    /// That `found`, known from byte `at`, is within `limit`, the field named `what`.
    pub(crate) fn check(at: usize, what: &'static str, found: u64, limit: u64) -> Result<(), SipError> {
        if found <= limit { Ok(()) } else { Err(SipError::LimitExceeded { at, what, found, limit }) }
    }
}
