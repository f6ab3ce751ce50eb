//! What groups are made of: the table that finds a key's group, texts of all fragments, and the way from a fragment's codes
//! to them.

use std::{hash::BuildHasher, sync::Arc};

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use super::{
    Control, numbers::Numbers, radix::Radix, sorted_texts::SortedTexts, source::Texts, totals::Totals,
};
use crate::{
    error::Result,
    invariant::{broken, count, index},
    limits::GROUPED_TEXT_BYTES,
};

/// Distinct keys in the order of their first appearance: `width` of them make a group.
#[derive(Debug)]
pub(super) struct KeyTable {
    width: usize,
    groups: usize,
    keys: Keys,
}

#[derive(Debug)]
enum Keys {
    /// One by one.
    Each { keys: Vec<Option<i64>>, finder: Finder },
    /// Those of a group as one number.
    Numbered { radix: Arc<Radix>, numbers: Numbers },
    /// The same as two numbers. The groups are in their order.
    Twice { radixes: [Arc<Radix>; 2], numbers: [Vec<u64>; 2] },
}

/// Finds the group of a key.
#[derive(Debug)]
enum Finder {
    /// The groups by their keys' number; none has `u32::MAX`.
    Dense {
        radix: Radix,
        groups: Vec<u32>,
    },
    Hash {
        table: HashTable<u32>,
        hasher: DefaultHashBuilder,
    },
}

impl KeyTable {
    /// For keys whose numbers a radix has, where there is one.
    pub(super) fn new(width: usize, radix: Option<Radix>) -> Self {
        let finder = match radix {
            Some(radix) => Finder::Dense { groups: vec![u32::MAX; radix.size()], radix },
            None => Finder::Hash { table: HashTable::new(), hasher: DefaultHashBuilder::default() },
        };
        Self { width, groups: 0, keys: Keys::Each { keys: Vec::new(), finder } }
    }

    /// The groups of some numbers.
    pub(super) fn numbered(radix: Arc<Radix>, numbers: Numbers) -> Self {
        Self { width: radix.width(), groups: numbers.len(), keys: Keys::Numbered { radix, numbers } }
    }

    /// The groups of some pairs of numbers, which are in order.
    pub(super) fn numbered_twice(radixes: [Arc<Radix>; 2], numbers: [Vec<u64>; 2]) -> Self {
        let width = radixes.iter().map(|radix| radix.width()).sum();
        Self { width, groups: numbers[0].len(), keys: Keys::Twice { radixes, numbers } }
    }

    /// Groups so far.
    pub(super) fn len(&self) -> usize {
        self.groups
    }

    /// One of the keys of a group.
    pub(super) fn part(&self, group: usize, at: usize) -> Option<i64> {
        match &self.keys {
            Keys::Each { keys, .. } => keys[group * self.width..][..self.width][at],
            Keys::Numbered { radix, numbers } => radix.part(numbers.all()[group], at),
            Keys::Twice { radixes: [radix, rest], numbers } => match at.checked_sub(radix.width()) {
                None => radix.part(numbers[0][group], at),
                Some(at) => rest.part(numbers[1][group], at),
            },
        }
    }

    /// Whether the groups are in the order of their keys.
    pub(super) fn is_sorted(&self) -> bool {
        match &self.keys {
            Keys::Each { .. } => false,
            Keys::Numbered { numbers, .. } => numbers.all().is_sorted(),
            Keys::Twice { .. } => true,
        }
    }

    /// The numbers of the groups, in the order of their keys, where they have some.
    pub(super) fn numbers(&self) -> Option<&[u64]> {
        match &self.keys {
            Keys::Each { .. } | Keys::Twice { .. } => None,
            Keys::Numbered { numbers, .. } => Some(numbers.all()),
        }
    }

    /// What the numbers of the groups are below; 0 where they have none.
    pub(super) fn size(&self) -> usize {
        match &self.keys {
            Keys::Each { .. } | Keys::Twice { .. } => 0,
            Keys::Numbered { radix, .. } => radix.size(),
        }
    }

