//! Columns of keys against the keys they were made of.

use basalt_kernels::{
    FloatSum,
    decimals::{Decimals, Scale},
    packed::Patch,
};

use super::*;

const ROWS: [usize; 11] = [1, 2, 63, 64, 65, 511, 512, 513, 65_535, 65_537, 140_000];

fn for_each_column(rows: &[usize], mut check: impl FnMut(&[i64], &dyn KeyColumn)) {
    let mut columns = 0;
    for &rows in rows {
        for native in NATIVES {
            // Large columns of every type would take long; what differs between types is seen in small ones.
            if rows > 1000 && !matches!(native, Native::Bool | Native::I64) {
                continue;
            }
            for (_, shape) in SHAPES {
                let keys = shape(native, rows);
                for encoding in KEY_ENCODINGS {
                    if let Some(column) = encode(*encoding, &keys, native) {
                        columns += 1;
                        check(&keys, &*column);
                    }
                }
            }
        }
    }
    assert!(columns > 100);
}

#[test]
fn columns_give_back_their_keys() {
    for_each_column(&ROWS, |keys, column| {
        assert_eq!(column.rows(), keys.len());
        for (start, rows) in ranges(keys.len()) {
            let mut out = vec![-77; rows];
            column.decode(start, &mut out);
            assert_eq!(out, keys[start..start + rows], "{} from {start}", column.name());
        }
        for start in (0..keys.len()).step_by(crate::limits::BLOCK_ROWS) {
            let rows = (keys.len() - start).min(crate::limits::BLOCK_ROWS);
            for step in [1, 3, 170, 5000] {
                let all = (0..=u16::MAX).take(rows);
                let places: Vec<u16> = all.filter(|place| (usize::from(*place) + 1) % step == 0).collect();
                let mut out = vec![-77; places.len()];
                column.gather(start, &places, &mut out);
                let expected = places.iter().map(|place| keys[start + usize::from(*place)]);
                assert!(out.iter().copied().eq(expected), "{} from {start} by {step}", column.name());
            }
        }
        let mut unit = vec![0; UNIT_ROWS];
        for start in (0..keys.len()).step_by(UNIT_ROWS * (1 + keys.len() / 66_000)) {
            let unit = &mut unit[..(keys.len() - start).min(UNIT_ROWS)];
            column.decode(start, unit);
            assert_eq!(unit, &keys[start..start + unit.len()], "{} from {start}", column.name());
        }
        for row in (0..keys.len()).step_by(1 + keys.len() / 97).chain([keys.len() - 1]) {
            assert_eq!(column.get(row), keys[row], "{} at {row}", column.name());
        }
        if column.key_type().infinity().is_some() {
            let mut floats = vec![0.0; keys.len()];
            column.decode_floats(0, &mut floats);
            let single = column.key_type() == Native::F32;
            let float = |k| if single { key::to_f32(k).into() } else { key::to_f64(k) };
            // NaN is one key, whatever its bits.
            let same = |(&k, &found): (&i64, &f64)| key::of_f64(float(k)) == key::of_f64(found);
            assert!(keys.iter().zip(&floats).all(same), "{}", column.name());
        }
        let again = open_keys(column.buffer().clone()).unwrap();
        assert_eq!(again.name(), column.name());
        if let Some(Codes { codes, entries }) = column.codes() {
            let place = usize::try_from(codes.get(keys.len() - 1)).unwrap();
            assert_eq!(entries[place], keys[keys.len() - 1]);
        }
    });
}

