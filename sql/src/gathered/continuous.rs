//! `quantile_cont` and `median`: the value at a share of a group's values in their order, or between the two that are next to
//! it. Numbers become floats, but decimals, whose median is exact with one more digit; times stay times, and a date's middle
//! is a timestamp. The median of what has no middle, such as a text, is that of `quantile_disc`.

use std::{cmp::Ordering, mem::size_of, sync::Arc};

use arrow_array::{
    Array, ArrayRef, ArrowNativeTypeOp as _, ArrowPrimitiveType, BooleanArray, ListArray, PrimitiveArray,
    cast::AsArray as _,
    types::{
        Decimal128Type, Float64Type, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    },
};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, TimeUnit};
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::buffer::OffsetBuffer,
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::{AggregateOrderSensitivity, format_state_name},
    },
};

use super::{Values, passing, quantile, shares};
use crate::{error::Error, interruptible::GivenUp, lists, nan};

/// Microseconds, as dates and timestamps are between others.
const MICROSECONDS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Continuous {
    is_median: bool,
    aliases: Vec<String>,
    signature: Signature,
}

/// The functions.
pub(super) fn all() -> impl Iterator<Item = AggregateUDF> {
    [(true, vec![]), (false, vec!["percentile_cont".to_owned()])].into_iter().map(|(is_median, aliases)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        AggregateUDF::from(Continuous { is_median, aliases, signature })
    })
}

/// Whether there are values between two of a type, as it is when it has come into the function.
fn has_between(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Float64 | DataType::Decimal128(..) | DataType::Timestamp(TimeUnit::Microsecond, _)
    ) || is_time(data_type)
}

fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond))
}

impl Continuous {
    /// The type as which values come into the function; `None`: it takes none of these.
    fn taken(&self, given: &DataType) -> Option<DataType> {
        Some(match given {
            DataType::Decimal128(precision, scale)
                if self.is_median && *precision < DECIMAL128_MAX_PRECISION && *scale >= 0 =>
            {
                given.clone()
            }
            number if number.is_numeric() || number.is_null() => DataType::Float64,
            DataType::Date32 => MICROSECONDS,
            DataType::Timestamp(TimeUnit::Microsecond, _) => given.clone(),
            DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
            time if is_time(time) => time.clone(),
            other if self.is_median && quantile::takes(other) => other.clone(),
            _ => return None,
        })
    }

    /// The type of what it gives of values that are taken as they are.
    fn given(data_type: &DataType) -> DataType {
        match data_type {
            DataType::Decimal128(precision, scale) => DataType::Decimal128(precision + 1, scale + 1),
            other => other.clone(),
        }
    }

    /// What it is asked for.
    fn asked(&self, args: &AccumulatorArgs<'_>) -> Result<Asked> {
        let (mut shares, is_list) = match self.is_median {
            true => (vec![0.5], false),
            false => shares(self.name(), args)?,
        };
        // Of WITHIN GROUP.
        if args.order_bys.first().is_some_and(|order| order.options.descending) {
            shares.iter_mut().for_each(|share| *share = 1.0 - *share);
        }
        Ok(Asked { shares, is_list, is_distinct: args.is_distinct })
    }
}

/// Makes an accumulator of the type's values.
macro_rules! of_type {
    ($data_type:expr, $made:ident) => {
        match $data_type {
            DataType::Decimal128(..) => $made!(Decimal128Type),
            DataType::Timestamp(..) => $made!(TimestampMicrosecondType),
            DataType::Time64(TimeUnit::Microsecond) => $made!(Time64MicrosecondType),
            DataType::Time64(_) => $made!(Time64NanosecondType),
            _ => $made!(Float64Type),
        }
    };
}

impl AggregateUDFImpl for Continuous {
    fn name(&self) -> &str {
        if self.is_median { "median" } else { "quantile_cont" }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let share = match types {
            [_] if self.is_median => None,
            [_, share] if !self.is_median && share.is_numeric() => Some(DataType::Float64),
            [_, shares]
                if !self.is_median
                    && lists::item(shares).is_some_and(|item| item.is_numeric() || item.is_null()) =>
            {
                Some(lists::list_type(DataType::Float64))
            }
            _ => {
                let takes =
                    if self.is_median { "one column" } else { "a column and a share, or a list of shares" };
                return Err(
                    Error::new(ErrorKind::TypeMismatch, format!("{} takes {takes}", self.name())).into()
                );
            }
        };
        let Some(value) = self.taken(&types[0]) else {
            let message = format!("{} takes numbers, dates and times, not {}", self.name(), types[0]);
            return Err(Error::new(ErrorKind::TypeMismatch, message).into());
        };
        Ok(std::iter::once(value).chain(share).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let types = self.coerce_types(types)?;
        let given = Self::given(&types[0]);
        Ok(if types.get(1).is_some_and(|share| *share != DataType::Float64) {
            lists::list_type(given)
        } else {
            given
        })
    }

    /// It puts values in order itself.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn supports_within_group_clause(&self) -> bool {
        !self.is_median
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let data_type = args.expr_fields[0].data_type().clone();
        if !has_between(&data_type) {
            return Ok(Box::new(quantile::Quantile::new(vec![0.5], false, data_type)));
        }
        let asked = self.asked(&args)?;
        macro_rules! one {
            ($of:ty) => {
                Box::new(One::<$of>(Groups::new(asked, data_type)))
            };
        }
        Ok(of_type!(&data_type, one))
    }

