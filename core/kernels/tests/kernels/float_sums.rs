//! Sums of floats: the same bits on every instruction set and for every split.

use basalt_kernels::{FloatSum, Kernels};

use crate::{
    naive,
    rows::{Number, Random, for_tables, lengths, masks, numbers, property, selects},
};

/// The bits of a sum whose lanes are these.
fn finish(lanes: [f64; 8]) -> u64 {
    let [a, b, c, d, e, f, g, h] = lanes;
    let sum: f64 = ((a + e) + (c + g)) + ((b + f) + (d + h));
    if sum.is_nan() { f64::NAN.to_bits() } else { sum.to_bits() }
}

fn check<T: Number + basalt_kernels::Float>(table: &Kernels, values: &[T], masks: &[Vec<u64>], split: usize) {
    let wide: Vec<f64> = values.iter().map(|&value| value.into()).collect();
    let mut lanes = [0.0; 8];
    naive::float_lanes(&mut lanes, &wide, |_| true);
    let (head, tail) = values.split_at(split);
    let mut sums = [FloatSum::default(); 2];
    table.sum_floats(values, &mut sums[0]);
    table.sum_floats(head, &mut sums[1]);
    table.sum_floats(tail, &mut sums[1]);
    assert_eq!(sums.map(|sum| sum.finish().to_bits()), [finish(lanes); 2], "{}", table.isa());
    for mask in masks {
        let mut lanes = [0.0; 8];
        naive::float_lanes(&mut lanes, &wide, |row| selects(mask, row));
        let mut sums = [FloatSum::default(); 2];
        table.sum_floats_masked(values, mask, &mut sums[0]);
        table.sum_floats_masked(head, &mask[..split.div_ceil(64)], &mut sums[1]);
        table.sum_floats_masked(tail, &mask[split.div_ceil(64)..], &mut sums[1]);
        assert_eq!(sums.map(|sum| sum.finish().to_bits()), [finish(lanes); 2], "{}", table.isa());
    }
}

/// Numbers whose sums are rounded at every step.
fn uneven(rows: usize, random: &mut Random) -> Vec<f64> {
    (0..rows).map(|_| (random.below(2_000_001) as f64 - 1e6) / 10_f64.powi(random.below(12) as i32)).collect()
}

#[test]
fn bits_are_the_same_for_all_lengths_masks_and_splits() {
    for rows in lengths() {
        let mut random = Random::new(rows as u64);
        let values = uneven(rows + 1, &mut random);
        let narrow: Vec<f32> = values.iter().map(|&value| value as f32).collect();
        let masks = masks(rows, &mut random);
        let split = rows / 64 / 2 * 64;
        for_tables(|table| {
            check(table, &values[1..], &masks, split);
            check(table, &narrow[1..], &masks, split);
        });
    }
}

#[test]
fn random_sums_match_row_by_row() {
    property(600, |rows, random| {
        let values = uneven(rows, random);
        let masks = masks(rows, random);
        let split = (random.below(rows as u64 / 64 + 1) * 64) as usize;
        for_tables(|table| check(table, &values, &masks, split));
    });
}

#[test]
fn special_values_sum_as_floats_do() {
    for rows in lengths() {
        let mut random = Random::new(rows as u64);
        let (values, narrow) = (numbers::<f64>(rows, &mut random), numbers::<f32>(rows, &mut random));
        let masks = masks(rows, &mut random);
        for_tables(|table| {
            check(table, &values, &masks, 0);
            check(table, &narrow, &masks, 0);
        });
    }
}

#[test]
fn what_a_mask_leaves_out_has_no_part() {
    let mut values = vec![f64::NAN; 200];
    values[70] = 2.5;
    values[199] = -1.0;
    let mut mask = [0_u64; 4];
    mask[70 / 64] |= 1 << (70 % 64);
    mask[199 / 64] |= 1 << (199 % 64);
    for_tables(|table| {
        let mut sum = FloatSum::default();
        table.sum_floats_masked(&values, &mask, &mut sum);
        assert_eq!(sum.finish(), 1.5);
    });
}

#[test]
fn no_rows_and_negative_zeros_sum_to_positive_zero() {
    for_tables(|table| {
        let mut sum = FloatSum::default();
        table.sum_floats(&[-0.0_f64; 130], &mut sum);
        table.sum_floats::<f64>(&[], &mut sum);
        assert_eq!(sum.finish().to_bits(), 0);
    });
}

#[test]
fn rows_by_their_places_sum_as_under_a_mask() {
    property(66_000, |rows, random| {
        let mut values = numbers::<f64>(rows, random);
        if random.below(2) == 0 {
            values = uneven(rows, random);
        }
        for mask in masks(rows, random) {
            let mut places = vec![0; rows + 64];
            let n = basalt_kernels::mask::positions(&mask[..mask.len().min(1024)], &mut places);
            let places = &places[..n];
            let chosen: Vec<f64> = places.iter().map(|place| values[usize::from(*place)]).collect();
            let mut lanes = [0.0; 8];
            naive::float_lanes(&mut lanes, &values[..rows.min(65_536)], |row| selects(&mask, row));
            // In two parts, each of whole chunks.
            let split = places.get(n / 3).map_or(0, |place| places.partition_point(|p| p / 64 < place / 64));
            let mut sum = FloatSum::default();
            sum.add_at(&places[..split], &chosen[..split]);
            sum.add_at(&places[split..], &chosen[split..]);
            assert_eq!(sum.finish().to_bits(), finish(lanes), "{n} of {rows}");
        }
    });
}
