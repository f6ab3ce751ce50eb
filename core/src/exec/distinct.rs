//! Sets of distinct keys: bitmaps where they span little, hash tables elsewhere.

use hashbrown::HashSet;

use crate::invariant::index;

/// Distinct keys.
#[derive(Debug)]
pub(super) enum Distinct {
    /// A bit for each key from `first` on, which is a multiple of 64.
    Bits {
        first: i64,
        words: Vec<u64>,
    },
    Hash(HashSet<i64>),
}

impl Default for Distinct {
    fn default() -> Self {
        Self::Hash(HashSet::new())
    }
}

impl Distinct {
    /// No keys, and room for those of a range in a bitmap, where that takes at most `most` words.
    pub(super) fn of_range(range: Option<(i64, i64)>, most: u64) -> Self {
        let Some((lo, hi)) = range.filter(|(lo, hi)| lo <= hi) else { return Self::default() };
        let first = lo & !63;
        let words = hi.wrapping_sub(first).cast_unsigned() / 64 + 1;
        match usize::try_from(words) {
            Ok(n) if words <= most => Self::Bits { first, words: vec![0; n] },
            _ => Self::default(),
        }
    }

    /// Adds the keys that a mask selects (`None`: all).
    pub(super) fn extend(&mut self, keys: &[i64], mask: Option<&[u64]>) {
        match (self, mask) {
            (Self::Bits { first, words }, Some(mask)) => {
                basalt_kernels::mask::for_each(mask, |row| set(words, *first, keys[row]));
            }
            (Self::Bits { first, words }, None) => keys.iter().for_each(|key| set(words, *first, *key)),
            (Self::Hash(set), mask) => {
                let mut last = None;
                let insert = |row: usize| {
                    if last.replace(keys[row]) != Some(keys[row]) {
                        set.insert(keys[row]);
                    }
                };
                match mask {
                    Some(mask) => basalt_kernels::mask::for_each(mask, insert),
                    None => (0..keys.len()).for_each(insert),
                }
            }
        }
    }

    /// Adds a key.
    pub(super) fn insert(&mut self, key: i64) {
        match self {
            Self::Bits { first, words } => set(words, *first, key),
            Self::Hash(set) => {
                set.insert(key);
            }
        }
    }

    /// Adds the keys of another set, each translated.
    pub(super) fn unite(&mut self, other: &Self, translate: Option<&dyn Fn(i64) -> i64>) {
        match (&mut *self, other, translate) {
            (Self::Bits { first, words }, Self::Bits { first: from, words: others }, None) => {
                let at = index(from.wrapping_sub(*first).cast_unsigned() / 64);
                basalt_kernels::mask::or(&mut words[at..at + others.len()], others);
            }
            (_, other, Some(translate)) => other.for_each(|key| self.insert(translate(key))),
            (_, other, None) => other.for_each(|key| self.insert(key)),
        }
    }

    /// Calls `each` with every key.
    pub(super) fn for_each(&self, mut each: impl FnMut(i64)) {
        match self {
            Self::Bits { first, words } => {
                basalt_kernels::mask::for_each(words, |place| {
                    each(first.wrapping_add_unsigned(place as u64))
                });
            }
            Self::Hash(set) => set.iter().for_each(|key| each(*key)),
        }
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Bits { words, .. } => basalt_kernels::mask::count_ones(words),
            Self::Hash(set) => set.len() as u64,
        }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Bits { words, .. } => size_of_val(words.as_slice()),
            Self::Hash(set) => set.allocation_size(),
        }
    }
}

/// Marks a key, which is in the bitmap's range.
#[inline]
fn set(words: &mut [u64], first: i64, key: i64) {
    let place = key.wrapping_sub(first).cast_unsigned();
    words[index(place / 64)] |= 1 << (place % 64);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(set: &Distinct) -> Vec<i64> {
        let mut keys = Vec::new();
        set.for_each(|key| keys.push(key));
        keys.sort_unstable();
        keys
    }

    #[test]
    fn bitmaps_and_tables_agree() {
        for range in [Some((-100, 300)), Some((i64::MIN, i64::MAX)), None] {
            let mut set = Distinct::of_range(range, 16);
            assert_eq!(matches!(set, Distinct::Bits { .. }), range == Some((-100, 300)));
            set.extend(&[5, -100, 300, 5, 7], Some(&[0b1_1111]));
            set.extend(&[6, 8], Some(&[0b10]));
            assert_eq!(keys(&set), [-100, 5, 7, 8, 300]);
            assert_eq!(set.len(), 5);
        }
    }

    #[test]
    fn unions() {
        let mut all = Distinct::of_range(Some((-1000, 1000)), 64);
        let mut some = Distinct::of_range(Some((-70, 70)), 64);
        some.extend(&[-70, 70], None);
        all.unite(&some, None);
        let mut others = Distinct::default();
        others.extend(&[1000, 70], None);
        all.unite(&others, None);
        assert_eq!(keys(&all), [-70, 70, 1000]);
        all.unite(&some, Some(&|key| key + 1));
        assert_eq!(keys(&all), [-70, -69, 70, 71, 1000]);
    }
}
