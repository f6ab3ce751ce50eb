//! Scalar aggregates: those of all selected rows of a block as one group. Kernels and push-downs where the argument is a column,
//! batches where it is an expression.

use std::borrow::Cow;

use basalt_kernels::FloatSum;

use super::{
    Block,
    distinct::Distinct,
    group_keys::{KeyTable, Partial},
    linear::linear_sum,
    source::{Source, Texts},
    totals::{Argument, Arguments, Totals},
    vector::{Batch, Data, Rows},
};
use crate::{
    error::Result,
    fragment::{Column, Values},
    invariant::{Invariant, count},
    mask::Mask,
    plan::expr::{BoundExpr, Slots},
};

/// Words of a bitmap of a block's distinct keys, at most: eight bits for each of its rows.
const BITMAP_WORDS: u64 = 1 << 13;

/// Aggregates of all selected rows of a block, by kernels and push-downs.
pub(super) fn scalar_aggregate<'a>(
    arguments: &Arguments<'a>,
    slots: &Slots,
    block: Block<'a>,
    mask: &Mask,
) -> Result<Partial<'a>> {
    let mut keys = KeyTable::new(0, None);
    keys.push(&[]);
    let rows = Totals::of_counts(vec![mask.count(block.rows()) as u64]);
    let totals = arguments.all.iter().map(|argument| match column_of(argument.expr, block) {
        Some(column) => of_column(argument, column, slots, block, mask),
        None => by_batches(argument, slots, block, mask),
    });
    Ok(Partial { keys, key_texts: Vec::new(), rows, totals: totals.collect::<Result<_>>()? })
}

fn column_of<'a>(expr: &BoundExpr, block: Block<'a>) -> Option<&'a Column> {
    match expr {
        BoundExpr::Slot(slot) => block.fragment.column_at(*slot),
        _ => None,
    }
}

/// What a column comes to, on its encoded form wherever that can be.
fn of_column<'a>(
    argument: &Argument<'a>,
    column: &'a Column,
    slots: &Slots,
    block: Block<'a>,
    mask: &Mask,
) -> Result<Totals<'a>> {
    let (zone, rows) = (column.zones()[block.block], block.rows());
    let selected = if zone.nulls == 0 { mask.clone() } else { column.validity_mask(block.block).and(mask) };
    let n = selected.count(rows) as u64;
    let mut totals = Totals::of_counts(vec![n]);
    if n == 0 {
        return Ok(totals);
    }
    let Some(keys) = column.keys().filter(|_| !argument.distinct) else {
        let compares = argument.extremes && !argument.distinct;
        return match column.values() {
            Values::Text(_) if compares => of_texts(argument, slots, block, &selected),
            _ => by_batches(argument, slots, block, &selected),
        };
    };
    let words = match &selected {
        Mask::Words(words) => Some(&words[..rows.div_ceil(64)]),
        _ => None,
    };
    if argument.sums_ints() {
        totals.ints.push(keys.sum(block.start(), rows, words) + argument.bias() * i128::from(n));
    }
    if argument.sums_floats() {
        let mut sum = FloatSum::default();
        keys.sum_floats(block.start(), rows, words, &mut sum);
        totals.floats.push(sum.finish());
    }
    if argument.extremes {
        totals.texts = Texts::of(column);
        let known = zone.range.filter(|_| words.is_none());
        // The codes of texts are another fragment's texts elsewhere.
        let seen =
            zone.range.filter(|_| totals.texts.is_none()).and_then(|range| argument.seen.beyond(range));
        let extremes = known.or(seen).or_else(|| keys.min_max(block.start(), rows, words));
        extremes.iter().filter(|_| totals.texts.is_none()).for_each(|found| argument.seen.add(*found));
        totals.extremes.extend(extremes);
    }
    Ok(totals)
}

