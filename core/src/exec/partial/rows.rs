//! Sorted rows of several runs.

use std::cmp::Ordering;

use arrow_array::{
    Array, RecordBatch,
    cast::AsArray,
    types::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
        TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};

use super::{
    super::{
        Control, Held,
        output::{self, compare_by, keep_top, sort_page},
    },
    corrupt,
};
use crate::{
    error::Result,
    invariant::{count, index},
    plan::Plan,
    schema::{DataType, Schema},
    value::Value,
};

/// That a batch has the columns of a schema.
pub(super) fn check(batch: &RecordBatch, schema: &Schema) -> Result<()> {
    let (found, wanted) = (batch.columns().iter(), schema.fields());
    if found.len() == wanted.len()
        && found.zip(wanted).all(|(array, field)| *array.data_type() == field.data_type.to_arrow())
    {
        return Ok(());
    }
    Err(corrupt("it has other columns"))
}

/// Rows that are being sorted.
pub(super) struct Sorted<'p> {
    plan: &'p Plan,
    control: &'p Control,
    schema: Schema,
    batches: Vec<RecordBatch>,
    rows: Vec<Row>,
    held: Held<'p>,
}

/// A row: what it is sorted by, and where it is.
struct Row {
    keys: Vec<Value>,
    address: u64,
    batch: usize,
    row: usize,
    failure: Option<u8>,
}

impl<'p> Sorted<'p> {
    pub(super) fn new(plan: &'p Plan, control: &'p Control) -> Self {
        let (schema, held) = (plan.part_schema(), Held::new(control));
        Self { plan, control, schema, batches: Vec::new(), rows: Vec::new(), held }
    }

    /// Takes rows of some fragments in.
    pub(super) fn add(&mut self, batch: RecordBatch, fragments: &[u32]) -> Result<()> {
        check(&batch, &self.schema)?;
        let width = size_of::<Row>() + self.plan.order.len() * size_of::<Value>();
        let bytes = batch.get_array_memory_size() + batch.num_rows() * width;
        self.held.set(self.held.bytes() + bytes)?;
        let [columns @ .., addresses, failures] = batch.columns() else {
            return Err(corrupt("it has too few columns"));
        };
        let addresses = addresses.as_primitive::<UInt64Type>();
        let failures = failures.as_primitive::<UInt8Type>();
        for row in 0..batch.num_rows() {
            let fragment = count(index(addresses.value(row) >> 32));
            super::asked(fragment, fragments)?;
            let keys = self.plan.order.iter().map(|key| {
                let data_type = self.schema.fields()[key.output].data_type;
                value_at(&columns[key.output], row, data_type)
            });
            let keys = keys.collect();
            let failure = failures.is_valid(row).then(|| failures.value(row));
            if failure.is_some_and(|code| super::failure(code).is_none()) {
                return Err(corrupt("a row has no values for no reason"));
            }
            self.rows.push(Row {
                keys,
                address: addresses.value(row),
                batch: self.batches.len(),
                row,
                failure,
            });
        }
        self.batches.push(batch);
        // Rarely, so that the work stays linear.
        let top = self.plan.top_items();
        if self.rows.len() > top.saturating_mul(4).max(1 << 16) {
            let plan = self.plan;
            keep_top(&mut self.rows, top, |a, b| compare(plan, a, b));
        }
        Ok(())
    }

    pub(super) fn finish(mut self, sink: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let plan = self.plan;
        sort_page(&mut self.rows, plan, |a, b| compare(plan, a, b));
        if let Some(error) = self.rows.iter().filter_map(|row| row.failure).find_map(super::failure) {
            return Err(error);
        }
        let fields = plan.schema().fields();
        let eval = |row: &&Row, at: usize| {
            Ok(value_at(self.batches[row.batch].column(at), row.row, fields[at].data_type))
        };
        output::batches(plan, self.rows.iter(), eval, self.control, sink)
    }
}

/// The order of two rows: rows that the plan's order leaves equal come by their addresses.
fn compare(plan: &Plan, a: &Row, b: &Row) -> Ordering {
    compare_by(&plan.order, &a.keys, &b.keys).then(a.address.cmp(&b.address))
}

/// The value of a row of an array that has the logical type's own Arrow type.
pub(in crate::exec) fn value_at(array: &dyn Array, row: usize, data_type: DataType) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    macro_rules! int {
        ($t:ty) => {
            Value::Int(array.as_primitive::<$t>().value(row).into())
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
            Value::Decimal { unscaled: array.as_primitive::<Decimal128Type>().value(row), scale }
        }
        DataType::Date32 => Value::Date(array.as_primitive::<Date32Type>().value(row)),
        DataType::Timestamp => Value::Timestamp(array.as_primitive::<TimestampMicrosecondType>().value(row)),
        DataType::Utf8 => Value::Text(array.as_string::<i32>().value(row).into()),
    }
}
