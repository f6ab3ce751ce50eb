//! There is one value that is no number. Instructions make several: x86 gives `inf - inf` and `sin(inf)` a sign, which the
//! planner's orders and hashes would take for another value, less than all numbers.

use std::{hash::Hash, sync::Arc};

use arrow_array::{
    Array as _, ArrayRef, BooleanArray, Float32Array, Float64Array, ListArray,
    cast::AsArray as _,
    types::{Float32Type, Float64Type},
};
use arrow_schema::{DataType, FieldRef};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, EmitTo, GroupsAccumulator,
        ScalarFunctionArgs, ScalarUDF, Signature,
        function::{AccumulatorArgs, StateFieldsArgs},
    },
};

use crate::around::Call;

/// The functions of DataFusion that make it of numbers.
pub(crate) const NAMES: [&str; 24] = [
    "acos",
    "acosh",
    "array_add",
    "array_avg",
    "array_distance",
    "array_normalize",
    "array_product",
    "array_scale",
    "array_subtract",
    "array_sum",
    "asin",
    "atanh",
    "cos",
    "cosine_distance",
    "cot",
    "inner_product",
    "ln",
    "log",
    "log10",
    "log2",
    "power",
    "sin",
    "sqrt",
    "tan",
];

/// The aggregates of DataFusion that make it of numbers.
pub(crate) const AGGREGATES: [&str; 7] = [
    "stddev",
    "stddev_pop",
    "var",
    "var_pop",
    "approx_median",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
];

/// A float, of which there is one that is no number.
pub(crate) fn one(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

fn one32(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value }
}

/// Floats of which equal ones have the same bits: there is one zero as well. What is no float stays as it is.
pub(crate) fn same_bits(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float64 => {
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|x| one(x + 0.0)))
        }
        DataType::Float32 => {
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|x| one32(x + 0.0)))
        }
        _ => Arc::clone(array),
    }
}

/// An array with one such value, of lists too; what is no float stays as it is.
pub(crate) fn of_array(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float64 => {
            let floats = array.as_primitive::<Float64Type>();
            match floats.values().iter().any(|value| value.is_nan()) {
                true => Arc::new(floats.unary::<_, Float64Type>(one)) as Arc<Float64Array>,
                false => array,
            }
        }
        DataType::Float32 => {
            let floats = array.as_primitive::<Float32Type>();
            match floats.values().iter().any(|value| value.is_nan()) {
                true => Arc::new(floats.unary::<_, Float32Type>(one32)) as Arc<Float32Array>,
                false => array,
            }
        }
        DataType::List(item) if item.data_type().is_floating() => {
            let (item, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            Arc::new(ListArray::new(item, offsets, of_array(values), nulls))
        }
        _ => array,
    }
}

/// The same of a value.
pub(crate) fn of_scalar(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float64(Some(value)) => ScalarValue::Float64(Some(one(value))),
        ScalarValue::Float32(Some(value)) => ScalarValue::Float32(Some(one32(value))),
        ScalarValue::List(list) => match of_array(list.clone()).as_list_opt::<i32>() {
            Some(one) => ScalarValue::List(Arc::new(one.clone())),
            None => ScalarValue::List(list),
        },
        other => other,
    }
}

/// The way that [`NAMES`] are called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OneNan;

impl Call for OneNan {
    fn call(function: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match function.invoke_with_args(args)? {
            ColumnarValue::Array(array) => ColumnarValue::Array(of_array(array)),
            ColumnarValue::Scalar(value) => ColumnarValue::Scalar(of_scalar(value)),
        })
    }
}

/// One of [`AGGREGATES`]; its name and types stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Around(Arc<AggregateUDF>);

/// An aggregate that gives one such value.
pub(crate) fn aggregate(function: Arc<AggregateUDF>) -> AggregateUDF {
    AggregateUDF::from(Around(function))
}

impl AggregateUDFImpl for Around {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One(self.0.accumulator(args)?)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.0.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.0.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups(self.0.create_groups_accumulator(args)?)))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One(self.0.create_sliding_accumulator(args)?)))
    }

    fn supports_within_group_clause(&self) -> bool {
        self.0.inner().supports_within_group_clause()
    }
}

#[derive(Debug)]
struct One(Box<dyn Accumulator>);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate().map(of_scalar)
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }
}

struct Groups(Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.0.update_batch(values, group_indices, filter, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.0.evaluate(emit_to).map(of_array)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.0.merge_batch(values, group_indices, total_num_groups)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
