//! Short texts by their bytes: a text of few bytes is a number, which a hash table holds by itself. Rows are first parted by
//! the hashes of their texts, so that the table of each part is in the cache while they are looked up.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};

use super::control::Control;
use crate::{
    error::Result,
    invariant::{Invariant, index},
    limits::BATCH_ROWS,
};

/// Bytes of a text that is short; one more says how many they are.
const SHORT: usize = 15;
/// Parts of the hashes.
const PARTS: usize = 1 << 8;
/// Bytes of a text's place in a table.
const HASHED: usize = size_of::<(u128, u32)>() + 1;

/// Short texts, each with the number that it was given.
#[derive(Debug)]
pub(super) struct ShortTexts {
    tables: Vec<HashTable<(u128, u32)>>,
    hasher: DefaultHashBuilder,
    /// The texts of rows that are still to be looked up.
    rows: Vec<Vec<(u128, u32)>>,
}

impl ShortTexts {
    pub(super) fn new() -> Self {
        let tables = (0..PARTS).map(|_| HashTable::new()).collect();
        Self { tables, hasher: DefaultHashBuilder::default(), rows: vec![Vec::new(); PARTS] }
    }

    /// Takes in the text of a row, unless it is long.
    pub(super) fn add(&mut self, text: &str, row: u32) -> bool {
        let Some(key) = key(text) else { return false };
        let part = index(self.hasher.hash_one(key) >> 40) % PARTS;
        self.rows[part].push((key, row));
        true
    }

    /// Calls `found` with each row that was taken in and the number of its text, which `new` gives to those that have none.
    pub(super) fn look_up(
        &mut self,
        control: &Control,
        mut new: impl FnMut(&str) -> u32,
        mut found: impl FnMut(u32, u32),
    ) -> Result<()> {
        let Self { tables, hasher, rows } = self;
        for (table, rows) in tables.iter_mut().zip(rows) {
            for rows in rows.chunks(BATCH_ROWS) {
                control.check()?;
                for (key, row) in rows {
                    let rehash = |(key, _): &(u128, u32)| hasher.hash_one(key);
                    let number = match table.entry(hasher.hash_one(key), |(other, _)| other == key, rehash) {
                        Entry::Occupied(entry) => entry.get().1,
                        Entry::Vacant(entry) => {
                            with_text(*key, |text| entry.insert((*key, new(text))).get().1)
                        }
                    };
                    found(*row, number);
                }
            }
            rows.clear();
        }
        Ok(())
    }

    /// Rows that are still to be looked up.
    pub(super) fn rows(&self) -> usize {
        self.rows.iter().map(Vec::len).sum()
    }

    /// Bytes held, with so many more rows to be looked up. Tables may be half empty, and are there twice while they grow;
    /// what holds rows may be half empty.
    pub(super) fn bytes(&self, more: usize) -> usize {
        let tables: usize = self.tables.iter().map(HashTable::len).sum();
        let rows: usize = self.rows.iter().map(Vec::capacity).sum();
        2 * tables * HASHED + (rows + 2 * more) * size_of::<(u128, u32)>()
    }
}

/// A text as a number.
fn key(text: &str) -> Option<u128> {
    let mut bytes = [0; SHORT + 1];
    bytes.get_mut(..text.len()).filter(|_| text.len() <= SHORT)?.copy_from_slice(text.as_bytes());
    bytes[SHORT] = u8::try_from(text.len()).ok()?;
    Some(u128::from_le_bytes(bytes))
}

/// Calls `work` with the text that a number stands for.
fn with_text<R>(key: u128, work: impl FnOnce(&str) -> R) -> R {
    let bytes = key.to_le_bytes();
    let text = std::str::from_utf8(&bytes[..bytes[SHORT].into()]);
    work(text.ok().invariant("a number stands for the text that it was made of"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_numbers_that_they_were_given() {
        let mut texts = ShortTexts::new();
        let words = ["", "a", "a\0", "\0a", "fifteen bytes !", "äöü", "a", "", "sixteen bytes !!"];
        let mut numbers = vec![None; 2 * words.len()];
        let mut known: Vec<String> = Vec::new();
        for turn in 0..2 {
            for (row, word) in (turn * words.len()..).zip(words) {
                assert_eq!(texts.add(word, u32::try_from(row).unwrap()), word.len() <= SHORT, "{word:?}");
            }
            let new = |text: &str| {
                known.push(text.to_owned());
                u32::try_from(known.len() - 1).unwrap()
            };
            texts
                .look_up(&Control::default(), new, |row, number| numbers[row as usize] = Some(number))
                .unwrap();
        }
        assert_eq!(known.len(), 6, "{known:?}");
        for (row, number) in numbers.iter().enumerate() {
            let word = words[row % words.len()];
            assert_eq!(
                number.map(|number| known[number as usize].as_str()),
                Some(word).filter(|w| w.len() <= SHORT)
            );
        }
    }
}
