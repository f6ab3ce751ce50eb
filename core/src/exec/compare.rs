//! Comparisons of expressions, to mask words. Where both sides become integers or floats without loss, the kernels
//! compare whole vectors; elsewhere each row is compared exactly.

use std::cmp::Ordering;

use basalt_kernels::CmpOp;

use super::{
    arithmetic::Side,
    vector::{Batch, Data, Vector, intersect},
};
use crate::{
    invariant::{Invariant, broken},
    mask::selects,
    plan::expr::scale_of,
    query::CompareOp,
    schema::DataType,
    value::{self, Value, compare_exact, compare_exact_float, compare_floats, pow10},
};

/// What [`range_of`] has seen to.
const SCALED: &str = "what is scaled are integers that fit their common unit";

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;
/// Integers up to this are floats.
const EXACT: i64 = 1 << f64::MANTISSA_DIGITS;

/// What the integers of a side are: decimals of a scale, or dates that meet timestamps.
#[derive(Clone, Copy)]
struct Unit {
    scale: u8,
    days: bool,
}

impl Unit {
    /// What integers are multiplied by to be decimals of a larger scale, or microseconds.
    fn factor(self, scale: u8) -> Option<i64> {
        let factor = i64::try_from(pow10(scale - self.scale)?).ok()?;
        factor.checked_mul(if self.days { DAY } else { 1 })
    }
}

impl<'a> Batch<'a, '_> {
    /// The selected rows whose values are not null and compare so.
    pub(super) fn compare(
        &self,
        op: CompareOp,
        left: Vector<'a>,
        right: Vector<'a>,
        types: (Option<DataType>, Option<DataType>),
    ) -> Vec<u64> {
        let valid = intersect(left.valid.clone(), right.valid.clone());
        let valid = valid.as_deref();
        let units = units_of(types);
        if let (Data::Texts(_) | Data::One(Value::Text(_)), _) = (&left.data, &right.data) {
            return self.collect(valid, |row| {
                text(&left.data, row)
                    .zip(text(&right.data, row))
                    .is_some_and(|(a, b)| value::holds(op, a.cmp(b)))
            });
        }
        let scale = units.0.scale.max(units.1.scale);
        let ranges = (range_of(&left, units.0.factor(scale)), range_of(&right, units.1.factor(scale)));
        let passes = match (&left.data, ranges.0, &right.data, ranges.1) {
            // No difference overflows.
            (_, Some(a), _, Some(b)) if a.0.checked_sub(b.1).is_some() && a.1.checked_sub(b.0).is_some() => {
                let (a, b) = (self.scaled(left, units.0, scale), self.scaled(right, units.1, scale));
                self.compare_ints(op, a, b)
            }
            (a, a_range, b, b_range) if is_exact(a, a_range, units.0) && is_exact(b, b_range, units.1) => {
                let (a, b) = (self.floats_of(left.data, 0), self.floats_of(right.data, 0));
                self.compare_floats(op, a, b)
            }
            _ => {
                return self.collect(valid, |row| holds(op, (&left.data, &right.data), units, row));
            }
        };
        let mut out = passes;
        if let Some(selected) = self.mask_of(valid) {
            basalt_kernels::mask::and(&mut out, &selected);
        }
        out
    }

    /// Integers in a common unit, which all of them fit.
    fn scaled(&self, vector: Vector<'_>, unit: Unit, scale: u8) -> Side<i64> {
        let factor = unit.factor(scale).invariant(SCALED);
        let side = match vector.data {
            Data::Ints(values) => Side::Many(values),
            Data::One(value) => {
                Side::One(integer(&value).and_then(|v| i64::try_from(v).ok()).invariant(SCALED))
            }
            Data::UInts(_) | Data::Floats(_) | Data::Texts(_) => broken(SCALED),
        };
        if factor == 1 { side } else { side.zip(Side::One(factor), i64::wrapping_mul).0 }
    }

    fn compare_ints(&self, op: CompareOp, a: Side<i64>, b: Side<i64>) -> Vec<u64> {
        let kernel = kernel_op(op);
        let mut out = vec![0; self.selected().len()];
        match (a, b) {
            (Side::Many(a), Side::One(b)) => {
                basalt_kernels::compare(kernel, &a, b, &mut out);
                self.give(Data::Ints(a));
            }
            (Side::One(a), Side::Many(b)) => {
                basalt_kernels::compare(mirrored(kernel), &b, a, &mut out);
                self.give(Data::Ints(b));
            }
            (Side::Many(mut a), Side::Many(b)) => {
                a.iter_mut().zip(&b).for_each(|(a, b)| *a = a.wrapping_sub(*b));
                basalt_kernels::compare(kernel, &a, 0, &mut out);
                [a, b].into_iter().for_each(|ints| self.give(Data::Ints(ints)));
            }
            (Side::One(a), Side::One(b)) => out = self.collect(None, |_| value::holds(op, a.cmp(&b))),
        }
        out
    }

    fn compare_floats(&self, op: CompareOp, a: Side<f64>, b: Side<f64>) -> Vec<u64> {
        let kernel = kernel_op(op);
        let mut out = vec![0; self.selected().len()];
        match (a, b) {
            (Side::Many(a), Side::One(b)) => {
                basalt_kernels::compare(kernel, &a, b, &mut out);
                self.give(Data::Floats(a));
            }
            (Side::One(a), Side::Many(b)) => {
                basalt_kernels::compare(mirrored(kernel), &b, a, &mut out);
                self.give(Data::Floats(b));
            }
            (Side::Many(a), Side::Many(b)) => {
                // A difference has the sign of the order, gradual underflow included; NaN says nothing.
                let mut differences = self.float_buffer();
                for (difference, (a, b)) in differences.iter_mut().zip(a.iter().zip(&b)) {
                    *difference = a - b;
                }
                basalt_kernels::is_nan(&differences, &mut out);
                if self.any(&out) {
                    out = self.collect(None, |row| value::holds(op, compare_floats(a[row], b[row])));
                } else {
                    basalt_kernels::compare(kernel, &differences, 0.0, &mut out);
                }
                [a, b, differences].into_iter().for_each(|floats| self.give(Data::Floats(floats)));
            }
            (Side::One(a), Side::One(b)) => {
                out = self.collect(None, |_| value::holds(op, compare_floats(a, b)));
            }
        }
        out
    }
}

