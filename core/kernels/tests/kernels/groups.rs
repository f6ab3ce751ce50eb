//! Aggregates by group.

use basalt_kernels::{Kernels, groups::GroupCode};

use crate::rows::{Random, for_tables, lengths, masks, numbers, property, selects, step};

/// Group counts around those that go another way.
const GROUPS: [usize; 12] = [1, 2, 4, 7, 8, 9, 16, 17, 256, 257, 4096, 4097];

fn check<C: GroupCode>(
    table: &Kernels,
    codes: &[C],
    index: fn(C) -> usize,
    k: usize,
    values: &[i64],
    mask: Option<&[u64]>,
) {
    let isa = table.isa();
    let rows = || (0..codes.len()).filter(|&row| mask.is_none_or(|mask| selects(mask, row)));
    let floats: Vec<f64> = values.iter().map(|&v| f64::from_number(v)).collect();
    let mut expected = (vec![7; k], vec![-5_i128; k], vec![0.5_f64; k], vec![(9, 3); k]);
    let mut found = expected.clone();
    for row in rows() {
        let group = index(codes[row]);
        let value = values[row];
        expected.0[group] += 1_u64;
        expected.1[group] += i128::from(value);
        expected.2[group] += floats[row];
        let (min, max) = &mut expected.3[group];
        (*min, *max) = ((*min).min(value), (*max).max(value));
    }
    table.group_count(codes, mask, &mut found.0);
    table.group_sum(codes, values, mask, &mut found.1);
    table.group_sum_floats(codes, &floats, mask, &mut found.2);
    table.group_min_max(codes, values, mask, &mut found.3);
    assert_eq!(found.0, expected.0, "{isa}, {k} groups");
    assert_eq!(found.1, expected.1, "{isa}, {k} groups");
    let bits =
        |sums: &[f64]| sums.iter().map(|v| if v.is_nan() { 1 } else { v.to_bits() }).collect::<Vec<_>>();
    assert_eq!(bits(&found.2), bits(&expected.2), "{isa}, {k} groups");
    assert_eq!(found.3, expected.3, "{isa}, {k} groups");
}

/// Floats from integers: sums round, and some are NaN, infinite or -0.0.
trait FromNumber {
    fn from_number(value: i64) -> Self;
}

impl FromNumber for f64 {
    fn from_number(value: i64) -> f64 {
        match value {
            i64::MAX => f64::NAN,
            i64::MIN => f64::INFINITY,
            0 => -0.0,
            _ => value as f64 * 0.1,
        }
    }
}

/// Values of all sizes, or of sizes that sum to what a word holds.
fn values(rows: usize, random: &mut Random) -> Vec<i64> {
    let shift = random.below(64) as u32;
    match random.below(3) {
        0 => numbers::<i64>(rows, random),
        _ => (0..rows).map(|_| random.next().cast_signed() >> shift).collect(),
    }
}

fn check_types(rows: usize, k: usize, random: &mut Random) {
    let values = values(rows, random);
    let sorted = random.below(2) == 0;
    let mut groups: Vec<u64> = (0..rows).map(|_| random.below(k as u64)).collect();
    if sorted {
        groups.sort_unstable();
    }
    let wide: Vec<u32> = groups.iter().map(|&group| group as u32).collect();
    let middle: Vec<u16> = groups.iter().map(|&group| group as u16).collect();
    let narrow: Vec<u8> = groups.iter().map(|&group| group as u8).collect();
    let masks = masks(rows, random);
    for_tables(|table| {
        for mask in [None].into_iter().chain(masks.iter().map(|mask| Some(mask.as_slice()))) {
            check(table, &wide, |code| code as usize, k, &values, mask);
            check(table, &middle, usize::from, k, &values, mask);
            if k <= 256 {
                check(table, &narrow, usize::from, k, &values, mask);
            }
        }
    });
}

