//! The conjuncts of a filter in the order in which they are evaluated, fragment by fragment.
//!
//! A conjunct that costs `c` a row and lets the share `s` of the rows pass comes by its rank `c / (1 - s)`, the least
//! first: where conjuncts are independent, no other order is less work (Hellerstein and Stonebraker, "Predicate
//! migration", SIGMOD 1993). Costs come from the encodings, shares from statistics, so that the order may differ
//! from fragment to fragment. Expressions can fail: they come last, in the order of the request, behind whatever
//! may keep a row from them.

use std::borrow::Cow;

use super::filter::lower;
use crate::{
    encoding::{KeyTest, TextTest},
    fragment::{Column, Fragment, Values, Zone},
    invariant::{Invariant, count},
    keys,
    plan::pred::Pred,
    schema::DataType,
    table::Snapshot,
};

/// Picoseconds a row that it takes to test raw texts, and to match them with a pattern.
const TEXT_COST: u32 = 4_000;
const LIKE_COST: u32 = 15_000;
/// Picoseconds a row of a mask that is there: of nulls, of row addresses.
const MASK_COST: u32 = 30;
/// Picoseconds a row of one node of an expression.
const NODE_COST: u32 = 500;

/// Entries of a dictionary that a set is asked about to estimate how many pass.
const SAMPLED_ENTRIES: usize = 64;
/// The share of rows that pass where nothing is known of them: of a range, of one text, of a pattern.
pub(super) const RANGE_SHARE: f64 = 1.0 / 3.0;
const TEXT_SHARE: f64 = 0.01;
const LIKE_SHARE: f64 = 0.1;

/// A conjunct as a fragment sees it.
#[derive(Debug)]
pub(super) struct Conjunct<'a> {
    /// Its place in the plan.
    pub(super) at: usize,
    pub(super) pred: Cow<'a, Pred>,
}

impl<'a> Conjunct<'a> {
    /// The conjuncts of a filter in the order in which a fragment evaluates them.
    pub(super) fn of(filter: &'a Pred, fragment: &Fragment) -> Vec<Self> {
        let conjuncts = filter.conjuncts().iter().enumerate();
        let mut conjuncts: Vec<_> =
            conjuncts.map(|(at, pred)| Self { at, pred: lower(pred, fragment) }).collect();
        if conjuncts.len() > 1 {
            conjuncts.sort_by_cached_key(|conjunct| Estimate::of(&conjunct.pred, fragment).order());
        }
        conjuncts
    }
}

/// What is expected of a predicate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Estimate {
    /// Picoseconds a row.
    cost: f64,
    /// The share of the rows that passes.
    pub(super) share: f64,
    fallible: bool,
}

impl Estimate {
    /// Of a fragment.
    pub(super) fn of(pred: &Pred, fragment: &Fragment) -> Self {
        let cost = f64::from(cost(pred, fragment));
        Self { cost, share: share(pred, fragment).clamp(0.0, 1.0), fallible: fallible(pred) }
    }

    /// Of all fragments together, by their rows.
    pub(super) fn of_all(pred: &Pred, snapshot: &Snapshot) -> Self {
        let rows = as_float(snapshot.rows().max(1));
        let mut all = Self { fallible: fallible(pred), ..Self::default() };
        for fragment in snapshot.fragments() {
            let one = Self::of(&lower(pred, fragment), fragment);
            let weight = as_float(fragment.live_rows() as u64) / rows;
            all.cost += weight * one.cost;
            all.share += weight * one.share;
        }
        all
    }

    /// What conjuncts are sorted by.
    pub(super) fn order(self) -> (bool, u64) {
        let rank = if self.fallible { 0.0 } else { self.cost / (1.0 - self.share).max(1e-6) };
        // Floats that are not negative are in the order of their bits.
        (self.fallible, rank.to_bits())
    }
}

