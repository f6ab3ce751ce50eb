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

/// Which way a chunk under a mask word goes.
pub(crate) enum Density {
    Empty,
    Sparse,
    Mixed,
    Full,
}

impl Density {
    /// The way of a word; those of at most `sparse` bits are walked bit by bit.
    #[inline(always)]
    pub(crate) fn of(word: u64, sparse: u32) -> Self {
        match word {
            0 => Self::Empty,
            u64::MAX => Self::Full,
            _ if word.count_ones() <= sparse => Self::Sparse,
            _ => Self::Mixed,
        }
    }
}

/// The places of a word's set bits, in order.
pub(crate) struct Bits(pub(crate) u64);

impl Iterator for Bits {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let place = self.0.trailing_zeros() as usize;
        self.0 &= self.0.checked_sub(1)?;
        Some(place)
    }
}

/// Evaluates a block with every chunk of `values` and its mask word; the last chunk is padded with `fill` and
/// its word cut to its rows.
///
/// A macro, because a closure would not be compiled for the instructions of the function around it.
macro_rules! for_masked {
    ($values:expr, $mask:expr, $fill:expr, |$chunk:ident, $word:ident| $block:block) => {
        let (chunks, tail) = $values.as_chunks::<{ crate::chunks::CHUNK }>();
        for ($chunk, &$word) in chunks.iter().zip($mask) {
            $block
        }
        if let ([_, ..], Some(&word)) = (tail, $mask.get(chunks.len())) {
            let $chunk = &crate::chunks::pad(tail, $fill);
            let $word = word & crate::chunks::low_bits(tail.len());
            $block
        }
    };
}

pub(crate) use for_masked;

#[track_caller]
pub(crate) fn check_mask(rows: usize, words: usize) {
    assert!(words == rows.div_ceil(CHUNK), "{words} mask words for {rows} rows");
}
