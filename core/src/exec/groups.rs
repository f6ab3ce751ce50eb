//! Group-by: each block makes groups of its own, from dense arrays where the keys span little and a hash
//! table otherwise; the blocks' groups are merged in order.

use std::{cmp::Ordering, hash::BuildHasher, sync::Arc};

use basalt_kernels::FloatSum;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use super::{
    Block, Control, Work,
    aggregate::{Kind, State},
    filter,
    source::{Source, Texts},
    vector::{Batch, Data, intersect},
};
use crate::{
    error::Result,
    fragment::Values,
    keys::NativeSlice,
    limits::BATCH_ROWS,
    mask::{Mask, selects},
    plan::{
        BoundAggregate, Plan,
        expr::{BoundExpr, Slots},
        pred::Pred,
    },
    schema::DataType,
    table::Snapshot,
    value::Value,
};

/// Slots of a dense group array, at most.
const DENSE: u64 = 1 << 16;

/// Distinct keys in the order of their first appearance: `width` of them make a group.
#[derive(Debug, Default)]
struct KeyTable {
    width: usize,
    keys: Vec<Option<i64>>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    groups: usize,
}

impl KeyTable {
    fn new(width: usize) -> Self {
        Self { width, ..Self::default() }
    }

    fn key(&self, group: usize) -> &[Option<i64>] {
        &self.keys[group * self.width..][..self.width]
    }

    fn push(&mut self, key: &[Option<i64>]) -> u32 {
        self.keys.extend_from_slice(key);
        self.groups += 1;
        u32::try_from(self.groups - 1).unwrap_or(u32::MAX)
    }

    /// The group of a key, a new one if need be.
    fn group(&mut self, key: &[Option<i64>]) -> u32 {
        let hash = self.hasher.hash_one(key);
        let (keys, width, hasher) = (&self.keys, self.width, &self.hasher);
        let of = |group: u32| &keys[group as usize * width..][..width];
        let found = self.table.entry(hash, |group| of(*group) == key, |group| hasher.hash_one(of(*group)));
        match found {
            hashbrown::hash_table::Entry::Occupied(entry) => *entry.get(),
            hashbrown::hash_table::Entry::Vacant(entry) => {
                let group = u32::try_from(self.groups).unwrap_or(u32::MAX);
                entry.insert(group);
                self.push(key)
            }
        }
    }
}

/// Texts of all fragments, each with a number.
#[derive(Debug, Default)]
pub(super) struct Interner {
    ids: HashMap<Arc<str>, i64>,
    texts: Vec<Arc<str>>,
    bytes: usize,
}

impl Interner {
    fn id(&mut self, text: &str) -> i64 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = i64::try_from(self.texts.len()).unwrap_or(i64::MAX);
        let text: Arc<str> = text.into();
        self.bytes += text.len() + 64;
        self.ids.insert(Arc::clone(&text), id);
        self.texts.push(text);
        id
    }

    fn get(&self, id: i64) -> Arc<str> {
        usize::try_from(id).ok().and_then(|id| self.texts.get(id)).cloned().unwrap_or_else(|| "".into())
    }
}

/// From the codes of one dictionary to interned texts, each looked up once.
#[derive(Debug, Default)]
struct Translation {
    /// The fragment whose dictionary it is.
    fragment: Option<usize>,
    ids: Vec<i64>,
}

impl Translation {
    /// Turns to the texts of a block's keys.
    fn turn(&mut self, block: Block<'_>, texts: Option<&Texts<'_>>) {
        let whole_fragment = matches!(texts, Some(Texts::Fragment(_)));
        if whole_fragment && self.fragment == Some(block.at) {
            return;
        }
        self.fragment = whole_fragment.then_some(block.at);
        self.ids.clear();
        self.ids.resize(texts.map_or(0, Texts::len), -1);
    }

