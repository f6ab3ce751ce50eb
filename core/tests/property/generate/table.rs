//! Tables of every type, in shapes that make each encoding worth its while.

use basalt_core::{
    encoding,
    schema::{DataType, Field, Optimize, Reference},
};
use rand::{
    Rng,
    rngs::StdRng,
    seq::{IndexedRandom, SliceRandom},
};

use super::{one_in, weighted};
use crate::{
    INNER,
    value::{Value, order},
};

/// What a table holds, and by which writes.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    pub(crate) fields: Vec<Field>,
    pub(crate) rows: Vec<Vec<Value>>,
    /// Whether each of them is deleted after its commit.
    pub(crate) deleted: Vec<bool>,
    /// Rows of each commit.
    pub(crate) commits: Vec<usize>,
    /// The table that semi-joins are about, beside this one.
    pub(crate) inner: Option<Box<Contents>>,
}

impl Contents {
    /// The version that shows all rows but those deleted.
    pub(crate) fn version(&self) -> u64 {
        let mut rest = self.deleted.as_slice();
        let changes = self.commits.iter().map(|rows| {
            let deleted;
            (deleted, rest) = rest.split_at(*rows);
            u64::from(*rows > 0) + u64::from(deleted.contains(&true))
        });
        changes.sum()
    }

    /// The rows that are not deleted.
    pub(crate) fn live(&self) -> Vec<Vec<Value>> {
        let rows = self.rows.iter().zip(&self.deleted);
        rows.filter(|(_, deleted)| !**deleted).map(|(row, _)| row.clone()).collect()
    }
}

/// A random table, often with another for semi-joins.
pub(crate) fn contents(rng: &mut StdRng) -> Contents {
    let commits: Vec<usize> = (0..weighted(rng, &[(6, 1), (2, 2), (1, 4)])).map(|_| row_count(rng)).collect();
    let n = commits.iter().sum();
    let width = if n > 10_000 { rng.random_range(1..4) } else { rng.random_range(1..9) };
    let fields: Vec<Field> = (0..width).map(|i| field(rng, i)).collect();
    let columns: Vec<Vec<Value>> = fields.iter().map(|field| column(rng, field, n)).collect();
    let rows = (0..n).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect();
    let deleted = deleted(rng, n);
    let mut contents = Contents { fields, rows, deleted, commits, inner: None };
    if one_in(rng, 2) {
        let mut inner = inner(rng, &contents);
        if one_in(rng, 2) {
            refer(rng, &mut contents, &mut inner);
        }
        contents.inner = Some(Box::new(inner));
    }
    contents
}

/// Adds a key to the inner table, and a column to the outer one that refers to it.
fn refer(rng: &mut StdRng, outer: &mut Contents, inner: &mut Contents) {
    let types = [DataType::Int16, DataType::Int32, DataType::UInt32, DataType::Int64, DataType::UInt64];
    let (key_type, data_type) = match rng.random_range(0..6) {
        0 => (DataType::Date32, DataType::Date32),
        1 => (DataType::Timestamp, DataType::Timestamp),
        _ => (*types.choose(rng).unwrap(), integer(rng)),
    };
    let of = |integer: i64| match key_type {
        DataType::Date32 => Value::Date(integer.try_into().unwrap()),
        DataType::Timestamp => Value::Timestamp(integer),
        _ => Value::Int(integer.into()),
    };
    // Close together, or far apart.
    let first = if rng.random() { rng.random_range(0..100) } else { 0 };
    let wide = matches!(key_type, DataType::Int64 | DataType::UInt64 | DataType::Timestamp);
    let step = if wide && one_in(rng, 3) { 1 << 40 } else { rng.random_range(1..4) };
    let mut keys: Vec<Value> = (0..).take(inner.rows.len()).map(|i| of(first + i * step)).collect();
    keys.shuffle(rng);
    let (nulls, strangers) = (rng.random_range(0..4), rng.random_range(0..4));
    for key in &mut keys {
        if rng.random_ratio(nulls, 20) {
            *key = Value::Null;
        }
    }
    let refers = |rng: &mut StdRng| match keys.choose(rng).filter(|key| key.fits(data_type)) {
        Some(key) if !rng.random_ratio(strangers, 20) => key.clone(),
        _ if one_in(rng, 3) => Value::Null,
        _ => {
            let is_tame = rng.random();
            value(rng, data_type, is_tame)
        }
    };
    // One row each, or runs of a few.
    let longest = if one_in(rng, 3) { 7 } else { 1 };
    let mut referring = Vec::new();
    while referring.len() < outer.rows.len() {
        let length = rng.random_range(1..=longest).min(outer.rows.len() - referring.len());
        referring.extend(std::iter::repeat_n(refers(rng), length));
    }
    inner.fields.push(Field::new("key", key_type, true));
    inner.rows.iter_mut().zip(keys).for_each(|(row, key)| row.push(key));
    let references = Some(Reference { table: INNER.to_owned(), column: "key".to_owned() });
    outer.fields.push(Field { references, ..Field::new("ref", data_type, true) });
    outer.rows.iter_mut().zip(referring).for_each(|(row, value)| row.push(value));
}

