//! A column of a fixed-width type against a literal: which keys pass.
//!
//! Every comparison is a range of keys. It is exact for any pair of numeric types: `int8 < 2.5` is
//! `int8 <= 2`, and a literal outside the type's range selects all or nothing.

use crate::{
    encoding::KeyTest,
    error::{Error, ErrorKind, Result},
    invariant::Invariant,
    keys,
    query::{CompareOp, Literal},
    schema::DataType,
    time,
    value::{floor_of_float, pow10},
};

/// Where a literal stands among the keys of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The smallest key whose value is not below the literal; beyond the last key if there is none.
    lower: i128,
    /// The largest key whose value is not above the literal; before the first key if there is none.
    upper: i128,
}

fn mismatch(data_type: DataType, literal: &Literal) -> Error {
    let what = match literal {
        Literal::Text(text) => {
            let shown: String = text.chars().take(40).collect();
            format!("the text '{shown}'")
        }
        other => super::expr::literal_type(other).map_or("null".into(), |t| format!("a literal of type {t}")),
    };
    Error::new(ErrorKind::TypeMismatch, format!("a column of type {data_type} does not compare with {what}"))
}

/// The least and the greatest key of a type.
fn key_range(data_type: DataType) -> (i64, i64) {
    match data_type {
        DataType::Bool => (0, 1),
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 | DataType::Date32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::Float32 => (keys::of_f32(f32::NEG_INFINITY), keys::of_f32(f32::NAN)),
        DataType::Float64 => (keys::of_f64(f64::NEG_INFINITY), keys::of_f64(f64::NAN)),
        _ => (i64::MIN, i64::MAX),
    }
}

impl Position {
    /// Where `literal` (not null) stands in a column of `data_type`.
    ///
    /// # Errors
    /// [`ErrorKind::TypeMismatch`].
    pub(super) fn of(literal: &Literal, data_type: DataType) -> Result<Self> {
        match data_type {
            DataType::Bool => match literal {
                Literal::Bool(b) => Ok(Self::exactly(i128::from(*b))),
                _ => Err(mismatch(data_type, literal)),
            },
            DataType::Date32 => match literal {
                Literal::Date(days) => Ok(Self::exactly(i128::from(*days))),
                Literal::Text(text) => time::parse_date(text)
                    .map(|days| Self::exactly(i128::from(days)))
                    .ok_or_else(|| mismatch(data_type, literal)),
                Literal::Timestamp(micros) => Ok(Self::ratio(i128::from(*micros), 86_400_000_000)),
                _ => Err(mismatch(data_type, literal)),
            },
            DataType::Timestamp => match literal {
                Literal::Timestamp(micros) => Ok(Self::exactly(i128::from(*micros))),
                Literal::Date(days) => Ok(Self::exactly(i128::from(*days) * 86_400_000_000)),
                Literal::Text(text) => time::parse_timestamp(text)
                    .map(|micros| Self::exactly(i128::from(micros)))
                    .ok_or_else(|| mismatch(data_type, literal)),
                _ => Err(mismatch(data_type, literal)),
            },
            DataType::Float32 | DataType::Float64 => Self::of_float(literal, data_type),
            DataType::Utf8 => Err(mismatch(data_type, literal)),
            _ => Self::of_number(literal, data_type),
        }
    }

    fn exactly(key: i128) -> Self {
        Self { lower: key, upper: key }
    }

    /// `numerator / denominator` among the integers.
    fn ratio(numerator: i128, denominator: i128) -> Self {
        let floor = numerator.div_euclid(denominator);
        Self { lower: floor + i128::from(numerator.rem_euclid(denominator) != 0), upper: floor }
    }

