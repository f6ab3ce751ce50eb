//! Group-by within a block: dense arrays find the groups where the keys span little, a hash table otherwise.

use super::{
    Block,
    aggregate::{Kind, State},
    group_keys::{KeyTable, Partial},
    source::{Source, Texts},
    vector::{Batch, Data, Vector},
};
use crate::{
    error::Result,
    mask::{Mask, selects},
    plan::{
        BoundAggregate,
        expr::{BoundExpr, Slots},
    },
    value::Value,
};

/// Slots of a dense group array, at most.
const DENSE: u64 = 1 << 16;

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

/// Where the values of an aggregate come from.
enum Argument<'a> {
    /// `count(*)`.
    Rows,
    /// Keys, of a minimum, maximum or distinct count.
    Keys(Source<'a>),
    /// The place of an expression that several aggregates may share.
    Shared(usize),
}

impl<'a> Argument<'a> {
    fn into_texts(self) -> Option<Texts<'a>> {
        match self {
            Self::Keys(source) => source.into_texts(),
            Self::Rows | Self::Shared(_) => None,
        }
    }
}

/// The groups of a block's selected rows.
pub(super) fn many_groups<'a>(
    keys: &'a [BoundExpr],
    aggregates: &'a [BoundAggregate],
    slots: &Slots,
    block: Block<'a>,
    mask: &Mask,
) -> Result<Partial<'a>> {
    let sources = keys.iter().map(|key| Source::new(key, slots, block, mask)).collect::<Result<Vec<_>>>()?;
    let mut arguments = Vec::with_capacity(aggregates.len());
    // Sums, averages and counts of one expression share its values.
    let mut shared: Vec<&BoundExpr> = Vec::new();
    for aggregate in aggregates {
        arguments.push(match (&aggregate.argument, Kind::of(aggregate)) {
            (None, _) => Argument::Rows,
            (Some(argument), Kind::Min | Kind::Max | Kind::Distinct) => {
                Argument::Keys(Source::new(argument, slots, block, mask)?)
            }
            (Some(argument), _) => {
                Argument::Shared(shared.iter().position(|e| *e == argument).unwrap_or_else(|| {
                    shared.push(argument);
                    shared.len() - 1
                }))
            }
        });
    }
    let mut finder = Finder::new(&sources);
    let mut table = KeyTable::new(keys.len());
    let mut states: Vec<State> = aggregates.iter().map(|a| State::new(Kind::of(a))).collect();
    let (mut rows, mut groups) = (Vec::new(), Vec::new());
    block.for_each_batch(mask, |batch| {
        batch.selection(&mut rows);
        find_groups(batch, &sources, slots, &rows, &mut finder, &mut table, &mut groups)?;
        let vectors = shared.iter().map(|e| batch.eval(e, slots)).collect::<Result<Vec<_>>>()?;
        for ((aggregate, state), argument) in aggregates.iter().zip(&mut states).zip(&arguments) {
            state.resize(table.len());
            let pairs = || rows.iter().map(|r| *r as usize).zip(groups.iter().map(|g| *g as usize));
            match argument {
                Argument::Rows => pairs().for_each(|(_, group)| state.add_count(group, 1)),
                Argument::Keys(source) => {
                    let (keys, valid) = source.keys(batch, slots)?;
                    for (row, group) in pairs().filter(|(row, _)| selects(valid.as_deref(), *row)) {
                        state.add_key(group, 1, keys[row], |a, b| a < b);
                    }
                }
                Argument::Shared(at) => update(state, Kind::of(aggregate), &vectors[*at], pairs()),
            }
        }
        Ok(())
    })?;
    Ok(Partial {
        keys: table,
        key_texts: sources.into_iter().map(Source::into_texts).collect(),
        states,
        state_texts: arguments.into_iter().map(Argument::into_texts).collect(),
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

/// Adds the values of a batch's selected rows, given as pairs of row and group, to a count or a sum.
fn update(state: &mut State, kind: Kind, vector: &Vector<'_>, pairs: impl Iterator<Item = (usize, usize)>) {
    let selected = pairs.filter(|(row, _)| selects(vector.valid.as_deref(), *row));
    match (kind, &vector.data) {
        (_, Data::One(Value::Null)) => {}
        (Kind::Count, _) => selected.for_each(|(_, group)| state.add_count(group, 1)),
        (Kind::SumInts, Data::Ints(v)) => {
            selected.for_each(|(row, g)| state.add_int(g, 1, i128::from(v[row])))
        }
        (Kind::SumInts, Data::UInts(v)) => {
            selected.for_each(|(row, g)| state.add_int(g, 1, i128::from(v[row])))
        }
        (Kind::SumInts, Data::One(Value::Int(v) | Value::Decimal { unscaled: v, .. })) => {
            selected.for_each(|(_, g)| state.add_int(g, 1, *v));
        }
        (Kind::SumFloats, Data::Floats(v)) => selected.for_each(|(row, g)| state.add_float(g, 1, v[row])),
        (Kind::SumFloats, Data::One(value)) => {
            let v = value.to_f64().unwrap_or(0.0);
            selected.for_each(|(_, g)| state.add_float(g, 1, v));
        }
        _ => {}
    }
}
