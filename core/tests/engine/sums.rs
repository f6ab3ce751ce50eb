//! Sums to the bit: floats in the documented order whichever way their rows are read, integers without evaluation.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch,
    cast::AsArray,
    types::{Float64Type, Int64Type},
};
use basalt_core::{
    query::{AggregateFunction, ArithmeticOp, CompareOp, Expr, Filter, Literal, Query},
    schema::{DataType, Field, Schema},
    table::{Appender, Catalog, Table},
};

use super::{aggregate, column, compare, run};

const ROWS: usize = 140_000;

fn wave(row: usize) -> f64 {
    f64::from(u32::try_from(row).unwrap()).sin() * 1e3
}

fn small(row: usize) -> Option<i32> {
    (!row.is_multiple_of(5)).then(|| i32::try_from(row % 1000).unwrap() - 300)
}

/// `part` the row modulo 1000, `wave` a float of many digits, `small` null in every fifth row.
fn table() -> Arc<Table> {
    let schema = Schema::new(vec![
        Field::new("part", DataType::Int32, false),
        Field::new("wave", DataType::Float64, false),
        Field::new("small", DataType::Int32, true),
    ]);
    let table = Catalog::new().create("t", schema.unwrap()).unwrap();
    let part = |row| i32::try_from(row % 1000).unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values((0..ROWS).map(part))),
        Arc::new(Float64Array::from_iter_values((0..ROWS).map(wave))),
        Arc::new(Int32Array::from_iter((0..ROWS).map(small))),
    ];
    let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
    appender.push(&RecordBatch::try_new(table.schema().to_arrow(), columns).unwrap()).unwrap();
    appender.commit().unwrap();
    table
}

fn sum(table: &Table, argument: Expr, filter: Option<Filter>) -> RecordBatch {
    let select = vec![aggregate(AggregateFunction::Sum, Some(argument))];
    run(table, &Query { select, filter, ..Query::default() }).unwrap().0.remove(0)
}

fn int(batch: &RecordBatch) -> i64 {
    batch.column(0).as_primitive::<Int64Type>().value(0)
}

fn arithmetic(op: ArithmeticOp, left: Expr, right: Expr) -> Expr {
    Expr::Arithmetic(op, Box::new(left), Box::new(right))
}

fn literal(value: i64) -> Expr {
    Expr::Literal(Literal::Int(value))
}

/// Eight lanes a chunk, chunks in order within a block, blocks in order.
fn in_order(value: impl Fn(usize) -> Option<f64>) -> f64 {
    let mut sum = 0.0;
    for block in (0..ROWS).collect::<Vec<_>>().chunks(65_536) {
        let mut lanes = [0.0; 8];
        for chunk in block.chunks(64) {
            let mut of_chunk = [0.0; 8];
            for (i, row) in chunk.iter().enumerate() {
                of_chunk[i % 8] += value(*row).unwrap_or(0.0);
            }
            lanes.iter_mut().zip(of_chunk).for_each(|(lane, more)| *lane += more);
        }
        let [a, b, c, d, e, f, g, h] = lanes;
        sum += ((a + e) + (c + g)) + ((b + f) + (d + h));
    }
    sum
}

#[test]
fn floats_add_up_in_order_however_few_they_are() {
    let table = table();
    let value = |batch: &RecordBatch| batch.column(0).as_primitive::<Float64Type>().value(0).to_bits();
    let square = arithmetic(ArithmeticOp::Multiply, column("wave"), column("wave"));
    // 124 are few rows that are more than a batch.
    for parts in [1, 9, 124, 600, 1000] {
        let filter = compare("part", CompareOp::Lt, Literal::Int(parts));
        let selected = |row: usize| row % 1000 < usize::try_from(parts).unwrap();
        let expected = in_order(|row| selected(row).then(|| wave(row)));
        assert_eq!(value(&sum(&table, column("wave"), Some(filter.clone()))), expected.to_bits(), "{parts}");
        let expected = in_order(|row| selected(row).then(|| wave(row) * wave(row)));
        assert_eq!(value(&sum(&table, square.clone(), Some(filter))), expected.to_bits(), "{parts}");
    }
}

#[test]
fn linear_sums_are_those_of_their_rows() {
    let table = table();
    // 2 * (small - 7) - part * 3
    let twice = arithmetic(
        ArithmeticOp::Multiply,
        literal(2),
        arithmetic(ArithmeticOp::Subtract, column("small"), literal(7)),
    );
    let thrice = arithmetic(ArithmeticOp::Multiply, column("part"), literal(3));
    let linear = arithmetic(ArithmeticOp::Subtract, twice, thrice);
    for parts in [3, 500, 1000] {
        let filter = compare("part", CompareOp::Lt, Literal::Int(parts));
        let selected = (0..ROWS).filter(|row| row % 1000 < usize::try_from(parts).unwrap());
        let rows =
            selected.filter_map(|row| Some((i64::from(small(row)?), i64::try_from(row % 1000).unwrap())));
        let expected: i64 = rows.map(|(small, part)| 2 * (small - 7) - part * 3).sum();
        assert_eq!(int(&sum(&table, linear.clone(), Some(filter))), expected);
    }
    // A product of columns is not linear.
    let product = arithmetic(ArithmeticOp::Multiply, column("small"), column("part"));
    let part = |row: usize| i64::try_from(row % 1000).unwrap();
    let expected = (0..ROWS).filter_map(|row| Some(i64::from(small(row)?) * part(row))).sum::<i64>();
    assert_eq!(int(&sum(&table, product, None)), expected);
}

#[test]
fn factors_of_what_is_always_zero_may_be_of_any_size() {
    let schema = Schema::new(vec![Field::new("x", DataType::Int64, false)]).unwrap();
    let table = Catalog::new().create("t", schema).unwrap();
    let five: ArrayRef = Arc::new(Int64Array::from_iter_values([5; 1000]));
    let mut appender = Appender::new(Arc::clone(&table), &[]).unwrap();
    appender.push(&RecordBatch::try_new(table.schema().to_arrow(), vec![five]).unwrap()).unwrap();
    appender.commit().unwrap();
    let literal = |value: i64| Expr::Literal(Literal::Int(value));
    let mut zero = arithmetic(ArithmeticOp::Subtract, column("x"), literal(5));
    for _ in 0..4 {
        zero = arithmetic(ArithmeticOp::Multiply, zero, literal(9_000_000_000_000_000_000));
    }
    assert_eq!(int(&sum(&table, zero, None)), 0);
}
