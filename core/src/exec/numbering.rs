//! The keys of groups as numbers that are the same in all fragments. Where the least and the greatest of each key are
//! known, a group's keys are one number in their order. The dictionaries of fragments are sorted, so that texts get
//! their numbers by merging them: no row's text is looked at. Texts without a dictionary are
//! looked up, each row's once.

use std::{hash::BuildHasher, sync::Arc};

use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};

use super::{
    Scan,
    conjuncts::Estimate,
    control::{Control, Held},
    group_keys::KeyTable,
    radix::{KeyRange, Radix},
    source::attribute_range,
    totals::Arguments,
};
use crate::{
    encoding::TextColumn,
    error::Result,
    fragment::{Column, Fragment, Values},
    invariant::{broken, count, index},
    limits::BATCH_ROWS,
    mask::selects,
    plan::expr::BoundExpr,
    schema::DataType,
    table::Snapshot,
};

/// Groups of a fragment, from which on they are not made block by block.
const MANY_GROUPS: usize = 1 << 10;
/// Entries of dictionaries that may be merged, however few rows are selected.
const FEW_ENTRIES: usize = 1 << 12;

/// The numbers of a query's groups.
#[derive(Debug)]
pub(super) struct Numbering<'a> {
    radix: Arc<Radix>,
    keys: Vec<Key<'a>>,
    _held: Held<'a>,
}

/// How the keys of an expression are numbered.
#[derive(Debug)]
struct Key<'a> {
    expr: &'a BoundExpr,
    /// Of texts, for each fragment.
    maps: Vec<Map>,
    texts: Option<Arc<SortedTexts>>,
}

impl<'a> Numbering<'a> {
    /// The numbers for a query that makes groups of whole fragments; none where each block makes its own.
    pub(super) fn new(
        keys: &'a [BoundExpr],
        arguments: &Arguments<'_>,
        snapshot: &Snapshot,
        scan: &Scan<'_, '_>,
        control: &'a Control,
    ) -> Result<Option<Self>> {
        let fragments = snapshot.fragments();
        let supported = arguments.all.iter().all(|argument| {
            let is_text = argument.data_type == Some(DataType::Utf8);
            !argument.distinct && (!argument.extremes || !is_text || has_codes(argument.expr, fragments))
        });
        if keys.is_empty() || !supported {
            return Ok(None);
        }
        let Some(bounds) = keys.iter().map(|key| Bounds::of(key, fragments)).collect::<Option<Vec<_>>>()
        else {
            return Ok(None);
        };
        let groups = bounds.iter().fold(1_usize, |all, of| all.saturating_mul(of.least));
        let entries: usize = bounds.iter().map(|of| of.entries).sum();
        let rows = selected(scan);
        let threads = control.install(threads);
        // A fragment is one thread's work, so that few of them are for few threads.
        let shared = fragments.len() < threads && groups < MANY_GROUPS << 4;
        if groups <= MANY_GROUPS || rows < groups.min(1 << 16) || shared || entries > FEW_ENTRIES.max(2 * rows) {
            return Ok(None);
        }
        let mut held = Held::new(control);
        let mut numbered = Vec::with_capacity(keys.len());
        let mut ranges = Vec::with_capacity(keys.len());
        for (expr, bounds) in keys.iter().zip(bounds) {
            let (mut maps, mut texts) = (Vec::new(), None);
            let mut range = bounds.range;
            match expr {
                BoundExpr::Slot(slot) if bounds.entries > 0 => {
                    let columns: Vec<&Column> = fragments.iter().map(|f| f.column(*slot)).collect();
                    let dictionaries = columns.iter().map(|column| entries_of(column));
                    let all;
                    (all, maps) = match dictionaries.collect::<Option<Vec<_>>>() {
                        Some(dictionaries) => merged(&dictionaries, control, &mut held)?,
                        None => hashed(&columns, control, &mut held)?,
                    };
                    range.1 = i64::from(count(all.len().saturating_sub(1)));
                    texts = Some(Arc::new(all));
                }
                BoundExpr::Attribute(attribute) => {
                    let all = attribute.lookup.texts();
                    texts = all.map(|all| Arc::new(all.iter().map(|text| &**text).collect::<SortedTexts>()));
                    held.set(held.bytes() + texts.iter().map(|texts| texts.size()).sum::<usize>())?;
                }
                _ => {}
            }
            ranges.push(Some(KeyRange { low: range.0, high: range.1, nullable: bounds.nullable }));
            numbered.push(Key { expr, maps, texts });
        }
        let radix = Radix::new(ranges, isize::MAX.cast_unsigned());
        Ok(radix.map(|radix| Self { radix: Arc::new(radix), keys: numbered, _held: held }))
    }