    /// Integers and decimals: the literal times the column's scale, among the integers.
    fn of_number(literal: &Literal, data_type: DataType) -> Result<Self> {
        let (scale, is_decimal) = match data_type {
            DataType::Decimal { scale, .. } => (scale, true),
            _ => (0, false),
        };
        // No integer is written as a text.
        let is_number = is_decimal || !matches!(literal, Literal::Text(_));
        let found = if is_number { floor_among(literal, scale) } else { None };
        let (floor, is_exact) = found.ok_or_else(|| mismatch(data_type, literal))?;
        // What is far beyond all keys stays there, with room for one more or less.
        let upper = floor.clamp(i128::MIN / 2, i128::MAX / 2);
        let values = Self { lower: upper + i128::from(!is_exact), upper };
        Ok(match data_type {
            // The key of a uint64 is the value less 2^63.
            DataType::UInt64 => Self { lower: values.lower - (1 << 63), upper: values.upper - (1 << 63) },
            _ => values,
        })
    }

    fn of_float(literal: &Literal, data_type: DataType) -> Result<Self> {
        if let (Literal::Decimal { unscaled, scale }, DataType::Float32) = (literal, data_type) {
            // What a person wrote as 0.1 is the float32 that reads as 0.1.
            #[allow(clippy::cast_possible_truncation, reason = "the nearest float32 is asked for")]
            let nearest = crate::value::to_f64(*unscaled, *scale) as f32;
            return Self::of_float(&Literal::Float(f64::from(nearest)), data_type);
        }
        // The literal as a float64 that is at most it, and one that is at least it.
        let (below, above) = match literal {
            Literal::Float(f) => (*f, *f),
            Literal::Int(i) => around(i128::from(*i), 0),
            Literal::UInt(u) => around(i128::from(*u), 0),
            Literal::Decimal { unscaled, scale } => around(*unscaled, *scale),
            _ => return Err(mismatch(data_type, literal)),
        };
        let key = |f: f64, up: bool| -> i128 {
            let key = if data_type == DataType::Float64 { keys::of_f64(f) } else { key_of_f32(f, up) };
            i128::from(key)
        };
        let (mut lower, mut upper) = (key(above, true), key(below, false));
        // -0.0 and 0.0 are equal: a bound on either covers both.
        let (zero, negative_zero) = (0, -1);
        if lower == zero || lower == negative_zero {
            lower = negative_zero;
        }
        if upper == zero || upper == negative_zero {
            upper = zero;
        }
        Ok(Self { lower, upper })
    }

    /// The keys that `key op literal` passes: a range, and whether it is the others that pass.
    pub(super) fn test(self, op: CompareOp, data_type: DataType) -> (KeyTest, bool) {
        let (first, last) = key_range(data_type);
        let (first, last) = (i128::from(first), i128::from(last));
        let (lo, hi) = match op {
            CompareOp::Eq | CompareOp::Ne => (self.lower, self.upper),
            CompareOp::Lt => (first, self.lower - 1),
            CompareOp::Le => (first, self.upper),
            CompareOp::Gt => (self.upper + 1, last),
            CompareOp::Ge => (self.lower, last),
        };
        let (lo, hi) = (lo.max(first), hi.min(last));
        // An empty range in a form that fits i64 whatever the bounds were.
        let (lo, hi) = if lo > hi { (1, 0) } else { (lo, hi) };
        let narrow = |key: i128| i64::try_from(key).invariant("the keys of a type have 64 bits");
        (KeyTest::Range { lo: narrow(lo), hi: narrow(hi) }, op == CompareOp::Ne)
    }

    /// The key that equals the literal, where there is exactly one.
    pub(super) fn key(self, data_type: DataType) -> Option<(i64, i64)> {
        match self.test(CompareOp::Eq, data_type) {
            (KeyTest::Range { lo, hi }, _) if lo <= hi => Some((lo, hi)),
            _ => None,
        }
    }
}