    fn id(&mut self, key: i64, texts: Option<&Texts<'_>>, interner: &mut Interner) -> i64 {
        let Some(texts) = texts else { return key };
        let known = &mut self.ids[usize::try_from(key).unwrap_or(0)];
        if *known < 0 {
            *known = interner.id(texts.get(key));
        }
        *known
    }
}

/// The groups of one block.
struct Partial<'a> {
    keys: KeyTable,
    key_texts: Vec<Option<Texts<'a>>>,
    states: Vec<State>,
    state_texts: Vec<Option<Texts<'a>>>,
}

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
        self.keys.groups
    }

    /// The order of two groups by their keys; null comes last.
    pub(super) fn compare_keys(&self, a: usize, b: usize) -> Ordering {
        let pairs = self.keys.key(a).iter().zip(self.keys.key(b)).zip(&self.key_types);
        for ((a, b), data_type) in pairs {
            let order = match (a, b) {
                (Some(a), Some(b)) if a != b && *data_type == DataType::Utf8 => {
                    self.interner.get(*a).cmp(&self.interner.get(*b))
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
                Some(id) if key_types[slot] == DataType::Utf8 => Value::Text(self.interner.get(id)),
                Some(key) => Value::from_key(key, key_types[slot]),
            });
        }
        let at = slot - key_types.len();
        self.states[at].result(&self.aggregates[at], group, |id| self.interner.get(id))
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
        control,
        false,
        |block, mask| {
            if keys.is_empty() {
                one_group(aggregates, slots, block, mask)
            } else {
                many_groups(keys, aggregates, slots, block, mask)
            }
        },
        |block, partial| {
            if fragment.replace(block.at).is_some_and(|before| before != block.at) {
                groups.states.iter_mut().for_each(State::end_fragment);
            }
            let (groups_before, bytes_before) = (groups.keys.groups, groups.interner.bytes);
            to.clear();
            if keys.is_empty() {
                to.push(0);
            } else {
                key_maps
                    .iter_mut()
                    .zip(&partial.key_texts)
                    .for_each(|(map, texts)| map.turn(block, texts.as_ref()));
                for group in 0..partial.keys.groups {
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
                state.resize(groups.keys.groups);
                map.turn(block, texts.as_ref());
                if let Some(texts) = texts {
                    // Interned first, so that the order of texts can be read while keys are merged.
                    let interner = &mut groups.interner;
                    from.for_each_key(|key| {
                        map.id(key, Some(texts), interner);
                    });
                    let interner = &groups.interner;
                    let known = &map.ids;
                    let translate = |key: i64| known[usize::try_from(key).unwrap_or(0)];
                    grown += state.merge(from, &to, translate, |a, b| interner.get(a) < interner.get(b));
                } else {
                    grown += state.merge(from, &to, |key| key, |a, b| a < b);
                }
            }
            grown += (groups.keys.groups - groups_before) * width + groups.interner.bytes - bytes_before;
            control.reserve(grown)?;
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

/// Aggregates of all selected rows of a block, by kernels and push-downs.
fn one_group<'a>(
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
                    texts_of(slot, block)
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

fn texts_of<'a>(slot: usize, block: Block<'a>) -> Option<Texts<'a>> {
    match block.fragment.columns()[slot].values() {
        Values::Text(texts) => texts.codes().map(|codes| Texts::Fragment(codes.entries)),
        Values::Keys(_) => None,
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
    let mut words = Vec::new();
    let (mut floats, mut float_rows) = (FloatSum::default(), 0);
    for start in (0..block.rows()).step_by(BATCH_ROWS) {
        let rows = (block.rows() - start).min(BATCH_ROWS);
        if mask.slice(start, rows, &mut words) == 0 {
            continue;
        }
        let batch = Batch::new(block, start, rows, &words);
        if let Some(source) = &source {
            let (keys, valid) = source.keys(&batch, slots)?;
            let selected = both(&words, valid);
            let n = basalt_kernels::mask::count_ones(&selected);
            if kind == Kind::Distinct {
                basalt_kernels::mask::for_each(&selected, |row| {
                    state.add_key(0, 1, keys[row], |a, b| a < b);
                });
            } else if let Some((min, max)) = basalt_kernels::min_max_masked(&keys, &selected) {
                state.add_key(0, n, if kind == Kind::Min { min } else { max }, |a, b| a < b);
            }
            continue;
        }
        let vector = batch.eval(argument, slots)?;
        let selected = both(&words, vector.valid);
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
                    Data::One(value) => vec![value.to_f64().unwrap_or(0.0); rows],
                    _ => vec![0.0; rows],
                };
                basalt_kernels::sum_floats_masked(&values, &selected, &mut floats);
                float_rows += n;
            }
            _ => {}
        }
    }
    if float_rows > 0 {
        state.add_float(0, float_rows, floats.finish());
    }
    Ok(source.and_then(Source::into_texts))
}

