//! Numbers in streams of bits, and prefix sums.

use basalt_kernels::bits;

use crate::rows::{Random, for_tables, property, step};

/// The number of `width` bits from bit `start` on.
fn number(bytes: &[u8], start: usize, width: usize) -> u64 {
    (0..width).fold(0, |number, i| number | u64::from(bit(bytes, start + i)) << i)
}

fn bit(bytes: &[u8], i: usize) -> bool {
    bytes[i / 8] >> (i % 8) & 1 == 1
}

fn greatest(width: usize) -> u64 {
    (1 << width) - 1
}

#[test]
fn numbers_of_every_width_and_count_pack_and_unpack() {
    let mut random = Random::new(9);
    for width in (0..=63).step_by(step(21)) {
        for count in (0..=20_usize).chain([63, 64, 65, 127, 128, 129, 300]) {
            // Bits above the width are dropped.
            let values: Vec<u64> = (0..count).map(|_| random.next() >> random.below(64)).collect();
            let length = (count * width).div_ceil(8);
            for_tables(|table| {
                let mut bytes = vec![0xff; length];
                table.bits_pack(&values, width as u32, &mut bytes);
                for (i, value) in values.iter().enumerate() {
                    assert_eq!(
                        number(&bytes, i * width, width),
                        value & greatest(width),
                        "{width} {count} {i}"
                    );
                }
                assert!((count * width..8 * length).all(|i| !bit(&bytes, i)), "{width} {count}");

                for behind in [0, 1, 7, 8, 9, 64, 200] {
                    bytes.truncate(length);
                    bytes.extend((0..behind).map(|_| 0xff));
                    let mut found = vec![7; count];
                    table.bits_unpack(&bytes, width as u32, &mut found);
                    assert!(
                        found.iter().zip(&values).all(|(&found, value)| found == value & greatest(width)),
                        "{} {width} {count} {behind}",
                        table.isa()
                    );
                }
            });
        }
    }
}

/// Unary numbers, bit by bit.
fn unary(bytes: &[u8], count: usize) -> Option<(Vec<u64>, usize)> {
    let (mut numbers, mut i) = (Vec::new(), 0);
    while numbers.len() < count {
        let mut number = 0;
        while i < 8 * bytes.len() && !bit(bytes, i) {
            number += 1;
            i += 1;
        }
        i += 1;
        if i > 8 * bytes.len() || number > bits::UNARY_MAX {
            return None;
        }
        numbers.push(number);
    }
    Some((numbers, i))
}

/// Every table reads the same as the loop above.
fn check_unary(bytes: &[u8], count: usize) {
    let expected = unary(bytes, count);
    for_tables(|table| {
        let mut numbers = vec![7; count];
        let found = table.bits_unary(bytes, &mut numbers).map(|bits| (numbers, bits));
        assert_eq!(found, expected, "{} {count}", table.isa());
    });
}

/// The bytes of unary numbers, with ones in the bits behind.
fn unary_bytes(numbers: &[u64]) -> Vec<u8> {
    let mut bits: Vec<bool> = Vec::new();
    for &number in numbers {
        bits.extend((0..number).map(|_| false));
        bits.push(true);
    }
    bits.chunks(8)
        .map(|bits| (0..8).fold(0, |byte, i| byte | u8::from(bits.get(i).is_none_or(|&bit| bit)) << i))
        .collect()
}

#[test]
fn unary_numbers_match_bit_by_bit() {
    property(400, |count, random| {
        // Rare or frequent great ones, in some streams too great ones.
        let (most, one_in) = (random.below(18), 1 + random.below(30));
        let numbers: Vec<u64> = (0..count)
            .map(|_| if random.below(one_in) == 0 { random.below(most + 1) } else { random.below(3) })
            .collect();
        let bytes = unary_bytes(&numbers);
        check_unary(&bytes, count);
        // Fewer are asked for, more than there are, and of bytes that end.
        check_unary(&bytes, random.below(count as u64 + 1) as usize);
        check_unary(&bytes, count + 9);
        let cut = random.below(bytes.len() as u64 + 1) as usize;
        check_unary(&bytes[..cut], count);
    });
}

#[test]
fn unary_numbers_at_the_limit_match_bit_by_bit() {
    for place in (0..140).step_by(step(46)) {
        for number in [15, 16, 17, 18, 63, 64, 65, 200] {
            for others in [0, 1, 16] {
                let mut numbers = vec![others; 140];
                numbers[place] = number;
                let bytes = unary_bytes(&numbers);
                for count in [place, place + 1, 140] {
                    check_unary(&bytes, count);
                }
            }
        }
    }
    check_unary(&[], 0);
    check_unary(&[], 1);
    check_unary(&[0; 100], 1);
    check_unary(&[0; 100], 0);
}

#[test]
fn gaps_become_ids_up_to_the_greatest() {
    property(300, |count, random| {
        let narrow = random.below(64);
        let mut gaps: Vec<u64> = (0..count).map(|_| random.next() >> narrow).collect();
        if random.below(2) == 0 {
            gaps.iter_mut().for_each(|gap| *gap >>= 8);
        }
        let ids_from = |base: u64| {
            let mut next = u128::from(base);
            let ids = gaps.iter().map(|&gap| {
                let id = next + u128::from(gap);
                next = id + 1;
                u64::try_from(id).ok()
            });
            ids.collect::<Option<Vec<u64>>>()
        };
        // From 0, from anywhere, and so that the last id is just the greatest or above it.
        let room = ids_from(0).and_then(|ids| ids.last().map(|last| u64::MAX - last));
        let bases = [0, random.next(), u64::MAX, room.unwrap_or(1), room.unwrap_or(0).saturating_add(1)];
        for base in bases {
            let expected = ids_from(base);
            for_tables(|table| {
                let mut ids = gaps.clone();
                let last = table.prefix_gaps_to_ids(base, &mut ids);
                let expected_last = expected.as_ref().map(|ids| *ids.last().unwrap_or(&base.wrapping_sub(1)));
                assert_eq!(last, expected_last, "{} {count} {base}", table.isa());
                if let Some(expected) = &expected {
                    assert_eq!(&ids, expected, "{} {count} {base}", table.isa());
                }
            });
        }
    });
}

#[test]
#[should_panic(expected = "a number has 0 to 63 bits, not 64")]
fn too_great_a_width_is_the_callers_bug() {
    bits::unpack(&[0; 8], 64, &mut [0]);
}

#[test]
#[should_panic(expected = "4 bytes hold no 11 numbers of 3 bits")]
fn too_few_bytes_are_the_callers_bug() {
    bits::unpack(&[0; 4], 3, &mut [0; 11]);
}

#[test]
#[should_panic(expected = "bytes for 10 numbers of 3 bits")]
fn too_much_room_to_pack_is_the_callers_bug() {
    bits::pack(&[0; 10], 3, &mut [0; 5]);
}