    /// The keys of some groups, column by column, and which of them are not null.
    pub(super) fn columns(&self, groups: &[u32]) -> Vec<(Vec<i64>, Vec<u64>)> {
        match &self.keys {
            Keys::Each { .. } => {
                let column = |at: usize| {
                    let mut valid = vec![0; groups.len().div_ceil(64)];
                    let mut key = |(row, group): (usize, &u32)| {
                        let part = self.part(*group as usize, at);
                        valid[row / 64] |= u64::from(part.is_some()) << (row % 64);
                        // Default: what stands for a key that is null.
                        part.unwrap_or(0)
                    };
                    (groups.iter().enumerate().map(&mut key).collect(), valid)
                };
                (0..self.width).map(column).collect()
            }
            Keys::Numbered { radix, numbers } => {
                let all = numbers.all();
                radix.columns(groups.iter().map(|group| all[*group as usize]).collect())
            }
            Keys::Twice { radixes, numbers } => {
                let columns = radixes.iter().zip(numbers).flat_map(|(radix, all)| {
                    radix.columns(groups.iter().map(|group| all[*group as usize]).collect())
                });
                columns.collect()
            }
        }
    }

    /// Bytes held, where groups have numbers.
    pub(super) fn bytes(&self) -> usize {
        match &self.keys {
            Keys::Each { .. } => 0,
            Keys::Numbered { numbers, .. } => numbers.bytes(),
            Keys::Twice { numbers, .. } => {
                numbers.iter().map(|numbers| numbers.capacity() * size_of::<u64>()).sum()
            }
        }
    }

    /// Adds a group whose key the table need not find again.
    pub(super) fn push(&mut self, key: &[Option<i64>]) -> u32 {
        assert_eq!(key.len(), self.width, "a group has a key of each column");
        let Keys::Each { keys, .. } = &mut self.keys else { broken("groups with numbers are found by them") };
        keys.extend_from_slice(key);
        self.groups += 1;
        count(self.groups - 1)
    }

    /// The group of a key, a new one if need be.
    pub(super) fn group(&mut self, key: &[Option<i64>]) -> u32 {
        let (new, width) = (count(self.groups), self.width);
        let Keys::Each { keys, finder } = &mut self.keys else {
            broken("groups with numbers are found by them")
        };
        match finder {
            Finder::Dense { radix, groups } => {
                let group = &mut groups[radix.place(key)];
                if *group != u32::MAX {
                    return *group;
                }
                *group = new;
            }
            Finder::Hash { table, hasher } => {
                let of = |group: u32| &keys[group as usize * width..][..width];
                let hash = |key: &[Option<i64>]| match key {
                    // Default: null has the hash of a key, and is no key.
                    [key] => hasher.hash_one(key.unwrap_or(i64::MIN)),
                    key => hasher.hash_one(key),
                };
                match table.entry(hash(key), |group| of(*group) == key, |group| hash(of(*group))) {
                    hashbrown::hash_table::Entry::Occupied(entry) => return *entry.get(),
                    hashbrown::hash_table::Entry::Vacant(entry) => {
                        entry.insert(new);
                    }
                }
            }
        }
        self.push(key)
    }

    /// Appends the groups of some numbers, new ones if need be.
    pub(super) fn groups(&mut self, of: &[u64], out: &mut Vec<u32>, control: &Control) -> Result<()> {
        let Keys::Numbered { numbers, .. } = &mut self.keys else { broken("groups have no numbers") };
        let done = numbers.groups(of, out, control);
        self.groups = numbers.len();
        done
    }
}

/// Texts of all fragments, each with a number.
#[derive(Debug, Default)]
pub(super) struct Interner {
    ids: HashMap<Arc<str>, i64>,
    texts: Vec<Arc<str>>,
    bytes: usize,
    /// The texts, where all were known before the first was asked for.
    sorted: Option<Arc<SortedTexts>>,
}

impl Interner {
    /// Texts whose numbers are their places.
    pub(super) fn of(sorted: Arc<SortedTexts>) -> Self {
        Self { sorted: Some(sorted), ..Self::default() }
    }

    /// The number of a text, a new one if need be.
    pub(super) fn id(&mut self, text: &str) -> i64 {
        assert!(self.sorted.is_none(), "texts that have their numbers get no others");
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = i64::from(count(self.texts.len()));
        let text: Arc<str> = text.into();
        self.bytes += text.len() + GROUPED_TEXT_BYTES;
        self.ids.insert(Arc::clone(&text), id);
        self.texts.push(text);
        id
    }

