//! What aggregates are taken of, and what the rows of a block add up to.

use std::sync::atomic::{AtomicI64, Ordering};

use super::{
    Block,
    aggregate::Kind,
    distinct::Distinct,
    source::{Source, Texts},
};
use crate::{
    error::Result,
    mask::Mask,
    plan::{
        BoundAggregate,
        expr::{BoundExpr, Slots},
    },
    schema::DataType,
};

/// An argument, and what its aggregates need of it. All need the number of its values.
#[derive(Debug)]
pub(super) struct Argument<'a> {
    pub(super) expr: &'a BoundExpr,
    pub(super) data_type: Option<DataType>,
    pub(super) sum: bool,
    pub(super) extremes: bool,
    pub(super) distinct: bool,
    /// The extremes that blocks have found.
    pub(super) seen: Seen,
}

/// The least and the greatest key found so far, by any thread.
#[derive(Debug)]
pub(super) struct Seen {
    min: AtomicI64,
    max: AtomicI64,
}

impl Default for Seen {
    fn default() -> Self {
        Self { min: AtomicI64::new(i64::MAX), max: AtomicI64::new(i64::MIN) }
    }
}

impl Seen {
    /// Both, if keys within a range cannot change them.
    pub(super) fn beyond(&self, (low, high): (i64, i64)) -> Option<(i64, i64)> {
        let (min, max) = (self.min.load(Ordering::Relaxed), self.max.load(Ordering::Relaxed));
        (min <= low && high <= max).then_some((min, max))
    }

    /// Takes in what a block has found.
    pub(super) fn add(&self, (min, max): (i64, i64)) {
        self.min.fetch_min(min, Ordering::Relaxed);
        self.max.fetch_max(max, Ordering::Relaxed);
    }
}

impl<'a> Argument<'a> {
    /// Whether its values are summed as floats.
    pub(super) fn sums_floats(&self) -> bool {
        self.sum && self.data_type.is_some_and(DataType::is_float)
    }

    /// Whether its values are summed as integers.
    pub(super) fn sums_ints(&self) -> bool {
        self.sum && !self.sums_floats()
    }

    /// Where its keys come from in a block, if they are needed.
    pub(super) fn source(&self, slots: &Slots, block: Block<'a>, mask: &Mask) -> Result<Option<Source<'a>>> {
        let needed = self.sums_ints() || self.extremes || self.distinct;
        if needed { Source::new(self.expr, slots, block, mask).map(Some) } else { Ok(None) }
    }

    /// By how much a key is less than its value.
    pub(super) fn bias(&self) -> i128 {
        if self.data_type == Some(DataType::UInt64) { 1 << 63 } else { 0 }
    }
}

/// The arguments of a query's aggregates, each once however many aggregates share it.
#[derive(Debug, Default)]
pub(super) struct Arguments<'a> {
    pub(super) all: Vec<Argument<'a>>,
    /// The place of each aggregate's argument; none of `count(*)`.
    pub(super) of: Vec<Option<usize>>,
}

impl<'a> Arguments<'a> {
    pub(super) fn new(aggregates: &'a [BoundAggregate], slots: &Slots) -> Self {
        let mut arguments = Self::default();
        for aggregate in aggregates {
            let at = aggregate.argument.as_ref().map(|expr| arguments.place(expr, slots));
            arguments.of.push(at);
            let Some(argument) = at.map(|at| &mut arguments.all[at]) else { continue };
            match Kind::of(aggregate) {
                Kind::Count => {}
                Kind::SumInts | Kind::SumFloats => argument.sum = true,
                Kind::Min | Kind::Max => argument.extremes = true,
                Kind::Distinct => argument.distinct = true,
            }
        }
        arguments
    }

    /// Moves the blocks that may hold the extremes of columns to the front, so that others need not be read for them.
    /// Float sums are added in the blocks' order, which stays where there are any.
    pub(super) fn extremes_first(&self, blocks: &mut [(Block<'_>, bool)]) {
        if self.all.iter().any(Argument::sums_floats) {
            return;
        }
        for argument in self.all.iter().filter(|argument| argument.extremes) {
            let BoundExpr::Slot(slot) = argument.expr else { continue };
            let zone = |(block, _): &(Block<'_>, bool)| {
                block.fragment.column_at(*slot).and_then(|column| column.zones()[block.block].range)
            };
            let least = blocks.iter().enumerate().filter_map(|(at, block)| Some((zone(block)?.0, at))).min();
            if let Some((_, at)) = least {
                blocks.swap(0, at);
            }
            let greatest =
                blocks.iter().enumerate().filter_map(|(at, block)| Some((zone(block)?.1, at))).max();
            if let Some((_, at @ 1..)) = greatest {
                blocks.swap(1, at);
            }
        }
    }

    fn place(&mut self, expr: &'a BoundExpr, slots: &Slots) -> usize {
        self.all.iter().position(|argument| argument.expr == expr).unwrap_or_else(|| {
            let data_type = expr.data_type(slots);
            self.all.push(Argument {
                expr,
                data_type,
                sum: false,
                extremes: false,
                distinct: false,
                seen: Seen::default(),
            });
            self.all.len() - 1
        })
    }
}

/// Makes room for more of what there may be many of, by a quarter of it where it has to move: what is held is little
/// more than what is used.
pub(super) fn grow<T>(all: &mut Vec<T>, more: usize) {
    if all.capacity() - all.len() < more {
        all.reserve_exact(more.max(all.len() / 4).max(64));
    }
}

/// What the values of an argument come to in each group; empty is what its aggregates do not need.
#[derive(Debug, Default)]
pub(super) struct Totals<'a> {
    /// Rows that are not null.
    pub(super) counts: Vec<u64>,
    pub(super) ints: Vec<i128>,
    pub(super) floats: Vec<f64>,
    /// The least and the greatest key, where there are rows.
    pub(super) extremes: Vec<(i64, i64)>,
    pub(super) sets: Vec<Distinct>,
    /// What the keys are codes of.
    pub(super) texts: Option<Texts<'a>>,
}

impl Totals<'_> {
    /// Numbers of rows.
    pub(super) fn of_counts(counts: Vec<u64>) -> Self {
        Self { counts, ..Self::default() }
    }

    /// Those of some of the groups.
    pub(super) fn of_places(mut self, places: &[usize]) -> Self {
        fn some<T>(all: &mut Vec<T>, places: &[usize]) {
            if all.len() > places.len() {
                // The places ascend, so none is overwritten before it is read.
                places.iter().enumerate().for_each(|(to, place)| all.swap(to, *place));
                all.truncate(places.len());
            }
        }
        some(&mut self.counts, places);
        some(&mut self.ints, places);
        some(&mut self.floats, places);
        some(&mut self.extremes, places);
        some(&mut self.sets, places);
        self
    }

    /// Bytes of sets.
    pub(super) fn set_bytes(&self) -> usize {
        self.sets.iter().map(Distinct::bytes).sum()
    }

    /// Calls `each` with every key held.
    pub(super) fn for_each_key(&self, mut each: impl FnMut(i64)) {
        let pairs = self.extremes.iter().zip(&self.counts).filter(|(_, n)| **n > 0);
        pairs.for_each(|((min, max), _)| {
            each(*min);
            each(*max);
        });
        self.sets.iter().for_each(|set| set.for_each(&mut each));
    }
}
