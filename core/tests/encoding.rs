//! Encodings as the engine calls them: what is chosen, what is forced, what becomes of nulls.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use arrow_array::StringArray;
use basalt_core::{
    encoding::{
        self, Choice, Encoded, KEY_ENCODINGS, KeyTest, TEXT_ENCODINGS, bitcompress, encode_keys, encode_texts,
    },
    error::ErrorKind,
    keys::{self, Native},
    limits::FRAGMENT_ROWS,
    schema::{DataType, Optimize},
};
use proptest::prelude::*;

/// SplitMix64 (Steele et al., OOPSLA 2014): data that is the same on every run.
fn random(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// The next number below `n`.
fn below(next: &mut impl FnMut() -> u64, n: usize) -> usize {
    usize::try_from(next() % n as u64).unwrap()
}

/// `rows` draws of a place in `weights`.
fn draw(weights: &[usize], rows: usize) -> Vec<i64> {
    let mut next = random(7);
    let places: Vec<i64> = (0..).zip(weights).flat_map(|(place, &n)| std::iter::repeat_n(place, n)).collect();
    (0..rows).map(|_| places[below(&mut next, places.len())]).collect()
}

fn chosen(keys: &[i64], native: Native) -> (String, usize) {
    let Encoded { column, estimates, .. } = encode_keys(keys, native, None, None).unwrap();
    let bytes = column.buffer().len();
    // A faster encoding may take a seventieth more.
    let afforded = |least: usize| least + least / 70 >= bytes;
    assert!(
        estimates.iter().all(|estimate| !estimate.exact || afforded(estimate.bytes)),
        "{estimates:?}, but {bytes} were chosen"
    );
    for encoding in KEY_ENCODINGS {
        let forced = encode_keys(keys, native, None, Some(encoding.name())).unwrap().column;
        let as_forced = forced.name().starts_with(encoding.name());
        assert!(
            as_forced
                || encoding.estimate(&encoding::KeyStats::new(keys, native), &encoding::ENCODINGS).is_none()
        );
        assert!(afforded(forced.buffer().len()), "{} is smaller than {}", forced.name(), column.name());
    }
    (column.name(), bytes)
}

#[test]
fn the_smallest_is_chosen() {
    let rows = 60_000;
    let name = |keys: &[i64], native| chosen(keys, native).0;
    assert_eq!(name(&vec![5; rows], Native::I32), "constant");
    assert_eq!(name(&draw(&[1, 1], rows), Native::Bool), "packed");
    assert_eq!(name(&draw(&[95, 5], rows), Native::Bool), "sparse");
    assert_eq!(name(&draw(&[80, 15, 4, 1], rows), Native::U8), "entropy");
    let mut sorted = draw(&[500, 400, 100], rows);
    sorted.sort_unstable();
    assert!(name(&sorted, Native::I64).starts_with("runs("));
    let mut next = random(1);
    let any: Vec<i64> = (0..rows).map(|_| next().cast_signed()).collect();
    assert_eq!(name(&any, Native::I64), "plain");
    let sparse: Vec<i64> = (0..rows).map(|_| any[below(&mut next, 1000)]).collect();
    assert_eq!(name(&sparse, Native::I64), "dictionary(packed)");
    let mut outliers: Vec<i64> = (0..rows).map(|_| 1000 + (next() % 256).cast_signed()).collect();
    outliers.iter_mut().step_by(500).for_each(|key| *key = 1 << 40);
    let (name, bytes) = chosen(&outliers, Native::I64);
    assert_eq!(name, "packed");
    assert!(bytes < rows + rows / 50, "{bytes}");
}

#[test]
fn what_changes_little_is_held_as_differences() {
    let mut next = random(5);
    let mut timestamp = 1_700_000_000_000_000;
    let timestamps: Vec<i64> = (0..200_000)
        .map(|_| {
            timestamp += (next() % 40).cast_signed();
            timestamp
        })
        .collect();
    let (name, bytes) = chosen(&timestamps, Native::I64);
    assert!(name.starts_with("delta("), "{name}");
    assert!(8 * bytes < 200_000 * 61 / 10, "{bytes}");

    // An id for every row, with gaps.
    let mut id = 0;
    let ids: Vec<i64> = (0..200_000)
        .map(|_| {
            id += 1 + i64::from(below(&mut next, 100) == 0) * (next() % 1000).cast_signed();
            id
        })
        .collect();
    let (name, bytes) = chosen(&ids, Native::I64);
    assert!(name.starts_with("delta("), "{name}");
    assert!(8 * bytes < 200_000 * 3 / 2, "{bytes}");

    // A pattern of few steps, each nearly as long as the keys.
    let suppliers: Vec<i64> =
        (0..200_000).map(|row| (row / 4, row % 4)).map(|(part, i)| (part + 2500 * i) % 10_000).collect();
    let (name, bytes) = chosen(&suppliers, Native::I64);
    assert!(name.starts_with("delta("), "{name}");
    assert!(8 * bytes < 200_000 * 4, "{bytes}");
}

#[test]
fn decimals_are_held_as_integers() {
    let mut next = random(6);
    let mut floats = |mut float: Box<dyn FnMut(u64) -> f64>| -> Vec<i64> {
        (0..100_000).map(|_| keys::of_f64(float(next()))).collect()
    };
    let cents = floats(Box::new(|n| (n % 65_536) as f64 / 100.0));
    let (name, bytes) = chosen(&cents, Native::F64);
    assert_eq!(name, "alp(packed)");
    assert!(bytes < 2 * cents.len() + 1000, "{bytes}");

    let with_nan = floats(Box::new(|n| if n % 1000 == 7 { f64::NAN } else { (n % 65_536) as f64 / 100.0 }));
    let (name, bytes) = chosen(&with_nan, Native::F64);
    assert_eq!(name, "alp(packed)");
    assert!(bytes < 2 * cents.len() + 1500, "{bytes}");

    let any = floats(Box::new(|n| (n >> 11) as f64 / (1_u64 << 53) as f64));
    assert!(!chosen(&any, Native::F64).0.starts_with("alp"));
}

/// The sizes that the codec's authors publish, its index counted: 60,000 rows in 1,086 bytes, 1,000,000 in
/// 14,270.
#[test]
fn bitcompress_is_as_small_as_published() {
    for (rows, published) in [(60_000, 1_086), (1_000_000, 14_270)] {
        let column =
            encode_keys(&draw(&[99, 1], rows), Native::Bool, None, Some("bitcompress")).unwrap().column;
        let bytes = column.buffer().len();
        assert!(bytes <= published, "{bytes} bytes for {rows} rows");
    }
}

#[test]
fn a_cursor_reads_forward_and_jumps() {
    let keys = draw(&[900, 90, 9, 1], 100_000);
    let column = encode_keys(&keys, Native::U8, None, Some("bitcompress")).unwrap().column;
    let column = bitcompress::Column::open(column.buffer().clone()).unwrap();
    let mut cursor = column.cursor();
    let forward = (0..keys.len()).chain((0..keys.len()).step_by(3)).chain((0..keys.len()).step_by(777));
    let mut next = random(3);
    let jumps = (0..1000).map(|_| below(&mut next, keys.len()));
    for row in forward.chain(jumps).chain([99_999, 99_999, 0, 0, 1]) {
        assert_eq!(cursor.get(row), keys[row], "at {row}");
    }
}

#[test]
fn what_cannot_be_is_an_error() {
    let kind =
        |result: basalt_core::error::Result<_>| result.map(|_: encoding::EncodedKeys| ()).unwrap_err().kind();
    assert_eq!(kind(encode_keys(&[], Native::I64, None, None)), ErrorKind::InvalidBatch);
    assert_eq!(
        kind(encode_keys(&vec![0; FRAGMENT_ROWS + 1], Native::I64, None, None)),
        ErrorKind::InvalidBatch
    );
    assert_eq!(kind(encode_keys(&[300], Native::U8, None, None)), ErrorKind::InvalidBatch);
    assert_eq!(kind(encode_keys(&[3], Native::U8, Some(&[]), None)), ErrorKind::InvalidBatch);

    assert!(encoding::check_forced("packed", DataType::Float64).is_ok());
    assert!(encoding::check_forced("text", DataType::Utf8).is_ok());
    for (name, data_type) in [("text", DataType::Int64), ("packed", DataType::Utf8), ("zip", DataType::Bool)]
    {
        let error = encoding::check_forced(name, data_type).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSchema);
        assert!(error.message().contains("dictionary"), "{error}");
    }
}

