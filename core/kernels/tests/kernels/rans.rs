//! Bytes through their coder and back.

use basalt_kernels::rans::{
    BUCKETS, BYTES, Encoder, NO_BUCKET, SIDE_BY_SIDE, SLOTS, Stream, Table, decode_bytes, granularity,
};

use crate::rows::{Random, for_tables, property};

/// Buckets of bytes, and how often each bucket occurs: the more skewed, the greater `skew` is.
struct Model {
    frequencies: [u16; BUCKETS],
    bucket_of: [u8; BYTES],
    members: Vec<Vec<u8>>,
}

impl Model {
    fn draw(skew: u32, random: &mut Random) -> Self {
        let mut order: Vec<u8> = (0..=u8::MAX).collect();
        for i in (1..BYTES).rev() {
            order.swap(i, random.below(i as u64 + 1) as usize);
        }
        let mut members = vec![Vec::new(); BUCKETS];
        let (mut places, mut left) = (BYTES, order.as_slice());
        let buckets = 1 + random.below(BUCKETS as u64) as usize;
        for bucket in &mut members[..buckets] {
            let most = places.min(left.len());
            if most == 0 {
                break;
            }
            let limit = 1 << random.below(9);
            let bytes = 1 + random.below(most.min(limit) as u64) as usize;
            if bytes.next_power_of_two() > places {
                break;
            }
            places -= bytes.next_power_of_two();
            let own;
            (own, left) = left.split_at(bytes);
            *bucket = own.to_vec();
        }
        let mut bucket_of = [NO_BUCKET; BYTES];
        for (bucket, members) in members.iter().enumerate() {
            members.iter().for_each(|&byte| bucket_of[usize::from(byte)] = bucket as u8);
        }
        let mut frequencies = [0; BUCKETS];
        let mut left = SLOTS;
        for (frequency, members) in frequencies.iter_mut().zip(&members).filter(|(_, m)| !m.is_empty()) {
            *frequency = granularity(members.len());
            left -= *frequency;
        }
        // What is left over is shared out as multiples of what all are multiples of.
        let present: Vec<usize> = (0..BUCKETS).filter(|&bucket| !members[bucket].is_empty()).collect();
        for (i, &bucket) in present.iter().enumerate() {
            let share = if i + 1 == present.len() {
                left
            } else {
                random.below(u64::from(left) + 1) as u16 >> random.below(u64::from(skew) + 1)
            };
            let share = share / 16 * 16;
            frequencies[bucket] += share;
            left -= share;
        }
        let finest = present.iter().copied().min_by_key(|&bucket| granularity(members[bucket].len()));
        frequencies[finest.unwrap()] += left;
        Self { frequencies, bucket_of, members }
    }

    fn table(&self) -> Table {
        Table::new(&self.frequencies, &self.bucket_of).unwrap()
    }

    /// Vectors of bytes as frequent as they say.
    fn image(&self, vectors: usize, random: &mut Random) -> Vec<u64> {
        let slots: Vec<usize> =
            (0..).zip(&self.frequencies).flat_map(|(b, &n)| std::iter::repeat_n(b, n.into())).collect();
        let byte = |random: &mut Random| {
            let members = &self.members[slots[random.below(slots.len() as u64) as usize]];
            u64::from(members[random.below(members.len() as u64) as usize])
        };
        (0..8 * vectors).map(|_| (0..8).fold(0, |word, _| word << 8 | byte(random))).collect()
    }
}

fn information(encoder: &Encoder, image: &[u64]) -> f64 {
    image.iter().flat_map(|word| word.to_le_bytes()).map(|byte| encoder.bits(byte).unwrap()).sum()
}

fn unit(random: &mut Random) -> usize {
    1 << random.below(7)
}

#[test]
fn images_come_back() {
    property(150, |vectors, random| {
        let model = Model::draw(12, random);
        let (table, unit) = (model.table(), unit(random));
        let image = model.image(vectors, random);
        let (words, units) = Encoder::new(&table).encode(&image, unit);
        let (bytes, tail) = (8 * image.len(), usize::from(units) * unit);
        for_tables(|kernels| {
            // All of it, and as much of its start as is wanted.
            for wanted in [vectors, vectors / 2, vectors.min(1)] {
                let mut out = vec![u64::MAX; 8 * wanted];
                kernels.rans_bytes(&table, &mut [Stream { words: &words, bytes, tail, out: &mut out }]);
                assert!(out == image[..8 * wanted], "{} {vectors} {wanted} {tail}", kernels.isa());
            }
        });
    });
}

#[test]
fn short_images_come_back() {
    property(2000, |_, random| {
        let model = Model::draw(12, random);
        let table = model.table();
        let encoder = Encoder::new(&table);
        for vectors in 0..8 {
            let (mut image, unit) = (model.image(vectors, random), unit(random));
            // The end of an image is most often filled by one byte.
            let byte = model.members[0][0];
            let filled = random.below(image.len() as u64 + 1) as usize;
            image[filled..].fill(u64::from(byte) * 0x0101_0101_0101_0101);
            let (words, units) = encoder.encode(&image, unit);
            let (bytes, tail) = (8 * image.len(), usize::from(units) * unit);
            let mut out = vec![0; image.len()];
            decode_bytes(&table, &mut [Stream { words: &words, bytes, tail, out: &mut out }]);
            assert!(out == image, "{vectors} {tail}");
        }
    });
}

