//! Sharing out the slots, and what information is left then.

use basalt_kernels::rans::{SLOTS, SYMBOLS};

use super::image::{Image, is_of_codes};
use crate::{encoding::stats::KeyStats, invariant::Invariant};

/// The frequencies that code symbols with these counts in the fewest bits: they add up to all slots, and who occurs
/// has one.
pub(super) fn quantise(counts: &[u64]) -> Vec<u16> {
    let total: u64 = counts.iter().sum();
    let share = |n: u64| {
        u16::try_from(n * u64::from(SLOTS) / total.max(1)).invariant("a share is no more than all slots")
    };
    let mut frequencies: Vec<u16> =
        counts.iter().map(|&n| if n == 0 { 0 } else { share(n).max(1) }).collect();
    let mut used: u16 = frequencies.iter().sum();
    // One slot at a time goes to, or comes from, whom it means the most, or the least; bits are convex in the slots.
    let present = || (0..counts.len()).filter(|&i| counts[i] > 0);
    while used < SLOTS {
        let gain = |i: usize, slots: u16| counts[i] as f64 * (1.0 / f64::from(slots)).ln_1p();
        // An estimate may have rounded all counts away.
        let Some(i) = present().max_by(|&i, &j| gain(i, frequencies[i]).total_cmp(&gain(j, frequencies[j])))
        else {
            break;
        };
        frequencies[i] += 1;
        used += 1;
    }
    while used > SLOTS {
        let loss = |i: usize, slots: u16| counts[i] as f64 * (1.0 / f64::from(slots - 1)).ln_1p();
        let spare = present().filter(|&i| frequencies[i] > 1);
        let least = spare.min_by(|&i, &j| loss(i, frequencies[i]).total_cmp(&loss(j, frequencies[j])));
        let i = least.invariant("who has more than all slots between them has one to spare");
        frequencies[i] -= 1;
        used -= 1;
    }
    frequencies
}

/// The bits of symbols with these counts.
fn bits(counts: &[u64], frequencies: &[u16]) -> f64 {
    let bits = |(&n, &slots): (&u64, &u16)| n as f64 * (f64::from(SLOTS) / f64::from(slots.max(1))).log2();
    counts.iter().zip(frequencies).map(bits).sum()
}

/// The information in a column by the frequencies of its codes, in bits, and the part of it that it may be too high
/// by.
pub(super) fn information(stats: &KeyStats, distinct: &[(i64, u64)]) -> (u64, usize) {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 12 bits a row")]
    let whole = |bits: f64| bits as u64;
    let share = |n: u64| n as f64 / stats.rows as f64;
    if Image::is_wide(distinct.len()) {
        let counts: Vec<u64> = distinct.iter().map(|(_, n)| *n).collect();
        return (whole(bits(&counts, &quantise(&counts))), 200);
    }
    let width = Image::new(distinct.len(), stats.rows).width;
    let codes = 4 / width;
    let nibbles = (stats.rows as u64).div_ceil(codes.into());
    // Rows that do not depend on each other; where there are fewer runs than they would have, the sample tells.
    let same: f64 = distinct.iter().map(|(_, n)| share(*n) * share(*n)).sum();
    let clustered = (stats.runs as f64) < 0.97 * (1.0 - same) * stats.rows as f64;
    let sampled = (width < 4 && clustered).then(|| sampled(stats, distinct, width)).flatten();
    let counts: Vec<u64> = match &sampled {
        Some(counts) => counts.to_vec(),
        None => {
            let code = |nibble: usize, i: u32| nibble >> (i * width) & ((1 << width) - 1);
            let expected = |nibble| -> f64 {
                (0..codes).map(|i| share(distinct[code(nibble, i)].1)).product::<f64>() * nibbles as f64
            };
            let of_codes = |nibble| is_of_codes(nibble, width, distinct.len());
            (0..SYMBOLS)
                .map(|nibble| if of_codes(nibble) { whole(expected(nibble) + 0.5) } else { 0 })
                .collect()
        }
    };
    let total: u64 = counts.iter().sum();
    let scale = nibbles as f64 / total.max(1) as f64;
    (whole(scale * bits(&counts, &quantise(&counts))), if sampled.is_some() { 4 } else { 400 })
}

/// How often each nibble occurs in the sample; `None` without one.
fn sampled(stats: &KeyStats, distinct: &[(i64, u64)], width: u32) -> Option<[u64; SYMBOLS]> {
    let mut counts = [0; SYMBOLS];
    // Codes of one bit lie beside the next rows', those of two bits beside that 64 rows on.
    let (rows, step) = if width == 1 { (4, 1) } else { (2, 64) };
    for piece in &stats.sample {
        let code = |key: &i64| distinct.partition_point(|(other, _)| other < key);
        let codes: Vec<usize> = piece.iter().map(code).collect();
        for span in codes.chunks_exact(rows * step) {
            for first in 0..step {
                let nibble = (0..rows).rev().fold(0, |nibble, i| nibble << width | span[first + i * step]);
                counts[nibble % SYMBOLS] += 1;
            }
        }
    }
    counts.iter().any(|&n| n > 0).then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_shared_out_by_counts() {
        assert_eq!(quantise(&[3, 1]), [3072, 1024]);
        assert_eq!(quantise(&[0, 7]), [0, 4096]);
        assert_eq!(quantise(&[1_000_000, 1, 0, 1]), [4094, 1, 0, 1]);
        assert_eq!(quantise(&[1; 256]), [16; 256]);
    }

    #[test]
    fn no_other_shares_take_fewer_bits() {
        let counts = [812, 0, 3, 41, 97, 5, 1, 388, 2, 2];
        let best = quantise(&counts);
        assert_eq!(best.iter().sum::<u16>(), SLOTS);
        for from in 0..counts.len() {
            for to in (0..counts.len()).filter(|&to| to != from && best[from] > 1) {
                let mut other = best.clone();
                other[from] -= 1;
                other[to] += 1;
                assert!(bits(&counts, &other) >= bits(&counts, &best), "{from} to {to}");
            }
        }
    }
}