/// The rows, of so many, whose values are not null and compare so; of what is no batch. None of them is a text.
pub(super) fn compare_rows(
    op: CompareOp,
    left: &Vector<'_>,
    right: &Vector<'_>,
    types: (Option<DataType>, Option<DataType>),
    rows: usize,
) -> Vec<u64> {
    let valid = intersect(left.valid.clone(), right.valid.clone());
    let units = units_of(types);
    let mut out = vec![0; rows.div_ceil(64)];
    for row in 0..rows {
        let passes = selects(valid.as_deref(), row) && holds(op, (&left.data, &right.data), units, row);
        out[row / 64] |= u64::from(passes) << (row % 64);
    }
    out
}

fn units_of(types: (Option<DataType>, Option<DataType>)) -> (Unit, Unit) {
    let is_date = |t: Option<DataType>| t == Some(DataType::Date32);
    let mixed = is_date(types.0) != is_date(types.1);
    let unit = |t| Unit { scale: scale_of(t), days: mixed && is_date(t) };
    (unit(types.0), unit(types.1))
}

/// Whether the numbers of a row compare so, exactly.
fn holds(op: CompareOp, (left, right): (&Data<'_>, &Data<'_>), units: (Unit, Unit), row: usize) -> bool {
    let order = order(number(left, row, units.0), number(right, row, units.1));
    order.is_some_and(|order| value::holds(op, order))
}

/// The range of integers in a unit, where they fit it.
fn range_of(vector: &Vector<'_>, factor: Option<i64>) -> Option<(i64, i64)> {
    let (lo, hi) = match &vector.data {
        Data::Ints(values) => vector.range.or_else(|| basalt_kernels::min_max(values))?,
        Data::One(value) => integer(value).and_then(|v| i64::try_from(v).ok()).map(|v| (v, v))?,
        Data::UInts(_) | Data::Floats(_) | Data::Texts(_) => return None,
    };
    Some((lo.checked_mul(factor?)?, hi.checked_mul(factor?)?))
}

/// Whether values are floats, or integers that are floats without loss.
fn is_exact(data: &Data<'_>, range: Option<(i64, i64)>, unit: Unit) -> bool {
    match data {
        Data::Floats(_) | Data::One(Value::Float(_)) => true,
        _ => unit.scale == 0 && !unit.days && range.is_some_and(|(lo, hi)| lo >= -EXACT && hi <= EXACT),
    }
}

/// A literal as an integer in its own unit.
fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Int(v) | Value::Decimal { unscaled: v, .. } => Some(*v),
        Value::Bool(v) => Some((*v).into()),
        Value::Date(v) => Some((*v).into()),
        Value::Timestamp(v) => Some((*v).into()),
        Value::Null | Value::Float(_) | Value::Text(_) => None,
    }
}

fn text<'v>(data: &'v Data<'_>, row: usize) -> Option<&'v str> {
    match data {
        Data::Texts(texts) => Some(texts.get(row)),
        Data::One(Value::Text(text)) => Some(text),
        _ => None,
    }
}

enum Number {
    Exact((i128, u8)),
    Float(f64),
}

fn number(data: &Data<'_>, row: usize, unit: Unit) -> Option<Number> {
    let days = if unit.days { i128::from(DAY) } else { 1 };
    Some(match data {
        Data::Ints(v) => Number::Exact((i128::from(v[row]) * days, unit.scale)),
        Data::UInts(v) => Number::Exact((i128::from(v[row]), 0)),
        Data::Floats(v) => Number::Float(v[row]),
        Data::One(Value::Float(v)) => Number::Float(*v),
        Data::One(Value::Decimal { unscaled, scale }) => Number::Exact((*unscaled, *scale)),
        Data::One(value) => Number::Exact((integer(value)? * days, 0)),
        Data::Texts(_) => return None,
    })
}

fn order(a: Option<Number>, b: Option<Number>) -> Option<Ordering> {
    Some(match (a?, b?) {
        (Number::Exact(a), Number::Exact(b)) => compare_exact(a, b),
        (Number::Float(a), Number::Float(b)) => compare_floats(a, b),
        (Number::Exact(a), Number::Float(b)) => compare_exact_float(a, b),
        (Number::Float(a), Number::Exact(b)) => compare_exact_float(b, a).reverse(),
    })
}

fn kernel_op(op: CompareOp) -> CmpOp {
    match op {
        CompareOp::Eq => CmpOp::Eq,
        CompareOp::Ne => CmpOp::Ne,
        CompareOp::Lt => CmpOp::Lt,
        CompareOp::Le => CmpOp::Le,
        CompareOp::Gt => CmpOp::Gt,
        CompareOp::Ge => CmpOp::Ge,
    }
}

/// The comparison with its sides exchanged.
fn mirrored(op: CmpOp) -> CmpOp {
    match op {
        CmpOp::Lt => CmpOp::Gt,
        CmpOp::Le => CmpOp::Ge,
        CmpOp::Gt => CmpOp::Lt,
        CmpOp::Ge => CmpOp::Le,
        op => op,
    }
}
