//! Aggregates of what passes a filter, against the mask of it and the aggregates of a mask.

use std::fmt::Debug;

use basalt_kernels::{CmpOp, Filter, Float, FloatSum, Integer, Kernels, Native};

use crate::{
    naive::OPS,
    rows::{Number, Random, for_tables, lengths, masks, numbers, property, step},
};

/// The filters of some values, with the masks of what passes.
fn filters<'a, T: Number>(
    table: &Kernels,
    by: &'a [T],
    masks: &'a [Vec<u64>],
    random: &mut Random,
) -> Vec<(Filter<'a, T>, Vec<u64>)> {
    let mut filters = vec![];
    let mut add = |filter: Filter<'a, T>, words: Vec<u64>| {
        for mask in masks {
            let mut both = words.clone();
            table.mask_and(&mut both, mask);
            filters.push((filter.masked(mask), both));
        }
        filters.push((filter, words));
    };
    let [lo, hi] = [(); 2].map(|()| numbers::<T>(1, random)[0]);
    for op in OPS.into_iter().step_by(step(4)) {
        let mut words = vec![0; by.len().div_ceil(64)];
        table.compare(op, by, lo, &mut words);
        add(Filter::compare(op, by, lo), words);
    }
    let mut words = vec![0; by.len().div_ceil(64)];
    table.between(by, lo, hi, &mut words);
    add(Filter::between(by, lo, hi), words);
    filters
}

/// The same as text, which tells NaN and zeros apart.
#[track_caller]
fn same<T: Debug>(left: T, right: T, table: &Kernels) {
    assert_eq!(format!("{left:?}"), format!("{right:?}"), "{}", table.isa());
}

fn check<T: Native, V: Native>(table: &Kernels, filter: &Filter<'_, T>, words: &[u64], values: &[V]) {
    assert_eq!(table.filter_count(filter), table.mask_count_ones(words), "{}", table.isa());
    same(table.filter_min_max(filter, values), table.min_max_masked(values, words), table);
}

fn check_integers<T: Native, V: Integer>(
    table: &Kernels,
    filter: &Filter<'_, T>,
    words: &[u64],
    values: &[V],
) {
    check(table, filter, words, values);
    assert_eq!(table.filter_sum(filter, values), table.sum_masked(values, words), "{}", table.isa());
}

fn check_floats<T: Native, V: Float>(table: &Kernels, filter: &Filter<'_, T>, words: &[u64], values: &[V]) {
    check(table, filter, words, values);
    let mut sums = [FloatSum::default(); 2];
    table.filter_sum_floats(filter, values, &mut sums[0]);
    table.sum_floats_masked(values, words, &mut sums[1]);
    same(sums[0].finish().to_bits(), sums[1].finish().to_bits(), table);
}

fn check_rows(rows: usize, random: &mut Random) {
    let masks = &masks(rows, random)[3..5];
    macro_rules! by {
        ($t:ident $check:ident) => {
            let (by, values) = (numbers::<$t>(rows, random), numbers::<$t>(rows, random));
            let (ints, floats) = (numbers::<i64>(rows, random), numbers::<f64>(rows, random));
            for_tables(|table| {
                for (filter, words) in filters(table, &by, masks, random) {
                    $check(table, &filter, &words, &by);
                    $check(table, &filter, &words, &values);
                    check_integers(table, &filter, &words, &ints);
                    check_floats(table, &filter, &words, &floats);
                }
            });
        };
    }
    by!(i8 check_integers);
    by!(u16 check_integers);
    by!(i32 check_integers);
    by!(i64 check_integers);
    by!(u64 check_integers);
    by!(f32 check_floats);
    by!(f64 check_floats);
}

#[test]
fn filters_are_masks() {
    for rows in lengths().filter(|rows| !cfg!(miri) || *rows == 9) {
        check_rows(rows, &mut Random::new(rows as u64));
    }
}

#[test]
#[cfg_attr(miri, ignore = "it takes too long")]
fn random_filters_are_masks() {
    property(150, check_rows);
}

#[test]
fn the_table_in_use_serves_filters() {
    let values: Vec<i64> = (0..1000).collect();
    let filter = Filter::compare(CmpOp::Ge, &values, 990);
    assert_eq!((filter.count(), filter.sum(&values)), (10, 9945));
    assert_eq!(filter.min_max(&values), Some((990, 999)));
    let mut sum = FloatSum::default();
    filter.sum_floats(&[0.5; 1000], &mut sum);
    assert_eq!(sum.finish(), 5.0);
    assert_eq!(filter.masked(&[u64::MAX << 32; 16]).count(), 8);
}

#[test]
#[should_panic(expected = "3 values for 2 rows")]
fn values_that_are_not_of_the_rows_are_the_callers_bug() {
    Filter::between(&[0_u8; 2], 1, 2).sum(&[0; 3]);
}
