//! Sets of keys, prepared for many look-ups.

use std::{
    ops::RangeInclusive,
    sync::{Arc, OnceLock},
};

use super::{bytes::index, key_table::KeyTable, mask};
use crate::{
    error::Result,
    invariant::{Invariant, broken},
    limits::BLOCK_ROWS,
};
use basalt_sip::{BLOCK_IDS, BLOCK_WORDS, BlockMask, Sip};

/// The keys that the ids of a SIP are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdKeys {
    /// The column holds uint64, whose keys have the top bit flipped.
    pub flipped: bool,
    /// Ids from 2^63 on are no keys: negative values beside a uint64, or too large ones beside a signed type.
    pub half: bool,
}

pub(super) const TOP: u64 = 1 << 63;

impl IdKeys {
    /// The key of an id.
    pub fn key(self, id: u64) -> Option<i64> {
        (!self.half || id < TOP).then_some((if self.flipped { id ^ TOP } else { id }).cast_signed())
    }

    /// The keys from `min` to `max` as ids, the negative ones and the others: within each, ids and keys have one
    /// order.
    fn halves(self, min: i64, max: i64) -> impl Iterator<Item = RangeInclusive<u64>> {
        let halves = [(min, max.min(-1)), (min.max(0), max)].into_iter().filter(|(lo, hi)| lo <= hi);
        halves.filter_map(move |(lo, hi)| Some(self.id(lo)?..=self.id(hi)?))
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
    Sorted { keys: Vec<i64>, table: Option<KeyTable> },
}

/// Sets up to this size are compared with key by key.
pub(super) const FEW_KEYS: usize = 4;
/// Sets up to this size are searched, larger ones hashed.
pub(super) const FEW: usize = 16;
/// A set becomes a bitmap when it spans at most this many keys, 1 MiB of bits, ...
const BITMAP_SPAN: u64 = 1 << 23;
/// ... or at most this many for each of its own, 8 bytes of bits.
const BITS_OF_KEY: u64 = 64;
/// Ids of a SIP that are read one after the other in the time of one that is searched, about.
const SEARCH_COST: u64 = 64;
/// Bytes of a list with its table for each byte of the list, at most.
const TABLE_COST: usize = 4;
/// Words of a bitmap that tell how many keys there are, about.
const SAMPLE_WORDS: usize = 64;
/// A form takes at most 1 MiB, ...
const FORM_BYTES: usize = 1 << 20;
/// ... or so many bytes for each row that is looked up: more would take longer to make than look-ups in the SIP.
const FORM_BYTES_OF_ROW: usize = 128;
impl Members {
    /// The set of sorted distinct keys.
    pub fn new(keys: Vec<i64>) -> Self {
        Self { ids: None, form: OnceLock::from(Form::new(keys)) }
    }

    /// The set of the keys that are ids in a SIP.
    pub fn of_sip(sip: Arc<Sip>, ids: IdKeys) -> Self {
        Self { ids: Some((sip, ids)), form: OnceLock::new() }
    }

    /// Finds the fastest form for look-ups of the keys of `rows` rows, from `min` to `max`: all others may be left
    /// out. There is none for few rows beside many keys, which a SIP can stand for in a few bytes. `hold` is
    /// called again and again with the bytes that the form takes, and its error ends the preparation.
    ///
    /// # Errors
    /// Those of `hold`.
    pub fn prepare(
        &self,
        rows: u64,
        (min, max): (i64, i64),
        hold: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        if let (Some((sip, ids)), None) = (&self.ids, self.form.get()) {
            let most = index(rows).saturating_mul(FORM_BYTES_OF_ROW).max(FORM_BYTES);
            if let Some(form) = Form::of_sip(sip, *ids, (min, max), most, hold)? {
                hold(form.bytes())?;
                let _ = self.form.set(form);
            }
        }
        Ok(())
    }

    /// Whether `key` is in the set.
    pub fn contains(&self, key: i64) -> bool {
        match self.form.get() {
            Some(form) => form.contains(key),
            None => {
                let (sip, ids) = self.ids();
                ids.id(key).is_some_and(|id| sip.contains(id))
            }
        }
    }

