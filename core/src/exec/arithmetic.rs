//! Arithmetic over batches: loops over whole vectors, in place. Where the statistics of a block show that nothing can
//! overflow, nothing is checked; elsewhere an overflow counts only where a row is selected and not null.

use basalt_kernels::{IntOp, combine, combine_one};

use super::vector::{Batch, Data, Vector, intersect};
use crate::{
    error::{Error, ErrorKind, Result},
    invariant::{Invariant, broken},
    plan::expr::scale_of,
    query::ArithmeticOp,
    schema::DataType,
    value::{self, Value, pow10},
};

/// One side of an operation.
pub(super) enum Side<T> {
    Many(Vec<T>),
    One(T),
}

impl<T: Copy> Side<T> {
    pub(super) fn get(&self, row: usize) -> T {
        match self {
            Self::Many(values) => values[row],
            Self::One(value) => *value,
        }
    }

    /// Whether any of the pairs passes.
    fn any(&self, other: &Self, passes: impl Fn(T, T) -> bool) -> bool {
        // Without a way out in the middle, so that the loop is one of vectors.
        match (self, other) {
            (Self::Many(a), Self::Many(b)) => a.iter().zip(b).fold(false, |any, (a, b)| any | passes(*a, *b)),
            (Self::Many(a), Self::One(b)) => a.iter().fold(false, |any, a| any | passes(*a, *b)),
            (Self::One(a), Self::Many(b)) => b.iter().fold(false, |any, b| any | passes(*a, *b)),
            (Self::One(a), Self::One(b)) => passes(*a, *b),
        }
    }

    /// `op` of each pair, in place of one side; the other is left over.
    pub(super) fn zip(self, other: Self, op: impl Fn(T, T) -> T) -> (Self, Self) {
        match (self, other) {
            (Self::Many(mut a), Self::Many(b)) => {
                a.iter_mut().zip(&b).for_each(|(a, b)| *a = op(*a, *b));
                (Self::Many(a), Self::Many(b))
            }
            (Self::Many(mut a), Self::One(b)) => {
                a.iter_mut().for_each(|a| *a = op(*a, b));
                (Self::Many(a), Self::One(b))
            }
            (Self::One(a), Self::Many(mut b)) => {
                b.iter_mut().for_each(|b| *b = op(a, *b));
                (Self::Many(b), Self::One(a))
            }
            (Self::One(a), Self::One(b)) => (Self::One(op(a, b)), Self::One(b)),
        }
    }
}

impl Side<i64> {
    /// `self op other`, which wraps, in place of one side; the other is left over.
    fn combine(self, op: ArithmeticOp, other: Self) -> (Self, Self) {
        let (with, from) = match op {
            ArithmeticOp::Add => (IntOp::Add, IntOp::Add),
            ArithmeticOp::Subtract => (IntOp::Subtract, IntOp::SubtractFrom),
            _ => (IntOp::Multiply, IntOp::Multiply),
        };
        match (self, other) {
            (Self::Many(mut a), Self::Many(b)) => {
                combine(with, &mut a, &b);
                (Self::Many(a), Self::Many(b))
            }
            (Self::Many(mut a), Self::One(b)) => {
                combine_one(with, &mut a, b);
                (Self::Many(a), Self::One(b))
            }
            (Self::One(a), Self::Many(mut b)) => {
                combine_one(from, &mut b, a);
                (Self::Many(b), Self::One(a))
            }
            (Self::One(mut a), Self::One(b)) => {
                combine_one(with, std::slice::from_mut(&mut a), b);
                (Self::One(a), Self::One(b))
            }
        }
    }
}

/// What plans see to.
const NUMBERS: &str = "what becomes floats are numbers";

/// Integers, and a range that holds those that are not null.
struct Ints {
    side: Side<i64>,
    range: Option<(i64, i64)>,
}

