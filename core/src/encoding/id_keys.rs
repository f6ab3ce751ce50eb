//! Keys as ids of a SIP.

use std::ops::RangeInclusive;

use basalt_sip::Sip;

/// The keys that the ids of a SIP are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdKeys {
    /// The column holds uint64, whose keys have the top bit flipped.
    pub flipped: bool,
    /// Ids from 2^63 on are no keys: negative values beside a uint64, or too large ones beside a signed type.
    pub half: bool,
}

pub(super) const TOP: u64 = 1 << 63;

impl IdKeys {
    /// The key of an id.
    pub fn key(self, id: u64) -> Option<i64> {
        (!self.half || id < TOP).then_some((if self.flipped { id ^ TOP } else { id }).cast_signed())
    }

    /// The keys from `min` to `max` as ids, the negative ones and the others: within each, ids and keys have one
    /// order.
    pub(super) fn halves(self, min: i64, max: i64) -> impl Iterator<Item = RangeInclusive<u64>> {
        let halves = [(min, max.min(-1)), (min.max(0), max)].into_iter().filter(|(lo, hi)| lo <= hi);
        halves.filter_map(move |(lo, hi)| Some(self.id(lo)?..=self.id(hi)?))
    }

    /// The id of a key.
    pub fn id(self, key: i64) -> Option<u64> {
        let id = if self.flipped { key.cast_unsigned() ^ TOP } else { key.cast_unsigned() };
        (!self.half || id < TOP).then_some(id)
    }
}

/// How many of the ids are in the set.
pub(super) fn count(sip: &Sip, ids: &RangeInclusive<u64>) -> u64 {
    // Default: nothing comes before the first id.
    let before = ids.start().checked_sub(1).map_or(0, |before| sip.rank(before));
    sip.rank(*ids.end()) - before
}
