//! Sets of keys and of texts, prepared for many look-ups.

use std::{
    hash::BuildHasher,
    sync::{Arc, OnceLock},
};

use basalt_sip::Sip;
use hashbrown::{DefaultHashBuilder, HashSet, HashTable};

use super::{KeyTest, bytes::index, mask};
use crate::error::Result;

/// The keys that the ids of a SIP are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdKeys {
    /// The column holds uint64, whose keys have the top bit flipped.
    pub flipped: bool,
    /// Ids from 2^63 on are no keys: negative values beside a uint64, or too large ones beside a signed type.
    pub half: bool,
}

const TOP: u64 = 1 << 63;

impl IdKeys {
    /// The key of an id.
    pub fn key(self, id: u64) -> Option<i64> {
        (!self.half || id < TOP).then_some((if self.flipped { id ^ TOP } else { id }).cast_signed())
    }

    /// The id of a key.
    pub fn id(self, key: i64) -> Option<u64> {
        let id = if self.flipped { key.cast_unsigned() ^ TOP } else { key.cast_unsigned() };
        (!self.half || id < TOP).then_some(id)
    }
}

/// A set of keys.
///
/// What came as a SIP is looked up there until [`prepare`](Self::prepare) has made a form that is faster.
#[derive(Debug)]
pub struct Members {
    ids: Option<(Arc<Sip>, IdKeys)>,
    form: OnceLock<Form>,
}

/// A set in the form in which it is looked up.
#[derive(Debug)]
pub(super) enum Form {
    /// A bit for each key from `first` on.
    Bits { first: i64, words: Vec<u64> },
    /// Sorted, and hashed when they are more than a few.
    Sorted { keys: Vec<i64>, table: HashSet<i64> },
}

/// Sets up to this size are compared with key by key.
pub(super) const FEW_KEYS: usize = 4;
/// Sets up to this size are searched, larger ones hashed.
const FEW: usize = 16;
/// A set becomes a bitmap when it spans at most this many keys, 1 MiB of bits, ...
const BITMAP_SPAN: u64 = 1 << 23;
/// ... or at most this many for each of its own, 8 bytes of bits.
const BITS_OF_KEY: u64 = 64;
/// Parts of a larger set become sets of their own when they span at most this many keys, 64 KiB of bits.
const PART_SPAN: u64 = 1 << 19;

impl Members {
    /// The set of sorted distinct keys.
    pub fn new(keys: Vec<i64>) -> Self {
        Self { ids: None, form: OnceLock::from(Form::new(keys)) }
    }

    /// The set of the keys that are ids in a SIP.
    pub fn of_sip(sip: Arc<Sip>, ids: IdKeys) -> Self {
        Self { ids: Some((sip, ids)), form: OnceLock::new() }
    }

    /// Finds the fastest form for look-ups of keys from `min` to `max`: all others may be left out. `hold` is told
    /// the bytes that it takes so far, and may stop the work.
    ///
    /// # Errors
    /// Those of `hold`.
    pub fn prepare(&self, (min, max): (i64, i64), hold: &mut dyn FnMut(usize) -> Result<()>) -> Result<()> {
        let (Some((sip, ids)), None) = (&self.ids, self.form.get()) else { return Ok(()) };
        let listed = index(sip.cardinality()).saturating_mul(8);
        hold(listed)?;
        let mut keys: Vec<i64> =
            sip.iter().filter_map(|id| ids.key(id)).filter(|key| (min..=max).contains(key)).collect();
        // Ids are in the order of unsigned integers, where negative ones come last.
        let negative = keys.partition_point(|key| ids.flipped || *key >= 0);
        keys.rotate_left(negative);
        let form = Form::new(keys);
        hold(form.bytes())?;
        let _ = self.form.set(form);
        Ok(())
    }

    /// Whether `key` is in the set.
    pub fn contains(&self, key: i64) -> bool {
        match (self.form.get(), &self.ids) {
            (Some(form), _) => form.contains(key),
            (None, Some((sip, ids))) => ids.id(key).is_some_and(|id| sip.contains(id)),
            (None, None) => false,
        }
    }

    /// The form, once there is one.
    pub(super) fn form(&self) -> Option<&Form> {
        self.form.get()
    }

    /// This set as a test of keys from `min` to `max` alone, where that is less work; keys without a gap
    /// are a range.
    pub fn within(&self, min: i64, max: i64) -> Option<KeyTest> {
        match self.form.get()? {
            Form::Bits { .. } => None,
            Form::Sorted { keys, .. } => {
                let part = &keys[keys.partition_point(|&key| key < min)..];
                let part = &part[..part.partition_point(|&key| key <= max)];
                let (Some(first), Some(last)) = (part.first(), part.last()) else {
                    return Some(KeyTest::NONE);
                };
                (part.len() < keys.len() && last.wrapping_sub(*first).cast_unsigned() < PART_SPAN)
                    .then(|| KeyTest::of(part.to_vec()))
            }
        }
    }

