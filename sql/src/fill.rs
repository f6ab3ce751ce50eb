//! `fill(value ORDER BY key)`: what is NULL is put on the line between the nearest values that are known before and behind
//! it in the order of the key, and at the ends on the line through the two nearest.

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{
    Array as _, ArrayRef, Decimal128Array, Float64Array,
    cast::AsArray as _,
    types::{Decimal128Type, Float64Type, Int64Type},
};
use arrow_schema::{DataType, Field, FieldRef};
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::compute::cast,
    common::Result,
    logical_expr::{
        LimitEffect, PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl,
        function::{PartitionEvaluatorArgs, WindowUDFFieldArgs},
    },
    physical_plan::PhysicalExpr,
};

use crate::error::Error;

/// What `fill(value ORDER BY key) OVER (...)` is rewritten to: `basalt_fill(value, key) OVER (PARTITION BY ...)`.
pub(crate) const NAME: &str = "basalt_fill";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Fill {
    signature: Signature,
}

/// The function.
pub(crate) fn function() -> WindowUDF {
    WindowUDF::from(Fill { signature: Signature::any(2, Volatility::Immutable) })
}

impl WindowUDFImpl for Fill {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(&self, _: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Lines))
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        // Default: of what has no type nothing is known.
        let value = args.get_input_field(0).map_or(DataType::Null, |field| field.data_type().clone());
        Ok(Arc::new(Field::new(args.name(), value, true)))
    }

    /// A row that is left out may be one of the two that a line goes through.
    fn limit_effect(&self, _: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

#[derive(Debug)]
struct Lines;

impl PartitionEvaluator for Lines {
    fn evaluate_all(&mut self, args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
        filled(&args[0], &args[1])
    }
}

/// Values or keys, as what distances are taken of.
enum Numbers {
    Whole(Vec<Option<i128>>),
    Float(Vec<Option<f64>>),
}

impl Numbers {
    /// Decimals without their point, and times by their units.
    fn of(array: &ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Float16 | DataType::Float32 | DataType::Float64 => {
                let floats = cast(array, &DataType::Float64)?;
                let finite = |x: Option<f64>| x.filter(|x| x.is_finite());
                Self::Float(floats.as_primitive::<Float64Type>().iter().map(finite).collect())
            }
            DataType::Decimal128(..) => Self::Whole(array.as_primitive::<Decimal128Type>().iter().collect()),
            data_type if data_type.is_integer() => {
                let whole = cast(array, &DataType::Decimal128(38, 0))?;
                Self::Whole(whole.as_primitive::<Decimal128Type>().iter().collect())
            }
            DataType::Null => Self::Whole(vec![None; array.len()]),
            DataType::Date32 | DataType::Time32(_) => {
                Self::times(&cast(&cast(array, &DataType::Int32)?, &DataType::Int64)?)
            }
            DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) => {
                Self::times(&cast(array, &DataType::Int64)?)
            }
            other => {
                let message = format!("fill takes numbers or times in an order of such, not {other}");
                return Err(Error::new(ErrorKind::TypeMismatch, message).into());
            }
        })
    }

    fn times(units: &ArrayRef) -> Self {
        Self::Whole(units.as_primitive::<Int64Type>().iter().map(|x| x.map(i128::from)).collect())
    }

    /// Whether it is there, and finite.
    fn is_known(&self, row: usize) -> bool {
        match self {
            Self::Whole(values) => values[row].is_some(),
            Self::Float(values) => values[row].is_some(),
        }
    }

    fn order(&self, a: usize, b: usize) -> Ordering {
        match self {
            Self::Whole(values) => values[a].cmp(&values[b]),
            // Default: none is NaN.
            Self::Float(values) => values[a].partial_cmp(&values[b]).unwrap_or(Ordering::Equal),
        }
    }

    /// Half the way from one row to another, which fits where the whole way does not.
    #[expect(clippy::cast_precision_loss, reason = "a part of a way is a float")]
    fn half(&self, from: usize, to: usize) -> f64 {
        match self {
            Self::Whole(values) => match (values[from], values[to]) {
                (Some(from), Some(to)) => to
                    .checked_sub(from)
                    .map_or_else(|| to as f64 / 2.0 - from as f64 / 2.0, |way| way as f64 / 2.0),
                _ => f64::NAN,
            },
            Self::Float(values) => match (values[from], values[to]) {
                (Some(from), Some(to)) => to / 2.0 - from / 2.0,
                _ => f64::NAN,
            },
        }
    }
}

/// The rows whose line a row is on, and how far it is on the way from the first to the second; `None`: nothing is known.
fn place(keys: &Numbers, known: &[usize], row: usize) -> Option<(usize, usize, f64)> {
    let behind = known.partition_point(|known| keys.order(*known, row) == Ordering::Less);
    let last = known.len().checked_sub(1)?;
    let first = behind.saturating_sub(1).min(last.saturating_sub(1));
    let (a, b) = (known[first], known[(first + 1).min(last)]);
    let way = keys.half(a, row) / keys.half(a, b);
    // Of two with the same key the nearer one counts.
    let nearest = if behind > last { b } else { a };
    Some(if way.is_finite() { (a, b, way) } else { (nearest, nearest, 0.0) })
}