#[test]
fn filters_equal_decoding_and_comparing() {
    for_each_column(&[1, 65, 513, 66_100], |keys, column| {
        let (min, max) = (*keys.iter().min().unwrap(), *keys.iter().max().unwrap());
        let middle = keys[keys.len() / 2];
        let bounds =
            [(min, max), (min, min), (max, max), (middle, middle), (middle, max), (min, middle), (max, min)];
        let mut tests: Vec<KeyTest> = bounds.iter().map(|&(lo, hi)| KeyTest::Range { lo, hi }).collect();
        for (lo, hi) in [(i64::MIN, i64::MAX), (i64::MIN, middle), (0, i64::MAX), (i64::MIN, -1), (-1, 0)] {
            tests.push(KeyTest::Range { lo, hi });
        }
        tests.push(KeyTest::Range { lo: min.saturating_add(1), hi: max.saturating_sub(1) });
        let mut list: Vec<i64> = keys.iter().step_by(1 + keys.len() / 40).copied().collect();
        list.extend([i64::MIN, middle.saturating_add(1), i64::MAX]);
        tests.extend([set_of(list), set_of([]), set_of([middle])]);
        tests.push(set_of([min - i64::from(min > 0), min]));
        tests.push(set_of((0..9).map(|i| near(Native::I8, i))));
        for test in &tests {
            for (start, rows) in ranges(keys.len()) {
                let mut out = vec![u64::MAX; rows.div_ceil(64)];
                column.filter(start, rows, test, &mut out);
                let expected = mask_of(rows, |row| test.passes(keys[start + row]));
                assert!(out == expected, "{} from {start} by {test:?}", column.name());
            }
        }
    });
}

#[test]
fn sums_and_extremes_equal_naive_ones() {
    for_each_column(&[1, 64, 513, 66_100], |keys, column| {
        let mut random = Random::new(9);
        for (start, rows) in ranges(keys.len()) {
            let some = mask_of(rows, |_| random.below(3) == 0);
            let few = mask_of(rows, |row| row % 301 == 7);
            let all = mask_of(rows, |_| true);
            let none = mask_of(rows, |_| false);
            for mask in [None, Some(&some), Some(&few), Some(&all), Some(&none)] {
                let selected = |row: &usize| mask.is_none_or(|mask| mask[row / 64] >> (row % 64) & 1 == 1);
                let chosen: Vec<i64> = (0..rows).filter(selected).map(|row| keys[start + row]).collect();
                let sum: i128 = chosen.iter().map(|&key| i128::from(key)).sum();
                let mask = mask.map(Vec::as_slice);
                assert_eq!(column.sum(start, rows, mask), sum, "{} from {start}", column.name());
                let extremes = chosen.iter().min().copied().zip(chosen.iter().max().copied());
                assert_eq!(column.min_max(start, rows, mask), extremes, "{} from {start}", column.name());
            }
        }
    });
}

/// Columns of floats, in every shape and encoding.
fn for_each_float_column(rows: &[usize], mut check: impl FnMut(&dyn KeyColumn)) {
    for &rows in rows {
        for native in [Native::F32, Native::F64] {
            for (_, shape) in SHAPES {
                let keys = shape(native, rows);
                KEY_ENCODINGS
                    .iter()
                    .filter_map(|encoding| encode(*encoding, &keys, native))
                    .for_each(|c| check(&*c));
            }
        }
    }
}

#[test]
fn sums_of_floats_have_the_bits_of_decoded_ones() {
    for_each_float_column(&[1, 64, 513, 66_100], |column| {
        let mut random = Random::new(13);
        let mut floats = vec![0.0; column.rows()];
        column.decode_floats(0, &mut floats);
        for (start, rows) in ranges(column.rows()) {
            let floats = &floats[start..start + rows];
            for part in [1, 2, 10, 100, 1000, u64::MAX] {
                let mask = mask_of(rows, |_| random.below(part) == 0);
                let (mut expected, mut found) = (FloatSum::default(), FloatSum::default());
                basalt_kernels::sum_floats_masked(floats, &mask, &mut expected);
                column.sum_floats(start, rows, Some(&mask), &mut found);
                let (expected, found) = (expected.finish().to_bits(), found.finish().to_bits());
                assert_eq!(found, expected, "{} from {start}: 1/{part} of {rows}", column.name());
            }
            let (mut expected, mut found) = (FloatSum::default(), FloatSum::default());
            basalt_kernels::sum_floats(floats, &mut expected);
            column.sum_floats(start, rows, None, &mut found);
            assert_eq!(
                found.finish().to_bits(),
                expected.finish().to_bits(),
                "{} from {start}",
                column.name()
            );
        }
    });
}