    /// The text with a number.
    pub(super) fn text(&self, id: i64) -> &str {
        let at = index(id.cast_unsigned());
        match &self.sorted {
            Some(sorted) => sorted.get(at),
            None => &self.texts[at],
        }
    }

    /// The texts, where all were known before the first was asked for.
    pub(super) fn sorted(&self) -> Option<&Arc<SortedTexts>> {
        self.sorted.as_ref()
    }

    /// Bytes of the longest text, where that is known.
    pub(super) fn longest(&self) -> Option<usize> {
        self.sorted.as_ref().map(|sorted| sorted.longest())
    }

    /// The same, to keep.
    pub(super) fn shared(&self, id: i64) -> Arc<str> {
        let at = index(id.cast_unsigned());
        match &self.sorted {
            Some(sorted) => sorted.get(at).into(),
            None => Arc::clone(&self.texts[at]),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.sorted.as_ref().map_or(self.texts.len(), |sorted| sorted.len())
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        // Default: none were known before.
        self.bytes + self.sorted.as_ref().map_or(0, |sorted| sorted.size())
    }
}

/// Whose texts codes stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turned {
    /// Those of one block, or none yet.
    #[default]
    Block,
    /// Those of a fragment's dictionary.
    Fragment(u32),
    /// Those of an attribute, for all blocks the same.
    Lookup,
}

/// From the codes of one dictionary to interned texts, each looked up once.
#[derive(Debug, Default)]
pub(super) struct Translation {
    of: Turned,
    ids: Vec<i64>,
}

impl Translation {
    /// Turns to the texts of other keys, those of fragment `id` if they are a fragment's.
    pub(super) fn turn(&mut self, id: u32, texts: Option<&Texts<'_>>) {
        let of = match texts {
            Some(Texts::Fragment(_)) => Turned::Fragment(id),
            Some(Texts::Lookup(_)) => Turned::Lookup,
            Some(Texts::Block(_) | Texts::One(_)) | None => Turned::Block,
        };
        if of != Turned::Block && of == self.of {
            return;
        }
        self.of = of;
        self.ids.clear();
        // Default: keys that are no codes are not looked up.
        self.ids.resize(texts.map_or(0, Texts::len), -1);
    }

    /// The interned text of a code; a key that is no code stays as it is.
    pub(super) fn id(&mut self, key: i64, texts: Option<&Texts<'_>>, interner: &mut Interner) -> i64 {
        let Some(texts) = texts else { return key };
        let known = &mut self.ids[index(key.cast_unsigned())];
        if *known < 0 {
            *known = interner.id(&texts.get(key));
        }
        *known
    }

    /// The interned text of a code that was looked up before.
    pub(super) fn known(&self, key: i64) -> i64 {
        let id = self.ids[index(key.cast_unsigned())];
        assert!(id >= 0, "a code is looked up before its text is known");
        id
    }
}

/// The groups of one block.
pub(super) struct Partial<'a> {
    pub(super) keys: KeyTable,
    /// For each key, the texts that it is a code of.
    pub(super) key_texts: Vec<Option<Texts<'a>>>,
    /// Rows of each group.
    pub(super) rows: Totals<'a>,
    /// What each argument comes to.
    pub(super) totals: Vec<Totals<'a>>,
}

impl Partial<'_> {
    /// Bytes of sets of distinct keys, and of texts of its own.
    pub(super) fn set_bytes(&self) -> usize {
        let texts = self.key_texts.iter().chain(self.totals.iter().map(|totals| &totals.texts));
        self.totals.iter().map(Totals::set_bytes).sum::<usize>()
            + texts.flatten().map(Texts::bytes).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn what_was_never_looked_up_is_no_group() {
        let map = Translation { of: Turned::Block, ids: vec![-1, 3] };
        assert_eq!(map.known(1), 3);
        for key in [i64::MIN, -1, 0, 2] {
            assert!(catch_unwind(|| map.known(key)).is_err(), "{key}");
        }
        assert!(catch_unwind(|| Interner::default().text(0).len()).is_err());
        assert!(catch_unwind(|| Interner::default().shared(-1).len()).is_err());
    }
}
