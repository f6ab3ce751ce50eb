//! Groups and their aggregates: each block makes groups of its own, and the blocks' groups are merged in order.

use std::{cmp::Ordering, sync::Arc};

use super::{
    Block, Control, Scan,
    aggregate::{Keys, Kind, State},
    by_statistics::by_statistics,
    control::Held,
    distinct::Distinct,
    fragment_aggregate::Query,
    group_keys::{Interner, KeyTable, Partial, Translation},
    hash_aggregate::hash_aggregate,
    numbering::Numbering,
    numbers::Numbers,
    partitioned::Partitioned,
    radix::{KeyRange, Radix},
    scalar_aggregate::scalar_aggregate,
    source::attribute_range,
    totals::{Arguments, Totals},
    vector::Vector,
};
use crate::{
    error::Result,
    fragment::Values,
    invariant::Invariant,
    limits::FRAGMENT_ROWS,
    plan::{
        BoundAggregate, Plan,
        expr::{BoundExpr, Slots},
    },
    schema::DataType,
    table::Snapshot,
    value::Value,
};

/// All groups, with their aggregates.
#[derive(Debug)]
pub(super) struct Groups<'a> {
    pub(super) keys: KeyTable,
    pub(super) key_types: Vec<DataType>,
    pub(super) states: Vec<State>,
    aggregates: &'a [BoundAggregate],
    pub(super) arguments: Arguments<'a>,
    /// The texts of each key, and of each argument.
    pub(super) key_texts: Vec<Interner>,
    pub(super) texts: Vec<Interner>,
}

impl<'a> Groups<'a> {
    /// No groups; `apart`: their float sums are kept for each fragment. `table` finds them.
    pub(super) fn new(
        keys: &[BoundExpr],
        aggregates: &'a [BoundAggregate],
        slots: &Slots,
        table: KeyTable,
        apart: bool,
    ) -> Self {
        let arguments = Arguments::new(aggregates, slots);
        Self {
            keys: table,
            key_types: keys
                .iter()
                .map(|key| key.data_type(slots).invariant("null is no group key"))
                .collect(),
            states: aggregates.iter().map(|a| State::new(Kind::of(a), apart)).collect(),
            aggregates,
            key_texts: keys.iter().map(|_| Interner::default()).collect(),
            texts: arguments.all.iter().map(|_| Interner::default()).collect(),
            arguments,
        }
    }

    /// Adds the one group that there is without keys, even without rows; `set` makes room for the distinct keys
    /// of an argument.
    pub(super) fn add_only(&mut self, set: impl Fn(&BoundExpr) -> Distinct, control: &Control) -> Result<()> {
        self.keys.push(&[]);
        let states = std::mem::take(&mut self.states).into_iter().zip(self.aggregates);
        let states = states.map(|(state, aggregate)| {
            state.with_group(aggregate.argument.as_ref().map_or_else(Distinct::default, &set))
        });
        self.states = states.collect();
        control.reserve(self.states.iter().map(State::set_bytes).sum())
    }