/// A table with a column for each of another, of a type whose values may be the same.
fn inner(rng: &mut StdRng, outer: &Contents) -> Contents {
    let commits: Vec<usize> = (0..weighted(rng, &[(5, 1), (1, 2)]))
        .map(|_| match rng.random_range(0..10) {
            0 => 0,
            1..9 => rng.random_range(1..40),
            _ => rng.random_range(40..3000),
        })
        .collect();
    let n: usize = commits.iter().sum();
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (i, of) in outer.fields.iter().enumerate() {
        let mut field = field(rng, i);
        if of.data_type.is_integer() {
            field.data_type = integer(rng);
        } else if !one_in(rng, 10) {
            field.data_type = of.data_type;
        }
        field.encoding = field.encoding.filter(|name| encoding::check_forced(name, field.data_type).is_ok());
        // None, some, or many of the values are those of the outer column.
        let shared = rng.random_range(0..=4);
        let mut values = column(rng, &field, n);
        for value in values.iter_mut().filter(|value| **value != Value::Null) {
            if rng.random_ratio(shared, 4)
                && let Some(row) = outer.rows.choose(rng)
                && row[i].fits(field.data_type)
            {
                *value = row[i].clone();
            }
        }
        fields.push(field);
        columns.push(values);
    }
    let rows = (0..n).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect();
    Contents { fields, rows, deleted: deleted(rng, n), commits, inner: None }
}

/// Which of `n` rows are deleted: as a rule none; some here and there, or stretches of them.
fn deleted(rng: &mut StdRng, n: usize) -> Vec<bool> {
    let share = weighted(rng, &[(6, 0), (2, 1), (2, 10), (1, 19), (1, 20)]);
    if one_in(rng, 2) {
        return (0..n).map(|_| rng.random_ratio(share, 20)).collect();
    }
    let mut rows = Vec::with_capacity(n);
    while rows.len() < n {
        let length = rng.random_range(1..=n.div_ceil(4)).min(n - rows.len());
        rows.extend(std::iter::repeat_n(rng.random_ratio(share, 20), length));
    }
    rows
}

/// A type of integers.
pub(super) fn integer(rng: &mut StdRng) -> DataType {
    let integers: Vec<_> = DataType::KINDS.into_iter().filter(|kind| kind.is_integer()).collect();
    *integers.choose(rng).unwrap()
}

fn row_count(rng: &mut StdRng) -> usize {
    match rng.random_range(0..1000) {
        0..10 => 0,
        10..700 => rng.random_range(1..30),
        700..960 => rng.random_range(30..300),
        960..998 => rng.random_range(4_000..9_000),
        _ => rng.random_range(65_500..140_000),
    }
}

fn field(rng: &mut StdRng, i: usize) -> Field {
    let precision = rng.random_range(1..=18);
    let decimal = DataType::Decimal { precision, scale: rng.random_range(0..=precision) };
    let types = [
        (2, DataType::Bool),
        (1, DataType::Int8),
        (1, DataType::Int16),
        (2, DataType::Int32),
        (3, DataType::Int64),
        (1, DataType::UInt8),
        (1, DataType::UInt16),
        (1, DataType::UInt32),
        (2, DataType::UInt64),
        (2, DataType::Float32),
        (3, DataType::Float64),
        (3, decimal),
        (2, DataType::Date32),
        (2, DataType::Timestamp),
        (4, DataType::Utf8),
    ];
    let mut field = Field::new(format!("c{i}"), weighted(rng, &types), one_in(rng, 2));
    field.optimize = Optimize::ALL[i % 3];
    if one_in(rng, 2) {
        let keys = encoding::KEY_ENCODINGS.iter().map(|encoding| encoding.name());
        let texts = encoding::TEXT_ENCODINGS.iter().map(|encoding| encoding.name());
        let names: Vec<&str> =
            keys.chain(texts).filter(|name| encoding::check_forced(name, field.data_type).is_ok()).collect();
        field.encoding = names.choose(rng).map(|name| (*name).to_owned());
    }
    field
}

/// How the values of a column come.
#[derive(Clone, Copy)]
enum Shape {
    Constant,
    Few,
    Runs,
    Sorted,
    Skewed,
    Any,
}

