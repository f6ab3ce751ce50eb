//! Nibbles through their coder and back.

use basalt_kernels::rans::{Encoder, SIDE_BY_SIDE, SLOTS, SYMBOLS, Stream, Table, decode_nibbles};

use crate::rows::{Random, for_tables, property};

/// Frequencies of the symbols of a mask, which are skewed the more the greater `skew` is.
fn frequencies(symbols: u16, skew: u32, random: &mut Random) -> [u16; SYMBOLS] {
    let mut frequencies = [0; SYMBOLS];
    if random.below(4) == 0 {
        // All symbols about as often.
        frequencies = [SLOTS / SYMBOLS as u16; SYMBOLS];
        for _ in 0..random.below(40) {
            frequencies[random.below(SYMBOLS as u64) as usize] -= 1;
            frequencies[random.below(SYMBOLS as u64) as usize] += 1;
        }
        return frequencies;
    }
    let mut left = SLOTS;
    let present: Vec<usize> = (0..SYMBOLS).filter(|symbol| symbols >> symbol & 1 == 1).collect();
    for (i, &symbol) in present.iter().enumerate() {
        let others = (present.len() - i - 1) as u16;
        let share = match others {
            0 => left,
            _ => 1 + (random.below(u64::from(left - others)) >> random.below(u64::from(skew) + 1)) as u16,
        };
        frequencies[symbol] = share;
        left -= share;
    }
    frequencies
}

/// Vectors of nibbles as frequent as they say.
fn image(frequencies: &[u16; SYMBOLS], vectors: usize, random: &mut Random) -> Vec<u64> {
    let slots: Vec<u64> =
        (0..).zip(frequencies).flat_map(|(symbol, &n)| std::iter::repeat_n(symbol, n.into())).collect();
    let mut word =
        |_| (0..16).fold(0, |word, _| word << 4 | slots[random.below(slots.len() as u64) as usize]);
    (0..8 * vectors).map(&mut word).collect()
}

fn information(frequencies: &[u16; SYMBOLS], image: &[u64]) -> f64 {
    let nibbles = image.iter().flat_map(|word| (0..16).map(move |i| word >> (4 * i) & 15));
    nibbles.map(|nibble| 12.0 - f64::from(frequencies[nibble as usize]).log2()).sum()
}

#[test]
fn images_come_back() {
    property(150, |vectors, random| {
        let frequencies = frequencies(random.next() as u16 | 1 << random.below(16), 12, random);
        let table = Table::new(&frequencies).unwrap();
        let image = image(&frequencies, vectors, random);
        let (words, tail) = Encoder::new(&table).encode(&image);
        for_tables(|kernels| {
            let mut out = vec![u64::MAX; image.len()];
            kernels.rans_nibbles(&table, &mut [Stream { words: &words, tail, out: &mut out }]);
            assert!(out == image, "{} {frequencies:?} {vectors} {tail}", kernels.isa());
        });
    });
}

#[test]
fn short_images_come_back() {
    property(2000, |_, random| {
        let frequencies = frequencies(random.next() as u16 | 1, 12, random);
        let table = Table::new(&frequencies).unwrap();
        let encoder = Encoder::new(&table);
        for vectors in 0..8 {
            let mut image = image(&frequencies, vectors, random);
            // The end of an image is most often filled by the most frequent nibble.
            let most = (0..SYMBOLS as u64).max_by_key(|&nibble| frequencies[nibble as usize]).unwrap();
            let filled = random.below(image.len() as u64 + 1) as usize;
            image[filled..].fill(most * 0x1111_1111_1111_1111);
            let (words, tail) = encoder.encode(&image);
            let mut out = vec![0; image.len()];
            decode_nibbles(&table, &mut [Stream { words: &words, tail, out: &mut out }]);
            assert!(out == image, "{frequencies:?} {vectors} {tail}");
        }
    });
}

