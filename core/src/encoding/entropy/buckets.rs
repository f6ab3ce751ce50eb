//! Which bytes share a bucket, and how the buckets share the slots.

use basalt_kernels::rans::{BUCKETS, BYTES, NO_BUCKET, SLOTS, granularity};

use crate::invariant::Invariant;

/// Numbers of a bucket's bytes have at most so many bits.
const MAX_BITS: usize = 8;
/// The bucket of bytes that do not occur, though they could. It has no slots.
const ABSENT: u8 = 15;
const _: () = assert!(ABSENT as usize == BUCKETS - 1);

/// The buckets of bytes, and their frequencies.
pub(super) struct Model {
    pub(super) frequencies: [u16; BUCKETS],
    /// The bucket of each byte; [`NO_BUCKET`] of those that cannot be.
    pub(super) bucket_of: [u8; BYTES],
    /// What the bytes take in bits.
    pub(super) bits: f64,
}

impl Model {
    /// The buckets that lose the least of bytes with these counts. `may_be` says which bytes can be.
    pub(super) fn new(counts: &[u64; BYTES], may_be: impl Fn(usize) -> bool) -> Self {
        let mut bytes: Vec<usize> = (0..BYTES).filter(|&byte| counts[byte] > 0).collect();
        bytes.sort_by_key(|&byte| std::cmp::Reverse(counts[byte]));
        let mut bucket_of = [NO_BUCKET; BYTES];
        let absent = (0..BYTES).filter(|&byte| counts[byte] == 0 && may_be(byte));
        absent.for_each(|byte| bucket_of[byte] = ABSENT);
        let most = BUCKETS - usize::from(bucket_of.contains(&ABSENT));
        let sorted: Vec<u64> = bytes.iter().map(|&byte| counts[byte]).collect();
        let ends = split(&sorted, most);
        let mut sizes = [0; BUCKETS];
        let mut shares = [0; BUCKETS];
        let mut first = 0;
        for (bucket, end) in (0..).zip(ends) {
            bytes[first..end].iter().for_each(|&byte| bucket_of[byte] = bucket);
            sizes[usize::from(bucket)] = end - first;
            shares[usize::from(bucket)] = sorted[first..end].iter().sum::<u64>();
            first = end;
        }
        let frequencies = quantise(&shares, &sizes.map(|size| granularity(size.max(1))));
        let bits = (0..BUCKETS).map(|i| shares[i] as f64 * bits(sizes[i], frequencies[i])).sum();
        Self { frequencies, bucket_of, bits }
    }
}

/// The bits of a byte in a bucket of so many that has these slots.
fn bits(bytes: usize, slots: u16) -> f64 {
    let number = bytes.next_power_of_two().trailing_zeros();
    f64::from(number) + (f64::from(SLOTS) / f64::from(slots.max(1))).log2()
}

/// Where the buckets end that bytes with these counts, the greatest first, are best in. Each is full but the last, and
/// all have places.
#[allow(clippy::needless_range_loop, reason = "positions, not elements")]
fn split(counts: &[u64], buckets: usize) -> Vec<usize> {
    let n = counts.len();
    let mut sums = vec![0_u64; n + 1];
    for (i, count) in counts.iter().enumerate() {
        sums[i + 1] = sums[i] + count;
    }
    let total = sums[n] as f64;
    let costs: Vec<[f64; MAX_BITS + 1]> = (0..n)
        .map(|first| {
            std::array::from_fn(|bits| {
                if first + (1 << bits) > BYTES {
                    return f64::INFINITY;
                }
                let count = (sums[n.min(first + (1 << bits))] - sums[first]) as f64;
                count * (bits as f64 + (total / count).log2())
            })
        })
        .collect();
    // The least cost of the bytes from a position on in so many more buckets, and the bits of the first of them.
    let mut least = vec![f64::INFINITY; n + 1];
    least[n] = 0.0;
    let mut choices = Vec::with_capacity(buckets);
    for _ in 0..buckets {
        let mut next = least.clone();
        let mut choice = vec![0; n];
        for first in 0..n {
            for bits in 0..=MAX_BITS {
                let cost = costs[first][bits] + least[n.min(first + (1 << bits))];
                if cost < next[first] {
                    (next[first], choice[first]) = (cost, 1 << bits);
                }
            }
        }
        least = next;
        choices.push(choice);
    }
    let mut ends = Vec::new();
    let mut first = 0;
    for choice in choices.iter().rev() {
        // No choice: fewer buckets are as good.
        if first < n && choice[first] > 0 {
            first = n.min(first + choice[first]);
            ends.push(first);
        }
    }
    ends
}

