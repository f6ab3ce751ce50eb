//! `sum` and `avg` with the engine's meaning: integers and decimals are added up exactly, in 128 bits, and a sum that
//! does not fit its type is an error. Floats are added up in the order in which they come. Intervals are added up by their months,
//! days and times, and differences of timestamps by how long they are.

mod intervals;

use std::{any::Any, collections::HashSet, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, DurationMicrosecondArray, Float64Array, ListArray,
    UInt64Array,
    builder::{Decimal128Builder, Float64Builder, Int64Builder, UInt64Builder},
    cast::AsArray as _,
    types::{Decimal128Type, DurationMicrosecondType, Float64Type, Int64Type, UInt64Type},
};
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::{buffer::NullBuffer, compute::cast},
    common::{Result, ScalarValue, utils::SingleRowListArrayBuilder},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
        Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::format_state_name,
    },
};

use crate::{error::Error, functions::INTERVAL, gathered::moving, nan};

/// `sum` or `avg`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sums {
    is_average: bool,
    signature: Signature,
    aliases: Vec<String>,
}

impl Sums {
    pub(crate) fn sum() -> Self {
        Self {
            is_average: false,
            signature: Signature::user_defined(Volatility::Immutable),
            aliases: Vec::new(),
        }
    }

    pub(crate) fn average() -> Self {
        Self { is_average: true, aliases: vec!["mean".to_owned()], ..Self::sum() }
    }

    fn total(&self, argument: &DataType) -> Result<Total> {
        let kind = match argument {
            DataType::Int64 => Kind::Int,
            DataType::UInt64 => Kind::UInt,
            DataType::Decimal128(_, scale) => Kind::Decimal(*scale),
            DataType::Float64 => Kind::Float,
            DataType::Duration(_) => Kind::Difference,
            other => return Err(Error::Internal(format!("a sum of {other}")).into()),
        };
        Ok(Total { kind, is_average: self.is_average })
    }
}

/// What is added up, and what is shown of it.
#[derive(Clone, Copy, Debug)]
struct Total {
    kind: Kind,
    is_average: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Int,
    UInt,
    Decimal(i8),
    Float,
    /// Of timestamps.
    Difference,
}

/// How long the differences of timestamps are.
const DIFFERENCE: DataType = DataType::Duration(TimeUnit::Microsecond);

const DIGITS: u8 = 38;

impl Kind {
    fn is_float(self) -> bool {
        self == Self::Float
    }

    /// The type in which values and sums travel.
    fn state_type(self) -> DataType {
        match self {
            Self::Int | Self::UInt | Self::Difference => DataType::Decimal128(DIGITS, 0),
            Self::Decimal(scale) => DataType::Decimal128(DIGITS, scale),
            Self::Float => DataType::Float64,
        }
    }

    fn sum_type(self) -> DataType {
        match self {
            Self::Int => DataType::Int64,
            Self::UInt => DataType::UInt64,
            Self::Difference => DIFFERENCE,
            other => other.state_type(),
        }
    }
}

fn overflow(data_type: &DataType) -> Error {
    let what = match data_type {
        DataType::Int64 => "an int64".to_owned(),
        DataType::UInt64 => "a uint64".to_owned(),
        DataType::Duration(_) => "an interval".to_owned(),
        _ => format!("a decimal of {DIGITS} digits"),
    };
    Error::new(ErrorKind::Overflow, format!("the sum does not fit {what}"))
}

