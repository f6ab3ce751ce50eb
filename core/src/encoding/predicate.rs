//! Tests of keys and texts, and how a dictionary turns one into a test of its codes.

use std::{
    ops::{Bound, Range},
    sync::Arc,
};

use basalt_sip::Sip;

use super::{
    bytes::count,
    id_keys::{IdKeys, TOP},
    member_form::{FEW, Form, write_mask},
    members::Members,
    text_members::TextMembers,
};

/// Parts of a larger set become sets of their own when they span at most this many keys, 64 KiB of bits, ...
const PART_SPAN: u64 = 1 << 19;
/// ... or are at most this many keys, which the cache holds as the whole set it does not.
const PART_KEYS: usize = 1 << 13;

/// What a filter asks of keys. Negation is the caller's: it knows the nulls.
#[derive(Clone, Debug)]
pub enum KeyTest {
    /// `lo <= key <= hi`; empty when `lo > hi`.
    Range {
        /// The smallest key that passes.
        lo: i64,
        /// The largest key that passes.
        hi: i64,
    },
    /// Keys of a set.
    In(Arc<Members>),
}

/// What a filter asks of texts.
#[derive(Clone, Debug)]
pub enum TextTest {
    /// `lo <= text <= hi` in byte order, each bound inclusive, exclusive or absent.
    Range {
        /// The lower bound.
        lo: Bound<String>,
        /// The upper bound.
        hi: Bound<String>,
    },
    /// Texts of a set.
    In(Arc<TextMembers>),
    /// SQL LIKE.
    Like(Arc<crate::like::Pattern>),
}

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

    /// The test of the keys that are ids in a SIP; a range where there is no gap.
    pub fn of_sip(sip: &Arc<Sip>, ids: IdKeys) -> Self {
        if let (Some(first), Some(last)) = (sip.first(), sip.last())
            && last - first == sip.cardinality() - 1
        {
            let last = if ids.half { last.min(TOP - 1) } else { last };
            match (ids.key(first), ids.key(last)) {
                (None, _) => return Self::NONE,
                // Not so where the ids go over from the greatest key to the least.
                (Some(lo), Some(hi)) if lo <= hi => return Self::Range { lo, hi },
                _ => {}
            }
        }
        Self::In(Arc::new(Members::of_sip(Arc::clone(sip), ids)))
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

impl Members {
    /// This set as a test of keys from `min` to `max` alone, where that is less work; keys without a gap
    /// are a range.
    pub fn within(&self, min: i64, max: i64) -> Option<KeyTest> {
        match self.form()? {
            Form::Bits { .. } => None,
            Form::Sorted { keys, .. } => {
                let part = &keys[keys.partition_point(|&key| key < min)..];
                let part = &part[..part.partition_point(|&key| key <= max)];
                let (Some(first), Some(last)) = (part.first(), part.last()) else {
                    return Some(KeyTest::NONE);
                };
                let is_dense = last.wrapping_sub(*first).cast_unsigned() < PART_SPAN;
                let is_small = part.len() <= PART_KEYS && keys.len() > 2 * PART_KEYS;
                let is_few = part.len() <= FEW;
                (part.len() < keys.len() && (is_dense || is_small || is_few))
                    .then(|| KeyTest::of(part.to_vec()))
            }
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
}

pub(super) fn above(lo: &Bound<String>, text: &str) -> bool {
    match lo {
        Bound::Included(lo) => text >= lo.as_str(),
        Bound::Excluded(lo) => text > lo.as_str(),
        Bound::Unbounded => true,
    }
}

pub(super) fn below(hi: &Bound<String>, text: &str) -> bool {
    match hi {
        Bound::Included(hi) => text <= hi.as_str(),
        Bound::Excluded(hi) => text < hi.as_str(),
        Bound::Unbounded => true,
    }
}

fn key(code: usize) -> i64 {
    i64::from(count(code))
}

pub(super) fn code_range(codes: Range<usize>) -> KeyTest {
    if codes.is_empty() {
        return KeyTest::NONE;
    }
    KeyTest::Range { lo: key(codes.start), hi: key(codes.end) - 1 }
}

/// The test of ascending codes.
pub(super) fn code_set(codes: impl Iterator<Item = usize>) -> KeyTest {
    KeyTest::of(codes.map(key).collect())
}
