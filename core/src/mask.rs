//! Which rows of a block are selected: none, all, or one bit a row.

use basalt_kernels::mask as words;

use crate::{invariant::index, limits::BLOCK_WORDS};

/// Whether words (`None`: all rows) select a row.
#[inline]
pub fn selects(words: Option<&[u64]>, row: usize) -> bool {
    words.is_none_or(|words| (words[row / 64] >> (row % 64)) & 1 == 1)
}

/// Rows that words select.
pub fn count(words: &[u64]) -> usize {
    index(words::count_ones(words))
}

/// Whether no row behind `rows` is selected.
fn is_within(words: &[u64], rows: usize) -> bool {
    let last = words.iter().rposition(|word| *word != 0);
    last.is_none_or(|last| 64 * last + (words[last].ilog2() as usize) < rows)
}

/// Selects the rows `from..to`.
pub fn set_range(words: &mut [u64], from: usize, to: usize) {
    if from >= to {
        return;
    }
    let (first, last) = (from / 64, (to - 1) / 64);
    let (head, tail) = (u64::MAX << (from % 64), u64::MAX >> (63 - (to - 1) % 64));
    if first == last {
        words[first] |= head & tail;
    } else {
        words[first] |= head;
        words[first + 1..last].fill(u64::MAX);
        words[last] |= tail;
    }
}

/// The words of a block's mask.
pub type Words = [u64; BLOCK_WORDS];

/// A selection among the rows of one block. Bits behind the block's last row are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mask {
    /// No row.
    Empty,
    /// Every row.
    Full,
    /// The rows whose bit is set.
    Words(Box<Words>),
}

impl Mask {
    /// A mask whose words the caller fills for `rows` rows: `fill` gets `rows.div_ceil(64)` of them.
    pub fn from_fn(rows: usize, fill: impl FnOnce(&mut [u64])) -> Self {
        let mut mask = Box::new([0; BLOCK_WORDS]);
        fill(&mut mask[..rows.div_ceil(64)]);
        debug_assert!(is_within(mask.as_slice(), rows), "bits behind the last row are 0");
        Self::Words(mask)
    }

    /// Rows selected of a block of `rows` rows.
    pub fn count(&self, rows: usize) -> usize {
        match self {
            Self::Empty => 0,
            Self::Full => rows,
            Self::Words(mask) => count(mask.as_slice()),
        }
    }

    /// Whether no row is selected.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full => false,
            Self::Words(mask) => mask.iter().all(|w| *w == 0),
        }
    }

    /// The rows selected by both.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Empty, _) | (_, Self::Empty) => Self::Empty,
            (mask, Self::Full) => mask,
            (Self::Full, mask) => mask.clone(),
            (Self::Words(mut a), Self::Words(b)) => {
                words::and(a.as_mut_slice(), b.as_slice());
                Self::Words(a)
            }
        }
    }

    /// The rows selected by either.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Full, _) | (_, Self::Full) => Self::Full,
            (mask, Self::Empty) => mask,
            (Self::Empty, mask) => mask.clone(),
            (Self::Words(mut a), Self::Words(b)) => {
                words::or(a.as_mut_slice(), b.as_slice());
                Self::Words(a)
            }
        }
    }

    /// The other rows of a block of `rows` rows.
    #[must_use]
    pub fn not(self, rows: usize) -> Self {
        match self {
            Self::Empty => Self::Full,
            Self::Full => Self::Empty,
            Self::Words(mut mask) => {
                words::not(&mut mask[..rows.div_ceil(64)], rows);
                Self::Words(mask)
            }
        }
    }

    /// The rows of this mask that `other` does not select.
    #[must_use]
    pub fn and_not(self, other: &Self, rows: usize) -> Self {
        match (self, other) {
            (mask, Self::Empty) => mask,
            (Self::Empty, _) | (_, Self::Full) => Self::Empty,
            (Self::Full, mask) => mask.clone().not(rows),
            (Self::Words(mut a), Self::Words(b)) => {
                words::and_not(a.as_mut_slice(), b.as_slice());
                Self::Words(a)
            }
        }
    }

    /// Writes the words of rows `start..start + rows` (`start` a multiple of 64) to `out` and says how many
    /// rows they select.
    pub fn slice(&self, start: usize, rows: usize, out: &mut Vec<u64>) -> usize {
        out.clear();
        match self {
            Self::Empty => 0,
            Self::Full => {
                out.resize(rows.div_ceil(64), 0);
                words::fill(rows, out);
                rows
            }
            Self::Words(mask) => {
                out.extend_from_slice(&mask[start / 64..(start + rows).div_ceil(64)]);
                count(out)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[usize]) -> Mask {
        Mask::from_fn(65_536, |words| {
            for row in rows {
                words[row / 64] |= 1 << (row % 64);
            }
        })
    }

    #[test]
    fn algebra() {
        let (a, b) = (of(&[0, 5, 700]), of(&[5, 9]));
        assert_eq!(a.clone().and(&b), of(&[5]));
        assert_eq!(a.clone().or(&b), of(&[0, 5, 9, 700]));
        assert_eq!(a.clone().and_not(&b, 65_536), of(&[0, 700]));
        assert_eq!(Mask::Full.and_not(&a, 65_536), a.clone().not(65_536));
        assert_eq!(a.clone().and(&Mask::Full), a);
        assert_eq!(a.clone().or(&Mask::Empty), a);
        assert_eq!(a.clone().not(701).count(701), 698);
        assert!(a.clone().and(&Mask::Empty).is_empty());
        assert_eq!(Mask::Full.count(77), 77);
    }

    #[test]
    fn slices() {
        let mut out = Vec::new();
        assert_eq!(of(&[0, 64, 130]).slice(64, 64, &mut out), 1);
        assert_eq!(out, [1]);
        assert_eq!(Mask::Full.slice(128, 70, &mut out), 70);
        assert_eq!(out, [u64::MAX, 63]);
    }
}