fn both(words: &[u64], valid: Option<Vec<u64>>) -> Vec<u64> {
    intersect(Some(words.to_vec()), valid).unwrap_or_default()
}

/// How the keys of a block find their group.
enum Finder {
    /// A mixed-radix number of the keys' offsets is a place in an array; null is one more offset.
    Dense {
        lows: Vec<i64>,
        spans: Vec<u64>,
        groups: Vec<u32>,
    },
    Hash,
}

impl Finder {
    fn new(sources: &[Source<'_>]) -> Self {
        let mut size = 1u64;
        let (mut lows, mut spans) = (Vec::new(), Vec::new());
        for source in sources {
            let Some((lo, hi)) = source.range() else { return Self::Hash };
            let span = hi.abs_diff(lo).saturating_add(2);
            size = size.saturating_mul(span);
            if size > DENSE {
                return Self::Hash;
            }
            lows.push(lo);
            spans.push(span);
        }
        Self::Dense { lows, spans, groups: vec![u32::MAX; usize::try_from(size).unwrap_or(0)] }
    }
}

/// The groups of a block's selected rows.
fn many_groups<'a>(
    keys: &'a [BoundExpr],
    aggregates: &'a [BoundAggregate],
    slots: &Slots,
    block: Block<'a>,
    mask: &Mask,
) -> Result<Partial<'a>> {
    let sources = keys.iter().map(|key| Source::new(key, slots, block, mask)).collect::<Result<Vec<_>>>()?;
    let mut arguments = Vec::with_capacity(aggregates.len());
    for aggregate in aggregates {
        let source = match (&aggregate.argument, Kind::of(aggregate)) {
            (Some(argument), Kind::Min | Kind::Max | Kind::Distinct) => {
                Some(Source::new(argument, slots, block, mask)?)
            }
            _ => None,
        };
        arguments.push(source);
    }
    let mut finder = Finder::new(&sources);
    let mut table = KeyTable::new(keys.len());
    let mut states: Vec<State> = aggregates.iter().map(|a| State::new(Kind::of(a))).collect();
    let (mut words, mut rows, mut groups) = (Vec::new(), Vec::new(), Vec::new());
    for start in (0..block.rows()).step_by(BATCH_ROWS) {
        let n = (block.rows() - start).min(BATCH_ROWS);
        if mask.slice(start, n, &mut words) == 0 {
            continue;
        }
        let batch = Batch::new(block, start, n, &words);
        batch.selection(&mut rows);
        find_groups(&batch, &sources, slots, &rows, &mut finder, &mut table, &mut groups)?;
        for ((aggregate, state), source) in aggregates.iter().zip(&mut states).zip(&arguments) {
            state.resize(table.groups);
            update(state, aggregate, source.as_ref(), &batch, slots, &rows, &groups)?;
        }
    }
    Ok(Partial {
        keys: table,
        key_texts: sources.into_iter().map(Source::into_texts).collect(),
        states,
        state_texts: arguments.into_iter().map(|s| s.and_then(Source::into_texts)).collect(),
    })
}

