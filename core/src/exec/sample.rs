//! How many rows a plan should give: what statistics know is exact, the rest follows from a sample of the rows. A sample
//! takes a fraction of a millisecond, which Explain has and a query that waits to be run has not.

use std::{
    borrow::Cow,
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use super::{
    Block, Control, Scan,
    conjuncts::{self, Conjunct},
    filter,
    numbering::{column_range, spanned},
    sorted_texts::entries_of,
    vector::{Batch, Data, Vector},
};
use crate::{
    encoding::UNIT_ROWS,
    error::Result,
    fragment::Values,
    mask::{Mask, selects},
    plan::{
        Plan, Shape,
        expr::{BoundExpr, Slots},
        pred::Pred,
    },
    table::Snapshot,
    value::Value,
};

/// Rows that are looked at, about, of so many blocks at most.
const SAMPLED_ROWS: usize = 1 << 15;
const SAMPLED_BLOCKS: usize = 64;

/// So many rows of a sample have to be selected before it is believed more than statistics are.
const ENOUGH: f64 = 16.0;

/// What a plan should give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Rows that its filter selects.
    pub selected: u64,
    /// Rows of its answer.
    pub answer: u64,
}

/// What a sample has found.
#[derive(Debug, Default)]
struct Found {
    /// Rows looked at, of those that statistics leave open.
    seen: u64,
    /// Those of them that the filter selects.
    hits: u64,
    /// How often each key of a group was met, by its hash.
    groups: HashMap<u64, u32>,
    /// Rows that were grouped.
    grouped: u64,
}

impl Plan {
    /// What the plan should give of a version of so many rows, of which those of a snapshot are known: the others are taken
    /// to be like these. Its sets are prepared. `None`: that cannot be told.
    pub fn expected(&self, snapshot: &Snapshot, rows: u64) -> Option<Expected> {
        let control = Control::default();
        let scan = Scan::new(snapshot, self.filter.as_ref(), &control).ok()?;
        let keys = match &self.shape {
            Shape::Groups { keys, .. } if keys.iter().all(|key| is_short(key, &scan)) => keys.as_slice(),
            _ => &[],
        };
        // What fails at a row may fail when the query runs, which then says so.
        let found = sampled(&scan, &self.rows, keys).ok()?;
        let scale = as_float(rows) / as_float(snapshot.rows().max(1));
        let selected = selected(&scan, snapshot, &found) * scale;
        let groups = match &self.shape {
            Shape::Rows => selected,
            Shape::Groups { keys, .. } if keys.is_empty() => 1.0,
            Shape::Groups { keys, having, .. } => {
                let groups = self.groups(keys, snapshot, &found, selected);
                if having.is_some() { groups * conjuncts::RANGE_SHARE } else { groups }
            }
        };
        Some(Expected { selected: whole(selected), answer: self.page(whole(groups)) })
    }

    /// The share of the rows of a snapshot that a condition of this plan should let pass.
    pub(super) fn expected_share(&self, pred: &Pred, snapshot: &Snapshot) -> f64 {
        let control = Control::default();
        // Default: what statistics say.
        let share = || conjuncts::Estimate::of_all(pred, snapshot).share;
        let Ok(scan) = Scan::new(snapshot, Some(pred), &control) else { return share() };
        let Ok(found) = sampled(&scan, &self.rows, &[]) else { return share() };
        selected(&scan, snapshot, &found) / as_float(snapshot.rows().max(1))
    }

    /// So many rows without those that are left out, and within the limit.
    fn page(&self, rows: u64) -> u64 {
        // Default: no limit is all of them.
        rows.saturating_sub(self.offset).min(self.limit.unwrap_or(u64::MAX))
    }

    /// The same of fragments of which only their rows and some bounds are known, each given by its id and its rows; `None`:
    /// there are groups, of which nothing is known.
    pub fn expected_by_bounds(
        &self,
        fragments: &[(u32, u64)],
        bounds: &dyn Fn(u32, usize) -> Option<(i64, i64)>,
    ) -> Option<Expected> {
        let of_fragment = |(id, rows): &(u32, u64)| {
            // Default: without a filter all rows are selected.
            let share = self
                .filter
                .as_ref()
                .map_or(1.0, |pred| conjuncts::share_by_bounds(pred, &|slot| bounds(*id, slot)));
            as_float(*rows) * share
        };
        let selected = whole(fragments.iter().map(of_fragment).sum());
        let rows = match &self.shape {
            Shape::Rows => selected,
            Shape::Groups { keys, .. } if keys.is_empty() => 1,
            Shape::Groups { .. } => return None,
        };
        Some(Expected { selected, answer: self.page(rows) })
    }