#[test]
fn a_forced_encoding_gives_way_when_it_cannot() {
    let keys: Vec<i64> = (0..1000).collect();
    for name in ["bitcompress", "constant"] {
        let column = encode_keys(&keys, Native::I64, None, Some(name)).unwrap().column;
        assert_eq!(column.name(), "delta(constant)");
    }
}

#[test]
fn nulls_do_not_count() {
    let keys = [7, 99, 7, 8, 99, 7, 99];
    let valid = [0b010_1101];
    let encoded = encode_keys(&keys, Native::U8, Some(&valid), None).unwrap();
    assert_eq!(encoded.value_counts, Some(vec![(7, 3), (8, 1)]));
    let mut out = [0; 7];
    encoded.column.decode(0, &mut out);
    assert_eq!(out, [7, 7, 7, 8, 7, 7, 7], "the most frequent key stands in");

    let all_null = encode_keys(&keys, Native::U8, Some(&[0]), None).unwrap();
    assert_eq!((all_null.column.name().as_str(), all_null.value_counts), ("constant", Some(vec![])));

    let texts: StringArray = [Some("b"), None, Some("a"), Some("b"), None].into_iter().collect();
    let encoded = encode_texts(&texts, Some("dictionary")).unwrap();
    assert_eq!(encoded.value_counts, Some(vec![(0, 1), (1, 2)]));
    let entries = encoded.column.codes().unwrap().entries;
    assert_eq!(entries.decode(0, entries.rows(), None).iter().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(encode_texts(&texts, Some("text")).unwrap().value_counts, None);
}

#[test]
fn nulls_between_runs_do_not_break_them() {
    let keys: Vec<i64> = (0..50_000).map(|row| row / 500).collect();
    let valid: Vec<u64> = (0..keys.len().div_ceil(64)).map(|i| if i % 5 == 0 { 0 } else { !0 }).collect();
    let mut valid = valid;
    *valid.last_mut().unwrap() &= (1 << (keys.len() % 64)) - 1;
    let column = encode_keys(&keys, Native::I64, Some(&valid), None).unwrap().column;
    assert!(column.buffer().len() < 1000, "{} bytes as {}", column.buffer().len(), column.name());
}

#[test]
fn validity_is_a_column_of_bits() {
    let valid = [0xFFFF_FFFF_FFFF_FFFE, 0b101];
    let column = encoding::encode_validity(&valid, 67, Optimize::Balanced).unwrap().column;
    let mut out = [0; 2];
    column.filter(0, 67, &KeyTest::Range { lo: 1, hi: 1 }, &mut out);
    assert_eq!(out, valid);
}

#[test]
fn texts_take_the_smaller_encoding() {
    let few: StringArray = (0..5000).map(|i| Some(["EWR", "JFK", "LGA"][i * i % 3])).collect();
    let encoded = encode_texts(&few, None).unwrap();
    assert!(encoded.column.name().starts_with("dictionary("), "{}", encoded.column.name());
    let distinct: StringArray = (0..5000).map(|i| Some(format!("item {}", i * 7919))).collect();
    assert_eq!(encode_texts(&distinct, None).unwrap().column.name(), "fsst");
    let mut next = random(1);
    let mut character = || char::from_u32(u32::try_from(below(&mut next, 128)).unwrap());
    let scattered: StringArray =
        (0..5000).map(|_| (0..9).map(|_| character()).collect::<Option<String>>()).collect();
    assert_eq!(encode_texts(&scattered, None).unwrap().column.name(), "text");
    for encoding in TEXT_ENCODINGS {
        let column = encode_texts(&distinct, Some(encoding.name())).unwrap().column;
        assert!(column.name().starts_with(encoding.name()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_keys_come_back(
        keys in prop::collection::vec(prop_oneof![any::<i64>(), -3..3i64, Just(i64::MIN), Just(1 << 40)], 1..1200),
        nulls in any::<u64>(),
        forced in prop::sample::select(vec!["constant", "plain", "packed", "runs", "sparse", "elias_fano", "dictionary", "bitcompress", "entropy", "delta", ""]),
        (lo, hi) in (any::<i64>(), any::<i64>()),
    ) {
        let words = keys.len().div_ceil(64);
        let mut valid: Vec<u64> = (0..words).map(|i| nulls.rotate_left(u32::try_from(i).unwrap())).collect();
        if keys.len() % 64 > 0 {
            valid[words - 1] &= (1 << (keys.len() % 64)) - 1;
        }
        let is_valid = |row: &usize| valid[row / 64] >> (row % 64) & 1 == 1;
        let encoded = encode_keys(&keys, Native::I64, Some(&valid), Some(forced)).unwrap();
        let column = encoding::open_keys(encoded.column.buffer().clone()).unwrap();
        let mut out = vec![0; keys.len()];
        column.decode(0, &mut out);
        for row in (0..keys.len()).filter(is_valid) {
            prop_assert_eq!(out[row], keys[row]);
            prop_assert_eq!(column.get(row), keys[row]);
        }
        let mut mask = vec![0; words];
        column.filter(0, keys.len(), &KeyTest::Range { lo, hi }, &mut mask);
        for row in (0..keys.len()).filter(is_valid) {
            prop_assert_eq!(mask[row / 64] >> (row % 64) & 1 == 1, (lo..=hi).contains(&keys[row]));
        }
        let expected: i128 = (0..keys.len()).filter(is_valid).map(|row| i128::from(keys[row])).sum();
        prop_assert_eq!(column.sum(0, keys.len(), Some(&valid)), expected);
    }
}

/// Forced, entropy coded columns are as near to the Shannon entropy of their keys as asked, everything counted: runs that
/// are decoded alone cost a twentieth of a bit a row, and no more than a fortieth of the column. For size they are as
/// long as can be.
#[test]
fn entropy_coded_columns_are_near_the_entropy() {
    let zipf: Vec<usize> = (1..=200).map(|rank| 20_000 / rank).collect();
    for (weights, balanced, size) in [
        (&[95, 5][..], 1.025, 1.01),
        (&[80, 15, 4, 1], 1.026, 1.004),
        (&[547, 202, 121, 80, 50], 1.025, 1.005),
        (&zipf[..16], 1.015, 1.005),
        (&zipf, 1.01, 1.005),
    ] {
        let keys = draw(weights, 1 << 20);
        let mut counts = vec![0_usize; weights.len()];
        keys.iter().for_each(|&key| counts[usize::try_from(key).unwrap()] += 1);
        let share = |&n: &usize| n as f64 / keys.len() as f64;
        let bits: f64 = counts.iter().map(|n| -(*n as f64) * share(n).log2()).sum();
        let entropy = KEY_ENCODINGS.iter().find(|encoding| encoding.name() == "entropy").unwrap();
        for (optimize, most) in [(Optimize::Balanced, balanced), (Optimize::Size, size)] {
            let choice = Choice { forced: Some("entropy"), optimize };
            let column = encode_keys(&keys, Native::U8, None, choice).unwrap().column;
            let stored = 8.0 * column.buffer().len() as f64 / bits;
            assert!(stored <= most, "{stored} of the entropy for {} keys, {optimize}", weights.len());
            let encodings = encoding::ENCODINGS.optimized_for(optimize);
            let estimate = entropy.estimate(&encoding::KeyStats::new(&keys, Native::U8), &encodings).unwrap();
            let off = estimate.bytes as f64 / column.buffer().len() as f64;
            assert!((0.99..1.01).contains(&off), "the estimate is {off} of the size");
        }
    }
}

/// Size takes no byte more than the smallest encoding, speed nothing that is slower than what is balanced, and at most
/// twice the bytes. The keys are the same.
#[test]
fn what_a_column_is_optimized_for_decides() {
    let rows = 1 << 17;
    let zipf: Vec<usize> = (1..=200).map(|rank| 20_000 / rank).collect();
    let mut next = random(3);
    let apart = |keys: Vec<i64>| keys.into_iter().map(|key| key * key * 1_000_003).collect();
    let mut steps = 0;
    for (keys, size, speed) in [
        (draw(&[80, 15, 4, 1], rows), "entropy", "elias_fano"),
        (draw(&[547, 202, 121, 80, 50], rows), "entropy", "packed"),
        (draw(&[5; 8], rows), "entropy", "packed"),
        (draw(&zipf, rows), "entropy", "packed"),
        (apart(draw(&zipf, rows)), "entropy", "dictionary(plain)"),
        (draw(&[99, 1], rows), "sparse", "elias_fano"),
        ((0..rows).map(|_| below(&mut next, 1 << 40).cast_signed() as i64).collect(), "packed", "packed"),
        ((0..rows).map(|_| below(&mut next, 1 << 21).cast_signed() as i64).collect(), "packed", "packed"),
        (vec![7; rows], "constant", "constant"),
        (
            (0..rows)
                .map(|_| {
                    steps += below(&mut next, 40).cast_signed() as i64;
                    steps
                })
                .collect(),
            "delta(entropy)",
            "delta(packed)",
        ),
    ] {
        let encode = |forced, optimize| {
            encode_keys(&keys, Native::I64, None, Choice { forced, optimize }).unwrap().column
        };
        let [smallest, balanced, fastest] = Optimize::ALL.map(|optimize| encode(None, optimize));
        let names = [&smallest, &balanced, &fastest].map(|column| column.name());
        let bytes = [&smallest, &balanced, &fastest].map(|column| column.buffer().len());
        assert!(names[0].starts_with(size) && names[2].starts_with(speed), "{names:?}, {bytes:?}");
        assert!(bytes[0] <= bytes[1] && bytes[2] <= 2 * bytes[0], "{names:?}, {bytes:?}");
        let [fast, usual] =
            [&fastest, &balanced].map(|column| column.costs().of_queries(column.buffer().len(), rows));
        assert!(fast <= usual, "{names:?}");
        for encoding in KEY_ENCODINGS {
            let forced = encode(Some(encoding.name()), Optimize::Size);
            assert!(bytes[0] <= forced.buffer().len(), "{} is smaller than {names:?}", forced.name());
        }
        for column in [smallest, balanced, fastest] {
            let mut out = vec![0; keys.len()];
            column.decode(0, &mut out);
            assert!(out == keys, "{}", column.name());
        }
    }
}

#[test]
fn texts_are_optimized_as_columns_of_keys_are() {
    let name = |texts: &StringArray, optimize| {
        let column = encode_texts(texts, Choice { forced: None, optimize }).unwrap().column;
        (column.name(), column.buffer().len())
    };
    let mut next = random(5);
    let distinct: StringArray = (0..50_000).map(|_| Some(format!("{:016x}", next()))).collect();
    let zipf: Vec<usize> = (1..=200).map(|rank| 20_000 / rank).collect();
    let few: StringArray =
        draw(&zipf, 50_000).into_iter().map(|i| Some(format!("a product of the kind {i}"))).collect();
    for (texts, size, speed) in
        [(&distinct, "fsst", "text"), (&few, "dictionary(fsst, entropy)", "dictionary(fsst, plain)")]
    {
        let [smallest, balanced, fastest] = Optimize::ALL.map(|optimize| name(texts, optimize));
        assert_eq!((smallest.0.as_str(), fastest.0.as_str()), (size, speed));
        assert!(
            smallest.1 <= balanced.1 && fastest.1 <= 2 * smallest.1,
            "{smallest:?} {balanced:?} {fastest:?}"
        );
    }
}

/// Columns that are decoded before they are read are arrays in their faster form, with the same codes; what is fast has
/// none, and a faster form has none itself.
#[test]
fn what_is_decoded_has_a_faster_form() {
    let rows = 1 << 17;
    let zipf: Vec<usize> = (1..=200).map(|rank| 20_000 / rank).collect();
    let few = draw(&zipf, rows);
    let mut rising = few.clone();
    rising.iter_mut().fold(0, |last, key| {
        *key += last;
        *key
    });
    let apart: Vec<i64> = few.iter().map(|key| key * key * 1_000_003).collect();
    let mut sorted = few.clone();
    sorted.sort_unstable();
    for (keys, forced, faster) in [
        (&few, "entropy", Some("packed")),
        (&apart, "dictionary", Some("dictionary(plain)")),
        (&rising, "delta", Some("delta(packed)")),
        (&few, "bitcompress", Some("packed")),
        (&few, "packed", None),
        (&sorted, "runs", None),
    ] {
        let column = encode_keys(keys, Native::I64, None, Some(forced)).unwrap().column;
        let fast = encoding::faster_keys(&*column).unwrap();
        assert_eq!(fast.as_ref().map(|fast| fast.name()).as_deref(), faster, "{}", column.name());
        let Some(fast) = fast else { continue };
        assert!(fast.costs().filter <= column.costs().filter && fast.key_type() == Native::I64);
        let mut out = vec![0; rows];
        encoding::open_keys(fast.buffer().clone()).unwrap().decode(0, &mut out);
        assert!(out == **keys);
        assert_eq!(fast.codes().map(|codes| codes.entries), column.codes().map(|codes| codes.entries));
        assert!(encoding::faster_keys(&*fast).unwrap().is_none(), "{} has a faster form", fast.name());
    }
    let texts: StringArray = few.iter().map(|key| Some(format!("product {key}"))).collect();
    for (forced, faster) in [("dictionary", "dictionary(plain)"), ("fsst", "text")] {
        let column = encode_texts(&texts, Some(forced)).unwrap().column;
        let fast = encoding::faster_texts(&*column).unwrap().unwrap();
        assert_eq!(fast.name(), faster);
        for row in (0..rows).step_by(1001) {
            assert_eq!(fast.get(row), texts.value(row));
        }
        if let (Some(codes), Some(before)) = (fast.codes(), column.codes()) {
            assert_eq!(codes.codes.get(77), before.codes.get(77));
        }
        assert!(encoding::faster_texts(&*fast).unwrap().is_none());
    }
}
