//! Tests of keys and texts, and how a dictionary turns one into a test of its codes.

use std::{
    ops::{Bound, Range},
    sync::Arc,
};

use arrow_array::{Array, StringArray};

use super::{KeyTest, TextTest};

impl KeyTest {
    /// The test that no key passes.
    pub const NONE: Self = Self::Range { lo: 0, hi: -1 };

    /// Whether `key` passes.
    pub fn passes(&self, key: i64) -> bool {
        match self {
            Self::Range { lo, hi } => (*lo..=*hi).contains(&key),
            Self::In(list) => list.binary_search(&key).is_ok(),
        }
    }

    /// The test of codes that is this test of the entries, which are sorted and distinct.
    #[must_use]
    pub fn over(&self, entries: &[i64]) -> Self {
        match self {
            Self::Range { lo, hi } => {
                code_range(entries.partition_point(|key| key < lo)..entries.partition_point(|key| key <= hi))
            }
            Self::In(list) => code_set(list.iter().filter_map(|key| entries.binary_search(key).ok())),
        }
    }
}

impl TextTest {
    /// Whether `text` passes.
    pub fn passes(&self, text: &str) -> bool {
        match self {
            Self::Range { lo, hi } => above(lo, text) && below(hi, text),
            Self::In(list) => list.binary_search_by(|entry| entry.as_str().cmp(text)).is_ok(),
            Self::Like(pattern) => pattern.matches(text),
        }
    }

    /// The test of codes that is this test of the entries, which are sorted and distinct.
    #[must_use]
    pub fn over(&self, entries: &StringArray) -> KeyTest {
        match self {
            Self::Range { lo, hi } => {
                let from = partition_point(entries, |text| !above(lo, text));
                code_range(from..partition_point(entries, |text| below(hi, text)))
            }
            Self::In(list) => code_set(list.iter().filter_map(|text| {
                let code = partition_point(entries, |entry| entry < text.as_str());
                (code < entries.len() && entries.value(code) == text).then_some(code)
            })),
            Self::Like(pattern) => {
                let (prefix, whole) = pattern.prefix();
                let from = partition_point(entries, |text| text < prefix.as_str());
                let to = partition_point(entries, |text| text < prefix.as_str() || text.starts_with(&prefix));
                if whole {
                    return code_range(from..to);
                }
                code_set((from..to).filter(|&code| pattern.matches(entries.value(code))))
            }
        }
    }
}

fn above(lo: &Bound<String>, text: &str) -> bool {
    match lo {
        Bound::Included(lo) => text >= lo.as_str(),
        Bound::Excluded(lo) => text > lo.as_str(),
        Bound::Unbounded => true,
    }
}

fn below(hi: &Bound<String>, text: &str) -> bool {
    match hi {
        Bound::Included(hi) => text <= hi.as_str(),
        Bound::Excluded(hi) => text < hi.as_str(),
        Bound::Unbounded => true,
    }
}

/// The number of entries at the front for which `before` holds.
fn partition_point(entries: &StringArray, before: impl Fn(&str) -> bool) -> usize {
    let (mut from, mut to) = (0, entries.len());
    while from < to {
        let middle = usize::midpoint(from, to);
        if before(entries.value(middle)) { from = middle + 1 } else { to = middle }
    }
    from
}

fn key(code: usize) -> i64 {
    i64::try_from(code).unwrap_or(i64::MAX)
}

fn code_range(codes: Range<usize>) -> KeyTest {
    if codes.is_empty() {
        return KeyTest::NONE;
    }
    KeyTest::Range { lo: key(codes.start), hi: key(codes.end) - 1 }
}

/// A list of ascending codes; a range where there is no gap.
fn code_set(codes: impl Iterator<Item = usize>) -> KeyTest {
    let codes: Arc<[i64]> = codes.map(key).collect();
    match &*codes {
        [] => KeyTest::NONE,
        [lo, .., hi] | [lo @ hi] if hi - lo == key(codes.len()) - 1 => KeyTest::Range { lo: *lo, hi: *hi },
        _ => KeyTest::In(codes),
    }
}

/// A sorted list of keys, prepared for many look-ups.
pub(super) enum Members<'a> {
    /// A bit for each key from the first to the last.
    Bits { first: i64, bits: Vec<u64> },
    /// Too wide for that.
    Sorted(&'a [i64]),
}

/// Lists that span at most this many keys are looked up in a bitmap, of 64 KiB at most.
const BITMAP_SPAN: u64 = 1 << 19;

impl<'a> Members<'a> {
    pub(super) fn new(list: &'a [i64]) -> Self {
        let (Some(&first), Some(&last)) = (list.first(), list.last()) else { return Self::Sorted(list) };
        let place = |key: i64| super::bytes::index(key.wrapping_sub(first).cast_unsigned());
        if last.wrapping_sub(first).cast_unsigned() >= BITMAP_SPAN {
            return Self::Sorted(list);
        }
        let mut bits = vec![0; place(last) / 64 + 1];
        for &key in list {
            super::mask::set(&mut bits, place(key), true);
        }
        Self::Bits { first, bits }
    }

    pub(super) fn contains(&self, key: i64) -> bool {
        match self {
            Self::Bits { first, bits } => {
                let place = key.wrapping_sub(*first).cast_unsigned();
                let word = bits.get(super::bytes::index(place / 64)).copied().unwrap_or(0);
                word >> (place % 64) & 1 == 1
            }
            Self::Sorted(list) => list.binary_search(&key).is_ok(),
        }
    }
}