/// Whether it evaluates expressions, which may fail.
fn fallible(pred: &Pred) -> bool {
    match pred {
        Pred::Compare(..) | Pred::Like { .. } | Pred::ExprIsNull { .. } => true,
        Pred::And(preds) | Pred::Or(preds) => preds.iter().any(fallible),
        _ => false,
    }
}

/// Picoseconds a row, roughly.
fn cost(pred: &Pred, fragment: &Fragment) -> u32 {
    match pred {
        Pred::Constant(_) => 0,
        Pred::IsNull { .. } | Pred::Rows { .. } => MASK_COST,
        Pred::Keys { slot, test, .. } => {
            let keys = fragment.column(*slot).keys();
            keys.invariant("keys are tested of columns that have them").costs().filter_by(test)
        }
        Pred::Text { test: TextTest::Like(_), .. } => LIKE_COST,
        Pred::Text { .. } => TEXT_COST,
        Pred::Set { test, .. } => cost(test, fragment),
        Pred::And(preds) | Pred::Or(preds) => preds.iter().map(|pred| cost(pred, fragment)).sum(),
        Pred::Compare(_, left, right) => NODE_COST * count(left.nodes() + right.nodes()),
        Pred::Like { .. } => LIKE_COST,
        Pred::ExprIsNull { expr, .. } => NODE_COST * count(expr.nodes()),
    }
}

/// The share of a fragment's rows that passes, as far as statistics know it: value counts are exact, keys between
/// the extremes of a block are taken to be equally frequent.
fn share(pred: &Pred, fragment: &Fragment) -> f64 {
    let rows = as_float(fragment.rows() as u64);
    let nulls = |slot: usize| as_float(fragment.column(slot).nulls() as u64) / rows;
    share_of(pred, &|leaf| match leaf {
        Pred::IsNull { slot, negated } => Some(negate(nulls(*slot), *negated)),
        Pred::Keys { slot, test, negated, .. } => {
            let passes = passing_keys(fragment.column(*slot), test) / rows;
            Some(if *negated { (1.0 - nulls(*slot) - passes).max(0.0) } else { passes })
        }
        Pred::Text { slot, test, negated, .. } => {
            Some((1.0 - nulls(*slot)) * negate(text_share(test), *negated))
        }
        Pred::Rows { sip, negated } => {
            let (first, last) = (fragment.address(0), fragment.address(fragment.rows() - 1));
            // Default: nothing comes before the first address.
            let inside = sip.rank(last) - first.checked_sub(1).map_or(0, |before| sip.rank(before));
            Some(negate(as_float(inside) / rows, *negated))
        }
        _ => None,
    })
}

/// The share of a fragment's rows that passes, by the extremes of its columns alone; keys between them are taken to be
/// equally frequent.
pub(super) fn share_by_bounds(pred: &Pred, bounds: &dyn Fn(usize) -> Option<(i64, i64)>) -> f64 {
    let share = share_of(pred, &|leaf| match leaf {
        Pred::Keys { slot, test, negated, .. } => {
            let (min, max) = bounds(*slot)?;
            let of = as_float(max.abs_diff(min)) + 1.0;
            let passes = match test {
                KeyTest::Range { lo, hi } if lo > hi || *lo > max || *hi < min => 0.0,
                KeyTest::Range { lo, hi } => (as_float((*lo.max(&min)).abs_diff(*hi.min(&max))) + 1.0) / of,
                KeyTest::In(members) => as_float(members.count(min, max)) / of,
            };
            Some(negate(passes, *negated))
        }
        _ => None,
    });
    share.clamp(0.0, 1.0)
}