fn column(rng: &mut StdRng, field: &Field, n: usize) -> Vec<Value> {
    let shapes = [
        (1, Shape::Constant),
        (3, Shape::Few),
        (2, Shape::Runs),
        (2, Shape::Sorted),
        (2, Shape::Skewed),
        (3, Shape::Any),
    ];
    let shape = weighted(rng, &shapes);
    // Tame columns have values that arithmetic can bear.
    let is_tame = rng.random_ratio(3, 5);
    let pool: Vec<Value> =
        (0..if one_in(rng, 4) { 300 } else { 7 }).map(|_| value(rng, field.data_type, is_tame)).collect();
    let mut values = Vec::with_capacity(n);
    while values.len() < n {
        let value = match shape {
            Shape::Constant => pool[0].clone(),
            Shape::Few | Shape::Runs => pool.choose(rng).unwrap().clone(),
            Shape::Skewed if !one_in(rng, 50) => pool[0].clone(),
            _ => value(rng, field.data_type, is_tame),
        };
        let length = if let Shape::Runs = shape { rng.random_range(1..=n.div_ceil(10)) } else { 1 };
        values.extend(std::iter::repeat_n(value, length.min(n - values.len())));
    }
    if let Shape::Sorted = shape {
        values.sort_by(order);
    }
    if field.nullable {
        // Of 20; none and all are among them.
        let nulls = weighted(rng, &[(2, 0), (6, 1), (4, 6), (2, 14), (1, 20)]);
        for value in &mut values {
            if rng.random_ratio(nulls, 20) {
                *value = Value::Null;
            }
        }
    }
    values
}

/// A value of a type; a tame one is small.
#[allow(clippy::cast_possible_truncation, reason = "float32 values are made of float64 ones")]
pub(super) fn value(rng: &mut StdRng, data_type: DataType, is_tame: bool) -> Value {
    let mut int = |min: i128, max: i128| {
        let (low, high) = (min.max(-20), max.min(20));
        Value::Int(match rng.random_range(0..10) {
            _ if is_tame => rng.random_range(low..=high),
            0 => min,
            1 => max,
            2 => 0,
            3..6 => rng.random_range(low..=high),
            _ => rng.random_range(min..=max),
        })
    };
    match data_type {
        DataType::Bool => Value::Bool(rng.random()),
        DataType::Int8 => int(i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => int(i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => int(i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => int(i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => int(0, u8::MAX.into()),
        DataType::UInt16 => int(0, u16::MAX.into()),
        DataType::UInt32 => int(0, u32::MAX.into()),
        DataType::UInt64 => int(0, u64::MAX.into()),
        DataType::Decimal { precision, scale } => {
            let most = 10_i128.pow(precision.into()) - 1;
            match int(-most, most) {
                Value::Int(unscaled) => Value::Decimal(unscaled, scale),
                other => other,
            }
        }
        DataType::Date32 => match int(i32::MIN.into(), i32::MAX.into()) {
            Value::Int(days) => Value::Date(days.try_into().unwrap()),
            other => other,
        },
        DataType::Timestamp => {
            let factor = if one_in(rng, 2) { 86_400_000_000 } else { 1 };
            let micros = if is_tame || one_in(rng, 2) {
                rng.random_range(-20..=20) * factor
            } else {
                *[i64::MIN, i64::MAX, 0, rng.random()].choose(rng).unwrap()
            };
            Value::Timestamp(micros)
        }
        DataType::Float64 => {
            Value::Float(float(rng, is_tame, &[f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, 0.1]))
        }
        DataType::Float32 => {
            let most = f64::from(f32::MAX);
            let float = float(rng, is_tame, &[most, -most, f32::MIN_POSITIVE.into(), 0.1]);
            Value::Float(f64::from(float as f32))
        }
        DataType::Utf8 => Value::Text(text(rng)),
    }
}

fn float(rng: &mut StdRng, is_tame: bool, extremes: &[f64]) -> f64 {
    let specials = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN];
    match rng.random_range(0..12) {
        0 => -0.0,
        1..7 => f64::from(rng.random_range(-40..=40)) / 4.0,
        7 if !is_tame => *specials.choose(rng).unwrap(),
        8 if !is_tame => *extremes.choose(rng).unwrap(),
        9 if !is_tame => f64::from_bits(rng.random()),
        _ => f64::from(rng.random_range(-1000..=1000)) / 100.0,
    }
}

fn text(rng: &mut StdRng) -> String {
    let alphabet = ['a', 'b', 'c', '%', '_', '\\', 'é', '\u{10ffff}', ' ', '\''];
    let length = weighted(rng, &[(1, 0), (6, 2), (3, 4), (1, 40)]);
    let n = rng.random_range(0..=length);
    let mut char = || {
        let any = *alphabet.choose(rng).unwrap();
        weighted(rng, &[(8, 'a'), (4, 'b'), (1, any)])
    };
    (0..n).map(|_| char()).collect()
}
