//! The rows of a plan as those of an answer, whose columns have the engine's types. What has none of them is text, but for
//! clients that take lists and intervals.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field as ArrowField, FieldRef, Schema as ArrowSchema, SchemaRef};
use basalt_core::{
    logical::Logical as Held,
    schema::{DataType as Logical, Field, Schema},
};
use datafusion::{
    arrow::{
        buffer::OffsetBuffer,
        compute::{CastOptions, cast_with_options},
        util::display::{ArrayFormatter, FormatOptions},
    },
    common::DFSchema,
};

use crate::{
    catalog::Catalog,
    command::TextOf,
    error::{Error, Result},
    functions,
    headings::Headings,
    limits, lists, nested,
};

/// How the columns of a plan are shown.
#[derive(Debug)]
pub(crate) struct Shown {
    schema: Schema,
    arrow: SchemaRef,
}

impl Shown {
    /// Names as the statement has them, or the headings of its expressions, types as they were chosen.
    pub(crate) fn new(named: &DFSchema, typed: &SchemaRef, headings: &Headings) -> Result<Self> {
        let fields = typed.fields();
        if fields.is_empty() || fields.len() != named.fields().len() {
            return Err(Error::invalid("the select list is empty: which columns?"));
        }
        if fields.len() > limits::ANSWER_COLUMNS {
            let message = format!("{} columns; the limit is {}", fields.len(), limits::ANSWER_COLUMNS);
            return Err(Error::invalid(message));
        }
        let names: Vec<_> = named.fields().iter().map(|field| field.name().as_str()).collect();
        let fields = fields.iter().zip(headings.names(&names));
        let fields = fields.map(|(typed, name)| shown_field(name, typed.data_type()));
        Ok(Self::of(Schema::of_answer(fields.collect())))
    }

    /// The same for whoever asks: lists and intervals of the plan are what they are to those that take them.
    pub(crate) fn for_client(mut self, catalog: &dyn Catalog, typed: &SchemaRef) -> Self {
        if catalog.speaks_postgres() {
            let fields = self.arrow.fields().iter().zip(typed.fields());
            let field = |(shown, typed): (&FieldRef, &FieldRef)| match list_or_interval(typed.data_type()) {
                Some(data_type) => Arc::new(shown.as_ref().clone().with_data_type(data_type)),
                None => Arc::clone(shown),
            };
            self.arrow = Arc::new(ArrowSchema::new(fields.map(field).collect::<Vec<_>>()));
        }
        self
    }

    /// Columns that have the engine's types already.
    pub(crate) fn of(schema: Schema) -> Self {
        let arrow = schema.to_outer_arrow();
        Self { schema, arrow }
    }

    /// The columns, of which lists and intervals are texts.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The columns as its rows have them.
    pub(crate) fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }

    pub(crate) fn batch(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = batch.columns().iter().zip(self.arrow.fields());
        let columns = columns.map(|(column, field)| shown(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let shown = RecordBatch::try_new(Arc::clone(&self.arrow), columns);
        shown.map_err(|error| Error::Internal(error.to_string()))
    }
}

/// An answer's column.
fn shown_field(name: &str, data_type: &DataType) -> Field {
    let logical = match data_type {
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => Some(Held::Binary),
        DataType::Time32(_) | DataType::Time64(_) => Some(Held::Time),
        // Sums of decimals are numbers of 38 digits already.
        DataType::Decimal128(..) => None,
        other => Held::from_arrow(other),
    };
    match logical {
        Some(logical) => Field { logical: Some(logical), ..Field::new(name, logical.form(), true) },
        None => Field::new(name, shown_type(data_type), true),
    }
}

/// The type of an answer's column.
pub(crate) fn shown_type(data_type: &DataType) -> Logical {
    match data_type {
        DataType::Null => Logical::Bool,
        DataType::Float16 => Logical::Float32,
        DataType::Timestamp(..) | DataType::Date64 => Logical::Timestamp,
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            // Default: what has digits before the point alone is text.
            u8::try_from(*scale)
                .map_or(Logical::Utf8, |scale| Logical::Decimal { precision: *precision, scale })
        }
        DataType::Dictionary(_, values) => shown_type(values),
        // Default: text.
        other => Logical::from_arrow(other).unwrap_or(Logical::Utf8),
    }
}

