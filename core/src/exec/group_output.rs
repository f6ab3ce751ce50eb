//! The last steps of a plan of groups: `having` and the outputs of what its order shows. Outputs are made column by column
//! for as many groups as a batch has: the groups of an order lie anywhere in memory, and reading much of one column at
//! a time hides how far.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};

use super::{
    Control, Held,
    group_order::{by_key, by_order},
    group_vectors::GroupVectors,
    groups::Groups,
    output::{ColumnBuilder, batch_of},
    text_gather::TextGather,
};
use crate::{
    error::Result,
    invariant::{Invariant, count, index},
    limits::{ANSWER_ROWS, ANSWER_TEXT_BYTES},
    mask::selects,
    plan::{Plan, expr::BoundExpr, pred::Pred},
    schema::DataType,
    value::Value,
};

/// Having, order, limit, outputs. Says how many rows the answer has.
pub(super) fn groups(
    plan: &Plan,
    groups: &Groups<'_>,
    having: Option<&Pred>,
    control: &Control,
    sink: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<u64> {
    let mut held = Held::new(control);
    let shown = if having.is_none() && plan.order.is_empty() {
        by_key(plan, groups, &mut held)?
    } else {
        by_order(plan, groups, having, &mut held)?
    };
    let mut answer = Answer::new(plan, control);
    answer.push(groups, &shown, sink)?;
    Ok(answer.shown())
}

/// The value of an expression over a group.
pub(super) fn eval(plan: &Plan, groups: &Groups<'_>, expr: &BoundExpr, group: usize) -> Result<Value> {
    let BoundExpr::Slot(slot) = expr else {
        let mut slots = Vec::new();
        expr.slots(&mut slots);
        let values = values_of(groups, &slots, group)?;
        return expr.eval(&plan.slots, &|slot| value_in(&values, slot));
    };
    groups.value(group, *slot)
}

/// The values of some slots: one can fail (a sum that does not fit), so those that are read are asked for first.
fn values_of(groups: &Groups<'_>, slots: &[usize], group: usize) -> Result<Vec<(usize, Value)>> {
    slots.iter().map(|slot| Ok((*slot, groups.value(group, *slot)?))).collect()
}

fn value_in(values: &[(usize, Value)], slot: usize) -> Value {
    let value = values.iter().find(|(s, _)| *s == slot);
    value.map(|(_, value)| value.clone()).invariant("slots are asked for before they are read")
}

/// Those of some groups that `having` lets pass.
pub(super) fn passing(plan: &Plan, groups: &Groups<'_>, having: &Pred, some: &[u32]) -> Result<Vec<u32>> {
    let mut slots = Vec::new();
    having.slots(&mut slots);
    let keys = keys_of(groups, &slots, some);
    if let Some(mask) = GroupVectors::new(plan, groups, some, &keys).test(having) {
        let passing = some.iter().enumerate().filter(|(row, _)| selects(Some(&mask), *row));
        return Ok(passing.map(|(_, group)| *group).collect());
    }
    let mut passing = Vec::new();
    for group in some {
        let values = values_of(groups, &slots, *group as usize)?;
        if having.eval(&plan.slots, &|slot| value_in(&values, slot))? {
            passing.push(*group);
        }
    }
    Ok(passing)
}

/// The keys of some groups, where any of the slots is one.
pub(super) fn keys_of(groups: &Groups<'_>, slots: &[usize], some: &[u32]) -> Vec<(Vec<i64>, Vec<u64>)> {
    match slots.iter().any(|slot| *slot < groups.key_types.len()) {
        true => groups.keys.columns(some),
        false => Vec::new(),
    }
}

/// Answers groups in batches, all at once or some after the other.
pub(super) struct Answer<'p> {
    plan: &'p Plan,
    control: &'p Control,
    columns: Vec<ColumnBuilder>,
    /// Of each key that is a text, once they are known.
    texts: Vec<Option<TextGather<'p>>>,
    /// Groups that are left out, and groups that are shown, from now on.
    skip: usize,
    left: usize,
    /// Groups that were shown.
    shown: u64,
}

impl<'p> Answer<'p> {
    /// The page of a plan.
    pub(super) fn new(plan: &'p Plan, control: &'p Control) -> Self {
        let skip = index(plan.offset);
        let left = plan.top_items().saturating_sub(skip);
        let columns = ColumnBuilder::for_schema(plan.schema());
        Self { plan, control, columns, texts: Vec::new(), skip, left, shown: 0 }
    }

