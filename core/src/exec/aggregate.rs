//! Aggregate states: one entry for each group, merged block by block in order.

use super::{
    distinct::Distinct,
    group_keys::{Interner, Translation},
    totals::{Totals, grow},
    vector::{Data, Vector},
};
use crate::{
    error::Result,
    invariant::{broken, count},
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

/// What the keys of a block are.
pub(super) enum Keys<'a> {
    /// The keys that all blocks have.
    Same,
    /// Codes of texts, all of which were interned.
    Texts { map: &'a Translation, interner: &'a Interner },
}

impl Keys<'_> {
    fn translate(&self, key: i64) -> i64 {
        match self {
            Self::Same => key,
            Self::Texts { map, .. } => map.known(key),
        }
    }

    /// The order of translated keys.
    fn less(&self, a: i64, b: i64) -> bool {
        match self {
            Self::Same => a < b,
            Self::Texts { interner, .. } => interner.text(a) < interner.text(b),
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
        total: Total,
        fragment: Vec<f64>,
    },
    Keys(Vec<i64>),
    Sets(Vec<Distinct>),
}

/// What becomes of the sums of fragments.
#[derive(Debug)]
enum Total {
    /// They are added up, one after the other.
    Sum(Vec<f64>),
    /// They are kept apart: other fragments come between them elsewhere.
    Apart(Vec<FragmentSum>),
}

/// What the floats of one group come to in one fragment, unless that is zero, which adds nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct FragmentSum {
    pub(super) group: u32,
    pub(super) fragment: u32,
    pub(super) sum: f64,
}

impl State {
    /// No groups; `apart`: their float sums are kept for each fragment.
    pub(super) fn new(kind: Kind, apart: bool) -> Self {
        let values = match kind {
            Kind::Count => Values::None,
            Kind::SumInts => Values::Ints(Vec::new()),
            Kind::SumFloats => {
                let total = if apart { Total::Apart(Vec::new()) } else { Total::Sum(Vec::new()) };
                Values::Floats { total, fragment: Vec::new() }
            }
            Kind::Min | Kind::Max => Values::Keys(Vec::new()),
            Kind::Distinct => Values::Sets(Vec::new()),
        };
        Self { kind, counts: Vec::new(), values }
    }

    /// The same with one group, whose distinct keys, if it counts them, go to `set`.
    pub(super) fn with_group(mut self, set: Distinct) -> Self {
        if let Values::Sets(sets) = &mut self.values {
            sets.push(set);
        }
        self.resize(1);
        self
    }

    /// Makes room for `groups` groups.
    pub(super) fn resize(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
        match &mut self.values {
            Values::None => {}
            Values::Ints(v) => v.resize(groups, 0),
            Values::Floats { total, fragment } => {
                if let Total::Sum(total) = total {
                    total.resize(groups, 0.0);
                }
                fragment.resize(groups, 0.0);
            }
            Values::Keys(v) => v.resize(groups, 0),
            Values::Sets(v) => v.resize_with(groups, Distinct::default),
        }
    }

    /// Makes room for `groups` groups whose fragments come whole, and for few more.
    pub(super) fn grow(&mut self, groups: usize) {
        fn to<T: Clone>(all: &mut Vec<T>, groups: usize, empty: T) {
            grow(all, groups - all.len());
            all.resize(groups, empty);
        }
        to(&mut self.counts, groups, 0);
        match &mut self.values {
            Values::Ints(v) => to(v, groups, 0),
            Values::Floats { total: Total::Sum(total), .. } => to(total, groups, 0.0),
            Values::Keys(v) => to(v, groups, 0),
            Values::None | Values::Floats { total: Total::Apart(_), .. } => {}
            Values::Sets(_) => broken("sets are made block by block"),
        }
    }

    /// Makes room for so many more groups.
    pub(super) fn reserve(&mut self, groups: usize) {
        self.counts.reserve_exact(groups);
        match &mut self.values {
            Values::Ints(v) => v.reserve_exact(groups),
            Values::Floats { total: Total::Sum(total), .. } => total.reserve_exact(groups),
            Values::Floats { total: Total::Apart(sums), .. } => sums.reserve_exact(groups),
            Values::Keys(v) => v.reserve_exact(groups),
            Values::None | Values::Sets(_) => {}
        }
    }

