//! Selected rows themselves, in the order of their addresses or sorted.

use std::{borrow::Cow, cmp::Ordering};

use arrow_array::RecordBatch;

use super::{
    Block, Control, Scan, failure_code,
    output::{self, ColumnBuilder, compare_values, keep_top, sort_page},
    profile::{Step, Watch},
    source::one_zero,
    vector::{Data, Vector},
};
use crate::{
    encoding::{Texts, owned_bytes},
    error::Result,
    invariant::index,
    keys,
    limits::{ANSWER_ROWS, ANSWER_TEXT_BYTES},
    mask::{Mask, selects},
    plan::{Plan, SortKey, expr::BoundExpr},
    table::Snapshot,
    value::Value,
};

/// What an answer shows of rows that come in their order.
#[derive(Debug)]
pub(super) struct Page {
    skip: usize,
    top: usize,
    seen: usize,
}

impl Page {
    pub(super) fn new(plan: &Plan) -> Self {
        let top = plan.top_items();
        Self { skip: index(plan.offset), top, seen: 0 }
    }

    /// The rows of the next batch that it shows.
    pub(super) fn of(&mut self, batch: &RecordBatch) -> Option<RecordBatch> {
        let n = batch.num_rows();
        let from = self.skip.saturating_sub(self.seen).min(n);
        let to = (self.top - self.seen.min(self.top)).min(n);
        self.seen += n;
        (from < to).then(|| batch.slice(from, to - from))
    }

    /// Whether it shows none of those that come later.
    pub(super) fn is_full(&self) -> bool {
        self.seen >= self.top || self.skip >= self.top
    }
}

/// Rows in the order of their addresses, handed out as blocks are done, with the id of their fragment.
pub(super) fn stream<'q>(
    plan: &'q Plan,
    scan: &mut Scan<'q, '_>,
    control: &Control,
    sink: &mut dyn FnMut(u32, RecordBatch) -> Result<()>,
) -> Result<()> {
    let mut page = Page::new(plan);
    if page.is_full() {
        return Ok(());
    }
    let top = page.top;
    scan.run(
        &plan.rows,
        plan.outputs.len() * size_of::<Value>(),
        top != usize::MAX,
        |block, mask| block_rows(plan, block, &mask, top, control),
        |block, batches| {
            for (batch, reserved) in batches {
                if let Some(batch) = page.of(&batch) {
                    sink(block.fragment.id(), batch)?;
                }
                control.release(reserved);
            }
            Ok(!page.is_full())
        },
    )
}

/// The first `top` selected rows of a block, in batches with the memory that each has reserved: texts are copied out of
/// their columns, where they may stand once for many rows.
fn block_rows<'a>(
    plan: &Plan,
    block: Block<'a>,
    mask: &Mask,
    top: usize,
    control: &Control,
) -> Result<Vec<(RecordBatch, usize)>> {
    let mut batches = Vec::new();
    let mut columns = ColumnBuilder::for_schema(plan.schema());
    let (mut n, mut text_bytes, mut total) = (0, 0, 0);
    let mut rows = Vec::new();
    block.for_each_few(mask, |batch| {
        if total == top {
            return Ok(());
        }
        batch.selection(&mut rows);
        rows.truncate(top - total);
        let vectors = plan.outputs.iter().map(|output| batch.eval(output, &plan.rows));
        let vectors = vectors.collect::<Result<Vec<_>>>()?;
        total += rows.len();
        let mut rest = rows.as_slice();
        while !rest.is_empty() {
            let now;
            (now, rest) = rest.split_at(rows_that_fit(&vectors, rest, &mut text_bytes));
            for (column, vector) in columns.iter_mut().zip(&vectors) {
                column.push_rows(vector, now)?;
            }
            n += now.len();
            if text_bytes >= ANSWER_TEXT_BYTES {
                control.check()?;
                batches.push(reserved(output::batch(plan.schema(), &mut columns, n)?, control)?);
                (n, text_bytes) = (0, 0);
            }
        }
        if n >= ANSWER_ROWS {
            batches.push(reserved(output::batch(plan.schema(), &mut columns, n)?, control)?);
            (n, text_bytes) = (0, 0);
        }
        Ok(())
    })?;
    if n > 0 {
        batches.push(reserved(output::batch(plan.schema(), &mut columns, n)?, control)?);
    }
    Ok(batches)
}

