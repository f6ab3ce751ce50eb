//! Mask words to positions and back.

use crate::forms::mask::BLOCK_WORDS;

/// A number that positions are written as.
pub(crate) trait Position: Copy {
    /// The position `places` behind this one, modulo the type.
    fn plus(self, places: usize) -> Self;
}

macro_rules! positions {
    ($($t:ident),*) => {$(
        impl Position for $t {
            #[inline(always)]
            fn plus(self, places: usize) -> Self {
                self.wrapping_add(places as $t)
            }
        }
    )*};
}

positions!(u16, u64);

/// Words that are looked at together.
pub(crate) const GROUP: usize = 8;

/// Above this many bits in the union of a group's words, many words have more than four.
const DENSE: u32 = 16;

/// The positions of set bits, counted from `base`; returns how many.
#[inline(always)]
pub(crate) fn positions<T: Position>(words: &[u64], mut base: T, out: &mut [T]) -> usize {
    let (groups, rest) = words.as_chunks::<GROUP>();
    let mut written = 0;
    for group in groups {
        match group.iter().fold(0, |union, word| union | word).count_ones() {
            0 => {}
            1..=DENSE => written = of_words::<T, 4>(group, base, out, written),
            _ => written = of_words::<T, 8>(group, base, out, written),
        }
        base = base.plus(64 * GROUP);
    }
    of_words::<T, 4>(rest, base, out, written)
}

/// Writes positions from `out[written]` on; returns where they end. The first `STEP` of a word are written without
/// asking how many there are, because a branch that goes either way costs more; what is in excess is overwritten.
#[inline(always)]
fn of_words<T: Position, const STEP: usize>(
    words: &[u64],
    mut base: T,
    out: &mut [T],
    mut written: usize,
) -> usize {
    for &word in words {
        let count = word.count_ones() as usize;
        let mut bits = Bits { word, base };
        match out[written..].split_first_chunk_mut::<STEP>() {
            Some((first, rest)) => {
                bits.write(first);
                if count > STEP {
                    bits.write(&mut rest[..count - STEP]);
                }
            }
            None => bits.write(&mut out[written..][..count]),
        }
        written += count;
        base = base.plus(64);
    }
    written
}

/// The bits of a word that are not yet written.
struct Bits<T> {
    word: u64,
    base: T,
}

impl<T: Position> Bits<T> {
    #[inline(always)]
    fn write(&mut self, out: &mut [T]) {
        for position in out {
            *position = self.base.plus(self.word.trailing_zeros() as usize);
            self.word &= self.word.wrapping_sub(1);
        }
    }
}

/// Sets the bits at positions.
#[inline(always)]
pub(crate) fn set(positions: &[[u8; 2]], block: &mut [u64; BLOCK_WORDS]) {
    // No word is kept at hand: whether the next position has the same one is hard to foretell.
    for &position in positions {
        let position = usize::from(u16::from_le_bytes(position));
        block[position / 64] |= 1 << (position % 64);
    }
}