#[expect(clippy::cast_possible_truncation, reason = "what does not fit is none")]
fn filled(values: &ArrayRef, keys: &ArrayRef) -> Result<ArrayRef> {
    let (numbers, keys) = (Numbers::of(values)?, Numbers::of(keys)?);
    let mut known: Vec<usize> =
        (0..values.len()).filter(|row| keys.is_known(*row) && numbers.is_known(*row)).collect();
    known.sort_by(|a, b| keys.order(*a, *b));
    let line = |row: usize| match values.is_null(row) && keys.is_known(row) {
        true => place(&keys, &known, row),
        false => None,
    };
    let data_type = values.data_type();
    match &numbers {
        Numbers::Float(given) => {
            let on_line = |row: usize| {
                let (a, b, way) = line(row)?;
                let (from, to) = (given[a]?, given[b]?);
                Some(from + (to - from) * way).filter(|x| x.is_finite())
            };
            let original = cast(values, &DataType::Float64)?;
            let original = original.as_primitive::<Float64Type>();
            let filled: Float64Array = (0..values.len())
                .map(|row| original.is_valid(row).then(|| original.value(row)).or_else(|| on_line(row)))
                .collect();
            Ok(cast(&filled, data_type)?)
        }
        Numbers::Whole(given) => {
            let most = 10_i128.pow(38);
            let on_line = |row: usize| {
                let (a, b, way) = line(row)?;
                let on = (numbers.half(a, b) * 2.0 * way).round_ties_even();
                let fits = on.abs() < most as f64;
                given[a]?.checked_add(fits.then_some(on as i128)?).filter(|x| x.abs() < most)
            };
            let filled = (0..values.len()).map(|row| given[row].or_else(|| on_line(row)));
            let filled = filled.collect::<Decimal128Array>();
            // What does not fit the type is NULL.
            match data_type {
                DataType::Null => Ok(Arc::clone(values)),
                DataType::Decimal128(precision, scale) => {
                    let within = 10_i128.checked_pow(u32::from(*precision)).unwrap_or(i128::MAX);
                    let kept = filled.iter().map(|x| x.filter(|x| x.abs() < within));
                    let kept = kept.collect::<Decimal128Array>();
                    Ok(Arc::new(kept.with_precision_and_scale(*precision, *scale)?))
                }
                integer if integer.is_integer() => {
                    Ok(cast(&filled.with_precision_and_scale(38, 0)?, integer)?)
                }
                DataType::Date32 | DataType::Time32(_) => {
                    let units = cast(&filled.with_precision_and_scale(38, 0)?, &DataType::Int32)?;
                    Ok(cast(&units, data_type)?)
                }
                _ => {
                    let units = cast(&filled.with_precision_and_scale(38, 0)?, &DataType::Int64)?;
                    Ok(cast(&units, data_type)?)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Date32Array, Int8Array, Int64Array};

    use super::*;

    fn check(values: ArrayRef, keys: ArrayRef, expected: ArrayRef) {
        assert_eq!(*filled(&values, &keys).unwrap(), *expected);
    }

    #[test]
    fn what_is_missing_is_on_the_line() {
        let keys: ArrayRef =
            Arc::new(Int64Array::from(vec![Some(3), Some(0), None, Some(1), Some(4), Some(2)]));
        check(
            Arc::new(Int8Array::from(vec![None, Some(0), None, None, None, Some(20)])),
            Arc::clone(&keys),
            Arc::new(Int8Array::from(vec![Some(30), Some(0), None, Some(10), Some(40), Some(20)])),
        );
        // One that is known is all there is; what does not fit is NULL.
        check(
            Arc::new(Float64Array::from(vec![None, Some(0.5), None, None, None, None])),
            Arc::clone(&keys),
            Arc::new(Float64Array::from(vec![Some(0.5), Some(0.5), None, Some(0.5), Some(0.5), Some(0.5)])),
        );
        check(
            Arc::new(Int8Array::from(vec![None, Some(0), None, None, None, Some(90)])),
            keys,
            Arc::new(Int8Array::from(vec![None, Some(0), None, Some(45), None, Some(90)])),
        );
    }

    #[test]
    fn keys_may_be_far_apart_or_the_same() {
        check(
            Arc::new(Float64Array::from(vec![Some(1.0), None, Some(3.0)])),
            Arc::new(Float64Array::from(vec![-1e308, 0.0, 1e308])),
            Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0])),
        );
        check(
            Arc::new(Date32Array::from(vec![Some(1), Some(9), None, None])),
            Arc::new(Int64Array::from(vec![5, 5, 7, 1])),
            Arc::new(Date32Array::from(vec![1, 9, 9, 1])),
        );
        check(
            Arc::new(Float64Array::from(vec![Some(f64::INFINITY), Some(2.0), None])),
            Arc::new(Float64Array::from(vec![f64::NAN, 0.0, 1.0])),
            Arc::new(Float64Array::from(vec![f64::INFINITY, 2.0, 2.0])),
        );
    }
}
