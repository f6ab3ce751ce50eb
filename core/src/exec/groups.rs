//! Groups and their aggregates: each block makes groups of its own, and the blocks' groups are merged in order.

use std::cmp::Ordering;

use super::{
    Block, Control, Work,
    aggregate::{Keys, Kind, State},
    by_statistics::by_statistics,
    distinct::Distinct,
    group_keys::{Interner, KeyTable, Partial, Translation},
    many_groups::many_groups,
    one_group::one_group,
    radix::{KeyRange, Radix},
    totals::Arguments,
};
use crate::{
    error::Result,
    fragment::Values,
    plan::{BoundAggregate, Plan, expr::BoundExpr},
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
    /// The place of each aggregate's argument.
    arguments: Vec<Option<usize>>,
    /// The texts of each key, and of each argument.
    key_texts: Vec<Interner>,
    texts: Vec<Interner>,
}

impl Groups<'_> {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The order of two groups by their keys; null comes last.
    pub(super) fn compare_keys(&self, a: usize, b: usize) -> Ordering {
        let pairs = self.keys.key(a).iter().zip(self.keys.key(b));
        for ((a, b), (data_type, texts)) in pairs.zip(self.key_types.iter().zip(&self.key_texts)) {
            let order = match (a, b) {
                (Some(a), Some(b)) if a != b && *data_type == DataType::Utf8 => {
                    texts.text(*a).cmp(texts.text(*b))
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
                Some(id) if key_types[slot] == DataType::Utf8 => Value::Text(self.key_texts[slot].shared(id)),
                Some(key) => Value::from_key(key, key_types[slot]),
            });
        }
        let at = slot - key_types.len();
        let text = |id| self.arguments[at].map_or_else(|| "".into(), |at| self.texts[at].shared(id));
        self.states[at].result(&self.aggregates[at], group, text)
    }

    /// Bytes of texts.
    fn text_bytes(&self) -> usize {
        self.key_texts.iter().chain(&self.texts).map(Interner::bytes).sum()
    }
}

/// Runs the row level of a plan of groups.
pub(super) fn collect<'q>(
    plan: &'q Plan,
    keys: &'q [BoundExpr],
    aggregates: &'q [BoundAggregate],
    snapshot: &'q Snapshot,
    work: &mut Work<'q, '_>,
    control: &Control,
) -> Result<Groups<'q>> {
    let slots = &plan.rows;
    let arguments = Arguments::new(aggregates, slots);
    let mut groups = Groups {
        keys: KeyTable::new(keys.len(), radix(keys, snapshot)),
        key_types: keys.iter().map(|key| key.data_type(slots).unwrap_or(DataType::Bool)).collect(),
        states: aggregates.iter().map(|a| State::new(Kind::of(a))).collect(),
        aggregates,
        key_texts: keys.iter().map(|_| Interner::default()).collect(),
        texts: arguments.all.iter().map(|_| Interner::default()).collect(),
        arguments: arguments.of.clone(),
    };
    let width = keys.len() * 16 + 16 + groups.states.iter().map(State::width).sum::<usize>();
    if keys.is_empty() {
        // There is one group even without rows.
        groups.keys.push(&[]);
        let set =
            |argument| Distinct::of_range(range(argument, snapshot), BITMAP_WORDS.max(snapshot.rows() / 8));
        groups.states = aggregates
            .iter()
            .map(|a| State::one(Kind::of(a), a.argument.as_ref().map_or_else(Distinct::default, set)))
            .collect();
        control.reserve(groups.states.iter().map(State::set_bytes).sum())?;
    }
    let mut merger = Merger {
        key: vec![None; keys.len()],
        to: Vec::new(),
        key_maps: keys.iter().map(|_| Translation::default()).collect(),
        maps: arguments.all.iter().map(|_| Translation::default()).collect(),
        fragment: None,
        width,
        control,
    };
    for (block, partial) in by_statistics(keys, &arguments, work) {
        merger.merge(&mut groups, block, &partial)?;
    }
    work.run(
        slots,
        if keys.is_empty() { 1 } else { width },
        false,
        |block, mask| {
            let partial = if keys.is_empty() {
                one_group(&arguments, slots, block, &mask)?
            } else {
                many_groups(keys, &arguments, slots, block, &mask)?
            };
            let held = partial.keys.len() * width + partial.set_bytes();
            control.reserve(held)?;
            Ok((partial, held))
        },
        |block, (partial, held)| {
            merger.merge(&mut groups, block, &partial)?;
            control.release(held);
            Ok(true)
        },
    )?;
    groups.states.iter_mut().for_each(State::end_fragment);
    Ok(groups)
}

