//! One value, its order, and its way in and out of Arrow: written a second time, so that it shares no mistake with
//! the engine.

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, StringArray, TimestampMicrosecondArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
    cast::AsArray,
    types::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
        TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use basalt_core::schema::DataType;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i128),
    /// `.0 * 10^-.1`
    Decimal(i128, u8),
    /// Of 64 bits, or of 32 and widened.
    Float(f64),
    Date(i32),
    Timestamp(i64),
    Text(String),
    /// A sum or average in floats: any order of addition is right. The sum, and that of the finite magnitudes.
    About(f64, f64),
}

impl Value {
    /// Whether a column of this type may hold the value; null none does for certain.
    pub(crate) fn fits(&self, data_type: DataType) -> bool {
        match (self, data_type) {
            (Self::Int(v), DataType::Int8) => i8::try_from(*v).is_ok(),
            (Self::Int(v), DataType::Int16) => i16::try_from(*v).is_ok(),
            (Self::Int(v), DataType::Int32) => i32::try_from(*v).is_ok(),
            (Self::Int(v), DataType::Int64) => i64::try_from(*v).is_ok(),
            (Self::Int(v), DataType::UInt8) => u8::try_from(*v).is_ok(),
            (Self::Int(v), DataType::UInt16) => u16::try_from(*v).is_ok(),
            (Self::Int(v), DataType::UInt32) => u32::try_from(*v).is_ok(),
            (Self::Int(v), DataType::UInt64) => u64::try_from(*v).is_ok(),
            (Self::Decimal(v, s), DataType::Decimal { precision, scale }) => {
                *s == scale && v.unsigned_abs() < 10_u128.pow(precision.into())
            }
            (Self::Bool(_), DataType::Bool)
            | (Self::Date(_), DataType::Date32)
            | (Self::Timestamp(_), DataType::Timestamp)
            | (Self::Text(_), DataType::Utf8) => true,
            _ => false,
        }
    }

    /// The integer that its 64-bit id stands for, where it has one.
    pub(crate) fn integer(&self) -> Option<i128> {
        match self {
            Self::Bool(v) => Some((*v).into()),
            Self::Int(v) | Self::Decimal(v, _) => Some(*v),
            Self::Date(v) => Some((*v).into()),
            Self::Timestamp(v) => Some((*v).into()),
            Self::Null | Self::Float(_) | Self::Text(_) | Self::About(..) => None,
        }
    }
}

/// The order of values that compare: nulls equal each other and come last.
pub(crate) fn order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Greater,
        (_, Value::Null) => Ordering::Less,
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Date(a), Value::Date(b)) => a.cmp(b),
        (Value::Date(_) | Value::Timestamp(_), Value::Date(_) | Value::Timestamp(_)) => {
            micros(a).cmp(&micros(b))
        }
        (Value::Float(a), Value::Float(b)) => order_floats(*a, *b),
        (Value::Float(a), b) => order_exact_float(b, *a).reverse(),
        (a, Value::Float(b)) => order_exact_float(a, *b),
        (a, b) => order_decimals(&digits(a), &digits(b)),
    }
}

fn micros(value: &Value) -> i128 {
    match value {
        Value::Date(days) => i128::from(*days) * 24 * 60 * 60 * 1_000_000,
        Value::Timestamp(micros) => i128::from(*micros),
        other => panic!("{other:?} is no time"),
    }
}

fn order_floats(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) if a < b => Ordering::Less,
        (false, false) if a > b => Ordering::Greater,
        (false, false) => Ordering::Equal,
    }
}

/// Integers, and decimals without places, by the float's exact value, other decimals by its shortest decimal.
fn order_exact_float(exact: &Value, float: f64) -> Ordering {
    if float.is_nan() || float == f64::INFINITY {
        Ordering::Less
    } else if float == f64::NEG_INFINITY {
        Ordering::Greater
    } else if let Value::Decimal(_, 1..) = exact {
        order_decimals(&digits(exact), &float.to_string())
    } else {
        let whole = float.trunc();
        let rest = float - whole;
        order_decimals(&digits(exact), &format!("{whole:.0}")).then(order_floats(0.0, rest))
    }
}

/// An integer or decimal as digits with a point.
pub(crate) fn digits(value: &Value) -> String {
    match value {
        Value::Int(int) => int.to_string(),
        Value::Decimal(unscaled, 0) => unscaled.to_string(),
        Value::Decimal(unscaled, scale) => {
            let scale = usize::from(*scale);
            let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
            let sign = if *unscaled < 0 { "-" } else { "" };
            format!("{sign}{}.{}", &digits[..digits.len() - scale], &digits[digits.len() - scale..])
        }
        other => panic!("{other:?} is no exact number"),
    }
}

