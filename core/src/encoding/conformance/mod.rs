//! What every encoding must do, run on every line of the lists.
//!
//! A column made by an encoding is compared with the keys it was made of: decoded from every unit, row by row,
//! filtered, summed up, opened again. Then its bytes are spoilt: what opens must behave, with answers within
//! bounds, whatever they are.

mod hostile;
mod keys;
mod text;

use std::sync::Arc;

use arrow_buffer::Buffer;

use super::*;
use crate::keys::{self as key, Native};

/// xorshift64*: data that is the same on every run.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn index(&mut self, n: u64) -> usize {
        usize::try_from(self.below(n)).unwrap()
    }
}

const NATIVES: [Native; 11] = [
    Native::Bool,
    Native::I8,
    Native::I16,
    Native::I32,
    Native::I64,
    Native::U8,
    Native::U16,
    Native::U32,
    Native::U64,
    Native::F32,
    Native::F64,
];

/// A key of the type, from anywhere in its range.
fn any_key(native: Native, random: &mut Random) -> i64 {
    let (least, greatest) = native.key_range();
    match native {
        Native::F32 => key::of_f32(f32::from_bits(u32::try_from(random.next() >> 32).unwrap())),
        Native::F64 => key::of_f64(f64::from_bits(random.next())),
        _ => {
            let span = greatest.wrapping_sub(least).cast_unsigned();
            least.wrapping_add_unsigned(if span == u64::MAX { random.next() } else { random.below(span + 1) })
        }
    }
}

/// A shape of data: the key at each row, for keys within `native`.
type Shape = fn(Native, usize) -> Vec<i64>;

/// Keys near the middle of the type's range, `offset` above.
fn near(native: Native, offset: u64) -> i64 {
    let (least, greatest) = native.key_range();
    let room = greatest.wrapping_sub(least).cast_unsigned() / 2;
    least.wrapping_add_unsigned(room / 3).wrapping_add_unsigned(offset % (room + 1))
}

/// Keys that each lie a gap above the one before, up to the greatest number of the type.
fn ascending(native: Native, rows: usize, mut gap: impl FnMut() -> u64) -> Vec<i64> {
    let greatest = native.infinity().unwrap_or(native.key_range().1);
    let next = |key: &i64| Some(key.saturating_add_unsigned(gap()).min(greatest));
    std::iter::successors(Some(near(native, 0)), next).take(rows).collect()
}

/// The key of a decimal with two digits behind the point; of another type, that of the number of hundredths.
fn hundredths(native: Native, n: i64) -> i64 {
    match native {
        Native::F32 => key::of_f32(format!("{n}e-2").parse().unwrap()),
        Native::F64 => key::of_f64(format!("{n}e-2").parse().unwrap()),
        _ => near(native, n.unsigned_abs()),
    }
}

const SHAPES: [(&str, Shape); 14] = [
    ("constant", |native, rows| vec![near(native, 0); rows]),
    ("random", |native, rows| {
        let mut random = Random::new(1);
        (0..rows).map(|_| any_key(native, &mut random)).collect()
    }),
    ("99/1", |native, rows| {
        let mut random = Random::new(2);
        (0..rows).map(|_| near(native, u64::from(random.below(100) == 0))).collect()
    }),
    ("80/15/4/1", |native, rows| {
        let mut random = Random::new(3);
        let symbol = |n| [80, 95, 99].iter().filter(|&&bound| n >= bound).count() as u64;
        (0..rows).map(|_| near(native, symbol(random.below(100)))).collect()
    }),
    ("sorted", |native, rows| {
        let mut keys = SHAPES[1].1(native, rows);
        keys.sort_unstable();
        keys
    }),
    ("timestamps", |native, rows| {
        let mut random = Random::new(8);
        let mut gap = || 1000 + random.below(40);
        ascending(native, rows, &mut gap)
    }),
    ("sorted with leaps", |native, rows| {
        let mut random = Random::new(9);
        let mut gap = || match random.below(100) {
            0 => random.below(1 << 30),
            _ => random.below(3),
        };
        ascending(native, rows, &mut gap)
    }),
    ("random walk", |native, rows| {
        let (mut random, mut key) = (Random::new(10), near(native, 1 << 20));
        let (least, greatest) = native.key_range();
        let mut step = |_| {
            key = key.saturating_add_unsigned(random.below(33)).saturating_sub(16).clamp(least, greatest);
            key
        };
        (0..rows).map(&mut step).collect()
    }),
    ("runs", |native, rows| {
        let mut random = Random::new(4);
        let mut keys = Vec::new();
        while keys.len() < rows {
            let length = 1 + usize::try_from(random.below(300)).unwrap();
            keys.extend(std::iter::repeat_n(near(native, random.below(20)), length));
        }
        keys.truncate(rows);
        keys
    }),
    ("outliers", |native, rows| {
        let mut random = Random::new(5);
        let mut key = |_| match random.below(200) {
            0 => any_key(native, &mut random),
            _ => near(native, random.below(8)),
        };
        (0..rows).map(&mut key).collect()
    }),
    ("decimals", |native, rows| {
        let mut random = Random::new(11);
        (0..rows).map(|_| hundredths(native, random.below(20_000).cast_signed() - 5_000)).collect()
    }),
    ("decimals with exceptions", |native, rows| {
        let mut random = Random::new(12);
        let (least, greatest) = native.key_range();
        let zero = hundredths(native, 0);
        let mut key = |_| match random.below(60) {
            0 => [least, greatest, native.infinity().unwrap_or(greatest)][random.index(3)],
            1 => any_key(native, &mut random),
            2 => [zero, zero.saturating_sub(1).max(least)][random.index(2)],
            _ => hundredths(native, random.below(100).cast_signed() - 10),
        };
        (0..rows).map(&mut key).collect()
    }),
    ("256 distinct", |native, rows| {
        let mut random = Random::new(6);
        (0..rows).map(|_| near(native, random.below(256) * random.below(2))).collect()
    }),
    ("extremes", |native, rows| {
        let (least, greatest) = native.key_range();
        let mut random = Random::new(7);
        (0..rows).map(|_| if random.below(2) == 0 { least } else { greatest }).collect()
    }),
];

