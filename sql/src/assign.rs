//! Values on their way into the columns of a table: as CAST makes them, where they are of the same kind or texts. Lists, structs
//! and maps are JSON in a column of texts, as they are at every other door. What does not fit is an error that names the column.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, cast::AsArray as _, new_null_array};
use arrow_schema::{DataType, SchemaRef, TimeUnit};
use basalt_core::{
    error::ErrorKind,
    limits::MAX_TEXT_BYTES,
    logical::{self, Logical as Held},
    schema::{DataType as Logical, Field, Schema},
};
use basalt_nested::{is_nested, json_bytes, to_json_within};
use datafusion::arrow::compute::{CastOptions, cast_with_options};

use crate::{
    bytes, checked,
    decimals::floats,
    error::{Error, Result},
    functions, limits, nan, nearest, of_texts,
};

/// The rows of a table, made of the columns that a plan gives: for each of the table's, the place there; `None`: null.
#[derive(Debug)]
pub(crate) struct Rows {
    schema: Schema,
    arrow: SchemaRef,
    sources: Vec<Option<usize>>,
    /// So many of the first columns that come are the table's own, whose values stay: another writer may have dates beyond
    /// the calendar.
    own: usize,
}

impl Rows {
    pub(crate) fn new(schema: &Schema, sources: Vec<Option<usize>>) -> Self {
        Self { schema: schema.clone(), arrow: schema.to_arrow(), sources, own: 0 }
    }

    /// The same, where so many of the first columns are those of the table.
    pub(crate) fn beside(self, own: usize) -> Self {
        Self { own, ..self }
    }