    /// Answers groups that come next in the order of their keys, without any that the page leaves out. Says whether
    /// it has room for more.
    pub(super) fn add(
        &mut self,
        groups: &Groups<'_>,
        sink: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<bool> {
        let from = self.skip.min(groups.len());
        let to = from + self.left.min(groups.len() - from);
        (self.skip, self.left) = (self.skip - from, self.left - (to - from));
        let shown: Vec<u32> = (count(from)..count(to)).collect();
        self.push(groups, &shown, sink)?;
        Ok(self.left > 0)
    }

    /// How many groups were answered.
    pub(super) fn shown(&self) -> u64 {
        self.shown
    }

    /// Answers groups.
    fn push(
        &mut self,
        groups: &Groups<'_>,
        shown: &[u32],
        sink: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        self.shown += shown.len() as u64;
        if self.texts.is_empty() {
            let texts = groups.key_texts.iter().map(|texts| texts.sorted());
            let gathered = |texts| TextGather::new(texts, Held::new(self.control));
            self.texts = texts.map(|texts| texts.map(gathered)).collect();
        }
        // Those of very many groups come some after the others.
        for texts in self.texts.iter_mut().flatten() {
            texts.prepare(4 * index(self.shown))?;
        }
        let Self { plan, control, columns, texts, .. } = self;
        let outputs = &plan.outputs[..plan.schema().fields().len()];
        let mut rest = shown;
        while !rest.is_empty() {
            let now;
            (now, rest) = rest.split_at(groups_that_fit(plan, groups, outputs, rest)?);
            let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
            let keys = groups.keys.columns(now);
            let vectors = GroupVectors::new(plan, groups, now, &keys);
            for (output, column) in outputs.iter().zip(columns.iter_mut()) {
                if let BoundExpr::Slot(slot) = output
                    && let Some(Some(texts)) = texts.get(*slot)
                {
                    let (keys, valid) = &keys[*slot];
                    arrays.push(Arc::new(texts.gather(keys, valid)?));
                    continue;
                }
                match (vectors.eval(output), output) {
                    (Some(vector), _) => column.push_all(&vector, now.len())?,
                    (None, BoundExpr::Slot(slot)) if *slot < keys.len() => {
                        let ((keys, valid), texts) = (&keys[*slot], &groups.key_texts[*slot]);
                        column.push_texts(
                            keys.iter()
                                .enumerate()
                                .map(|(row, id)| selects(Some(valid), row).then(|| texts.text(*id))),
                        )?;
                    }
                    (None, output) => {
                        for group in now {
                            column.push(&eval(plan, groups, output, *group as usize)?)?;
                        }
                    }
                }
                arrays.push(column.finish());
            }
            control.check()?;
            sink(batch_of(plan.schema(), arrays, now.len())?)?;
        }
        Ok(())
    }
}

/// How many of some groups a batch has: their texts end it as well as their number.
fn groups_that_fit(plan: &Plan, groups: &Groups<'_>, outputs: &[BoundExpr], shown: &[u32]) -> Result<usize> {
    let shown = &shown[..shown.len().min(ANSWER_ROWS)];
    let texts: Vec<&BoundExpr> = outputs
        .iter()
        .zip(plan.schema().fields())
        .filter(|(_, field)| field.data_type == DataType::Utf8)
        .map(|(output, _)| output)
        .collect();
    let longest = texts.iter().map(|output| match output {
        BoundExpr::Slot(slot) => groups.key_texts.get(*slot)?.longest(),
        _ => None,
    });
    if longest.sum::<Option<usize>>().is_some_and(|longest| longest * ANSWER_ROWS < ANSWER_TEXT_BYTES) {
        return Ok(shown.len());
    }
    let mut bytes = 0;
    for (n, group) in (1..).zip(shown) {
        for output in &texts {
            bytes += match output {
                BoundExpr::Slot(slot) if *slot < groups.key_types.len() => {
                    let id = groups.keys.part(*group as usize, *slot);
                    // Default: null has no text.
                    id.map_or(0, |id| groups.key_texts[*slot].text(id).len())
                }
                output => match eval(plan, groups, output, *group as usize)? {
                    Value::Text(text) => text.len(),
                    _ => 0,
                },
            };
        }
        if bytes >= ANSWER_TEXT_BYTES {
            return Ok(n);
        }
    }
    Ok(shown.len())
}