/// The share of rows that passes: of a part by itself what `known` knows, or else what is usual.
fn share_of(pred: &Pred, known: &dyn Fn(&Pred) -> Option<f64>) -> f64 {
    let of = |pred: &Pred| share_of(pred, known);
    if let Some(share) = known(pred) {
        return share;
    }
    match pred {
        Pred::Constant(constant) => f64::from(u8::from(*constant)),
        Pred::Keys { negated, .. } => negate(RANGE_SHARE, *negated),
        Pred::Text { test, negated, .. } => negate(text_share(test), *negated),
        Pred::Rows { .. } => 1.0,
        Pred::Set { test, .. } => of(test),
        Pred::And(preds) => preds.iter().map(of).product(),
        Pred::Or(preds) => 1.0 - preds.iter().map(|pred| 1.0 - of(pred)).product::<f64>(),
        Pred::Compare(..) => RANGE_SHARE,
        Pred::IsNull { negated, .. } | Pred::Like { negated, .. } | Pred::ExprIsNull { negated, .. } => {
            negate(LIKE_SHARE, *negated)
        }
    }
}

fn negate(share: f64, negated: bool) -> f64 {
    if negated { 1.0 - share } else { share }
}

fn text_share(test: &TextTest) -> f64 {
    match test {
        TextTest::Range { .. } => RANGE_SHARE,
        TextTest::In(members) => (TEXT_SHARE * as_float(members.texts().len() as u64)).min(0.5),
        TextTest::Like(_) => LIKE_SHARE,
    }
}

/// Rows of a column whose key passes.
fn passing_keys(column: &Column, test: &KeyTest) -> f64 {
    if let Some(counts) = column.counts() {
        return as_float(counts.iter().filter(|(key, _)| test.passes(*key)).map(|(_, n)| n).sum());
    }
    if let Values::Keys(keys) = column.values()
        && let Some(codes) = keys.codes()
    {
        return share_of_entries(codes.entries, test) * as_float((column.rows() - column.nulls()) as u64);
    }
    let mut rest = column.rows();
    let of_zone = |zone: &Zone| {
        let rows = rest.min(crate::limits::BLOCK_ROWS);
        rest -= rows;
        let Some((min, max)) = zone.range else { return 0.0 };
        let inside = match test {
            KeyTest::Range { lo, hi } if lo > hi || *lo > max || *hi < min => 0.0,
            KeyTest::Range { lo, hi } => {
                distance(column, *lo.max(&min), *hi.min(&max)) / distance(column, min, max)
            }
            KeyTest::In(members) => as_float(members.count(min, max)) / distance(column, min, max),
        };
        inside.min(1.0) * as_float((rows - zone.nulls as usize) as u64)
    };
    column.zones().iter().map(of_zone).sum()
}

/// The share of the sorted entries of a dictionary that passes; of a set, that of some of them.
fn share_of_entries(entries: &[i64], test: &KeyTest) -> f64 {
    let (passes, of) = match test {
        KeyTest::Range { lo, hi } => {
            let (from, to) =
                (entries.partition_point(|key| key < lo), entries.partition_point(|key| key <= hi));
            (to.saturating_sub(from), entries.len())
        }
        KeyTest::In(_) => {
            let some = || entries.iter().step_by(entries.len().div_ceil(SAMPLED_ENTRIES).max(1));
            (some().filter(|key| test.passes(**key)).count(), some().count())
        }
    };
    as_float(passes as u64) / as_float(of.max(1) as u64)
}

/// How many keys there are from one to another: of floats, which are dense, how far they lie apart.
fn distance(column: &Column, lo: i64, hi: i64) -> f64 {
    let float = match (column.values(), column.data_type()) {
        (Values::Keys(_), DataType::Float64) => keys::to_f64(hi) - keys::to_f64(lo),
        (Values::Keys(_), DataType::Float32) => f64::from(keys::to_f32(hi)) - f64::from(keys::to_f32(lo)),
        _ => return as_float(hi.abs_diff(lo)) + 1.0,
    };
    if float.is_finite() { float.max(f64::MIN_POSITIVE) } else { f64::MAX }
}

#[allow(clippy::cast_precision_loss, reason = "an estimate")]
fn as_float(n: u64) -> f64 {
    n as f64
}
