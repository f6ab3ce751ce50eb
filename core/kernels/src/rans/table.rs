//! Which byte a state names: its slot the bucket, by the alias method (Walker 1977; Vose 1991), so that 4,096 slots take
//! 32 entries; its next bits the byte of the bucket.

use crate::forms::rans::{BUCKETS, BYTES, PRECISION, SLOTS, granularity, number_bits};

/// Slots of an alias bucket.
const ALIAS: u16 = SLOTS / BUCKETS as u16;
/// Entries: two for each alias bucket.
const ENTRIES: usize = 2 * BUCKETS;

/// A byte that is in no bucket.
pub const NO_BUCKET: u8 = u8::MAX;

/// The slots of each bucket and the bytes in it, for decoding.
///
/// The slots lie in 16 alias buckets of 256. The buckets' ranks, the most frequent first (of equal ones the lesser
/// number), are the alias buckets' numbers: the first slots of one are of the bucket of its rank, all others of one other
/// bucket. The slots of a bucket are numbered in ascending order.
///
/// A bucket's bytes, in ascending order, have numbers of as many bits as are needed. The numbers that are left over name
/// its first byte.
#[derive(Clone, Debug)]
pub struct Table {
    /// For each alias bucket `b`, and again for `16 + b`, what makes `state + bias` have `2 b` in bits 8 to 12 where the
    /// slot is the alias bucket's own, else `2 b + 1`, whatever the state's higher bits are. Modulo 2^16.
    pub(crate) bias: [u16; ENTRIES],
    /// By these five bits: the bucket's frequency.
    pub(crate) frequency: [u16; ENTRIES],
    /// What, added to the slot modulo 2^16, gives its number among the bucket's.
    pub(crate) number: [u16; ENTRIES],
    /// The bits of a byte's number in the bucket, and from bit 8 on the place of its first byte.
    pub(crate) place: [u16; ENTRIES],
    /// The bits of such a number, all set.
    pub(crate) mask: [u16; ENTRIES],
    /// The bytes by place: those of a bucket follow each other.
    pub(crate) bytes: [u8; BYTES],
    /// The bucket of each entry.
    buckets: [u8; ENTRIES],
}

/// Consecutive slots of one bucket.
#[derive(Clone, Copy, Default)]
struct Part {
    rank: usize,
    slots: u16,
}

/// Where a byte is: its bucket, its number in it, and the bits of that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) bucket: u8,
    pub(super) number: u8,
    pub(super) bits: u32,
}

