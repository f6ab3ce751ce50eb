//! The keys of groups as numbers that are the same in all fragments. Where the least and the greatest of each key are
//! known, a group's keys are one number in their order; the last of them have a second one where one does not hold all. The
//! dictionaries of fragments are sorted, so that texts get
//! their numbers by merging them: no row's text is looked at. Texts without a dictionary are
//! looked up, each row's once.

use std::sync::Arc;

use super::{
    Scan,
    conjuncts::Estimate,
    control::{Control, Held},
    group_keys::KeyTable,
    radix::{KeyRange, Radix},
    sorted_texts::{Map, SortedTexts, entries_of, hashed, merged},
    source::{attribute_range, integer_codes},
    totals::Arguments,
};
use crate::{
    error::Result,
    fragment::{Column, Fragment, Values},
    invariant::{count, index},
    plan::expr::BoundExpr,
    schema::DataType,
    table::Snapshot,
};

/// Groups of a fragment, from which on they are not made block by block.
const MANY_GROUPS: usize = 1 << 10;
/// Arguments of aggregates whose records fit: the words of a fragment's records are numbered in 32 bits.
const FEW_ARGUMENTS: usize = 1 << 6;
/// Entries of dictionaries that may be merged, however few rows are selected.
const FEW_ENTRIES: usize = 1 << 12;

/// The numbers of a query's groups.
#[derive(Debug)]
pub(super) struct Numbering<'a> {
    radix: Arc<Radix>,
    /// That of the keys which the first has no room for.
    rest: Option<Arc<Radix>>,
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
        if keys.is_empty() || !supported || arguments.all.len() > FEW_ARGUMENTS {
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
        if groups <= MANY_GROUPS
            || rows < groups.min(1 << 16)
            || shared
            || entries > FEW_ENTRIES.max(2 * rows)
        {
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
        let of_all = radix(&ranges).map(|radix| (radix, None));
        let Some((radix, rest)) = of_all.or_else(|| of_two(&ranges)) else { return Ok(None) };
        Ok(Some(Self { radix: Arc::new(radix), rest: rest.map(Arc::new), keys: numbered, _held: held }))
    }

    /// The numbers of all fragments.
    pub(super) fn radix(&self) -> &Arc<Radix> {
        &self.radix
    }

    /// The second numbers, of the keys behind those of the first, where there are such.
    pub(super) fn rest(&self) -> Option<&Arc<Radix>> {
        self.rest.as_ref()
    }

    /// The integers that the codes of a key in a fragment stand for, where there are codes and these span less.
    pub(super) fn entries<'f>(&self, key: usize, fragment: &'f Fragment) -> Option<&'f [i64]> {
        match self.keys[key].expr {
            BoundExpr::Slot(slot) if self.keys[key].texts.is_none() => {
                let column = fragment.column_at(*slot)?;
                let (low, high) = column_range(column)?;
                let entries = integer_codes(column)?.entries;
                (entries.len() as u64 <= high.abs_diff(low)).then_some(entries)
            }
            _ => None,
        }
    }

    /// Numbers of one fragment alone, where they span much less; `most` of them at most. Keys that have entries in the
    /// fragment are their codes.
    pub(super) fn of_fragment(&self, fragment: &Fragment, most: usize) -> Option<Radix> {
        let range = |(at, key): (usize, &Key<'_>)| match key.expr {
            BoundExpr::Slot(slot) if key.texts.is_none() => {
                let column = fragment.column(*slot);
                let (low, high) = match self.entries(at, fragment) {
                    Some(entries) => (0, i64::from(count(entries.len() - 1))),
                    None => column_range(column).unwrap_or((0, 0)),
                };
                Some(KeyRange { low, high, nullable: column.nulls() > 0 })
            }
            _ => None,
        };
        let radix = Radix::new(self.keys.iter().enumerate().map(range), most)?;
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

/// The numbers of keys of these ranges, where 64 bits hold them.
fn radix(ranges: &[Option<KeyRange>]) -> Option<Radix> {
    let radix = Radix::new(ranges.iter().copied(), usize::MAX)?;
    // Where numbers are no places, gaps between them cost nothing.
    if radix.size() <= super::numbers::MOST_PLACES {
        return Some(radix);
    }
    Some(Radix::in_bits(ranges.iter().copied(), usize::MAX).unwrap_or(radix))
}

/// The same in two numbers: the first is of as many keys as it holds.
fn of_two(ranges: &[Option<KeyRange>]) -> Option<(Radix, Option<Radix>)> {
    let of = |first: usize| Some((radix(&ranges[..first])?, Some(radix(&ranges[first..])?)));
    (1..ranges.len()).rev().find_map(of)
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
pub(super) fn selected(scan: &Scan<'_, '_>) -> usize {
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
    /// How many distinct keys there are at least, or, of numbers without a dictionary, may be.
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
        let mut coded = Some(1);
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
                Values::Keys(keys) => {
                    let entries = keys.codes().map(|codes| codes.entries.len());
                    coded = coded.zip(entries).map(|(most, entries)| most.max(entries));
                    let both = range.into_iter().chain(column_range(column));
                    range = both.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
                }
            }
        }
        if let Some(range) = range {
            // Default: what has no dictionary may be any number of them.
            (bounds.range, bounds.least) = (range, coded.unwrap_or(usize::MAX).min(spanned(range)));
        }
        Some(bounds)
    }
}

pub(super) fn spanned((low, high): (i64, i64)) -> usize {
    // Default: more than any number of groups.
    usize::try_from(high.abs_diff(low)).unwrap_or(usize::MAX).saturating_add(1)
}

pub(super) fn column_range(column: &Column) -> Option<(i64, i64)> {
    let ranges = column.zones().iter().filter_map(|zone| zone.range);
    ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
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
