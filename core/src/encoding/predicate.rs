//! Tests of keys and texts, and how a dictionary turns one into a test of its codes.

use std::{
    ops::{Bound, Range},
    sync::Arc,
};

use super::{
    KeyTest, Members, TextColumn, TextTest, UNIT_ROWS,
    bytes::count,
    members::{Form, write_mask},
};
use crate::mask::selects;

impl KeyTest {
    /// The test that no key passes.
    pub const NONE: Self = Self::Range { lo: 0, hi: -1 };

    /// The test of sorted distinct keys; a range where there is no gap.
    pub fn of(keys: Vec<i64>) -> Self {
        debug_assert!(keys.is_sorted_by(|a, b| a < b), "keys of a set are sorted and distinct");
        match keys.as_slice() {
            [] => Self::NONE,
            [lo, .., hi] | [lo @ hi] if lo.abs_diff(*hi) == keys.len() as u64 - 1 => {
                Self::Range { lo: *lo, hi: *hi }
            }
            _ => Self::In(Arc::new(Members::new(keys))),
        }
    }

    /// Whether `key` passes.
    pub fn passes(&self, key: i64) -> bool {
        match self {
            Self::Range { lo, hi } => (*lo..=*hi).contains(&key),
            Self::In(members) => members.contains(key),
        }
    }

    /// Writes the mask of the keys that pass.
    pub fn test(&self, keys: &[i64], out: &mut [u64]) {
        match self {
            Self::Range { lo, hi } => basalt_kernels::between(keys, *lo, *hi, out),
            Self::In(members) => match members.form() {
                Some(form) => form.test(keys, out),
                None => write_mask(keys, out, |key| members.contains(key)),
            },
        }
    }

    /// The test of codes that is this test of the entries, which are sorted and distinct.
    #[must_use]
    pub fn over(&self, entries: &[i64]) -> Self {
        match self {
            Self::Range { lo, hi } => {
                code_range(entries.partition_point(|key| key < lo)..entries.partition_point(|key| key <= hi))
            }
            Self::In(members) => match members.form() {
                Some(Form::Sorted { keys, .. }) if keys.len() < entries.len() / 8 => {
                    code_set(keys.iter().filter_map(|key| entries.binary_search(key).ok()))
                }
                _ => code_set((0..entries.len()).filter(|&code| members.contains(entries[code]))),
            },
        }
    }
}

impl TextTest {
    /// Whether `text` passes.
    pub fn passes(&self, text: &str) -> bool {
        match self {
            Self::Range { lo, hi } => above(lo, text) && below(hi, text),
            Self::In(members) => members.contains(text),
            Self::Like(pattern) => pattern.matches(text),
        }
    }

    /// Whether a text that begins with some bytes may pass.
    pub(super) fn may_begin(&self, first: &[u8]) -> bool {
        let agrees = |text: &str| {
            let length = first.len().min(text.len());
            first[..length] == text.as_bytes()[..length]
        };
        match self {
            Self::Range { lo, hi } => {
                let from_lo = match lo {
                    Bound::Included(lo) | Bound::Excluded(lo) => first >= lo.as_bytes() || agrees(lo),
                    Bound::Unbounded => true,
                };
                from_lo
                    && if let Bound::Included(hi) | Bound::Excluded(hi) = hi {
                        first <= hi.as_bytes()
                    } else {
                        true
                    }
            }
            Self::In(members) => {
                let texts = members.texts();
                let next = texts.partition_point(|text| text.as_bytes() < first);
                texts.get(next).is_some_and(|text| text.as_bytes().starts_with(first))
            }
            Self::Like(pattern) => agrees(&pattern.prefix().0),
        }
    }

    /// The test of codes that is this test of the entries, which are sorted and distinct.
    #[must_use]
    pub fn over(&self, entries: &dyn TextColumn) -> KeyTest {
        let all = 0..entries.rows();
        match self {
            Self::Range { lo, hi } => {
                let from = partition_point(entries, |text| !above(lo, text));
                code_range(from..partition_point(entries, |text| below(hi, text)))
            }
            Self::In(members) if members.texts().len() < entries.rows() / 8 => {
                code_set(members.texts().iter().filter_map(|text| {
                    let code = partition_point(entries, |entry| entry < &**text);
                    (code < all.end && *entries.get(code) == **text).then_some(code)
                }))
            }
            Self::In(_) => self.among(entries, all),
            Self::Like(pattern) => {
                let (prefix, whole) = pattern.prefix();
                let from = partition_point(entries, |text| text < prefix.as_str());
                let to = partition_point(entries, |text| text < prefix.as_str() || text.starts_with(&prefix));
                if whole { code_range(from..to) } else { self.among(entries, from..to) }
            }
        }
    }

    /// The test of codes that is this test of some entries.
    fn among(&self, entries: &dyn TextColumn, codes: Range<usize>) -> KeyTest {
        if codes.is_empty() {
            return KeyTest::NONE;
        }
        let start = codes.start / UNIT_ROWS * UNIT_ROWS;
        let rows = codes.end - start;
        let mut passed = vec![0; rows.div_ceil(64)];
        entries.filter(start, rows, self, None, &mut passed);
        code_set(
            (codes.start - start..rows).filter(|&row| selects(Some(&passed), row)).map(|row| start + row),
        )
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
fn partition_point(entries: &dyn TextColumn, before: impl Fn(&str) -> bool) -> usize {
    let (mut from, mut to) = (0, entries.rows());
    while from < to {
        let middle = usize::midpoint(from, to);
        if before(&entries.get(middle)) { from = middle + 1 } else { to = middle }
    }
    from
}

fn key(code: usize) -> i64 {
    i64::from(count(code))
}

fn code_range(codes: Range<usize>) -> KeyTest {
    if codes.is_empty() {
        return KeyTest::NONE;
    }
    KeyTest::Range { lo: key(codes.start), hi: key(codes.end) - 1 }
}

/// The test of ascending codes.
fn code_set(codes: impl Iterator<Item = usize>) -> KeyTest {
    KeyTest::of(codes.map(key).collect())
}
