//! Sets of texts, prepared for many look-ups.

use std::{hash::BuildHasher, ops::RangeInclusive};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::member_form::FEW;

/// A set of texts.
#[derive(Clone, Debug)]
pub struct TextMembers {
    /// Sorted and distinct.
    texts: Box<[Box<str>]>,
    /// The least and the greatest length: most other texts have one outside of these.
    lengths: RangeInclusive<usize>,
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
        let lengths = || texts.iter().map(|text| text.len());
        // Default: of no texts, a range without a length.
        let lengths = lengths().min().unwrap_or(1)..=lengths().max().unwrap_or(0);
        Self { texts: texts.into(), lengths, table, hasher }
    }
}

impl TextMembers {
    /// The texts, sorted and distinct.
    pub fn texts(&self) -> &[Box<str>] {
        &self.texts
    }

    /// Whether `text` is in the set.
    pub fn contains(&self, text: &str) -> bool {
        if !self.lengths.contains(&text.len()) {
            return false;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_number_are_found() {
        for n in [0, 1, FEW, FEW + 1, 1000] {
            let texts: TextMembers = (0..n).rev().chain(0..n / 2).map(|i| i.to_string().into()).collect();
            assert_eq!(texts.texts().len(), n);
            assert!(texts.texts().is_sorted());
            for i in 0..n + 5 {
                assert_eq!(texts.contains(&i.to_string()), i < n);
            }
        }
    }
}
