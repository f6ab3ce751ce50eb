//! Groups by their keys' numbers: an array where the numbers span little, hash tables elsewhere. Many numbers are first
//! parted by their hashes, so that the table of each part is in the cache while its numbers are looked up.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};

use super::{Control, control::Held, totals::grow};
use crate::{
    error::Result,
    invariant::{count, index},
    limits::BATCH_ROWS,
};

/// Numbers below it may be places in an array that finds groups.
pub(super) const MOST_PLACES: usize = 1 << 22;

/// Distinct numbers in the order of their first appearance.
#[derive(Debug)]
pub(super) struct Numbers {
    all: Vec<u64>,
    finder: Finder,
}

#[derive(Debug)]
enum Finder {
    /// They need not be found again.
    None,
    /// They have come in their order so far: one that is not below the last is it, or new.
    Sorted,
    /// The group of each number; none has `u32::MAX`.
    Dense(Vec<u32>),
    Hash(Tables),
}

/// Hash tables of groups, for each part of the hashes one.
#[derive(Debug)]
struct Tables {
    parts: Vec<HashTable<u32>>,
    hasher: DefaultHashBuilder,
    /// Numbers that were looked up.
    seen: usize,
}

/// Parts of the hashes.
const PARTS: usize = 1 << 8;
/// Groups whose tables fit the cache all together.
const CACHED: usize = 1 << 14;

/// The part of a hash: bits that say nothing of the place in a table.
fn part_of(hash: u64) -> usize {
    index(hash >> 40) % PARTS
}

impl Tables {
    /// Those of some numbers.
    fn of(all: &[u64]) -> Self {
        let parts = (0..PARTS).map(|_| HashTable::with_capacity(2 * all.len() / PARTS)).collect();
        let mut tables = Self { parts, hasher: DefaultHashBuilder::default(), seen: all.len() };
        for (group, number) in (0..).zip(all) {
            let Self { parts, hasher, .. } = &mut tables;
            let hash = hasher.hash_one(number);
            let rehash = |group: &u32| hasher.hash_one(all[*group as usize]);
            parts[part_of(hash)].insert_unique(hash, group, rehash);
        }
        tables
    }

    fn bytes(&self) -> usize {
        self.parts.iter().map(HashTable::capacity).sum::<usize>() * 2 * (size_of::<u32>() + 1)
    }

    /// The group of a number, and whether it is new.
    #[inline]
    fn group(&mut self, hash: u64, number: u64, all: &[u64]) -> (u32, bool) {
        let Self { parts, hasher, .. } = self;
        let is = |group: &u32| all[*group as usize] == number;
        let rehash = |group: &u32| hasher.hash_one(all[*group as usize]);
        match parts[part_of(hash)].entry(hash, is, rehash) {
            Entry::Occupied(entry) => (*entry.get(), false),
            Entry::Vacant(entry) => (*entry.insert(count(all.len())).get(), true),
        }
    }
}

impl Numbers {
    /// None yet, all below `size`, of which there are `most` at most.
    pub(super) fn new(size: usize, most: usize) -> Self {
        let finder = if size <= MOST_PLACES.min(most.saturating_mul(4)) {
            Finder::Dense(vec![u32::MAX; size])
        } else {
            Finder::Sorted
        };
        Self { all: Vec::new(), finder }
    }

    /// Distinct ones.
    pub(super) fn of(all: Vec<u64>) -> Self {
        Self { all, finder: Finder::None }
    }

