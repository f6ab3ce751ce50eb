//! Bytes that are in a set.

use crate::rows::{for_tables, property};

#[test]
fn bytes_of_a_set_are_found() {
    property(300, |n, random| {
        let bytes: Vec<u8> = (0..n).map(|_| random.below(256) as u8).collect();
        // Of few bytes, of most, and of any.
        let mut set: [u64; 4] = std::array::from_fn(|_| random.below(u64::MAX));
        match random.below(4) {
            0 => set = set.map(|word| word & word >> 3 & word >> 7 & word << 11),
            1 => set = set.map(|word| word | word >> 3 | word >> 7),
            2 => set = [0, 0, 0, 1 << 63],
            _ => {}
        }
        let mut expected = vec![0; n.div_ceil(64)];
        for (i, byte) in bytes.iter().enumerate() {
            let is_member = set[usize::from(byte / 64)] >> (byte % 64) & 1;
            expected[i / 64] |= is_member << (i % 64);
        }
        for_tables(|table| {
            let mut out = vec![u64::MAX; n.div_ceil(64)];
            table.bytes_in_set(&bytes, &set, &mut out);
            assert_eq!(out, expected, "{} {n} {set:?}", table.isa());
        });
    });
}
