//! Answers as Arrow arrays: from vectors of rows, from values, and the groups' last steps.

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{
    ArrayRef, RecordBatch, RecordBatchOptions,
    builder::{
        BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder, Float64Builder, Int8Builder,
        Int16Builder, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder, UInt8Builder,
        UInt16Builder, UInt32Builder, UInt64Builder,
    },
};

use super::{
    Control,
    groups::Groups,
    vector::{Data, Vector},
};
use crate::{
    error::{Error, ErrorKind, Result},
    mask::selects,
    plan::{Plan, SortKey, pred::Pred},
    schema::{DataType, Schema},
    value::{self, Value},
};

/// Rows of one batch of an answer, at most.
pub(super) const ANSWER_ROWS: usize = 8192;

/// Builds one column of an answer.
pub(super) enum ColumnBuilder {
    Bool(BooleanBuilder),
    Int8(Int8Builder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    UInt8(UInt8Builder),
    UInt16(UInt16Builder),
    UInt32(UInt32Builder),
    UInt64(UInt64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal(Decimal128Builder),
    Date32(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Utf8(StringBuilder),
}

/// Runs `$body` with the inner builder of any variant as `$builder`.
macro_rules! with_builder {
    ($self:expr, $builder:ident => $body:expr) => {
        match $self {
            ColumnBuilder::Bool($builder) => $body,
            ColumnBuilder::Int8($builder) => $body,
            ColumnBuilder::Int16($builder) => $body,
            ColumnBuilder::Int32($builder) => $body,
            ColumnBuilder::Int64($builder) => $body,
            ColumnBuilder::UInt8($builder) => $body,
            ColumnBuilder::UInt16($builder) => $body,
            ColumnBuilder::UInt32($builder) => $body,
            ColumnBuilder::UInt64($builder) => $body,
            ColumnBuilder::Float32($builder) => $body,
            ColumnBuilder::Float64($builder) => $body,
            ColumnBuilder::Decimal($builder) => $body,
            ColumnBuilder::Date32($builder) => $body,
            ColumnBuilder::Timestamp($builder) => $body,
            ColumnBuilder::Utf8($builder) => $body,
        }
    };
}

impl ColumnBuilder {
    pub(super) fn new(data_type: DataType) -> Self {
        match data_type {
            DataType::Bool => Self::Bool(BooleanBuilder::new()),
            DataType::Int8 => Self::Int8(Int8Builder::new()),
            DataType::Int16 => Self::Int16(Int16Builder::new()),
            DataType::Int32 => Self::Int32(Int32Builder::new()),
            DataType::Int64 => Self::Int64(Int64Builder::new()),
            DataType::UInt8 => Self::UInt8(UInt8Builder::new()),
            DataType::UInt16 => Self::UInt16(UInt16Builder::new()),
            DataType::UInt32 => Self::UInt32(UInt32Builder::new()),
            DataType::UInt64 => Self::UInt64(UInt64Builder::new()),
            DataType::Float32 => Self::Float32(Float32Builder::new()),
            DataType::Float64 => Self::Float64(Float64Builder::new()),
            DataType::Decimal { .. } => {
                Self::Decimal(Decimal128Builder::new().with_data_type(data_type.to_arrow()))
            }
            DataType::Date32 => Self::Date32(Date32Builder::new()),
            DataType::Timestamp => {
                Self::Timestamp(TimestampMicrosecondBuilder::new().with_data_type(data_type.to_arrow()))
            }
            DataType::Utf8 => Self::Utf8(StringBuilder::new()),
        }
    }

    pub(super) fn for_schema(schema: &Schema) -> Vec<Self> {
        schema.fields().iter().map(|f| Self::new(f.data_type)).collect()
    }

    /// Appends the rows of a vector that `rows` lists.
    #[allow(clippy::cast_possible_truncation, reason = "a value of a type fits the type")]
    pub(super) fn push_rows(&mut self, vector: &Vector<'_>, rows: &[u32]) -> Result<()> {
        let is_valid = |row: usize| selects(vector.valid.as_deref(), row);
        macro_rules! push {
            ($builder:expr, $values:expr, $convert:expr) => {{
                for row in rows.iter().map(|r| *r as usize) {
                    $builder.append_option(is_valid(row).then(|| $convert($values[row])));
                }
            }};
        }
        match (self, &vector.data) {
            (builder, Data::One(value)) => {
                for row in rows {
                    builder.push(if is_valid(*row as usize) { value } else { &Value::Null })?;
                }
            }
            (Self::Bool(b), Data::Ints(v)) => push!(b, v, |x: i64| x != 0),
            (Self::Int8(b), Data::Ints(v)) => push!(b, v, |x: i64| x as i8),
            (Self::Int16(b), Data::Ints(v)) => push!(b, v, |x: i64| x as i16),
            (Self::Int32(b), Data::Ints(v)) => push!(b, v, |x: i64| x as i32),
            (Self::Int64(b), Data::Ints(v)) => push!(b, v, |x: i64| x),
            (Self::UInt8(b), Data::Ints(v)) => push!(b, v, |x: i64| x as u8),
            (Self::UInt16(b), Data::Ints(v)) => push!(b, v, |x: i64| x as u16),
            (Self::UInt32(b), Data::Ints(v)) => push!(b, v, |x: i64| x as u32),
            (Self::UInt64(b), Data::UInts(v)) => push!(b, v, |x: u64| x),
            (Self::Float32(b), Data::Floats(v)) => push!(b, v, |x: f64| x as f32),
            (Self::Float64(b), Data::Floats(v)) => push!(b, v, |x: f64| x),
            (Self::Decimal(b), Data::Ints(v)) => push!(b, v, |x: i64| i128::from(x)),
            (Self::Date32(b), Data::Ints(v)) => push!(b, v, |x: i64| x as i32),
            (Self::Timestamp(b), Data::Ints(v)) => push!(b, v, |x: i64| x),
            (Self::Utf8(b), Data::Texts(v)) => push!(b, v, |x| x),
            (builder, _) => return Err(builder.mismatch()),
        }
        Ok(())
    }

    /// Appends one value.
    #[allow(clippy::cast_possible_truncation, reason = "a float32 comes back as it was")]
    pub(super) fn push(&mut self, value: &Value) -> Result<()> {
        match (&mut *self, value) {
            (builder, Value::Null) => with_builder!(builder, b => b.append_null()),
            (Self::Bool(b), Value::Bool(v)) => b.append_value(*v),
            (Self::Int8(b), Value::Int(v)) => b.append_value(fit(*v)?),
            (Self::Int16(b), Value::Int(v)) => b.append_value(fit(*v)?),
            (Self::Int32(b), Value::Int(v)) => b.append_value(fit(*v)?),
            (Self::Int64(b), Value::Int(v)) => b.append_value(fit(*v)?),
            (Self::UInt8(b), Value::Int(v)) => b.append_value(fit(*v)?),
            (Self::UInt16(b), Value::Int(v)) => b.append_value(fit(*v)?),
            (Self::UInt32(b), Value::Int(v)) => b.append_value(fit(*v)?),
            (Self::UInt64(b), Value::Int(v)) => b.append_value(fit(*v)?),
            (Self::Float32(b), Value::Float(v)) => b.append_value(*v as f32),
            (Self::Float64(b), Value::Float(v)) => b.append_value(*v),
            (Self::Decimal(b), Value::Decimal { unscaled, .. } | Value::Int(unscaled)) => {
                b.append_value(*unscaled)
            }
            (Self::Date32(b), Value::Date(v)) => b.append_value(*v),
            (Self::Timestamp(b), Value::Timestamp(v)) => b.append_value(*v),
            (Self::Utf8(b), Value::Text(v)) => b.append_value(v),
            (builder, _) => return Err(builder.mismatch()),
        }
        Ok(())
    }

    fn mismatch(&self) -> Error {
        Error::new(ErrorKind::TypeMismatch, "a value of another type than its column")
    }

    fn finish(&mut self) -> ArrayRef {
        with_builder!(self, b => Arc::new(b.finish()))
    }
}

fn fit<T: TryFrom<i128>>(value: i128) -> Result<T> {
    T::try_from(value).map_err(|_| value::overflow(&format!("{value}")))
}

/// The columns as one batch of `rows` rows.
pub(super) fn batch(schema: &Schema, columns: &mut [ColumnBuilder], rows: usize) -> Result<RecordBatch> {
    let arrays = columns.iter_mut().map(ColumnBuilder::finish).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.to_arrow(), arrays, &options)
        .map_err(|e| Error::new(ErrorKind::TypeMismatch, e.to_string()))
}

/// The order of two rows of outputs.
pub(super) fn compare_rows<'v>(
    keys: &[SortKey],
    a: impl Fn(usize) -> &'v Value,
    b: impl Fn(usize) -> &'v Value,
) -> Ordering {
    for key in keys {
        let (a, b) = (a(key.output), b(key.output));
        let order = match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => {
                if key.nulls_first {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            (false, true) => {
                if key.nulls_first {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
            (false, false) => {
                let order = value::compare(a, b).unwrap_or(Ordering::Equal);
                if key.descending { order.reverse() } else { order }
            }
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// The last steps of a plan of groups: having, outputs, order, limit.
pub(super) fn groups(
    plan: &Plan,
    groups: &Groups<'_>,
    having: Option<&Pred>,
    control: &Control,
    sink: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let keys = groups.key_count();
    let mut rows: Vec<(Vec<Value>, Vec<Value>)> = Vec::new();
    for group in 0..groups.len() {
        if group % ANSWER_ROWS == 0 {
            control.check()?;
        }
        let slots =
            (0..plan.slots.fields.len()).map(|slot| groups.value(group, slot)).collect::<Result<Vec<_>>>()?;
        let value_of = |slot: usize| slots[slot].clone();
        if let Some(having) = having
            && !having.eval(&plan.slots, &value_of)?
        {
            continue;
        }
        let outputs =
            plan.outputs.iter().map(|o| o.eval(&plan.slots, &value_of)).collect::<Result<Vec<_>>>()?;
        control.reserve((slots.len() + outputs.len()) * size_of::<Value>())?;
        let mut slots = slots;
        slots.truncate(keys);
        rows.push((outputs, slots));
    }
    // Groups that the order leaves equal come by their keys, so that an answer is always the same.
    let by_key: Vec<SortKey> =
        (0..keys).map(|output| SortKey { output, descending: false, nulls_first: false }).collect();
    rows.sort_unstable_by(|a, b| {
        compare_rows(&plan.order, |i| &a.0[i], |i| &b.0[i])
            .then_with(|| compare_rows(&by_key, |i| &a.1[i], |i| &b.1[i]))
    });
    let skip = usize::try_from(plan.offset).unwrap_or(usize::MAX);
    let take = plan.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    values(
        plan.schema(),
        plan.visible(),
        rows.into_iter().skip(skip).take(take).map(|(outputs, _)| Ok(outputs)),
        sink,
    )
}

/// Rows of values as batches; hidden outputs behind the first `visible` are left out.
pub(super) fn values(
    schema: &Schema,
    visible: usize,
    rows: impl Iterator<Item = Result<Vec<Value>>>,
    sink: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let mut columns = ColumnBuilder::for_schema(schema);
    let mut n = 0;
    for row in rows {
        let row = row?;
        for (column, value) in columns.iter_mut().zip(&row[..visible]) {
            column.push(value)?;
        }
        n += 1;
        if n == ANSWER_ROWS {
            sink(batch(schema, &mut columns, n)?)?;
            n = 0;
        }
    }
    if n > 0 {
        sink(batch(schema, &mut columns, n)?)?;
    }
    Ok(())
}