    /// The same, which need not be found again.
    pub(super) fn done(self) -> Self {
        Self::of(self.all)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn all(&self) -> &[u64] {
        &self.all
    }

    /// Bytes held; those of hash tables with what they take while they grow.
    pub(super) fn bytes(&self) -> usize {
        let finder = match &self.finder {
            Finder::None | Finder::Sorted => 0,
            Finder::Dense(groups) => size_of_val(groups.as_slice()),
            Finder::Hash(tables) => tables.bytes(),
        };
        self.all.capacity() * size_of::<u64>() + finder
    }

    /// Appends the groups of numbers, new ones if need be.
    pub(super) fn groups(&mut self, of: &[u64], out: &mut Vec<u32>, control: &Control) -> Result<()> {
        out.reserve_exact(of.len());
        let mut rest = self.sorted(of, out, control)?;
        while !rest.is_empty() {
            control.check()?;
            let by_parts = self.len() >= CACHED && matches!(self.finder, Finder::Hash(_));
            let now;
            (now, rest) = rest.split_at(if by_parts { rest.len() } else { rest.len().min(BATCH_ROWS) });
            if by_parts {
                self.groups_by_parts(now, out, control)?;
            } else {
                out.extend(now.iter().map(|number| self.group(*number)));
            }
            if let Finder::Hash(tables) = &mut self.finder {
                tables.seen += now.len();
            }
        }
        Ok(())
    }

    /// Appends the groups of the first of some numbers, as far as they come in order. Returns the others, which hash tables
    /// find.
    fn sorted<'n>(&mut self, of: &'n [u64], out: &mut Vec<u32>, control: &Control) -> Result<&'n [u64]> {
        if !matches!(self.finder, Finder::Sorted) {
            return Ok(of);
        }
        let mut rest = of;
        while !rest.is_empty() {
            control.check()?;
            let (now, others) = rest.split_at(rest.len().min(BATCH_ROWS));
            // Default: nothing is below the first.
            let last = self.all.last().copied().unwrap_or(0);
            if now[0] < last || !now.is_sorted() {
                let mut held = Held::new(control);
                held.set(2 * self.all.len() * (size_of::<u32>() + 1))?;
                self.finder = Finder::Hash(Tables::of(&self.all));
                break;
            }
            grow(&mut self.all, now.len());
            for number in now {
                if self.all.last() != Some(number) {
                    self.all.push(*number);
                }
                out.push(count(self.all.len() - 1));
            }
            rest = others;
        }
        Ok(rest)
    }

    fn groups_by_parts(&mut self, of: &[u64], out: &mut Vec<u32>, control: &Control) -> Result<()> {
        let Self { all, finder: Finder::Hash(tables) } = self else { return Ok(()) };
        let mut held = Held::new(control);
        held.set(of.len() * size_of::<(u64, u32)>())?;
        let mut starts = [0_usize; PARTS];
        of.iter().for_each(|number| starts[part_of(tables.hasher.hash_one(number))] += 1);
        // Where most were new so far, tables have room for all: to move them costs more than to find them.
        if all.len() * 2 > tables.seen {
            let Tables { parts, hasher, .. } = &mut *tables;
            let rehash = |group: &u32| hasher.hash_one(all[*group as usize]);
            parts.iter_mut().zip(&starts).for_each(|(part, n)| part.reserve(*n, rehash));
        }
        starts.iter_mut().fold(0, |start, n| start + std::mem::replace(n, start));
        let mut parted = vec![(0_u64, 0_u32); of.len()];
        for (row, number) in (0..).zip(of) {
            let next = &mut starts[part_of(tables.hasher.hash_one(number))];
            parted[*next] = (*number, row);
            *next += 1;
        }
        let first = out.len();
        out.resize(first + of.len(), 0);
        let out = &mut out[first..];
        for parted in parted.chunks(BATCH_ROWS) {
            control.check()?;
            for (number, row) in parted {
                let (group, is_new) = tables.group(tables.hasher.hash_one(number), *number, all);
                if is_new {
                    grow(all, 1);
                    all.push(*number);
                }
                out[*row as usize] = group;
            }
        }
        Ok(())
    }

    /// The group of a number, a new one if need be.
    #[inline]
    fn group(&mut self, number: u64) -> u32 {
        let Self { all, finder } = self;
        let new = count(all.len());
        match finder {
            Finder::None | Finder::Sorted => {}
            Finder::Dense(groups) => {
                let group = &mut groups[index(number)];
                if *group != u32::MAX {
                    return *group;
                }
                *group = new;
            }
            Finder::Hash(tables) => {
                let (group, is_new) = tables.group(tables.hasher.hash_one(number), number, all);
                if !is_new {
                    return group;
                }
            }
        }
        grow(all, 1);
        all.push(number);
        new
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_number_has_one_group_whatever_order_they_come_in() {
        let ordered: Vec<u64> = (0..30_000).map(|row| 10 * (row / 4)).collect();
        let behind: Vec<u64> = ordered.iter().map(|number| number + 74_990).collect();
        let mixed: Vec<u64> = (0..40_000).map(|row| row * 7919 % 200_000).collect();
        for (size, batches) in [
            (usize::MAX, vec![&ordered, &behind]),
            (usize::MAX, vec![&ordered, &behind, &mixed, &ordered]),
            (usize::MAX, vec![&mixed, &ordered]),
            (usize::MAX, vec![&ordered, &ordered]),
            (200_000, vec![&ordered, &mixed]),
        ] {
            let (mut numbers, mut groups) = (Numbers::new(size, usize::MAX), Vec::new());
            for batch in &batches {
                numbers.groups(batch, &mut groups, &Control::default()).unwrap();
            }
            let asked: Vec<u64> = batches.into_iter().flatten().copied().collect();
            let found: Vec<u64> = groups.iter().map(|group| numbers.all()[*group as usize]).collect();
            assert!(found == asked);
            assert_eq!(numbers.len(), asked.iter().collect::<HashSet<_>>().len());
        }
    }
}
