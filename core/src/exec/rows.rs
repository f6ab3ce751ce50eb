//! Selected rows themselves, in the order of their addresses or sorted.

use arrow_array::RecordBatch;

use super::{
    Block, Control, Work,
    output::{self, ANSWER_ROWS, ColumnBuilder, compare_rows},
    vector::{Batch, Data, Vector},
};
use crate::{
    error::Result,
    limits::BATCH_ROWS,
    mask::{Mask, selects},
    plan::{Plan, SortKey},
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
    if top == 0 {
        return Ok(());
    }
    // The candidates' keys are in the order's order.
    let order: Vec<SortKey> =
        plan.order.iter().enumerate().map(|(output, key)| SortKey { output, ..*key }).collect();
    let compare = |a: &Candidate, b: &Candidate| {
        compare_rows(&order, |i| &a.keys[i], |i| &b.keys[i])
            .then((a.fragment, a.row).cmp(&(b.fragment, b.row)))
    };
    let keep_top = |candidates: &mut Vec<Candidate>| {
        if candidates.len() > top {
            candidates.select_nth_unstable_by(top - 1, compare);
            candidates.truncate(top);
        }
    };
    let width = size_of::<Candidate>() + order.len() * size_of::<Value>();
    let mut candidates: Vec<Candidate> = Vec::new();
    work.run(
        &plan.rows,
        control,
        false,
        |block, mask| {
            let mut own = block_candidates(plan, block, mask)?;
            keep_top(&mut own);
            Ok(own)
        },
        |_, own| {
            control.reserve(own.len() * width)?;
            candidates.extend(own);
            // Rarely, so that the work stays linear.
            let n = candidates.len();
            if n > top.saturating_mul(4).max(1 << 16) {
                keep_top(&mut candidates);
                control.release((n - candidates.len()) * width);
            }
            Ok(true)
        },
    )?;
    keep_top(&mut candidates);
    candidates.sort_unstable_by(compare);
    let skip = usize::try_from(plan.offset).unwrap_or(usize::MAX);
    let rows = candidates.iter().skip(skip).enumerate().map(|(i, candidate)| {
        if i % ANSWER_ROWS == 0 {
            control.check()?;
        }
        let fragment = &snapshot.fragments()[candidate.fragment];
        let value_of = |slot: usize| match fragment.columns().get(slot) {
            Some(column) => column.value(candidate.row),
            None => Value::Int(i128::from(fragment.address(candidate.row))),
        };
        plan.outputs[..plan.visible()].iter().map(|output| output.eval(&plan.rows, &value_of)).collect()
    });
    output::values(plan.schema(), plan.visible(), rows, sink)
}

fn block_candidates<'a>(plan: &Plan, block: Block<'a>, mask: &Mask) -> Result<Vec<Candidate>> {
    let mut out = Vec::new();
    let (mut words, mut rows) = (Vec::new(), Vec::new());
    for start in (0..block.rows()).step_by(BATCH_ROWS) {
        let length = (block.rows() - start).min(BATCH_ROWS);
        if mask.slice(start, length, &mut words) == 0 {
            continue;
        }
        let batch = Batch::new(block, start, length, &words);
        batch.selection(&mut rows);
        let at = out.len();
        out.extend(rows.iter().map(|row| Candidate {
            keys: Vec::with_capacity(plan.order.len()),
            fragment: block.at,
            row: batch.first_row() + *row as usize,
        }));
        for key in &plan.order {
            let vector = batch.eval(&plan.outputs[key.output], &plan.rows)?;
            for (candidate, row) in out[at..].iter_mut().zip(&rows) {
                candidate.keys.push(sort_value(&vector, *row as usize));
            }
        }
    }
    Ok(out)
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