impl AggregateUDFImpl for Sums {
    fn name(&self) -> &str {
        if self.is_average { "avg" } else { "sum" }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [argument] = types else {
            return Err(Error::invalid(format!("{} takes one argument", self.name())).into());
        };
        let wide = match argument {
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => DataType::UInt64,
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => DataType::Int64,
            DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                DataType::Decimal128(*precision, *scale)
            }
            DataType::Decimal128(..) => argument.clone(),
            DataType::Float16 | DataType::Float32 | DataType::Float64 => DataType::Float64,
            DataType::Null => DataType::Int64,
            DataType::Duration(_) => DIFFERENCE,
            DataType::Interval(_) => INTERVAL,
            other => {
                let message = format!("{} takes numbers and intervals, not {other}", self.name());
                return Err(Error::new(ErrorKind::TypeMismatch, message).into());
            }
        };
        Ok(vec![wide])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let coerced = self.coerce_types(types)?;
        if coerced[0] == INTERVAL {
            return Ok(INTERVAL);
        }
        let kind = self.total(&coerced[0])?.kind;
        let is_float = self.is_average && kind != Kind::Difference;
        Ok(if is_float { DataType::Float64 } else { kind.sum_type() })
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if *args.expr_fields[0].data_type() == INTERVAL {
            return match args.is_distinct {
                true => Err(Error::unsupported(format!("{}(DISTINCT) of intervals", self.name())).into()),
                false => Ok(Box::new(intervals::Sum::new(self.is_average))),
            };
        }
        let total = self.total(args.expr_fields[0].data_type())?;
        let distinct = args.is_distinct.then(HashSet::new);
        Ok(Box::new(One { groups: Groups::new(total), distinct }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let is_float = *args.expr_fields[0].data_type() == DataType::Float64;
        match is_float && !args.is_distinct {
            true => Ok(moving::sums(self.is_average)),
            false => self.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if *args.input_fields[0].data_type() == INTERVAL {
            return Ok(intervals::Sum::fields(args.name));
        }
        let total = self.total(args.input_fields[0].data_type())?;
        let state = total.kind.state_type();
        if args.is_distinct {
            let item = Field::new_list_field(state, true);
            return Ok(vec![Arc::new(Field::new_list(format_state_name(args.name, "values"), item, true))]);
        }
        Ok(vec![
            Arc::new(Field::new(format_state_name(args.name, "sum"), state, true)),
            Arc::new(Field::new(format_state_name(args.name, "count"), DataType::UInt64, true)),
        ])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct && *args.expr_fields[0].data_type() != INTERVAL
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups::new(self.total(args.expr_fields[0].data_type())?)))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The sums of groups, and of how many values each is.
#[derive(Debug)]
struct Groups {
    total: Total,
    exact: Vec<i128>,
    floats: Vec<f64>,
    counts: Vec<u64>,
}

/// The values of an argument or a state.
enum Values<'a> {
    Exact(Vec<i128>, &'a dyn Array),
    Floats(&'a Float64Array),
}

impl Groups {
    fn new(total: Total) -> Self {
        Self { total, exact: Vec::new(), floats: Vec::new(), counts: Vec::new() }
    }

    fn resize(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
        match self.total.kind.is_float() {
            true => self.floats.resize(groups, 0.0),
            false => self.exact.resize(groups, 0),
        }
    }

    fn values<'a>(&self, array: &'a ArrayRef) -> Values<'a> {
        match array.data_type() {
            DataType::Float64 => Values::Floats(array.as_primitive::<Float64Type>()),
            DataType::UInt64 => {
                let values = array.as_primitive::<UInt64Type>().values();
                Values::Exact(values.iter().map(|x| i128::from(*x)).collect(), array)
            }
            DataType::Int64 => {
                let values = array.as_primitive::<Int64Type>().values();
                Values::Exact(values.iter().map(|x| i128::from(*x)).collect(), array)
            }
            DataType::Duration(_) => {
                let values = array.as_primitive::<DurationMicrosecondType>().values();
                Values::Exact(values.iter().map(|x| i128::from(*x)).collect(), array)
            }
            _ => Values::Exact(array.as_primitive::<Decimal128Type>().values().to_vec(), array),
        }
    }

    /// Adds values to their groups; `counts` tells of how many values each of them is the sum.
    fn add(
        &mut self,
        array: &ArrayRef,
        group_of: impl Fn(usize) -> usize,
        filter: Option<&BooleanArray>,
        counts: Option<&UInt64Array>,
    ) -> Result<()> {
        let takes = |row: usize| {
            !array.is_null(row) && filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
        };
        match self.values(array) {
            Values::Floats(values) => {
                for row in (0..values.len()).filter(|row| takes(*row)) {
                    let group = group_of(row);
                    self.floats[group] += values.value(row);
                    self.counts[group] += counts.map_or(1, |counts| counts.value(row));
                }
            }
            Values::Exact(values, array) => {
                for row in (0..array.len()).filter(|row| takes(*row)) {
                    let group = group_of(row);
                    let sum = self.exact[group].checked_add(values[row]);
                    self.exact[group] = sum.ok_or_else(|| overflow(&self.total.kind.sum_type()))?;
                    self.counts[group] += counts.map_or(1, |counts| counts.value(row));
                }
            }
        }
        Ok(())
    }

    /// Takes values away again, which leaves what there was if they are exact.
    fn subtract(&mut self, array: &ArrayRef) -> Result<()> {
        let Values::Exact(values, array) = self.values(array) else {
            return Err(Error::Internal("a float is subtracted from a sum".to_owned()).into());
        };
        for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
            let rest = self.exact[0].checked_sub(values[row]);
            self.exact[0] = rest.ok_or_else(|| overflow(&self.total.kind.sum_type()))?;
            self.counts[0] -= 1;
        }
        Ok(())
    }

