//! Answers as Arrow arrays: from vectors of rows, and from values.

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
    vector::{Data, Vector},
};
use crate::{
    error::{Error, ErrorKind, Result},
    invariant::{Invariant, count, index},
    limits::{ANSWER_ROWS, ANSWER_TEXT_BYTES},
    mask::selects,
    plan::{Plan, SortKey},
    schema::{DataType, Schema},
    value::{self, Value},
};

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
            (Self::Utf8(b), Data::Texts(v)) => {
                for row in rows.iter().map(|r| *r as usize) {
                    b.append_option(is_valid(row).then(|| v.get(row)));
                }
            }
            (builder, _) => return Err(builder.mismatch()),
        }
        Ok(())
    }

    /// Appends all `rows` rows of a vector.
    #[allow(clippy::cast_possible_truncation, reason = "a value of a type fits the type")]
    pub(super) fn push_all(&mut self, vector: &Vector<'_>, rows: usize) -> Result<()> {
        if (0..rows).all(|row| selects(vector.valid.as_deref(), row)) {
            match (&mut *self, &vector.data) {
                (Self::Int32(b), Data::Ints(v)) => {
                    b.append_slice(&v.iter().map(|x| *x as i32).collect::<Vec<_>>());
                    return Ok(());
                }
                (Self::Int64(b), Data::Ints(v)) => {
                    b.append_slice(v);
                    return Ok(());
                }
                (Self::Float64(b), Data::Floats(v)) => {
                    b.append_slice(v);
                    return Ok(());
                }
                _ => {}
            }
        }
        self.push_rows(vector, &(0..count(rows)).collect::<Vec<_>>())
    }

    /// Appends texts.
    pub(super) fn push_texts<'t>(&mut self, texts: impl Iterator<Item = Option<&'t str>>) -> Result<()> {
        let Self::Utf8(builder) = self else { return Err(self.mismatch()) };
        texts.for_each(|text| builder.append_option(text));
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

    pub(super) fn finish(&mut self) -> ArrayRef {
        with_builder!(self, b => Arc::new(b.finish()))
    }
}

fn fit<T: TryFrom<i128>>(value: i128) -> Result<T> {
    T::try_from(value).map_err(|_| value::overflow(&format!("{value}")))
}

/// The columns as one batch of `rows` rows.
pub(super) fn batch(schema: &Schema, columns: &mut [ColumnBuilder], rows: usize) -> Result<RecordBatch> {
    batch_of(schema, columns.iter_mut().map(ColumnBuilder::finish).collect(), rows)
}

/// The same of arrays.
pub(super) fn batch_of(schema: &Schema, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.to_arrow(), arrays, &options)
        .map_err(|e| Error::new(ErrorKind::TypeMismatch, e.to_string()))
}

/// The order of two values under a sort key.
pub(super) fn compare_values(key: &SortKey, a: &Value, b: &Value) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if key.nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if key.nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            let order = value::compare(a, b).invariant("the values of one output compare");
            if key.descending { order.reverse() } else { order }
        }
    }
}

/// The order of two items by their values of what a plan's order is by.
pub(super) fn compare_by(order: &[SortKey], a: &[Value], b: &[Value]) -> Ordering {
    order
        .iter()
        .zip(a.iter().zip(b))
        .fold(Ordering::Equal, |so_far, (key, (a, b))| so_far.then_with(|| compare_values(key, a, b)))
}

/// Sorts what the answer shows: the items from `offset` on, `limit` of them.
pub(super) fn sort_page<T>(items: &mut Vec<T>, plan: &Plan, compare: impl Fn(&T, &T) -> Ordering) {
    let top = plan.top_items();
    keep_top(items, top, &compare);
    items.sort_unstable_by(&compare);
    let skip = index(plan.offset);
    items.drain(..skip.min(items.len()));
}

/// Keeps the first `top` items of the order, in any order.
pub(super) fn keep_top<T>(items: &mut Vec<T>, top: usize, compare: impl Fn(&T, &T) -> Ordering) {
    if top < items.len() {
        if top > 0 {
            items.select_nth_unstable_by(top - 1, compare);
        }
        items.truncate(top);
    }
}

/// Answers items one by one: `eval` gives an item's value of the output at a place.
pub(super) fn batches<T>(
    plan: &Plan,
    items: impl Iterator<Item = T>,
    eval: impl Fn(&T, usize) -> Result<Value>,
    control: &Control,
    sink: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let mut columns = ColumnBuilder::for_schema(plan.schema());
    let (mut n, mut text_bytes) = (0, 0);
    for item in items {
        for (at, column) in columns.iter_mut().enumerate() {
            let value = eval(&item, at)?;
            if let Value::Text(text) = &value {
                text_bytes += text.len();
            }
            column.push(&value)?;
        }
        n += 1;
        if n == ANSWER_ROWS || text_bytes >= ANSWER_TEXT_BYTES {
            control.check()?;
            sink(batch(plan.schema(), &mut columns, n)?)?;
            (n, text_bytes) = (0, 0);
        }
    }
    if n > 0 {
        sink(batch(plan.schema(), &mut columns, n)?)?;
    }
    Ok(())
}