    /// The ids of a set that has no form.
    fn ids(&self) -> &(Arc<Sip>, IdKeys) {
        self.ids.as_ref().invariant("a set without a form is ids of a SIP")
    }

    /// Bytes of the form, once there is one.
    pub fn bytes(&self) -> usize {
        // Default: what is a SIP yet holds no bytes of its own.
        self.form.get().map_or(0, Form::bytes)
    }

    /// The form, once there is one.
    pub(super) fn form(&self) -> Option<&Form> {
        self.form.get()
    }

    /// How many keys from `min` to `max` are members, about.
    pub fn count(&self, min: i64, max: i64) -> u64 {
        match self.form.get() {
            None => {
                let (sip, ids) = self.ids();
                ids.halves(min, max).map(|ids| count(sip, &ids)).sum()
            }
            Some(Form::Sorted { keys, .. }) => {
                let from = keys.partition_point(|&key| key < min);
                keys[from..].partition_point(|&key| key <= max) as u64
            }
            Some(Form::Bits { first, words }) => {
                let last = first.saturating_add_unsigned(64 * words.len() as u64 - 1);
                if max < *first || min > last {
                    return 0;
                }
                let word =
                    |key: i64| index(key.clamp(*first, last).wrapping_sub(*first).cast_unsigned() / 64);
                let words = &words[word(min)..=word(max)];
                let step = words.len().div_ceil(SAMPLE_WORDS);
                let sample: u64 = words.iter().step_by(step).map(|word| u64::from(word.count_ones())).sum();
                sample * step as u64
            }
        }
    }

