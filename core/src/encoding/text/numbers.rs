//! Numbers for the distinct texts of a column, in the order in which they first come.
//!
//! Most texts of a dictionary are short and are there already: so a text is looked for by its first and its last sixteen
//! bytes, which are read without asking how many there are. They and the length are all of a text of up to 32 bytes.

use std::hash::BuildHasher;

use arrow_array::StringArray;
use hashbrown::DefaultHashBuilder;

use crate::{
    encoding::bytes::{count, index},
    invariant::Invariant,
};

/// Bytes of a text that are read at once.
const PIECE: usize = 16;
/// The slots of the smallest table, as a power of two.
const LEAST_SLOTS: u32 = 8;
/// A slot without a text.
const FREE: u32 = u32::MAX;

/// The front of a text that is shorter than a piece.
const FRONTS: [u128; PIECE + 1] = {
    let mut fronts = [u128::MAX; PIECE + 1];
    let mut length = 0;
    while length < PIECE {
        fronts[length] = (1 << (8 * length)) - 1;
        length += 1;
    }
    fronts
};

/// A text, as far as it is compared first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    length: u32,
    front: u128,
    /// 0 where the front is all.
    back: u128,
}

/// A text that has a number.
#[derive(Clone, Copy, Debug)]
struct Entry {
    ends: Ends,
    hash: u64,
    row: u32,
}

/// The numbers of texts: 0, 1, ...
#[derive(Debug)]
pub(super) struct Numbers<'a> {
    texts: &'a StringArray,
    bytes: &'a [u8],
    /// Whoever sends texts does not know them, and so cannot choose texts that share a slot.
    seeds: [u64; 2],
    /// Numbers by the highest bits of a hash, or in the next slots.
    slots: Vec<u32>,
    shift: u32,
    entries: Vec<Entry>,
}

impl<'a> Numbers<'a> {
    /// None of the texts has a number yet.
    pub(super) fn new(texts: &'a StringArray) -> Self {
        let random = DefaultHashBuilder::default();
        Self {
            texts,
            bytes: texts.value_data(),
            seeds: std::array::from_fn(|i| random.hash_one(i)),
            slots: vec![FREE; 1 << LEAST_SLOTS],
            shift: u64::BITS - LEAST_SLOTS,
            entries: Vec::new(),
        }
    }

    /// Texts that have a number.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The texts that have a number, in their order.
    pub(super) fn texts(&self) -> impl Iterator<Item = &'a str> {
        let texts = self.texts;
        self.entries.iter().map(move |entry| texts.value(entry.row as usize))
    }

    /// The number of a row's text.
    #[inline]
    pub(super) fn of(&mut self, row: usize) -> u32 {
        let ends = self.ends(row);
        let hash = self.hash(row, ends);
        let mut slot = index(hash >> self.shift);
        loop {
            let number = self.slots[slot];
            if number == FREE {
                return self.push(Entry { ends, hash, row: count(row) }, slot);
            }
            let entry = &self.entries[number as usize];
            if entry.ends == ends && (ends.length as usize <= 2 * PIECE || self.is_same(entry, hash, row)) {
                return number;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    #[inline]
    fn ends(&self, row: usize) -> Ends {
        let offsets = self.texts.value_offsets();
        let place = |row: usize| index(i64::from(offsets[row]).cast_unsigned());
        let (start, end) = (place(row), place(row + 1));
        let length = end - start;
        // Bytes of the next texts are read as well: only the last ones have none behind them.
        let front = match self.bytes[start..].first_chunk::<PIECE>() {
            Some(piece) => u128::from_le_bytes(*piece),
            None => {
                let mut piece = [0; PIECE];
                piece[..self.bytes.len() - start].copy_from_slice(&self.bytes[start..]);
                u128::from_le_bytes(piece)
            }
        };
        let front = front & FRONTS[length.min(PIECE)];
        let back = match self.bytes[start..end].last_chunk::<PIECE>() {
            Some(piece) if length > PIECE => u128::from_le_bytes(*piece),
            _ => 0,
        };
        Ends { length: count(length), front, back }
    }

    /// Products of secret numbers and the text, of which the upper halves have a part of every bit.
    #[inline]
    fn hash(&self, row: usize, ends: Ends) -> u64 {
        let mut hash = self.mix(u64::from(ends.length), ends.front);
        if ends.back != 0 {
            hash = self.mix(hash.rotate_left(23), ends.back);
        }
        if ends.length as usize > 2 * PIECE {
            let text = self.texts.value(row).as_bytes();
            for piece in text[PIECE..text.len() - PIECE].chunks(PIECE) {
                let mut bytes = [0; PIECE];
                bytes[..piece.len()].copy_from_slice(piece);
                hash = self.mix(hash.rotate_left(23), u128::from_le_bytes(bytes));
            }
        }
        hash
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "both halves")]
    fn mix(&self, hash: u64, piece: u128) -> u64 {
        fold(piece as u64 ^ self.seeds[0] ^ hash, (piece >> 64) as u64 ^ self.seeds[1])
    }

    /// Whether texts are the same of which the ends are.
    fn is_same(&self, entry: &Entry, hash: u64, row: usize) -> bool {
        entry.hash == hash && self.texts.value(entry.row as usize) == self.texts.value(row)
    }

    /// Gives a text the next number.
    fn push(&mut self, entry: Entry, slot: usize) -> u32 {
        let number = count(self.entries.len());
        self.slots[slot] = number;
        self.entries.push(entry);
        if 2 * self.entries.len() > self.slots.len() {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        self.shift -= 1;
        self.slots = vec![FREE; 2 * self.slots.len()];
        for (number, entry) in (0..).zip(&self.entries) {
            let from = index(entry.hash >> self.shift);
            let slots = (from..self.slots.len()).chain(0..from);
            let slot = slots.into_iter().find(|slot| self.slots[*slot] == FREE);
            self.slots[slot.invariant("half of the slots are free")] = number;
        }
    }
}

/// Both halves of a product.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "both halves")]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow_array::Array;

    use super::*;

    /// Texts of every length that differ in any one byte, or in their length alone, have numbers of their own; the same
    /// texts have the same, wherever they stand.
    #[test]
    fn texts_have_numbers_of_their_own() {
        let mut texts: Vec<String> = Vec::new();
        for length in 0..70 {
            texts.push("a".repeat(length));
            texts.push("\0".repeat(length));
            for at in 0..length {
                let mut bytes = vec![b'a'; length];
                bytes[at] = b'b';
                texts.push(String::from_utf8(bytes).unwrap());
            }
        }
        texts.extend((0..40_000).map(|i| format!("{i}")));
        let again: Vec<String> = texts.iter().rev().cloned().collect();
        texts.extend(again);
        for skipped in [0, 7] {
            let array = StringArray::from_iter_values(&texts).slice(skipped, texts.len() - skipped);
            let mut numbers = Numbers::new(&array);
            let mut expected: HashMap<&str, u32> = HashMap::new();
            for row in 0..array.len() {
                let next = u32::try_from(expected.len()).unwrap();
                let number = *expected.entry(array.value(row)).or_insert(next);
                assert_eq!(numbers.of(row), number, "{:?}", array.value(row));
            }
            assert_eq!(numbers.len(), expected.len());
            assert!(numbers.texts().zip(0..).all(|(text, number)| expected[text] == number));
        }
    }
}
