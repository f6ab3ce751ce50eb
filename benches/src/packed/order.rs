//! What sums of floats would cost whose bits do not depend on the order of the rows, beside those of eight lanes.
//!
//! - **Bins** of 40 bits (Demmel and Nguyen, "Parallel reproducible summation", IEEE Transactions on Computers 2015): what
//!   of each value lies in the highest bin is added up there without rounding, what is left goes to the next one. The
//!   highest bin is that of the greatest value, which zone maps know. Two bins keep 40 bits below the greatest value,
//!   three 80.
//! - A **small superaccumulator** (Neal, "Fast exact summation using small and large superaccumulators", 2015): the exact
//!   sum, rounded once.

#![allow(clippy::cast_possible_truncation, reason = "exponents, and sums that are whole numbers")]

use std::{hint::black_box, time::Duration};

use basalt_kernels::{
    self as kernels, FloatSum,
    decimals::{Decimals, Form, Scale, as_bits, convert},
    packed,
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};

use crate::{
    table::{figure, print},
    timing::Race,
};

/// Bits of a packed price.
const WIDTH: u32 = 16;
/// Prices are decimals of two digits.
const SCALE: Scale = Scale { up: 1.0, down: 0.01 };
/// Rows that are unpacked at a time.
const BATCH: usize = 1024;
/// Lanes of a sum.
const LANES: usize = 8;
/// Bits of a bin.
const BIN: i32 = 40;
/// Values that each lane's bin takes before it may round.
const FULL: usize = 1 << (52 - BIN);
/// Values that the superaccumulator takes before its chunks may be full.
const FULL_CHUNKS: usize = 1024;
/// Chunks of 32 bits that hold the exponents of all floats, and the carries.
const CHUNKS: usize = 67;

/// Sums in `N` bins, a lane for every eighth value.
#[derive(Clone, Copy)]
struct Bins<const N: usize> {
    /// What a value is added to and taken from, so that the bits of the bin are left of it.
    rounders: [f64; N],
    sums: [[f64; LANES]; N],
    /// What full bins were emptied to: exact, for it is counted in units of the bin.
    totals: [i128; N],
    taken: usize,
}

impl<const N: usize> Bins<N> {
    /// Bins for values of which `greatest` is the greatest magnitude.
    fn new(greatest: f64) -> Self {
        let exponent = (greatest.log2().floor() as i32 + 1).div_euclid(BIN) + 1;
        let unit = |bin: usize| 2_f64.powi((exponent - 1 - bin as i32) * BIN);
        let rounders = std::array::from_fn(|bin| 1.5 * unit(bin) * 2_f64.powi(52));
        Self { rounders, sums: [[0.0; LANES]; N], totals: [0; N], taken: 0 }
    }

    fn add(&mut self, values: &[f64]) {
        let (eights, rest) = values.as_chunks::<LANES>();
        for eights in eights.chunks(FULL) {
            if self.taken + eights.len() > FULL {
                self.empty();
            }
            self.taken += eights.len();
            let mut sums = self.sums;
            for eight in eights {
                let mut left = *eight;
                for (rounder, sums) in self.rounders.iter().zip(&mut sums) {
                    for (left, sum) in left.iter_mut().zip(sums) {
                        let high = (*left + rounder) - rounder;
                        *sum += high;
                        *left -= high;
                    }
                }
            }
            self.sums = sums;
        }
        if !rest.is_empty() {
            let mut eight = [0.0; LANES];
            eight[..rest.len()].copy_from_slice(rest);
            self.add(&eight);
        }
    }

    /// The unit of a bin.
    fn unit(&self, bin: usize) -> f64 {
        self.rounders[bin] / 1.5 / 2_f64.powi(52)
    }

    fn empty(&mut self) {
        for bin in 0..N {
            let unit = self.unit(bin);
            self.totals[bin] += self.sums[bin].iter().map(|sum| (sum / unit) as i128).sum::<i128>();
        }
        self.sums = [[0.0; LANES]; N];
        self.taken = 0;
    }

    fn finish(mut self) -> f64 {
        self.empty();
        (0..N).rev().map(|bin| self.totals[bin] as f64 * self.unit(bin)).sum()
    }
}

/// An exact sum of finite floats, in chunks of 32 bits that have room for carries.
struct Exact {
    chunks: [i64; CHUNKS],
    taken: usize,
}

impl Exact {
    fn new() -> Self {
        Self { chunks: [0; CHUNKS], taken: 0 }
    }