/// The least and the greatest of texts without codes: to give all of them some, in their order, would take thirty times as long.
fn of_texts<'a>(argument: &Argument<'a>, slots: &Slots, block: Block<'a>, mask: &Mask) -> Result<Totals<'a>> {
    let (mut rows, mut n, mut found) = (Vec::new(), 0, None::<(Cow<'a, str>, Cow<'a, str>)>);
    block.for_each_few(mask, |batch| {
        batch.selection(&mut rows);
        n += rows.len() as u64;
        let Data::Texts(texts) = batch.eval(argument.expr, slots)?.data else { return Ok(()) };
        for row in rows.iter().map(|row| *row as usize) {
            let text = texts.get(row);
            match &mut found {
                None => found = Some((texts.keep(row), texts.keep(row))),
                Some((least, _)) if text < &**least => *least = texts.keep(row),
                Some((_, greatest)) if text > &**greatest => *greatest = texts.keep(row),
                Some(_) => {}
            }
        }
        Ok(())
    })?;
    let mut totals = Totals::of_counts(vec![n]);
    let (least, greatest) = found.invariant("some rows are selected");
    let mut texts = vec![least, greatest];
    texts.dedup();
    totals.extremes.push((0, i64::from(count(texts.len() - 1))));
    totals.texts = Some(Texts::Block(texts));
    Ok(totals)
}

/// Adds the floats of a batch, each in the lane of its row.
fn add_floats(batch: &Batch<'_, '_>, values: &[f64], mask: Option<&[u64]>, sum: &mut FloatSum) {
    match (batch.places(), mask) {
        (Rows::At(places), None) => sum.add_at(places, values),
        (Rows::At(places), Some(mask)) => {
            let (mut few, mut floats) = (Vec::new(), Vec::new());
            basalt_kernels::mask::for_each(mask, |row| {
                few.push(places[row]);
                floats.push(values[row]);
            });
            sum.add_at(&few, &floats);
        }
        (Rows::From(_), Some(mask)) => basalt_kernels::sum_floats_masked(values, mask, sum),
        (Rows::From(_), None) => basalt_kernels::sum_floats(values, sum),
    }
}

/// What an expression comes to, evaluated batch by batch.
fn by_batches<'a>(
    argument: &Argument<'a>,
    slots: &Slots,
    block: Block<'a>,
    mask: &Mask,
) -> Result<Totals<'a>> {
    if let Some(totals) = linear_sum(argument, block, mask) {
        return Ok(totals);
    }
    let source = argument.source(slots, block, mask)?;
    let (mut n, mut ints, mut floats, mut extremes) = (0, 0, FloatSum::default(), (i64::MAX, i64::MIN));
    let mut set = Distinct::of_range(source.as_ref().and_then(Source::range), BITMAP_WORDS);
    block.for_each_few(mask, |batch| {
        let (mut keys, mut valid) = (Vec::new(), None);
        if let Some(source) = &source {
            (keys, valid) = source.keys(batch, slots)?;
        }
        if argument.sums_floats() {
            let (values, valid) = batch.floats(argument.expr, slots)?;
            add_floats(batch, &values, batch.mask_of(valid.as_deref()).as_deref(), &mut floats);
            batch.give(Data::Floats(values));
        }
        if source.is_none() {
            valid = batch.validity(argument.expr, slots)?;
        }
        let selected = batch.mask_of(valid.as_deref());
        let selected = selected.as_deref();
        n += selected.map_or(batch.rows() as u64, basalt_kernels::mask::count_ones);
        if argument.sums_ints() {
            ints += match selected {
                Some(mask) => basalt_kernels::sum_masked(&keys, mask),
                None => basalt_kernels::sum(&keys),
            };
        }
        if argument.extremes {
            let found = match selected {
                Some(mask) => basalt_kernels::min_max_masked(&keys, mask),
                None => basalt_kernels::min_max(&keys),
            };
            let (min, max) = found.unwrap_or(extremes);
            extremes = (extremes.0.min(min), extremes.1.max(max));
        }
        if argument.distinct {
            set.extend(&keys, selected);
        }
        batch.give(Data::Ints(keys));
        Ok(())
    })?;
    let mut totals = Totals::of_counts(vec![n]);
    if argument.sums_ints() {
        totals.ints.push(ints + argument.bias() * i128::from(n));
    }
    if argument.sums_floats() {
        totals.floats.push(floats.finish());
    }
    if argument.extremes {
        totals.extremes.push(extremes);
    }
    if argument.distinct {
        totals.sets.push(set);
    }
    totals.texts = source.and_then(Source::into_texts);
    Ok(totals)
}
