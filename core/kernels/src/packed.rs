//! Bit-packed codes, laid out so that SIMD registers hold consecutive rows.
//!
//! A code has `width` bits, 1 to 64. Lanes are the least of 8, 16, 32 and 64 bits that hold it, and a vector is
//! 64 bytes of lanes. A unit is 512 rows in `width` vectors: row `r` lies in lane `r % lanes` at place
//! `r / lanes`, and every lane is a little-endian stream of bits of its own, in which place `p` has bits
//! `p * width .. (p + 1) * width`; the stream's k-th word is the lane's word in the unit's k-th vector. So all
//! lanes shift by the same amount, and the codes of one place are consecutive rows. (The vertical layout of
//! Lemire and Boytsov, "Decoding billions of integers per second through vectorization", 2015, and of FastLanes,
//! Afroozeh and Boncz, PVLDB 16(9), but in the rows' own order.)
//!
//! Units follow each other; the last one ends with the vector that holds its last row (rounded up to 64 rows),
//! and a vector of zeros follows, which a reader may load but never needs.

use crate::{Integer, chunks::CHUNK, dispatch::current};

/// Rows of a unit; ranges of rows begin at a multiple of it.
pub const UNIT_ROWS: usize = 512;

/// Chunks of 64 rows in a unit.
pub(crate) const UNIT_CHUNKS: usize = UNIT_ROWS / CHUNK;

/// Words of a vector.
const VECTOR_WORDS: usize = 8;

/// Rows of packed codes that a kernel works on.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) width: u32,
    pub(crate) words: &'a [u64],
    /// The first row, at the beginning of a unit.
    pub(crate) start: usize,
    pub(crate) count: usize,
}

impl<'a> Rows<'a> {
    #[track_caller]
    pub(crate) fn new(width: u32, words: &'a [u64], start: usize, count: usize) -> Self {
        assert!(start.is_multiple_of(UNIT_ROWS), "row {start} is inside a unit");
        let end = start + count;
        assert!(
            words.len() >= self::words(width, end),
            "{} words hold no {end} codes of {width} bits",
            words.len()
        );
        Self { width, words, start, count }
    }
}

/// The integer of a lane.
pub(crate) trait Lane: Integer {
    /// Lanes of a vector.
    const COUNT: usize = 64 / size_of::<Self>();

    /// The words as lanes.
    fn lanes(words: &[u64]) -> &[Self];

    /// The words as lanes.
    fn lanes_mut(words: &mut [u64]) -> &mut [Self];

    fn truncate(code: u64) -> Self;

    fn widen(self) -> u64;
}

macro_rules! lanes {
    ($($t:ident),*) => {$(
        impl Lane for $t {
            #[inline(always)]
            fn lanes(words: &[u64]) -> &[Self] {
                let lanes = size_of_val(words) / size_of::<$t>();
                // SAFETY: the lanes cover the bytes of the words; every bit pattern is a lane, and no lane is
                // aligned more strictly than a word.
                unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), lanes) }
            }

            #[inline(always)]
            fn lanes_mut(words: &mut [u64]) -> &mut [Self] {
                let lanes = size_of_val(words) / size_of::<$t>();
                // SAFETY: as above, and every bit pattern is a word.
                unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), lanes) }
            }

            #[inline(always)]
            fn truncate(code: u64) -> Self {
                code as Self
            }

            #[inline(always)]
            fn widen(self) -> u64 {
                u64::from(self)
            }
        }
    )*};
}

lanes!(u8, u16, u32, u64);

fn mask(width: u32) -> u64 {
    u64::MAX >> (u64::BITS - width)
}

fn check_width(width: u32) {
    assert!((1..=64).contains(&width), "a code has 1 to 64 bits, not {width}");
}

/// Words that `rows` codes take, the vector of zeros behind them included.
///
/// # Panics
/// Where `width` is not 1 to 64.
pub fn words(width: u32, rows: usize) -> usize {
    check_width(width);
    let chunks = (rows % UNIT_ROWS).div_ceil(CHUNK);
    // A chunk takes an eighth of a lane's bits in places.
    let vectors = rows / UNIT_ROWS * width as usize + (chunks * width as usize).div_ceil(UNIT_CHUNKS);
    (vectors + 1) * VECTOR_WORDS
}

/// Packs codes; bits of a code above `width` are dropped.
///
/// # Panics
/// Where `width` is not 1 to 64, or `out` has not exactly [`words`]`(width, codes.len())` words.
pub fn pack(width: u32, codes: &[u64], out: &mut [u64]) {
    assert_eq!(out.len(), words(width, codes.len()), "words for {} codes of {width} bits", codes.len());
    out.fill(0);
    match width {
        1..=8 => pack_lanes::<u8>(width as usize, codes, out),
        9..=16 => pack_lanes::<u16>(width as usize, codes, out),
        17..=32 => pack_lanes::<u32>(width as usize, codes, out),
        _ => pack_lanes::<u64>(width as usize, codes, out),
    }
}

