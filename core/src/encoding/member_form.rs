//! The forms in which a set of keys is looked up.

use basalt_sip::{BLOCK_IDS, BLOCK_WORDS, BlockMask, Sip};

use super::{
    bytes::index,
    id_keys::{IdKeys, count},
    key_table::KeyTable,
    mask,
};
use crate::{
    error::Result,
    invariant::{Invariant, broken},
    limits::BLOCK_ROWS,
};

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

impl Form {
    /// The form of the keys from `min` to `max` that are ids in a SIP, unless it takes more than `most` bytes.
    pub(super) fn of_sip(
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
    pub(super) fn new(keys: Vec<i64>) -> Self {
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

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Bits { words, .. } => 8 * words.len(),
            Self::Sorted { keys, table } => {
                // Default: a few keys have no table.
                let table = table.as_ref().map_or(0, KeyTable::bytes);
                8 * keys.len() + table
            }
        }
    }

    pub(super) fn contains(&self, key: i64) -> bool {
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
pub(super) fn in_bits(first: i64, words: &[u64], key: i64) -> bool {
    let place = key.wrapping_sub(first).cast_unsigned();
    words.get(index(place / 64)).is_some_and(|word| word >> (place % 64) & 1 == 1)
}