    /// One that may be taken values away from again.
    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let data_type = args.expr_fields[0].data_type();
        match has_between(data_type) {
            true => self.accumulator(args),
            false => Ok(Box::new(Values::of_share(0.5, data_type.clone(), args.is_distinct))),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        has_between(args.expr_fields[0].data_type())
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let (data_type, asked) = (args.expr_fields[0].data_type().clone(), self.asked(&args)?);
        macro_rules! groups {
            ($of:ty) => {
                Box::new(Groups::<$of>::new(asked, data_type))
            };
        }
        Ok(of_type!(&data_type, groups))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let item = Field::new_list_field(args.input_fields[0].data_type().clone(), true);
        Ok(vec![Arc::new(Field::new_list(format_state_name(args.name, "values"), item, true))])
    }
}

/// Values between two of a type.
trait Between: ArrowPrimitiveType + std::fmt::Debug {
    /// What is a share (0 to 1) of the way from one value to another that is not less.
    fn between(low: Self::Native, high: Self::Native, share: f64) -> Self::Native;

    /// The value as which it is one of distinct ones.
    fn distinct(value: Self::Native) -> Self::Native {
        value
    }
}

impl Between for Float64Type {
    fn between(low: f64, high: f64, share: f64) -> f64 {
        // The same value is itself, whatever the share.
        match low.total_cmp(&high) == Ordering::Equal || share == 0.0 {
            true => low,
            false => nan::one(low * (1.0 - share) + high * share),
        }
    }

    /// There is one zero, and one that is no number.
    fn distinct(value: f64) -> f64 {
        nan::one(value + 0.0)
    }
}

/// Of whole steps the nearest, of two that are as near the later.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a share that is no half has no more digits than a float, and no step is further than the higher value"
)]
fn steps(low: i64, high: i64, share: f64) -> i64 {
    let distance = i128::from(high) - i128::from(low);
    // A half is exact, however far the values are from each other.
    let step = match share == 0.5 {
        true => (distance + 1) / 2,
        false => ((distance as f64 * share).round() as i128).clamp(0, distance),
    };
    i64::try_from(i128::from(low) + step).unwrap_or(high)
}

impl Between for TimestampMicrosecondType {
    fn between(low: i64, high: i64, share: f64) -> i64 {
        steps(low, high, share)
    }
}

impl Between for Time64MicrosecondType {
    fn between(low: i64, high: i64, share: f64) -> i64 {
        steps(low, high, share)
    }
}

impl Between for Time64NanosecondType {
    fn between(low: i64, high: i64, share: f64) -> i64 {
        steps(low, high, share)
    }
}

impl Between for Decimal128Type {
    /// The middle, or the lower value, with one more digit.
    fn between(low: i128, high: i128, share: f64) -> i128 {
        match share == 0.0 {
            true => low * 10,
            false => low * 5 + high * 5,
        }
    }
}

#[derive(Clone, Debug)]
struct Asked {
    shares: Vec<f64>,
    /// Whether the shares are those of a list.
    is_list: bool,
    is_distinct: bool,
}

/// The values of groups, none of which is null.
#[derive(Debug)]
struct Groups<T: Between> {
    asked: Asked,
    data_type: DataType,
    values: Vec<Vec<T::Native>>,
    /// What the vectors of values hold.
    bytes: usize,
}

impl<T: Between> Groups<T> {
    fn new(asked: Asked, data_type: DataType) -> Self {
        Self { asked, data_type, values: Vec::new(), bytes: 0 }
    }

    fn add(&mut self, group: usize, value: T::Native) {
        let values = &mut self.values[group];
        let before = values.capacity();
        values.push(value);
        self.bytes += (values.capacity() - before) * size_of::<T::Native>();
    }

