//! Sizes of fragments, by which enough of about the same one are merged: in a store and in memory alike.

use std::collections::BTreeMap;

use crate::limits;

/// The size of a fragment of so many rows, as far as that of others is compared with it.
pub(super) fn tier_of(live_rows: u64) -> u32 {
    live_rows.max(1).ilog2() / limits::TIER_BITS
}

/// The sizes of which there are enough fragments to merge them, the largest first; by those of all.
pub(super) fn full_tiers(tiers: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
    let mut fragments = BTreeMap::<u32, usize>::new();
    tiers.for_each(|tier| *fragments.entry(tier).or_default() += 1);
    fragments.into_iter().rev().filter(|(_, n)| *n >= limits::TIER_FRAGMENTS).map(|(tier, _)| tier)
}
