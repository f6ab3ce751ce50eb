//! Spoilt bytes: refused as corrupt, or a column that behaves.

use super::*;
use crate::{error::ErrorKind, limits::FRAGMENT_ROWS};

/// Columns are spoilt in as many ways as they have bytes: small ones are enough.
const MAX_BYTES: usize = 700;

/// Asks everything of a column that was opened from spoilt bytes.
fn behaves(column: &dyn KeyColumn) {
    let rows = column.rows();
    assert!((1..=FRAGMENT_ROWS).contains(&rows));
    let n = rows.min(1500);
    let mut keys = vec![0; n];
    column.decode(0, &mut keys);
    assert_eq!([column.get(0), column.get(n - 1)], [keys[0], keys[n - 1]]);
    column.get(rows - 1);
    let places: Vec<u16> = (0..=u16::MAX).take(n).step_by(7).collect();
    let mut few = vec![0; places.len()];
    column.gather(0, &places, &mut few);
    assert!(
        places.iter().zip(&few).all(|(place, key)| keys[usize::from(*place)] == *key),
        "{}",
        column.name()
    );
    let mut out = vec![0; n.div_ceil(64)];
    for test in [KeyTest::Range { lo: keys[0], hi: i64::MAX }, set_of([keys[n / 2]])] {
        column.filter(0, n, &test, &mut out);
        assert_eq!(out, mask_of(n, |row| test.passes(keys[row])), "{}", column.name());
    }
    assert_eq!(column.sum(0, n, None), keys.iter().map(|&key| i128::from(key)).sum());
    assert_eq!(column.min_max(0, n, None), keys.iter().min().copied().zip(keys.iter().max().copied()));
    assert!(column.name().len() < 100);
}

/// Calls `check` with the bytes spoilt in every way.
fn spoil(bytes: &[u8], mut check: impl FnMut(&[u8])) {
    for end in 0..bytes.len() {
        check(&bytes[..end]);
    }
    check(&[bytes, &[0]].concat());
    let mut random = Random::new(11);
    let mut spoilt = bytes.to_vec();
    for width in [1, 2, 4, 8] {
        for at in (0..bytes.len()).step_by(width) {
            let field = at..(at + width).min(bytes.len());
            for fill in [0x00, 0x7F, 0xFF, random.next().to_le_bytes()[0]] {
                spoilt[field.clone()].fill(fill);
                check(&spoilt);
                spoilt[field.clone()].copy_from_slice(&bytes[field.clone()]);
            }
        }
    }
    for _ in 0..200 {
        for _ in 0..=random.below(3) {
            let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
            spoilt[at] ^= 1 << random.below(8);
        }
        check(&spoilt);
        spoilt.copy_from_slice(bytes);
    }
}

#[test]
fn spoilt_keys_are_refused_or_behave() {
    let (mut refused, mut opened) = (0, 0);
    for (native, rows) in [(Native::I32, 3), (Native::Bool, 200), (Native::I64, 600), (Native::F64, 70)] {
        for (_, shape) in SHAPES {
            let keys = shape(native, rows);
            for encoding in KEY_ENCODINGS {
                let Some(column) = encode(*encoding, &keys, native) else { continue };
                let bytes = column.buffer().as_slice();
                if bytes.len() > MAX_BYTES {
                    continue;
                }
                spoil(bytes, |bytes| match open_keys(Buffer::from(bytes.to_vec())) {
                    Ok(column) => {
                        opened += 1;
                        behaves(&*column);
                    }
                    Err(error) => {
                        refused += 1;
                        assert_eq!(error.kind(), ErrorKind::Corrupt);
                    }
                });
            }
        }
    }
    assert!(refused > 1000 && opened > 1000, "{refused} refused, {opened} opened");
}

fn behaves_as_text(column: &dyn TextColumn) {
    let rows = column.rows();
    assert!((1..=FRAGMENT_ROWS).contains(&rows));
    let n = rows.min(1500);
    let texts = column.decode(0, n, None);
    assert_eq!(texts.len(), n);
    assert_eq!([&*column.get(0), &*column.get(n - 1)], [texts.get(0), texts.get(n - 1)]);
    column.get(rows - 1);
    let test = TextTest::In(Arc::new([texts.get(n / 2).into()].into_iter().collect()));
    let mut out = vec![0; n.div_ceil(64)];
    column.filter(0, n, &test, None, &mut out);
    assert_eq!(out, mask_of(n, |row| test.passes(texts.get(row))), "{}", column.name());
}

#[test]
fn spoilt_texts_are_refused_or_behave() {
    let (mut refused, mut opened) = (0, 0);
    for rows in [1, 5, 90] {
        for (_, texts) in text::shapes(rows) {
            for encoding in TEXT_ENCODINGS {
                let Some(column) = text::encode(*encoding, &texts) else { continue };
                let bytes = column.buffer().as_slice();
                if bytes.len() > MAX_BYTES {
                    continue;
                }
                spoil(bytes, |bytes| match open_text(Buffer::from(bytes.to_vec())) {
                    Ok(column) => {
                        opened += 1;
                        behaves_as_text(&*column);
                    }
                    Err(error) => {
                        refused += 1;
                        assert_eq!(error.kind(), ErrorKind::Corrupt);
                    }
                });
            }
        }
    }
    assert!(refused > 1000 && opened > 1000, "{refused} refused, {opened} opened");
}