    fn add(&mut self, values: &[f64]) {
        for values in values.chunks(FULL_CHUNKS) {
            if self.taken + values.len() > FULL_CHUNKS {
                self.carry();
            }
            self.taken += values.len();
            for value in values {
                let bits = value.to_bits();
                let exponent = (bits >> 52 & 0x7ff) as usize;
                let mantissa = (bits & ((1 << 52) - 1) | u64::from(exponent > 0) << 52).cast_signed();
                let (chunk, shift) = (exponent.max(1) / 32, exponent.max(1) % 32);
                let sign = bits.cast_signed() >> 63;
                let low = (mantissa << shift) & 0xffff_ffff;
                let high = mantissa >> (32 - shift);
                self.chunks[chunk] += (low ^ sign) - sign;
                self.chunks[chunk + 1] += (high ^ sign) - sign;
            }
        }
    }

    fn carry(&mut self) {
        for i in 0..CHUNKS - 1 {
            let carry = self.chunks[i] >> 32;
            self.chunks[i] -= carry << 32;
            self.chunks[i + 1] += carry;
        }
        self.taken = 0;
    }

    /// To the nearest but for the last bit, which suffices to compare sums.
    fn finish(mut self) -> f64 {
        self.carry();
        let of = |(chunk, &value): (usize, &i64)| value as f64 * 2_f64.powi(32 * chunk as i32 - 1075);
        self.chunks.iter().enumerate().rev().filter(|(_, value)| **value != 0).map(of).sum()
    }
}

/// A way to sum prices, and whether the bits do not depend on their order.
type Contender = (&'static str, fn(&Prices) -> f64, bool);

/// Prices as they are held.
struct Prices {
    words: Vec<u64>,
    rows: usize,
}

impl Prices {
    fn new(codes: &[u64]) -> Self {
        let mut words = vec![0; packed::words(WIDTH, codes.len())];
        packed::pack(WIDTH, codes, &mut words);
        Self { words, rows: codes.len() }
    }

    /// Calls `work` with the floats, batch by batch.
    fn decoded(&self, mut work: impl FnMut(&[f64])) {
        let mut floats = [0.0; BATCH];
        for at in (0..self.rows).step_by(BATCH) {
            let floats = &mut floats[..BATCH.min(self.rows - at)];
            let integers = as_bits(floats);
            packed::unpack(WIDTH, &self.words, at, 0, integers);
            convert(SCALE, Form::Double, integers);
            work(floats);
        }
    }

    /// By eight lanes, of the codes: as queries sum them.
    fn fused(&self) -> f64 {
        let decimals = Decimals { base: 0, scale: SCALE, single: false };
        let mut sum = FloatSum::default();
        packed::sum_decimals(WIDTH, &self.words, 0, self.rows, decimals, None, &[], &mut sum);
        sum.finish()
    }

    fn lanes(&self) -> f64 {
        let mut sum = FloatSum::default();
        self.decoded(|floats| kernels::sum_floats(floats, &mut sum));
        sum.finish()
    }

    fn bins<const N: usize>(&self) -> f64 {
        let mut bins = Bins::<N>::new(655.35);
        self.decoded(|floats| bins.add(floats));
        bins.finish()
    }

    fn exact(&self) -> f64 {
        let mut exact = Exact::new();
        self.decoded(|floats| exact.add(floats));
        exact.finish()
    }
}

/// Prints the table.
///
/// # Panics
/// Where a sum that should not depend on the order does.
pub fn print_table(rows: usize, each: Duration) {
    let mut random = StdRng::seed_from_u64(7);
    let mut codes: Vec<u64> = (0..rows).map(|_| random.random_range(0..50_001)).collect();
    let prices = Prices::new(&codes);
    codes.shuffle(&mut random);
    let shuffled = Prices::new(&codes);
    let contenders: [Contender; 5] = [
        ("eight lanes, of the codes (the definition)", Prices::fused, false),
        ("eight lanes, decoded before", Prices::lanes, false),
        ("two bins, decoded before", Prices::bins::<2>, true),
        ("three bins, decoded before", Prices::bins::<3>, true),
        ("superaccumulator, decoded before", Prices::exact, true),
    ];
    let expected = prices.fused();
    let mut race = Race::new();
    for (name, sum, is_same) in contenders {
        let [found, other] = [&prices, &shuffled].map(sum);
        assert!((found - expected).abs() <= 1e-9 * expected, "{name}: {found} for {expected}");
        assert!(!is_same || found.to_bits() == other.to_bits(), "{name} depends on the order");
        let prices = &prices;
        race.enter(move || sum(black_box(prices)));
    }
    let seconds = race.run(each);
    let rows: Vec<Vec<String>> = contenders
        .iter()
        .zip(&seconds)
        .map(|((name, ..), time)| {
            vec![(*name).to_owned(), figure(time * 1e9 / rows as f64), format!("{:.2}", time / seconds[0])]
        })
        .collect();
    print(&format!("Sums of {} prices", codes.len()), &["sum", "ns a row", "beside the definition"], &rows);
}
