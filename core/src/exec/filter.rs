//! From a predicate to the mask of a block: first what statistics know, then the encoded columns.

use std::{borrow::Cow, sync::Arc};

use basalt_sip::BlockMask;

use super::{
    Block, Control,
    conjuncts::Conjunct,
    profile::{Step, Watch},
};
use crate::{
    encoding::{KeyColumn, KeyTest, LOOK_UP_COST, UNIT_ROWS},
    error::Result,
    fragment::{Column, Fragment, Values},
    invariant::{Invariant, broken},
    limits::{BATCH_ROWS, BLOCK_WORDS},
    mask::Mask,
    plan::{expr::Slots, pred::Pred},
    table::Snapshot,
};

/// What statistics know of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No row passes.
    None,
    /// Every row passes.
    All,
    /// The column has to be read.
    Some,
}

/// A filter as a fragment sees it: where text has codes, its tests become tests of codes; where values were
/// counted, those that none or all of them pass become constants.
pub(super) fn lower<'a>(pred: &'a Pred, fragment: &Fragment) -> Cow<'a, Pred> {
    let each = |preds: &'a [Pred]| -> Option<Vec<Pred>> {
        let lowered: Vec<_> = preds.iter().map(|p| lower(p, fragment)).collect();
        let changed = lowered.iter().any(|p| matches!(p, Cow::Owned(_)));
        changed.then(|| lowered.into_iter().map(Cow::into_owned).collect())
    };
    let lowered = match pred {
        Pred::And(preds) => each(preds).map(Pred::And),
        Pred::Or(preds) => each(preds).map(Pred::Or),
        Pred::Text { slot, test, negated, text } => match fragment.column(*slot).values() {
            Values::Text(texts) => texts.codes().map(|codes| {
                let test = test.over(codes.entries);
                by_counts(fragment.column(*slot), &test, *negated).unwrap_or_else(|| Pred::Keys {
                    slot: *slot,
                    test,
                    codes: None,
                    negated: *negated,
                    text: text.clone(),
                })
            }),
            Values::Keys(_) => None,
        },
        Pred::Keys { slot, test, negated, text, .. } => {
            let column = fragment.column(*slot);
            by_counts(column, test, *negated).or_else(|| {
                // What a range is of codes is found in no time; a set is asked about each entry, once.
                let (KeyTest::In(_), Values::Keys(keys)) = (test, column.values()) else { return None };
                Some(Pred::Keys {
                    slot: *slot,
                    test: test.clone(),
                    codes: Some(test.over(keys.codes()?.entries)),
                    negated: *negated,
                    text: text.clone(),
                })
            })
        }
        Pred::Set { set, test } => match lower(test, fragment) {
            Cow::Owned(test) => Some(Pred::Set { set: Arc::clone(set), test: Box::new(test) }),
            Cow::Borrowed(_) => None,
        },
        _ => None,
    };
    lowered.map_or(Cow::Borrowed(pred), Cow::Owned)
}

/// What a test of a column whose values were counted comes to, where none or all of them pass.
fn by_counts(column: &Column, test: &KeyTest, negated: bool) -> Option<Pred> {
    let counts = column.counts()?;
    let passing = counts.iter().filter(|(key, _)| test.passes(*key) != negated).count();
    match passing {
        0 => Some(Pred::Constant(false)),
        n if n == counts.len() && column.nulls() == 0 => Some(Pred::Constant(true)),
        _ => None,
    }
}

/// Bytes of the sets of codes in a filter that [`lower`] made for a fragment.
pub(super) fn code_bytes(pred: &Pred, fragment: &Fragment) -> usize {
    match pred {
        Pred::And(preds) | Pred::Or(preds) => preds.iter().map(|pred| code_bytes(pred, fragment)).sum(),
        Pred::Set { test, .. } => code_bytes(test, fragment),
        Pred::Keys { codes: Some(KeyTest::In(codes)), .. } => codes.bytes(),
        Pred::Keys { slot, test: KeyTest::In(codes), .. } => match fragment.column(*slot).values() {
            Values::Text(_) => codes.bytes(),
            Values::Keys(_) => 0,
        },
        _ => 0,
    }
}

/// How many blocks statistics show to hold none of the rows, and how many only such rows.
pub(super) fn decided(pred: &Pred, snapshot: &Snapshot, control: &Control) -> (u64, u64) {
    let (mut none, mut all) = (0, 0);
    for (at, fragment) in snapshot.fragments().iter().enumerate() {
        let pred = lower(pred, fragment);
        for block in 0..fragment.blocks() {
            match prune(&pred, Block { fragment, at, block, control }) {
                Verdict::None => none += 1,
                Verdict::All => all += 1,
                Verdict::Some => {}
            }
        }
    }
    (none, all)
}

