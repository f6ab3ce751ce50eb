//! Answers from statistics alone: value counts, null counts and zone maps of whole fragments.

use super::{
    Block, Scan,
    conjuncts::Conjunct,
    distinct::Distinct,
    filter,
    group_keys::{KeyTable, Partial},
    source::{Texts, one_zero},
    totals::{Argument, Arguments, Totals},
};
use crate::{
    fragment::{Column, Fragment},
    plan::expr::BoundExpr,
};

/// The groups of the fragments whose statistics know them, each with a block of the fragment; their blocks are
/// taken off the scan.
pub(super) fn by_statistics<'a>(
    keys: &[BoundExpr],
    arguments: &Arguments<'a>,
    scan: &mut Scan<'a, '_>,
) -> Vec<(Block<'a>, Partial<'a>)> {
    let mut answers = Vec::new();
    let mut blocks = Vec::with_capacity(scan.blocks.len());
    for of_fragment in scan.blocks.chunk_by(|(a, _), (b, _)| a.at == b.at) {
        let (first, _) = of_fragment[0];
        let whole = of_fragment.iter().filter(|(_, all)| *all).count() == first.fragment.blocks();
        let filter = scan.filters.get(first.at).filter(|_| !whole);
        match groups(keys, arguments, filter, first.fragment) {
            Some((partial, rows)) => {
                scan.statistics.blocks_pruned += of_fragment.iter().filter(|(_, all)| !all).count() as u64;
                scan.statistics.rows_selected += rows;
                answers.push((first, partial));
            }
            None => blocks.extend_from_slice(of_fragment),
        }
    }
    scan.blocks = blocks;
    answers
}

/// The groups of a fragment (`filter`: of those of its rows) and how many rows they have. Statistics are of all of its
/// rows, so that they know nothing of one that has deleted rows.
fn groups<'a>(
    keys: &[BoundExpr],
    arguments: &Arguments<'a>,
    filter: Option<&Vec<Conjunct<'_>>>,
    fragment: &'a Fragment,
) -> Option<(Partial<'a>, u64)> {
    if fragment.deleted().is_some() {
        return None;
    }
    let column = |expr: &BoundExpr| match expr {
        BoundExpr::Slot(slot) => fragment.column_at(*slot),
        _ => None,
    };
    match keys {
        [] if filter.is_none() => {
            let total = |argument: &Argument<'a>| total(argument, column(argument.expr)?);
            let totals = arguments.all.iter().map(total).collect::<Option<_>>()?;
            Some(only_group(fragment.rows() as u64, totals))
        }
        [] if arguments.all.is_empty() => {
            let [conjunct] = filter?.as_slice() else { return None };
            Some(only_group(filter::count(&conjunct.pred, fragment)?, Vec::new()))
        }
        [key] if arguments.all.is_empty() && filter.is_none() => counted(column(key)?),
        _ => None,
    }
}

fn only_group(rows: u64, totals: Vec<Totals<'_>>) -> (Partial<'_>, u64) {
    let mut keys = KeyTable::new(0, None);
    keys.push(&[]);
    (Partial { keys, key_texts: Vec::new(), rows: Totals::of_counts(vec![rows]), totals }, rows)
}

/// The groups of a column whose values were counted.
fn counted(column: &Column) -> Option<(Partial<'_>, u64)> {
    let mut keys = KeyTable::new(1, None);
    let mut counts: Vec<u64> = Vec::new();
    for (key, n) in column.counts()? {
        let key = Some(if column.data_type().is_float() { one_zero(*key) } else { *key });
        match counts.last_mut() {
            // The two zeros of a float.
            Some(last) if keys.part(keys.len() - 1, 0) == key => *last += n,
            _ => {
                keys.push(&[key]);
                counts.push(*n);
            }
        }
    }
    if column.nulls() > 0 {
        keys.push(&[None]);
        counts.push(column.nulls() as u64);
    }
    let partial = Partial {
        keys,
        key_texts: vec![Texts::of(column)],
        rows: Totals::of_counts(counts),
        totals: Vec::new(),
    };
    Some((partial, column.rows() as u64))
}

/// What a whole column comes to.
fn total<'a>(argument: &Argument<'a>, column: &'a Column) -> Option<Totals<'a>> {
    let n = (column.rows() - column.nulls()) as u64;
    let mut totals = Totals::of_counts(vec![n]);
    if argument.sums_floats() {
        return None;
    }
    if argument.sums_ints() {
        let keys: i128 = column.counts()?.iter().map(|(key, n)| i128::from(*key) * i128::from(*n)).sum();
        totals.ints.push(keys + argument.bias() * i128::from(n));
    }
    if argument.extremes {
        column.keys()?;
        let ranges = column.zones().iter().filter_map(|zone| zone.range);
        totals.extremes.extend(ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))));
    }
    if argument.distinct {
        let mut set = Distinct::default();
        let float = column.data_type().is_float();
        column.counts()?.iter().for_each(|(key, _)| set.insert(if float { one_zero(*key) } else { *key }));
        totals.sets.push(set);
    }
    totals.texts = Texts::of(column);
    Some(totals)
}
