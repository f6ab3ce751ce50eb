//! Rows to test with: lengths around the chunks and units, masks of every shape, numbers with the edges in.

use basalt_kernels::{Kernels, tables};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

/// Lengths around the borders of groups, chunks and units. Miri, for which one test of all would take hours, has some of them.
pub(crate) fn lengths() -> impl Iterator<Item = usize> {
    let lengths: &[usize] = match cfg!(miri) {
        false => &[0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 511, 512, 513, 1000, 1024, 4096 + 7, 9000],
        true => &[0, 1, 9, 64, 129, 520],
    };
    lengths.iter().copied()
}

/// The same, and some that take Miri too long.
pub(crate) fn lengths_and<const N: usize>(more: [usize; N]) -> impl Iterator<Item = usize> {
    lengths().chain(more.into_iter().filter(|_| !cfg!(miri)))
}

/// The step through what is tried one by one: Miri sees one in some.
pub(crate) fn step(miri: usize) -> usize {
    if cfg!(miri) { miri } else { 1 }
}

/// Calls `f` with every table that this CPU runs.
pub(crate) fn for_tables(mut f: impl FnMut(&'static Kernels)) {
    for (isa, table) in tables() {
        assert_eq!(isa, table.isa());
        f(table);
    }
}

/// A generator of test rows: xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// A number that tests are run with.
pub(crate) trait Number: basalt_kernels::Native {
    /// The extremes, zeros, NaN and what else is special.
    const EDGES: &'static [Self];
    fn from_bits(bits: u64) -> Self;
}

macro_rules! integers {
    ($($t:ident),*) => {$(
        impl Number for $t {
            const EDGES: &'static [Self] =
                &[$t::MIN, $t::MIN + 1, $t::MAX, $t::MAX - 1, 0, 1, $t::MAX / 2, $t::MAX / 2 + 1];
            fn from_bits(bits: u64) -> Self {
                bits as Self
            }
        }
    )*};
}

macro_rules! floats {
    ($($t:ident $bits:ident),*) => {$(
        impl Number for $t {
            const EDGES: &'static [Self] = &[
                0.0, -0.0, 1.0, -1.0, $t::NAN, -$t::NAN, $t::INFINITY, $t::NEG_INFINITY, $t::MAX, $t::MIN,
                $t::MIN_POSITIVE, -$t::MIN_POSITIVE, $t::from_bits(1), -$t::from_bits(1),
            ];
            fn from_bits(bits: u64) -> Self {
                $t::from_bits(bits as $bits)
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);
floats!(f32 u32, f64 u64);

/// Numbers of which some are edges, some small, some anything.
pub(crate) fn numbers<T: Number>(rows: usize, random: &mut Random) -> Vec<T> {
    let number = |random: &mut Random| match random.below(8) {
        0 => T::EDGES[random.below(T::EDGES.len() as u64) as usize],
        1 => T::from_bits(random.below(4)),
        _ => T::from_bits(random.next()),
    };
    (0..rows).map(|_| number(random)).collect()
}

/// Masks for `rows` rows: none, all, few, half, most, and runs.
pub(crate) fn masks(rows: usize, random: &mut Random) -> Vec<Vec<u64>> {
    let mut shapes = vec![vec![false; rows], vec![true; rows]];
    let shares: &[u64] = if cfg!(miri) { &[16] } else { &[400, 60, 16, 2] };
    for &one_in in shares {
        let some: Vec<bool> = (0..rows).map(|_| random.below(one_in) == 0).collect();
        shapes.push(some.iter().map(|bit| !bit).collect());
        shapes.push(some);
    }
    let mut on = false;
    shapes.push(
        (0..rows)
            .map(|_| {
                on ^= random.below(90) == 0;
                on
            })
            .collect(),
    );
    shapes.iter().map(|bits| words(bits)).collect()
}

/// The mask words of bits.
pub(crate) fn words(bits: &[bool]) -> Vec<u64> {
    bits.chunks(64).map(|bits| bits.iter().rev().fold(0, |word, &bit| word << 1 | u64::from(bit))).collect()
}

/// Whether a mask selects a row.
pub(crate) fn selects(mask: &[u64], row: usize) -> bool {
    mask[row / 64] >> (row % 64) & 1 == 1
}

/// Runs a property for random seeds and lengths up to `rows`.
pub(crate) fn property(rows: usize, test: impl Fn(usize, &mut Random)) {
    let (cases, rows) = if cfg!(miri) { (2, rows.min(200)) } else { (200, rows) };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let cases = (0..=rows, any::<u64>());
    runner
        .run(&cases, |(rows, seed)| {
            test(rows, &mut Random::new(seed));
            Ok(())
        })
        .unwrap();
}
