//! Bit-packed codes of every width.

use basalt_kernels::{
    FloatSum, Kernels,
    decimals::{Decimals, Scale},
    packed::{self, Patch},
};

use crate::{
    naive,
    rows::{Random, for_tables, lengths, masks, property, step, words},
};

/// Codes of which some are the least, some the greatest and some anything.
fn codes(width: u32, rows: usize, random: &mut Random) -> Vec<u64> {
    let greatest = u64::MAX >> (64 - width);
    let code = |random: &mut Random| match random.below(8) {
        0 => 0,
        1 => greatest,
        _ => random.next() & greatest,
    };
    (0..rows).map(|_| code(random)).collect()
}

fn pack(width: u32, codes: &[u64]) -> Vec<u64> {
    let mut words = vec![u64::MAX; packed::words(width, codes.len())];
    packed::pack(width, codes, &mut words);
    words
}

/// The bounds of ranges to filter by: inside, at the ends, outside, empty.
fn ranges(width: u32, codes: &[u64], random: &mut Random) -> Vec<(u64, u64)> {
    let greatest = u64::MAX >> (64 - width);
    let (a, b) = (random.next() & greatest, random.next() & greatest);
    let some = codes.first().copied().unwrap_or(0);
    let mut ranges = vec![(a.min(b), a.max(b)), (some, some), (0, 0), (greatest, greatest)];
    ranges.extend([(0, u64::MAX), (greatest / 2, greatest), (1, 0), (greatest, greatest - 1)]);
    ranges.extend(greatest.checked_add(1).map(|above| (above, u64::MAX)));
    ranges
}

/// Everything that is asked of rows `start..` of a column.
fn check(table: &Kernels, width: u32, words_: &[u64], start: usize, codes: &[u64], random: &mut Random) {
    let (isa, rows) = (table.isa(), codes.len());
    let base = random.next() as i64;
    let mut out = vec![0; rows];
    table.packed_unpack(width, words_, start, base, &mut out);
    assert!(
        out.iter().zip(codes).all(|(&o, &code)| o == base.wrapping_add(code as i64)),
        "{isa} {width} {rows}"
    );

    let mut out = vec![u64::MAX; rows.div_ceil(64)];
    for (lo, hi) in ranges(width, codes, random) {
        table.packed_between(width, words_, start, rows, lo, hi, &mut out);
        let expected: Vec<_> = codes.iter().map(|code| (lo..=hi).contains(code)).collect();
        assert_eq!(out, words(&expected), "{isa} {width} {rows}");
    }

    if width <= 20 {
        for share in [2, 50] {
            let set: Vec<u64> = (0..(1_usize << width).div_ceil(64))
                .map(|_| (0..64).fold(0, |word, bit| word | u64::from(random.below(share) == 0) << bit))
                .collect();
            table.packed_in_set(width, words_, start, rows, &set, &mut out);
            let is_in = |code: &u64| set[*code as usize / 64] >> (code % 64) & 1 == 1;
            assert_eq!(out, words(&codes.iter().map(is_in).collect::<Vec<_>>()), "{isa} {width} {rows}");
        }
    }

    let places: Vec<u16> = (0..rows as u16).filter(|_| random.below(3) == 0).collect();
    let mut out = vec![0; places.len()];
    table.packed_gather(width, words_, start, &places, base, &mut out);
    for (key, place) in out.iter().zip(&places) {
        assert_eq!(
            *key,
            base.wrapping_add(codes[usize::from(*place)] as i64),
            "{isa} {width} {rows} {place}"
        );
    }

    let decimals = Decimals { base, scale: Scale { up: 10.0, down: 1e-3 }, single: random.below(2) == 0 };
    let mut floats: Vec<f64> = codes.iter().map(|code| decimals.float(*code)).collect();
    let patched = (0..rows).filter(|_| random.below(40) == 0);
    let patches: Vec<Patch> = patched.map(|row| Patch { row, float: row as f64 / 7.0 }).collect();
    patches.iter().for_each(|patch| floats[patch.row] = patch.float);
    for mask in masks(rows, random).iter().map(Some).chain([None]) {
        let mut expected = FloatSum::default();
        match mask {
            Some(mask) => table.sum_floats_masked(&floats, mask, &mut expected),
            None => table.sum_floats(&floats, &mut expected),
        }
        let mut found = FloatSum::default();
        let mask = mask.map(Vec::as_slice);
        table.packed_sum_decimals(width, words_, start, rows, decimals, mask, &patches, &mut found);
        let (found, expected) = (found.finish().to_bits(), expected.finish().to_bits());
        assert_eq!(found, expected, "{isa} {width} {rows}");
    }

    let sum = |codes: &mut dyn Iterator<Item = u64>| codes.map(u128::from).sum::<u128>();
    assert_eq!(
        table.packed_sum(width, words_, start, rows),
        sum(&mut codes.iter().copied()),
        "{isa} {width}"
    );
    let min_max = table.packed_min_max(width, words_, start, rows);
    assert_eq!(min_max, naive::min_max(codes.iter().copied()), "{isa} {width} {rows}");
    for mask in masks(rows, random) {
        let found = table.packed_sum_masked(width, words_, start, rows, &mask);
        assert_eq!(found, sum(&mut naive::selected(codes, &mask)), "{isa} {width} {rows}");
        let found = table.packed_min_max_masked(width, words_, start, rows, &mask);
        assert_eq!(found, naive::min_max(naive::selected(codes, &mask)), "{isa} {width} {rows}");
    }
}

