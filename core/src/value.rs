//! One value, as answers and row-at-a-time evaluation see it.

use std::{cmp::Ordering, sync::Arc};

use crate::{
    error::{Error, ErrorKind, Result},
    invariant::Invariant,
    keys::{self, Native},
    query::{ArithmeticOp, CompareOp},
    schema::DataType,
};

/// A value of any logical type. Integers and decimals are as wide as an exact sum needs.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Value {
    Null,
    Bool(bool),
    Int(i128),
    /// `unscaled * 10^-scale`
    Decimal {
        unscaled: i128,
        scale: u8,
    },
    Float(f64),
    Date(i32),
    Timestamp(i64),
    Text(Arc<str>),
}

impl Value {
    /// The value of a key of a fixed-width type.
    pub fn from_key(key: i64, data_type: DataType) -> Self {
        match data_type {
            DataType::Bool => Self::Bool(key != 0),
            DataType::UInt64 => Self::Int(i128::from(keys::to_u64(key))),
            DataType::Float32 => Self::Float(f64::from(keys::to_f32(key))),
            DataType::Float64 => Self::Float(keys::to_f64(key)),
            DataType::Decimal { scale, .. } => Self::Decimal { unscaled: i128::from(key), scale },
            DataType::Date32 => Self::Date(i32::try_from(key).invariant("the key of a date has 32 bits")),
            DataType::Timestamp => Self::Timestamp(key),
            _ => Self::Int(i128::from(key)),
        }
    }

    /// The key of a value of a fixed-width type in [`Native`]'s own order.
    #[allow(clippy::cast_possible_truncation, reason = "a value of a type fits the type")]
    pub fn to_key(&self, native: Native) -> Option<i64> {
        Some(match self {
            Self::Null | Self::Text(_) => return None,
            Self::Bool(b) => i64::from(*b),
            Self::Int(i) if native == Native::U64 => keys::of_u64(u64::try_from(*i).ok()?),
            Self::Int(i) | Self::Decimal { unscaled: i, .. } => i64::try_from(*i).ok()?,
            Self::Float(f) if native == Native::F32 => keys::of_f32(*f as f32),
            Self::Float(f) => keys::of_f64(*f),
            Self::Date(d) => i64::from(*d),
            Self::Timestamp(t) => *t,
        })
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        *self == Self::Null
    }

    /// As the nearest float64, for numbers.
    pub fn to_f64(&self) -> Option<f64> {
        match self {
            Self::Int(i) => Some(to_f64(*i, 0)),
            Self::Decimal { unscaled, scale } => Some(to_f64(*unscaled, *scale)),
            Self::Float(f) => Some(*f),
            _ => None,
        }
    }
}

/// `unscaled * 10^-scale` as the nearest float64.
#[allow(clippy::cast_precision_loss, reason = "the nearest float is what is asked for")]
pub fn to_f64(unscaled: i128, scale: u8) -> f64 {
    // Two floats that are exact (10^22 is the last such power) have a quotient that is rounded once.
    if scale == 0 || (unscaled.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS && scale <= 22) {
        return unscaled as f64 / 10f64.powi(i32::from(scale));
    }
    format!("{unscaled}e-{scale}").parse().invariant("digits and an exponent are a float")
}

/// `unscaled * 10^-scale` as the nearest float32.
pub fn to_f32(unscaled: i128, scale: u8) -> f32 {
    format!("{unscaled}e-{scale}").parse().invariant("digits and an exponent are a float")
}

/// `10^exponent`; `None` beyond 38.
pub fn pow10(exponent: u8) -> Option<i128> {
    10i128.checked_pow(u32::from(exponent))
}

/// The error of an integer or decimal result that does not fit.
pub fn overflow(what: &str) -> Error {
    Error::new(ErrorKind::Overflow, format!("{what} does not fit its type"))
}

/// The error of a division by zero.
pub fn division_by_zero() -> Error {
    Error::new(ErrorKind::DivisionByZero, "division by zero")
}

/// Integers and decimals as `(unscaled, scale)`.
fn exact(value: &Value) -> Option<(i128, u8)> {
    match value {
        Value::Int(i) => Some((*i, 0)),
        Value::Decimal { unscaled, scale } => Some((*unscaled, *scale)),
        _ => None,
    }
}

/// Two values in SQL's order; `None` when one is null or they do not compare. Numbers of different types
/// compare by their exact values; NaN equals NaN and is above +inf, -0.0 equals 0.0.
pub fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Date(a), Value::Date(b)) => Some(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
        (Value::Date(a), Value::Timestamp(b)) => Some(date_to_timestamp(*a).cmp(&i128::from(*b))),
        (Value::Timestamp(a), Value::Date(b)) => Some(i128::from(*a).cmp(&date_to_timestamp(*b))),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => Some(compare_floats(*a, *b)),
        (Value::Float(f), other) => Some(compare_exact_float(exact(other)?, *f).reverse()),
        (other, Value::Float(f)) => Some(compare_exact_float(exact(other)?, *f)),
        (a, b) => Some(compare_exact(exact(a)?, exact(b)?)),
    }
}