fn pack_lanes<L: Lane>(width: usize, codes: &[u64], out: &mut [u64]) {
    let out = L::lanes_mut(out);
    let bits = L::BITS as usize;
    for (i, codes) in codes.chunks(L::COUNT).enumerate() {
        let (unit, place) = (i / bits, i % bits);
        let (vector, shift) = (unit * width + place * width / bits, place * width % bits);
        let (lo, hi) = out[vector * L::COUNT..][..2 * L::COUNT].split_at_mut(L::COUNT);
        for ((lo, hi), code) in lo.iter_mut().zip(hi).zip(codes) {
            let code = code & mask(width as u32);
            *lo = L::truncate(lo.widen() | code << shift);
            // In two steps, because a shift by all bits of a word is none.
            *hi = L::truncate(hi.widen() | (code >> 1) >> (bits - 1 - shift));
        }
    }
}

/// The code of one row.
///
/// # Panics
/// Where `width` is not 1 to 64, or `words` ends before the row.
#[inline]
pub fn get(width: u32, words: &[u64], row: usize) -> u64 {
    check_width(width);
    match width {
        1..=8 => get_lane::<u8>(width, words, row),
        9..=16 => get_lane::<u16>(width, words, row),
        17..=32 => get_lane::<u32>(width, words, row),
        _ => get_lane::<u64>(width, words, row),
    }
}

#[inline]
fn get_lane<L: Lane>(width: u32, words: &[u64], row: usize) -> u64 {
    let (unit, row) = (row / UNIT_ROWS, row % UNIT_ROWS);
    let (lane, bit) = (row % L::COUNT, row / L::COUNT * width as usize);
    let (vector, shift) = (unit * width as usize + bit / L::BITS as usize, bit % L::BITS as usize);
    let vectors = &L::lanes(words)[vector * L::COUNT + lane..][..=L::COUNT];
    let (lo, hi) = (vectors[0].widen(), vectors[L::COUNT].widen());
    let code = match L::BITS {
        64 => (u128::from(lo) | u128::from(hi) << 64) >> shift,
        bits => u128::from((lo | hi << bits) >> shift),
    };
    code as u64 & mask(width)
}

/// Writes `base + code` (wrapping) of rows `start..start + out.len()`.
///
/// # Panics
/// Where `width` is not 1 to 64, `start` is inside a unit, or `words` ends before the last row.
#[track_caller]
pub fn unpack(width: u32, words: &[u64], start: usize, base: i64, out: &mut [i64]) {
    current().packed_unpack(width, words, start, base, out);
}

/// Writes the mask of rows `start..start + rows` whose codes are from `lo` to `hi`, both included; of none
/// where `lo > hi`.
///
/// # Panics
/// Where `width` is not 1 to 64, `start` is inside a unit, `words` ends before the last row, or `out` has not
/// `rows.div_ceil(64)` words.
#[track_caller]
pub fn between(width: u32, words: &[u64], start: usize, rows: usize, lo: u64, hi: u64, out: &mut [u64]) {
    current().packed_between(width, words, start, rows, lo, hi, out);
}

/// The widest codes that sets are of.
pub const MAX_SET_WIDTH: u32 = 32;

/// Writes the mask of rows `start..start + rows` whose codes are in a set, which has a bit for every code of the
/// width.
///
/// # Panics
/// Where `width` is not 1 to [`MAX_SET_WIDTH`], `set` has fewer than 2^`width` bits, and as [`between`].
#[track_caller]
pub fn in_set(width: u32, words: &[u64], start: usize, rows: usize, set: &[u64], out: &mut [u64]) {
    current().packed_in_set(width, words, start, rows, set, out);
}

/// Writes `base + code` (wrapping) of the rows at ascending places behind row `start`.
///
/// # Panics
/// As [`unpack`], and where there are not as many places as keys.
#[track_caller]
pub fn gather(width: u32, words: &[u64], start: usize, places: &[u16], base: i64, out: &mut [i64]) {
    current().packed_gather(width, words, start, places, base, out);
}

/// The exact sum of the codes of rows `start..start + rows`.
///
/// # Panics
/// Where `width` is not 1 to 64, `start` is inside a unit, or `words` ends before the last row.
#[track_caller]
pub fn sum(width: u32, words: &[u64], start: usize, rows: usize) -> u128 {
    current().packed_sum(width, words, start, rows)
}

/// The exact sum of the codes of rows `start..start + rows` that the mask selects.
///
/// # Panics
/// As [`sum`], and where `mask` has not `rows.div_ceil(64)` words.
#[track_caller]
pub fn sum_masked(width: u32, words: &[u64], start: usize, rows: usize, mask: &[u64]) -> u128 {
    current().packed_sum_masked(width, words, start, rows, mask)
}

/// The least and the greatest code of rows `start..start + rows`.
///
/// # Panics
/// As [`sum`].
#[track_caller]
pub fn min_max(width: u32, words: &[u64], start: usize, rows: usize) -> Option<(u64, u64)> {
    current().packed_min_max(width, words, start, rows)
}

/// The least and the greatest code of rows `start..start + rows` that the mask selects.
///
/// # Panics
/// As [`sum`], and where `mask` has not `rows.div_ceil(64)` words.
#[track_caller]
pub fn min_max_masked(
    width: u32,
    words: &[u64],
    start: usize,
    rows: usize,
    mask: &[u64],
) -> Option<(u64, u64)> {
    current().packed_min_max_masked(width, words, start, rows, mask)
}
