//! Encoded columns whose bytes nobody has vouched for, as files of the cache have them.

#![allow(clippy::expect_used, reason = "a target fails by panicking")]

use arrow_buffer::Buffer;
use basalt_core::{
    encoding::{KeyColumn, KeyTest, Members, TextColumn, TextMembers, TextTest},
    fragment::{Column, ColumnParts, Values},
    schema::DataType,
    value::Value,
};
use std::sync::Arc;

/// See `storage.rs`.
pub(crate) type Target = (&'static str, fn(&[u8]), (usize, usize));

/// All of them.
pub(crate) const TARGETS: &[Target] = &[("column", column, (64, 64 << 20))];

/// Before the parts of a column: its type, its rows, and how long head and validity are.
pub(crate) const COLUMN_HEAD: usize = 7;

/// Rows that are read, of many.
const READ: usize = 1500;

fn column(data: &[u8]) {
    let Some(([kind, numbers @ ..], data)) = data.split_first_chunk::<COLUMN_HEAD>() else { return };
    let [rows, head, validity] =
        [0, 2, 4].map(|at| usize::from(u16::from_le_bytes([numbers[at], numbers[at + 1]])));
    let data_type = DataType::KINDS[usize::from(*kind) % DataType::KINDS.len()];
    let (head, data) = data.split_at(head.min(data.len()));
    let (validity, values) = data.split_at(validity.min(data.len()));
    let parts = ColumnParts {
        head: head.to_vec(),
        values: Buffer::from(values.to_vec()),
        validity: (!validity.is_empty()).then(|| Buffer::from(validity.to_vec())),
    };
    let Ok(column) = Column::from_parts(parts, data_type, rows) else { return };
    assert_eq!(column.rows(), rows);
    let present = (0..rows).filter(|row| column.value(*row) != Value::Null).count();
    assert_eq!(present, rows - column.nulls());
    column.range();
    column.encoding();
    column.bytes();
    column.estimates();
    column.validity_mask(0);
    column.validity_words(0, rows.min(READ));
    match column.values() {
        Values::Keys(keys) => behaves(&**keys),
        Values::Text(texts) => behaves_as_text(&**texts),
    }
    // Its own bytes are those of a column again.
    let again =
        Column::from_parts(column.to_parts(), data_type, rows).expect("what was opened is opened again");
    assert_eq!((again.rows(), again.nulls(), again.zones()), (rows, column.nulls(), column.zones()));
    drop(column.faster());
}

fn mask_of(rows: usize, passes: impl Fn(usize) -> bool) -> Vec<u64> {
    let mut mask = vec![0; rows.div_ceil(64)];
    (0..rows).filter(|row| passes(*row)).for_each(|row| mask[row / 64] |= 1 << (row % 64));
    mask
}

/// Every way to read a column of keys tells the same.
fn behaves(column: &dyn KeyColumn) {
    let n = column.rows().min(READ);
    let mut keys = vec![0; n];
    column.decode(0, &mut keys);
    assert_eq!([column.get(0), column.get(n - 1)], [keys[0], keys[n - 1]]);
    column.get(column.rows() - 1);
    let places: Vec<u16> = (0..=u16::MAX).take(n).step_by(7).collect();
    let mut few = vec![0; places.len()];
    column.gather(0, &places, &mut few);
    assert!(places.iter().zip(&few).all(|(place, key)| keys[usize::from(*place)] == *key));
    let mut out = vec![0; n.div_ceil(64)];
    let middle = keys[n / 2];
    let mut few = vec![middle, keys[0], 7];
    few.sort_unstable();
    few.dedup();
    let tests = [
        KeyTest::Range { lo: keys[0], hi: i64::MAX },
        KeyTest::Range { lo: i64::MIN, hi: middle },
        KeyTest::Range { lo: middle, hi: middle },
        KeyTest::In(Arc::new(Members::new(few))),
    ];
    for test in tests {
        column.filter(0, n, &test, &mut out);
        assert_eq!(out, mask_of(n, |row| test.passes(keys[row])), "{}", column.name());
    }
    let odd = mask_of(n, |row| row % 3 == 1);
    let chosen = || (0..n).filter(|row| row % 3 == 1).map(|row| keys[row]);
    assert_eq!(column.sum(0, n, None), keys.iter().map(|key| i128::from(*key)).sum());
    assert_eq!(column.sum(0, n, Some(&odd)), chosen().map(i128::from).sum());
    assert_eq!(column.min_max(0, n, None), keys.iter().min().copied().zip(keys.iter().max().copied()));
    assert_eq!(column.min_max(0, n, Some(&odd)), chosen().min().zip(chosen().max()));
}

/// The same of texts.
fn behaves_as_text(column: &dyn TextColumn) {
    let n = column.rows().min(READ);
    let texts = column.decode(0, n, None);
    assert_eq!(texts.len(), n);
    assert_eq!([&*column.get(0), &*column.get(n - 1)], [texts.get(0), texts.get(n - 1)]);
    column.get(column.rows() - 1);
    let picked = column.pick(&[n - 1, 0, n / 2]);
    assert_eq!([picked.get(0), picked.get(1)], [texts.get(n - 1), texts.get(0)]);
    let middle = texts.get(n / 2);
    let members: TextMembers = [Box::from(middle)].into_iter().collect();
    let bound = |text: &str| std::ops::Bound::Included(text.to_owned());
    let tests = [
        TextTest::In(Arc::new(members)),
        TextTest::Range { lo: bound(middle), hi: std::ops::Bound::Unbounded },
    ];
    let mut out = vec![0; n.div_ceil(64)];
    for test in tests {
        column.filter(0, n, &test, None, &mut out);
        assert_eq!(out, mask_of(n, |row| test.passes(texts.get(row))), "{}", column.name());
    }
}