/// Two decimals by their digits.
fn order_decimals(a: &str, b: &str) -> Ordering {
    fn parts(text: &str) -> (bool, &str, &str) {
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        (negative && !(whole.is_empty() && fraction.is_empty()), whole, fraction)
    }
    let ((a_negative, a_whole, a_fraction), (b_negative, b_whole, b_fraction)) = (parts(a), parts(b));
    let magnitude =
        a_whole.len().cmp(&b_whole.len()).then(a_whole.cmp(b_whole)).then(a_fraction.cmp(b_fraction));
    match (a_negative, b_negative) {
        (true, true) => magnitude.reverse(),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => magnitude,
    }
}

/// Whether an answer's value is the expected one. Floats are equal by value; zeros have no sign.
pub(crate) fn agrees(expected: &Value, actual: &Value) -> bool {
    match (expected, actual) {
        (Value::About(sum, magnitude), Value::Float(actual)) => {
            // Finite values that add up to infinity may or may not do so on the way.
            !magnitude.is_finite()
                || order_floats(*sum, *actual).is_eq()
                || (sum - actual).abs() <= magnitude * 1e-9
        }
        (Value::Float(expected), Value::Float(actual)) => order_floats(*expected, *actual).is_eq(),
        (expected, actual) => expected == actual,
    }
}

macro_rules! array {
    ($array:ty, $values:expr, $pattern:pat => $value:expr) => {
        Arc::new(
            $values
                .map(|value| match value {
                    Value::Null => None,
                    $pattern => Some($value),
                    other => panic!("{other:?} in a {}", stringify!($array)),
                })
                .collect::<$array>(),
        )
    };
}

/// Values of one type as an array.
pub(crate) fn to_array<'a>(values: impl Iterator<Item = &'a Value>, data_type: DataType) -> ArrayRef {
    macro_rules! ints {
        ($array:ty) => {
            array!($array, values, Value::Int(v) => (*v).try_into().unwrap())
        };
    }
    match data_type {
        DataType::Bool => array!(BooleanArray, values, Value::Bool(v) => *v),
        DataType::Int8 => ints!(Int8Array),
        DataType::Int16 => ints!(Int16Array),
        DataType::Int32 => ints!(Int32Array),
        DataType::Int64 => ints!(Int64Array),
        DataType::UInt8 => ints!(UInt8Array),
        DataType::UInt16 => ints!(UInt16Array),
        DataType::UInt32 => ints!(UInt32Array),
        DataType::UInt64 => ints!(UInt64Array),
        #[allow(clippy::cast_possible_truncation, reason = "it was widened from 32 bits")]
        DataType::Float32 => array!(Float32Array, values, Value::Float(v) => *v as f32),
        DataType::Float64 => array!(Float64Array, values, Value::Float(v) => *v),
        DataType::Decimal { precision, scale } => {
            let unscaled = values.map(|value| match value {
                Value::Null => None,
                Value::Decimal(unscaled, _) => Some(*unscaled),
                other => panic!("{other:?} in a decimal"),
            });
            let array: Decimal128Array = unscaled.collect();
            Arc::new(array.with_precision_and_scale(precision, scale.try_into().unwrap()).unwrap())
        }
        DataType::Date32 => array!(Date32Array, values, Value::Date(v) => *v),
        DataType::Timestamp => {
            let micros = values.map(|value| match value {
                Value::Null => None,
                Value::Timestamp(micros) => Some(*micros),
                other => panic!("{other:?} in a timestamp"),
            });
            Arc::new(micros.collect::<TimestampMicrosecondArray>().with_timezone("UTC"))
        }
        DataType::Utf8 => array!(StringArray, values, Value::Text(v) => v.clone()),
    }
}

/// One value of an array of an answer.
pub(crate) fn from_array(array: &ArrayRef, row: usize, data_type: DataType) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    macro_rules! int {
        ($type:ty) => {
            Value::Int(array.as_primitive::<$type>().value(row).into())
        };
    }
    match data_type {
        DataType::Bool => Value::Bool(array.as_boolean().value(row)),
        DataType::Int8 => int!(Int8Type),
        DataType::Int16 => int!(Int16Type),
        DataType::Int32 => int!(Int32Type),
        DataType::Int64 => int!(Int64Type),
        DataType::UInt8 => int!(UInt8Type),
        DataType::UInt16 => int!(UInt16Type),
        DataType::UInt32 => int!(UInt32Type),
        DataType::UInt64 => int!(UInt64Type),
        DataType::Float32 => Value::Float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal { scale, .. } => {
            Value::Decimal(array.as_primitive::<Decimal128Type>().value(row), scale)
        }
        DataType::Date32 => Value::Date(array.as_primitive::<Date32Type>().value(row)),
        DataType::Timestamp => Value::Timestamp(array.as_primitive::<TimestampMicrosecondType>().value(row)),
        DataType::Utf8 => Value::Text(array.as_string::<i32>().value(row).to_owned()),
    }
}