/// The greatest `n` for which `n * 10^-scale` is not above a number, and whether it is equal; `None`: it is no number. What is far
/// beyond all decimals stays there.
pub(crate) fn floor_among(literal: &Literal, scale: u8) -> Option<(i128, bool)> {
    let (unscaled, given) = match literal {
        Literal::Int(value) => (i128::from(*value), 0),
        Literal::UInt(value) => (i128::from(*value), 0),
        Literal::Decimal { unscaled, scale } => (*unscaled, *scale),
        Literal::Text(text) => parse_decimal(text)?,
        Literal::Float(f) if f.is_nan() || *f == f64::INFINITY => return Some((i128::MAX, false)),
        Literal::Float(f) if *f == f64::NEG_INFINITY => return Some((i128::MIN, false)),
        Literal::Float(f) => return Some(floor_of_float(*f, scale)),
        _ => return None,
    };
    let (up, down) = (pow10(scale.saturating_sub(given)), pow10(given.saturating_sub(scale)));
    let Some((up, down)) = up.zip(down) else {
        // More decimal places than any decimal has: between two of them, unless it is 0.
        return Some((-i128::from(unscaled < 0), unscaled == 0));
    };
    // One of the two is 1.
    let scaled = unscaled.saturating_mul(up);
    Some((scaled.div_euclid(down), scaled.rem_euclid(down) == 0))
}

/// The nearest float64 values around `unscaled * 10^-scale`: equal when a float is exact. A decimal counts as
/// the float that a person means by it: the nearest one.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the error is corrected below"
)]
fn around(unscaled: i128, scale: u8) -> (f64, f64) {
    if scale > 0 {
        let nearest = crate::value::to_f64(unscaled, scale);
        return (nearest, nearest);
    }
    let nearest = unscaled as f64;
    match (nearest as i128).cmp(&unscaled) {
        std::cmp::Ordering::Less => (nearest, nearest.next_up()),
        std::cmp::Ordering::Equal => (nearest, nearest),
        std::cmp::Ordering::Greater => (nearest.next_down(), nearest),
    }
}

/// The key of the float32 nearest to a float64 on one side of it.
#[allow(clippy::cast_possible_truncation, reason = "the error is corrected below")]
fn key_of_f32(value: f64, up: bool) -> i64 {
    let nearest = value as f32;
    let wide = f64::from(nearest);
    let nearest = match up {
        _ if value.is_nan() || wide == value => nearest,
        true if wide < value => nearest.next_up(),
        false if wide > value => nearest.next_down(),
        _ => nearest,
    };
    keys::of_f32(nearest)
}

