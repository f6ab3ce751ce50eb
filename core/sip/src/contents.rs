//! The ids of one block, in the form of a roaring container: what every tag is read as, and written from.

use std::{ops::Range, slice};

use basalt_kernels::mask as kernels;

use crate::{BLOCK_WORDS, mask};

/// Offsets of the ids of a block, as little-endian fields. There is at least one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Contents<'a> {
    /// Increasing offsets.
    Array(&'a [[u8; 2]]),
    /// The words of a mask, 1,024.
    Bitset(&'a [[u8; 8]]),
    /// The first offset of each run, and the number of offsets behind it.
    Runs(&'a [[u8; 4]]),
}

/// The first offset of a run, and the one behind its last: at most 65,536 if it is valid.
#[inline]
pub(crate) fn run_of([a, b, c, d]: [u8; 4]) -> Range<u64> {
    let first = u64::from(u16::from_le_bytes([a, b]));
    first..first + u64::from(u16::from_le_bytes([c, d])) + 1
}

#[inline]
fn offset_of(field: [u8; 2]) -> u64 {
    u64::from(u16::from_le_bytes(field))
}

impl<'a> Contents<'a> {
    /// Whether the id at `offset` is among them.
    pub(crate) fn contains(self, offset: u16) -> bool {
        match self {
            Self::Array(ids) => ids.binary_search_by_key(&offset, |&id| u16::from_le_bytes(id)).is_ok(),
            Self::Bitset(words) => words
                .get(usize::from(offset) / 64)
                .is_some_and(|&word| u64::from_le_bytes(word) >> (offset % 64) & 1 == 1),
            Self::Runs(runs) => {
                let offset = u64::from(offset);
                let behind = runs.partition_point(|&run| run_of(run).start <= offset);
                let run = behind.checked_sub(1).and_then(|i| runs.get(i));
                run.is_some_and(|&run| run_of(run).contains(&offset))
            }
        }
    }

    /// The first offset at or behind `offset`, if there is one, and the number of offsets before it.
    pub(crate) fn find(self, offset: u64) -> (Option<u64>, u64) {
        match self {
            Self::Array(ids) => {
                let at = ids.partition_point(|&id| offset_of(id) < offset);
                (ids.get(at).map(|&id| offset_of(id)), at as u64)
            }
            Self::Bitset(words) => {
                let at = usize::try_from(offset / 64).unwrap_or(usize::MAX).min(words.len());
                let ones = |words: &[[u8; 8]]| {
                    words.iter().map(|&w| u64::from(u64::from_le_bytes(w).count_ones())).sum::<u64>()
                };
                let (before, behind) = words.split_at(at);
                let word = behind.first().map_or(0, |&word| u64::from_le_bytes(word));
                let above = u64::MAX << (offset % 64);
                let rank = ones(before) + u64::from((word & !above).count_ones());
                let first =
                    [word & above].into_iter().chain(behind.iter().skip(1).map(|&w| u64::from_le_bytes(w)));
                let mut first = first.zip(at as u64..).filter(|(word, _)| *word > 0);
                (first.next().map(|(word, at)| at * 64 + u64::from(word.trailing_zeros())), rank)
            }
            Self::Runs(runs) => {
                let at = runs.partition_point(|&run| run_of(run).end <= offset);
                let before = runs[..at].iter().map(|&run| run_of(run).end - run_of(run).start).sum::<u64>();
                match runs.get(at).map(|&run| run_of(run)) {
                    None => (None, before),
                    Some(run) => {
                        let found = run.start.max(offset);
                        (Some(found), before + found - run.start)
                    }
                }
            }
        }
    }

    /// The last offset.
    pub(crate) fn last(self) -> u64 {
        match self {
            Self::Array(ids) => ids.last().map_or(0, |&id| offset_of(id)),
            Self::Bitset(words) => {
                let last = words.iter().rposition(|word| *word != [0; 8]).unwrap_or(0);
                let bit = words.get(last).and_then(|&word| u64::from_le_bytes(word).checked_ilog2());
                last as u64 * 64 + u64::from(bit.unwrap_or(0))
            }
            Self::Runs(runs) => runs.last().map_or(0, |&run| run_of(run).end - 1),
        }
    }

    /// Writes them as bits over all `words`.
    pub(crate) fn copy_to(self, words: &mut [u64; BLOCK_WORDS]) {
        if let Self::Bitset(bitset) = self {
            words.iter_mut().zip(bitset).for_each(|(word, &bytes)| *word = u64::from_le_bytes(bytes));
        } else {
            words.fill(0);
            self.add_to(words);
        }
    }

    /// Sets their bits in `words`.
    pub(crate) fn add_to(self, words: &mut [u64; BLOCK_WORDS]) {
        match self {
            Self::Array(ids) => kernels::set_positions(ids, words),
            Self::Bitset(bitset) => {
                words.iter_mut().zip(bitset).for_each(|(word, &bytes)| *word |= u64::from_le_bytes(bytes));
            }
            Self::Runs(runs) => runs.iter().for_each(|&run| mask::set_range(words, run_of(run))),
        }
    }

    /// Clears the bits of all other offsets in `words`.
    pub(crate) fn keep_in(self, words: &mut [u64; BLOCK_WORDS]) {
        if let Self::Bitset(bitset) = self {
            words.iter_mut().zip(bitset).for_each(|(word, &bytes)| *word &= u64::from_le_bytes(bytes));
        } else {
            let mut own = [0; BLOCK_WORDS];
            self.add_to(&mut own);
            words.iter_mut().zip(own).for_each(|(word, own)| *word &= own);
        }
    }

    /// Clears their bits in `words`.
    pub(crate) fn remove_from(self, words: &mut [u64; BLOCK_WORDS]) {
        match self {
            Self::Array(ids) => ids.iter().for_each(|&id| mask::clear(words, offset_of(id))),
            Self::Bitset(bitset) => {
                words.iter_mut().zip(bitset).for_each(|(word, &bytes)| *word &= !u64::from_le_bytes(bytes));
            }
            Self::Runs(runs) => runs.iter().for_each(|&run| mask::clear_range(words, run_of(run))),
        }
    }

    /// Calls `each` with every run of offsets, the first and the last one. Runs of arrays and bitsets that
    /// touch are one.
    pub(crate) fn for_each_run(self, mut each: impl FnMut(u64, u64)) {
        match self {
            Self::Array(ids) => {
                for run in ids.chunk_by(|&a, &b| offset_of(b) - offset_of(a) == 1) {
                    each(offset_of(run[0]), offset_of(run[run.len() - 1]));
                }
            }
            Self::Bitset(words) => mask::for_each_run(words.iter().map(|&w| u64::from_le_bytes(w)), each),
            Self::Runs(runs) => runs.iter().for_each(|&run| each(run_of(run).start, run_of(run).end - 1)),
        }
    }

    /// The offsets, in increasing order.
    pub(crate) fn offsets(self) -> Offsets<'a> {
        match self {
            Self::Array(ids) => Offsets::Array(ids.iter()),
            Self::Bitset(words) => Offsets::Bitset { words: words.iter(), next_base: 0, word: 0 },
            Self::Runs(runs) => Offsets::Runs { runs: runs.iter(), run: 0..0 },
        }
    }

    /// The offsets behind the first `rank` ones.
    pub(crate) fn offsets_behind(self, rank: u64) -> Offsets<'a> {
        let mut left = rank;
        let mut offsets = match self {
            Self::Array(ids) => {
                let at = usize::try_from(std::mem::take(&mut left)).unwrap_or(usize::MAX);
                Offsets::Array(ids[at.min(ids.len())..].iter())
            }
            Self::Bitset(words) => {
                let mut skipped = 0;
                for &word in words {
                    let ones = u64::from(u64::from_le_bytes(word).count_ones());
                    if ones > left {
                        break;
                    }
                    left -= ones;
                    skipped += 1;
                }
                Offsets::Bitset { words: words[skipped..].iter(), next_base: 64 * skipped as u64, word: 0 }
            }
            Self::Runs(runs) => {
                let mut skipped = 0;
                for &run in runs {
                    let ids = run_of(run).end - run_of(run).start;
                    if ids > left {
                        break;
                    }
                    left -= ids;
                    skipped += 1;
                }
                Offsets::Runs { runs: runs[skipped..].iter(), run: 0..0 }
            }
        };
        for _ in 0..left {
            offsets.next();
        }
        offsets
    }
}