    /// Forgets all groups.
    pub(super) fn clear(&mut self) {
        self.counts.clear();
        match &mut self.values {
            Values::None => {}
            Values::Ints(v) => v.clear(),
            Values::Floats { total: Total::Sum(total), .. } => total.clear(),
            Values::Floats { total: Total::Apart(sums), .. } => sums.clear(),
            Values::Keys(v) => v.clear(),
            Values::Sets(v) => v.clear(),
        }
    }

    /// Bytes held of groups whose fragments come whole.
    pub(super) fn bytes(&self) -> usize {
        let values = match &self.values {
            Values::None | Values::Sets(_) => 0,
            Values::Ints(v) => v.capacity() * size_of::<i128>(),
            Values::Floats { total: Total::Sum(total), .. } => total.capacity() * size_of::<f64>(),
            Values::Floats { total: Total::Apart(sums), .. } => sums.capacity() * size_of::<FragmentSum>(),
            Values::Keys(v) => v.capacity() * size_of::<i64>(),
        };
        self.counts.capacity() * size_of::<u64>() + values
    }

    /// Adds what the groups of a whole fragment come to, as [`State::merge`] does.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Overflow`]: no rows come to as much, but another node may say so.
    pub(super) fn merge_fragment(
        &mut self,
        id: u32,
        fragment: &Totals<'_>,
        to: &[u32],
        keys: &Keys<'_>,
    ) -> Result<()> {
        let Values::Floats { total, .. } = &mut self.values else {
            return self.merge(fragment, to, keys).map(|_| ());
        };
        match total {
            Total::Sum(total) => {
                let sums = to.iter().zip(&fragment.floats);
                sums.for_each(|(to, sum)| total[*to as usize] += sum);
            }
            Total::Apart(sums) => {
                let groups = to.iter().zip(&fragment.floats).filter(|(_, sum)| **sum != 0.0);
                sums.extend(groups.map(|(group, sum)| FragmentSum {
                    group: *group,
                    fragment: id,
                    sum: *sum,
                }));
            }
        }
        self.merge_counts(fragment, to)
    }

    /// Appends groups that no other fragment has; `sums`: what floats come to in each fragment, by place.
    pub(super) fn append(&mut self, of: &Totals<'_>, sums: &[FragmentSum]) {
        fn all<T: Clone>(to: &mut Vec<T>, from: &[T]) {
            grow(to, from.len());
            to.extend_from_slice(from);
        }
        let first = count(self.counts.len());
        match &mut self.values {
            Values::None => {}
            Values::Ints(v) => all(v, &of.ints),
            Values::Floats { total: Total::Sum(total), .. } => all(total, &of.floats),
            Values::Floats { total: Total::Apart(own), .. } => {
                grow(own, sums.len());
                own.extend(sums.iter().map(|sum| FragmentSum { group: first + sum.group, ..*sum }));
            }
            Values::Keys(v) => {
                grow(v, of.extremes.len());
                let is_min = self.kind == Kind::Min;
                let best = of.extremes.iter().zip(&of.counts).map(|((min, max), n)| match (n, is_min) {
                    (0, _) => 0,
                    (_, true) => *min,
                    (_, false) => *max,
                });
                v.extend(best);
            }
            Values::Sets(_) => broken("sets are made block by block"),
        }
        all(&mut self.counts, &of.counts);
    }

    fn merge_counts(&mut self, more: &Totals<'_>, to: &[u32]) -> Result<()> {
        for (to, n) in to.iter().zip(&more.counts) {
            let count = &mut self.counts[*to as usize];
            *count = count.checked_add(*n).ok_or_else(|| value::overflow("a number of rows"))?;
        }
        Ok(())
    }

