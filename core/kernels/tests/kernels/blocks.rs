//! Runs and positions of mask words.

use basalt_kernels::{
    Kernels,
    mask::{self, BLOCK_WORDS},
};

use crate::rows::{Random, for_tables, lengths_and, masks, property, selects, step};

/// Everything that is asked of a mask of `rows` rows.
fn check(table: &Kernels, rows: usize, mask: &[u64], random: &mut Random) {
    let isa = table.isa();
    let expected: Vec<usize> = (0..rows).filter(|&row| selects(mask, row)).collect();
    let runs = expected.iter().filter(|&&row| row == 0 || !selects(mask, row - 1)).count();
    assert_eq!(table.mask_count_runs(mask), (expected.len() as u64, runs as u64), "{isa} {rows}");

    // Room for exactly so many, and for more.
    for room in [0, 1, 64, 70] {
        let base = random.next();
        let mut ids = vec![7; expected.len() + room];
        assert_eq!(table.mask_positions64(mask, base, &mut ids), expected.len(), "{isa} {rows}");
        assert!(
            ids.iter().zip(&expected).all(|(&id, &row)| id == base.wrapping_add(row as u64)),
            "{isa} {rows} {room}"
        );
        if mask.len() <= BLOCK_WORDS {
            let mut positions = vec![7; expected.len() + room];
            assert_eq!(table.mask_positions(mask, &mut positions), expected.len(), "{isa} {rows}");
            assert!(
                positions.iter().zip(&expected).all(|(&position, &row)| usize::from(position) == row),
                "{isa} {rows} {room}"
            );
        }
    }
}

#[test]
fn masks_of_all_shapes_match_row_by_row() {
    for rows in lengths_and([64 * 129, 65535, 65536, 65537, 64 * 2050]) {
        let mut random = Random::new(rows as u64);
        for mask in masks(rows, &mut random) {
            for_tables(|table| check(table, rows, &mask, &mut random));
        }
    }
}

#[test]
fn random_masks_match_row_by_row() {
    property(1500, |rows, random| {
        for mask in masks(rows, random) {
            for_tables(|table| check(table, rows, &mask, random));
        }
    });
}

/// Each number of bits in each word of a group.
#[test]
fn words_of_every_count_match_row_by_row() {
    let mut random = Random::new(3);
    for count in (0..=64).step_by(step(16)) {
        for word in (0..17).step_by(step(8)) {
            let mut mask = [0, 1 << 63, 0, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            mask[word] = if count == 0 { 0 } else { (u64::MAX >> (64 - count)).rotate_left(word as u32 * 5) };
            for_tables(|table| check(table, 64 * mask.len(), &mask, &mut random));
        }
    }
}

#[test]
fn positions_are_set_in_any_order() {
    property(3000, |count, random| {
        let mut positions: Vec<u16> = (0..count).map(|_| random.next() as u16).collect();
        let mut block = [0; BLOCK_WORDS];
        block[random.below(BLOCK_WORDS as u64) as usize] = random.next();
        for sorted in [false, true] {
            if sorted {
                positions.sort_unstable();
            }
            let mut expected = block;
            for &position in &positions {
                expected[usize::from(position / 64)] |= 1 << (position % 64);
            }
            let bytes: Vec<[u8; 2]> = positions.iter().map(|position| position.to_le_bytes()).collect();
            for_tables(|table| {
                let mut found = block;
                table.mask_set_positions(&bytes, &mut found);
                assert_eq!(found, expected, "{}", table.isa());
            });
        }
    });
}

/// A mask of which `ids` bits are set, some in every word.
fn full(ids: usize) -> Vec<u64> {
    (0..16).map(|i| u64::MAX >> (64 - (ids + i) / 16)).collect()
}

#[test]
fn no_room_is_the_callers_bug_for_every_table() {
    for ids in [16, 40, 64, 100, 800].into_iter().step_by(step(4)) {
        let mask = full(ids);
        for_tables(|table| {
            for room in [0, ids / 2, ids - 1] {
                let narrow = std::panic::catch_unwind(|| table.mask_positions(&mask, &mut vec![0; room]));
                let wide = std::panic::catch_unwind(|| table.mask_positions64(&mask, 0, &mut vec![0; room]));
                assert!(narrow.is_err() && wide.is_err(), "{} {ids} {room}", table.isa());
            }
        });
    }
}

#[test]
#[should_panic(expected = "1025 words have positions above 65,535")]
fn more_than_a_block_is_the_callers_bug() {
    mask::positions(&[0; BLOCK_WORDS + 1], &mut []);
}

#[test]
fn words_are_little_endian_bytes() {
    let words = [0x0807_0605_0403_0201, u64::MAX - 1];
    assert_eq!(mask::as_bytes(&words), words.map(u64::to_le_bytes).as_flattened());
    assert_eq!(mask::as_bytes(&[]), []);
}