/// Offsets of a block's ids.
#[derive(Clone, Debug)]
pub(crate) enum Offsets<'a> {
    Array(slice::Iter<'a, [u8; 2]>),
    Bitset {
        words: slice::Iter<'a, [u8; 8]>,
        /// Offset of the first bit of the next word.
        next_base: u64,
        /// What is left of the current word.
        word: u64,
    },
    Runs {
        runs: slice::Iter<'a, [u8; 4]>,
        run: Range<u64>,
    },
}

impl Iterator for Offsets<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        match self {
            Self::Array(ids) => ids.next().map(|&id| offset_of(id)),
            Self::Bitset { words, next_base, word } => {
                while *word == 0 {
                    *word = u64::from_le_bytes(*words.next()?);
                    *next_base += 64;
                }
                let bit = u64::from(word.trailing_zeros());
                *word &= *word - 1;
                Some(*next_base - 64 + bit)
            }
            Self::Runs { runs, run } => loop {
                if let Some(offset) = run.next() {
                    return Some(offset);
                }
                *run = run_of(*runs.next()?);
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_behind_some_are_the_others() {
        let array = [3_u16, 4, 900, 65_535].map(u16::to_le_bytes);
        let mut bitset = [[0; 8]; BLOCK_WORDS];
        for (i, word) in [(0, 0b1011_u64), (1, u64::MAX), (70, 1 << 63), (1023, 5)] {
            bitset[i] = word.to_le_bytes();
        }
        // 0 to 4, 7, 100 to 300.
        let runs = [[0, 0, 4, 0], [7, 0, 0, 0], [100, 0, 200, 0]];
        for contents in [Contents::Array(&array), Contents::Bitset(&bitset), Contents::Runs(&runs)] {
            let all: Vec<u64> = contents.offsets().collect();
            for rank in 0..=all.len() {
                let behind = contents.offsets_behind(rank as u64);
                assert!(behind.eq(all[rank..].iter().copied()), "{rank} of {contents:?}");
            }
        }
    }
}
