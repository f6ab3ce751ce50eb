//! `corr`, `covar` and `regr`: what two columns have to do with each other, by how far values are from their means. DataFusion's `corr`
//! subtracts squares of sums, of which nothing is left where values are large and close together, and what leaves a frame from what is
//! told of it.

use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, BooleanArray, Float64Array, Int64Array, cast::AsArray as _, types::Float64Type,
};
use arrow_schema::{DataType, Field, FieldRef};
use basalt_core::error::ErrorKind;
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::format_state_name,
    },
};

use super::{
    frame::{Frame, Summary, Told},
    passing,
};
use crate::{error::Error, nan};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Correlation,
    /// Of all pairs that there are.
    Covariance,
    OfSample,
    Slope,
    Intercept,
    Count,
    /// How much of it the line tells.
    Determination,
    MeanX,
    MeanY,
    SquaresX,
    SquaresY,
    Products,
}

const ALL: [(Kind, &str, &[&str]); 12] = [
    (Kind::Correlation, "corr", &[]),
    (Kind::Covariance, "covar_pop", &[]),
    (Kind::OfSample, "covar_samp", &["covar"]),
    (Kind::Slope, "regr_slope", &[]),
    (Kind::Intercept, "regr_intercept", &[]),
    (Kind::Count, "regr_count", &[]),
    (Kind::Determination, "regr_r2", &[]),
    (Kind::MeanX, "regr_avgx", &[]),
    (Kind::MeanY, "regr_avgy", &[]),
    (Kind::SquaresX, "regr_sxx", &[]),
    (Kind::SquaresY, "regr_syy", &[]),
    (Kind::Products, "regr_sxy", &[]),
];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Paired {
    kind: Kind,
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
}

