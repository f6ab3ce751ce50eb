//! Aggregate states: one entry for each group, merged block by block in order.

use hashbrown::HashSet;

use crate::{
    error::Result,
    plan::BoundAggregate,
    query::AggregateFunction,
    schema::DataType,
    value::{self, Value},
};

/// How an aggregate is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Count,
    SumInts,
    SumFloats,
    Min,
    Max,
    Distinct,
}

impl Kind {
    pub(super) fn of(aggregate: &BoundAggregate) -> Self {
        match aggregate.function {
            AggregateFunction::Count if aggregate.distinct => Self::Distinct,
            AggregateFunction::Count => Self::Count,
            AggregateFunction::Min => Self::Min,
            AggregateFunction::Max => Self::Max,
            _ if aggregate.argument_type.is_some_and(DataType::is_float) => Self::SumFloats,
            _ => Self::SumInts,
        }
    }
}

/// The state of one aggregate for every group.
#[derive(Debug)]
pub(super) struct State {
    kind: Kind,
    /// Rows that are not null.
    counts: Vec<u64>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    None,
    Ints(Vec<i128>),
    /// The sums of the fragments before, and of this fragment's blocks so far: the order of additions does not
    /// depend on where a fragment lies.
    Floats {
        total: Vec<f64>,
        fragment: Vec<f64>,
    },
    Keys(Vec<i64>),
    Sets(Vec<HashSet<i64>>),
}

impl State {
    pub(super) fn new(kind: Kind) -> Self {
        let values = match kind {
            Kind::Count => Values::None,
            Kind::SumInts => Values::Ints(Vec::new()),
            Kind::SumFloats => Values::Floats { total: Vec::new(), fragment: Vec::new() },
            Kind::Min | Kind::Max => Values::Keys(Vec::new()),
            Kind::Distinct => Values::Sets(Vec::new()),
        };
        Self { kind, counts: Vec::new(), values }
    }

    /// Makes room for `groups` groups.
    pub(super) fn resize(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
        match &mut self.values {
            Values::None => {}
            Values::Ints(v) => v.resize(groups, 0),
            Values::Floats { total, fragment } => {
                total.resize(groups, 0.0);
                fragment.resize(groups, 0.0);
            }
            Values::Keys(v) => v.resize(groups, 0),
            Values::Sets(v) => v.resize_with(groups, HashSet::new),
        }
    }

    /// Bytes of one group.
    pub(super) fn width(&self) -> usize {
        8 + match &self.values {
            Values::None => 0,
            Values::Ints(_) | Values::Floats { .. } => 16,
            Values::Keys(_) => 8,
            Values::Sets(_) => size_of::<HashSet<i64>>(),
        }
    }

    /// Bytes that sets of distinct values hold.
    pub(super) fn set_bytes(&self) -> usize {
        match &self.values {
            Values::Sets(sets) => sets.iter().map(|set| set.capacity() * 16).sum(),
            _ => 0,
        }
    }

    pub(super) fn add_count(&mut self, group: usize, n: u64) {
        self.counts[group] += n;
    }

    pub(super) fn add_int(&mut self, group: usize, n: u64, sum: i128) {
        self.counts[group] += n;
        if let Values::Ints(sums) = &mut self.values {
            sums[group] += sum;
        }
    }

    pub(super) fn add_float(&mut self, group: usize, n: u64, sum: f64) {
        self.counts[group] += n;
        if let Values::Floats { fragment, .. } = &mut self.values {
            fragment[group] += sum;
        }
    }

    /// Takes in a key: a candidate for the minimum or maximum, or a distinct one. `less` orders keys. Says
    /// whether a set grew.
    pub(super) fn add_key(
        &mut self,
        group: usize,
        n: u64,
        key: i64,
        less: impl Fn(i64, i64) -> bool,
    ) -> bool {
        let first = self.counts[group] == 0;
        self.counts[group] += n;
        match &mut self.values {
            Values::Keys(keys) => {
                let best = &mut keys[group];
                let better = if self.kind == Kind::Min { less(key, *best) } else { less(*best, key) };
                if first || better {
                    *best = key;
                }
                false
            }
            Values::Sets(sets) => sets[group].insert(key),
            _ => false,
        }
    }