    /// How many groups there should be: by those of the sample, and no more than columns count.
    fn groups(&self, keys: &[BoundExpr], snapshot: &Snapshot, found: &Found, selected: f64) -> f64 {
        let of_keys: Vec<_> = keys.iter().map(|key| distinct(key, snapshot)).collect();
        let most = of_keys.iter().map(|(_, most)| most).product::<f64>().min(selected);
        let least = match (&self.filter, of_keys.as_slice()) {
            // Deleted rows are counted, too.
            (None, [(least, _)]) => least.min(most),
            _ => 0.0,
        };
        if found.grouped == 0 {
            return most;
        }
        let (rows, distinct) = (as_float(found.grouped), as_float(found.groups.len() as u64));
        let once = as_float(found.groups.values().filter(|count| **count == 1).count() as u64);
        // Haas and Stokes, "Estimating the number of classes in a finite population", 1998: Duj1, which is right where
        // all rows were looked at, and where all of them are different.
        let share = (rows / selected.max(rows)).min(1.0);
        let all = rows * distinct / (rows - once + once * share).max(1.0);
        let least = least.max(distinct);
        all.clamp(least, most.max(least))
    }
}

/// Filters some rows of some blocks, and groups what is selected of them.
fn sampled(scan: &Scan<'_, '_>, slots: &Slots, keys: &[BoundExpr]) -> Result<Found> {
    // Without keys, what statistics have decided need not be looked at.
    let wanted: Vec<_> = scan.blocks.iter().filter(|(_, all)| !all || !keys.is_empty()).collect();
    let blocks: Vec<_> = wanted.iter().step_by(wanted.len().div_ceil(SAMPLED_BLOCKS).max(1)).collect();
    let rows: usize = blocks.iter().map(|(block, _)| block.rows()).sum();
    let step = rows.div_ceil(SAMPLED_ROWS).max(1);
    let mut found = Found::default();
    for (block, all) in blocks {
        let some = every(step, *block).and(block.live());
        let selected = match scan.filters.get(block.at) {
            Some(conjuncts) if !all => {
                found.seen += some.count(block.rows()) as u64;
                let selected = filter::mask_under(&uncounted(conjuncts), slots, *block, some)?;
                found.hits += selected.count(block.rows()) as u64;
                selected
            }
            _ => some,
        };
        if !keys.is_empty() {
            found.grouped += selected.count(block.rows()) as u64;
            block.for_each_few(&selected, |batch| {
                for hash in hashes(batch, keys, slots)? {
                    *found.groups.entry(hash).or_default() += 1;
                }
                Ok(())
            })?;
        }
    }
    Ok(found)
}

