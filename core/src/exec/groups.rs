//! Groups and their aggregates: each block makes groups of its own, and the blocks' groups are merged in order.

use std::cmp::Ordering;

use super::{
    Block, Control, Work,
    aggregate::{Kind, State},
    filter,
    group_keys::{Interner, KeyTable, Translation},
    many_groups::many_groups,
    one_group::one_group,
};
use crate::{
    error::Result,
    plan::{BoundAggregate, Plan, expr::BoundExpr, pred::Pred},
    schema::DataType,
    table::Snapshot,
    value::Value,
};

/// All groups, with their aggregates.
#[derive(Debug)]
pub(super) struct Groups<'a> {
    keys: KeyTable,
    key_types: Vec<DataType>,
    states: Vec<State>,
    aggregates: &'a [BoundAggregate],
    interner: Interner,
}

impl Groups<'_> {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The order of two groups by their keys; null comes last.
    pub(super) fn compare_keys(&self, a: usize, b: usize) -> Ordering {
        let pairs = self.keys.key(a).iter().zip(self.keys.key(b)).zip(&self.key_types);
        for ((a, b), data_type) in pairs {
            let order = match (a, b) {
                (Some(a), Some(b)) if a != b && *data_type == DataType::Utf8 => {
                    self.interner.text(*a).cmp(self.interner.text(*b))
                }
                (Some(a), Some(b)) => a.cmp(b),
                (a, b) => a.is_none().cmp(&b.is_none()),
            };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }

    /// The value of a group slot: the keys, then the aggregates.
    pub(super) fn value(&self, group: usize, slot: usize) -> Result<Value> {
        let key_types = &self.key_types;
        if slot < key_types.len() {
            return Ok(match self.keys.key(group)[slot] {
                None => Value::Null,
                Some(id) if key_types[slot] == DataType::Utf8 => Value::Text(self.interner.shared(id)),
                Some(key) => Value::from_key(key, key_types[slot]),
            });
        }
        let at = slot - key_types.len();
        self.states[at].result(&self.aggregates[at], group, |id| self.interner.shared(id))
    }
}

/// Runs the row level of a plan of groups.
pub(super) fn collect<'q>(
    plan: &'q Plan,
    keys: &'q [BoundExpr],
    aggregates: &'q [BoundAggregate],
    snapshot: &'q Snapshot,
    work: &mut Work<'q>,
    control: &Control,
) -> Result<Groups<'q>> {
    let slots = &plan.rows;
    let mut groups = Groups {
        keys: KeyTable::new(keys.len()),
        key_types: keys.iter().map(|key| key.data_type(slots).unwrap_or(DataType::Bool)).collect(),
        states: aggregates.iter().map(|a| State::new(Kind::of(a))).collect(),
        aggregates,
        interner: Interner::default(),
    };
    if keys.is_empty() {
        // There is one group even without rows.
        groups.keys.push(&[]);
        groups.states.iter_mut().for_each(|s| s.resize(1));
        if aggregates.iter().all(|a| a.argument.is_none()) {
            count_by_statistics(snapshot, work, &mut groups);
        }
    }
    let width = keys.len() * 16 + 16 + groups.states.iter().map(State::width).sum::<usize>();
    let mut key_maps: Vec<Translation> = keys.iter().map(|_| Translation::default()).collect();
    let mut state_maps: Vec<Translation> = aggregates.iter().map(|_| Translation::default()).collect();
    let mut fragment = None;
    let mut to = Vec::new();
    let mut key = vec![None; keys.len()];
    work.run(
        slots,
        if keys.is_empty() { 1 } else { width },
        false,
        |block, mask| {
            let partial = if keys.is_empty() {
                one_group(aggregates, slots, block, &mask)?
            } else {
                many_groups(keys, aggregates, slots, block, &mask)?
            };
            let held = partial.keys.len() * width
                + partial.states.iter().map(State::set_bytes).sum::<usize>()
                + partial.text_bytes();
            control.reserve(held)?;
            Ok((partial, held))
        },
        |block, (partial, held)| {
            if fragment.replace(block.at).is_some_and(|before| before != block.at) {
                groups.states.iter_mut().for_each(State::end_fragment);
            }
            let (groups_before, bytes_before) = (groups.keys.len(), groups.interner.bytes());
            to.clear();
            if keys.is_empty() {
                to.push(0);
            } else {
                key_maps
                    .iter_mut()
                    .zip(&partial.key_texts)
                    .for_each(|(map, texts)| map.turn(block, texts.as_ref()));
                for group in 0..partial.keys.len() {
                    let parts =
                        partial.keys.key(group).iter().zip(key_maps.iter_mut().zip(&partial.key_texts));
                    for (out, (part, (map, texts))) in key.iter_mut().zip(parts) {
                        *out = part.map(|k| map.id(k, texts.as_ref(), &mut groups.interner));
                    }
                    to.push(groups.keys.group(&key));
                }
            }
            let mut grown = 0;
            for (((state, from), map), texts) in
                groups.states.iter_mut().zip(&partial.states).zip(&mut state_maps).zip(&partial.state_texts)
            {
                state.resize(groups.keys.len());
                map.turn(block, texts.as_ref());
                if let Some(texts) = texts {
                    // Interned first, so that the order of texts can be read while keys are merged.
                    let interner = &mut groups.interner;
                    from.for_each_key(|key| {
                        map.id(key, Some(texts), interner);
                    });
                    let interner = &groups.interner;
                    let map = &*map;
                    let translate = |key: i64| map.known(key);
                    grown += state.merge(from, &to, translate, |a, b| interner.text(a) < interner.text(b));
                } else {
                    grown += state.merge(from, &to, |key| key, |a, b| a < b);
                }
            }
            grown += (groups.keys.len() - groups_before) * width + groups.interner.bytes() - bytes_before;
            control.reserve(grown)?;
            control.release(held);
            Ok(true)
        },
    )?;
    groups.states.iter_mut().for_each(State::end_fragment);
    Ok(groups)
}

/// Answers `count(*)` of whole fragments from their value counts, and takes their blocks off the work.
fn count_by_statistics(snapshot: &Snapshot, work: &mut Work<'_>, groups: &mut Groups<'_>) {
    for (at, fragment) in snapshot.fragments().iter().enumerate() {
        let Some(n) = filter::count(work.filters.get(at).unwrap_or(&Pred::Constant(true)), fragment) else {
            continue;
        };
        let open = |(block, all): &(Block<'_>, bool)| block.at == at && !all;
        work.statistics.blocks_pruned += work.blocks.iter().filter(|b| open(b)).count() as u64;
        work.blocks.retain(|(block, _)| block.at != at);
        work.statistics.rows_selected += n;
        groups.states.iter_mut().for_each(|s| s.add_count(0, n));
    }
}