/// What is stored beyond the information is about a bit for each state, and what the tail's states waste.
#[test]
#[cfg_attr(miri, ignore = "it counts, and takes too long")]
fn streams_are_as_short_as_the_information() {
    let mut random = Random::new(5);
    let (mut waste, mut most, mut count) = (0.0, 0.0, 0.0);
    for _ in 0..200 {
        let model = Model::draw(3, &mut random);
        let table = model.table();
        let encoder = Encoder::new(&table);
        let image = model.image(32, &mut random);
        let information = information(&encoder, &image);
        if information < 6000.0 {
            continue;
        }
        let unit = if information > 9000.0 { 4 } else { 8 };
        let (words, _) = encoder.encode(&image, unit);
        let stored = 16.0 * words.len() as f64;
        waste += stored - information;
        count += 1.0;
        most = f64::max(most, stored - information);
    }
    let waste = waste / count;
    assert!(waste <= 100.0 && most <= 400.0, "{waste} {most}");
}

#[test]
fn words_that_nobody_wrote_give_bytes_of_the_table() {
    property(60, |vectors, random| {
        let model = Model::draw(12, random);
        let table = model.table();
        let words: Vec<u16> = (0..random.below(6000)).map(|_| random.next() as u16).collect();
        let bytes = 64 * vectors;
        let tail = random.below(bytes as u64 + 1) as usize;
        let mut expected = vec![0; 8 * vectors];
        decode_bytes(&table, &mut [Stream { words: &words, bytes, tail, out: &mut expected }]);
        for byte in expected.iter().flat_map(|word| word.to_le_bytes()) {
            let bucket = model.bucket_of[usize::from(byte)];
            assert!(bucket != NO_BUCKET && model.frequencies[usize::from(bucket)] > 0);
        }
        for_tables(|kernels| {
            let mut out = vec![u64::MAX; 8 * vectors];
            kernels.rans_bytes(&table, &mut [Stream { words: &words, bytes, tail, out: &mut out }]);
            assert!(out == expected, "{} {tail}", kernels.isa());
        });
    });
}

/// Images of about the same length, of other lengths, all tail, and from words that nobody wrote.
#[test]
fn images_side_by_side_are_those_of_each_alone() {
    property(40, |vectors, random| {
        let model = Model::draw(12, random);
        let table = model.table();
        let encoder = Encoder::new(&table);
        let mut stream = |_| {
            let vectors = if random.below(3) == 0 { random.below(40) as usize } else { vectors };
            if random.below(3) == 0 {
                let words: Vec<u16> = (0..random.below(3000)).map(|_| random.next() as u16).collect();
                return (words, random.below(64 * vectors as u64 + 1) as usize, vectors, vectors);
            }
            let unit = unit(random);
            let (words, units) = encoder.encode(&model.image(vectors, random), unit);
            (words, usize::from(units) * unit, vectors, random.below(vectors as u64 + 1) as usize)
        };
        let streams: Vec<_> = (0..9 * SIDE_BY_SIDE).map(&mut stream).collect();
        let images =
            || -> Vec<Vec<u64>> { streams.iter().map(|&(.., wanted)| vec![u64::MAX; 8 * wanted]).collect() };
        let mut alone = images();
        for ((words, tail, vectors, _), out) in streams.iter().zip(&mut alone) {
            decode_bytes(&table, &mut [Stream { words, bytes: 64 * vectors, tail: *tail, out }]);
        }
        for_tables(|kernels| {
            for count in (0..10).chain([31, 32, 33, streams.len()]) {
                let mut out = images();
                let mut together: Vec<_> = streams[..count]
                    .iter()
                    .zip(&mut out)
                    .map(|((words, tail, vectors, _), out)| Stream {
                        words,
                        bytes: 64 * vectors,
                        tail: *tail,
                        out,
                    })
                    .collect();
                kernels.rans_bytes(&table, &mut together);
                assert!(out[..count] == alone[..count], "{} {count}", kernels.isa());
            }
        });
    });
}

#[test]
fn tables_that_are_none_are_refused() {
    let mut frequencies = [0; BUCKETS];
    let mut bucket_of = [NO_BUCKET; BYTES];
    bucket_of[7] = 3;
    assert!(Table::new(&frequencies, &bucket_of).is_none());
    frequencies[3] = SLOTS;
    assert!(Table::new(&frequencies, &bucket_of).is_some());
    frequencies[0] = 1;
    assert!(Table::new(&frequencies, &bucket_of).is_none(), "too many slots");
    frequencies[3] = SLOTS - 1;
    assert!(Table::new(&frequencies, &bucket_of).is_none(), "a bucket without bytes");
    bucket_of[..7].fill(0);
    assert!(Table::new(&frequencies, &bucket_of).is_some());
    bucket_of[..7].fill(NO_BUCKET);
    bucket_of[8..208].fill(0);
    assert!(Table::new(&frequencies, &bucket_of).is_none(), "a slot is too few for 200 bytes");
    (frequencies[0], frequencies[3]) = (16, SLOTS - 16);
    assert!(Table::new(&frequencies, &bucket_of).is_none(), "256 places and one");
    bucket_of[100..208].fill(NO_BUCKET);
    assert!(Table::new(&frequencies, &bucket_of).is_some());
    assert!(Table::new(&[u16::MAX; BUCKETS], &bucket_of).is_none());
}

#[test]
#[should_panic(expected = "a tail of 65 bytes in 64")]
fn a_tail_longer_than_the_image_is_the_callers_bug() {
    let mut bucket_of = [NO_BUCKET; BYTES];
    bucket_of[0] = 0;
    let mut frequencies = [0; BUCKETS];
    frequencies[0] = SLOTS;
    let table = Table::new(&frequencies, &bucket_of).unwrap();
    decode_bytes(&table, &mut [Stream { words: &[], bytes: 64, tail: 65, out: &mut [0; 8] }]);
}
