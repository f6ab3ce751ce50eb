//! Floats as integers: which powers of ten fit a column, and what becomes of a key.

use basalt_kernels::decimals::{self, Form, Scale};

use crate::{
    encoding::bytes::bits,
    keys::{self, Native},
};

/// Powers of ten and, rounded, what is left of one when it is divided by them.
const POWERS: [(f64, f64); 19] = [
    (1e0, 1e-0),
    (1e1, 1e-1),
    (1e2, 1e-2),
    (1e3, 1e-3),
    (1e4, 1e-4),
    (1e5, 1e-5),
    (1e6, 1e-6),
    (1e7, 1e-7),
    (1e8, 1e-8),
    (1e9, 1e-9),
    (1e10, 1e-10),
    (1e11, 1e-11),
    (1e12, 1e-12),
    (1e13, 1e-13),
    (1e14, 1e-14),
    (1e15, 1e-15),
    (1e16, 1e-16),
    (1e17, 1e-17),
    (1e18, 1e-18),
];

/// Integers are below it, with their signs: they and their neighbours are float64, and adding [`ROUND`] to a float64
/// below it leaves an integer.
pub(super) const LIMIT: i64 = 1 << 51;

/// What a float64 loses its fraction to when it is added.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// Keys that powers of ten are first tried with, and those that decide among the best of them.
const PROBES: [usize; 2] = [64, 1024];
/// How many powers the first probes leave.
const FINALISTS: usize = 4;

/// How a column's floats are integers: `float * 10^exponent * 10^-factor`, rounded, and back as
/// `integer * 10^factor * 10^-exponent`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decimals {
    pub(super) exponent: u8,
    pub(super) factor: u8,
    double: bool,
    to_integers: Scale,
    to_floats: Scale,
}

impl Decimals {
    /// `None` where the powers are not ones that are used.
    pub(super) fn new(exponent: u8, factor: u8, native: Native) -> Option<Self> {
        let double = match native {
            Native::F64 => true,
            Native::F32 => false,
            _ => return None,
        };
        let (up, back) = *POWERS.get(usize::from(exponent))?;
        let (forth, down) = *POWERS.get(usize::from(factor)).filter(|_| factor <= exponent)?;
        let (to_integers, to_floats) = (Scale { up, down }, Scale { up: forth, down: back });
        Some(Self { exponent, factor, double, to_integers, to_floats })
    }

    /// The powers that make the sample smallest; `None` where most of it is not decimals.
    pub(super) fn of_sample(sample: &[Box<[i64]>], native: Native) -> Option<Self> {
        let [few, many] = PROBES.map(|n| probes(sample, n));
        let powers =
            (0..=18).rev().flat_map(|exponent| (0..=exponent).rev().map(move |factor| (exponent, factor)));
        let decimals = powers.filter_map(|(exponent, factor)| Self::new(exponent, factor, native));
        let mut best: Vec<_> =
            decimals.filter_map(|decimals| Some((decimals.cost(&few)?, decimals))).collect();
        best.sort_by_key(|(cost, _)| *cost);
        best.truncate(FINALISTS);
        let costs = best.into_iter().filter_map(|(_, decimals)| Some((decimals.cost(&many)?, decimals)));
        costs.min_by_key(|(cost, _)| *cost).map(|(_, decimals)| decimals)
    }

    /// The bits that the keys take as packed integers; `None` where more than half are exceptions.
    fn cost(self, keys: &[i64]) -> Option<usize> {
        let (mut min, mut max, mut exceptions) = (i64::MAX, i64::MIN, 0);
        for (i, &key) in keys.iter().enumerate() {
            match self.integer(key) {
                Some(integer) => (min, max) = (min.min(integer), max.max(integer)),
                None => exceptions += 1,
            }
            // A few more at the beginning are no proof.
            if exceptions > i / 2 + 4 {
                return None;
            }
        }
        let width = bits(max.wrapping_sub(min).cast_unsigned()) as usize;
        let exception = if self.double { 80 } else { 48 };
        (exceptions <= keys.len() / 2).then_some(width * keys.len() + exception * exceptions)
    }

    /// The integer that stands for a key.
    #[inline]
    pub(super) fn integer(self, key: i64) -> Option<i64> {
        let rounded = self.float(key) * self.to_integers.up * self.to_integers.down + ROUND;
        let integer = rounded.to_bits().wrapping_sub(ROUND.to_bits()).cast_signed();
        (-LIMIT < integer && integer < LIMIT && self.key(integer) == key).then_some(integer)
    }

    /// The key that an integer stands for; a greater integer has no lesser one.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the column's floats are float32")]
    pub(super) fn key(self, integer: i64) -> i64 {
        let float = self.to_floats.float(integer);
        if self.double { keys::of_f64(float) } else { keys::of_f32(float as f32) }
    }

    /// The float of a key, widened.
    #[inline]
    pub(super) fn float(self, key: i64) -> f64 {
        if self.double { keys::to_f64(key) } else { keys::to_f32(key).into() }
    }

    /// The same for kernels, to which integers are codes.
    pub(super) fn of_codes(self) -> decimals::Decimals {
        decimals::Decimals { base: 0, scale: self.to_floats, single: !self.double }
    }

    /// Replaces integers by the keys that they stand for.
    pub(super) fn write_keys(self, integers: &mut [i64]) {
        let form = if self.double { Form::DoubleKey } else { Form::SingleKey };
        basalt_kernels::decimals::convert(self.to_floats, form, integers);
    }

    /// Replaces integers by the bits of the floats that they stand for, widened.
    pub(super) fn write_floats(self, integers: &mut [i64]) {
        let form = if self.double { Form::Double } else { Form::Single };
        basalt_kernels::decimals::convert(self.to_floats, form, integers);
    }

    /// The integers of keys; `exception` gets the keys that have none, and their rows, where the integer before stays.
    pub(super) fn integers(self, keys: &[i64], mut exception: impl FnMut(usize, i64)) -> Vec<i64> {
        // Default: any integer, where all keys are exceptions.
        let mut last = keys.iter().find_map(|&key| self.integer(key)).unwrap_or(0);
        let rows = keys.iter().enumerate();
        let integers = rows.map(|(row, &key)| {
            match self.integer(key) {
                Some(integer) => last = integer,
                None => exception(row, key),
            }
            last
        });
        integers.collect()
    }
}

/// At most `n` keys of the sample, spread over it.
fn probes(sample: &[Box<[i64]>], n: usize) -> Vec<i64> {
    let most = n.div_ceil(sample.len().max(1));
    sample.iter().flat_map(|keys| keys.iter().step_by(keys.len().div_ceil(most).max(1))).copied().collect()
}