#[test]
fn every_width_and_length_matches_row_by_row() {
    for width in (1..=64).step_by(step(21)) {
        for rows in lengths().step_by(step(2)).filter(|&rows| rows <= 1024) {
            let mut random = Random::new(u64::from(width) << 32 | rows as u64);
            let codes = codes(width, rows, &mut random);
            let words = pack(width, &codes);
            for_tables(|table| check(table, width, &words, 0, &codes, &mut random));
            for (row, &code) in codes.iter().enumerate() {
                assert_eq!(packed::get(width, &words, row), code, "{width} {rows} {row}");
            }
        }
    }
}

#[test]
fn parts_of_a_column_match_row_by_row() {
    property(2100, |rows, random| {
        let width = 1 + random.below(64) as u32;
        let codes = codes(width, rows, random);
        // One word behind an aligned one: the words need no alignment.
        let words = [vec![0], pack(width, &codes)].concat();
        let start = (random.below(rows as u64 / 512 + 1) * 512) as usize;
        let end = start + random.below((rows - start) as u64 + 1) as usize;
        for_tables(|table| check(table, width, &words[1..], start, &codes[start..end], random));
    });
}

/// The layout is a format: one code per lane and place, found by its definition.
#[test]
fn the_layout_is_as_documented() {
    for width in (1..=64_usize).step_by(step(21)) {
        let lane_bits = width.next_power_of_two().max(8);
        let lanes = 512 / lane_bits;
        for row in [0, 1, 63, 64, 200, 511, 512, 700] {
            let mut codes = vec![0; 1000];
            codes[row] = u64::MAX >> (64 - width);
            let mut expected = vec![0; packed::words(width as u32, codes.len())];
            for bit in 0..width {
                let (unit, row) = (row / 512, row % 512);
                let bit = row / lanes * width + bit;
                let vector = unit * width + bit / lane_bits;
                let bit = vector * 512 + row % lanes * lane_bits + bit % lane_bits;
                expected[bit / 64] |= 1 << (bit % 64);
            }
            assert_eq!(pack(width as u32, &codes), expected, "{width} {row}");
        }
    }
}

#[test]
fn bits_above_the_width_are_dropped() {
    for width in (1..=64).step_by(step(21)) {
        let words = pack(width, &[u64::MAX; 100]);
        let greatest = u64::MAX >> (64 - width);
        assert!((0..100).all(|row| packed::get(width, &words, row) == greatest));
        assert_eq!(packed::sum(width, &words, 0, 100), 100 * u128::from(greatest));
    }
}

#[test]
fn a_column_ends_with_a_vector_of_zeros() {
    for width in (1..=64).step_by(step(21)) {
        for rows in lengths() {
            let words = pack(width, &vec![u64::MAX; rows]);
            assert_eq!(words[words.len() - 8..], [0; 8], "{width} {rows}");
        }
    }
}

#[test]
#[should_panic(expected = "a code has 1 to 64 bits, not 0")]
fn no_width_is_the_callers_bug() {
    packed::words(0, 1);
}

#[test]
#[should_panic(expected = "inside a unit")]
fn a_start_inside_a_unit_is_the_callers_bug() {
    packed::sum(1, &[0; 24], 64, 1);
}

/// Codes are packed alike by every instruction set, from words, bytes and keys, and each is where it is looked for; the
/// bits that are above the width are dropped.
#[test]
fn packing_puts_codes_where_they_are_read() {
    property(1500, |rows, random| {
        let width = 1 + random.below(64) as u32;
        let above: Vec<u64> = (0..rows).map(|_| random.next() >> random.below(64)).collect();
        let bytes: Vec<u8> = above.iter().map(|code| *code as u8).collect();
        let base = random.next() as i64;
        let keys: Vec<i64> = above.iter().map(|code| base.wrapping_add(*code as i64)).collect();
        let greatest = u64::MAX >> (64 - width);
        for_tables(|table| {
            let mut out = vec![u64::MAX; packed::words(width, rows)];
            let check = |out: &[u64], code: &dyn Fn(usize) -> u64| {
                for row in 0..rows {
                    assert_eq!(
                        packed::get(width, out, row),
                        code(row) & greatest,
                        "{} {width} {row}",
                        table.isa()
                    );
                }
                assert!(out[out.len() - 8..].iter().all(|word| *word == 0), "{} {width}", table.isa());
            };
            table.packed_pack(width, &above, &mut out);
            check(&out, &|row| above[row]);
            let words = out.clone();
            out.fill(u64::MAX);
            table.packed_pack_keys(width, base, &keys, &mut out);
            assert_eq!(out, words, "{} {width} {rows}", table.isa());
            out.fill(u64::MAX);
            table.packed_pack_bytes(width, &bytes, &mut out);
            check(&out, &|row| u64::from(bytes[row]));
        });
    });
}