/// The functions.
pub(super) fn all() -> impl Iterator<Item = AggregateUDF> {
    ALL.into_iter().map(|(kind, name, aliases)| {
        let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
        AggregateUDF::from(Paired {
            kind,
            name,
            aliases,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    })
}

impl AggregateUDFImpl for Paired {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_number = |data_type: &DataType| data_type.is_numeric() || data_type.is_null();
        if types.len() == 2 && types.iter().all(is_number) {
            return Ok(vec![DataType::Float64; 2]);
        }
        let message = format!("{} takes two numbers", self.name);
        Err(Error::new(ErrorKind::TypeMismatch, message).into())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.kind == Kind::Count { DataType::Int64 } else { DataType::Float64 })
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        match self.kind {
            Kind::Count => Ok(ScalarValue::Int64(Some(0))),
            _ => ScalarValue::try_from(data_type),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.refuse_distinct(&args)?;
        Ok(Box::new(One { kind: self.kind, pairs: Pairs::NONE }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.refuse_distinct(&args)?;
        Ok(Box::new(Frame::new(self.kind)))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.refuse_distinct(&args)?;
        Ok(Box::new(Groups::new(self.kind)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |name: &str| Field::new(format_state_name(args.name, name), DataType::Float64, true);
        Ok(Pairs::NAMES.into_iter().map(|name| Arc::new(field(name))).collect())
    }
}

impl Paired {
    fn refuse_distinct(&self, args: &AccumulatorArgs<'_>) -> Result<()> {
        match args.is_distinct {
            true => Err(Error::unsupported(format!("{}(DISTINCT)", self.name)).into()),
            false => Ok(()),
        }
    }
}

/// How many pairs there are, their means, and the sums of the squares and of the products of how far they are from these.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pairs {
    count: f64,
    mean_y: f64,
    mean_x: f64,
    squares_y: f64,
    squares_x: f64,
    products: f64,
}

impl Pairs {
    const NAMES: [&str; 6] = ["count", "mean_y", "mean_x", "squares_y", "squares_x", "products"];

    fn of(y: f64, x: f64) -> Self {
        let of = |value: f64| if value.is_finite() { 0.0 } else { f64::NAN };
        let (squares_y, squares_x) = (of(y), of(x));
        Self { count: 1.0, mean_y: y, mean_x: x, squares_y, squares_x, products: squares_y + squares_x }
    }

    fn numbers(self) -> [f64; 6] {
        let Self { count, mean_y, mean_x, squares_y, squares_x, products } = self;
        [count, mean_y, mean_x, squares_y, squares_x, products]
    }

    fn of_numbers(numbers: [f64; 6]) -> Self {
        let [count, mean_y, mean_x, squares_y, squares_x, products] = numbers;
        Self { count, mean_y, mean_x, squares_y, squares_x, products }
    }
}

impl Summary for Pairs {
    const NONE: Self =
        Self { count: 0.0, mean_y: 0.0, mean_x: 0.0, squares_y: 0.0, squares_x: 0.0, products: 0.0 };

    /// Chan, Golub, LeVeque 1979; the products as the squares.
    fn with(self, later: Self) -> Self {
        if self.count == 0.0 {
            return later;
        }
        if later.count == 0.0 {
            return self;
        }
        let count = self.count + later.count;
        let (share, both) = (later.count / count, self.count * later.count / count);
        let (y, x) = (later.mean_y - self.mean_y, later.mean_x - self.mean_x);
        let mean = |mean: f64, other: f64, distance: f64| match distance.is_finite() {
            true => mean + distance * share,
            false => mean * (1.0 - share) + other * share,
        };
        Self {
            count,
            mean_y: mean(self.mean_y, later.mean_y, y),
            mean_x: mean(self.mean_x, later.mean_x, x),
            squares_y: self.squares_y + later.squares_y + y * y * both,
            squares_x: self.squares_x + later.squares_x + x * x * both,
            products: self.products + later.products + y * x * both,
        }
    }
}

impl Kind {
    /// `None`: null.
    fn of(self, all: Pairs) -> Option<f64> {
        let Pairs { count, mean_y, mean_x, squares_y, squares_x, products } = all;
        let over = |value: f64, divisor: f64| (divisor != 0.0).then(|| value / divisor);
        if count == 0.0 {
            return (self == Self::Count).then_some(0.0);
        }
        match self {
            Self::Correlation => {
                // The product of the squares may be too large, or too small; rounding must not lead beyond 1.
                let both = squares_y * squares_x;
                let deviations =
                    if both.is_normal() { both.sqrt() } else { squares_y.sqrt() * squares_x.sqrt() };
                over(products, deviations).map(|corr| corr.clamp(-1.0, 1.0))
            }
            Self::Covariance => Some(products / count),
            Self::OfSample => over(products, count - 1.0),
            Self::Slope => over(products, squares_x),
            Self::Intercept => over(products, squares_x).map(|slope| mean_y - slope * mean_x),
            Self::Count => Some(count),
            Self::Determination if squares_y == 0.0 => over(squares_x, squares_x),
            Self::Determination => over(products, squares_x).map(|slope| {
                let share = slope * (products / squares_y);
                // What is no number stays none, which the smaller one of two is not.
                if share > 1.0 { 1.0 } else { share }
            }),
            Self::MeanX => Some(mean_x),
            Self::MeanY => Some(mean_y),
            Self::SquaresX => Some(squares_x),
            Self::SquaresY => Some(squares_y),
            Self::Products => Some(products),
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "a count of rows is whole")]
fn whole(count: f64) -> i64 {
    count as i64
}

impl Told for Kind {
    type Summary = Pairs;

    fn each(arguments: &[ArrayRef], take: impl FnMut(Pairs)) -> Result<()> {
        let [y, x] = floats(arguments);
        y.iter().zip(x).filter_map(|(y, x)| Some(Pairs::of(y?, x?))).for_each(take);
        Ok(())
    }

    fn given(self, all: Pairs) -> ScalarValue {
        let value = self.of(all).map(nan::one);
        match self {
            Self::Count => ScalarValue::Int64(value.map(whole)),
            _ => ScalarValue::Float64(value),
        }
    }
}

fn floats<const N: usize>(arrays: &[ArrayRef]) -> [&Float64Array; N] {
    std::array::from_fn(|argument| arrays[argument].as_primitive::<Float64Type>())
}

/// The pairs of groups.
#[derive(Debug)]
struct Groups {
    kind: Kind,
    pairs: Vec<Pairs>,
}

impl Groups {
    fn new(kind: Kind) -> Self {
        Self { kind, pairs: Vec::new() }
    }

    /// Takes the rows that a filter lets pass; `group`: of which group a row is.
    fn add(&mut self, values: &[ArrayRef], filter: Option<&BooleanArray>, group: impl Fn(usize) -> usize) {
        let [y, x] = floats(values);
        for row in passing(y.len(), filter).filter(|row| y.is_valid(*row) && x.is_valid(*row)) {
            let pairs = &mut self.pairs[group(row)];
            *pairs = pairs.with(Pairs::of(y.value(row), x.value(row)));
        }
    }
}

/// The pairs of states.
fn parts(states: &[ArrayRef]) -> impl Iterator<Item = Pairs> {
    let states = floats::<6>(states);
    (0..states[0].len()).map(move |row| Pairs::of_numbers(states.map(|numbers| numbers.value(row))))
}

fn states_of(pairs: &[Pairs]) -> Vec<ArrayRef> {
    let numbers = |at: usize| Float64Array::from_iter_values(pairs.iter().map(|pairs| pairs.numbers()[at]));
    (0..Pairs::NAMES.len()).map(|at| Arc::new(numbers(at)) as ArrayRef).collect()
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.pairs.resize(total_num_groups, Pairs::NONE);
        self.add(values, filter, |row| group_indices[row]);
        Ok(())
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.pairs.resize(total_num_groups, Pairs::NONE);
        for (part, group) in parts(values).zip(group_indices) {
            self.pairs[*group] = self.pairs[*group].with(part);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let values = emit_to.take_needed(&mut self.pairs).into_iter().map(|pairs| self.kind.of(pairs));
        Ok(match self.kind {
            Kind::Count => Arc::new(values.map(|count| count.map(whole)).collect::<Int64Array>()),
            _ => Arc::new(values.map(|value| value.map(nan::one)).collect::<Float64Array>()),
        })
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(states_of(&emit_to.take_needed(&mut self.pairs)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut each = Self { kind: self.kind, pairs: vec![Pairs::NONE; values[0].len()] };
        each.add(values, filter, |row| row);
        Ok(states_of(&each.pairs))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.pairs.capacity() * size_of::<Pairs>()
    }
}

/// The pairs of one group.
#[derive(Debug)]
struct One {
    kind: Kind,
    pairs: Pairs,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        Kind::each(values, |pair| self.pairs = self.pairs.with(pair))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        parts(states).for_each(|part| self.pairs = self.pairs.with(part));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(self.pairs.numbers().map(|number| ScalarValue::Float64(Some(number))).to_vec())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.kind.given(self.pairs))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pairs: &[(f64, f64)]) -> Pairs {
        pairs.iter().fold(Pairs::NONE, |all, (y, x)| all.with(Pairs::of(*y, *x)))
    }

    fn is(value: Option<f64>, expected: f64) -> bool {
        value.is_some_and(|value| (value - expected).abs() < 1e-9)
    }

    #[test]
    fn a_line_is_told_of_large_numbers_that_are_close() {
        let pairs: Vec<(f64, f64)> =
            (0..10).map(|x| (1e9 + 3.0 * f64::from(x), 1e9 + f64::from(x))).collect();
        let all = all(&pairs);
        assert!(is(Kind::Correlation.of(all), 1.0) && is(Kind::Slope.of(all), 3.0));
        assert!(is(Kind::Determination.of(all), 1.0) && is(Kind::SquaresX.of(all), 82.5));
        assert!(is(Kind::Covariance.of(all), 24.75) && is(Kind::OfSample.of(all), 27.5));
    }

    #[test]
    fn what_has_no_line_is_null() {
        let kinds = [Kind::Correlation, Kind::Slope, Kind::Intercept, Kind::Determination];
        for none in [all(&[]), all(&[(1.0, 2.0)]), all(&[(1.0, 2.0), (3.0, 2.0)])] {
            assert!(kinds.iter().all(|kind| kind.of(none).is_none()), "{none:?}");
        }
        // All of a level line is told, but nothing goes with anything.
        let level = all(&[(1.0, 2.0), (1.0, 3.0)]);
        assert_eq!(kinds.map(|kind| kind.of(level)), [None, Some(0.0), Some(1.0), Some(1.0)]);
        let endless = all(&[(f64::INFINITY, 1.0), (f64::INFINITY, 2.0)]);
        assert!(Kind::Correlation.of(endless).is_some_and(f64::is_nan));
        assert_eq!(Kind::MeanY.of(endless), Some(f64::INFINITY));
        assert_eq!(Kind::MeanY.of(all(&[(f64::INFINITY, 1.0), (1.0, 2.0)])), Some(f64::INFINITY));
        for far in [f64::NAN, f64::INFINITY] {
            let (of_x, of_y) = (all(&[(1.0, far), (7.0, -1.0)]), all(&[(far, 1.0), (7.0, -1.0)]));
            assert!([of_x, of_y].iter().all(|all| Kind::Determination.of(*all).is_some_and(f64::is_nan)));
        }
        let large = all(&[(1e300, -1e300), (2e300, -2e300), (-3e300, 3e300)]);
        assert!(Kind::Correlation.of(large).is_some_and(f64::is_nan), "{large:?}");
        assert_eq!((Kind::Count.of(all(&[])), Kind::Products.of(all(&[]))), (Some(0.0), None));
    }

    #[test]
    fn groups_are_those_of_their_parts() {
        let y: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, Some(4.0), Some(9.0)]));
        let x: ArrayRef = Arc::new(Float64Array::from(vec![2.0, 3.0, 4.0, 5.0]));
        let mut groups = Groups::new(Kind::Slope);
        groups.update_batch(&[y.clone(), x.clone()], &[0, 0, 0, 2], None, 3).unwrap();
        let mut merged = Groups::new(Kind::Slope);
        let (one, rest) = (groups.state(EmitTo::First(1)).unwrap(), groups.state(EmitTo::All).unwrap());
        merged.merge_batch(&rest, &[1, 2], 3).unwrap();
        merged.merge_batch(&one, &[0], 3).unwrap();
        let each = merged.convert_to_state(&[y, x], None).unwrap();
        merged.merge_batch(&each, &[2, 2, 2, 2], 3).unwrap();
        let given = merged.evaluate(EmitTo::All).unwrap();
        let given: Vec<_> = given.as_primitive::<Float64Type>().iter().collect();
        assert_eq!((given[0], given[1]), (Some(1.5), None));
        assert!(is(given[2], 8.0 / 3.0), "{given:?}");
    }
}