/// A batch, and what is counted for it.
fn reserved(batch: RecordBatch, control: &Control) -> Result<(RecordBatch, usize)> {
    let bytes = batch.get_array_memory_size();
    control.reserve(bytes)?;
    Ok((batch, bytes))
}

/// How many of `rows` come before the texts have [`ANSWER_TEXT_BYTES`]; their bytes are added to `text_bytes`.
fn rows_that_fit(vectors: &[Vector<'_>], rows: &[u32], text_bytes: &mut usize) -> usize {
    let texts: Vec<_> = vectors.iter().filter(|vector| vector.is_text()).collect();
    if texts.is_empty() {
        return rows.len();
    }
    for (i, row) in rows.iter().enumerate() {
        *text_bytes += texts.iter().map(|vector| vector.text_bytes(*row as usize)).sum::<usize>();
        if *text_bytes >= ANSWER_TEXT_BYTES {
            return i + 1;
        }
    }
    rows.len()
}

/// A row that is to be sorted: its sort keys, and where it is.
#[derive(Debug)]
struct Candidate<'a> {
    keys: Vec<Key<'a>>,
    fragment: usize,
    row: usize,
}

impl Candidate<'_> {
    /// Bytes of texts of its own.
    fn text_bytes(&self) -> usize {
        let texts = self.keys.iter().map(|key| if let Key::Text(text) = key { owned_bytes(text) } else { 0 });
        texts.sum()
    }
}

/// A value to sort by. Texts that their column lends stay where they are.
#[derive(Debug)]
enum Key<'a> {
    Text(Cow<'a, str>),
    Value(Value),
}

fn compare_keys(order: &SortKey, a: &Key<'_>, b: &Key<'_>) -> Ordering {
    match (a, b) {
        (Key::Text(a), Key::Text(b)) if order.descending => b.cmp(a),
        (Key::Text(a), Key::Text(b)) => a.cmp(b),
        (Key::Value(a), Key::Value(b)) => compare_values(order, a, b),
        // The value is null: of one expression all others are texts.
        (Key::Text(_), Key::Value(_)) if order.nulls_first => Ordering::Greater,
        (Key::Text(_), Key::Value(_)) => Ordering::Less,
        (Key::Value(_), Key::Text(_)) => compare_keys(order, b, a).reverse(),
    }
}

/// Rows sorted. Only sort keys are read for every selected row; the outputs are read for the rows that stay.
pub(super) fn sorted<'q>(
    plan: &'q Plan,
    snapshot: &Snapshot,
    scan: &mut Scan<'q, '_>,
    control: &Control,
    sink: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let top = plan.top_items();
    let compare = |a: &Candidate<'_>, b: &Candidate<'_>| {
        let by_order =
            plan.order.iter().zip(a.keys.iter().zip(&b.keys)).map(|(key, (a, b))| compare_keys(key, a, b));
        by_order.fold(Ordering::Equal, Ordering::then).then((a.fragment, a.row).cmp(&(b.fragment, b.row)))
    };
    let width = size_of::<Candidate<'_>>() + plan.order.len() * size_of::<Key<'_>>();
    let bytes = |some: &[Candidate<'_>]| some.iter().map(|one| width + one.text_bytes()).sum::<usize>();
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    scan.run(
        &plan.rows,
        width,
        false,
        |block, mask| {
            let mut own = Vec::new();
            block_candidates(plan, block, &mask, top, |some: Vec<_>| {
                control.reserve(bytes(&some))?;
                own.extend(some);
                Ok(())
            })?;
            let before = bytes(&own);
            keep_top(&mut own, top, compare);
            control.release(before - bytes(&own));
            Ok(own)
        },
        |_, own| {
            candidates.extend(own);
            // Rarely, so that the work stays linear.
            if candidates.len() > top.saturating_mul(4).max(1 << 16) {
                let before = bytes(&candidates);
                keep_top(&mut candidates, top, compare);
                control.release(before - bytes(&candidates));
            }
            Ok(true)
        },
    )?;
    let watch = Watch::start(control);
    let found = candidates.len() as u64;
    sort_page(&mut candidates, plan, compare);
    let eval = |candidate: &Candidate<'_>, output: &BoundExpr| {
        let fragment = &snapshot.fragments()[candidate.fragment];
        output.eval(&plan.rows, &|slot| match fragment.column_at(slot) {
            Some(column) => column.value(candidate.row),
            None => Value::Int(i128::from(fragment.address(candidate.row))),
        })
    };
    // A part has a column for the rows that have no values: elsewhere rows may come before them, so that they are
    // not in the answer.
    let is_part = plan.schema().fields().len() > plan.outputs.len();
    let failure = |candidate: &Candidate<'_>| {
        let errors = plan.outputs.iter().filter_map(|output| eval(candidate, output).err());
        errors.filter_map(|error| failure_code(&error)).next()
    };
    let value = |candidate: &&Candidate<'_>, at: usize| match plan.outputs.get(at) {
        None => Ok(failure(candidate).map_or(Value::Null, |code| Value::Int(code.into()))),
        Some(output) => match eval(candidate, output) {
            Err(error) if is_part && failure_code(&error).is_some() => Ok(Value::Null),
            value => value,
        },
    };
    output::batches(plan, candidates.iter(), value, control, sink)?;
    watch.stop(Step::Finish, found, candidates.len() as u64);
    Ok(())
}