    /// The numbers of all fragments.
    pub(super) fn radix(&self) -> &Arc<Radix> {
        &self.radix
    }

    /// Numbers of one fragment alone, where they span much less; `most` of them at most.
    pub(super) fn of_fragment(&self, fragment: &Fragment, most: usize) -> Option<Radix> {
        let range = |key: &Key<'_>| match key.expr {
            BoundExpr::Slot(slot) if key.texts.is_none() => {
                let column = fragment.column(*slot);
                let (low, high) = column_range(column).unwrap_or((0, 0));
                Some(KeyRange { low, high, nullable: column.nulls() > 0 })
            }
            _ => None,
        };
        let radix = Radix::new(self.keys.iter().map(range), most)?;
        (radix.size() <= self.radix.size() / 2).then_some(radix)
    }

    /// The texts of a key, where it has some.
    pub(super) fn texts(&self, key: usize) -> Option<&Arc<SortedTexts>> {
        self.keys[key].texts.as_ref()
    }

    /// Turns codes of the dictionary of the fragment at a place into numbers.
    pub(super) fn translate(&self, key: usize, at: usize, codes: &mut [i64]) {
        // Default: keys that are no codes are not translated.
        if let Some(Map::Codes(map)) = self.keys[key].maps.get(at) {
            codes.iter_mut().for_each(|code| *code = map[index(code.cast_unsigned())].into());
        }
    }

    /// The numbers of the rows of the fragment at a place, where its texts have no codes.
    pub(super) fn of_rows(&self, key: usize, at: usize) -> Option<&[u32]> {
        match self.keys[key].maps.get(at) {
            Some(Map::Rows(rows)) => Some(rows),
            _ => None,
        }
    }

    /// The numbers of groups of the fragment at a place, in whose keys texts are codes.
    pub(super) fn numbers(&self, keys: &KeyTable, at: usize) -> Vec<u64> {
        let mut key = vec![None; self.keys.len()];
        let mut number = |group: usize| {
            for (part, out) in key.iter_mut().enumerate() {
                *out = keys.part(group, part);
                self.translate(part, at, out.as_mut_slice());
            }
            self.radix.place(&key) as u64
        };
        (0..keys.len()).map(&mut number).collect()
    }
}

/// Threads that share the work of this one.
pub(super) fn threads() -> usize {
    // Default: only a pool's own thread shares its work.
    rayon::current_thread_index().map_or(1, |_| rayon::current_num_threads())
}

