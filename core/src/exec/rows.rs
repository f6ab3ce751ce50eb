//! Selected rows themselves, in the order of their addresses or sorted.

use std::cmp::Ordering;

use arrow_array::RecordBatch;

use super::{
    Block, Control, Work,
    output::{self, ANSWER_ROWS, ColumnBuilder, compare_values, keep_top, sort_page},
    source::one_zero,
    vector::{Batch, Data, Vector},
};
use crate::{
    error::Result,
    keys,
    limits::BATCH_ROWS,
    mask::{Mask, selects},
    plan::{Plan, SortKey, expr::BoundExpr},
    table::Snapshot,
    value::Value,
};

/// Rows in the order of their addresses, handed out as blocks are done.
pub(super) fn stream<'q>(
    plan: &'q Plan,
    work: &mut Work<'q>,
    control: &Control,
    sink: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let top = plan.top().map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let skip = usize::try_from(plan.offset).unwrap_or(usize::MAX);
    if top == skip {
        return Ok(());
    }
    let mut seen = 0usize;
    work.run(
        &plan.rows,
        control,
        top != usize::MAX,
        |block, mask| block_rows(plan, block, mask, top),
        |_, batches| {
            for batch in batches {
                let n = batch.num_rows();
                let from = skip.saturating_sub(seen).min(n);
                let to = (top - seen.min(top)).min(n);
                seen += n;
                if from < to {
                    sink(batch.slice(from, to - from))?;
                }
            }
            Ok(seen < top)
        },
    )
}

/// The first `top` selected rows of a block.
fn block_rows<'a>(plan: &Plan, block: Block<'a>, mask: &Mask, top: usize) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    let mut columns = ColumnBuilder::for_schema(plan.schema());
    let (mut n, mut total) = (0, 0);
    let (mut words, mut rows) = (Vec::new(), Vec::new());
    for start in (0..block.rows()).step_by(BATCH_ROWS) {
        let length = (block.rows() - start).min(BATCH_ROWS);
        if mask.slice(start, length, &mut words) == 0 {
            continue;
        }
        let batch = Batch::new(block, start, length, &words);
        batch.selection(&mut rows);
        rows.truncate(top - total);
        for (column, output) in columns.iter_mut().zip(&plan.outputs) {
            column.push_rows(&batch.eval(output, &plan.rows)?, &rows)?;
        }
        (n, total) = (n + rows.len(), total + rows.len());
        if n >= ANSWER_ROWS || total == top {
            batches.push(output::batch(plan.schema(), &mut columns, n)?);
            n = 0;
        }
        if total == top {
            break;
        }
    }
    if n > 0 {
        batches.push(output::batch(plan.schema(), &mut columns, n)?);
    }
    Ok(batches)
}

/// A row that is to be sorted: its sort keys, and where it is.
#[derive(Debug)]
struct Candidate {
    keys: Vec<Value>,
    fragment: usize,
    row: usize,
}

/// Rows sorted. Only sort keys are read for every selected row; the outputs are read for the rows that stay.
pub(super) fn sorted<'q>(
    plan: &'q Plan,
    snapshot: &Snapshot,
    work: &mut Work<'q>,
    control: &Control,
    sink: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let top = plan.top().map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let compare = |a: &Candidate, b: &Candidate| {
        let by_order =
            plan.order.iter().zip(a.keys.iter().zip(&b.keys)).map(|(key, (a, b))| compare_values(key, a, b));
        by_order.fold(Ordering::Equal, Ordering::then).then((a.fragment, a.row).cmp(&(b.fragment, b.row)))
    };
    let width = size_of::<Candidate>() + plan.order.len() * size_of::<Value>();
    let mut candidates: Vec<Candidate> = Vec::new();
    work.run(
        &plan.rows,
        control,
        false,
        |block, mask| {
            let mut own = block_candidates(plan, block, mask, top)?;
            keep_top(&mut own, top, compare);
            Ok(own)
        },
        |_, own| {
            control.reserve(own.len() * width)?;
            candidates.extend(own);
            // Rarely, so that the work stays linear.
            let n = candidates.len();
            if n > top.saturating_mul(4).max(1 << 16) {
                keep_top(&mut candidates, top, compare);
                control.release((n - candidates.len()) * width);
            }
            Ok(true)
        },
    )?;
    sort_page(&mut candidates, plan, compare);
    let eval = |candidate: &&Candidate, output: &BoundExpr| {
        let fragment = &snapshot.fragments()[candidate.fragment];
        output.eval(&plan.rows, &|slot| match fragment.columns().get(slot) {
            Some(column) => column.value(candidate.row),
            None => Value::Int(i128::from(fragment.address(candidate.row))),
        })
    };
    output::batches(plan, candidates.iter(), eval, control, sink)
}

/// The selected rows of a block that may be among the first `top`.
fn block_candidates<'a>(plan: &Plan, block: Block<'a>, mask: &Mask, top: usize) -> Result<Vec<Candidate>> {
    let mut out: Vec<Candidate> = Vec::new();
    let (mut words, mut rows) = (Vec::new(), Vec::new());
    for start in (0..block.rows()).step_by(BATCH_ROWS) {
        let length = (block.rows() - start).min(BATCH_ROWS);
        if mask.slice(start, length, &mut words) == 0 {
            continue;
        }
        let batch = Batch::new(block, start, length, &words);
        batch.selection(&mut rows);
        let keys = plan.order.iter().map(|key| batch.eval(&plan.outputs[key.output], &plan.rows));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        keep_first(&mut rows, &plan.order[0], &keys[0], top);
        out.extend(rows.iter().map(|row| Candidate {
            keys: keys.iter().map(|vector| sort_value(vector, *row as usize)).collect(),
            fragment: block.at,
            row: batch.first_row() + *row as usize,
        }));
    }
    Ok(out)
}

/// Drops rows that are behind `top` others by the first sort key alone, where that key is a plain number.
fn keep_first(rows: &mut Vec<u32>, key: &SortKey, vector: &Vector<'_>, top: usize) {
    if top == 0 || top >= rows.len() {
        return;
    }
    let number = |row: u32| -> Option<i64> {
        let row = row as usize;
        if !selects(vector.valid.as_deref(), row) {
            return Some(if key.nulls_first { i64::MIN } else { i64::MAX });
        }
        let number = match &vector.data {
            Data::Ints(v) => v[row],
            Data::UInts(v) => keys::of_u64(v[row]),
            Data::Floats(v) => one_zero(keys::of_f64(v[row])),
            Data::Texts(_) | Data::One(_) => return None,
        };
        Some(if key.descending { !number } else { number })
    };
    let Some(mut numbers) = rows.iter().map(|row| number(*row)).collect::<Option<Vec<_>>>() else { return };
    let (_, last, _) = numbers.select_nth_unstable(top - 1);
    let last = *last;
    rows.retain(|row| number(*row).is_none_or(|n| n <= last));
}

/// A value to sort by; dates, times and decimals of one column sort as their integers.
fn sort_value(vector: &Vector<'_>, row: usize) -> Value {
    if !selects(vector.valid.as_deref(), row) {
        return Value::Null;
    }
    match &vector.data {
        Data::Ints(v) => Value::Int(i128::from(v[row])),
        Data::UInts(v) => Value::Int(i128::from(v[row])),
        Data::Floats(v) => Value::Float(v[row]),
        Data::Texts(v) => Value::Text(v[row].into()),
        Data::One(value) => value.clone(),
    }
}