/// Whether a filter may select rows of a fragment that is elsewhere: `bounds` knows of some of its columns a key that
/// none is less than, and one that none is greater than.
pub fn may_select(
    filter: Option<&Pred>,
    fragment: u32,
    bounds: &dyn Fn(usize) -> Option<(i64, i64)>,
) -> bool {
    let may = |pred: &Pred| may_select(Some(pred), fragment, bounds);
    match filter {
        Some(Pred::Constant(constant)) => *constant,
        Some(Pred::And(preds)) => preds.iter().all(may),
        Some(Pred::Or(preds)) => preds.iter().any(may),
        Some(Pred::Set { test, .. }) => may(test),
        Some(Pred::Keys { slot, test, negated, .. }) => {
            bounds(*slot).is_none_or(|range| by_zone(range, 1, test, *negated) != Verdict::None)
        }
        Some(Pred::Rows { sip, negated: false }) => {
            let first = u64::from(fragment) << 32;
            sip.next_at_or_after(first).is_some_and(|next| next - first <= u64::from(u32::MAX))
        }
        _ => true,
    }
}

/// Decides a block by zone maps, null counts and value counts where that can be.
pub(super) fn prune(pred: &Pred, block: Block<'_>) -> Verdict {
    match pred {
        Pred::Constant(constant) => verdict(!constant, *constant),
        Pred::And(preds) => {
            let mut all = true;
            for pred in preds {
                match prune(pred, block) {
                    Verdict::None => return Verdict::None,
                    verdict => all &= verdict == Verdict::All,
                }
            }
            verdict(false, all)
        }
        Pred::Or(preds) => {
            let mut none = true;
            for pred in preds {
                match prune(pred, block) {
                    Verdict::All => return Verdict::All,
                    verdict => none &= verdict == Verdict::None,
                }
            }
            verdict(none, false)
        }
        Pred::Keys { slot, test, negated, .. } => {
            let zone = block.fragment.column(*slot).zones()[block.block];
            zone.range.map_or(Verdict::None, |range| by_zone(range, zone.nulls, test, *negated))
        }
        Pred::Text { slot, .. } => {
            let nulls = block.fragment.column(*slot).zones()[block.block].nulls as usize;
            verdict(nulls == block.rows(), false)
        }
        Pred::IsNull { slot, negated } => {
            let nulls = block.fragment.column(*slot).zones()[block.block].nulls as usize;
            let (none, all) = (nulls == 0, nulls == block.rows());
            if *negated { verdict(all, none) } else { verdict(none, all) }
        }
        Pred::Set { test, .. } => prune(test, block),
        Pred::Rows { sip, negated } => {
            let first = block.fragment.address(block.start());
            let last = first + (block.rows() as u64 - 1);
            let next = sip.next_at_or_after(first).filter(|next| *next <= last);
            let all = next == Some(first) && sip.rank(last) - sip.rank(first) == last - first;
            if *negated { verdict(all, next.is_none()) } else { verdict(next.is_none(), all) }
        }
        Pred::Compare(..) | Pred::Like { .. } | Pred::ExprIsNull { .. } => Verdict::Some,
    }
}

fn verdict(none: bool, all: bool) -> Verdict {
    match (none, all) {
        (true, _) => Verdict::None,
        (_, true) => Verdict::All,
        _ => Verdict::Some,
    }
}

fn by_zone((min, max): (i64, i64), nulls: u32, test: &KeyTest, negated: bool) -> Verdict {
    let (none, all) = match test {
        KeyTest::Range { lo, hi } => (max < *lo || min > *hi || lo > hi, *lo <= min && max <= *hi),
        KeyTest::In(members) => members.among(min, max),
    };
    let (none, all) = if negated { (all, none) } else { (none, all) };
    verdict(none, all && nulls == 0)
}

