//! Statistics kernels: what the encodings need to know of keys, before they are encoded.

use crate::dispatch::current;

/// How many keys differ from the one before.
pub fn changes(keys: &[i64]) -> u64 {
    current().changes(keys)
}

/// How many keys are `bound` or greater.
pub fn count_at_least(keys: &[i64], bound: i64) -> u64 {
    current().count_at_least(keys, bound)
}
