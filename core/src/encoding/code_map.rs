//! From keys to their places in a sorted list of distinct keys.

use hashbrown::HashMap;

use super::bytes::{count, index};

/// Entries that span at most this many keys are found in an array.
const DENSE_SPAN: u64 = 1 << 18;

/// The code of each entry.
pub(crate) enum CodeMap {
    Dense { first: i64, codes: Vec<u32> },
    Hash(HashMap<i64, u32>),
}

impl CodeMap {
    /// The codes of `entries`, which are sorted and distinct.
    pub(crate) fn new(entries: &[i64]) -> Self {
        let (first, last) = (entries.first().copied().unwrap_or(0), entries.last().copied().unwrap_or(0));
        let place = |key: i64| key.wrapping_sub(first).cast_unsigned();
        if place(last) >= DENSE_SPAN {
            return Self::Hash(entries.iter().copied().zip(0..).collect());
        }
        let mut codes = vec![0; index(place(last)) + 1];
        for (i, &key) in entries.iter().enumerate() {
            codes[index(place(key))] = count(i);
        }
        Self::Dense { first, codes }
    }

    /// The code of each key, all of which are entries, made into `T`.
    pub(crate) fn codes<T>(&self, keys: &[i64], code: impl Fn(u32) -> T) -> Vec<T> {
        match self {
            Self::Dense { first, codes } => {
                let place = |key: i64| index(key.wrapping_sub(*first).cast_unsigned());
                keys.iter().map(|&key| code(codes[place(key)])).collect()
            }
            Self::Hash(codes) => keys.iter().map(|key| code(codes.get(key).copied().unwrap_or(0))).collect(),
        }
    }
}