/// Writes the group of each selected row.
fn find_groups<'a>(
    batch: &Batch<'a, '_>,
    sources: &[Source<'a>],
    slots: &Slots,
    rows: &[u32],
    finder: &mut Finder,
    table: &mut KeyTable,
    out: &mut Vec<u32>,
) -> Result<()> {
    let columns = sources.iter().map(|s| s.keys(batch, slots)).collect::<Result<Vec<_>>>()?;
    let at = |column: &(Vec<i64>, Option<Vec<u64>>), row: u32| -> Option<i64> {
        let row = row as usize;
        selects(column.1.as_deref(), row).then(|| column.0[row])
    };
    let mut key = vec![None; sources.len()];
    out.clear();
    match finder {
        Finder::Hash => {
            for row in rows {
                key.iter_mut().zip(&columns).for_each(|(out, column)| *out = at(column, *row));
                out.push(table.group(&key));
            }
        }
        Finder::Dense { lows, spans, groups } => {
            let mut places = vec![0u64; rows.len()];
            for ((column, lo), span) in columns.iter().zip(lows.iter()).zip(spans.iter()) {
                for (place, row) in places.iter_mut().zip(rows) {
                    let offset = at(column, *row).map_or(0, |k| k.wrapping_sub(*lo).cast_unsigned() + 1);
                    *place = *place * span + offset;
                }
            }
            for (place, row) in places.iter().zip(rows) {
                let group = &mut groups[usize::try_from(*place).unwrap_or(0)];
                if *group == u32::MAX {
                    key.iter_mut().zip(&columns).for_each(|(out, column)| *out = at(column, *row));
                    *group = table.push(&key);
                }
                out.push(*group);
            }
        }
    }
    Ok(())
}

/// Adds a batch's selected rows to their groups.
fn update<'a>(
    state: &mut State,
    aggregate: &BoundAggregate,
    source: Option<&Source<'a>>,
    batch: &Batch<'a, '_>,
    slots: &Slots,
    rows: &[u32],
    groups: &[u32],
) -> Result<()> {
    let pairs = || rows.iter().map(|r| *r as usize).zip(groups.iter().map(|g| *g as usize));
    let Some(argument) = &aggregate.argument else {
        pairs().for_each(|(_, group)| state.add_count(group, 1));
        return Ok(());
    };
    if let Some(source) = source {
        let (keys, valid) = source.keys(batch, slots)?;
        for (row, group) in pairs().filter(|(row, _)| selects(valid.as_deref(), *row)) {
            state.add_key(group, 1, keys[row], |a, b| a < b);
        }
        return Ok(());
    }
    let vector = batch.eval(argument, slots)?;
    let valid = vector.valid;
    let selected = || pairs().filter(|(row, _)| selects(valid.as_deref(), *row));
    match (Kind::of(aggregate), vector.data) {
        (_, Data::One(Value::Null)) => {}
        (Kind::Count, _) => selected().for_each(|(_, group)| state.add_count(group, 1)),
        (Kind::SumInts, Data::Ints(v)) => {
            selected().for_each(|(row, g)| state.add_int(g, 1, i128::from(v[row])))
        }
        (Kind::SumInts, Data::UInts(v)) => {
            selected().for_each(|(row, g)| state.add_int(g, 1, i128::from(v[row])))
        }
        (Kind::SumInts, Data::One(Value::Int(v) | Value::Decimal { unscaled: v, .. })) => {
            selected().for_each(|(_, g)| state.add_int(g, 1, v));
        }
        (Kind::SumFloats, Data::Floats(v)) => selected().for_each(|(row, g)| state.add_float(g, 1, v[row])),
        (Kind::SumFloats, Data::One(value)) => {
            let v = value.to_f64().unwrap_or(0.0);
            selected().for_each(|(_, g)| state.add_float(g, 1, v));
        }
        _ => {}
    }
    Ok(())
}
