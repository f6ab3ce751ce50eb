//! Columns of texts against the texts they were made of.

use std::ops::Bound;

use arrow_array::{Array, StringArray};

use super::*;
use crate::{like::Pattern, mask::selects};

/// Texts of several shapes; those under nulls are empty.
pub(super) fn shapes(rows: usize) -> Vec<(&'static str, StringArray)> {
    let mut random = Random::new(20);
    let cities = ["Århus", "Berlin", "Bern", "Çeşme", "", "São Paulo", "Zürich", "Bergen", "東京"];
    let city = |n: u64| cities[usize::try_from(n).unwrap() % cities.len()];
    let mut any = |f: &mut dyn FnMut(&mut Random, usize) -> Option<String>| -> StringArray {
        (0..rows).map(|row| f(&mut random, row)).collect()
    };
    vec![
        ("constant", any(&mut |_, _| Some("x".to_owned()))),
        ("empty", any(&mut |_, _| Some(String::new()))),
        ("null", any(&mut |_, _| None)),
        ("few", any(&mut |random, _| Some(city(random.below(9)).to_owned()))),
        (
            "few or null",
            any(&mut |random, _| {
                let n = random.below(12);
                (n < 9).then(|| city(n).to_owned())
            }),
        ),
        ("distinct", any(&mut |random, row| Some(format!("{}-{row}", city(random.below(9)))))),
        (
            "URLs",
            any(&mut |random, row| {
                let (host, id) = (random.below(5), random.below(1 << 30));
                Some(format!("https://www.example-{host}.org/items/{row}/review?id={id:x}"))
            }),
        ),
        (
            "mostly empty",
            any(&mut |random, _| {
                let full = random.below(4) == 0;
                Some(if full { format!("mail-{}@example.org", random.below(9999)) } else { String::new() })
            }),
        ),
        (
            "words",
            any(&mut |random, _| {
                let words =
                    ["über", "quick ", "\0", "foxes ", "sleep ", "漢字", "\0\0x", "🦀 ", "carefully "];
                let n = 1 + random.below(9);
                Some((0..n).map(|_| words[usize::try_from(random.below(9)).unwrap()]).collect())
            }),
        ),
        (
            "any characters",
            any(&mut |random, _| {
                let n = random.below(12);
                let any = |_| u32::try_from(random.below(0x11_0000)).ok().and_then(char::from_u32);
                Some((0..n).filter_map(any).collect())
            }),
        ),
        (
            "one very long",
            any(&mut |random, row| {
                let n = if row == rows / 2 { 70_000 } else { 2 };
                Some((0..n).map(|_| city(random.below(9))).collect())
            }),
        ),
        (
            "long",
            any(&mut |random, row| {
                let n = usize::try_from(random.below(90)).unwrap();
                (row % 7 != 3).then(|| city(row as u64).repeat(n))
            }),
        ),
    ]
}

/// The column that an encoding makes of the texts, if it can hold them.
pub(super) fn encode(encoding: &dyn TextEncoding, texts: &StringArray) -> Option<Arc<dyn TextColumn>> {
    let stats = TextStats::new(texts);
    let estimate = encoding.estimate(&stats, &ENCODINGS)?;
    let buffer = encoding.encode(&stats, &ENCODINGS).unwrap();
    assert_eq!(buffer.first(), Some(&encoding.code()));
    assert!(
        !estimate.exact || estimate.bytes == buffer.len(),
        "{} estimated {estimate:?}, made {}",
        encoding.name(),
        buffer.len()
    );
    Some(open_text(buffer).unwrap())
}

fn for_each_column(rows: &[usize], mut check: impl FnMut(&StringArray, &dyn TextColumn)) {
    let mut columns = 0;
    for &rows in rows {
        for (_, texts) in shapes(rows) {
            for encoding in TEXT_ENCODINGS {
                if let Some(column) = encode(*encoding, &texts) {
                    columns += 1;
                    check(&texts, &*column);
                }
            }
        }
    }
    assert!(columns > 40);
}