    /// Whether none, or all, of the keys from `min` to `max` are members, where that is known.
    pub fn among(&self, min: i64, max: i64) -> (bool, bool) {
        match self.form.get() {
            None => (false, false),
            Some(Form::Sorted { keys, .. }) => {
                let from = keys.partition_point(|&key| key < min);
                let n = keys[from..].partition_point(|&key| key <= max) as u64;
                (n == 0, n != 0 && n - 1 == max.wrapping_sub(min).cast_unsigned())
            }
            Some(Form::Bits { first, words }) => {
                let last = first.saturating_add_unsigned(64 * words.len() as u64 - 1);
                if max < *first || min > last {
                    return (true, false);
                }
                let inside = *first <= min && max <= last;
                let place = |key: i64| index(key.clamp(*first, last).wrapping_sub(*first).cast_unsigned());
                let (from, to) = (place(min), place(max));
                (!mask::any(words, from, to, false), inside && !mask::any(words, from, to, true))
            }
        }
    }
}

impl Form {
    fn new(keys: Vec<i64>) -> Self {
        let (first, last) = match keys.as_slice() {
            [first, .., last] if keys.len() > FEW_KEYS => (*first, *last),
            _ => return Self::Sorted { keys, table: HashSet::new() },
        };
        let place = |key: i64| index(key.wrapping_sub(first).cast_unsigned());
        let widest = BITMAP_SPAN.max(BITS_OF_KEY.saturating_mul(keys.len() as u64));
        if last.wrapping_sub(first).cast_unsigned() < widest {
            let mut words = vec![0; place(last) / 64 + 1];
            keys.iter().for_each(|&key| mask::set(&mut words, place(key), true));
            return Self::Bits { first, words };
        }
        let table = if keys.len() > FEW { keys.iter().copied().collect() } else { HashSet::new() };
        Self::Sorted { keys, table }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Bits { words, .. } => 8 * words.len(),
            Self::Sorted { keys, table } => 8 * keys.len() + table.allocation_size(),
        }
    }

    fn contains(&self, key: i64) -> bool {
        match self {
            Self::Bits { first, words } => in_bits(*first, words, key),
            Self::Sorted { keys, table } if table.is_empty() => keys.binary_search(&key).is_ok(),
            Self::Sorted { table, .. } => table.contains(&key),
        }
    }
}

/// Whether the bit of `key` is set.
#[inline]
pub(super) fn in_bits(first: i64, words: &[u64], key: i64) -> bool {
    let place = key.wrapping_sub(first).cast_unsigned();
    words.get(index(place / 64)).is_some_and(|word| word >> (place % 64) & 1 == 1)
}

/// A set of texts.
#[derive(Clone, Debug)]
pub struct TextMembers {
    /// Sorted and distinct.
    texts: Box<[Box<str>]>,
    /// The places of the texts, when they are more than a few.
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl FromIterator<Box<str>> for TextMembers {
    fn from_iter<I: IntoIterator<Item = Box<str>>>(texts: I) -> Self {
        let mut texts: Vec<Box<str>> = texts.into_iter().collect();
        texts.sort_unstable();
        texts.dedup();
        let hasher = DefaultHashBuilder::default();
        let mut table = HashTable::new();
        if texts.len() > FEW {
            let hash = |place: &u32| hasher.hash_one(&*texts[*place as usize]);
            table.reserve(texts.len(), hash);
            for place in 0..super::bytes::count(texts.len()) {
                table.insert_unique(hash(&place), place, hash);
            }
        }
        Self { texts: texts.into(), table, hasher }
    }
}

impl TextMembers {
    /// The texts, sorted and distinct.
    pub fn texts(&self) -> &[Box<str>] {
        &self.texts
    }

    /// Whether `text` is in the set.
    pub fn contains(&self, text: &str) -> bool {
        if self.table.is_empty() {
            return self.texts.binary_search_by(|member| (**member).cmp(text)).is_ok();
        }
        self.table.find(self.hasher.hash_one(text), |place| &*self.texts[*place as usize] == text).is_some()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let texts: usize = self.texts.iter().map(|text| text.len()).sum();
        texts + size_of_val(&*self.texts) + self.table.allocation_size()
    }
}

impl PartialEq for TextMembers {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}
