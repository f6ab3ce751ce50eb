//! Aggregates of values under nulls.

use std::time::Duration;

use arrow_arith::aggregate;
use arrow_array::{Array, Scalar};
use arrow_ord::cmp;

use super::{
    data::{Column, Element, Nulls},
    seed, tables,
};
use crate::contest::{Contest, Figures, Goal, Role};

/// What is made of the values that are not null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Function {
    Sum,
    Avg,
    CountNonzero,
    Min,
    Max,
}

impl Function {
    /// All of the second source's tables.
    pub const ALL: [Self; 5] = [Self::Sum, Self::Avg, Self::CountNonzero, Self::Min, Self::Max];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::CountNonzero => "count_nonzero",
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}

/// What it is to come to on 100,000 values in cache, in microseconds or as a ratio.
pub fn goal<T: Element>(function: Function, nulls: Nulls) -> Goal {
    match (function, T::NAME, nulls.percent) {
        (Function::Sum, "f64", 10 | 50) => Goal::Times(Role::Seed, 5.0),
        _ => Goal::Ahead,
    }
}

/// Times an aggregate of a column: the source's methods, arrow, ours, and ours by the other tables.
pub fn race<T: Element>(function: Function, column: &Column<T>, nulls: Nulls, each: Duration) -> Figures {
    let mut contest = Contest::new();
    enter_seed(&mut contest, function, column);
    enter_arrow(&mut contest, function, column);
    let mask = column.validity.as_deref();
    for (role, name, table) in tables() {
        contest.enter(role, name, move |out| *out = ours(table, function, &column.values, mask), |out| *out);
    }
    contest.run(&format!("{} {}, nulls {nulls}", function.name(), T::NAME), each)
}

/// The answer by a table of kernels, or as the engine gets it.
#[allow(clippy::cast_precision_loss, reason = "counts of rows")]
fn ours<T: Element>(
    table: Option<&basalt_kernels::Kernels>,
    function: Function,
    values: &[T],
    mask: Option<&[u64]>,
) -> f64 {
    let number = |extremes: Option<(T, T)>, of: fn((T, T)) -> T| {
        extremes.map_or(f64::NAN, |extremes| T::number(of(extremes).into()))
    };
    let extremes = || match (table, mask) {
        (None, None) => basalt_kernels::min_max(values),
        (None, Some(mask)) => basalt_kernels::min_max_masked(values, mask),
        (Some(table), None) => table.min_max(values),
        (Some(table), Some(mask)) => table.min_max_masked(values, mask),
    };
    match function {
        Function::Sum => T::sum(table, values, mask),
        Function::Avg => {
            let rows = match (table, mask) {
                (_, None) => values.len() as u64,
                (None, Some(mask)) => basalt_kernels::mask::count_ones(mask),
                (Some(table), Some(mask)) => table.mask_count_ones(mask),
            };
            T::sum(table, values, mask) / rows as f64
        }
        Function::CountNonzero => {
            let count = match (table, mask) {
                (None, None) => basalt_kernels::count_nonzero(values),
                (None, Some(mask)) => basalt_kernels::count_nonzero_masked(values, mask),
                (Some(table), None) => table.count_nonzero(values),
                (Some(table), Some(mask)) => table.count_nonzero_masked(values, mask),
            };
            count as f64
        }
        Function::Min => number(extremes(), |(min, _)| min),
        Function::Max => number(extremes(), |(_, max)| max),
    }
}

fn enter_arrow<'a, T: Element>(contest: &mut Contest<'a, f64>, function: Function, column: &'a Column<T>) {
    let array = &column.array;
    let mut enter = |aggregate: Box<dyn Fn() -> f64 + 'a>| {
        contest.enter(Role::Rival, "arrow 59", move |out| *out = aggregate(), |out| *out);
    };
    #[allow(clippy::cast_precision_loss, reason = "counts of rows")]
    let rows = (array.len() - array.null_count()) as f64;
    let number = |value: Option<T>| value.map_or(f64::NAN, |value| T::number(value.into()));
    match function {
        // In bytes the sum would wrap.
        Function::Sum | Function::Avg if !T::ARROW_SUMS => {}
        Function::Sum => enter(Box::new(move || number(aggregate::sum(array)))),
        Function::Avg => enter(Box::new(move || number(aggregate::sum(array)) / rows)),
        Function::CountNonzero => {
            let zero = Scalar::new(super::array_of(T::default()));
            #[allow(clippy::cast_precision_loss, reason = "counts of rows")]
            enter(Box::new(move || cmp::neq(array, &zero).map_or(f64::NAN, |mask| mask.true_count() as f64)));
        }
        Function::Min => enter(Box::new(move || number(aggregate::min(array)))),
        Function::Max => enter(Box::new(move || number(aggregate::max(array)))),
    }
}

fn enter_seed<'a, T: Element>(contest: &mut Contest<'a, f64>, function: Function, column: &'a Column<T>) {
    let add = |sum: T::Wide, value: T| sum + value.into();
    match function {
        Function::Sum => {
            enter_walks(contest, column, T::Wide::default(), add, seed::add_whole, |sum, _| T::number(sum))
        }
        Function::Avg => {
            enter_walks(contest, column, T::Wide::default(), add, seed::add_whole, |sum, column| {
                #[allow(clippy::cast_precision_loss, reason = "counts of rows")]
                let rows = (column.values.len() as u64 - seed::count_null(&column.nulls)) as f64;
                T::number(sum) / rows
            })
        }
        Function::CountNonzero => {
            let count = |count: u64, value: T| count + u64::from(value != T::default());
            #[allow(clippy::cast_precision_loss, reason = "counts of rows")]
            enter_walks(contest, column, 0, count, whole(count), |count, _| count as f64);
        }
        Function::Min => {
            let least = |least: Option<T>, value: T| {
                Some(least.map_or(value, |least| if value < least { value } else { least }))
            };
            enter_walks(contest, column, None, least, whole(least), |least, _| {
                least.map_or(f64::NAN, |v| T::number(v.into()))
            });
        }
        Function::Max => {
            let most = |most: Option<T>, value: T| {
                Some(most.map_or(value, |most| if value > most { value } else { most }))
            };
            enter_walks(contest, column, None, most, whole(most), |most, _| {
                most.map_or(f64::NAN, |v| T::number(v.into()))
            });
        }
    }
}

/// A chunk without nulls, value by value.
fn whole<T: Copy, A>(step: impl Fn(A, T) -> A + Copy) -> impl Fn(A, &[T]) -> A + Copy {
    move |start, chunk: &[T]| chunk.iter().fold(start, |folded, &value| step(folded, value))
}

/// Enters the source's three ways through the rows.
fn enter_walks<'a, T: Element, A: Copy + 'a>(
    contest: &mut Contest<'a, f64>,
    column: &'a Column<T>,
    start: A,
    step: impl Fn(A, T) -> A + Copy + 'a,
    whole: impl Fn(A, &[T]) -> A + Copy + 'a,
    finish: impl Fn(A, &Column<T>) -> f64 + Copy + 'a,
) {
    let (values, nulls) = (&column.values, &column.nulls);
    let mut enter = |name, walk: Box<dyn Fn() -> A + 'a>| {
        contest.enter(Role::Seed, name, move |out| *out = finish(walk(), column), |out| *out);
    };
    enter("original", Box::new(move || seed::original(values, nulls, start, step)));
    enter("auto", Box::new(move || seed::auto(values, nulls, start, step)));
    enter("chunks", Box::new(move || seed::chunks(values, nulls, start, step, whole)));
}