impl<'a> Batch<'a, '_> {
    /// `left op right`, of this type.
    pub(super) fn arithmetic(
        &self,
        op: ArithmeticOp,
        left: Vector<'a>,
        right: Vector<'a>,
        types: (Option<DataType>, Option<DataType>),
        data_type: DataType,
    ) -> Result<Vector<'a>> {
        if let (Data::One(Value::Null), _) | (_, Data::One(Value::Null)) = (&left.data, &right.data) {
            return Ok(Vector::one(Value::Null));
        }
        if let (Data::One(a), Data::One(b)) = (&left.data, &right.data) {
            return Ok(Vector::one(value::row_arithmetic(op, a, b)?));
        }
        let valid = intersect(left.valid.clone(), right.valid.clone());
        let scales = (scale_of(types.0), scale_of(types.1));
        if data_type == DataType::Float64 {
            let (a, b) = (self.floats_of(left.data, scales.0), self.floats_of(right.data, scales.1));
            return Ok(Vector::new(self.float_arithmetic(op, a, b, valid.as_deref())?, valid));
        }
        // Addition and subtraction meet at the larger scale.
        let up = |scale: u8| match (op, data_type) {
            (ArithmeticOp::Multiply, _) => 0,
            (_, DataType::Decimal { scale: to, .. }) => to - scale,
            _ => 0,
        };
        let a = self.ints_of(left, up(scales.0), valid.as_deref())?;
        let b = self.ints_of(right, up(scales.1), valid.as_deref())?;
        let Ints { side, range } = self.int_arithmetic(op, a, b, valid.as_deref())?;
        let data = match side {
            Side::Many(ints) => Data::Ints(ints),
            Side::One(value) => Data::One(Value::Int(value.into())),
        };
        Ok(Vector { data, valid, range })
    }

    fn float_arithmetic(
        &self,
        op: ArithmeticOp,
        a: Side<f64>,
        b: Side<f64>,
        valid: Option<&[u64]>,
    ) -> Result<Data<'a>> {
        let zero = |row: usize| b.get(row) == 0.0;
        if op == ArithmeticOp::Divide
            && b.any(&Side::One(0.0), |b, zero| b == zero)
            && self.collect(valid, zero).iter().any(|word| *word != 0)
        {
            return Err(value::division_by_zero());
        }
        let (out, rest) = match op {
            ArithmeticOp::Add => a.zip(b, |a, b| a + b),
            ArithmeticOp::Subtract => a.zip(b, |a, b| a - b),
            ArithmeticOp::Multiply => a.zip(b, |a, b| a * b),
            ArithmeticOp::Divide => a.zip(b, |a, b| a / b),
        };
        if let Side::Many(rest) = rest {
            self.give(Data::Floats(rest));
        }
        Ok(match out {
            Side::Many(floats) => Data::Floats(floats),
            Side::One(float) => Data::One(Value::Float(float)),
        })
    }

    fn int_arithmetic(&self, op: ArithmeticOp, a: Ints, b: Ints, valid: Option<&[u64]>) -> Result<Ints> {
        let range = a.range.zip(b.range).and_then(|(a, b)| range_of(op, a, b));
        let (a, b) = (a.side, b.side);
        let overflows = |a: i64, b: i64| match op {
            // The signs of both are the same, and not that of the result.
            ArithmeticOp::Add => (a ^ a.wrapping_add(b)) & (b ^ a.wrapping_add(b)) < 0,
            ArithmeticOp::Subtract => (a ^ b) & (a ^ a.wrapping_sub(b)) < 0,
            _ => a.overflowing_mul(b).1,
        };
        if range.is_none()
            && a.any(&b, overflows)
            && self.collect(valid, |row| overflows(a.get(row), b.get(row))).iter().any(|word| *word != 0)
        {
            return Err(value::overflow("the result of an operation"));
        }
        let (side, rest) = a.combine(op, b);
        if let Side::Many(rest) = rest {
            self.give(Data::Ints(rest));
        }
        Ok(Ints { side, range })
    }

    /// As unscaled integers, times `10^up`.
    fn ints_of(&self, vector: Vector<'_>, up: u8, valid: Option<&[u64]>) -> Result<Ints> {
        let any = |passes: &dyn Fn(usize) -> bool| self.collect(valid, passes).iter().any(|word| *word != 0);
        let ints = match vector.data {
            Data::Ints(ints) => Ints { side: Side::Many(ints), range: vector.range },
            Data::UInts(uints) => {
                if any(&|row| i64::try_from(uints[row]).is_err()) {
                    return Err(value::overflow("a uint64 in arithmetic"));
                }
                Ints { side: Side::Many(uints.into_iter().map(u64::cast_signed).collect()), range: None }
            }
            Data::One(Value::Int(v) | Value::Decimal { unscaled: v, .. }) => {
                let fits = i64::try_from(v);
                if fits.is_err() && any(&|_| true) {
                    return Err(value::overflow("a literal in arithmetic"));
                }
                // Default: no row is there that would have it.
                let v = fits.unwrap_or(0);
                Ints { side: Side::One(v), range: Some((v, v)) }
            }
            Data::Floats(_) | Data::Texts(_) | Data::One(_) => return Err(not_numbers()),
        };
        if up == 0 {
            return Ok(ints);
        }
        let factor =
            pow10(up).and_then(|f| i64::try_from(f).ok()).ok_or_else(|| value::overflow("a scale"))?;
        let factor = Ints { side: Side::One(factor), range: Some((factor, factor)) };
        self.int_arithmetic(ArithmeticOp::Multiply, ints, factor, valid)
    }

    pub(super) fn floats_of(&self, data: Data<'_>, scale: u8) -> Side<f64> {
        let out = || self.float_buffer();
        match data {
            Data::Floats(floats) => Side::Many(floats),
            Data::Ints(ints) => {
                let mut out = out();
                if scale == 0 {
                    #[allow(clippy::cast_precision_loss, reason = "the nearest float is what is asked for")]
                    out.iter_mut().zip(&ints).for_each(|(out, v)| *out = *v as f64);
                } else {
                    let float = |v: &i64| value::to_f64(i128::from(*v), scale);
                    out.iter_mut().zip(&ints).for_each(|(out, v)| *out = float(v));
                }
                self.give(Data::Ints(ints));
                Side::Many(out)
            }
            Data::UInts(uints) => {
                let mut out = out();
                #[allow(clippy::cast_precision_loss, reason = "the nearest float is what is asked for")]
                out.iter_mut().zip(&uints).for_each(|(out, v)| *out = *v as f64);
                Side::Many(out)
            }
            Data::One(value) => Side::One(value.to_f64().invariant(NUMBERS)),
            Data::Texts(_) => broken(NUMBERS),
        }
    }
}

/// The range of the results, where none of them can overflow.
pub(super) fn range_of(op: ArithmeticOp, a: (i64, i64), b: (i64, i64)) -> Option<(i64, i64)> {
    let wide = |(lo, hi): (i64, i64)| (i128::from(lo), i128::from(hi));
    let (a, b) = (wide(a), wide(b));
    let (lo, hi) = match op {
        ArithmeticOp::Add => (a.0 + b.0, a.1 + b.1),
        ArithmeticOp::Subtract => (a.0 - b.1, a.1 - b.0),
        _ => {
            let corners = [a.0 * b.0, a.0 * b.1, a.1 * b.0, a.1 * b.1];
            corners.into_iter().fold((i128::MAX, i128::MIN), |(lo, hi), v| (lo.min(v), hi.max(v)))
        }
    };
    Some((i64::try_from(lo).ok()?, i64::try_from(hi).ok()?))
}

pub(super) fn not_numbers() -> Error {
    Error::new(ErrorKind::TypeMismatch, "arithmetic takes numbers")
}
