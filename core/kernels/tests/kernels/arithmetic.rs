//! Arithmetic of integers.

use basalt_kernels::IntOp;

use crate::rows::{Random, for_tables, lengths, numbers, property};

const OPS: [IntOp; 4] = [IntOp::Add, IntOp::Subtract, IntOp::SubtractFrom, IntOp::Multiply];

fn of(op: IntOp, value: i64, other: i64) -> i64 {
    match op {
        IntOp::Add => value.wrapping_add(other),
        IntOp::Subtract => value.wrapping_sub(other),
        IntOp::SubtractFrom => other.wrapping_sub(value),
        IntOp::Multiply => value.wrapping_mul(other),
    }
}

fn check(rows: usize, random: &mut Random) {
    let (values, others) = (numbers::<i64>(rows, random), numbers::<i64>(rows, random));
    let one = random.next().cast_signed() >> random.below(64);
    for_tables(|table| {
        for op in OPS {
            let mut found = values.clone();
            table.ints_combine(op, &mut found, &others);
            let expected: Vec<i64> = values.iter().zip(&others).map(|(a, b)| of(op, *a, *b)).collect();
            assert_eq!(found, expected, "{}, {op:?}", table.isa());
            let mut found = values.clone();
            table.ints_combine_one(op, &mut found, one);
            let expected: Vec<i64> = values.iter().map(|value| of(op, *value, one)).collect();
            assert_eq!(found, expected, "{}, {op:?} {one}", table.isa());
        }
    });
}

#[test]
fn arithmetic_wraps_row_by_row() {
    let mut random = Random::new(1);
    lengths().for_each(|rows| check(rows, &mut random));
    property(2000, check);
}