fn date_to_timestamp(days: i32) -> i128 {
    i128::from(days) * 86_400_000_000
}

/// The order of floats: NaN is one value above +inf, -0.0 equals 0.0.
pub fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// `a.0 * 10^-a.1` against `b.0 * 10^-b.1`, exactly.
pub fn compare_exact((a, a_scale): (i128, u8), (b, b_scale): (i128, u8)) -> Ordering {
    let scale = a_scale.max(b_scale);
    let scaled = |v: i128, s: u8| pow10(scale - s).and_then(|p| v.checked_mul(p));
    match (scaled(a, a_scale), scaled(b, b_scale)) {
        (Some(a), Some(b)) => a.cmp(&b),
        // One is too large to scale up, so it is the larger in magnitude.
        (None, _) => a.cmp(&0),
        (_, None) => 0.cmp(&b),
    }
}

/// `unscaled * 10^-scale` against a float, exactly for integers and decimals without places; another decimal compares with
/// the shortest decimal that reads back as the float (what a person wrote: 0.05 equals 0.05).
pub fn compare_exact_float((unscaled, scale): (i128, u8), float: f64) -> Ordering {
    if float.is_nan() || float == f64::INFINITY {
        return Ordering::Less;
    }
    if float == f64::NEG_INFINITY {
        return Ordering::Greater;
    }
    // Far apart the nearest float decides; the error of either side is many times smaller.
    let near = to_f64(unscaled, scale);
    if (near - float).abs() > 1e-9 * near.abs().max(float.abs()) {
        return near.total_cmp(&float);
    }
    let (floor, is_exact) = floor_of_float(float, scale);
    unscaled.cmp(&floor).then(if is_exact { Ordering::Equal } else { Ordering::Less })
}

/// The largest `n` with `n * 10^-scale <= float` for a finite float, and whether they are equal; the float
/// is taken as its shortest decimal when `scale > 0`. Saturates at the ends of i128.
#[allow(clippy::cast_possible_truncation, reason = "the cast saturates")]
pub fn floor_of_float(float: f64, scale: u8) -> (i128, bool) {
    if scale == 0 {
        let floor = float.floor();
        return (floor as i128, floor == float);
    }
    let text = format!("{float}");
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.as_str()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let (kept, rest) = fraction.split_at(fraction.len().min(usize::from(scale)));
    let number = format!("{whole}{kept:0<width$}", width = usize::from(scale));
    let Ok(number) = number.parse::<i128>() else {
        return (if negative { i128::MIN } else { i128::MAX }, false);
    };
    let is_exact = rest.bytes().all(|b| b == b'0');
    match (negative, is_exact) {
        (false, _) => (number, is_exact),
        (true, true) => (-number, true),
        (true, false) => (-number - 1, false),
    }
}

/// Whether `a op b`, given their order.
pub fn holds(op: CompareOp, order: Ordering) -> bool {
    match op {
        CompareOp::Eq => order.is_eq(),
        CompareOp::Ne => order.is_ne(),
        CompareOp::Lt => order.is_lt(),
        CompareOp::Le => order.is_le(),
        CompareOp::Gt => order.is_gt(),
        CompareOp::Ge => order.is_ge(),
    }
}

/// `a op b` on values; null when one of them is. The result's type follows [`crate::plan`]'s rules.
///
/// # Errors
/// [`ErrorKind::Overflow`] (beyond 64 bits for integers and decimals of rows, 128 above aggregates) and
/// [`ErrorKind::DivisionByZero`].
pub fn arithmetic(op: ArithmeticOp, a: &Value, b: &Value) -> Result<Value> {
    if a.is_null() || b.is_null() {
        return Ok(Value::Null);
    }
    let result = match (op, exact(a), exact(b)) {
        (ArithmeticOp::Divide, ..) | (_, None, _) | (_, _, None) => {
            let (Some(a), Some(b)) = (a.to_f64(), b.to_f64()) else {
                return Err(Error::new(ErrorKind::TypeMismatch, "arithmetic takes numbers"));
            };
            return Ok(Value::Float(float_arithmetic(op, a, b)?));
        }
        (ArithmeticOp::Multiply, Some((a, a_scale)), Some((b, b_scale))) => {
            a.checked_mul(b).map(|v| (v, a_scale + b_scale))
        }
        (op, Some((a, a_scale)), Some((b, b_scale))) => {
            let scale = a_scale.max(b_scale);
            let scaled = |v: i128, s: u8| pow10(scale - s).and_then(|p| v.checked_mul(p));
            match (scaled(a, a_scale), scaled(b, b_scale)) {
                (Some(a), Some(b)) if op == ArithmeticOp::Add => a.checked_add(b),
                (Some(a), Some(b)) => a.checked_sub(b),
                _ => None,
            }
            .map(|v| (v, scale))
        }
    };
    let (unscaled, scale) = result.ok_or_else(|| overflow("the result of an operation"))?;
    Ok(match (a, b) {
        (Value::Int(_), Value::Int(_)) => Value::Int(unscaled),
        _ => Value::Decimal { unscaled, scale },
    })
}