    /// The columns of the table that what comes goes to, in the order in which it comes.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let mut columns: Vec<_> = self
            .sources
            .iter()
            .enumerate()
            .filter_map(|(column, source)| Some(((*source)?, column)))
            .collect();
        columns.sort_unstable();
        columns.into_iter().map(|(_, column)| column).collect()
    }

    /// Fails where a type has no way into its column, before a row is there.
    pub(crate) fn check(&self, given: &SchemaRef) -> Result<()> {
        for (field, source) in self.schema.fields().iter().zip(&self.sources) {
            let Some(source) = source else { continue };
            check(given.fields().get(*source).map_or(&DataType::Null, |field| field.data_type()), field)?;
        }
        Ok(())
    }

    /// The rows in parts whose JSON texts take no more than so much at once, but for those of one row. Most often there are none.
    pub(crate) fn parts(&self, batch: &RecordBatch) -> Vec<RecordBatch> {
        let mut sources = self.sources.iter().flatten().filter_map(|source| batch.columns().get(*source));
        if !sources.any(|column| is_nested(column.data_type())) {
            return vec![batch.clone()];
        }
        let most = limits::JSON_TEXT_BYTES;
        let is_large = |batch: &RecordBatch| {
            let nested = batch.columns().iter().filter(|column| is_nested(column.data_type()));
            nested.map(|column| json_bytes(column, most)).fold(0, usize::saturating_add) > most
        };
        let (mut left, mut parts) = (vec![batch.clone()], Vec::new());
        while let Some(batch) = left.pop() {
            let rows = batch.num_rows();
            if rows > 1 && is_large(&batch) {
                let half = rows / 2;
                left.push(batch.slice(half, rows - half));
                left.push(batch.slice(0, half));
            } else {
                parts.push(batch);
            }
        }
        parts
    }

    pub(crate) fn of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let column = |field: &Field, source| assigned(batch.column(source), field, source < self.own);
        self.made(batch.num_rows(), column)
    }

    /// Values of the statement as a column has them.
    pub(crate) fn assigned(&self, values: &ArrayRef, field: &Field) -> Result<ArrayRef> {
        assigned(values, field, false)
    }

    /// Rows of what is made of each place where their values come from.
    pub(crate) fn made(
        &self,
        rows: usize,
        column: impl Fn(&Field, usize) -> Result<ArrayRef>,
    ) -> Result<RecordBatch> {
        let columns = self.schema.fields().iter().zip(&self.sources).map(|(field, source)| match source {
            Some(source) => column(field, *source),
            None => Ok(new_null_array(&field.data_type.to_arrow(), rows)),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        // Nulls are refused by whoever takes the rows, which names the row.
        let fields = self.arrow.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let arrow = Arc::new(arrow_schema::Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(arrow, columns, &options)
            .map_err(|error| Error::Internal(error.to_string()))
    }
}

fn mismatch(field: &Field, why: &str) -> Error {
    Error::new(ErrorKind::TypeMismatch, format!("column {:?}: {why}", field.name))
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// Numbers are stored as numbers, times as times, and texts as whatever they say.
fn is_assignable(given: &DataType, column: Logical) -> bool {
    match given {
        DataType::Null => true,
        given if is_text(given) => true,
        DataType::Boolean => matches!(column, Logical::Bool | Logical::Utf8),
        given if given.is_numeric() => column.is_numeric() || column == Logical::Utf8,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => {
            matches!(column, Logical::Date32 | Logical::Timestamp | Logical::Utf8)
        }
        given => is_nested(given) && column == Logical::Utf8,
    }
}

/// As [`is_assignable`], of any column.
fn is_stored(given: &DataType, field: &Field) -> bool {
    let Some(held) = field.logical else { return is_assignable(given, field.data_type) };
    match (held, given) {
        (_, DataType::Null) => true,
        (_, given) if is_text(given) => true,
        (Held::Decimal { .. }, given) => given.is_numeric(),
        (Held::Binary, given) => {
            let wide = matches!(given, DataType::LargeBinary | DataType::BinaryView);
            wide || matches!(given, DataType::Binary | DataType::FixedSizeBinary(_))
        }
        (Held::Time, given) => matches!(given, DataType::Time32(_) | DataType::Time64(_)),
    }
}

/// Fails where a type has no way into a column.
pub(crate) fn check(given: &DataType, field: &Field) -> Result<()> {
    match is_stored(given, field) {
        true => Ok(()),
        false if matches!(given, DataType::Interval(_) | DataType::Duration(_)) => {
            let instead = "extract(epoch FROM ...) gives its seconds, CAST(... AS VARCHAR) its text";
            Err(mismatch(field, &format!("an interval is not stored as {}: {instead}", field.type_name())))
        }
        false => Err(mismatch(field, &format!("{given} is not stored as {}", field.type_name()))),
    }
}

/// Values as their column has them.
fn assigned(column: &ArrayRef, field: &Field, is_own: bool) -> Result<ArrayRef> {
    let typed = if is_own { as_type(column, field)? } else { typed(column, field)? };
    Ok(logical::to_form(&typed, field.logical)?)
}

/// Values of a statement, of the type that their column has beyond the doors of the engine.
pub(crate) fn typed(column: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    let typed = as_type(column, field)?;
    if let Some((_, shown)) = checked::first_beyond(&typed) {
        let message = format!(
            "column {:?} of type {}: {shown} is not within 0001-01-01 to 9999-12-31",
            field.name,
            field.type_name()
        );
        return Err(Error::new(ErrorKind::Overflow, message));
    }
    Ok(typed)
}

/// A message without what it begins with: what kind of error it is.
fn in_words(message: &str) -> &str {
    message.split_once(": ").map_or(message, |(_, words)| words)
}

/// Values of their column's type.
fn as_type(column: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    let (given, wanted) = (column.data_type(), field.to_arrow_type());
    if *given == wanted {
        return Ok(Arc::clone(column));
    }
    check(given, field)?;
    if is_nested(given) {
        let texts = to_json_within(column, MAX_TEXT_BYTES, limits::JSON_BATCH_BYTES);
        return Ok(Arc::new(texts.map_err(|error| mismatch(field, in_words(&error.to_string())))?));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let cast = |column: &ArrayRef, to: &DataType| {
        cast_with_options(column, to, &options).map_err(|error| {
            let kind = if given.is_numeric() { ErrorKind::Overflow } else { ErrorKind::TypeMismatch };
            let message = error.to_string();
            let words = in_words(&message);
            Error::new(kind, format!("column {:?} of type {}: {words}", field.name, field.type_name()))
        })
    };
    if field.logical == Some(Held::Binary) && is_text(given) {
        let texts = cast(column, &DataType::Utf8)?;
        let bytes = bytes::of_texts(texts.as_string::<i32>(), false);
        return Ok(Arc::new(bytes.map_err(|error| mismatch(field, &error.to_string()))?));
    }
    // A cast of so many digits to an integer takes the last of its bits.
    if let (DataType::Decimal256(..), true) = (given, wanted.is_integer()) {
        return as_type(&cast(column, &checked::narrower(given))?, field);
    }
    let told = |error: Error| match error.statement() {
        Some(own) => {
            let message = format!("column {:?} of type {}: {}", field.name, field.type_name(), own.message());
            Error::new(own.kind(), message)
        }
        None => error,
    };
    // Texts say what they do in CAST.
    if let (DataType::Decimal128(precision, scale), true) = (&wanted, is_text(given)) {
        let texts = cast(column, &DataType::Utf8)?;
        let read = of_texts::decimals(texts.as_string::<i32>(), *precision, *scale, false);
        return Ok(Arc::new(read.map_err(told)?));
    }
    if let (DataType::Float32 | DataType::Float64, DataType::Decimal128(..)) = (given, &wanted) {
        return floats::decimals(column, &wanted, false).map_err(told);
    }
    if let (DataType::Time64(_), true) = (&wanted, is_text(given)) {
        let texts = cast(column, &DataType::Utf8)?;
        let clocks = of_texts::clocks(texts.as_string::<i32>(), false).map_err(told)?;
        return cast(&(Arc::new(clocks) as ArrayRef), &wanted);
    }
    if let (DataType::Timestamp(..), true) = (&wanted, is_text(given)) {
        let texts = cast(column, &DataType::Utf8)?;
        return cast(
            &(Arc::new(basalt_nested::all_with_seconds(texts.as_string::<i32>())) as ArrayRef),
            &wanted,
        );
    }
    if let (DataType::Timestamp(..) | DataType::Time64(_), Some(micros)) =
        (&wanted, basalt_nested::nanos_to_micros(column))
    {
        return as_type(&micros, field);
    }
    // Timestamps are written as CAST writes them.
    if is_text(&wanted) && functions::is_written(given) {
        let texts = functions::texts(column).map_err(|error| mismatch(field, &error.to_string()))?;
        return cast(&(Arc::new(texts) as ArrayRef), &wanted);
    }
    let cast_column = match given {
        DataType::Decimal128(..) | DataType::Decimal256(..) if wanted.is_floating() => {
            // Default: they are decimals that are to be floats.
            nearest::floats(column, &wanted).unwrap_or_else(|| Arc::clone(column))
        }
        // A date of milliseconds may have a time of day, and be before 1970: its day is the one in which it is.
        DataType::Date64 if wanted == DataType::Date32 => {
            cast(&cast(column, &DataType::Timestamp(TimeUnit::Millisecond, None))?, &wanted)?
        }
        // A time without a zone is one of UTC.
        DataType::Timestamp(unit, None) if field.data_type == Logical::Timestamp => {
            cast(&cast(column, &DataType::Timestamp(*unit, Some("UTC".into())))?, &wanted)?
        }
        _ => cast(column, &wanted)?,
    };
    if wanted.is_floating() {
        // Of texts in a dictionary those that the rows have.
        let given = if is_text(given) { cast(column, &DataType::Utf8)? } else { Arc::clone(column) };
        if let Some(row) = checked::first_overflow(&given, &cast_column) {
            return Err(told(checked::overflow(&given, &cast_column, row)));
        }
    }
    Ok(nan::of_array(cast_column))
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        Date64Array, StringArray, TimestampNanosecondArray,
        types::{Date32Type, TimestampMicrosecondType},
    };

    use super::*;

    #[test]
    fn lists_are_json_in_columns_of_texts() {
        let lists = |rows: usize, each: usize| {
            let values: ArrayRef = Arc::new(StringArray::from(vec!["a \"b\""; rows * each]));
            let field = Arc::new(arrow_schema::Field::new_list_field(DataType::Utf8, true));
            let each = i32::try_from(each).unwrap();
            Arc::new(arrow_array::FixedSizeListArray::new(field, each, values, None)) as ArrayRef
        };
        let schema = Schema::new(vec![Field::new("l", Logical::Utf8, true)]).unwrap();
        let rows = Rows::new(&schema, vec![Some(0)]);
        let batch = |rows, each| RecordBatch::try_from_iter([("l", lists(rows, each))]).unwrap();
        let made = rows.of(&batch(64, 2)).unwrap();
        assert_eq!(made.column(0).as_string::<i32>().value(63), r#"["a \"b\"","a \"b\""]"#);
        assert_eq!(rows.parts(&batch(64, 2)).len(), 1);
        // Of long texts few are made at once.
        let parts = rows.parts(&batch(64, 50_000));
        assert!((2..64).contains(&parts.len()), "{}", parts.len());
        assert_eq!(parts.iter().map(RecordBatch::num_rows).sum::<usize>(), 64);
        assert!(rows.of(&parts[0]).is_ok());
        let error = rows.of(&batch(1, 200_000)).unwrap_err().to_string();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
        let numbers = Schema::new(vec![Field::new("l", Logical::Int64, true)]).unwrap();
        let error = Rows::new(&numbers, vec![Some(0)]).of(&batch(1, 2)).unwrap_err().to_string();
        assert!(error.contains("is not stored as int64"), "{error}");
    }

    #[test]
    fn what_is_finer_than_a_column_is_cut_towards_the_past() {
        let at = Field::new("at", Logical::Timestamp, true);
        let times = TimestampNanosecondArray::from(vec![Some(-1), None, Some(-1000), Some(1999)]);
        for times in [times.clone(), times.clone().with_timezone("UTC"), times.with_timezone("+02:00")] {
            let times: ArrayRef = Arc::new(times);
            let made = typed(&times, &at).unwrap();
            assert_eq!(*made.data_type(), at.to_arrow_type());
            let expected = [Some(-1_i64), None, Some(-1), Some(1)];
            assert!(made.as_primitive::<TimestampMicrosecondType>().iter().eq(expected), "{made:?}");
        }
        let day = Field::new("day", Logical::Date32, true);
        let dates: ArrayRef = Arc::new(Date64Array::from(vec![-1, -86_400_000, 0, 86_399_999]));
        let made = typed(&dates, &day).unwrap();
        assert_eq!(made.as_primitive::<Date32Type>().values().to_vec(), [-1, -1, 0, 0]);
    }
}