    fn extend(&mut self, group: usize, array: &PrimitiveArray<T>) {
        let values = &mut self.values[group];
        let before = values.capacity();
        match array.null_count() {
            0 => values.extend_from_slice(array.values()),
            _ => values.extend(array.iter().flatten()),
        }
        self.bytes += (values.capacity() - before) * size_of::<T::Native>();
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<Vec<T::Native>> {
        let taken = emit_to.take_needed(&mut self.values);
        let bytes: usize = taken.iter().map(Vec::capacity).sum();
        self.bytes = self.bytes.saturating_sub(bytes * size_of::<T::Native>());
        taken
    }

    /// What is asked of the values of each group.
    fn given(&self, groups: Vec<Vec<T::Native>>) -> Result<ArrayRef> {
        let given_up = GivenUp::of_task();
        let number = groups.len();
        let each = self.asked.shares.len();
        let mut lengths = Vec::with_capacity(if self.asked.is_list { number } else { 0 });
        let mut given: Vec<Option<T::Native>> = Vec::with_capacity(number.saturating_mul(each));
        for values in groups {
            given_up.check()?;
            lengths.push(if values.is_empty() { 0 } else { each });
            match values.is_empty() {
                true if self.asked.is_list => {}
                true => given.push(None),
                false => self.asked.of::<T>(values, &mut given),
            }
        }
        let of_type = Continuous::given(&self.data_type);
        let given = PrimitiveArray::<T>::from_iter(given).with_data_type(of_type.clone());
        if !self.asked.is_list {
            return Ok(Arc::new(given));
        }
        let nulls = lengths.iter().map(|length| *length > 0 || each == 0).collect::<Vec<_>>();
        let item = Arc::new(Field::new_list_field(of_type, true));
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(Arc::new(ListArray::try_new(item, offsets, Arc::new(given), Some(nulls.into()))?))
    }

    fn states(&self, groups: Vec<Vec<T::Native>>) -> Result<Vec<ArrayRef>> {
        let given_up = GivenUp::of_task();
        let all: usize = groups.iter().map(Vec::len).sum();
        if i32::try_from(all).is_err() {
            return Err(Error::unsupported(format!("more than {} values of groups at once", i32::MAX)).into());
        }
        let offsets = OffsetBuffer::from_lengths(groups.iter().map(Vec::len));
        let mut values: Vec<T::Native> = Vec::with_capacity(all);
        for group in groups {
            given_up.check()?;
            values.extend_from_slice(&group);
        }
        let values = PrimitiveArray::<T>::new(values.into(), None);
        let item = Arc::new(Field::new_list_field(self.data_type.clone(), true));
        let values = Arc::new(values.with_data_type(self.data_type.clone()));
        Ok(vec![Arc::new(ListArray::try_new(item, offsets, values, None)?)])
    }
}

impl Asked {
    /// What is asked of values, of which there is one at least.
    fn of<T: Between>(&self, mut values: Vec<T::Native>, given: &mut Vec<Option<T::Native>>) {
        if self.is_distinct {
            values.iter_mut().for_each(|value| *value = T::distinct(*value));
            values.sort_unstable_by(|a, b| a.compare(*b));
            values.dedup_by(|a, b| a.compare(*b) == Ordering::Equal);
        }
        for share in &self.shares {
            given.push(Some(between::<T>(&mut values, *share)));
        }
    }
}

/// What is at a share of values, of which there is one at least. Their order is another afterwards.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is a place among so many"
)]
fn between<T: Between>(values: &mut [T::Native], share: f64) -> T::Native {
    let place = (values.len() - 1) as f64 * share;
    let before = (place.floor() as usize).min(values.len() - 1);
    let (_, low, above) = values.select_nth_unstable_by(before, |a, b| a.compare(*b));
    let least = above.iter().copied().reduce(|a, b| if b.compare(a) == Ordering::Less { b } else { a });
    match least {
        Some(high) => T::between(*low, high, place - before as f64),
        None => T::between(*low, *low, 0.0),
    }
}