#[test]
fn columns_give_back_their_texts() {
    for_each_column(&[1, 2, 64, 511, 512, 513, 1025, 66_100], |texts, column| {
        assert_eq!(column.rows(), texts.len());
        for (start, rows) in ranges(texts.len()) {
            let some = mask_of(rows, |row| row % 3 == 1 || row % 170 > 100);
            for selected in [None, Some(some.as_slice())] {
                let out = column.decode(start, rows, selected);
                assert_eq!(out.len(), rows);
                let asked = |row: &usize| selects(selected, *row) && texts.is_valid(start + row);
                for row in (0..rows).filter(asked) {
                    assert_eq!(out.get(row), texts.value(start + row), "{} at {row}", column.name());
                    assert_eq!(out.keep(row), texts.value(start + row));
                }
            }
        }
        for row in (0..texts.len()).step_by(1 + texts.len() / 97).filter(|&row| texts.is_valid(row)) {
            assert_eq!(column.get(row), texts.value(row), "{} at {row}", column.name());
        }
        let rows: Vec<usize> = (0..texts.len()).rev().step_by(1 + texts.len() / 97).chain([0, 0]).collect();
        let picked = column.pick(&rows);
        for (i, &row) in rows.iter().enumerate().filter(|&(_, &row)| texts.is_valid(row)) {
            assert_eq!(picked.get(i), texts.value(row), "{} at {row}", column.name());
        }
        assert_eq!(open_text(column.buffer().clone()).unwrap().name(), column.name());
        if let Some(Codes { codes, entries }) = column.codes() {
            assert_eq!(codes.rows(), texts.len());
            let code = usize::try_from(codes.get(0)).unwrap();
            assert_eq!(entries.get(code), column.get(0));
        }
    });
}

#[test]
fn filters_equal_decoding_and_testing() {
    let text = |s: &str| s.to_owned();
    let set_of = |texts: &[&str]| TextTest::In(Arc::new(texts.iter().map(|text| Box::from(*text)).collect()));
    let many: Vec<String> = (0..40).map(|i| format!("Bern-{i}")).collect();
    let like = |p: &str| TextTest::Like(Arc::new(Pattern::new(p).unwrap()));
    let tests = [
        TextTest::Range { lo: Bound::Included(text("Berg")), hi: Bound::Excluded(text("Bern")) },
        TextTest::Range { lo: Bound::Excluded(text("Berlin")), hi: Bound::Included(text("São Paulo")) },
        TextTest::Range { lo: Bound::Unbounded, hi: Bound::Included(text("")) },
        TextTest::Range { lo: Bound::Unbounded, hi: Bound::Unbounded },
        TextTest::Range { lo: Bound::Included(text("y")), hi: Bound::Excluded(text("a")) },
        set_of(&["", "Bern", "Zürich", "x"]),
        set_of(&[]),
        set_of(&many.iter().map(String::as_str).collect::<Vec<_>>()),
        like("Ber%"),
        like("Ber%n"),
        like("%ü%"),
        like("Bern"),
        like("%-1_"),
        like("%er%n%"),
        like("B%n"),
        like("%"),
    ];
    for_each_column(&[1, 65, 513, 2100], |texts, column| {
        for test in &tests {
            for (start, rows) in ranges(texts.len()) {
                let some = mask_of(rows, |row| row % 5 == 2 || row % 190 > 120);
                for under in [None, Some(some.as_slice())] {
                    let mut out = vec![u64::MAX; rows.div_ceil(64)];
                    column.filter(start, rows, test, under, &mut out);
                    assert_eq!(*out.last().unwrap() & !(u64::MAX >> (63 - (rows - 1) % 64)), 0);
                    let asked = |row: &usize| selects(under, *row) && texts.is_valid(start + row);
                    for row in (0..rows).filter(asked) {
                        let expected = test.passes(texts.value(start + row));
                        let passes = selects(Some(&out), row);
                        assert_eq!(passes, expected, "{} at {row} from {start} by {test:?}", column.name());
                    }
                }
            }
        }
    });
}