    /// Bytes of one group.
    pub(super) fn width(&self) -> usize {
        8 + match &self.values {
            Values::None => 0,
            Values::Ints(_) | Values::Floats { .. } => 16,
            Values::Keys(_) => 8,
            Values::Sets(_) => size_of::<Distinct>(),
        }
    }

    /// Bytes that sets of distinct values hold.
    pub(super) fn set_bytes(&self) -> usize {
        match &self.values {
            Values::Sets(sets) => sets.iter().map(Distinct::bytes).sum(),
            _ => 0,
        }
    }

    /// Adds what the groups of a block come to: `to` has the group here of each group there, `keys` says what
    /// keys there are here. Returns the bytes by which sets grew.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::Overflow`]: no rows come to as much, but another node may say so.
    pub(super) fn merge(&mut self, block: &Totals<'_>, to: &[u32], keys: &Keys<'_>) -> Result<usize> {
        let groups = to.iter().map(|to| *to as usize).zip(&block.counts).enumerate();
        let groups = groups.filter(|(_, (_, n))| **n > 0).map(|(from, (to, _))| (from, to));
        let mut grown = 0;
        match &mut self.values {
            Values::None => {}
            Values::Ints(sums) => {
                for (from, to) in groups {
                    let sum = sums[to].checked_add(block.ints[from]);
                    sums[to] = sum.ok_or_else(|| value::overflow("a sum"))?;
                }
            }
            Values::Floats { fragment, .. } => {
                groups.for_each(|(from, to)| fragment[to] += block.floats[from])
            }
            Values::Keys(best) => {
                let is_min = self.kind == Kind::Min;
                for (from, to) in groups {
                    let (min, max) = block.extremes[from];
                    let key = keys.translate(if is_min { min } else { max });
                    let (less, greater) = if is_min { (key, best[to]) } else { (best[to], key) };
                    if self.counts[to] == 0 || keys.less(less, greater) {
                        best[to] = key;
                    }
                }
            }
            Values::Sets(sets) => {
                // A group's set may come in several, of which one has its rows.
                for (to, set) in to.iter().map(|to| *to as usize).zip(&block.sets) {
                    let before = sets[to].bytes();
                    let translate = |key| keys.translate(key);
                    let translate: Option<&dyn Fn(i64) -> i64> = match keys {
                        Keys::Same => None,
                        Keys::Texts { .. } => Some(&translate),
                    };
                    sets[to].unite(set, translate);
                    grown += sets[to].bytes().saturating_sub(before);
                }
            }
        }
        self.merge_counts(block, to)?;
        Ok(grown)
    }

    /// The blocks of a fragment are in. Returns the bytes that keeping its sums apart takes.
    pub(super) fn end_fragment(&mut self, id: u32) -> usize {
        match &mut self.values {
            Values::Floats { total: Total::Sum(total), fragment } => {
                for (total, fragment) in total.iter_mut().zip(fragment) {
                    *total += std::mem::take(fragment);
                }
                0
            }
            Values::Floats { total: Total::Apart(sums), fragment } => {
                let before = sums.capacity();
                for (group, sum) in (0..).zip(fragment) {
                    if *sum != 0.0 {
                        sums.push(FragmentSum { group, fragment: id, sum: std::mem::take(sum) });
                    }
                }
                (sums.capacity() - before) * size_of::<FragmentSum>()
            }
            _ => 0,
        }
    }

    /// Adds sums of fragments to their groups, in this order.
    pub(super) fn add_sums(&mut self, sums: &[FragmentSum]) {
        let Values::Floats { total: Total::Sum(total), .. } = &mut self.values else {
            broken("sums of fragments are added to sums of floats");
        };
        sums.iter().for_each(|sum| total[sum.group as usize] += sum.sum);
    }

    /// How it is computed.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Rows of each group that are not null.
    pub(super) fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The integer sums.
    pub(super) fn ints(&self) -> &[i128] {
        if let Values::Ints(sums) = &self.values { sums } else { &[] }
    }

    /// Whether the float sums of fragments are kept.
    pub(super) fn keeps_sums(&self) -> bool {
        matches!(self.values, Values::Floats { total: Total::Apart(_), .. })
    }