/// The same conditions, whose sets do not count what they are asked.
fn uncounted<'a>(conjuncts: &'a [Conjunct<'_>]) -> Vec<Conjunct<'a>> {
    let bare = |conjunct: &'a Conjunct<'_>| {
        let mut sets = Vec::new();
        conjunct.pred.sets(&mut sets);
        let pred = match sets.is_empty() {
            true => Cow::Borrowed(&*conjunct.pred),
            false => Cow::Owned(without_sets(&conjunct.pred)),
        };
        Conjunct { at: conjunct.at, pred }
    };
    conjuncts.iter().map(bare).collect()
}

fn without_sets(pred: &Pred) -> Pred {
    match pred {
        Pred::Set { test, .. } => without_sets(test),
        Pred::And(preds) => Pred::And(preds.iter().map(without_sets).collect()),
        Pred::Or(preds) => Pred::Or(preds.iter().map(without_sets).collect()),
        other => other.clone(),
    }
}

/// How many rows are selected, by statistics and by a sample.
fn selected(scan: &Scan<'_, '_>, snapshot: &Snapshot, found: &Found) -> f64 {
    let (known, open) = known(scan, snapshot);
    let by_statistics = (by_shares(scan) - known).clamp(0.0, open);
    known + of_open(open, found, by_statistics)
}

/// The rows that statistics alone show to be selected, and those that they leave open.
fn known(scan: &Scan<'_, '_>, snapshot: &Snapshot) -> (f64, f64) {
    let (mut known, mut open) = (0, 0);
    for blocks in scan.blocks.chunk_by(|(a, _), (b, _)| a.at == b.at) {
        let fragment = &snapshot.fragments()[blocks[0].0.at];
        let counted = match scan.filters.get(blocks[0].0.at).map(Vec::as_slice) {
            Some([only]) => filter::count(&only.pred, fragment),
            _ => None,
        };
        if let Some(counted) = counted {
            known += counted;
            continue;
        }
        for (block, all) in blocks {
            let rows = block.live().count(block.rows()) as u64;
            if *all { known += rows } else { open += rows }
        }
    }
    (as_float(known), as_float(open))
}

/// How many of the open rows are selected: as many as of the sample, or, where that has too few of them, what statistics
/// say as far as the sample allows for it.
fn of_open(open: f64, found: &Found, by_statistics: f64) -> f64 {
    if found.seen == 0 {
        return by_statistics;
    }
    let (seen, hits) = (as_float(found.seen), as_float(found.hits));
    let of = |hits: f64| (open * hits / seen).clamp(0.0, open);
    if hits >= ENOUGH || seen >= open {
        return of(hits);
    }
    // About two standard deviations of what is rare.
    let width = 2.0 * hits.sqrt() + 1.0;
    by_statistics.clamp(of((hits - width).max(0.0)), of(hits + width))
}

/// What the shares of the conjuncts come to, of all rows.
fn by_shares(scan: &Scan<'_, '_>) -> f64 {
    let fragments = scan.blocks.chunk_by(|(a, _), (b, _)| a.at == b.at);
    let of_fragment = |blocks: &[(Block<'_>, bool)]| {
        let (first, _) = blocks[0];
        let rows = as_float(first.fragment.live_rows() as u64);
        // Default: without a filter all rows are selected.
        let share = scan.filters.get(first.at).map_or(1.0, |conjuncts| {
            conjuncts.iter().map(|one| conjuncts::Estimate::of(&one.pred, first.fragment).share).product()
        });
        rows * share
    };
    fragments.map(of_fragment).sum()
}

/// One of so many rows of a block, each at another place among those that it stands for: rows may repeat in step.
fn every(step: usize, block: Block<'_>) -> Mask {
    let rows = block.rows();
    if step == 1 {
        return filter::first(rows);
    }
    Mask::from_fn(rows, |words| {
        for (i, start) in (0..rows).step_by(step).enumerate() {
            let mixed = (block.start() + i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let row = start + mixed % step;
            if row < rows {
                words[row / 64] |= 1 << (row % 64);
            }
        }
    })
}

/// Whether the values of a key are short on average: long texts are not decoded to count them.
fn is_short(key: &BoundExpr, scan: &Scan<'_, '_>) -> bool {
    let BoundExpr::Slot(slot) = key else { return true };
    scan.blocks.iter().all(|(block, _)| {
        let column = block.fragment.column_at(*slot);
        column.is_none_or(|column| column.text_bytes() <= column.rows().saturating_mul(UNIT_ROWS))
    })
}

/// How many values a key can have at least and at most, as far as columns tell.
fn distinct(key: &BoundExpr, snapshot: &Snapshot) -> (f64, f64) {
    let BoundExpr::Slot(slot) = key else { return (1.0, f64::INFINITY) };
    let (mut least, mut most) = (1.0_f64, 0.0);
    let mut range: Option<(i64, i64)> = None;
    for fragment in snapshot.fragments() {
        // Default: an address is another one in each row.
        let Some(column) = fragment.column_at(*slot) else { return (1.0, f64::INFINITY) };
        let counted = match (column.counts(), column.values()) {
            (Some(counts), _) => Some(counts.len()),
            (None, Values::Keys(keys)) => keys.codes().map(|codes| codes.entries.len()),
            (None, Values::Text(_)) => entries_of(column).map(|entries| entries.rows()),
        };
        let counted = counted.map(|counted| as_float((counted + usize::from(column.nulls() > 0)) as u64));
        // Default: not counted, so that it may be any number.
        least = least.max(counted.unwrap_or(1.0));
        // Default: as before.
        most += counted.unwrap_or(f64::INFINITY);
        let is_float = column.data_type().is_float() || matches!(column.values(), Values::Text(_));
        let own = if is_float { Some((i64::MIN, i64::MAX)) } else { column_range(column) };
        range = range.into_iter().chain(own).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    }
    // All fragments may have the same values; and one more is null.
    // Default: nothing spans no numbers.
    let spanned = range.map_or(0.0, |range| as_float(spanned(range) as u64)) + 1.0;
    (least, most.min(spanned))
}

/// A hash of the keys of each selected row of a batch.
fn hashes(batch: &Batch<'_, '_>, keys: &[BoundExpr], slots: &Slots) -> Result<Vec<u64>> {
    let vectors = keys.iter().map(|key| batch.eval(key, slots)).collect::<Result<Vec<_>>>()?;
    let mut rows = Vec::new();
    batch.selection(&mut rows);
    let hash = |row: &u32| {
        let (row, mut hasher) = (*row as usize, DefaultHasher::new());
        vectors.iter().for_each(|vector| hash_of(vector, row, &mut hasher));
        hasher.finish()
    };
    Ok(rows.iter().map(hash).collect())
}

fn hash_of(vector: &Vector<'_>, row: usize, hasher: &mut DefaultHasher) {
    if !selects(vector.valid.as_deref(), row) {
        return hasher.write_u8(0);
    }
    match &vector.data {
        Data::Ints(ints) => ints[row].hash(hasher),
        Data::UInts(ints) => ints[row].hash(hasher),
        Data::Floats(floats) => floats[row].to_bits().hash(hasher),
        Data::Texts(texts) => texts.get(row).hash(hasher),
        Data::One(Value::Null) => hasher.write_u8(0),
        // The same for all rows.
        Data::One(_) => hasher.write_u8(1),
    }
}

#[allow(clippy::cast_precision_loss, reason = "an estimate")]
fn as_float(n: u64) -> f64 {
    n as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate, not less than 0")]
fn whole(n: f64) -> u64 {
    n.round() as u64
}