    /// Adds a block's groups: `to` has the group here of each group there, `translate` the key here of a key
    /// there, `less` orders keys here. Returns the bytes by which sets grew.
    pub(super) fn merge(
        &mut self,
        block: &Self,
        to: &[u32],
        mut translate: impl FnMut(i64) -> i64,
        less: impl Fn(i64, i64) -> bool,
    ) -> usize {
        let mut grown = 0;
        for (from, to) in to.iter().enumerate() {
            let (to, n) = (*to as usize, block.counts[from]);
            if n == 0 {
                continue;
            }
            match &block.values {
                Values::None => self.add_count(to, n),
                Values::Ints(sums) => self.add_int(to, n, sums[from]),
                Values::Floats { fragment, .. } => self.add_float(to, n, fragment[from]),
                Values::Keys(keys) => {
                    self.add_key(to, n, translate(keys[from]), &less);
                }
                Values::Sets(sets) => {
                    self.counts[to] += n;
                    let n: usize = sets[from]
                        .iter()
                        .map(|key| usize::from(self.add_key(to, 0, translate(*key), &less)))
                        .sum();
                    grown += n * 16;
                }
            }
        }
        grown
    }

    /// Calls `each` with every key held: one for each group with a minimum or maximum, all of a set.
    pub(super) fn for_each_key(&self, mut each: impl FnMut(i64)) {
        match &self.values {
            Values::Keys(keys) => {
                keys.iter().zip(&self.counts).filter(|(_, n)| **n > 0).for_each(|(key, _)| each(*key));
            }
            Values::Sets(sets) => sets.iter().flatten().for_each(|key| each(*key)),
            Values::None | Values::Ints(_) | Values::Floats { .. } => {}
        }
    }

    /// The blocks of a fragment are in.
    pub(super) fn end_fragment(&mut self) {
        if let Values::Floats { total, fragment } = &mut self.values {
            for (total, fragment) in total.iter_mut().zip(fragment) {
                *total += std::mem::take(fragment);
            }
        }
    }

    /// The result for one group; `text` resolves the keys of texts.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Overflow`] when a sum does not fit its type.
    pub(super) fn result(
        &self,
        aggregate: &BoundAggregate,
        group: usize,
        text: impl Fn(i64) -> std::sync::Arc<str>,
    ) -> Result<Value> {
        let n = self.counts[group];
        if let Values::None = self.values {
            return Ok(Value::Int(i128::from(n)));
        }
        if let Values::Sets(sets) = &self.values {
            return Ok(Value::Int(i128::try_from(sets[group].len()).unwrap_or(i128::MAX)));
        }
        if n == 0 {
            return Ok(Value::Null);
        }
        let scale = match aggregate.argument_type {
            Some(DataType::Decimal { scale, .. }) => scale,
            _ => 0,
        };
        let average = aggregate.function == AggregateFunction::Avg;
        #[allow(clippy::cast_precision_loss, reason = "a count of rows is below 2^53")]
        let count = n as f64;
        Ok(match &self.values {
            Values::Ints(sums) if average => {
                Value::Float(value::to_f64(sums[group], 0) / count / 10f64.powi(scale.into()))
            }
            Values::Ints(sums) => {
                let sum = sums[group];
                match aggregate.data_type {
                    DataType::Decimal { .. } => Value::Decimal { unscaled: sum, scale },
                    DataType::UInt64 if u64::try_from(sum).is_ok() => Value::Int(sum),
                    DataType::Int64 if i64::try_from(sum).is_ok() => Value::Int(sum),
                    to => return Err(value::overflow(&format!("the sum {sum}, as {to},"))),
                }
            }
            Values::Floats { total, .. } if average => Value::Float(total[group] / count),
            Values::Floats { total, .. } => Value::Float(total[group]),
            Values::Keys(keys) if aggregate.data_type == DataType::Utf8 => Value::Text(text(keys[group])),
            Values::Keys(keys) if aggregate.data_type.is_float() => {
                Value::from_key(super::source::one_zero(keys[group]), aggregate.data_type)
            }
            Values::Keys(keys) => Value::from_key(keys[group], aggregate.data_type),
            Values::None | Values::Sets(_) => Value::Null,
        })
    }
}