impl Table {
    /// The table of buckets with these frequencies, and of the bytes in them; [`NO_BUCKET`] and buckets without a
    /// frequency have bytes that do not occur. `None` where the frequencies do not add up to [`SLOTS`], one of them is
    /// not a multiple of its bucket's [`granularity`], or the buckets have no place for their bytes.
    pub fn new(frequencies: &[u16; BUCKETS], bucket_of: &[u8; BYTES]) -> Option<Self> {
        if frequencies.iter().map(|&n| u32::from(n)).sum::<u32>() != u32::from(SLOTS) {
            return None;
        }
        let (places, bytes) = places(frequencies, bucket_of)?;
        let mut ranks: [usize; BUCKETS] = std::array::from_fn(|bucket| bucket);
        ranks.sort_by_key(|&bucket| std::cmp::Reverse(frequencies[bucket]));
        let alias = alias(ranks.map(|bucket| frequencies[bucket]));
        let mut table = Self {
            bias: [0; ENTRIES],
            frequency: [0; ENTRIES],
            number: [0; ENTRIES],
            place: [0; ENTRIES],
            mask: [0; ENTRIES],
            bytes,
            buckets: [0; ENTRIES],
        };
        let mut numbered = [0_u16; BUCKETS];
        let mut slot = 0;
        for (own, parts) in (0..).zip(alias) {
            let bias = ALIAS * (own + 1) - parts[0].slots;
            table.bias[usize::from(own)] = bias;
            table.bias[BUCKETS + usize::from(own)] = bias.wrapping_sub(SLOTS);
            for (part, entry) in parts.into_iter().zip(2 * usize::from(own)..) {
                let bucket = ranks[part.rank];
                let (first, bits) = places[bucket];
                table.buckets[entry] = bucket as u8;
                table.frequency[entry] = frequencies[bucket];
                table.number[entry] = numbered[bucket].wrapping_sub(slot);
                table.place[entry] = first << 8 | bits as u16;
                table.mask[entry] = (1 << bits) - 1;
                numbered[bucket] += part.slots;
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

    /// Takes a byte off a state.
    #[inline(always)]
    pub(crate) fn step(&self, state: &mut u32) -> u8 {
        let entry = self.entry(*state);
        let slot = *state as u16 & (SLOTS - 1);
        let number = slot.wrapping_add(self.number[entry]);
        // Less than `frequency * 2^20`, for the number is less than the frequency.
        let rest = (*state >> PRECISION) * u32::from(self.frequency[entry]) + u32::from(number);
        let place = self.place[entry];
        *state = rest >> (place & 15);
        self.bytes[usize::from((place >> 8 | rest as u16 & self.mask[entry]) as u8)]
    }

    /// The slots of each bucket, in ascending order.
    pub(super) fn slots(&self) -> [Vec<u16>; BUCKETS] {
        let mut slots = std::array::from_fn(|_| Vec::new());
        for slot in 0..SLOTS {
            slots[usize::from(self.buckets[self.entry(slot.into())])].push(slot);
        }
        slots
    }

    /// Where each byte is; `None` of one that does not occur.
    pub(super) fn members(&self) -> [Option<Member>; BYTES] {
        let mut members = [None; BYTES];
        for entry in (0..ENTRIES).filter(|&entry| self.frequency[entry] > 0) {
            let (first, bits) = (usize::from(self.place[entry] >> 8), u32::from(self.place[entry] & 15));
            for number in (0..=self.mask[entry]).rev() {
                let byte = usize::from(self.bytes[first + usize::from(number)]);
                members[byte] = Some(Member { bucket: self.buckets[entry], number: number as u8, bits });
            }
        }
        members
    }
}

/// The first place of each bucket and the bits of its numbers; and the bytes by place. The buckets with the most bytes
/// come first, so that the places of each are a multiple of its numbers from the start.
#[allow(clippy::type_complexity, reason = "two arrays of known length")]
fn places(
    frequencies: &[u16; BUCKETS],
    bucket_of: &[u8; BYTES],
) -> Option<([(u16, u32); BUCKETS], [u8; BYTES])> {
    let mut counts = [0_usize; BUCKETS];
    for &bucket in bucket_of {
        if let Some(count) = counts.get_mut(usize::from(bucket)) {
            *count += 1;
        }
    }
    let mut order: [usize; BUCKETS] = std::array::from_fn(|bucket| bucket);
    order.sort_by_key(|&bucket| std::cmp::Reverse(counts[bucket]));
    let (mut places, mut bytes) = ([(0, 0); BUCKETS], [0; BYTES]);
    let mut first = 0;
    for bucket in order.into_iter().filter(|&bucket| frequencies[bucket] > 0) {
        if counts[bucket] == 0 || !frequencies[bucket].is_multiple_of(granularity(counts[bucket])) {
            return None;
        }
        let bits = number_bits(counts[bucket]);
        let places_of = bytes.get_mut(first..first + (1 << bits))?;
        let mut members = (0..=u8::MAX).filter(|&byte| usize::from(bucket_of[usize::from(byte)]) == bucket);
        let least = members.clone().next()?;
        places_of.iter_mut().for_each(|place| *place = members.next().unwrap_or(least));
        places[bucket] = (first as u16, bits);
        first += 1 << bits;
    }
    Some((places, bytes))
}

/// The two parts of each alias bucket, for buckets of descending frequency.
fn alias(mut left: [u16; BUCKETS]) -> [[Part; 2]; BUCKETS] {
    let mut alias = [[Part::default(); 2]; BUCKETS];
    let (mut large, mut small): (Vec<_>, Vec<_>) = (0..BUCKETS).rev().partition(|&rank| left[rank] >= ALIAS);
    small.reverse();
    while let Some(rank) = small.pop() {
        let own = Part { rank, slots: left[rank] };
        // What is left is a bucket for each rank that is left, so one of them is large unless this is full.
        let fill = large.last().copied().unwrap_or(rank);
        alias[rank] = [own, Part { rank: fill, slots: ALIAS - own.slots }];
        left[fill] -= ALIAS - own.slots;
        if left[fill] < ALIAS && fill != rank {
            large.pop();
            small.push(fill);
        }
    }
    for rank in large {
        alias[rank] = [Part { rank, slots: ALIAS }, Part { rank, slots: 0 }];
    }
    alias
}