/// Decides a block by all conjuncts.
pub(super) fn prune_all(conjuncts: &[Conjunct<'_>], block: Block<'_>) -> Verdict {
    let mut all = true;
    for conjunct in conjuncts {
        match prune(&conjunct.pred, block) {
            Verdict::None => return Verdict::None,
            verdict => all &= verdict == Verdict::All,
        }
    }
    verdict(false, all)
}

/// How many rows of a fragment pass, where statistics alone know it. They count deleted rows too, so that they know it
/// only where there are none.
pub(super) fn count(pred: &Pred, fragment: &Fragment) -> Option<u64> {
    if fragment.deleted().is_some() {
        return None;
    }
    match pred {
        Pred::Constant(constant) => Some(if *constant { fragment.rows() as u64 } else { 0 }),
        Pred::Keys { slot, test, negated, .. } => {
            let counts = fragment.column(*slot).counts()?;
            Some(counts.iter().filter(|(key, _)| test.passes(*key) != *negated).map(|(_, n)| n).sum())
        }
        Pred::Set { test, .. } => count(test, fragment),
        Pred::IsNull { slot, negated } => {
            let nulls = fragment.column(*slot).nulls() as u64;
            Some(if *negated { fragment.rows() as u64 - nulls } else { nulls })
        }
        _ => None,
    }
}

/// The live rows that pass all conjuncts, each of which is asked about those alone that the ones before left.
pub(super) fn mask_of_all(conjuncts: &[Conjunct<'_>], slots: &Slots, block: Block<'_>) -> Result<Mask> {
    mask_under(conjuncts, slots, block, block.live().clone())
}

/// The same of some of the live rows.
pub(super) fn mask_under(
    conjuncts: &[Conjunct<'_>],
    slots: &Slots,
    block: Block<'_>,
    mut selected: Mask,
) -> Result<Mask> {
    for conjunct in conjuncts {
        let watch = Watch::start(block.control);
        let rows_in = if watch.runs() { selected.count(block.rows()) } else { 0 };
        selected = mask(&conjunct.pred, slots, block, &selected)?;
        let rows_out = if watch.runs() { selected.count(block.rows()) } else { 0 };
        watch.stop(Step::Filter(conjunct.at), rows_in as u64, rows_out as u64);
        if selected.is_empty() {
            return Ok(Mask::Empty);
        }
    }
    Ok(selected)
}

/// The rows of `under` that pass.
fn mask(pred: &Pred, slots: &Slots, block: Block<'_>, under: &Mask) -> Result<Mask> {
    match prune(pred, block) {
        Verdict::None => Ok(Mask::Empty),
        Verdict::All => Ok(under.clone()),
        Verdict::Some => evaluate(pred, slots, block, under),
    }
}

/// The same for a block that statistics leave open.
fn evaluate(pred: &Pred, slots: &Slots, block: Block<'_>, under: &Mask) -> Result<Mask> {
    let rows = block.rows();
    let own = match pred {
        Pred::And(preds) => {
            let mut selected = under.clone();
            for pred in preds {
                if selected.is_empty() {
                    return Ok(Mask::Empty);
                }
                selected = mask(pred, slots, block, &selected)?;
            }
            return Ok(selected);
        }
        Pred::Or(preds) => {
            let mut selected = Mask::Empty;
            for pred in preds {
                let rest = under.clone().and_not(&selected, rows);
                if rest.is_empty() {
                    break;
                }
                selected = selected.or(&mask(pred, slots, block, &rest)?);
            }
            return Ok(selected);
        }
        Pred::Constant(constant) => return Ok(if *constant { under.clone() } else { Mask::Empty }),
        Pred::Keys { slot, test, codes, negated, .. } => {
            let column = block.fragment.column(*slot);
            let keys = column.keys().invariant("keys are tested of columns that have them");
            let passes = match (codes, keys.codes()) {
                (Some(test), Some(codes)) => keys_that_pass(codes.codes, test, block, under),
                _ => keys_that_pass(keys, &narrowed(test, column, block), block, under),
            };
            only_valid(passes, column, block, *negated)
        }
        Pred::Text { slot, test, negated, .. } => {
            let column = block.fragment.column(*slot);
            let words = match under {
                Mask::Words(words) => Some(&words[..rows.div_ceil(64)]),
                _ => None,
            };
            let passes = match column.values() {
                Values::Text(texts) => {
                    Mask::from_fn(rows, |out| texts.filter(block.start(), rows, test, words, out))
                }
                Values::Keys(_) => broken("texts are tested of columns of texts"),
            };
            only_valid(passes, column, block, *negated)
        }
        Pred::IsNull { slot, negated } => {
            let valid = block.fragment.column(*slot).validity_mask(block.block);
            if *negated { valid } else { valid.not(rows) }
        }
        Pred::Rows { sip, negated } => {
            let mut words = Box::new([0; BLOCK_WORDS]);
            let found = match sip.block_mask(block.fragment.address(block.start()), &mut words) {
                BlockMask::Empty => Mask::Empty,
                BlockMask::Full => Mask::Full,
                BlockMask::Words => Mask::Words(words),
            };
            // Addresses behind the block's last row select nothing.
            let found = if rows == crate::limits::BLOCK_ROWS { found } else { found.and(&first(rows)) };
            if *negated { found.not(rows) } else { found }
        }
        Pred::Set { set, test } => {
            let started = block.control.now();
            let passed = evaluate(test, slots, block, under)?;
            let took = block.control.now() - started;
            set.count(under.count(rows) as u64, passed.count(rows) as u64, took);
            return Ok(passed);
        }
        Pred::Compare(..) | Pred::Like { .. } | Pred::ExprIsNull { .. } => {
            return expression(pred, slots, block, under);
        }
    };
    Ok(own.and(under))
}

/// The rows of a block whose keys pass; those that `under` does not select may be among them or not. Where few rows
/// are left, only their keys, or only the units that they are in, are read.
fn keys_that_pass(keys: &dyn KeyColumn, test: &KeyTest, block: Block<'_>, under: &Mask) -> Mask {
    let (start, rows) = (block.start(), block.rows());
    let Mask::Words(under) = under else {
        return Mask::from_fn(rows, |out| keys.filter(start, rows, test, out));
    };
    let costs = keys.costs();
    let left = crate::mask::count(under.as_slice());
    // Picoseconds and nanoseconds.
    let row =
        u64::from(costs.get) * 1000 + u64::from(if let KeyTest::In(_) = test { LOOK_UP_COST } else { 0 });
    if left as u64 * row < rows as u64 * u64::from(costs.filter_by(test)) {
        let mut places = vec![0; left + 64];
        basalt_kernels::mask::positions(&under[..rows.div_ceil(64)], &mut places);
        return Mask::from_fn(rows, |out| few_that_pass(keys, test, start, &places[..left], out));
    }
    Mask::from_fn(rows, |out| {
        let is_empty = |unit: &[u64]| unit.iter().all(|word| *word == 0);
        let units: Vec<_> = under[..rows.div_ceil(64)].chunks(UNIT_ROWS / 64).map(is_empty).collect();
        let mut unit = 0;
        for run in units.chunk_by(|a, b| a == b) {
            let (from, to) = (unit * UNIT_ROWS, ((unit + run.len()) * UNIT_ROWS).min(rows));
            unit += run.len();
            if !run[0] {
                keys.filter(start + from, to - from, test, &mut out[from / 64..to.div_ceil(64)]);
            }
        }
    })
}

/// Adds those of the rows at some places behind row `start` whose keys pass.
fn few_that_pass(keys: &dyn KeyColumn, test: &KeyTest, start: usize, places: &[u16], out: &mut [u64]) {
    let mut found = vec![0; places.len().min(BATCH_ROWS)];
    let mut passes = vec![0; found.len().div_ceil(64)];
    for places in places.chunks(BATCH_ROWS) {
        let (found, passes) = (&mut found[..places.len()], &mut passes[..places.len().div_ceil(64)]);
        keys.gather(start, places, found);
        test.test(found, passes);
        basalt_kernels::mask::for_each(passes, |row| {
            out[usize::from(places[row]) / 64] |= 1 << (places[row] % 64);
        });
    }
}

/// The test that is the least work for a block's keys, which all lie between its extremes.
fn narrowed<'a>(test: &'a KeyTest, column: &Column, block: Block<'_>) -> Cow<'a, KeyTest> {
    let narrower = match (test, column.zones()[block.block].range) {
        (KeyTest::In(members), Some((min, max))) => members.within(min, max),
        _ => None,
    };
    narrower.map_or(Cow::Borrowed(test), Cow::Owned)
}

/// The first `rows` rows of a block, as words.
pub(super) fn first(rows: usize) -> Mask {
    Mask::from_fn(rows, |out| basalt_kernels::mask::fill(rows, out))
}

/// Rows that pass (or do not, when negated) and are not null.
fn only_valid(passes: Mask, column: &Column, block: Block<'_>, negated: bool) -> Mask {
    let passes = if negated { passes.not(block.rows()) } else { passes };
    if column.zones()[block.block].nulls == 0 {
        passes
    } else {
        passes.and(&column.validity_mask(block.block))
    }
}

/// A predicate over expressions, batch by batch, only where `under` selects rows.
fn expression(pred: &Pred, slots: &Slots, block: Block<'_>, under: &Mask) -> Result<Mask> {
    let mut out = Box::new([0; BLOCK_WORDS]);
    block.for_each_few(under, |batch| {
        batch.scatter(&batch.test(pred, slots)?, out.as_mut_slice());
        Ok(())
    })?;
    Ok(Mask::Words(out))
}