impl<T: Between> GroupsAccumulator for Groups<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        GivenUp::of_task().check()?;
        self.values.resize_with(total_num_groups, Vec::new);
        let array = values[0].as_primitive::<T>();
        for row in passing(array.len(), filter).filter(|row| array.is_valid(*row)) {
            self.add(group_indices[row], array.value(row));
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        let given_up = GivenUp::of_task();
        self.values.resize_with(total_num_groups, Vec::new);
        for (of_group, group) in values[0].as_list::<i32>().iter().zip(group_indices) {
            given_up.check()?;
            if let Some(of_group) = of_group {
                self.extend(*group, of_group.as_primitive::<T>());
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = self.take(emit_to);
        self.given(groups)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = self.take(emit_to);
        self.states(groups)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let array = values[0].as_primitive::<T>();
        let mut each = vec![Vec::new(); array.len()];
        for row in passing(array.len(), filter).filter(|row| array.is_valid(*row)) {
            each[row] = vec![array.value(row)];
        }
        self.states(each)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<Vec<T::Native>>() + self.bytes
    }
}

/// The values of one group, in the order in which they came: a window takes them away in it.
#[derive(Debug)]
struct One<T: Between>(Groups<T>);

impl<T: Between> One<T> {
    fn add(&mut self, array: &ArrayRef) {
        self.0.values.resize_with(1, Vec::new);
        self.0.extend(0, array.as_primitive::<T>());
    }
}

impl<T: Between> Accumulator for One<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0]);
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().for_each(|values| self.add(&values));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.values.resize_with(1, Vec::new);
        let groups = self.0.take(EmitTo::All);
        let states = self.0.states(groups)?;
        states.iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        // In a window there may be many of many values, between which nothing else looks.
        GivenUp::of_task().check()?;
        // Default: no values have come.
        let values = self.0.values.first().cloned().unwrap_or_default();
        ScalarValue::try_from_array(&self.0.given(vec![values])?, 0)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let gone = values[0].len() - values[0].logical_null_count();
        if let Some(values) = self.0.values.first_mut() {
            values.drain(..gone.min(values.len()));
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn size(&self) -> usize {
        size_of_val(self) + GroupsAccumulator::size(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interruptible::GIVEN_UP;

    fn floats(values: &[f64], share: f64) -> f64 {
        between::<Float64Type>(&mut values.to_vec(), share)
    }

    #[test]
    #[allow(clippy::float_cmp, reason = "they are exact")]
    fn values_between_two() {
        assert_eq!(floats(&[3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(floats(&[4.0, 1.0], 0.25), 1.75);
        assert_eq!(floats(&[7.5], 0.3), 7.5);
        assert_eq!((floats(&[2.0, 1.0], 0.0), floats(&[2.0, 1.0], 1.0)), (1.0, 2.0));
        // The same value again and again is itself, whatever the share.
        assert_eq!(floats(&[36.8; 4], 0.27), 36.8);
        assert_eq!(floats(&[f64::NEG_INFINITY, 1.0], 0.5), f64::NEG_INFINITY);
        assert_eq!(floats(&[f64::MAX, -f64::MAX], 0.5), 0.0);
        assert!(floats(&[f64::NAN, 1.0], 1.0).is_nan());
        let between = |low, high, share| Decimal128Type::between(low, high, share);
        assert_eq!((between(125, 128, 0.5), between(-3, -3, 0.0)), (1265, -30));
        assert_eq!((steps(-3, 2, 0.5), steps(i64::MIN, i64::MAX, 1.0)), (0, i64::MAX));
        assert_eq!(steps(-9_007_199_254_740_993, 9_007_199_254_740_997, 0.5), 2);
    }

    #[test]
    fn groups_are_those_of_their_parts() {
        let asked = Asked { shares: vec![0.5], is_list: false, is_distinct: false };
        let mut groups = Groups::<Float64Type>::new(asked.clone(), DataType::Float64);
        let values: ArrayRef =
            Arc::new(PrimitiveArray::<Float64Type>::from(vec![Some(1.0), None, Some(4.0), Some(9.0)]));
        groups.update_batch(&[values], &[0, 0, 0, 2], None, 3).unwrap();
        let mut merged = Groups::<Float64Type>::new(asked, DataType::Float64);
        let (one, rest) = (groups.state(EmitTo::First(1)).unwrap(), groups.state(EmitTo::All).unwrap());
        assert_eq!(groups.bytes, 0);
        merged.merge_batch(&rest, &[1, 2], 3).unwrap();
        merged.merge_batch(&one, &[0], 3).unwrap();
        let given = merged.evaluate(EmitTo::All).unwrap();
        let given: Vec<_> = given.as_primitive::<Float64Type>().iter().collect();
        assert_eq!(given, [Some(2.5), None, Some(9.0)]);
    }

    #[test]
    fn nobody_waits_for_the_median_of_a_frame() {
        let asked = Asked { shares: vec![0.5], is_list: false, is_distinct: false };
        let mut one = One(Groups::<Float64Type>::new(asked, DataType::Float64));
        let mut mode = super::super::Values::of_share(0.5, DataType::Float64, false);
        let given_up = GivenUp::default();
        let both = |one: &mut One<Float64Type>, mode: &mut super::super::Values| {
            GIVEN_UP.sync_scope(given_up.clone(), || (one.evaluate().is_ok(), mode.evaluate().is_ok()))
        };
        assert_eq!(both(&mut one, &mut mode), (true, true));
        given_up.set();
        assert_eq!(both(&mut one, &mut mode), (false, false));
    }

    #[test]
    fn a_list_of_shares_is_answered_by_a_list() {
        let asked = Asked { shares: vec![0.0, 1.0], is_list: true, is_distinct: true };
        let groups = Groups::<Float64Type>::new(asked, DataType::Float64);
        let given = groups.given(vec![vec![2.0, 1.0, 1.0], vec![]]).unwrap();
        let given = given.as_list::<i32>();
        assert_eq!(given.value(0).as_primitive::<Float64Type>().values(), &[1.0, 2.0]);
        assert!(given.is_null(1));
    }
}