    fn finish(&self, exact: &[i128], floats: &[f64], counts: &[u64]) -> Result<ArrayRef> {
        let kind = self.total.kind;
        let rows = counts.len();
        if kind == Kind::Difference {
            let of_row = |(sum, count): (&i128, &u64)| {
                let micros = match (*count, self.total.is_average) {
                    (0, _) => return Ok(None),
                    (count, true) => intervals::nearest(*sum, i128::from(count)),
                    (_, false) => *sum,
                };
                i64::try_from(micros).map(Some).map_err(|_| overflow(&DIFFERENCE))
            };
            let of_rows = exact.iter().zip(counts).map(of_row);
            return Ok(Arc::new(of_rows.collect::<std::result::Result<DurationMicrosecondArray, _>>()?));
        }
        if self.total.is_average {
            let mut averages = Float64Builder::with_capacity(rows);
            for row in 0..rows {
                #[allow(clippy::cast_precision_loss, reason = "the nearest float64 is asked for")]
                let average = match kind {
                    Kind::Float => nan::one(floats[row] / counts[row] as f64),
                    Kind::Decimal(scale) => {
                        exact[row] as f64 / 10_f64.powi(i32::from(scale)) / counts[row] as f64
                    }
                    _ => exact[row] as f64 / counts[row] as f64,
                };
                averages.append_option((counts[row] > 0).then_some(average));
            }
            return Ok(Arc::new(averages.finish()));
        }
        let sum_type = kind.sum_type();
        let wrong = || overflow(&sum_type);
        let given = |row: usize| counts[row] > 0;
        Ok(match kind {
            Kind::Float => {
                let sums = (0..rows).map(|row| given(row).then(|| nan::one(floats[row])));
                Arc::new(sums.collect::<Float64Array>())
            }
            Kind::Int => {
                let mut sums = Int64Builder::with_capacity(rows);
                for (row, sum) in exact.iter().enumerate() {
                    let sum = i64::try_from(*sum).map_err(|_| wrong())?;
                    sums.append_option(given(row).then_some(sum));
                }
                Arc::new(sums.finish())
            }
            Kind::UInt => {
                let mut sums = UInt64Builder::with_capacity(rows);
                for (row, sum) in exact.iter().enumerate() {
                    let sum = u64::try_from(*sum).map_err(|_| wrong())?;
                    sums.append_option(given(row).then_some(sum));
                }
                Arc::new(sums.finish())
            }
            Kind::Decimal(_) | Kind::Difference => {
                let mut sums = Decimal128Builder::with_capacity(rows).with_data_type(sum_type.clone());
                for (row, sum) in exact.iter().enumerate() {
                    if sum.unsigned_abs() >= 10_u128.pow(u32::from(DIGITS)) {
                        return Err(wrong().into());
                    }
                    sums.append_option(given(row).then_some(*sum));
                }
                Arc::new(sums.finish())
            }
        })
    }

    /// The sums so far, as they travel.
    fn states(&self, exact: Vec<i128>, floats: Vec<f64>, counts: Vec<u64>) -> Result<Vec<ArrayRef>> {
        let given = BooleanArray::from_iter(counts.iter().map(|count| Some(*count > 0)));
        let nulls = Some(NullBuffer::new(given.values().clone()));
        let sums: ArrayRef = match self.total.kind.state_type() {
            DataType::Decimal128(precision, scale) => Arc::new(
                Decimal128Array::new(exact.into(), nulls).with_precision_and_scale(precision, scale)?,
            ),
            _ => Arc::new(Float64Array::new(floats.into(), nulls)),
        };
        Ok(vec![sums, Arc::new(UInt64Array::from(counts))])
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.resize(total_num_groups);
        self.add(&values[0], |row| group_indices[row], filter, None)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let counts = emit_to.take_needed(&mut self.counts);
        let (exact, floats) = self.take(emit_to);
        self.finish(&exact, &floats, &counts)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let counts = emit_to.take_needed(&mut self.counts);
        let (exact, floats) = self.take(emit_to);
        self.states(exact, floats, counts)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.resize(total_num_groups);
        self.add(&values[0], |row| group_indices[row], None, Some(values[1].as_primitive::<UInt64Type>()))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut each = Self::new(self.total);
        let rows = values[0].len();
        each.resize(rows);
        each.add(&values[0], |row| row, filter, None)?;
        let Self { exact, floats, counts, .. } = each;
        self.states(exact, floats, counts)
    }

