//! Aggregates of the values of each list.

use std::{collections::HashMap, sync::Arc, sync::OnceLock};

use arrow_array::{Array as _, ArrayRef, new_null_array};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use datafusion::{
    arrow::compute::cast,
    common::{Result, ScalarValue},
    functions_aggregate::all_default_aggregate_functions,
    logical_expr::{AggregateUDF, function::AccumulatorArgs, type_coercion::functions::fields_with_udf},
    physical_expr::{PhysicalExpr, expressions},
};

use crate::{
    error::Error,
    functions, gathered,
    names::{self, Meant},
    nan,
    sums::Sums,
};

fn known() -> &'static HashMap<String, Arc<AggregateUDF>> {
    static KNOWN: OnceLock<HashMap<String, Arc<AggregateUDF>>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let ours = [AggregateUDF::from(Sums::sum()), AggregateUDF::from(Sums::average())];
        let all = all_default_aggregate_functions().into_iter();
        let all = all.chain(ours.into_iter().chain(gathered::all()).map(Arc::new));
        let mut known = HashMap::new();
        for function in all {
            for alias in function.aliases() {
                known.insert(alias.clone(), Arc::clone(&function));
            }
            known.insert(function.name().to_owned(), function);
        }
        known
    })
}

/// The aggregate of a name, and whether it passes over NULLs.
fn named(name: &str, arguments: usize) -> Result<(Arc<AggregateUDF>, bool)> {
    let (name, ignores) = match (names::meant(name, arguments), name) {
        (_, "string_agg" | "group_concat" | "listagg") => ("string_agg", false),
        (Some(Meant::Name(other)), _) => (other, false),
        (Some(Meant::NonNull(other)), _) => (other, true),
        (Some(Meant::Template(_)), _) => return Err(unknown(name)),
        (None, name) => (name, false),
    };
    known().get(name).map(|function| (Arc::clone(function), ignores)).ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> datafusion::common::DataFusionError {
    Error::unsupported(format!("the aggregate {name} of a list")).into()
}

/// Whether values are texts before the aggregate has them, as CAST writes them.
fn is_joined(name: &str, item: &DataType) -> bool {
    name == "string_agg" && functions::is_written(item)
}

/// The arguments' types as the aggregate takes them.
fn taken(name: &str, function: &AggregateUDF, item: DataType, rest: &[DataType]) -> Result<Vec<FieldRef>> {
    let field = |(at, data_type): (usize, DataType)| Arc::new(Field::new(format!("a{at}"), data_type, true));
    let mut types = vec![if is_joined(name, &item) { DataType::Utf8 } else { item }];
    types.extend(rest.iter().cloned());
    if name == "string_agg" && types.len() == 1 {
        types.push(DataType::Utf8);
    }
    let fields: Vec<_> = types.into_iter().enumerate().map(field).collect();
    fields_with_udf(&fields, function)
}

pub(super) fn type_of(name: &str, item: DataType, rest: &[DataType]) -> Result<DataType> {
    let (function, _) = named(name, 1 + rest.len())?;
    let fields = taken(function.name(), &function, item, rest)?;
    Ok(function.return_field(&fields)?.data_type().clone())
}

pub(super) fn of_lists(
    name: &str,
    list: &ArrayRef,
    rest: &[ArrayRef],
    rows: usize,
    data_type: &DataType,
) -> Result<ArrayRef> {
    if list.data_type().is_null() {
        return Ok(new_null_array(data_type, rows));
    }
    let list = super::as_list(list)?;
    let (function, ignore_nulls) = named(name, 1 + rest.len())?;
    let types: Vec<DataType> = rest.iter().map(|array| array.data_type().clone()).collect();
    let fields = taken(function.name(), &function, list.value_type(), &types)?;
    let schema = Schema::new(fields.clone());
    let of_name = function.name().to_owned();
    let mut aggregated = Vec::with_capacity(rows);
    for row in 0..rows {
        if list.is_null(row) {
            aggregated.push(ScalarValue::try_from(data_type)?);
            continue;
        }
        let given = list.value(row);
        let given: ArrayRef = match is_joined(&of_name, given.data_type()) {
            true => Arc::new(functions::texts(&given)?),
            false => given,
        };
        let values = cast(&given, fields[0].data_type())?;
        let mut columns = vec![Arc::clone(&values)];
        let mut exprs: Vec<Arc<dyn PhysicalExpr>> = vec![Arc::new(expressions::Column::new("a0", 0))];
        for (at, field) in fields.iter().enumerate().skip(1) {
            let given = match rest.get(at - 1) {
                Some(array) => ScalarValue::try_from_array(array, row)?.cast_to(field.data_type())?,
                None => ScalarValue::Utf8(Some(",".to_owned())).cast_to(field.data_type())?,
            };
            columns.push(given.to_array_of_size(values.len())?);
            exprs.push(Arc::new(expressions::Literal::new(given)));
        }
        let args = AccumulatorArgs {
            return_field: function.return_field(&fields)?,
            schema: &schema,
            ignore_nulls,
            order_bys: &[],
            is_reversed: false,
            name: &of_name,
            is_distinct: false,
            exprs: &exprs,
            expr_fields: &fields,
        };
        let mut accumulator = function.accumulator(args)?;
        if !values.is_empty() {
            accumulator.update_batch(&columns)?;
        }
        aggregated.push(accumulator.evaluate()?);
    }
    if aggregated.is_empty() {
        return Ok(new_null_array(data_type, 0));
    }
    ScalarValue::iter_to_array(aggregated).map(nan::of_array)
}