/// Takes the groups of blocks in.
struct Merger<'a> {
    key: Vec<Option<i64>>,
    /// The group of each of a block's groups.
    to: Vec<u32>,
    key_maps: Vec<Translation>,
    maps: Vec<Translation>,
    fragment: Option<usize>,
    /// Bytes of a group.
    width: usize,
    control: &'a Control,
}

impl Merger<'_> {
    fn merge(&mut self, groups: &mut Groups<'_>, block: Block<'_>, partial: &Partial<'_>) -> Result<()> {
        if self.fragment.replace(block.at).is_some_and(|before| before != block.at) {
            groups.states.iter_mut().for_each(State::end_fragment);
        }
        let (groups_before, bytes_before) = (groups.keys.len(), groups.text_bytes());
        self.to.clear();
        if self.key.is_empty() {
            self.to.push(0);
        } else {
            let maps = self.key_maps.iter_mut().zip(&partial.key_texts);
            maps.for_each(|(map, texts)| map.turn(block, texts.as_ref()));
            for group in 0..partial.keys.len() {
                let key = self.key.iter_mut().zip(partial.keys.key(group));
                let maps = self.key_maps.iter_mut().zip(&partial.key_texts).zip(&mut groups.key_texts);
                for ((out, part), ((map, texts), interner)) in key.zip(maps) {
                    *out = part.map(|key| map.id(key, texts.as_ref(), interner));
                }
                self.to.push(groups.keys.group(&self.key));
            }
        }
        // Texts are interned first, so that their order can be read while keys are merged.
        for ((map, totals), interner) in self.maps.iter_mut().zip(&partial.totals).zip(&mut groups.texts) {
            map.turn(block, totals.texts.as_ref());
            if totals.texts.is_some() {
                totals.for_each_key(|key| {
                    map.id(key, totals.texts.as_ref(), interner);
                });
            }
        }
        let mut grown = 0;
        for (state, argument) in groups.states.iter_mut().zip(&groups.arguments) {
            state.resize(groups.keys.len());
            let (totals, keys) = match argument {
                None => (&partial.rows, Keys::Same),
                Some(at) if partial.totals[*at].texts.is_none() => (&partial.totals[*at], Keys::Same),
                Some(at) => {
                    let keys = Keys::Texts { map: &self.maps[*at], interner: &groups.texts[*at] };
                    (&partial.totals[*at], keys)
                }
            };
            grown += state.merge(totals, &self.to, &keys);
        }
        grown += (groups.keys.len() - groups_before) * self.width + groups.text_bytes() - bytes_before;
        self.control.reserve(grown)
    }
}

/// Words of a bitmap of distinct keys: at most this many, or eight bits for each row.
const BITMAP_WORDS: u64 = 1 << 17;
/// Places of the array that finds groups, at most.
const MOST_PLACES: usize = 1 << 20;

/// The numbers of a query's groups, where their keys span little.
fn radix(keys: &[BoundExpr], snapshot: &Snapshot) -> Option<Radix> {
    let range_of = |key| range(key, snapshot).map(|(low, high)| KeyRange { low, high, nullable: true });
    Radix::new(keys.iter().map(range_of), MOST_PLACES)
}

/// The least and the greatest key of a column; of a text the numbers that the interner may give it.
fn range(expr: &BoundExpr, snapshot: &Snapshot) -> Option<(i64, i64)> {
    let BoundExpr::Slot(slot) = expr else { return None };
    let mut texts = 0;
    let mut range: Option<(i64, i64)> = None;
    for fragment in snapshot.fragments() {
        let column = fragment.columns().get(*slot)?;
        match column.values() {
            Values::Text(column) => texts += column.codes()?.entries.rows(),
            Values::Keys(_) => {
                let ranges = column.zones().iter().filter_map(|zone| zone.range);
                range = ranges.chain(range).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
            }
        }
    }
    // The two zeros of a float are one key.
    range
        .map(|(low, high)| (low, if high == -1 { 0 } else { high }))
        .or_else(|| Some((0, i64::try_from(texts).ok()? - 1)))
}
