//! Operations on mask words.

use basalt_kernels::mask;

use crate::rows::{Random, for_tables, lengths, lengths_and, masks, selects, words};

#[test]
fn count_ones_counts_masks_of_all_lengths() {
    for rows in lengths_and([64 * 127, 64 * 128, 64 * 129, 64 * 1000]) {
        for mask in masks(rows, &mut Random::new(rows as u64)) {
            let expected = (0..rows).filter(|&row| selects(&mask, row)).count() as u64;
            for_tables(|table| assert_eq!(table.mask_count_ones(&mask), expected, "{}", table.isa()));
        }
    }
}

#[test]
fn sets_combine_row_by_row() {
    for rows in lengths() {
        let masks = masks(rows, &mut Random::new(rows as u64));
        let rows_where = |f: &dyn Fn(usize) -> bool| words(&(0..rows).map(f).collect::<Vec<_>>());
        for left in &masks {
            for right in &masks {
                let of = |row| (selects(left, row), selects(right, row));
                for_tables(|table| {
                    let apply = |f: &dyn Fn(&mut [u64])| {
                        let mut out = left.clone();
                        f(&mut out);
                        out
                    };
                    let found = apply(&|out| table.mask_and(out, right));
                    assert_eq!(found, rows_where(&|row| of(row) == (true, true)));
                    let found = apply(&|out| table.mask_or(out, right));
                    assert_eq!(found, rows_where(&|row| of(row) != (false, false)));
                    let found = apply(&|out| table.mask_and_not(out, right));
                    assert_eq!(found, rows_where(&|row| of(row) == (true, false)));
                    let found = apply(&|out| table.mask_not(out, rows));
                    assert_eq!(found, rows_where(&|row| !selects(left, row)));
                });
            }
        }
    }
}

#[test]
fn fill_selects_every_row_and_no_more() {
    for rows in lengths() {
        let mut out = vec![0; rows.div_ceil(64)];
        mask::fill(rows, &mut out);
        assert_eq!(out, words(&vec![true; rows]));
    }
}

#[test]
fn for_each_walks_in_order() {
    for rows in lengths() {
        for mask in masks(rows, &mut Random::new(5)) {
            let mut found = Vec::new();
            mask::for_each(&mask, |row| found.push(row));
            assert!(found.iter().copied().eq((0..rows).filter(|&row| selects(&mask, row))));
        }
    }
}

#[test]
#[should_panic(expected = "masks of different lengths")]
fn masks_of_different_lengths_are_the_callers_bug() {
    mask::and(&mut [0; 2], &[0; 3]);
}
