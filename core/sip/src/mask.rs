//! Mask words of a block: bit `i % 64` of word `i / 64` stands for offset `i`.

use std::ops::Range;

use crate::BLOCK_WORDS;

/// Sets the bit of one offset.
#[inline]
pub(crate) fn set(words: &mut [u64; BLOCK_WORDS], offset: u64) {
    if let Some(word) = words.get_mut(word_of(offset)) {
        *word |= 1 << (offset % 64);
    }
}

/// Clears the bit of one offset.
#[inline]
pub(crate) fn clear(words: &mut [u64; BLOCK_WORDS], offset: u64) {
    if let Some(word) = words.get_mut(word_of(offset)) {
        *word &= !(1 << (offset % 64));
    }
}

/// Sets the bits of a range of offsets, which is not empty.
pub(crate) fn set_range(words: &mut [u64; BLOCK_WORDS], offsets: Range<u64>) {
    change_range(words, offsets, |word, bits| *word |= bits);
}

/// Clears the bits of a range of offsets, which is not empty.
pub(crate) fn clear_range(words: &mut [u64; BLOCK_WORDS], offsets: Range<u64>) {
    change_range(words, offsets, |word, bits| *word &= !bits);
}

#[inline]
fn change_range(words: &mut [u64; BLOCK_WORDS], offsets: Range<u64>, change: impl Fn(&mut u64, u64)) {
    let last = offsets.end - 1;
    let Some(words) = words.get_mut(word_of(offsets.start)..=word_of(last)) else { return };
    let head = u64::MAX << (offsets.start % 64);
    let tail = u64::MAX >> (63 - last % 64);
    match words {
        [only] => change(only, head & tail),
        [first, middle @ .., last] => {
            change(first, head);
            middle.iter_mut().for_each(|word| change(word, u64::MAX));
            change(last, tail);
        }
        [] => {}
    }
}

/// Calls `each` with the first and the last offset of every run of set bits.
pub(crate) fn for_each_run(words: impl Iterator<Item = u64>, mut each: impl FnMut(u64, u64)) {
    let mut open = None;
    let mut base = 0;
    let mut carry = 0;
    for word in words {
        // A bit that differs from the one before it begins a run or ends one.
        let mut edges = word ^ (word << 1 | carry);
        while edges != 0 {
            let edge = base + u64::from(edges.trailing_zeros());
            edges &= edges - 1;
            match open.take() {
                None => open = Some(edge),
                Some(first) => each(first, edge - 1),
            }
        }
        carry = word >> 63;
        base += 64;
    }
    if let Some(first) = open {
        each(first, base - 1);
    }
}

/// The offsets of the set bits of `word`, the `index`th.
pub(crate) fn bits(index: usize, mut word: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| u64::from(word.trailing_zeros()))?;
        word &= word - 1;
        Some(index as u64 * 64 + bit)
    })
}

#[inline]
fn word_of(offset: u64) -> usize {
    usize::try_from(offset / 64).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(words: &[u64]) -> Vec<(u64, u64)> {
        let mut runs = Vec::new();
        for_each_run(words.iter().copied(), |first, last| runs.push((first, last)));
        runs
    }

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
                assert_eq!(runs(&range), [(start, end - 1)]);
                let (mut range, mut bits) = ([u64::MAX; BLOCK_WORDS], [u64::MAX; BLOCK_WORDS]);
                clear_range(&mut range, start..end);
                (start..end).for_each(|offset| clear(&mut bits, offset));
                assert!(range == bits, "without {start}..{end}");
            }
        }
    }

    #[test]
    fn runs_go_on_from_word_to_word() {
        assert_eq!(runs(&[0, 0]), []);
        assert_eq!(runs(&[1 << 63, 1]), [(63, 64)]);
        assert_eq!(runs(&[1 << 63, 2]), [(63, 63), (65, 65)]);
        assert_eq!(runs(&[0b1011_0111, u64::MAX, 0b11]), [(0, 2), (4, 5), (7, 7), (64, 129)]);
    }
}