#[test]
fn floats_of_few_rows_are_those_of_all() {
    for_each_float_column(&[1, 65, 513, 66_100], |column| {
        let mut floats = vec![0.0; column.rows()];
        column.decode_floats(0, &mut floats);
        for start in (0..column.rows()).step_by(crate::limits::BLOCK_ROWS) {
            let rows = (column.rows() - start).min(crate::limits::BLOCK_ROWS);
            for step in [1, 3, 170, 5000] {
                let all = (0..=u16::MAX).take(rows);
                let places: Vec<u16> = all.filter(|place| (usize::from(*place) + 1) % step == 0).collect();
                let mut out = vec![-77.0; places.len()];
                column.gather_floats(start, &places, &mut out);
                let expected = places.iter().map(|place| key::of_f64(floats[start + usize::from(*place)]));
                let found = out.iter().map(|float| key::of_f64(*float));
                assert!(found.eq(expected), "{} from {start} by {step}", column.name());
            }
        }
    });
}

#[test]
fn integers_are_summed_as_the_decimals_that_they_stand_for() {
    let scale = Scale { up: 10.0, down: 1e-3 };
    for_each_column(&[65, 513, 66_100], |keys, column| {
        let mut random = Random::new(14);
        for single in [false, true] {
            let decimals = Decimals { base: 0, scale, single };
            for (start, rows) in ranges(keys.len()) {
                let part = [1, 2, 30, 1000][random.index(4)];
                let mask = mask_of(rows, |_| random.below(part) == 0);
                let mut floats: Vec<f64> =
                    keys[start..start + rows].iter().map(|key| decimals.float(key.cast_unsigned())).collect();
                let patched = (0..rows).filter(|_| random.below(50) == 0);
                let patches: Vec<Patch> = patched.map(|row| Patch { row, float: row as f64 / 7.0 }).collect();
                patches.iter().for_each(|patch| floats[patch.row] = patch.float);
                for mask in [None, Some(mask.as_slice())] {
                    let (mut expected, mut found) = (FloatSum::default(), FloatSum::default());
                    match mask {
                        Some(mask) => basalt_kernels::sum_floats_masked(&floats, mask, &mut expected),
                        None => basalt_kernels::sum_floats(&floats, &mut expected),
                    }
                    column.sum_decimals(start, rows, mask, decimals, &patches, &mut found);
                    let (expected, found) = (expected.finish().to_bits(), found.finish().to_bits());
                    assert_eq!(found, expected, "{} from {start}: {rows}", column.name());
                }
            }
        }
    });
}

/// What was made here is opened without validation: it is read as what was validated.
#[test]
fn columns_that_were_made_are_those_that_are_opened() {
    for_each_column(&[1, 513, 65_537], |keys, column| {
        let made = ENCODINGS.of_made();
        let made = open::open_below(&made, column.buffer().clone(), u8::MAX).unwrap();
        assert_eq!(made.name(), column.name());
        let mut out = vec![-77; keys.len()];
        made.decode(0, &mut out);
        assert_eq!(out, keys, "{}", column.name());
        let rows = keys.len().min(crate::limits::BLOCK_ROWS);
        let masks = [&*made, column].map(|column| {
            let mut mask = vec![0; rows.div_ceil(64)];
            column.filter(0, rows, &KeyTest::Range { lo: keys[0], hi: keys[0] }, &mut mask);
            (mask, column.sum(0, rows, None), column.min_max(0, rows, None))
        });
        assert_eq!(masks[0], masks[1], "{}", column.name());
    });
}

/// And that is all that is left out: spoilt bytes that are refused otherwise are opened as if they had been made.
#[test]
fn what_is_made_is_not_validated() {
    let texts: Vec<String> = (0..2000).map(|i| format!("{:x}", i * 7919 % 4093)).collect();
    let texts = arrow_array::StringArray::from_iter_values(&texts);
    let column = encode_texts(&texts, Some("fsst")).unwrap().column;
    let mut bytes = column.buffer().to_vec();
    // The last code is an escape, and no byte follows.
    *bytes.last_mut().unwrap() = 255;
    let buffer = bytes::aligned(Buffer::from(bytes));
    assert!(open_text(buffer.clone()).is_err());
    assert!(open::open_text(&ENCODINGS.of_made(), buffer).is_ok());
}
