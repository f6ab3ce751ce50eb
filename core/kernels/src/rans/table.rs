//! Which symbol a slot names: the alias method (Walker 1977; Vose 1991), so that 4,096 slots take 32 entries.

use crate::forms::rans::{PRECISION, SLOTS, SYMBOLS};

/// Slots of a bucket.
const BUCKET: u16 = SLOTS / SYMBOLS as u16;

/// The slots of each symbol, for decoding.
///
/// The slots lie in 16 buckets of 256. The symbols' ranks, the most frequent first (of equal ones the lesser
/// value), are the buckets' numbers: a bucket's first slots are of the symbol of its rank, all others of one other
/// symbol. The slots of a symbol are numbered in ascending order.
#[derive(Clone, Debug)]
pub struct Table {
    /// For each bucket `b`, and again for `16 + b`, what makes `state + bias` have `2 b` in bits 8 to 12 where the
    /// slot is the bucket's own, else `2 b + 1`, whatever the state's higher bits are. Modulo 2^16.
    pub(crate) bias: [u16; 2 * SYMBOLS],
    /// By these five bits: the symbol.
    pub(crate) symbol: [u16; 2 * SYMBOLS],
    /// The symbol's frequency.
    pub(crate) frequency: [u16; 2 * SYMBOLS],
    /// What, added to the slot modulo 2^16, gives its number among the symbol's.
    pub(crate) number: [u16; 2 * SYMBOLS],
}

/// Consecutive slots of one symbol.
#[derive(Clone, Copy, Default)]
struct Part {
    rank: usize,
    slots: u16,
}

impl Table {
    /// The table of symbols with these frequencies; `None` where they do not add up to [`SLOTS`].
    pub fn new(frequencies: &[u16; SYMBOLS]) -> Option<Self> {
        if frequencies.iter().map(|&n| u32::from(n)).sum::<u32>() != u32::from(SLOTS) {
            return None;
        }
        let mut ranks: [usize; SYMBOLS] = std::array::from_fn(|symbol| symbol);
        ranks.sort_by_key(|&symbol| std::cmp::Reverse(frequencies[symbol]));
        let buckets = buckets(ranks.map(|symbol| frequencies[symbol]));
        let mut table = Self {
            bias: [0; 2 * SYMBOLS],
            symbol: [0; 2 * SYMBOLS],
            frequency: [0; 2 * SYMBOLS],
            number: [0; 2 * SYMBOLS],
        };
        let mut numbered = [0_u16; SYMBOLS];
        let mut slot = 0;
        for (bucket, parts) in (0..).zip(buckets) {
            let bias = BUCKET * (bucket + 1) - parts[0].slots;
            table.bias[usize::from(bucket)] = bias;
            table.bias[SYMBOLS + usize::from(bucket)] = bias.wrapping_sub(SLOTS);
            for (part, entry) in parts.into_iter().zip(2 * usize::from(bucket)..) {
                let symbol = ranks[part.rank];
                table.symbol[entry] = symbol as u16;
                table.frequency[entry] = frequencies[symbol];
                table.number[entry] = numbered[symbol].wrapping_sub(slot);
                numbered[symbol] += part.slots;
                slot += part.slots;
            }
        }
        Some(table)
    }

    /// The entry of a state's slot.
    #[inline(always)]
    pub(crate) fn entry(&self, state: u32) -> usize {
        let low = state as u16;
        usize::from(low.wrapping_add(self.bias[usize::from(low >> 8 & 31)]) >> 8 & 31)
    }

    /// Takes a symbol off a state.
    #[inline(always)]
    pub(crate) fn step(&self, state: &mut u32) -> u16 {
        let entry = self.entry(*state);
        let slot = *state as u16 & (SLOTS - 1);
        let number = slot.wrapping_add(self.number[entry]);
        // Less than `frequency * 2^20`, for the number is less than the frequency.
        *state = (*state >> PRECISION) * u32::from(self.frequency[entry]) + u32::from(number);
        self.symbol[entry]
    }

    /// The slots of each symbol, in ascending order.
    pub(super) fn slots(&self) -> [Vec<u16>; SYMBOLS] {
        let mut slots = std::array::from_fn(|_| Vec::new());
        for slot in 0..SLOTS {
            slots[usize::from(self.symbol[self.entry(slot.into())])].push(slot);
        }
        slots
    }
}

/// The two parts of each bucket, for symbols of descending frequency.
fn buckets(mut left: [u16; SYMBOLS]) -> [[Part; 2]; SYMBOLS] {
    let mut buckets = [[Part::default(); 2]; SYMBOLS];
    let (mut large, mut small): (Vec<_>, Vec<_>) = (0..SYMBOLS).rev().partition(|&rank| left[rank] >= BUCKET);
    small.reverse();
    while let Some(rank) = small.pop() {
        let own = Part { rank, slots: left[rank] };
        // What is left is a bucket for each rank that is left, so one of them is large unless this is full.
        let fill = large.last().copied().unwrap_or(rank);
        buckets[rank] = [own, Part { rank: fill, slots: BUCKET - own.slots }];
        left[fill] -= BUCKET - own.slots;
        if left[fill] < BUCKET && fill != rank {
            large.pop();
            small.push(fill);
        }
    }
    for rank in large {
        buckets[rank] = [Part { rank, slots: BUCKET }, Part { rank, slots: 0 }];
    }
    buckets
}