/// `-12.50` as `(-1250, 2)`; at most 38 digits.
pub(super) fn parse_decimal(text: &str) -> Option<(i128, u8)> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || all.len() > 38 || !all.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let unscaled: i128 = all.parse().ok()?;
    Some((if negative { -unscaled } else { unscaled }, u8::try_from(fraction.len()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(data_type: DataType, op: CompareOp, literal: Literal, expected: (i64, i64)) {
        let (test, _) = Position::of(&literal, data_type).unwrap().test(op, data_type);
        let range = if let KeyTest::Range { lo, hi } = test { Some((lo, hi)) } else { None };
        assert_eq!(range, Some(expected), "{data_type} {op:?} {literal:?}");
    }

    const NONE: (i64, i64) = (1, 0);

    #[test]
    fn integers() {
        use CompareOp::*;
        let t = DataType::Int8;
        check(t, Eq, Literal::Int(5), (5, 5));
        check(t, Lt, Literal::Float(2.5), (-128, 2));
        check(t, Ge, Literal::Float(2.5), (3, 127));
        check(t, Gt, Literal::Float(-2.5), (-2, 127));
        check(t, Eq, Literal::Float(2.5), NONE);
        check(t, Lt, Literal::Int(1000), (-128, 127));
        check(t, Gt, Literal::Int(1000), NONE);
        check(t, Ge, Literal::Int(-1000), (-128, 127));
        check(t, Le, Literal::Decimal { unscaled: 199, scale: 2 }, (-128, 1));
        check(t, Lt, Literal::Float(f64::NAN), (-128, 127));
        check(t, Eq, Literal::Float(f64::INFINITY), NONE);
        check(t, Gt, Literal::Float(f64::NEG_INFINITY), (-128, 127));
        check(DataType::UInt64, Ge, Literal::Int(-1), (i64::MIN, i64::MAX));
        check(DataType::UInt64, Eq, Literal::UInt(u64::MAX), (i64::MAX, i64::MAX));
        check(DataType::UInt64, Lt, Literal::Int(1), (i64::MIN, i64::MIN));
        check(DataType::Int64, Le, Literal::UInt(u64::MAX), (i64::MIN, i64::MAX));
        check(DataType::Int64, Gt, Literal::Float(9.3e18), NONE);
        // All 38 digits are of the literal, most of them behind the point.
        check(DataType::Int64, Eq, Literal::Decimal { unscaled: 99 * 10_i128.pow(36), scale: 36 }, (99, 99));
    }

    #[test]
    fn decimals_and_times() {
        use CompareOp::*;
        let t = DataType::Decimal { precision: 12, scale: 2 };
        check(t, Eq, Literal::Float(0.05), (5, 5));
        check(t, Eq, Literal::Text("0.050".into()), (5, 5));
        check(t, Lt, Literal::Int(24), (i64::MIN, 2399));
        check(t, Ge, Literal::Decimal { unscaled: 55, scale: 3 }, (6, i64::MAX));
        check(t, Gt, Literal::Text("9".repeat(38)), NONE);
        check(t, Lt, Literal::Text("9".repeat(38)), (i64::MIN, i64::MAX));
        check(t, Lt, Literal::Text(format!("-{}", "9".repeat(38))), NONE);
        check(t, Gt, Literal::Decimal { unscaled: 1, scale: 200 }, (1, i64::MAX));
        check(DataType::Date32, Ge, Literal::Text("1970-01-11".into()), (10, i32::MAX.into()));
        check(DataType::Date32, Gt, Literal::Timestamp(1), (1, i32::MAX.into()));
        check(DataType::Timestamp, Lt, Literal::Date(1), (i64::MIN, 86_400_000_000 - 1));
        assert!(Position::of(&Literal::Text("x".into()), DataType::Date32).is_err());
        assert!(Position::of(&Literal::Int(1), DataType::Bool).is_err());
    }

    #[test]
    fn floats() {
        use CompareOp::*;
        let t = DataType::Float64;
        let (inf, nan) = (keys::of_f64(f64::NEG_INFINITY), keys::of_f64(f64::NAN));
        check(t, Eq, Literal::Int(0), (-1, 0));
        check(t, Lt, Literal::Float(0.0), (inf, -2));
        check(t, Ge, Literal::Float(-0.0), (-1, nan));
        check(t, Eq, Literal::Float(f64::NAN), (nan, nan));
        check(t, Lt, Literal::Float(f64::NAN), (inf, nan - 1));
        check(t, Gt, Literal::Float(f64::INFINITY), {
            let up = keys::of_f64(f64::INFINITY) + 1;
            (up, nan)
        });
        // 2^53 + 1 is no float64.
        check(t, Eq, Literal::Int((1 << 53) + 1), NONE);
        check(t, Lt, Literal::Int((1 << 53) + 1), (inf, keys::of_f64(9_007_199_254_740_992.0)));
        let tenth = keys::of_f32(0.1);
        check(DataType::Float32, Eq, Literal::Decimal { unscaled: 1, scale: 1 }, (tenth, tenth));
        // The float64 0.1 is no float32: nothing equals it.
        check(DataType::Float32, Eq, Literal::Float(0.1), NONE);
        check(DataType::Float32, Eq, Literal::Float(0.5), (keys::of_f32(0.5), keys::of_f32(0.5)));
    }
}
