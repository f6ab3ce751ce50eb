//! Rice codes of the lengths of runs.

/// The greatest `k` whose codes [`ends`](crate::runs::ends) reads.
pub const MAX_K: u32 = 2;
