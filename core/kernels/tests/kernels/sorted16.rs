//! Intersections of increasing arrays of 16-bit numbers.

use std::collections::BTreeSet;

use basalt_kernels::{Kernels, sorted16};

use crate::rows::{Random, for_tables, property, step};

fn bytes(numbers: &BTreeSet<u16>) -> Vec<[u8; 2]> {
    numbers.iter().map(|number| number.to_le_bytes()).collect()
}

/// What a table finds, with just as much room as is asked for.
fn intersect(table: &Kernels, left: &[[u8; 2]], right: &[[u8; 2]]) -> Vec<u16> {
    let mut out = vec![7; left.len().min(right.len())];
    let count = table.sorted16_intersect(left, right, &mut out);
    out.truncate(count);
    out
}

fn check(left: &BTreeSet<u16>, right: &BTreeSet<u16>) {
    let expected: Vec<u16> = left.intersection(right).copied().collect();
    let (left, right) = (bytes(left), bytes(right));
    for_tables(|table| {
        let isa = table.isa();
        assert_eq!(intersect(table, &left, &right), expected, "{isa} {} {}", left.len(), right.len());
        assert_eq!(intersect(table, &right, &left), expected, "{isa} {} {}", right.len(), left.len());
        // More room changes nothing.
        let mut out = vec![7; left.len() + right.len() + 64];
        let count = table.sorted16_intersect(&left, &right, &mut out);
        assert_eq!(out[..count], expected, "{isa}");
    });
}

/// Up to `most` numbers in `span` numbers, of which the first is anywhere.
fn numbers(most: usize, span: u64, random: &mut Random) -> BTreeSet<u16> {
    let first = random.below(65536 - span + 1);
    (0..most).map(|_| (first + random.below(span)) as u16).collect()
}

#[test]
fn random_arrays_intersect_as_sets() {
    property(4096, |most, random| {
        // Of like lengths and of unlike ones; dense, and far apart.
        for other in [most, most / 3, most / 20, most / 40, most / 200, most.min(5)] {
            let span = 1 << (4 + random.below(13));
            let left = numbers(most, span, random);
            let span = if random.below(2) == 0 { span } else { 65536 };
            let right = numbers(other, span, random);
            check(&left, &right);
        }
    });
}

/// Arrays that end at, before and behind each place of a register.
#[test]
fn short_arrays_of_all_lengths_intersect_as_sets() {
    for left in (0..70).step_by(step(23)) {
        for right in [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 64, 66] {
            for step in [1, 2, 3] {
                let left: BTreeSet<u16> = (0..left).map(|i| 65535 - 2 * i).collect();
                let right: BTreeSet<u16> = (0..right).map(|i| 65535 - step * i).collect();
                check(&left, &right);
                let [left, right] = [left, right].map(|set| set.iter().map(|i| 65535 - i).collect());
                check(&left, &right);
            }
        }
    }
}

#[test]
fn arrays_that_do_not_increase_are_no_danger() {
    property(300, |most, random| {
        let span = 1 << random.below(9);
        let mut array = |most: usize| -> Vec<[u8; 2]> {
            (0..random.below(most as u64 + 1)).map(|_| (random.below(span) as u16).to_le_bytes()).collect()
        };
        let (left, right) = (array(most), array(most / 10 + 1));
        for_tables(|table| {
            intersect(table, &left, &right);
            intersect(table, &right, &left);
            intersect(table, &left, &left);
        });
    });
}

#[test]
#[should_panic(expected = "room for 2 numbers, not 1")]
fn too_little_room_is_the_callers_bug() {
    sorted16::intersect(&[[0; 2]; 3], &[[0; 2]; 2], &mut [0]);
}