fn check_digits<C: GroupCode + From<u8>>(
    keys: &[i64],
    low: i64,
    span: i64,
    of: fn(i64) -> C,
    number: impl Fn(C) -> i64,
) {
    for_tables(|table| {
        let mut codes: Vec<C> = (0..=255).cycle().take(keys.len()).map(C::from).collect();
        let expected = codes.iter().zip(keys);
        let expected =
            expected.map(|(code, key)| number(*code).wrapping_mul(span).wrapping_add(key.wrapping_sub(low)));
        let expected: Vec<i64> = expected.map(|wide| number(of(wide))).collect();
        table.group_digits(keys, low, span, &mut codes);
        let found: Vec<i64> = codes.iter().map(|code| number(*code)).collect();
        assert_eq!(found, expected, "{}, {low}, {span}", table.isa());
    });
}

#[test]
fn digits_are_appended_row_by_row() {
    property(2000, |rows, random| {
        let keys = numbers::<i64>(rows, random);
        let (low, span) =
            (random.next().cast_signed() >> random.below(64), random.below(1 << 40).cast_signed());
        check_digits(&keys, low, span, |wide| wide as u8, i64::from);
        check_digits(&keys, low, span, |wide| wide as u16, i64::from);
        check_digits(&keys, low, span, |wide| wide as u32, i64::from);
    });
}

#[test]
fn groups_match_row_by_row() {
    for k in GROUPS.into_iter().step_by(step(5)) {
        let mut random = Random::new(k as u64);
        for rows in lengths().step_by(step(3)) {
            check_types(rows, k, &mut random);
        }
    }
}

#[test]
fn random_groups_match_row_by_row() {
    property(5000, |rows, random| {
        let k = 1 + random.below(20) as usize;
        check_types(rows, k, random);
    });
}

#[test]
fn sums_do_not_wrap() {
    for edge in [i64::MIN, i64::MAX, i64::MAX / 4096, 1 << 51] {
        for k in [1, 3, 100, 300, 5000] {
            let codes: Vec<u32> = (0..20_000).step_by(step(50)).map(|row| row % k).collect();
            let values = vec![edge; codes.len()];
            for_tables(|table| check(table, &codes, |code| code as usize, k as usize, &values, None));
        }
    }
}

#[test]
fn no_groups_of_no_rows_are_none() {
    for_tables(|table| check::<u32>(table, &[], |code| code as usize, 0, &[], None));
}

#[test]
fn codes_of_rows_that_are_left_out_do_not_matter() {
    for_tables(|table| {
        let mut codes = vec![1_u32; 200];
        codes[70] = u32::MAX;
        let mut mask = vec![u64::MAX; 4];
        mask[1] &= !(1 << 6);
        let (mut counts, mut sums) = ([0; 2], [0; 2]);
        let (mut floats, mut extremes) = ([0.0; 2], [(i64::MAX, i64::MIN); 2]);
        table.group_count(&codes, Some(&mask), &mut counts);
        table.group_sum(&codes, &[3; 200], Some(&mask), &mut sums);
        table.group_sum_floats(&codes, &[3.0; 200], Some(&mask), &mut floats);
        table.group_min_max(&codes, &[3; 200], Some(&mask), &mut extremes);
        assert_eq!((counts, sums, floats), ([0, 199], [0, 597], [0.0, 597.0]));
        assert_eq!(extremes, [(i64::MAX, i64::MIN), (3, 3)]);
    });
}

#[test]
fn a_code_without_a_group_is_the_callers_bug() {
    for_tables(|table| {
        for k in [1, 8, 200, 4000] {
            let mut codes = vec![0_u32; 300];
            codes[299] = k;
            let k = k as usize;
            let caught = |call: &dyn Fn()| {
                assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err());
            };
            caught(&|| table.group_count(&codes, None, &mut vec![0; k]));
            caught(&|| table.group_sum(&codes, &[1; 300], None, &mut vec![0; k]));
            caught(&|| table.group_sum_floats(&codes, &[1.0; 300], None, &mut vec![0.0; k]));
            caught(&|| table.group_min_max(&codes, &[1; 300], None, &mut vec![(0, 0); k]));
        }
    });
}

#[test]
#[should_panic(expected = "3 values for 2 group numbers")]
fn values_that_are_not_of_the_rows_are_the_callers_bug() {
    basalt_kernels::groups::sum(&[0_u8; 2], &[0; 3], None, &mut [0]);
}
