//! Which groups an answer shows: all in the order of their keys, or the page of an order. Of an order that is cut to a page no more
//! groups are held than some times its length: most are no better than the worst that is kept, and are passed over at once.

use std::cmp::Ordering;

use super::{
    Control, Held,
    group_output::{eval, keys_of, passing},
    group_vectors::GroupVectors,
    groups::Groups,
    output::{compare_by, keep_top, sort_page},
    vector::{Data, Vector},
};
use crate::{
    error::Result,
    invariant::{count, index},
    limits::ANSWER_ROWS,
    mask::selects,
    plan::{Plan, pred::Pred},
    schema::DataType,
    value::Value,
};

/// What the answer shows of all groups in the order of their keys.
pub(super) fn by_key(plan: &Plan, groups: &Groups<'_>, held: &mut Held<'_>) -> Result<Vec<u32>> {
    let mut shown: Vec<u32> = (0..count(groups.len())).collect();
    held.set(size_of_val(shown.as_slice()))?;
    let page = |shown: &mut Vec<u32>| {
        shown.truncate(plan.top_items());
        shown.drain(..index(plan.offset).min(shown.len()));
    };
    match groups.keys.numbers() {
        _ if groups.keys.is_sorted() => page(&mut shown),
        Some(numbers) => {
            held.set(held.bytes() + numbers.len() * size_of::<(u64, u32)>())?;
            sort_by_number(numbers, groups.keys.size(), &mut shown, held.control())?;
            held.set(size_of_val(shown.as_slice()))?;
            page(&mut shown);
        }
        None => sort_page(&mut shown, plan, |a, b| groups.compare_keys(*a as usize, *b as usize)),
    }
    Ok(shown)
}

/// Parts of the numbers that are sorted for themselves.
const PARTS: usize = 1 << 11;

/// Numbers between two looks at whether the query goes on.
const CHECKED: usize = 1 << 17;

/// Sorts groups by their numbers, which are below `size`: first into parts of the range, each of which fits the cache.
fn sort_by_number(numbers: &[u64], size: usize, groups: &mut [u32], control: &Control) -> Result<()> {
    let width = size.div_ceil(PARTS).max(1) as u64;
    let part = |number: u64| index(number / width);
    let mut starts = vec![0_usize; PARTS + 1];
    for numbers in numbers.chunks(CHECKED) {
        control.check()?;
        numbers.iter().for_each(|number| starts[part(*number) + 1] += 1);
    }
    for i in 0..PARTS {
        starts[i + 1] += starts[i];
    }
    let mut next = starts.clone();
    let mut pairs = vec![(0_u64, 0_u32); numbers.len()];
    for (group, number) in (0_u32..).zip(numbers) {
        if (group as usize).is_multiple_of(CHECKED) {
            control.check()?;
        }
        let place = &mut next[part(*number)];
        pairs[*place] = (*number, group);
        *place += 1;
    }
    for (i, range) in starts.windows(2).enumerate() {
        if i % 16 == 0 {
            control.check()?;
        }
        pairs[range[0]..range[1]].sort_unstable();
    }
    groups.iter_mut().zip(pairs).for_each(|(group, (_, sorted))| *group = sorted);
    Ok(())
}

/// What the answer shows of the groups that `having` lets pass, in the plan's order.
pub(super) fn by_order(
    plan: &Plan,
    groups: &Groups<'_>,
    having: Option<&Pred>,
    held: &mut Held<'_>,
) -> Result<Vec<u32>> {
    let width = size_of::<Ordered>() + plan.order.len() * size_of::<Value>();
    let mut top = Top::new(plan, groups);
    for from in (0..groups.len()).step_by(ANSWER_ROWS) {
        held.control().check()?;
        held.set(top.kept.capacity() * width)?;
        let mut some: Vec<u32> = (count(from)..count(groups.len().min(from + ANSWER_ROWS))).collect();
        if let Some(having) = having {
            some = passing(plan, groups, having, &some)?;
        }
        top.offer(&some)?;
    }
    held.set(top.kept.capacity() * width)?;
    Ok(top.page())
}

