//! Integers that stand for floats.

use basalt_kernels::decimals::{self, Form, Scale};

use crate::rows::{for_tables, property};

/// What an integer is replaced by.
fn naive(scale: Scale, form: Form, integer: i64) -> i64 {
    let float = (integer as f64 * scale.up) * scale.down;
    let magnitude_flipped = |bits: i64, all_but_sign: i64| if bits < 0 { bits ^ all_but_sign } else { bits };
    match form {
        Form::Double => float.to_bits() as i64,
        Form::Single => f64::from(float as f32).to_bits() as i64,
        Form::DoubleKey => magnitude_flipped(float.to_bits() as i64, i64::MAX),
        Form::SingleKey => magnitude_flipped((float as f32).to_bits() as i32 as i64, i32::MAX.into()),
    }
}

#[test]
fn integers_become_floats() {
    property(1100, |rows, random| {
        let spread = 1 + random.below(51);
        let integers: Vec<i64> = (0..rows).map(|_| random.next() as i64 >> (64 - spread)).collect();
        let (up, down) = (random.below(19) as i32, random.below(19) as i32);
        let scale = Scale { up: 10_f64.powi(up), down: 10_f64.powi(-down) };
        for form in [Form::Double, Form::Single, Form::DoubleKey, Form::SingleKey] {
            let expected: Vec<i64> = integers.iter().map(|&d| naive(scale, form, d)).collect();
            for_tables(|table| {
                let mut found = integers.clone();
                table.decimals_convert(scale, form, &mut found);
                assert_eq!(found, expected, "{} {form:?} {scale:?}", table.isa());
            });
        }
    });
}

#[test]
fn floats_are_written_in_place() {
    let mut floats = [0.0; 3];
    decimals::as_bits(&mut floats).copy_from_slice(&[-125, 0, 7]);
    decimals::convert(Scale { up: 1.0, down: 0.01 }, Form::Double, decimals::as_bits(&mut floats));
    assert_eq!(floats, [-1.25, 0.0, 0.07]);
}