    /// Bytes of a group. What holds them may be half empty, and is there twice while it grows.
    fn width(&self) -> usize {
        2 * (self.key_types.len() * 16 + 16 + self.states.iter().map(State::width).sum::<usize>())
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The order of two groups by their keys; null comes last.
    pub(super) fn compare_keys(&self, a: usize, b: usize) -> Ordering {
        if let Some(numbers) = self.keys.numbers() {
            return numbers[a].cmp(&numbers[b]);
        }
        if self.keys.is_sorted() {
            return a.cmp(&b);
        }
        let types = self.key_types.iter().zip(&self.key_texts).enumerate();
        for (at, (data_type, texts)) in types {
            let order = match (self.keys.part(a, at), self.keys.part(b, at)) {
                (Some(a), Some(b)) if a != b && *data_type == DataType::Utf8 => {
                    texts.text(a).cmp(texts.text(b))
                }
                (Some(a), Some(b)) => a.cmp(&b),
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
            return Ok(match self.keys.part(group, slot) {
                None => Value::Null,
                Some(id) if key_types[slot] == DataType::Utf8 => Value::Text(self.key_texts[slot].shared(id)),
                Some(key) => Value::from_key(key, key_types[slot]),
            });
        }
        let at = slot - key_types.len();
        let text = |id| {
            let argument = self.arguments.of[at].invariant("an aggregate of texts has an argument");
            self.texts[argument].shared(id)
        };
        self.states[at].result(&self.aggregates[at], group, text)
    }

    /// The values of an aggregate's slot for some groups, where that is faster than one by one.
    pub(super) fn vector(&self, slot: usize, groups: &[u32]) -> Option<Vector<'static>> {
        let at = slot.checked_sub(self.key_types.len())?;
        self.states[at].vector(&self.aggregates[at], groups)
    }

    /// The blocks of a fragment are in. Returns the bytes by which that grew.
    fn end_fragment(&mut self, id: u32) -> usize {
        self.states.iter_mut().map(|state| state.end_fragment(id)).sum()
    }

    /// Bytes of texts.
    pub(super) fn text_bytes(&self) -> usize {
        self.key_texts.iter().chain(&self.texts).map(Interner::bytes).sum()
    }
}

/// Where groups go.
pub(super) enum To<'t> {
    /// They are handed out at the end.
    End,
    /// The same, where those of other fragments are added: float sums are kept for each fragment.
    Parts,
    /// They may be handed out before that, in the order of their keys and without those that were, until it is said
    /// that no more are wanted.
    Sink(&'t mut dyn FnMut(&Groups<'_>) -> Result<bool>),
}

impl To<'_> {
    fn is_apart(&self) -> bool {
        matches!(self, Self::Parts)
    }
}

/// Runs the row level of a plan of groups. Returns those that were not handed out.
pub(super) fn collect<'q>(
    plan: &'q Plan,
    keys: &'q [BoundExpr],
    aggregates: &'q [BoundAggregate],
    snapshot: &'q Snapshot,
    scan: &mut Scan<'q, '_>,
    to: To<'_>,
    control: &Control,
) -> Result<Groups<'q>> {
    let (slots, apart) = (&plan.rows, to.is_apart());
    let arguments = Arguments::new(aggregates, slots);
    if let Some(numbering) = Numbering::new(keys, &arguments, snapshot, scan, control)? {
        let query = Query { keys, arguments: &arguments, slots, numbering: &numbering };
        if numbering.rest().is_none() {
            return by_fragment(&query, aggregates, scan, to, control);
        }
        if let Some(partitioned) = Partitioned::new(&query, scan, control)? {
            let mut held = Held::new(control);
            let mut groups = numbered(&query, aggregates, &to);
            partitioned.run(&mut groups, scan, to, control, &mut held)?;
            held.keep();
            return Ok(groups);
        }
    }
    let table = KeyTable::new(keys.len(), radix(keys, snapshot));
    let mut groups = Groups::new(keys, aggregates, slots, table, apart);
    if keys.is_empty() {
        let most = BITMAP_WORDS.max(snapshot.rows() / 8);
        groups.add_only(|argument| Distinct::of_range(range(argument, snapshot), most), control)?;
    }
    let width = groups.width();
    let mut merger = Merger::new(&groups, control);
    let mut fragment = None;
    let mut merge = |groups: &mut Groups<'_>, block: Block<'_>, partial: &Partial<'_>| {
        let id = block.fragment.id();
        if let Some(before) = fragment.replace(id).filter(|before| *before != id) {
            control.reserve(groups.end_fragment(before))?;
        }
        merger.merge(groups, id, partial)
    };
    for (block, partial) in by_statistics(keys, &arguments, scan) {
        merge(&mut groups, block, &partial)?;
    }
    if keys.is_empty() {
        arguments.extremes_first(&mut scan.blocks);
    }
    scan.run(
        slots,
        if keys.is_empty() { 1 } else { width },
        false,
        |block, mask| {
            let partial = if keys.is_empty() {
                scalar_aggregate(&arguments, slots, block, &mask)?
            } else {
                hash_aggregate(keys, &arguments, slots, block, &mask)?
            };
            let held = partial.keys.len() * width + partial.set_bytes();
            control.reserve(held)?;
            Ok((partial, held))
        },
        |block, (partial, held)| {
            merge(&mut groups, block, &partial)?;
            control.release(held);
            Ok(true)
        },
    )?;
    if let Some(last) = fragment {
        control.reserve(groups.end_fragment(last))?;
    }
    Ok(groups)
}

