//! Bit-packed codes, in the layout that [`crate::packed`] describes.

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

/// A float that stands in the place of a row's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patch {
    /// The row, behind the first of those that are asked for.
    pub row: usize,
    /// The float.
    pub float: f64,
}

/// The widest codes that sets are of.
pub const MAX_SET_WIDTH: u32 = 32;

/// Checks that there are words for so many codes.
#[track_caller]
pub(crate) fn check_words(width: u32, rows: usize, out: &[u64]) {
    assert_eq!(out.len(), words(width, rows), "words for {rows} codes of {width} bits");
}

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
