//! A hash table of keys, for sets too large to be searched.

use hashbrown::HashSet;

use super::{bytes::index, mask};

/// Hashed keys behind a Bloom filter with one bit for each (Bloom, CACM 1970), which keeps most look-ups of other
/// keys within the cache.
#[derive(Debug)]
pub(super) struct KeyTable {
    filter: Vec<u64>,
    /// From a hash to its place in the filter.
    shift: u32,
    keys: HashSet<i64>,
}

impl KeyTable {
    /// Bits of the filter for each key: one look-up of another key in 16 to 32 goes on.
    const BITS: usize = 16;

    /// The table of keys, all different.
    pub(super) fn new(keys: &[i64]) -> Self {
        let bits = (Self::BITS * keys.len()).next_power_of_two().max(64);
        let mut table = Self {
            filter: vec![0; bits / 64],
            shift: 64 - bits.ilog2(),
            keys: HashSet::with_capacity(keys.len()),
        };
        for &key in keys {
            let place = table.place(key);
            mask::set(&mut table.filter, place, true);
            table.keys.insert(key);
        }
        table
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        8 * self.filter.len() + self.keys.allocation_size()
    }

    /// The highest bits of Fibonacci hashing.
    #[inline]
    fn place(&self, key: i64) -> usize {
        index(key.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift)
    }

    /// Whether the filter lets a key pass.
    #[inline]
    pub(super) fn may_contain(&self, key: i64) -> bool {
        let place = self.place(key);
        self.filter[place / 64] >> (place % 64) & 1 == 1
    }

    /// Whether a key that the filter let pass is there.
    pub(super) fn holds(&self, key: i64) -> bool {
        self.keys.contains(&key)
    }

    /// Whether a key is there.
    pub(super) fn contains(&self, key: i64) -> bool {
        self.may_contain(key) && self.holds(key)
    }
}
