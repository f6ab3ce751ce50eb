//! Comparisons, extremes, counts and integer sums.

use std::fmt::Debug;

use basalt_kernels::{Integer, Kernels};

use crate::{
    naive,
    rows::{Number, Random, for_tables, lengths, masks, numbers, property, step, words},
};

/// Asserts that two values are the same, NaN and the sign of zero included.
#[track_caller]
fn same<T: Debug>(left: T, right: T, what: impl Debug) {
    assert_eq!(format!("{left:?}"), format!("{right:?}"), "{what:?}");
}

fn check_compare<T: Number>(table: &Kernels, values: &[T], constants: &[T]) {
    let mut out = vec![u64::MAX; values.len().div_ceil(64)];
    for &constant in constants {
        for op in naive::OPS {
            table.compare(op, values, constant, &mut out);
            let bits: Vec<_> = values.iter().map(|&value| naive::passes(op, value, constant)).collect();
            assert_eq!(out, words(&bits), "{} {op:?} {constant:?}", table.isa());
        }
        for &other in constants {
            table.between(values, constant, other, &mut out);
            let bits: Vec<_> = values.iter().map(|&value| naive::between(value, constant, other)).collect();
            assert_eq!(out, words(&bits), "{} between {constant:?} and {other:?}", table.isa());
        }
    }
}

fn check_folds<T: Number>(table: &Kernels, values: &[T], masks: &[Vec<u64>]) {
    let isa = table.isa();
    let positive_zero = |v: T| if v == T::default() { T::default() } else { v };
    let min_max = |values: &mut dyn Iterator<Item = T>| {
        naive::min_max(values).map(|(min, max)| (positive_zero(min), positive_zero(max)))
    };
    let nonzero = |values: &mut dyn Iterator<Item = T>| values.filter(|v| *v != T::default()).count() as u64;
    same(table.min_max(values), min_max(&mut values.iter().copied()), isa);
    assert_eq!(table.count_nonzero(values), nonzero(&mut values.iter().copied()), "{isa}");
    for mask in masks {
        let found = table.min_max_masked(values, mask);
        same(found, min_max(&mut naive::selected(values, mask)), isa);
        let found = table.count_nonzero_masked(values, mask);
        assert_eq!(found, nonzero(&mut naive::selected(values, mask)), "{isa}");
    }
}

fn check_sums<T: Number + Integer + Into<i128>>(table: &Kernels, values: &[T], masks: &[Vec<u64>]) {
    assert_eq!(table.sum(values), values.iter().map(|&v| v.into()).sum(), "{}", table.isa());
    for mask in masks {
        let expected: i128 = naive::selected(values, mask).map(Into::into).sum();
        assert_eq!(table.sum_masked(values, mask), expected, "{}", table.isa());
    }
}

/// Constants to compare with: the edges and some of the values.
fn constants<T: Number>(values: &[T]) -> Vec<T> {
    T::EDGES.iter().chain(values.iter().step_by(1 + values.len() / 4)).step_by(step(6)).copied().collect()
}

fn edges<T: Number>(sums: impl Fn(&Kernels, &[T], &[Vec<u64>])) {
    for rows in lengths().step_by(step(2)) {
        let mut random = Random::new(rows as u64);
        let values = numbers::<T>(rows + 3, &mut random);
        let masks = masks(rows, &mut random);
        for_tables(|table| {
            // The offset makes the slice one that no register is aligned with.
            for values in [&values[..rows], &values[3..]] {
                check_compare(table, values, &constants(&values[..values.len().min(100)]));
                check_folds(table, values, &masks);
                sums(table, values, &masks);
            }
        });
    }
    for &edge in T::EDGES.iter().step_by(step(6)) {
        let mut random = Random::new(7);
        let values = vec![edge; 700 / step(7)];
        let masks = masks(values.len(), &mut random);
        for_tables(|table| {
            check_folds(table, &values, &masks);
            sums(table, &values, &masks);
        });
    }
}

fn random<T: Number>(sums: impl Fn(&Kernels, &[T], &[Vec<u64>])) {
    property(600, |rows, random| {
        let values = numbers::<T>(rows, random);
        let constants = numbers::<T>(2, random);
        let masks = masks(rows, random);
        for_tables(|table| {
            check_compare(table, &values, &constants);
            check_folds(table, &values, &masks);
            sums(table, &values, &masks);
        });
    });
}

macro_rules! types {
    ($($t:ident $sums:expr),*) => {$(
        mod $t {
            use super::*;

            #[test]
            fn edges_match_row_by_row() {
                edges::<$t>($sums);
            }

            #[test]
            fn random_values_match_row_by_row() {
                random::<$t>($sums);
            }
        }
    )*};
}

types!(
    i8 check_sums, i16 check_sums, i32 check_sums, i64 check_sums,
    u8 check_sums, u16 check_sums, u32 check_sums, u64 check_sums,
    f32 |_, _, _| {}, f64 |_, _, _| {}
);

#[test]
fn is_nan_finds_every_nan() {
    for rows in lengths() {
        let values = numbers::<f64>(rows, &mut Random::new(1));
        let narrow = numbers::<f32>(rows, &mut Random::new(2));
        let mut out = vec![u64::MAX; rows.div_ceil(64)];
        for_tables(|table| {
            table.is_nan(&values, &mut out);
            assert_eq!(out, words(&values.iter().map(|v| v.is_nan()).collect::<Vec<_>>()));
            table.is_nan(&narrow, &mut out);
            assert_eq!(out, words(&narrow.iter().map(|v| v.is_nan()).collect::<Vec<_>>()));
        });
    }
}

#[test]
fn bits_behind_the_last_row_are_ignored() {
    for_tables(|table| {
        for mask in [u64::MAX, !0 << 6, 1 << 6] {
            let rows: Vec<i64> = (1..=7).collect();
            let expected = if mask == u64::MAX { 28 } else { 7 };
            assert_eq!(table.sum_masked(&rows, &[mask]), expected);
            assert_eq!(table.min_max_masked(&rows, &[mask]).map(|(_, max)| max), Some(7));
            assert_eq!(table.count_nonzero_masked(&rows, &[mask]), if mask == u64::MAX { 7 } else { 1 });
        }
        assert_eq!(table.min_max_masked(&[1_i64], &[2]), None);
    });
}

#[test]
#[should_panic(expected = "2 mask words for 64 rows")]
fn lengths_that_disagree_are_the_callers_bug() {
    basalt_kernels::sum_masked(&[0_i64; 64], &[0; 2]);
}
