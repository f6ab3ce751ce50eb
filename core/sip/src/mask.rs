//! Mask words of a block: bit `i % 64` of word `i / 64` stands for offset `i`.

use std::ops::Range;

use crate::BLOCK_WORDS;

/// Sets the bit of one offset.
pub(crate) fn set(words: &mut [u64; BLOCK_WORDS], offset: u64) {
    if let Some(word) = words.get_mut(word_of(offset)) {
        *word |= 1 << (offset % 64);
    }
}

/// Sets the bits of a range of offsets, which is not empty.
pub(crate) fn set_range(words: &mut [u64; BLOCK_WORDS], offsets: Range<u64>) {
    let last = offsets.end - 1;
    let Some(words) = words.get_mut(word_of(offsets.start)..=word_of(last)) else { return };
    let head = u64::MAX << (offsets.start % 64);
    let tail = u64::MAX >> (63 - last % 64);
    match words {
        [only] => *only |= head & tail,
        [first, middle @ .., last] => {
            *first |= head;
            middle.fill(u64::MAX);
            *last |= tail;
        }
        [] => {}
    }
}

/// The number of set bits, and of runs of them.
pub(crate) fn count(words: impl IntoIterator<Item = u64>) -> (u64, u64) {
    let (mut ones, mut runs, mut carry) = (0, 0, 0);
    for word in words {
        ones += u64::from(word.count_ones());
        runs += u64::from((word & !(word << 1 | carry)).count_ones());
        carry = word >> 63;
    }
    (ones, runs)
}

/// The places of the set bits of `word`, which stands at `index`.
pub(crate) fn bits(index: usize, mut word: u64) -> impl Iterator<Item = u16> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        u16::try_from(index * 64 + bit as usize).ok()
    })
}

fn word_of(offset: u64) -> usize {
    usize::try_from(offset / 64).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_their_bits() {
        let edges = [0, 1, 62, 63, 64, 65, 127, 128, 1000, 65_471, 65_472, 65_534, 65_535, 65_536];
        for start in edges {
            for end in edges.into_iter().filter(|&end| end > start) {
                let mut range = [0; BLOCK_WORDS];
                set_range(&mut range, start..end);
                let mut bits = [0; BLOCK_WORDS];
                (start..end).for_each(|offset| set(&mut bits, offset));
                assert!(range == bits, "{start}..{end}");
                assert_eq!(count(range), (end - start, 1));
            }
        }
    }

    #[test]
    fn runs_go_on_from_word_to_word() {
        assert_eq!(count([0, 0]), (0, 0));
        assert_eq!(count([1 << 63, 1]), (2, 1));
        assert_eq!(count([1 << 63, 2]), (2, 2));
        assert_eq!(count([0b1011_0111, u64::MAX, 0b11]), (72, 4));
    }
}