/// The column that an encoding makes of the keys, if it can hold them.
fn encode(encoding: &dyn KeyEncoding, keys: &[i64], native: Native) -> Option<Arc<dyn KeyColumn>> {
    let stats = KeyStats::new(keys, native);
    let estimate = encoding.estimate(&stats, &ENCODINGS)?;
    let buffer = encoding.encode(keys, &stats, &ENCODINGS).unwrap();
    assert_eq!(buffer.first(), Some(&encoding.code()));
    assert!(
        !estimate.exact || estimate.bytes == buffer.len(),
        "{} estimated {estimate:?}, made {}",
        encoding.name(),
        buffer.len()
    );
    Some(open_keys(buffer).unwrap())
}

/// The test of a set of keys, which come in any order.
fn set_of(keys: impl IntoIterator<Item = i64>) -> KeyTest {
    let keys: std::collections::BTreeSet<i64> = keys.into_iter().collect();
    KeyTest::In(Arc::new(Members::new(keys.into_iter().collect())))
}

/// Places to start at and rows to take: whole, single rows and units, unaligned ends.
fn ranges(rows: usize) -> Vec<(usize, usize)> {
    let mut ranges = vec![(0, rows), (0, rows.min(1 << 16)), (0, 1), (0, rows.div_ceil(2))];
    let last = (rows - 1) / UNIT_ROWS * UNIT_ROWS;
    ranges.push((last, rows - last));
    for start in [UNIT_ROWS, 65_024, 65_536, 66_048] {
        if start < rows {
            ranges.extend([(start, 1), (start, (rows - start).min(700)), (start, rows - start)]);
        }
    }
    ranges
}

fn mask_of(rows: usize, mut passes: impl FnMut(usize) -> bool) -> Vec<u64> {
    let mut mask = vec![0; rows.div_ceil(64)];
    for row in 0..rows {
        mask[row / 64] |= u64::from(passes(row)) << (row % 64);
    }
    mask
}

#[test]
fn codes_and_names_are_distinct() {
    let keys = KEY_ENCODINGS.iter().map(|e| (e.code(), e.name()));
    let mut all: Vec<_> = keys.collect();
    assert_eq!(
        all,
        [
            (1, "constant"),
            (2, "plain"),
            (3, "packed"),
            (4, "runs"),
            (7, "sparse"),
            (11, "elias_fano"),
            (10, "alp"),
            (5, "dictionary"),
            (9, "delta"),
            (8, "entropy"),
            (6, "bitcompress")
        ],
        "codes are written to buffers and never change"
    );
    all.extend(TEXT_ENCODINGS.iter().map(|e| (e.code(), e.name())));
    all.sort_unstable();
    all.dedup_by_key(|(code, _)| *code);
    assert_eq!(all.len(), KEY_ENCODINGS.len() + TEXT_ENCODINGS.len());
}
