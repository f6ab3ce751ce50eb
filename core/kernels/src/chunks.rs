//! Chunks of 64 rows and their mask words.

/// Rows of a chunk, one for each bit of a mask word.
pub(crate) const CHUNK: usize = 64;

/// A word whose lowest `rows` bits are set; all of them for 64 rows or more.
#[inline(always)]
pub(crate) fn low_bits(rows: usize) -> u64 {
    if rows < CHUNK { (1 << rows) - 1 } else { u64::MAX }
}

/// The chunk that holds `tail` and then `fill`.
#[inline(always)]
pub(crate) fn pad<T: Copy>(tail: &[T], fill: T) -> [T; CHUNK] {
    let mut chunk = [fill; CHUNK];
    chunk[..tail.len()].copy_from_slice(tail);
    chunk
}

/// Words with at most this many bits are walked bit by bit.
const SPARSE: u32 = 5;

/// Which way a chunk under a mask word goes.
pub(crate) enum Density {
    Empty,
    Sparse,
    Mixed,
    Full,
}

impl Density {
    #[inline(always)]
    pub(crate) fn of(word: u64) -> Self {
        match word {
            0 => Self::Empty,
            u64::MAX => Self::Full,
            _ if word.count_ones() <= SPARSE => Self::Sparse,
            _ => Self::Mixed,
        }
    }
}

/// Calls `f` with the place of every set bit, in order.
#[inline(always)]
pub(crate) fn for_bits(mut word: u64, mut f: impl FnMut(usize)) {
    while word != 0 {
        f(word.trailing_zeros() as usize);
        word &= word - 1;
    }
}

/// Calls `f` with every chunk of `values` and its mask word; the last chunk is padded with `fill` and its
/// word cut to its rows.
#[inline(always)]
pub(crate) fn for_masked<T: Copy>(values: &[T], mask: &[u64], fill: T, mut f: impl FnMut(&[T; CHUNK], u64)) {
    let (chunks, tail) = values.as_chunks::<CHUNK>();
    for (chunk, &word) in chunks.iter().zip(mask) {
        f(chunk, word);
    }
    if let ([_, ..], Some(word)) = (tail, mask.get(chunks.len())) {
        f(&pad(tail, fill), word & low_bits(tail.len()));
    }
}

#[track_caller]
pub(crate) fn check_mask(rows: usize, words: usize) {
    assert!(words == rows.div_ceil(CHUNK), "{words} mask words for {rows} rows");
}
