//! `stddev` and `variance` over frames whose start moves. What leaves is not subtracted: of large numbers there would be rests
//! of what is gone, and less than nothing. Values stand in two stacks instead: the older ones know what is told of them and of all
//! that came after, so that taking one away leaves what is there.

use arrow_array::{Array as _, ArrayRef, cast::AsArray as _, types::Float64Type};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::{
    arrow::compute::cast,
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
    },
};

use crate::error::Error;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Moving {
    name: &'static str,
    /// Whether it is the root.
    is_root: bool,
    /// Whether the values are all that there are, and no sample.
    is_of_all: bool,
    signature: Signature,
}

const ALL: [(&str, &str, bool, bool); 4] = [
    ("stddev", "basalt_moving_stddev", true, false),
    ("stddev_pop", "basalt_moving_stddev_pop", true, true),
    ("var", "basalt_moving_var", false, false),
    ("var_pop", "basalt_moving_var_pop", false, true),
];

/// The functions.
pub(crate) fn all() -> impl Iterator<Item = AggregateUDF> {
    ALL.into_iter().map(|(_, name, is_root, is_of_all)| {
        let signature = Signature::numeric(1, Volatility::Immutable);
        AggregateUDF::from(Moving { name, is_root, is_of_all, signature })
    })
}

/// The function that stands in a moving frame for another; `None`: that may stay.
pub(crate) fn moving(name: &str) -> Option<AggregateUDF> {
    ALL.iter().position(|(of, ..)| *of == name).and_then(|at| all().nth(at))
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
        if args.is_distinct {
            return Err(Error::unsupported(format!("{}(DISTINCT) over a frame that moves", self.name)).into());
        }
        let Self { is_root, is_of_all, .. } = *self;
        Ok(Box::new(Frame {
            is_root,
            is_of_all,
            older: Vec::new(),
            newer: Vec::new(),
            of_newer: Moments::NONE,
        }))
    }

    fn state_fields(&self, _: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let fields = ["count", "mean", "squares"];
        Ok(fields.into_iter().map(|name| Field::new(name, DataType::Float64, true).into()).collect())
    }
}

/// How many values there are, their mean, and the sum of the squares of how far they are from it.
#[derive(Clone, Copy, Debug)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    const NONE: Self = Self { count: 0.0, mean: 0.0, squares: 0.0 };

    fn of(value: f64) -> Self {
        Self { count: 1.0, mean: value, squares: if value.is_finite() { 0.0 } else { f64::NAN } }
    }

    /// Of both together (Chan, Golub, LeVeque 1979).
    fn with(self, other: Self) -> Self {
        if self.count == 0.0 {
            return other;
        }
        if other.count == 0.0 {
            return self;
        }
        let count = self.count + other.count;
        let distance = other.mean - self.mean;
        let mean = self.mean + distance * (other.count / count);
        let squares = self.squares + other.squares + distance * distance * (self.count * other.count / count);
        Self { count, mean, squares }
    }
}

#[derive(Debug)]
struct Frame {
    is_root: bool,
    is_of_all: bool,
    /// The newest first: of each what is told of it and of those that are newer in here.
    older: Vec<Moments>,
    newer: Vec<f64>,
    of_newer: Moments,
}

impl Frame {
    fn remove_oldest(&mut self) {
        if self.older.is_empty() {
            let mut all = Moments::NONE;
            for value in self.newer.drain(..).rev() {
                all = Moments::of(value).with(all);
                self.older.push(all);
            }
            self.of_newer = Moments::NONE;
        }
        self.older.pop();
    }

    fn all(&self) -> Moments {
        self.older.last().copied().unwrap_or(Moments::NONE).with(self.of_newer)
    }
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in cast(&values[0], &DataType::Float64)?.as_primitive::<Float64Type>().iter().flatten() {
            self.newer.push(value);
            self.of_newer = self.of_newer.with(Moments::of(value));
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for _ in values[0].logical_null_count()..values[0].len() {
            self.remove_oldest();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        Err(Error::Internal("parts of a frame are not merged".to_owned()).into())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Moments { count, mean, squares } = self.all();
        Ok([count, mean, squares].map(|value| ScalarValue::Float64(Some(value))).to_vec())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Moments { count, squares, .. } = self.all();
        let divisor = if self.is_of_all { count } else { count - 1.0 };
        if divisor <= 0.0 {
            return Ok(ScalarValue::Float64(None));
        }
        let variance = squares / divisor;
        Ok(ScalarValue::Float64(Some(if self.is_root { variance.sqrt() } else { variance })))
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.older.capacity() * size_of::<Moments>()
            + self.newer.capacity() * size_of::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Float64Array;

    use super::*;

    #[test]
    fn nothing_is_left_of_what_is_gone() {
        let values = [1e17, -3.0, 5.0, 5.0, 5.0, 1.0, 2.0, f64::INFINITY, 4.0, 4.0];
        for width in 1..=values.len() {
            let mut frame = Frame {
                is_root: false,
                is_of_all: true,
                older: Vec::new(),
                newer: Vec::new(),
                of_newer: Moments::NONE,
            };
            for end in 0..values.len() {
                let one = |value: f64| [Arc::new(Float64Array::from(vec![Some(value), None])) as ArrayRef];
                frame.update_batch(&one(values[end])).unwrap();
                if end >= width {
                    frame.retract_batch(&one(values[end - width])).unwrap();
                }
                let there = &values[(end + 1).saturating_sub(width)..=end];
                let mean = there.iter().sum::<f64>() / there.len() as f64;
                let expected =
                    there.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / there.len() as f64;
                let ScalarValue::Float64(Some(given)) = frame.evaluate().unwrap() else { panic!("no value") };
                let is_near = (given - expected).abs() <= expected * 1e-12;
                assert!(is_near || (given.is_nan() && expected.is_nan()), "{there:?}: {given}, {expected}");
                assert!(
                    there.windows(2).any(|two| two[0] != two[1]) || given.is_nan() || given.to_bits() == 0,
                    "{there:?}: {given}"
                );
            }
        }
    }
}