    fn size(&self) -> usize {
        16 * self.exact.capacity() + 8 * self.floats.capacity() + 8 * self.counts.capacity()
    }
}

impl Groups {
    fn take(&mut self, emit_to: EmitTo) -> (Vec<i128>, Vec<f64>) {
        match self.total.kind.is_float() {
            true => (Vec::new(), emit_to.take_needed(&mut self.floats)),
            false => (emit_to.take_needed(&mut self.exact), Vec::new()),
        }
    }
}

/// The sum of one group; with a set, of its distinct values.
#[derive(Debug)]
struct One {
    groups: Groups,
    /// Exact values as they are, floats as their bits.
    distinct: Option<HashSet<i128>>,
}

impl One {
    fn gather(distinct: &mut HashSet<i128>, values: &Values<'_>) {
        match values {
            Values::Floats(floats) => {
                distinct.extend(floats.iter().flatten().map(|x| i128::from(nan::one(x + 0.0).to_bits())))
            }
            Values::Exact(values, array) => {
                distinct.extend((0..array.len()).filter(|row| array.is_valid(*row)).map(|row| values[row]));
            }
        }
    }

    /// The distinct values, in an order of their own, so that their sum is always the same.
    fn values(&self, distinct: &HashSet<i128>) -> Result<ArrayRef> {
        let mut values: Vec<i128> = distinct.iter().copied().collect();
        values.sort_unstable();
        Ok(match self.groups.total.kind.state_type() {
            DataType::Decimal128(precision, scale) => {
                Arc::new(Decimal128Array::from(values).with_precision_and_scale(precision, scale)?)
            }
            _ => {
                let bits = values.into_iter().map(|bits| u64::try_from(bits).unwrap_or_default());
                Arc::new(Float64Array::from_iter_values(bits.map(f64::from_bits)))
            }
        })
    }
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if let Some(distinct) = &mut self.distinct {
            Self::gather(distinct, &self.groups.values(&values[0]));
            return Ok(());
        }
        self.groups.resize(1);
        self.groups.add(&values[0], |_| 0, None, None)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if let Some(distinct) = &self.distinct {
            let values = self.values(distinct)?;
            let mut groups = Groups::new(self.groups.total);
            groups.resize(1);
            groups.add(&values, |_| 0, None, None)?;
            let sum = groups.finish(&groups.exact, &groups.floats, &groups.counts)?;
            return ScalarValue::try_from_array(&sum, 0);
        }
        self.groups.resize(1);
        let Groups { exact, floats, counts, .. } = &self.groups;
        ScalarValue::try_from_array(&self.groups.finish(exact, floats, counts)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + GroupsAccumulator::size(&self.groups)
            + self.distinct.as_ref().map_or(0, |distinct| 24 * distinct.capacity())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        if let Some(distinct) = &self.distinct {
            let list: ListArray = SingleRowListArrayBuilder::new(self.values(distinct)?).build_list_array();
            return Ok(vec![ScalarValue::List(Arc::new(list))]);
        }
        self.groups.resize(1);
        let Groups { exact, floats, counts, .. } = &self.groups;
        let states = self.groups.states(exact.clone(), floats.clone(), counts.clone())?;
        states.iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        if let Some(distinct) = &mut self.distinct {
            let state_type = self.groups.total.kind.state_type();
            for list in states[0].as_list::<i32>().iter().flatten() {
                Self::gather(distinct, &self.groups.values(&cast(&list, &state_type)?));
            }
            return Ok(());
        }
        self.groups.resize(1);
        self.groups.add(&states[0], |_| 0, None, Some(states[1].as_primitive::<UInt64Type>()))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.groups.resize(1);
        self.groups.subtract(&values[0])
    }

    fn supports_retract_batch(&self) -> bool {
        self.distinct.is_none() && !self.groups.total.kind.is_float()
    }
}

/// Whether a function is `avg` or `sum` of these; `None`: neither.
pub(crate) fn is_average(function: &AggregateUDF) -> Option<bool> {
    let function: &dyn Any = function.inner().as_ref();
    function.downcast_ref::<Sums>().map(|sums| sums.is_average)
}
