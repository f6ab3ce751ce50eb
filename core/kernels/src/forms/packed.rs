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

use crate::chunks::CHUNK;

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

/// The widest codes that sets are of.
pub const MAX_SET_WIDTH: u32 = 32;

pub(crate) fn check_width(width: u32) {
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
