//! Aggregates of all selected rows of a block as one group: kernels and push-downs where the argument is a column,
//! batches where it is an expression.

use basalt_kernels::FloatSum;

use super::{
    Block,
    aggregate::{Kind, State},
    group_keys::{KeyTable, Partial},
    source::{Source, Texts},
    vector::{Data, intersect},
};
use crate::{
    error::Result,
    keys::NativeSlice,
    mask::Mask,
    plan::{
        BoundAggregate,
        expr::{BoundExpr, Slots},
    },
    schema::DataType,
    value::Value,
};

/// Aggregates of all selected rows of a block, by kernels and push-downs.
pub(super) fn one_group<'a>(
    aggregates: &'a [BoundAggregate],
    slots: &Slots,
    block: Block<'a>,
    mask: &Mask,
) -> Result<Partial<'a>> {
    let mut keys = KeyTable::new(0);
    keys.push(&[]);
    let mut states = Vec::with_capacity(aggregates.len());
    let mut state_texts = Vec::with_capacity(aggregates.len());
    for aggregate in aggregates {
        let mut state = State::new(Kind::of(aggregate));
        state.resize(1);
        let texts = match &aggregate.argument {
            None => {
                state.add_count(0, mask.count(block.rows()) as u64);
                None
            }
            Some(argument) => match column_of(argument, block) {
                Some(slot) if pushed_down(&mut state, Kind::of(aggregate), slot, block, mask) => {
                    Texts::of(&block.fragment.columns()[slot])
                }
                _ => one_group_batches(&mut state, Kind::of(aggregate), argument, slots, block, mask)?,
            },
        };
        states.push(state);
        state_texts.push(texts);
    }
    Ok(Partial { keys, key_texts: Vec::new(), states, state_texts })
}

fn column_of(expr: &BoundExpr, block: Block<'_>) -> Option<usize> {
    match expr {
        BoundExpr::Slot(slot) if *slot < block.fragment.columns().len() => Some(*slot),
        _ => None,
    }
}

/// Computes an aggregate of a column on its encoded form; false when it has to be decoded.
fn pushed_down(state: &mut State, kind: Kind, slot: usize, block: Block<'_>, mask: &Mask) -> bool {
    let column = &block.fragment.columns()[slot];
    let zone = column.zones()[block.block];
    let rows = block.rows();
    let selected = if zone.nulls == 0 { mask.clone() } else { column.validity_mask(block.block).and(mask) };
    let n = selected.count(rows) as u64;
    let words = match &selected {
        Mask::Words(words) => Some(&words[..rows.div_ceil(64)]),
        _ => None,
    };
    if n == 0 {
        return true;
    }
    match (kind, column.keys()) {
        (Kind::Count, _) => state.add_count(0, n),
        (Kind::SumInts, Some(keys)) => {
            let bias = if column.data_type() == DataType::UInt64 { i128::from(n) << 63 } else { 0 };
            state.add_int(0, n, keys.sum(block.start(), rows, words) + bias);
        }
        (Kind::Min | Kind::Max, Some(keys)) => {
            let range =
                if selected == Mask::Full { zone.range } else { keys.min_max(block.start(), rows, words) };
            if let Some((min, max)) = range {
                state.add_key(0, n, if kind == Kind::Min { min } else { max }, |a, b| a < b);
            }
        }
        (Kind::SumFloats, Some(keys)) => {
            let Some(native) = keys.native() else { return false };
            let mut sum = FloatSum::default();
            let range = block.start()..block.start() + rows;
            match (native, words) {
                (NativeSlice::F64(v), None) => basalt_kernels::sum_floats(&v[range], &mut sum),
                (NativeSlice::F64(v), Some(words)) => {
                    basalt_kernels::sum_floats_masked(&v[range], words, &mut sum)
                }
                (NativeSlice::F32(v), None) => basalt_kernels::sum_floats(&v[range], &mut sum),
                (NativeSlice::F32(v), Some(words)) => {
                    basalt_kernels::sum_floats_masked(&v[range], words, &mut sum)
                }
                _ => return false,
            }
            state.add_float(0, n, sum.finish());
        }
        _ => return false,
    }
    true
}

/// The same by evaluating the argument batch by batch.
fn one_group_batches<'a>(
    state: &mut State,
    kind: Kind,
    argument: &'a BoundExpr,
    slots: &Slots,
    block: Block<'a>,
    mask: &Mask,
) -> Result<Option<Texts<'a>>> {
    let source = match kind {
        Kind::Min | Kind::Max | Kind::Distinct => Some(Source::new(argument, slots, block, mask)?),
        _ => None,
    };
    let (mut floats, mut float_rows) = (FloatSum::default(), 0);
    block.for_each_batch(mask, |batch| {
        if let Some(source) = &source {
            let (keys, valid) = source.keys(batch, slots)?;
            let selected = both(batch.selected(), valid);
            let n = basalt_kernels::mask::count_ones(&selected);
            if kind == Kind::Distinct {
                basalt_kernels::mask::for_each(&selected, |row| {
                    state.add_key(0, 1, keys[row], |a, b| a < b);
                });
            } else if let Some((min, max)) = basalt_kernels::min_max_masked(&keys, &selected) {
                state.add_key(0, n, if kind == Kind::Min { min } else { max }, |a, b| a < b);
            }
            return Ok(());
        }
        let vector = batch.eval(argument, slots)?;
        let selected = both(batch.selected(), vector.valid);
        let n = basalt_kernels::mask::count_ones(&selected);
        match (kind, vector.data) {
            (_, Data::One(Value::Null)) => {}
            (Kind::Count, _) => state.add_count(0, n),
            (Kind::SumInts, Data::Ints(values)) => {
                state.add_int(0, n, basalt_kernels::sum_masked(&values, &selected))
            }
            (Kind::SumInts, Data::UInts(values)) => {
                state.add_int(0, n, basalt_kernels::sum_masked(&values, &selected))
            }
            (Kind::SumInts, Data::One(Value::Int(v) | Value::Decimal { unscaled: v, .. })) => {
                state.add_int(0, n, v * i128::from(n));
            }
            (Kind::SumFloats, data) => {
                let values = match data {
                    Data::Floats(values) => values,
                    Data::One(value) => vec![value.to_f64().unwrap_or(0.0); batch.rows()],
                    _ => vec![0.0; batch.rows()],
                };
                basalt_kernels::sum_floats_masked(&values, &selected, &mut floats);
                float_rows += n;
            }
            _ => {}
        }
        Ok(())
    })?;
    if float_rows > 0 {
        state.add_float(0, float_rows, floats.finish());
    }
    Ok(source.and_then(Source::into_texts))
}

fn both(words: &[u64], valid: Option<Vec<u64>>) -> Vec<u64> {
    intersect(Some(words.to_vec()), valid).unwrap_or_default()
}
