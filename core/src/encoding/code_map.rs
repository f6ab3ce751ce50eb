//! From keys to their places in a sorted list of distinct keys.

use hashbrown::HashMap;

use super::bytes::{count, index};
use crate::{invariant::Invariant, keys::Native};

/// Entries that span at most this many keys are found in an array.
const DENSE_SPAN: u64 = 1 << 18;
/// The code of a key between entries.
const NO_ENTRY: u32 = u32::MAX;
/// What callers see to.
const IS_ENTRY: &str = "a key that is turned into a code is an entry";

/// How codes of so many entries lie in a plain array.
pub(super) fn code_type(entries: usize) -> Native {
    match entries {
        0..=0x100 => Native::U8,
        0x101..=0x1_0000 => Native::U16,
        _ => Native::U32,
    }
}

/// The code of each entry.
pub(crate) enum CodeMap {
    /// Entries that follow each other without gaps.
    Range {
        first: i64,
        entries: u64,
    },
    Dense {
        first: i64,
        codes: Vec<u32>,
    },
    Hash(HashMap<i64, u32>),
}

impl CodeMap {
    /// The codes of `entries`, which are sorted and distinct.
    pub(crate) fn new(entries: &[i64]) -> Self {
        debug_assert!(entries.is_sorted_by(|a, b| a < b), "entries are sorted and distinct");
        let (Some(&first), Some(&last)) = (entries.first(), entries.last()) else {
            return Self::Hash(HashMap::new());
        };
        let place = |key: i64| key.wrapping_sub(first).cast_unsigned();
        if place(last) == entries.len() as u64 - 1 {
            return Self::Range { first, entries: entries.len() as u64 };
        }
        if place(last) >= DENSE_SPAN {
            return Self::Hash(entries.iter().copied().zip(0..).collect());
        }
        let mut codes = vec![NO_ENTRY; index(place(last)) + 1];
        for (i, &key) in entries.iter().enumerate() {
            codes[index(place(key))] = count(i);
        }
        Self::Dense { first, codes }
    }

    /// The code of each key, all of which are entries, made into `T`.
    pub(crate) fn codes<T>(&self, keys: &[i64], code: impl Fn(u32) -> T) -> Vec<T> {
        match self {
            Self::Range { first, entries } => {
                // Nothing but the greatest is compared with the entries, so that the loop is one of vectors.
                let codes = || keys.iter().map(|key| key.wrapping_sub(*first).cast_unsigned());
                assert!(codes().max().is_none_or(|most| most < *entries), "{IS_ENTRY}");
                codes().map(|place| code(low_u32(place))).collect()
            }
            Self::Dense { first, codes } => {
                let place = |key: i64| index(key.wrapping_sub(*first).cast_unsigned());
                let codes = keys.iter().map(|&key| codes[place(key)]);
                codes.inspect(|&code| assert!(code != NO_ENTRY, "{IS_ENTRY}")).map(code).collect()
            }
            Self::Hash(codes) => {
                keys.iter().map(|key| code(codes.get(key).copied().invariant(IS_ENTRY))).collect()
            }
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "below the number of entries")]
fn low_u32(place: u64) -> u32 {
    place as u32
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_key_that_is_no_entry_has_no_code() {
        for entries in [vec![3, 4, 5], vec![3, 5, 9], vec![3, 5, 1 << 40], vec![3], vec![]] {
            let map = CodeMap::new(&entries);
            let codes = |keys: &[i64]| map.codes(keys, |code| code);
            assert!(codes(&entries).into_iter().eq((0..).take(entries.len())));
            for key in [i64::MIN, 2, 8, 6, 10, i64::MAX] {
                assert!(catch_unwind(AssertUnwindSafe(|| codes(&[key]))).is_err(), "{key} among {entries:?}");
            }
        }
    }
}
