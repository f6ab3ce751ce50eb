//! Sums, averages, `stddev` and `variance` of floats over frames whose start moves.

use arrow_array::{ArrayRef, cast::AsArray as _, types::Float64Type};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::{
    arrow::compute::cast,
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
    },
};

use super::{
    frame::{Frame, Summary, Told},
    texts,
};
use crate::{error::Error, nan};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Sum,
    Average,
    /// Of all values that there are, or of a sample.
    Variance {
        is_root: bool,
        is_of_all: bool,
    },
}

const ALL: [(&str, &str, Kind); 4] = [
    ("stddev", "basalt_moving_stddev", Kind::Variance { is_root: true, is_of_all: false }),
    ("stddev_pop", "basalt_moving_stddev_pop", Kind::Variance { is_root: true, is_of_all: true }),
    ("var", "basalt_moving_var", Kind::Variance { is_root: false, is_of_all: false }),
    ("var_pop", "basalt_moving_var_pop", Kind::Variance { is_root: false, is_of_all: true }),
];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Moving {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

/// The functions.
pub(crate) fn all() -> impl Iterator<Item = AggregateUDF> {
    let of_numbers = ALL.into_iter().map(|(_, name, kind)| {
        let signature = Signature::numeric(1, Volatility::Immutable);
        AggregateUDF::from(Moving { name, kind, signature })
    });
    of_numbers.chain([texts::function()])
}

/// The function that stands in a moving frame for another; `None`: that may stay.
pub(crate) fn moving(name: &str) -> Option<AggregateUDF> {
    if name == "string_agg" {
        return Some(texts::function());
    }
    ALL.iter().position(|(of, ..)| *of == name).and_then(|at| all().nth(at))
}

/// A sum or average of floats in a moving frame.
pub(crate) fn sums(is_average: bool) -> Box<dyn Accumulator> {
    Box::new(Frame::new(if is_average { Kind::Average } else { Kind::Sum }))
}

impl AggregateUDFImpl for Moving {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match args.is_distinct {
            true => Err(Error::Internal(format!("{} of distinct values", self.name)).into()),
            false => Ok(Box::new(Frame::new(self.kind))),
        }
    }

    fn state_fields(&self, _: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Field::new("value", DataType::Float64, true).into()])
    }
}

/// How many values there are, their sum, their mean, and the sum of the squares of how far they are from it.
#[derive(Clone, Copy, Debug)]
struct Moments {
    count: f64,
    sum: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn of(value: f64) -> Self {
        let squares = if value.is_finite() { 0.0 } else { f64::NAN };
        Self { count: 1.0, sum: value, mean: value, squares }
    }
}

impl Summary for Moments {
    const NONE: Self = Self { count: 0.0, sum: 0.0, mean: 0.0, squares: 0.0 };

    /// Chan, Golub, LeVeque 1979.
    fn with(self, later: Self) -> Self {
        if self.count == 0.0 {
            return later;
        }
        if later.count == 0.0 {
            return self;
        }
        let count = self.count + later.count;
        let distance = later.mean - self.mean;
        Self {
            count,
            sum: self.sum + later.sum,
            mean: self.mean + distance * (later.count / count),
            squares: self.squares + later.squares + distance * distance * (self.count * later.count / count),
        }
    }
}

impl Told for Kind {
    type Summary = Moments;

    fn each(arguments: &[ArrayRef], take: impl FnMut(Moments)) -> Result<()> {
        let values = cast(&arguments[0], &DataType::Float64)?;
        values.as_primitive::<Float64Type>().iter().flatten().map(Moments::of).for_each(take);
        Ok(())
    }

    fn given(self, all: Moments) -> ScalarValue {
        let Moments { count, sum, squares, .. } = all;
        let over = |value: f64, divisor: f64| (divisor > 0.0).then(|| value / divisor);
        let value = match self {
            Self::Sum => (count > 0.0).then_some(sum),
            Self::Average => over(sum, count),
            // One value does not vary, whatever it is.
            Self::Variance { is_of_all: true, .. } if count == 1.0 => Some(0.0),
            Self::Variance { is_root, is_of_all } => {
                let variance = over(squares, if is_of_all { count } else { count - 1.0 });
                if is_root { variance.map(f64::sqrt) } else { variance }
            }
        };
        ScalarValue::Float64(value.map(nan::one))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Float64Array;

    use super::*;

    #[test]
    fn nothing_is_left_of_what_is_gone() {
        let values = [1e17, -3.0, 5.0, 5.0, 5.0, 1.0, 2.0, f64::INFINITY, 4.0, 4.0, f64::NAN, 1e300, 1.0];
        let kinds = [Kind::Sum, Kind::Average, Kind::Variance { is_root: false, is_of_all: true }];
        for (width, kind) in (1..=values.len()).flat_map(|width| kinds.map(|kind| (width, kind))) {
            let mut frame = Frame::new(kind);
            for end in 0..values.len() {
                let one = |value: f64| [Arc::new(Float64Array::from(vec![Some(value), None])) as ArrayRef];
                frame.update_batch(&one(values[end])).unwrap();
                if end >= width {
                    frame.retract_batch(&one(values[end - width])).unwrap();
                }
                let there = &values[(end + 1).saturating_sub(width)..=end];
                let sum = there.iter().sum::<f64>();
                let mean = sum / there.len() as f64;
                let squares = there.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
                let expected = match kind {
                    Kind::Sum => sum,
                    Kind::Average => mean,
                    Kind::Variance { .. } if there.len() == 1 => 0.0,
                    Kind::Variance { .. } => squares / there.len() as f64,
                };
                let ScalarValue::Float64(Some(given)) = frame.evaluate().unwrap() else { panic!("no value") };
                // Sums of other parts are others by their rounding.
                let rounding = there.iter().map(|value| value.abs()).sum::<f64>() * 1e-15;
                let is_near = (given - expected).abs() <= expected.abs() * 1e-12 + rounding;
                let is_same = given == expected || (given.is_nan() && expected.is_nan());
                assert!(is_same || is_near, "{kind:?} {there:?}: {given}, {expected}");
                let differ = there.windows(2).any(|two| two[0] != two[1] || !two[0].is_finite());
                let is_variance = matches!(kind, Kind::Variance { .. });
                assert!(!is_variance || differ || given.to_bits() == 0, "{there:?}: {given}");
            }
        }
    }
}
