//! `min` and `max` of floats in groups. DataFusion's begin a group with the greatest number there is and compare with `<`, so
//! that a group of infinities has that number, and NaN is passed over; here NaN is greater than all others, as in ORDER BY.

use std::sync::Arc;

use arrow_array::{
    ArrowNativeTypeOp,
    types::{ArrowPrimitiveType, Float32Type, Float64Type},
};
use arrow_schema::DataType;
use datafusion::{
    common::{Result, ScalarValue},
    functions_aggregate::min_max::{max_udaf, min_udaf},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
        Signature, StatisticsArgs, function::AccumulatorArgs, utils::AggregateOrderSensitivity,
    },
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Extreme {
    /// DataFusion's, for all but floats.
    inner: Arc<AggregateUDF>,
    is_max: bool,
}

/// `min` and `max`.
pub(crate) fn all() -> [AggregateUDF; 2] {
    [(min_udaf(), false), (max_udaf(), true)]
        .map(|(inner, is_max)| AggregateUDF::from(Extreme { inner, is_max }))
}

/// The extreme of each group, in the order of all floats: what it begins with is behind them on the other side.
fn of_groups<T: ArrowPrimitiveType + Send>(data_type: &DataType, is_max: bool) -> Box<dyn GroupsAccumulator> {
    let least = <T::Native as ArrowNativeTypeOp>::MIN_TOTAL_ORDER;
    let greatest = <T::Native as ArrowNativeTypeOp>::MAX_TOTAL_ORDER;
    let begin = if is_max { least } else { greatest };
    let keep = move |kept: &mut T::Native, value: T::Native| {
        if if is_max { value.is_gt(*kept) } else { value.is_lt(*kept) } {
            *kept = value;
        }
    };
    Box::new(PrimitiveGroupsAccumulator::<T, _>::new(data_type, keep).with_starting_value(begin))
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(match args.return_field.data_type() {
            float @ DataType::Float32 => of_groups::<Float32Type>(float, self.is_max),
            float @ DataType::Float64 => of_groups::<Float64Type>(float, self.is_max),
            _ => return self.inner.create_groups_accumulator(args),
        })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.value_from_stats(args)
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}
