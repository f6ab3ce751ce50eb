//! Chunks of 64 rows and their mask words.

use std::ops::{Deref, DerefMut};

/// Rows of a chunk, one for each bit of a mask word.
pub(crate) const CHUNK: usize = 64;

/// A word whose lowest `rows` bits are set; all of them for 64 rows or more.
#[inline(always)]
pub(crate) fn low_bits(rows: usize) -> u64 {
    if rows < CHUNK { (1 << rows) - 1 } else { u64::MAX }
}

/// The chunk that holds `tail` and then `fill`.
#[inline(always)]
pub(crate) fn pad<T: Copy>(tail: &[T], fill: T) -> Aligned<[T; CHUNK]> {
    let mut chunk = Aligned([fill; CHUNK]);
    chunk[..tail.len()].copy_from_slice(tail);
    chunk
}

/// Values that begin where a line of the cache does. Registers of 64 bytes that are stored astride two lines of the stack and
/// loaded again make the loads wait: half the speed of a whole kernel, or not, by how deep the stack is.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Aligned<T>(pub(crate) T);

impl<T> Deref for Aligned<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Aligned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
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
            let $chunk = &crate::chunks::pad(tail, $fill).0;
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
