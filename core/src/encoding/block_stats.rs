//! Parts of the statistics of a column of keys: those of a block, and the counts of its values.

use basalt_kernels as kernels;

use super::bytes::{bits, count, index};
use crate::invariant::Invariant;

/// Distinct values up to which an encoded column comes with the number of rows of each.
pub const MAX_VALUE_COUNTS: usize = 256;
/// Keys in order, each with the number of its rows.
pub type ValueCounts = Vec<(i64, u64)>;

/// Bits of an exception's place.
const PLACE_BITS: u64 = 16;
/// Bits that packing adds at most: to fill the last chunk of 64 rows and two vectors.
const PADDING_BITS: u64 = 64 * 64 + 2 * 512;

/// Statistics of one block.
#[derive(Clone, Debug)]
pub struct BlockStats {
    /// Keys.
    pub rows: usize,
    /// The least key.
    pub min: i64,
    /// The greatest key.
    pub max: i64,
    /// How many of the differences to `min` have each length in bits. Where most are longer than some length, the
    /// shorter ones count among those longest ones that are not many: no packing would take them for exceptions.
    pub lengths: [u32; 65],
}

impl BlockStats {
    pub(super) fn new(keys: &[i64]) -> Self {
        let (min, max) = extremes(keys);
        let width = bits(max.wrapping_sub(min).cast_unsigned());
        let mut lengths = [0; 65];
        let (mut length, mut longer) = (width, 0);
        // An exception takes its place and the bits that it is longer: where those of all longer ones exceed what the
        // others save, even without a bit left to them, there is no need to know the lengths of the others.
        let pay = |longer: u64| {
            (keys.len() as u64 - longer) * u64::from(width) + PADDING_BITS > longer * PLACE_BITS
        };
        while length > 0 && pay(longer) {
            let bound = min.wrapping_add_unsigned(1 << (length - 1));
            let at_least = kernels::statistics::count_at_least(keys, bound);
            lengths[length as usize] = count(index(at_least - longer));
            (length, longer) = (length - 1, at_least);
        }
        lengths[length as usize] = count(keys.len() - index(longer));
        Self { rows: keys.len(), min, max, lengths }
    }

    /// The longest difference, in bits.
    pub fn width(&self) -> u32 {
        // Default: 0 where an estimate has rounded all counts away.
        (0..).zip(&self.lengths).filter(|(_, n)| **n > 0).last().map_or(0, |(length, _)| length)
    }
}

/// The least and the greatest key, of one at least.
pub(super) fn extremes(keys: &[i64]) -> (i64, i64) {
    kernels::min_max(keys).invariant("statistics are of a key at least")
}