    /// Whether none, or all, of the keys from `min` to `max` are members, where that is known.
    pub fn among(&self, min: i64, max: i64) -> (bool, bool) {
        match self.form.get() {
            None => {
                let (sip, ids) = self.ids();
                let n: u64 = ids.halves(min, max).map(|ids| count(sip, &ids)).sum();
                (n == 0, n != 0 && n - 1 == max.wrapping_sub(min).cast_unsigned())
            }
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

/// How many of the ids are in the set.
fn count(sip: &Sip, ids: &RangeInclusive<u64>) -> u64 {
    // Default: nothing comes before the first id.
    let before = ids.start().checked_sub(1).map_or(0, |before| sip.rank(before));
    sip.rank(*ids.end()) - before
}

impl Form {
    /// The form of the keys from `min` to `max` that are ids in a SIP, unless it takes more than `most` bytes.
    fn of_sip(
        sip: &Sip,
        ids: IdKeys,
        (min, max): (i64, i64),
        most: usize,
        hold: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Option<Self>> {
        let halves = || ids.halves(min, max);
        let n: u64 = halves().map(|ids| count(sip, &ids)).sum();
        let first = halves().find_map(|ids| sip.next_at_or_after(*ids.start()).filter(|id| ids.contains(id)));
        let last = halves().last().zip(sip.last()).map(|(ids, last)| last.clamp(*ids.start(), *ids.end()));
        let (first, last) = (first.and_then(|id| ids.key(id)), last.and_then(|id| ids.key(id)));
        if let (Some(first), Some(last)) = (first, last)
            && n > FEW_KEYS as u64
            && last.wrapping_sub(first).cast_unsigned() < BITMAP_SPAN.max(BITS_OF_KEY.saturating_mul(n))
        {
            return Self::bits_of_sip(sip, ids, (first, last), most, hold);
        }
        let bytes = index(n).saturating_mul(8);
        if bytes.saturating_mul(TABLE_COST) > most {
            return Ok(None);
        }
        hold(bytes)?;
        let mut keys = Vec::with_capacity(index(n));
        if n < sip.cardinality() / SEARCH_COST {
            for half in halves() {
                let mut id = *half.start();
                while let Some(found) = sip.next_at_or_after(id).filter(|found| half.contains(found)) {
                    keys.extend(ids.key(found));
                    let Some(next) = found.checked_add(1) else { break };
                    id = next;
                }
            }
        } else {
            for (i, id) in sip.iter().enumerate() {
                keys.extend(ids.key(id).filter(|key| (min..=max).contains(key)));
                if i.is_multiple_of(BLOCK_ROWS) {
                    hold(bytes)?;
                }
            }
            // Ids are in the order of unsigned integers, where negative ones come last.
            let others = keys.partition_point(|key| ids.flipped || *key >= 0);
            keys.rotate_left(others);
        }
        hold(bytes.saturating_mul(TABLE_COST))?;
        Ok(Some(Self::sorted(keys)))
    }

    /// Bits of the keys from `first` to `last`, block by block from the SIP.
    fn bits_of_sip(
        sip: &Sip,
        ids: IdKeys,
        (first, last): (i64, i64),
        most: usize,
        hold: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Option<Self>> {
        // A block of ids is a block of keys.
        let base = first & !0xffff;
        let blocks = index((last.wrapping_sub(base)).cast_unsigned() / BLOCK_IDS + 1);
        let bytes = 8 * BLOCK_WORDS * blocks;
        if bytes > most {
            return Ok(None);
        }
        hold(bytes)?;
        let mut words = vec![0; BLOCK_WORDS * blocks];
        let mut block = Box::new([0; BLOCK_WORDS]);
        for half in ids.halves(first, last) {
            let mut masks = sip.view().masks();
            masks.skip_to(*half.start());
            while let Some((id, mask)) = masks.next(&mut block)
                && id <= *half.end()
            {
                let Some(key) = ids.key(id) else { break };
                let at = index(key.wrapping_sub(base).cast_unsigned() / 64);
                let words = &mut words[at..at + BLOCK_WORDS];
                match mask {
                    BlockMask::Full => words.fill(u64::MAX),
                    BlockMask::Words => words.copy_from_slice(&*block),
                    BlockMask::Empty => {}
                }
                hold(bytes)?;
            }
        }
        Ok(Some(Self::Bits { first: base, words }))
    }

    /// The form of sorted distinct keys.
    fn new(keys: Vec<i64>) -> Self {
        let (first, last) = match keys.as_slice() {
            [first, .., last] if keys.len() > FEW_KEYS => (*first, *last),
            _ => return Self::sorted(keys),
        };
        let widest = BITMAP_SPAN.max(BITS_OF_KEY.saturating_mul(keys.len() as u64));
        if last.wrapping_sub(first).cast_unsigned() >= widest {
            return Self::sorted(keys);
        }
        let place = |key: i64| index(key.wrapping_sub(first).cast_unsigned());
        let mut words = vec![0; place(last) / 64 + 1];
        keys.iter().for_each(|&key| mask::set(&mut words, place(key), true));
        Self::Bits { first, words }
    }

    fn sorted(keys: Vec<i64>) -> Self {
        let table = (keys.len() > FEW).then(|| KeyTable::new(&keys));
        Self::Sorted { keys, table }
    }

    /// Writes a bit for each key from `from` on, where the keys are bits.
    pub(super) fn bits_from(&self, from: i64, out: &mut [u64]) {
        out.fill(0);
        let Self::Bits { first, words } = self else { broken("bits are asked for of a form of bits") };
        let distance = i128::from(from) - i128::from(*first);
        let (begin, shift) = (distance.div_euclid(64), distance.rem_euclid(64));
        // Words that begin in front of the first, and words that are behind `from`.
        let number = |n: i128| usize::try_from(n.max(0)).invariant("keys are less than 2^58 words apart");
        let before = number(-begin);
        // Default: no words, where all are before `from`.
        let words = words.get(number(begin)..).unwrap_or_default();
        if let (Some(out), Some(word), 1..) = (out.get_mut(before.wrapping_sub(1)), words.first(), shift) {
            *out = word << (64 - shift);
        }
        let next = words.iter().skip(1).chain([&0]);
        for ((out, word), next) in out.iter_mut().skip(before).zip(words).zip(next) {
            // In two steps, because a shift by all bits of a word is none.
            *out = word >> shift | (next << 1) << (63 - shift);
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Bits { words, .. } => 8 * words.len(),
            Self::Sorted { keys, table } => {
                // Default: a few keys have no table.
                let table = table.as_ref().map_or(0, KeyTable::bytes);
                8 * keys.len() + table
            }
        }
    }

    fn contains(&self, key: i64) -> bool {
        match self {
            Self::Bits { first, words } => in_bits(*first, words, key),
            Self::Sorted { keys, table: None } => keys.binary_search(&key).is_ok(),
            Self::Sorted { table: Some(table), .. } => table.contains(key),
        }
    }

    /// Writes the mask of the keys that are in the set.
    pub(super) fn test(&self, keys: &[i64], out: &mut [u64]) {
        match self {
            Self::Bits { first, words } => write_mask(keys, out, |key| in_bits(*first, words, key)),
            Self::Sorted { keys: members, table: None } => {
                write_mask(keys, out, |key| members.binary_search(&key).is_ok());
            }
            Self::Sorted { table: Some(table), .. } => {
                // First the filter for all keys, without branches, then the table for the few that are left.
                write_mask(keys, out, |key| table.may_contain(key));
                for (word, keys) in out.iter_mut().zip(keys.chunks(64)) {
                    let mut rest = *word;
                    while rest != 0 {
                        let row = rest.trailing_zeros();
                        rest &= rest - 1;
                        *word ^= u64::from(!table.holds(keys[row as usize])) << row;
                    }
                }
            }
        }
    }
}

/// Writes the mask of the keys that pass.
#[inline]
pub(super) fn write_mask(keys: &[i64], out: &mut [u64], passes: impl Fn(i64) -> bool) {
    for (word, keys) in out.iter_mut().zip(keys.chunks(64)) {
        *word = keys.iter().enumerate().fold(0, |word, (i, &key)| word | u64::from(passes(key)) << i);
    }
}

/// Whether the bit of `key` is set.
#[inline]
fn in_bits(first: i64, words: &[u64], key: i64) -> bool {
    let place = key.wrapping_sub(first).cast_unsigned();
    words.get(index(place / 64)).is_some_and(|word| word >> (place % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{super::KeyTest, *};

    const ALL: [IdKeys; 4] = [
        IdKeys { flipped: false, half: false },
        IdKeys { flipped: false, half: true },
        IdKeys { flipped: true, half: false },
        IdKeys { flipped: true, half: true },
    ];

    /// Sets of ids: few, dense, scattered, on both sides of 2^63 and at the ends.
    fn sets() -> Vec<Vec<u64>> {
        let scattered = |n: u64| (0..n).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect::<Vec<_>>();
        let ends = vec![0, 1, TOP - 1, TOP, TOP + 1, u64::MAX - 1, u64::MAX];
        let around = (TOP - 70_000..TOP + 70_000).step_by(3).collect();
        let negative = (u64::MAX - 90_000..=u64::MAX).chain(0..90_000).collect();
        let far = (0..5000).map(|i| i * 9_000_000).collect();
        vec![
            vec![],
            vec![7],
            ends,
            (10..90_000).collect(),
            scattered(10),
            scattered(3000),
            around,
            negative,
            far,
        ]
    }

    /// Keys to ask about: members and their neighbours.
    fn probes(keys: &BTreeSet<i64>) -> Vec<i64> {
        let some = keys.iter().step_by(1 + keys.len() / 300).chain(keys.last());
        let near = some.flat_map(|key| [key.wrapping_sub(1), *key, key.wrapping_add(1)]);
        near.chain([i64::MIN, -1, 0, 1, i64::MAX]).collect()
    }

    #[test]
    fn every_form_of_a_sip_has_its_keys() {
        let mut forms = BTreeSet::new();
        for of in sets() {
            let sip = Arc::new(Sip::from_ids(of.iter().copied()));
            for ids in ALL {
                let keys: BTreeSet<i64> = of.iter().filter_map(|id| ids.key(*id)).collect();
                assert!(keys.iter().all(|key| ids.id(*key).and_then(|id| ids.key(id)) == Some(*key)));
                let test = KeyTest::of_sip(&sip, ids);
                for key in probes(&keys) {
                    assert_eq!(test.passes(key), keys.contains(&key), "{key} {ids:?} {sip:?}");
                }
                for (min, max) in
                    [(i64::MIN, i64::MAX), (-80_000, 80_000), (0, i64::MAX), (i64::MIN, -5), (40_000, 40_010)]
                {
                    let members = Members::of_sip(Arc::clone(&sip), ids);
                    let before = members.among(min, max);
                    let mut most = 0;
                    let mut hold = |bytes: usize| {
                        most = bytes.max(most);
                        Ok(())
                    };
                    members.prepare(1 << 20, (min, max), &mut hold).unwrap();
                    let form = members.form().unwrap();
                    assert!(most >= form.bytes());
                    forms.insert(match form {
                        Form::Bits { .. } => "bits",
                        Form::Sorted { table: None, .. } => "sorted",
                        Form::Sorted { .. } => "hashed",
                    });
                    for from in [min, max, keys.first().copied().unwrap_or(0)] {
                        for from in
                            [from, from.wrapping_sub(1), from.wrapping_sub(130), from.wrapping_add(77)]
                        {
                            let Form::Bits { first, words } = form else { continue };
                            let mut bits = [7; 5];
                            form.bits_from(from, &mut bits);
                            for (i, key) in (0..320).filter_map(|i| Some((i, from.checked_add(i)?))) {
                                let bit = bits[usize::try_from(i).unwrap() / 64] >> (i % 64) & 1 == 1;
                                assert_eq!(bit, in_bits(*first, words, key), "{from} {i} {form:?}");
                            }
                        }
                    }
                    let inside: Vec<i64> = keys.range(min..=max).copied().collect();
                    let all = inside.len() as u128 == u128::from(max.abs_diff(min)) + 1;
                    assert_eq!(before, (inside.is_empty(), all), "{min}..={max} {ids:?} {sip:?}");
                    for key in probes(&keys).into_iter().filter(|key| (min..=max).contains(key)) {
                        assert_eq!(members.contains(key), keys.contains(&key), "{key} {ids:?} {sip:?}");
                        let (lo, hi) = (key.saturating_sub(2).max(min), key.saturating_add(1).min(max));
                        let n = keys.range(lo..=hi).count() as u64;
                        let expected = (n == 0, n == hi.abs_diff(lo) + 1);
                        assert_eq!(members.among(lo, hi), expected, "{lo}..={hi} {ids:?} {sip:?}");
                        if let Some(part) = members.within(lo, hi) {
                            assert!((lo..=hi).all(|key| part.passes(key) == keys.contains(&key)));
                        }
                    }
                }
            }
        }
        assert_eq!(forms, ["bits", "hashed", "sorted"].into());
    }

    #[test]
    fn a_set_without_memory_is_an_error_and_stays_as_it_is() {
        let sip = Arc::new(Sip::from_ids((0..100_000).step_by(2)));
        let members = Members::of_sip(sip, ALL[0]);
        let mut none = |bytes| {
            let error = crate::error::Error::new(crate::error::ErrorKind::MemoryLimit, "none");
            if bytes > 0 { Err(error) } else { Ok(()) }
        };
        members.prepare(1, (0, i64::MAX), &mut none).unwrap_err();
        assert!(members.form().is_none() && members.contains(4) && !members.contains(5));
    }

    #[test]
    fn many_keys_beside_few_rows_stay_in_the_sip() {
        // Bits that take half a GiB, and a list that takes gigabytes.
        let dense = Sip::from_ranges([0..=1 << 31, (1 << 31) + 5..=u64::from(u32::MAX)]);
        let sparse = Sip::from_ranges((0..60_000).map(|i: u64| i << 26..=(i << 26) + 65_000));
        for sip in [dense, sparse] {
            let members = Members::of_sip(Arc::new(sip), ALL[0]);
            let mut hold = |bytes| panic!("{bytes} bytes are held");
            members.prepare(1000, (i64::MIN, i64::MAX), &mut hold).unwrap();
            assert!(members.form().is_none());
            assert!(members.contains(7) && !members.contains(1 << 45) && !members.contains(-7));
            assert_eq!(members.among(-5, -1), (true, false));
        }
    }
}