/// No groups yet, of keys that have numbers.
fn numbered<'q>(query: &Query<'q, '_>, aggregates: &'q [BoundAggregate], to: &To<'_>) -> Groups<'q> {
    let Query { keys, slots, numbering, .. } = query;
    let table = KeyTable::numbered(Arc::clone(numbering.radix()), Numbers::of(Vec::new()));
    let mut groups = Groups::new(keys, aggregates, slots, table, to.is_apart());
    for (key, texts) in groups.key_texts.iter_mut().enumerate() {
        *texts = numbering.texts(key).map_or_else(Interner::default, |texts| Interner::of(Arc::clone(texts)));
    }
    groups
}

/// The groups of whole fragments, which have numbers.
fn by_fragment<'q>(
    query: &Query<'q, '_>,
    aggregates: &'q [BoundAggregate],
    scan: &mut Scan<'q, '_>,
    to: To<'_>,
    control: &Control,
) -> Result<Groups<'q>> {
    let Query { keys, arguments, slots, numbering } = query;
    let known = by_statistics(keys, arguments, scan);
    let rows: usize = scan.blocks.iter().map(|(block, _)| block.rows()).sum();
    let size = numbering.radix().size();
    let mut groups = numbered(query, aggregates, &to);
    let mut held = Held::new(control);
    if known.is_empty()
        && let Some(partitioned) = Partitioned::new(query, scan, control)?
    {
        partitioned.run(&mut groups, scan, to, control, &mut held)?;
        held.keep();
        return Ok(groups);
    }
    groups.keys = KeyTable::numbered(Arc::clone(numbering.radix()), Numbers::new(size, rows));
    let mut merger = Merger::new(&groups, control);
    for (block, mut partial) in known {
        let numbers = Numbers::of(numbering.numbers(&partial.keys, block.at));
        partial.keys = KeyTable::numbered(Arc::clone(numbering.radix()), numbers);
        merger.merge_fragment(&mut groups, block.fragment.id(), &partial, &mut held)?;
    }
    // A record has fewer words than a group's states have bytes / 4.
    let record = 8 + groups.states.iter().map(State::width).sum::<usize>();
    scan.run_fragments(
        slots,
        FRAGMENT_ROWS.min(size) * 2 * record,
        |masks, selected| {
            let partial = query.aggregate(masks, selected)?;
            let bytes = partial.keys.bytes() + partial.keys.len() * record;
            control.reserve(bytes)?;
            Ok((partial, bytes))
        },
        |block, (partial, bytes)| {
            merger.merge_fragment(&mut groups, block.fragment.id(), &partial, &mut held)?;
            control.release(bytes);
            Ok(())
        },
    )?;
    held.keep();
    Ok(groups)
}

/// Takes in groups that were made apart.
pub(super) struct Merger<'a> {
    key: Vec<Option<i64>>,
    /// The group of each that came last.
    to: Vec<u32>,
    key_maps: Vec<Translation>,
    maps: Vec<Translation>,
    /// Bytes of a group.
    width: usize,
    control: &'a Control,
}

impl<'a> Merger<'a> {
    pub(super) fn new(groups: &Groups<'_>, control: &'a Control) -> Self {
        let maps = |texts: &[Interner]| texts.iter().map(|_| Translation::default()).collect();
        Self {
            key: vec![None; groups.key_types.len()],
            to: Vec::new(),
            key_maps: maps(&groups.key_texts),
            maps: maps(&groups.texts),
            width: groups.width(),
            control,
        }
    }

    /// The group of each of those that came last.
    pub(super) fn to(&self) -> &[u32] {
        &self.to
    }