/// How many rows the filter should leave.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an estimate of rows"
)]
fn selected(scan: &Scan<'_, '_>) -> usize {
    let rows =
        |blocks: &[(super::Block<'_>, bool)]| blocks.iter().map(|(block, _)| block.rows()).sum::<usize>();
    let of_fragment = |blocks: &[(super::Block<'_>, bool)]| {
        let (first, _) = blocks[0];
        // Default: without a filter all rows are selected.
        let share = scan.filters.get(first.at).map_or(1.0, |conjuncts| {
            conjuncts.iter().map(|one| Estimate::of(&one.pred, first.fragment).share).product()
        });
        (rows(blocks) as f64 * share) as usize
    };
    scan.blocks.chunk_by(|(a, _), (b, _)| a.at == b.at).map(of_fragment).sum()
}

/// What is known of a key before its texts are merged.
struct Bounds {
    range: (i64, i64),
    nullable: bool,
    /// How many distinct keys there are at least, or, of numbers, may be.
    least: usize,
    /// Entries of all dictionaries.
    entries: usize,
}

impl Bounds {
    fn of(key: &BoundExpr, fragments: &[Fragment]) -> Option<Self> {
        let slot = match key {
            BoundExpr::Slot(slot) => *slot,
            BoundExpr::Attribute(attribute) => {
                let range = attribute_range(attribute);
                let is_float = attribute.lookup.data_type().is_float();
                let range = range.filter(|_| !is_float)?;
                return Some(Self { range, nullable: true, least: spanned(range), entries: 0 });
            }
            BoundExpr::Literal(_) | BoundExpr::Arithmetic(..) | BoundExpr::Time(..) => return None,
        };
        let columns = || fragments.iter().map(|fragment| fragment.column_at(slot));
        let nullable = columns().flatten().any(|column| column.nulls() > 0);
        let mut bounds = Self { range: (0, 0), nullable, least: 1, entries: 0 };
        let mut range: Option<(i64, i64)> = None;
        for column in columns() {
            let column = column.filter(|column| !column.data_type().is_float())?;
            match column.values() {
                Values::Text(_) => {
                    // Without a dictionary nearly all are different.
                    let entries = entries_of(column).map_or(column.rows(), |entries| entries.rows());
                    bounds.least = bounds.least.max(entries);
                    bounds.entries += entries;
                }
                Values::Keys(_) => {
                    let both = range.into_iter().chain(column_range(column));
                    range = both.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
                }
            }
        }
        if let Some(range) = range {
            (bounds.range, bounds.least) = (range, spanned(range));
        }
        Some(bounds)
    }
}

fn spanned((low, high): (i64, i64)) -> usize {
    // Default: more than any number of groups.
    usize::try_from(high.abs_diff(low)).unwrap_or(usize::MAX).saturating_add(1)
}

fn column_range(column: &Column) -> Option<(i64, i64)> {
    let ranges = column.zones().iter().filter_map(|zone| zone.range);
    ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// The entries of a dictionary of texts.
fn entries_of(column: &Column) -> Option<&dyn TextColumn> {
    match column.values() {
        Values::Text(texts) => texts.codes().map(|codes| codes.entries),
        Values::Keys(_) => None,
    }
}

/// Whether an expression of texts has codes in every fragment.
fn has_codes(expr: &BoundExpr, fragments: &[Fragment]) -> bool {
    match expr {
        BoundExpr::Slot(slot) => fragments
            .iter()
            .all(|fragment| fragment.column_at(*slot).is_some_and(|column| entries_of(column).is_some())),
        BoundExpr::Attribute(_) => true,
        BoundExpr::Literal(_) | BoundExpr::Arithmetic(..) | BoundExpr::Time(..) => false,
    }
}

/// Distinct texts in their order.
#[derive(Debug, Default)]
pub(super) struct SortedTexts {
    bytes: String,
    /// Where each ends.
    ends: Vec<usize>,
    /// Bytes of the longest.
    longest: usize,
}

impl SortedTexts {
    /// The text at a place.
    pub(super) fn get(&self, at: usize) -> &str {
        // Default: the first begins at 0.
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes held.
    pub(super) fn size(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// Bytes of the longest.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    fn push(&mut self, text: &str) {
        self.longest = self.longest.max(text.len());
        self.bytes.push_str(text);
        self.ends.push(self.bytes.len());
    }
}

impl<'t> FromIterator<&'t str> for SortedTexts {
    fn from_iter<T: IntoIterator<Item = &'t str>>(texts: T) -> Self {
        let mut all = Self::default();
        texts.into_iter().for_each(|text| all.push(text));
        all
    }
}

/// How a fragment's texts are numbered.
#[derive(Clone, Debug)]
enum Map {
    /// By their codes.
    Same,
    /// The number of each code.
    Codes(Vec<u32>),
    /// The number of each row; any where it is null.
    Rows(Vec<u32>),
}

impl Map {
    fn bytes(&self) -> usize {
        match self {
            Self::Same => 0,
            Self::Codes(numbers) | Self::Rows(numbers) => size_of_val(numbers.as_slice()),
        }
    }
}

/// Bytes of texts that are merged between two looks at whether the query goes on, about.
const MERGED: usize = 1 << 16;

/// All texts of some dictionaries, and for each dictionary the places of its texts; none where they are its codes.
fn merged(
    dictionaries: &[&dyn TextColumn],
    control: &Control,
    held: &mut Held<'_>,
) -> Result<(SortedTexts, Vec<Map>)> {
    let mut all = SortedTexts::default();
    // For each dictionary, where the texts before it and where its own have gone; none where they have stayed.
    let mut moves: Vec<(Option<Vec<u32>>, Option<Vec<u32>>)> = Vec::with_capacity(dictionaries.len());
    let mut last: Option<(&[u8], usize)> = None;
    let before = held.bytes();
    let mut kept = 0;
    for dictionary in dictionaries {
        control.check()?;
        let encoded = dictionary.buffer().as_slice();
        // Equal dictionaries are the rule.
        if let Some((bytes, at)) = last
            && bytes == encoded
        {
            let own = moves[at].1.clone();
            kept += own.iter().map(|own| size_of_val(own.as_slice())).sum::<usize>();
            moves.push((None, own));
            continue;
        }
        let own = dictionary.decode(0, dictionary.rows(), None);
        let decoded = dictionary.rows() * size_of::<std::ops::Range<usize>>() + all.size();
        held.set(before + kept + 2 * all.size() + decoded)?;
        let mut union = SortedTexts::default();
        let (mut of_all, mut of_own) = (Vec::with_capacity(all.len()), Vec::with_capacity(own.len()));
        let (mut a, mut b) = (0, 0);
        while a < all.len() || b < own.len() {
            if (a + b).is_multiple_of(MERGED) {
                control.check()?;
            }
            let place = count(union.len());
            let order = match (a < all.len(), b < own.len()) {
                (true, true) => all.get(a).cmp(own.get(b)),
                (true, false) => std::cmp::Ordering::Less,
                (false, _) => std::cmp::Ordering::Greater,
            };
            union.push(if order.is_le() { all.get(a) } else { own.get(b) });
            if order.is_le() {
                of_all.push(place);
                a += 1;
            }
            if order.is_ge() {
                of_own.push(place);
                b += 1;
            }
        }
        let stayed = |moved: Vec<u32>| (moved.len() != union.len()).then_some(moved);
        let (of_all, of_own) = (stayed(of_all), stayed(of_own));
        kept += [&of_all, &of_own]
            .into_iter()
            .flatten()
            .map(|moved| size_of_val(moved.as_slice()))
            .sum::<usize>();
        last = Some((encoded, moves.len()));
        moves.push((of_all, of_own));
        all = union;
        held.set(before + kept + all.size())?;
    }
    // Where the texts of all dictionaries up to one have gone in the end.
    let mut later: Option<Vec<u32>> = None;
    let mut maps = Vec::with_capacity(moves.len());
    for (of_all, of_own) in moves.into_iter().rev() {
        let to = |moved: Option<Vec<u32>>| match (moved, &later) {
            (Some(moved), Some(later)) => Some(moved.iter().map(|place| later[*place as usize]).collect()),
            (moved, later) => moved.or_else(|| later.clone()),
        };
        maps.push(to(of_own).map_or(Map::Same, Map::Codes));
        later = to(of_all);
    }
    maps.reverse();
    held.set(before + maps.iter().map(Map::bytes).sum::<usize>() + all.size())?;
    Ok((all, maps))
}

/// All texts of columns of which some have no dictionary: each row's text is looked up once.
fn hashed(columns: &[&Column], control: &Control, held: &mut Held<'_>) -> Result<(SortedTexts, Vec<Map>)> {
    let mut all = SortedTexts::default();
    let hasher = DefaultHashBuilder::default();
    let mut table: HashTable<u32> = HashTable::new();
    let mut id = |text: &str, all: &mut SortedTexts| {
        let is = |id: &u32| all.get(*id as usize) == text;
        let hash = |id: &u32| hasher.hash_one(all.get(*id as usize));
        match table.entry(hasher.hash_one(text), is, hash) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let new = count(all.len());
                entry.insert(new);
                all.push(text);
                new
            }
        }
    };
    let before = held.bytes();
    let mut maps: Vec<Map> = Vec::with_capacity(columns.len());
    let mut kept = 0;
    for column in columns {
        let Values::Text(texts) = column.values() else { broken("a key of texts is a column of texts") };
        let entries = entries_of(column);
        // Default: without a dictionary every row has a text of its own.
        let texts = entries.unwrap_or(texts.as_ref());
        let mut numbers: Vec<u32> = Vec::with_capacity(texts.rows());
        for start in (0..texts.rows()).step_by(BATCH_ROWS) {
            control.check()?;
            // The hash table and what holds the texts may be half empty, and are there twice while they grow.
            let found = 2 * (all.size() + all.len() * HASHED);
            held.set(before + kept + texts.rows() * size_of::<u32>() + found)?;
            let rows = (texts.rows() - start).min(BATCH_ROWS);
            let valid = if entries.is_some() { None } else { column.validity_words(start, rows) };
            let batch = texts.decode(start, rows, valid.as_deref());
            numbers.extend((0..rows).map(|row| match selects(valid.as_deref(), row) {
                true => id(batch.get(row), &mut all),
                false => 0,
            }));
        }
        maps.push(if entries.is_some() { Map::Codes(numbers) } else { Map::Rows(numbers) });
        kept = maps.iter().map(Map::bytes).sum();
    }
    drop(table);
    control.check()?;
    held.set(before + kept + 2 * all.size() + all.len() * (SORTED + size_of::<u32>()))?;
    let order = sorted(&all);
    let mut ranks = vec![0; all.len()];
    (0..).zip(&order).for_each(|(rank, id)| ranks[*id as usize] = rank);
    control.check()?;
    for map in &mut maps {
        if let Map::Codes(numbers) | Map::Rows(numbers) = map {
            // Default: where there are no texts, all rows are null.
            numbers.iter_mut().for_each(|id| *id = ranks.get(*id as usize).copied().unwrap_or(0));
        }
    }
    let all: SortedTexts = order.iter().map(|id| all.get(*id as usize)).collect();
    held.set(before + kept + all.size())?;
    Ok((all, maps))
}

/// Bytes of a text's place in a hash table.
const HASHED: usize = size_of::<u32>() + 1;
/// Bytes of a text while texts are sorted.
const SORTED: usize = size_of::<(u64, u32)>();

/// The places of texts in their order: by the bytes behind what all begin with, then by all of them.
fn sorted(texts: &SortedTexts) -> Vec<u32> {
    let bytes = |at: usize| texts.get(at).as_bytes();
    let mut common = if texts.len() == 0 { 0 } else { bytes(0).len() };
    for at in 1..texts.len() {
        let pairs = bytes(0)[..common].iter().zip(bytes(at));
        common = pairs.take_while(|(a, b)| a == b).count();
    }
    let key = |at: usize| {
        let mut key = [0; 8];
        key.iter_mut().zip(&bytes(at)[common..]).for_each(|(key, byte)| *key = *byte);
        u64::from_be_bytes(key)
    };
    let mut order: Vec<(u64, u32)> = (0..count(texts.len())).map(|at| (key(at as usize), at)).collect();
    order.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0).then_with(|| bytes(a.1 as usize).cmp(bytes(b.1 as usize)))
    });
    order.into_iter().map(|(_, at)| at).collect()
}
