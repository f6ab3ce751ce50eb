//! Comparisons with a constant to a mask, and the sum of what passes.

use std::time::Duration;

use arrow_arith::aggregate;
use arrow_array::{Array, BooleanArray, Datum, Scalar, cast::AsArray};
use arrow_ord::cmp;
use arrow_select::filter::{filter, prep_null_mask_filter};
use basalt_kernels::{CmpOp, Filter, Kernels, mask};

use super::{
    array_of,
    data::{Column, Element, Nulls, mask_of},
    seed, tables,
};
use crate::contest::{Contest, Figures, Role};

/// The comparisons of the second source, by its names.
pub const OPS: [(&str, CmpOp); 6] = [
    ("gt", CmpOp::Gt),
    ("gte", CmpOp::Ge),
    ("lt", CmpOp::Lt),
    ("lte", CmpOp::Le),
    ("eq", CmpOp::Eq),
    ("ne", CmpOp::Ne),
];

/// Times a comparison of a column with its middle value; rows under a null do not pass.
pub fn race<T: Element>(
    (name, op): (&str, CmpOp),
    column: &Column<T>,
    nulls: Nulls,
    each: Duration,
) -> Figures {
    let (values, middle, rows) = (&column.values, T::middle(), column.values.len());
    let mut contest = Contest::<Vec<u64>>::new();
    contest.enter(
        Role::Seed,
        "rows",
        move |out| seed::filter_rows(op, values, &column.nulls, middle, out),
        move |out| rows_to_mask(out, rows),
    );
    contest.enter(
        Role::Seed,
        "mask",
        move |out| seed::filter_mask(op, values, &column.nulls, middle, out),
        Vec::clone,
    );

    let constant = Scalar::new(array_of(middle));
    let compare = arrow_compare(op);
    contest.enter(
        Role::Rival,
        "arrow 59",
        move |out: &mut Option<BooleanArray>| {
            let mask = compare(&column.array, &constant).ok();
            *out = mask.map(|mask| if mask.null_count() > 0 { prep_null_mask_filter(&mask) } else { mask });
        },
        |out| out.as_ref().map_or_else(Vec::new, |mask| mask_of(mask.values().iter())),
    );

    for (role, name, table) in tables() {
        let write = move |out: &mut Vec<u64>| {
            out.resize(rows.div_ceil(64), 0);
            compare_ours(table, op, values, middle, out);
            match (table, &column.validity) {
                (_, None) => {}
                (None, Some(validity)) => mask::and(out, validity),
                (Some(table), Some(validity)) => table.mask_and(out, validity),
            }
        };
        contest.enter(role, name, write, Vec::clone);
    }
    contest.run(&format!("{name} {}, nulls {nulls}", T::NAME), each)
}

fn rows_to_mask(positions: &[usize], rows: usize) -> Vec<u64> {
    let mut words = vec![0; rows.div_ceil(64)];
    positions.iter().for_each(|row| words[row / 64] |= 1 << (row % 64));
    words
}

type Compare = fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, arrow_schema::ArrowError>;

fn arrow_compare(op: CmpOp) -> Compare {
    match op {
        CmpOp::Eq => cmp::eq,
        CmpOp::Ne => cmp::neq,
        CmpOp::Lt => cmp::lt,
        CmpOp::Le => cmp::lt_eq,
        CmpOp::Gt => cmp::gt,
        CmpOp::Ge => cmp::gt_eq,
    }
}

fn compare_ours<T: Element>(table: Option<&Kernels>, op: CmpOp, values: &[T], constant: T, out: &mut [u64]) {
    match table {
        None => basalt_kernels::compare(op, values, constant, out),
        Some(table) => table.compare(op, values, constant, out),
    }
}

/// Times the sum of the values above the middle one.
pub fn race_sum<T: Element>(column: &Column<T>, nulls: Nulls, each: Duration) -> Figures {
    let (values, middle) = (&column.values, T::middle());
    let above = Filter::compare(CmpOp::Gt, values, middle);
    let above = column.validity.as_deref().map_or(above, |validity| above.masked(validity));
    let mut contest = Contest::<f64>::new();
    contest.enter(
        Role::Seed,
        "original",
        move |out| *out = T::number(seed::filtered_sum(values, &column.nulls, middle)),
        |out| *out,
    );
    contest.enter(
        Role::Seed,
        "chunks",
        move |out| *out = T::number(seed::filtered_sum_chunks(values, &column.nulls, middle)),
        |out| *out,
    );

    let constant = Scalar::new(array_of(middle));
    contest.enter(
        Role::Rival,
        "arrow 59",
        move |out| {
            let passed = cmp::gt(&column.array, &constant).and_then(|mask| filter(&column.array, &mask));
            let sum = passed.ok().and_then(|passed| aggregate::sum(passed.as_primitive::<T::Arrow>()));
            *out = sum.map_or(f64::NAN, |sum| T::number(sum.into()));
        },
        |out| *out,
    );

    for (role, name, table) in tables() {
        contest.enter(role, name, move |out| *out = T::filtered_sum(table, values, &above), |out| *out);
    }
    contest.run(&format!("gt and sum {}, nulls {nulls}", T::NAME), each)
}