/// A group, and its values of what the order is by.
type Ordered = (usize, Vec<Value>);

/// The first groups of an order, as many as the page ends at.
struct Top<'a, 'q> {
    plan: &'a Plan,
    groups: &'a Groups<'q>,
    kept: Vec<Ordered>,
    /// Of what is kept the last that the page may show, once there is as much: nothing behind it is shown.
    worst: Option<Ordered>,
}

impl<'a, 'q> Top<'a, 'q> {
    fn new(plan: &'a Plan, groups: &'a Groups<'q>) -> Self {
        Self { plan, groups, kept: Vec::new(), worst: None }
    }

    fn offer(&mut self, some: &[u32]) -> Result<()> {
        let Self { plan, groups, .. } = *self;
        let by: Vec<_> = plan.order.iter().map(|key| &plan.outputs[key.output]).collect();
        let types: Vec<_> = by.iter().map(|expr| expr.data_type(&plan.slots)).collect();
        let mut slots = Vec::new();
        by.iter().for_each(|expr| expr.slots(&mut slots));
        let keys = keys_of(groups, &slots, some);
        let vectors = GroupVectors::new(plan, groups, some, &keys);
        let vectors: Vec<_> = by.iter().map(|expr| vectors.eval(expr)).collect();
        let mut values = Vec::with_capacity(by.len());
        for (row, group) in some.iter().enumerate() {
            let group = *group as usize;
            values.clear();
            for (at, vector) in vectors.iter().enumerate() {
                let value = vector.as_ref().and_then(|vector| value_of(vector, row, types[at]));
                values.push(match value {
                    Some(value) => value,
                    None => eval(plan, groups, by[at], group)?,
                });
            }
            self.add(group, &mut values);
        }
        Ok(())
    }

    fn add(&mut self, group: usize, values: &mut Vec<Value>) {
        if self
            .worst
            .as_ref()
            .is_some_and(|worst| self.compare((group, &values[..]), (worst.0, &worst.1)).is_gt())
        {
            return;
        }
        self.kept.push((group, std::mem::replace(values, Vec::with_capacity(values.len()))));
        let top = self.plan.top_items();
        // Rarely, so that the work stays linear.
        if self.kept.len() >= top.saturating_mul(2).max(ANSWER_ROWS) {
            let mut kept = std::mem::take(&mut self.kept);
            keep_top(&mut kept, top, |a, b| self.compare((a.0, &a.1), (b.0, &b.1)));
            self.worst = kept.last().cloned();
            self.kept = kept;
        }
    }

    /// Groups that the order leaves equal come by their keys, so that an answer is always the same.
    fn compare(&self, a: (usize, &[Value]), b: (usize, &[Value])) -> Ordering {
        compare_by(&self.plan.order, a.1, b.1).then_with(|| self.groups.compare_keys(a.0, b.0))
    }

    fn page(mut self) -> Vec<u32> {
        let mut kept = std::mem::take(&mut self.kept);
        sort_page(&mut kept, self.plan, |a, b| self.compare((a.0, &a.1), (b.0, &b.1)));
        kept.into_iter().map(|(group, _)| count(group)).collect()
    }
}

/// The value of a row, of a type whose values are told by the number alone; `None`: of another.
fn value_of(vector: &Vector<'_>, row: usize, data_type: Option<DataType>) -> Option<Value> {
    if !selects(vector.valid.as_deref(), row) {
        return Some(Value::Null);
    }
    Some(match (&vector.data, data_type?) {
        (Data::Ints(ints), DataType::Int64) => Value::Int(ints[row].into()),
        (Data::UInts(uints), DataType::UInt64) => Value::Int(uints[row].into()),
        (Data::Floats(floats), DataType::Float64) => Value::Float(floats[row]),
        _ => return None,
    })
}