/// [`arithmetic`] on the values of a row: integers and decimals are 64 bits wide, before and after.
///
/// # Errors
/// Those of [`arithmetic`].
pub fn row_arithmetic(op: ArithmeticOp, a: &Value, b: &Value) -> Result<Value> {
    let fits = |value: &Value| exact(value).is_none_or(|(v, _)| i64::try_from(v).is_ok());
    let result = arithmetic(op, a, b)?;
    let exact_result = matches!(result, Value::Int(_) | Value::Decimal { .. });
    if exact_result && !(fits(a) && fits(b) && fits(&result)) {
        return Err(overflow("the result of an operation"));
    }
    Ok(result)
}

/// `a op b` on floats.
///
/// # Errors
/// [`ErrorKind::DivisionByZero`].
pub fn float_arithmetic(op: ArithmeticOp, a: f64, b: f64) -> Result<f64> {
    Ok(match op {
        ArithmeticOp::Add => a + b,
        ArithmeticOp::Subtract => a - b,
        ArithmeticOp::Multiply => a * b,
        ArithmeticOp::Divide if b == 0.0 => return Err(division_by_zero()),
        ArithmeticOp::Divide => a / b,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_become_the_nearest_float() {
        assert_eq!(to_f64(10_357_019_999_999_999, 15), 10.357_019_999_999_999);
        assert_eq!(to_f64(-5, 2), -0.05);
        assert_eq!(to_f64(1, 38), 1e-38);
        assert_eq!(to_f64(i128::MAX, 0), 2f64.powi(127));
    }

    #[test]
    fn numbers_compare_exactly() {
        let max = Value::Int(i128::from(i64::MAX));
        // As floats these two would be equal.
        assert_eq!(compare(&max, &Value::Float(9_223_372_036_854_775_808.0)), Some(Ordering::Less));
        let cents = |unscaled| Value::Decimal { unscaled, scale: 2 };
        assert_eq!(compare(&cents(5), &Value::Float(0.05)), Some(Ordering::Equal));
        assert_eq!(compare(&cents(-5), &Value::Float(-0.051)), Some(Ordering::Greater));
        assert_eq!(compare(&cents(300), &Value::Int(3)), Some(Ordering::Equal));
        assert_eq!(compare(&Value::Float(f64::NAN), &Value::Float(f64::INFINITY)), Some(Ordering::Greater));
        assert_eq!(compare(&Value::Float(-0.0), &Value::Float(0.0)), Some(Ordering::Equal));
        assert_eq!(compare(&Value::Float(f64::NAN), &max), Some(Ordering::Greater));
        assert_eq!(compare(&Value::Null, &max), None);
    }

    #[test]
    fn floors_of_floats() {
        assert_eq!(floor_of_float(2.5, 0), (2, false));
        assert_eq!(floor_of_float(-2.5, 0), (-3, false));
        assert_eq!(floor_of_float(0.05, 2), (5, true));
        assert_eq!(floor_of_float(-0.055, 2), (-6, false));
        assert_eq!(floor_of_float(1e300, 2), (i128::MAX, false));
    }

    #[test]
    fn decimals_keep_their_scale() {
        let price = Value::Decimal { unscaled: 1050, scale: 2 };
        let rate = Value::Decimal { unscaled: 5, scale: 2 };
        let one_less = arithmetic(ArithmeticOp::Subtract, &Value::Int(1), &rate).unwrap();
        assert_eq!(one_less, Value::Decimal { unscaled: 95, scale: 2 });
        let product = arithmetic(ArithmeticOp::Multiply, &price, &one_less).unwrap();
        assert_eq!(product, Value::Decimal { unscaled: 99_750, scale: 4 });
        assert_eq!(arithmetic(ArithmeticOp::Divide, &price, &Value::Int(4)).unwrap(), Value::Float(2.625));
        let zero = arithmetic(ArithmeticOp::Divide, &price, &Value::Int(0)).unwrap_err();
        assert_eq!(zero.kind(), ErrorKind::DivisionByZero);
    }
}