/// The frequencies that code buckets with these counts in the fewest bits: they add up to all slots, each is a multiple
/// of its granularity, and who occurs has one.
fn quantise(counts: &[u64; BUCKETS], granularities: &[u16; BUCKETS]) -> [u16; BUCKETS] {
    let total: u64 = counts.iter().sum();
    let share = |i: usize| {
        let slots = u16::try_from(counts[i] * u64::from(SLOTS) / total.max(1))
            .invariant("a share is no more than all slots");
        let grain = granularities[i];
        if counts[i] == 0 { 0 } else { (slots / grain * grain).max(grain) }
    };
    let mut frequencies: [u16; BUCKETS] = std::array::from_fn(share);
    let mut used: u16 = frequencies.iter().sum();
    // A grain at a time goes to, or comes from, whom it means the most, or the least; bits are convex in the slots.
    let present = || (0..BUCKETS).filter(|&i| counts[i] > 0);
    while used > SLOTS {
        let loss = |i: usize| {
            let (slots, grain) = (f64::from(frequencies[i]), f64::from(granularities[i]));
            counts[i] as f64 * (grain / (slots - grain)).ln_1p() / grain
        };
        let spare = present().filter(|&i| frequencies[i] > granularities[i]);
        let least = spare.min_by(|&i, &j| loss(i).total_cmp(&loss(j)));
        let i = least.invariant("who has more than all slots between them has one to spare");
        frequencies[i] -= granularities[i];
        used -= granularities[i];
    }
    while used < SLOTS {
        let gain = |i: usize| {
            let (slots, grain) = (f64::from(frequencies[i]), f64::from(granularities[i]));
            counts[i] as f64 * (grain / slots).ln_1p() / grain
        };
        let fits = present().filter(|&i| granularities[i] <= SLOTS - used);
        // An estimate may have rounded all counts away.
        let Some(i) = fits.max_by(|&i, &j| gain(i).total_cmp(&gain(j))) else { break };
        frequencies[i] += granularities[i];
        used += granularities[i];
    }
    frequencies
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(counts: &[u64]) -> [u16; BUCKETS] {
        let counts = std::array::from_fn(|i| counts.get(i).copied().unwrap_or(0));
        quantise(&counts, &[1; BUCKETS])
    }

    #[test]
    fn slots_are_shared_out_by_counts() {
        assert_eq!(shares(&[3, 1])[..2], [3072, 1024]);
        assert_eq!(shares(&[0, 7])[..2], [0, 4096]);
        assert_eq!(shares(&[1_000_000, 1, 0, 1])[..4], [4094, 1, 0, 1]);
        assert_eq!(shares(&[1; 16]), [256; 16]);
    }

    #[test]
    fn shares_are_multiples_of_what_the_numbers_need() {
        let mut counts = [0; BUCKETS];
        counts[..4].copy_from_slice(&[1_000_000, 40, 7, 1]);
        let mut grains = [1; BUCKETS];
        grains[..4].copy_from_slice(&[1, 16, 8, 16]);
        let frequencies = quantise(&counts, &grains);
        assert_eq!(frequencies[..5], [4056, 16, 8, 16, 0]);
        assert_eq!(quantise(&[5; BUCKETS], &[16; BUCKETS]), [256; BUCKETS]);
    }

    #[test]
    fn no_other_shares_take_fewer_bits() {
        let counts = [812, 0, 3, 41, 97, 5, 1, 388, 2, 2, 0, 0, 0, 0, 0, 0];
        let best = quantise(&counts, &[1; BUCKETS]);
        let cost = |frequencies: &[u16; BUCKETS]| -> f64 {
            (0..BUCKETS).map(|i| counts[i] as f64 * bits(1, frequencies[i])).sum()
        };
        assert_eq!(best.iter().sum::<u16>(), SLOTS);
        for from in 0..counts.len() {
            for to in (0..counts.len()).filter(|&to| to != from && best[from] > 1 && counts[to] > 0) {
                let mut other = best;
                other[from] -= 1;
                other[to] += 1;
                assert!(cost(&other) >= cost(&best), "{from} to {to}");
            }
        }
    }

    /// Sixteen buckets lose little, whatever the distribution, and nothing where there are no more bytes.
    #[test]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts of at most ten million"
    )]
    fn buckets_keep_the_entropy() {
        let zipf = |n: usize, power: f64| -> [u64; BYTES] {
            std::array::from_fn(|i| if i < n { (1e7 / (i as f64 + 1.0).powf(power)) as u64 } else { 0 })
        };
        let geometric = |n: usize, ratio: f64| -> [u64; BYTES] {
            std::array::from_fn(|i| if i < n { (1e7 * f64::powf(ratio, i as f64)) as u64 } else { 0 })
        };
        let entropy = |counts: &[u64; BYTES]| -> f64 {
            let total = counts.iter().sum::<u64>() as f64;
            counts.iter().filter(|n| **n > 0).map(|&n| n as f64 / total * (total / n as f64).log2()).sum()
        };
        for (counts, most) in [
            (zipf(16, 1.0), 0.001),
            (zipf(200, 1.0), 0.012),
            (zipf(256, 0.7), 0.012),
            (zipf(256, 1.5), 0.02),
            (zipf(40, 1.0), 0.01),
            (geometric(100, 0.95), 0.01),
            (geometric(256, 0.98), 0.01),
            (zipf(256, 0.0), 0.0001),
        ] {
            let model = Model::new(&counts, |_| true);
            let lost = model.bits / counts.iter().sum::<u64>() as f64 - entropy(&counts);
            assert!((-1e-9..most).contains(&lost), "{lost} of {}", entropy(&counts));
            assert!(basalt_kernels::rans::Table::new(&model.frequencies, &model.bucket_of).is_some());
        }
    }
}