/// Hands out the selected rows of a block that may be among the first `top`.
fn block_candidates<'a>(
    plan: &Plan,
    block: Block<'a>,
    mask: &Mask,
    top: usize,
    mut each: impl FnMut(Vec<Candidate<'a>>) -> Result<()>,
) -> Result<()> {
    let mut rows = Vec::new();
    block.for_each_few(mask, |batch| {
        batch.selection(&mut rows);
        let keys = plan.order.iter().map(|key| batch.eval(&plan.outputs[key.output], &plan.rows));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        keep_first(&mut rows, &plan.order[0], &keys[0], top);
        let candidate = |row: &u32| Candidate {
            keys: keys.iter().map(|vector| sort_key(vector, *row as usize)).collect(),
            fragment: block.at,
            row: batch.row(*row as usize),
        };
        each(rows.iter().map(candidate).collect())
    })
}

/// Drops rows that are behind `top` others by the first sort key alone, where that key is a plain number or a text.
fn keep_first(rows: &mut Vec<u32>, key: &SortKey, vector: &Vector<'_>, top: usize) {
    if top == 0 || top >= rows.len() {
        return;
    }
    if let Data::Texts(texts) = &vector.data {
        return keep_first_texts(rows, key, texts, vector.valid.as_deref(), top);
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

/// The same of texts.
fn keep_first_texts(
    rows: &mut Vec<u32>,
    key: &SortKey,
    texts: &Texts<'_>,
    valid: Option<&[u64]>,
    top: usize,
) {
    let is_valid = |row: u32| selects(valid, row as usize);
    let in_order = |a: &&str, b: &&str| if key.descending { b.cmp(a) } else { a.cmp(b) };
    let mut known: Vec<&str> =
        rows.iter().filter(|row| is_valid(**row)).map(|row| texts.get(*row as usize)).collect();
    let before = if key.nulls_first { rows.len() - known.len() } else { 0 };
    let Some(wanted) = top.checked_sub(before).filter(|wanted| *wanted > 0) else {
        rows.retain(|row| !is_valid(*row));
        return;
    };
    if wanted > known.len() {
        return;
    }
    let (_, last, _) = known.select_nth_unstable_by(wanted - 1, in_order);
    let last = *last;
    rows.retain(|row| match is_valid(*row) {
        true => in_order(&texts.get(*row as usize), &last).is_le(),
        false => key.nulls_first,
    });
}

/// A value to sort by; dates, times and decimals of one column sort as their integers.
fn sort_key<'a>(vector: &Vector<'a>, row: usize) -> Key<'a> {
    if !selects(vector.valid.as_deref(), row) {
        return Key::Value(Value::Null);
    }
    Key::Value(match &vector.data {
        Data::Ints(v) => Value::Int(i128::from(v[row])),
        Data::UInts(v) => Value::Int(i128::from(v[row])),
        Data::Floats(v) => Value::Float(v[row]),
        Data::Texts(v) => return Key::Text(v.keep(row)),
        Data::One(value) => value.clone(),
    })
}