/// What is stored beyond the information is a bit or two for each state, and a step or two.
#[test]
fn streams_are_as_short_as_the_information() {
    let mut random = Random::new(5);
    for i in 0..100 {
        let frequencies = frequencies(u16::MAX >> (i % 14), 3, &mut random);
        let table = Table::new(&frequencies).unwrap();
        let image = image(&frequencies, 128, &mut random);
        let (words, _) = Encoder::new(&table).encode(&image);
        let (stored, information) = (16.0 * words.len() as f64, information(&frequencies, &image));
        let step = information / 512.0;
        assert!(
            stored <= 1.0001 * information + 200.0 + 3.0 * step,
            "{stored} for {information} {frequencies:?}"
        );
    }
}

#[test]
fn words_that_nobody_wrote_give_nibbles_of_the_table() {
    property(40, |vectors, random| {
        let symbols = random.next() as u16 | 1;
        let frequencies = frequencies(symbols, 12, random);
        let table = Table::new(&frequencies).unwrap();
        let words: Vec<u16> = (0..random.below(6000)).map(|_| random.next() as u16).collect();
        let tail = random.below(4 * vectors as u64 + 1) as usize;
        let mut expected = vec![0; 8 * vectors];
        decode_nibbles(&table, &mut [Stream { words: &words, tail, out: &mut expected }]);
        let nibbles = expected.iter().flat_map(|word| (0..16).map(move |i| word >> (4 * i) & 15));
        for nibble in nibbles {
            assert!(frequencies[nibble as usize] > 0);
        }
        for_tables(|kernels| {
            let mut out = vec![u64::MAX; 8 * vectors];
            kernels.rans_nibbles(&table, &mut [Stream { words: &words, tail, out: &mut out }]);
            assert!(out == expected, "{} {frequencies:?} {tail}", kernels.isa());
        });
    });
}

/// Images of about the same length, of other lengths, all tail, and from words that nobody wrote.
#[test]
fn images_side_by_side_are_those_of_each_alone() {
    property(40, |vectors, random| {
        let frequencies = frequencies(random.next() as u16 | 1, 12, random);
        let table = Table::new(&frequencies).unwrap();
        let encoder = Encoder::new(&table);
        let mut stream = |_| {
            let vectors = if random.below(3) == 0 { random.below(40) as usize } else { vectors };
            if random.below(3) == 0 {
                let words: Vec<u16> = (0..random.below(3000)).map(|_| random.next() as u16).collect();
                return (words, random.below(4 * vectors as u64 + 1) as usize, vectors);
            }
            let (words, tail) = encoder.encode(&image(&frequencies, vectors, random));
            (words, tail, vectors)
        };
        let streams: Vec<_> = (0..2 * SIDE_BY_SIDE).map(&mut stream).collect();
        let images = || -> Vec<Vec<u64>> {
            streams.iter().map(|&(_, _, vectors)| vec![u64::MAX; 8 * vectors]).collect()
        };
        let mut alone = images();
        for ((words, tail, _), out) in streams.iter().zip(&mut alone) {
            decode_nibbles(&table, &mut [Stream { words, tail: *tail, out }]);
        }
        for_tables(|kernels| {
            for count in 0..=streams.len() {
                let mut out = images();
                let mut together: Vec<_> = streams[..count]
                    .iter()
                    .zip(&mut out)
                    .map(|((words, tail, _), out)| Stream { words, tail: *tail, out })
                    .collect();
                kernels.rans_nibbles(&table, &mut together);
                assert!(out[..count] == alone[..count], "{} {count} {frequencies:?}", kernels.isa());
            }
        });
    });
}

#[test]
fn frequencies_that_are_not_all_slots_are_refused() {
    let mut frequencies = [0; SYMBOLS];
    assert!(Table::new(&frequencies).is_none());
    frequencies[3] = SLOTS;
    assert!(Table::new(&frequencies).is_some());
    frequencies[0] = 1;
    assert!(Table::new(&frequencies).is_none());
    assert!(Table::new(&[u16::MAX; SYMBOLS]).is_none());
}

#[test]
#[should_panic(expected = "a tail of 5 steps in 4")]
fn a_tail_longer_than_the_image_is_the_callers_bug() {
    let table = Table::new(&[SLOTS / 16; SYMBOLS]).unwrap();
    decode_nibbles(&table, &mut [Stream { words: &[], tail: 5, out: &mut [0; 8] }]);
}