/// The type of what is no text to clients that take lists and intervals; `None`: it is any other one. Lists whose values are
/// lists are not of one length each, which PostgreSQL's arrays are.
fn list_or_interval(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Interval(_) | DataType::Duration(_) => Some(functions::INTERVAL),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            let item = match item.data_type() {
                nested if nested::is_nested(nested) => return None,
                DataType::Null => DataType::Utf8,
                // Default: it is one of those of other columns.
                other => list_or_interval(other).unwrap_or_else(|| shown_field("", other).to_arrow_type()),
            };
            Some(DataType::List(Arc::new(ArrowField::new_list_field(item, true))))
        }
        _ => None,
    }
}

/// What a text stands for where a parameter of an Arrow type is taken as one.
pub(crate) fn stands_for(data_type: &DataType) -> Option<TextOf> {
    match data_type {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            Some(TextOf::Bytes)
        }
        DataType::Time32(_) | DataType::Time64(_) => Some(TextOf::Time),
        DataType::Interval(_) | DataType::Duration(_) => Some(TextOf::Interval),
        DataType::List(item) if matches!(item.data_type(), DataType::Interval(_) | DataType::Duration(_)) => {
            Some(TextOf::Intervals)
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)
            if !item.data_type().is_null() =>
        {
            Some(TextOf::List(shown_type(item.data_type())))
        }
        _ => None,
    }
}

fn shown(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if column.data_type() == data_type {
        return Ok(Arc::clone(column));
    }
    match data_type {
        DataType::Interval(_) => return Ok(Arc::new(functions::as_intervals(column)?)),
        DataType::List(item) => return shown_lists(column, item),
        _ => {}
    }
    let casts = match column.data_type() {
        DataType::Timestamp(..) => true,
        DataType::Utf8View | DataType::LargeUtf8 | DataType::Dictionary(..) | DataType::Null => true,
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => true,
        DataType::Time32(_) | DataType::Time64(_) => true,
        DataType::Float16 | DataType::Date64 | DataType::Decimal32(..) | DataType::Decimal64(..) => {
            *data_type != DataType::Utf8
        }
        _ => false,
    };
    if casts {
        let column = match column.data_type() {
            // A time without a zone is one of UTC, not of wherever the server is.
            DataType::Timestamp(unit, None) => {
                let utc = DataType::Timestamp(*unit, Some("UTC".into()));
                cast(column, &utc)?
            }
            _ => Arc::clone(column),
        };
        return cast(&column, data_type);
    }
    if functions::is_written(column.data_type()) {
        return Ok(Arc::new(functions::texts(column)?));
    }
    let failed = |error: datafusion::arrow::error::ArrowError| Error::Internal(error.to_string());
    let options = FormatOptions::default().with_display_error(false).with_null("NULL");
    let formatter = ArrayFormatter::try_new(column, &options).map_err(failed)?;
    let texts = (0..column.len()).map(|row| match column.is_valid(row) {
        true => formatter.value(row).try_to_string().map(Some).map_err(failed),
        false => Ok(None),
    });
    Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
}

/// Lists, whose values are shown.
fn shown_lists(column: &ArrayRef, item: &FieldRef) -> Result<ArrayRef> {
    let list = lists::as_list(column)?;
    // Batches may share the values, of which each shows its own.
    let values = match list.value_offsets() {
        [first, .., last] => list.values().slice(offset(*first), offset(*last) - offset(*first)),
        _ => list.values().slice(0, 0),
    };
    let (values, offsets) =
        (shown(&values, item.data_type())?, OffsetBuffer::from_lengths(list.offsets().lengths()));
    let shown = ListArray::try_new(Arc::clone(item), offsets, values, list.nulls().cloned());
    Ok(Arc::new(shown.map_err(|error| Error::Internal(error.to_string()))?))
}

fn offset(offset: i32) -> usize {
    // Default: none is negative.
    usize::try_from(offset).unwrap_or_default()
}

fn cast(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    Ok(cast_with_options(column, data_type, &options).map_err(datafusion::common::DataFusionError::from)?)
}

/// Rows made here.
pub(crate) fn rows(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(|error| Error::Internal(error.to_string()))
}