    /// Orders the sums of fragments by their groups; those of a group stay in the order of fragments.
    pub(super) fn sort_sums(&mut self) {
        if let Values::Floats { total: Total::Apart(sums), .. } = &mut self.values {
            sums.sort_by_key(|sum| sum.group);
        }
    }

    /// The sums of fragments.
    pub(super) fn sums(&self) -> &[FragmentSum] {
        if let Values::Floats { total: Total::Apart(sums), .. } = &self.values { sums } else { &[] }
    }

    /// The least or the greatest keys, of groups that have rows.
    pub(super) fn keys(&self) -> &[i64] {
        if let Values::Keys(keys) = &self.values { keys } else { &[] }
    }

    /// The sets of distinct keys.
    pub(super) fn sets(&self) -> &[Distinct] {
        if let Values::Sets(sets) = &self.values { sets } else { &[] }
    }

    /// The results for some groups, where none of them can fail and all are numbers of 64 bits.
    pub(super) fn vector(&self, aggregate: &BoundAggregate, groups: &[u32]) -> Option<Vector<'static>> {
        let counts = || groups.iter().map(|group| self.counts[*group as usize]);
        let average = aggregate.function == AggregateFunction::Avg;
        #[allow(clippy::cast_precision_loss, reason = "a count of rows is below 2^53")]
        let data = match (&self.values, aggregate.data_type) {
            (Values::None, DataType::Int64) => {
                // What does not fit is an error of `result`.
                let counts = counts().map(i64::try_from).collect::<std::result::Result<_, _>>().ok()?;
                return Some(Vector::new(Data::Ints(counts), None));
            }
            (Values::Ints(sums), DataType::Int64 | DataType::Decimal { .. }) if !average => {
                let sums = groups.iter().map(|group| i64::try_from(sums[*group as usize]));
                Data::Ints(sums.collect::<std::result::Result<_, _>>().ok()?)
            }
            (Values::Ints(sums), DataType::Float64) if average => {
                let scale = 10f64.powi(aggregate.argument_scale().into());
                let sums = groups.iter().map(|group| value::to_f64(sums[*group as usize], 0));
                Data::Floats(sums.zip(counts()).map(|(sum, n)| sum / n as f64 / scale).collect())
            }
            (Values::Floats { total: Total::Sum(total), .. }, DataType::Float64) => {
                let mut sums: Vec<f64> = groups.iter().map(|group| total[*group as usize]).collect();
                if average {
                    sums.iter_mut().zip(counts()).for_each(|(sum, n)| *sum /= n as f64);
                }
                Data::Floats(sums)
            }
            (Values::Keys(keys), data_type)
                if data_type.has_key_domain() && data_type != DataType::UInt64 =>
            {
                Data::Ints(groups.iter().map(|group| keys[*group as usize]).collect())
            }
            _ => return None,
        };
        let mut valid = vec![0; groups.len().div_ceil(64)];
        for (row, n) in counts().enumerate() {
            valid[row / 64] |= u64::from(n > 0) << (row % 64);
        }
        Some(Vector::new(data, Some(valid)))
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
            return Ok(Value::Int(i128::from(sets[group].len())));
        }
        if n == 0 {
            return Ok(Value::Null);
        }
        let scale = aggregate.argument_scale();
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
            Values::Floats { total: Total::Sum(total), .. } if average => Value::Float(total[group] / count),
            Values::Floats { total: Total::Sum(total), .. } => Value::Float(total[group]),
            Values::Keys(keys) if aggregate.data_type == DataType::Utf8 => Value::Text(text(keys[group])),
            Values::Keys(keys) if aggregate.data_type.is_float() => {
                Value::from_key(super::source::one_zero(keys[group]), aggregate.data_type)
            }
            Values::Keys(keys) => Value::from_key(keys[group], aggregate.data_type),
            Values::None | Values::Sets(_) => broken("counts are answered above"),
            Values::Floats { total: Total::Apart(_), .. } => {
                broken("sums of fragments are added up at the end")
            }
        })
    }
}