    /// Takes groups in; `fragment` tells dictionaries of fragments apart.
    pub(super) fn merge(
        &mut self,
        groups: &mut Groups<'_>,
        fragment: u32,
        partial: &Partial<'_>,
    ) -> Result<()> {
        let (groups_before, bytes_before) = (groups.keys.len(), groups.text_bytes());
        self.to.clear();
        if self.key.is_empty() {
            // Large sets come in several entries.
            self.to.resize(partial.keys.len(), 0);
        } else {
            let maps = self.key_maps.iter_mut().zip(&partial.key_texts);
            maps.for_each(|(map, texts)| map.turn(fragment, texts.as_ref()));
            for group in 0..partial.keys.len() {
                let maps = self.key_maps.iter_mut().zip(&partial.key_texts).zip(&mut groups.key_texts);
                for ((at, out), ((map, texts), interner)) in self.key.iter_mut().enumerate().zip(maps) {
                    *out = partial.keys.part(group, at).map(|key| map.id(key, texts.as_ref(), interner));
                }
                self.to.push(groups.keys.group(&self.key));
            }
        }
        self.intern(groups, fragment, partial);
        let mut grown = 0;
        for (state, argument) in groups.states.iter_mut().zip(&groups.arguments.of) {
            state.resize(groups.keys.len());
            let (totals, keys) = self.of_argument(*argument, partial, &groups.texts);
            grown += state.merge(totals, &self.to, &keys)?;
        }
        grown += (groups.keys.len() - groups_before) * self.width + groups.text_bytes() - bytes_before;
        self.control.reserve(grown)
    }

    /// Takes in the groups of a whole fragment, which have numbers; `held` counts what all groups hold.
    fn merge_fragment(
        &mut self,
        groups: &mut Groups<'_>,
        fragment: u32,
        partial: &Partial<'_>,
        held: &mut Held<'_>,
    ) -> Result<()> {
        let numbers = partial.keys.numbers().invariant("the groups of a fragment have numbers");
        self.to.clear();
        groups.keys.groups(numbers, &mut self.to, self.control)?;
        self.intern(groups, fragment, partial);
        let mut most = 0;
        for (state, argument) in groups.states.iter_mut().zip(&groups.arguments.of) {
            state.grow(groups.keys.len());
            let (totals, keys) = self.of_argument(*argument, partial, &groups.texts);
            state.merge_fragment(fragment, totals, &self.to, &keys)?;
            most = most.max(state.bytes());
        }
        // One of them is there twice while it grows.
        let states: usize = groups.states.iter().map(State::bytes).sum();
        held.set(
            groups.keys.bytes() + states + most + groups.text_bytes() + self.to.capacity() * size_of::<u32>(),
        )
    }

    /// Interns texts first, so that their order can be read while keys are merged.
    fn intern(&mut self, groups: &mut Groups<'_>, fragment: u32, partial: &Partial<'_>) {
        for ((map, totals), interner) in self.maps.iter_mut().zip(&partial.totals).zip(&mut groups.texts) {
            map.turn(fragment, totals.texts.as_ref());
            if totals.texts.is_some() {
                totals.for_each_key(|key| {
                    map.id(key, totals.texts.as_ref(), interner);
                });
            }
        }
    }

    /// What an argument comes to in groups that were made apart (none: their rows), and what its keys are.
    fn of_argument<'p, 't>(
        &'p self,
        argument: Option<usize>,
        partial: &'p Partial<'t>,
        texts: &'p [Interner],
    ) -> (&'p Totals<'t>, Keys<'p>) {
        match argument {
            None => (&partial.rows, Keys::Same),
            Some(at) if partial.totals[at].texts.is_none() => (&partial.totals[at], Keys::Same),
            Some(at) => (&partial.totals[at], Keys::Texts { map: &self.maps[at], interner: &texts[at] }),
        }
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

/// The least and the greatest key of a column or an attribute; of a text the numbers that the interner may give it.
fn range(expr: &BoundExpr, snapshot: &Snapshot) -> Option<(i64, i64)> {
    let slot = match expr {
        BoundExpr::Slot(slot) => slot,
        BoundExpr::Attribute(attribute) => return attribute_range(attribute),
        BoundExpr::Literal(_) | BoundExpr::Arithmetic(..) | BoundExpr::Time(..) => return None,
    };
    let mut texts = 0;
    let mut range: Option<(i64, i64)> = None;
    for fragment in snapshot.fragments() {
        let column = fragment.column_at(*slot)?;
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
