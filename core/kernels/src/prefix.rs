//! Gaps to ids.

use crate::dispatch::current;

/// Replaces gaps, the ids left out before each id, by the ids: `ids[0] = base + gaps[0]` and
/// `ids[i] = ids[i - 1] + 1 + gaps[i]`, so `base` is the least id that may come. Returns the last id (`base - 1`,
/// wrapping, of none). `None` where an id is above 2^64 - 1; `gaps` then holds anything.
pub fn gaps_to_ids(base: u64, gaps: &mut [u64]) -> Option<u64> {
    current().prefix_gaps_to_ids(base, gaps)
}
