//! Rows on their way into a fragment: keys, texts and validity, column by column.

use std::{ops::RangeInclusive, sync::Arc};

use arrow_array::{
    Array, ArrayRef, StringArray,
    builder::StringBuilder,
    cast::AsArray,
    types::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
        TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use rayon::prelude::*;

use super::{
    Column, Fragment, FragmentData, Values, array_of_keys,
    budget::{self, First},
};
use crate::{
    error::{Error, ErrorKind, Result},
    invariant::{Invariant, broken},
    keys,
    limits::{BATCH_ROWS, BLOCK_ROWS, DATES, MAX_TEXT_BYTES, PARALLEL_ROWS, TIMESTAMPS},
    mask::{self, selects, set_range},
    schema::{DataType, Field, Schema},
    time::{format_date, format_timestamp},
};

/// What callers see to.
const SAME_SCHEMA: &str = "rows are put together of one schema";
const FEW_BYTES: &str = "the texts of a fragment's rows are below 2 GiB";

/// Validity bits that are only kept once there is a null.
#[derive(Debug, Default)]
struct Validity {
    words: Vec<u64>,
    rows: usize,
    nulls: usize,
}

impl Validity {
    /// Appends `n` rows; `is_valid` is asked only when there may be nulls.
    fn extend(&mut self, n: usize, is_valid: impl Fn(usize) -> bool, nulls: usize) {
        debug_assert!(nulls <= n, "{nulls} nulls in {n} rows");
        self.nulls += nulls;
        let (start, end) = (self.rows, self.rows + n);
        self.rows = end;
        self.words.resize(end.div_ceil(64), 0);
        if nulls > 0 {
            for row in (start..end).filter(|row| is_valid(row - start)) {
                self.words[row / 64] |= 1 << (row % 64);
            }
        } else {
            set_range(&mut self.words, start, end);
        }
    }

    fn words(&self) -> Option<&[u64]> {
        (self.nulls > 0).then_some(self.words.as_slice())
    }

    fn nulls(&self) -> Option<NullBuffer> {
        let bits = |words| BooleanBuffer::new(Buffer::from_slice_ref(words), 0, self.rows);
        self.words().map(bits).map(NullBuffer::new)
    }
}

#[derive(Debug)]
enum Data {
    Keys(Vec<i64>),
    Texts(StringBuilder),
}

#[derive(Debug)]
struct ColumnBuffer {
    data: Data,
    validity: Validity,
}

impl ColumnBuffer {
    /// Appends those of the rows `start..start + n` of an encoded column that `live` selects (`None`: all).
    fn push_column(&mut self, column: &Column, start: usize, n: usize, live: Option<&[u64]>) {
        let valid = column.validity_words(start, n);
        let is_valid = |row: usize| selects(valid.as_deref(), row);
        match live {
            None => {
                // Default: without a mask no row is null.
                let nulls = valid.as_deref().map_or(0, |valid| n - mask::count(valid));
                self.validity.extend(n, is_valid, nulls);
            }
            Some(live) => basalt_kernels::mask::for_each(live, |row| {
                self.validity.extend(1, |_| is_valid(row), usize::from(!is_valid(row)));
            }),
        }
        match (&mut self.data, column.values()) {
            (Data::Keys(keys), Values::Keys(values)) => {
                let at = keys.len();
                keys.resize(at + n, 0);
                values.decode(start, &mut keys[at..]);
                if let Some(live) = live {
                    let mut to = at;
                    basalt_kernels::mask::for_each(live, |row| {
                        keys[to] = keys[at + row];
                        to += 1;
                    });
                    keys.truncate(to);
                }
            }
            (Data::Texts(texts), Values::Text(values)) => {
                let batch = values.decode(start, n, valid.as_deref());
                // Behind a null lies some text of the column, perhaps a long one.
                let text = |row| if is_valid(row) { batch.get(row) } else { "" };
                let rows = (0..n).filter(|row| selects(live, *row));
                rows.for_each(|row| texts.append_value(text(row)));
            }
            _ => broken(SAME_SCHEMA),
        }
    }
}

/// Rows that are not encoded yet.
#[derive(Debug)]
pub struct RowBuffer {
    columns: Vec<ColumnBuffer>,
    rows: usize,
}

impl RowBuffer {
    /// An empty buffer for the columns of a schema.
    pub fn new(schema: &Schema) -> Self {
        Self::with_capacity(schema, 0, |_| 0)
    }

    /// The same with room for so many rows, and for so many bytes of the texts of each column, by its place. What grows
    /// is there twice while it does.
    pub fn with_capacity(schema: &Schema, rows: usize, text_bytes: impl Fn(usize) -> usize) -> Self {
        let columns = schema.fields().iter().enumerate().map(|(place, field)| ColumnBuffer {
            data: match field.data_type {
                DataType::Utf8 => Data::Texts(StringBuilder::with_capacity(rows, text_bytes(place))),
                _ => Data::Keys(Vec::with_capacity(rows)),
            },
            validity: Validity::default(),
        });
        Self { columns: columns.collect(), rows: 0 }
    }

    /// An empty buffer with room for as much as this one holds: what grows is copied, and new pages are cleared for it.
    pub(crate) fn next_of(&self, schema: &Schema) -> Self {
        Self::with_capacity(schema, self.rows, |place| match &self.columns[place].data {
            Data::Texts(texts) => texts.values_slice().len(),
            Data::Keys(_) => 0,
        })
    }

    /// Rows held.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let data = |c: &ColumnBuffer| match &c.data {
            Data::Keys(keys) => keys.capacity() * 8,
            Data::Texts(texts) => texts.values_slice().len() + texts.offsets_slice().len() * 4,
        };
        self.columns.iter().map(|c| data(c) + c.validity.words.capacity() * 8).sum()
    }

    /// Appends rows; `arrays` has one array for every column of the schema (`None`: all null), all of `rows`
    /// rows and of the types that [`check_array`] has passed.
    pub fn push(&mut self, arrays: &[Option<ArrayRef>], rows: usize) {
        assert_eq!(self.columns.len(), arrays.len(), "{SAME_SCHEMA}");
        for (column, array) in self.columns.iter_mut().zip(arrays) {
            assert!(
                array.as_ref().is_none_or(|array| array.len() == rows),
                "the columns of a batch have its rows"
            );
            let nulls = array.as_ref().map_or(rows, Array::null_count);
            let is_valid = |i: usize| array.as_ref().is_some_and(|a| a.is_valid(i));
            column.validity.extend(rows, is_valid, nulls);
            match (&mut column.data, array) {
                (Data::Keys(keys), Some(array)) => push_keys(keys, array.as_ref()),
                (Data::Keys(keys), None) => keys.resize(keys.len() + rows, 0),
                (Data::Texts(texts), Some(array)) if nulls == 0 => {
                    texts.append_array(array.as_string::<i32>()).invariant(FEW_BYTES);
                }
                (Data::Texts(texts), Some(array)) => {
                    // Default: any text will do under a null.
                    array.as_string::<i32>().iter().for_each(|t| texts.append_value(t.unwrap_or("")));
                }
                (Data::Texts(texts), None) => (0..rows).for_each(|_| texts.append_value("")),
            }
        }
        self.rows += rows;
    }

    /// Appends the rows of another buffer of the same schema.
    pub fn append(&mut self, other: Self) {
        assert_eq!(self.columns.len(), other.columns.len(), "{SAME_SCHEMA}");
        for (to, from) in self.columns.iter_mut().zip(other.columns) {
            let words = from.validity.words();
            to.validity.extend(other.rows, |row| selects(words, row), from.validity.nulls);
            match (&mut to.data, from.data) {
                (Data::Keys(keys), Data::Keys(more)) if keys.is_empty() => *keys = more,
                (Data::Keys(keys), Data::Keys(more)) => keys.extend(more),
                (Data::Texts(texts), Data::Texts(mut more)) => {
                    let more = more.finish();
                    debug_assert_eq!(more.null_count(), 0, "nulls are held beside the texts");
                    texts.append_array(&more).invariant(FEW_BYTES);
                }
                _ => broken(SAME_SCHEMA),
            }
        }
        self.rows += other.rows;
    }

    /// Appends the live rows of a fragment of the same schema.
    pub fn push_fragment(&mut self, fragment: &Fragment) {
        assert_eq!(self.columns.len(), fragment.data().width(), "{SAME_SCHEMA}");
        let mut live = Vec::new();
        for start in (0..fragment.rows()).step_by(BATCH_ROWS) {
            let n = (fragment.rows() - start).min(BATCH_ROWS);
            let left = fragment.live(start / BLOCK_ROWS).slice(start % BLOCK_ROWS, n, &mut live);
            if left == 0 {
                continue;
            }
            for (place, buffer) in self.columns.iter_mut().enumerate() {
                let column = fragment.column(place);
                buffer.push_column(column, start, n, Some(live.as_slice()).filter(|_| left < n));
            }
            self.rows += left;
        }
    }

    /// Encodes the rows, columns in parallel where there are many rows.
    ///
    /// # Errors
    /// Those of the encodings.
    pub fn encode(self, schema: &Schema) -> Result<FragmentData> {
        let rows = self.rows;
        let columns = self.each_column(schema, |_, column, field| column.finish().encode(field))?;
        Ok(FragmentData::of(rows, budget::spend(columns)?))
    }

    /// The same, and has something else made of each column at the same time: `make` is given its place and its values,
    /// as an Arrow array of its type. They are the values that are encoded, bit for bit.
    ///
    /// # Errors
    /// Those of the encodings and of `make`.
    pub fn encode_and<T: Send, E: From<Error> + Send>(
        self,
        schema: &Schema,
        make: impl Fn(usize, ArrayRef) -> std::result::Result<T, E> + Sync,
    ) -> std::result::Result<(FragmentData, Vec<T>), E> {
        let rows = self.rows;
        let both = |place: usize, column: ColumnBuffer, field: &Field| {
            let column = column.finish();
            let array = column.array(field.data_type);
            let (encoded, made) = match rows < PARALLEL_ROWS {
                true => (column.encode(field), make(place, array)),
                false => rayon::join(|| column.encode(field), || make(place, array)),
            };
            Ok::<_, E>((encoded?, made?))
        };
        let (columns, made) = self.each_column(schema, both)?.into_iter().unzip();
        Ok((FragmentData::of(rows, budget::spend(columns)?), made))
    }

    /// Columns at once where there are many rows. Few are done sooner than another thread wakes up.
    fn each_column<T: Send, E: Send>(
        self,
        schema: &Schema,
        make: impl Fn(usize, ColumnBuffer, &Field) -> std::result::Result<T, E> + Sync,
    ) -> std::result::Result<Vec<T>, E> {
        let fields = schema.fields();
        let make = |(place, (column, field)): (usize, (ColumnBuffer, &Field))| make(place, column, field);
        match self.rows < PARALLEL_ROWS {
            true => self.columns.into_iter().zip(fields).enumerate().map(make).collect(),
            false => self.columns.into_par_iter().zip(fields).enumerate().map(make).collect(),
        }
    }
}

/// The rows of a column, of which there are no more to come.
struct ColumnRows {
    values: RowValues,
    validity: Validity,
}

/// Copies share their values.
enum RowValues {
    Keys(ScalarBuffer<i64>),
    Texts(StringArray),
}

impl ColumnBuffer {
    fn finish(self) -> ColumnRows {
        let values = match self.data {
            Data::Keys(keys) => RowValues::Keys(keys.into()),
            Data::Texts(mut texts) => RowValues::Texts(with_nulls(texts.finish(), &self.validity)),
        };
        ColumnRows { values, validity: self.validity }
    }
}

impl ColumnRows {
    fn encode(&self, field: &Field) -> Result<First> {
        match &self.values {
            RowValues::Keys(keys) => Column::first_of_keys(field, keys, self.validity.words()),
            RowValues::Texts(texts) => Column::first_of_texts(field, texts, self.validity.words()),
        }
    }

    fn array(&self, data_type: DataType) -> ArrayRef {
        match &self.values {
            RowValues::Keys(keys) => array_of_keys(keys.clone(), self.validity.nulls(), data_type),
            RowValues::Texts(texts) => Arc::new(texts.clone()),
        }
    }
}

fn with_nulls(texts: StringArray, validity: &Validity) -> StringArray {
    // A new array is validated, every text of it.
    match validity.nulls() {
        None if texts.nulls().is_none() => texts,
        nulls => {
            let (offsets, values, _) = texts.into_parts();
            StringArray::new(offsets, values, nulls)
        }
    }
}

/// Checks that an array fits a column: its type, its nulls, decimals within the precision, texts within the
/// limit.
///
/// # Errors
/// [`ErrorKind::TypeMismatch`] or [`ErrorKind::InvalidBatch`], with the row where there is one.
pub fn check_array(array: &dyn Array, field: &Field) -> Result<()> {
    check_array_from(array, field, 0)
}

/// The same of rows of which the first has this number where one of them is named.
///
/// # Errors
/// Those of [`check_array`].
pub fn check_array_from(array: &dyn Array, field: &Field, first: u64) -> Result<()> {
    let expected = field.data_type.to_arrow();
    let fits = match (array.data_type(), field.data_type) {
        // Any precision up to the column's own check below, and any time zone: the instant is the same.
        (arrow_schema::DataType::Decimal128(_, s), DataType::Decimal { scale, .. }) => {
            *s == scale.cast_signed()
        }
        (arrow_schema::DataType::Timestamp(unit, _), DataType::Timestamp) => {
            *unit == arrow_schema::TimeUnit::Microsecond
        }
        (given, _) => *given == expected,
    };
    if !fits {
        let message = format!("column {:?} is {}, not {}", field.name, field.type_name(), array.data_type());
        return Err(Error::new(ErrorKind::TypeMismatch, message));
    }
    let row_error = |row: usize, what: String| {
        let message = format!("column {:?}, row {}: {what}", field.name, first + row as u64);
        Err(Error::new(ErrorKind::InvalidBatch, message))
    };
    if !field.nullable
        && let Some(row) =
            (array.null_count() > 0).then(|| (0..array.len()).find(|i| array.is_null(*i))).flatten()
    {
        return row_error(row, "null in a column that is not nullable".into());
    }
    match field.data_type {
        DataType::Decimal { precision, .. } => {
            let bound = 10u128.pow(u32::from(precision));
            let values = array.as_primitive::<Decimal128Type>();
            let bad = |(i, v): (usize, &i128)| (values.is_valid(i) && v.unsigned_abs() >= bound).then_some(i);
            if let Some(row) = values.values().iter().enumerate().find_map(bad) {
                return row_error(row, format!("{} has more than {precision} digits", values.value(row)));
            }
        }
        DataType::Utf8 => {
            let lengths = array.as_string::<i32>().offsets().lengths();
            if let Some((row, length)) = lengths.enumerate().find(|(_, n)| *n > MAX_TEXT_BYTES) {
                return row_error(row, format!("a text of {length} bytes; the limit is {MAX_TEXT_BYTES}"));
            }
        }
        _ => {}
    }
    let Some(logical) = field.logical else { return Ok(()) };
    // Rows that are counted from another number were put in this form by a reader, which has told what is none.
    logical.check_form(array).map_err(|e| Error::new(e.kind(), format!("column {:?}, {e}", field.name)))
}

/// Checks that dates and timestamps are within [`DATES`] and [`TIMESTAMPS`], as those of a client must be. What a table
/// holds already, or another writer's has, is read as it is.
///
/// # Errors
/// [`ErrorKind::InvalidBatch`] with the row; the number of the first one is `first`.
pub fn check_calendar(array: &dyn Array, field: &Field, first: u64) -> Result<()> {
    match beyond_calendar(array) {
        None => Ok(()),
        Some((row, value)) => {
            let (name, row) = (&field.name, first + row as u64);
            let message = format!("column {name:?}, row {row}: {value} is not within the years 0001 to 9999");
            Err(Error::new(ErrorKind::InvalidBatch, message))
        }
    }
}

/// The first row whose date or timestamp is not within [`DATES`] and [`TIMESTAMPS`], and the value; `None` also of arrays of
/// other types.
pub fn beyond_calendar(array: &dyn Array) -> Option<(usize, String)> {
    if let Some(days) = array.as_primitive_opt::<Date32Type>() {
        let row = first_beyond(array, days.values(), &DATES)?;
        return Some((row, format_date(days.value(row))));
    }
    let micros = array.as_primitive_opt::<TimestampMicrosecondType>()?;
    let row = first_beyond(array, micros.values(), &TIMESTAMPS)?;
    Some((row, format_timestamp(micros.value(row))))
}

/// The first row whose value is not null and not within a range.
fn first_beyond<T: Copy + PartialOrd>(
    array: &dyn Array,
    values: &[T],
    range: &RangeInclusive<T>,
) -> Option<usize> {
    // Most often nothing is: no row is looked at alone.
    if values.iter().fold(true, |within, value| within & (range.start() <= value && value <= range.end())) {
        return None;
    }
    (0..values.len()).find(|row| array.is_valid(*row) && !range.contains(&values[*row]))
}

/// Appends the keys of a fixed-width array; those under a null are arbitrary.
#[allow(clippy::cast_possible_truncation, reason = "decimals are checked to fit 18 digits")]
pub(crate) fn push_keys(out: &mut Vec<i64>, array: &dyn Array) {
    use arrow_schema::DataType as T;
    macro_rules! extend {
        ($type:ty, $key:expr) => {
            out.extend(array.as_primitive::<$type>().values().iter().map($key))
        };
    }
    match array.data_type() {
        T::Boolean => out.extend(array.as_boolean().values().iter().map(i64::from)),
        T::Int8 => extend!(Int8Type, |v| i64::from(*v)),
        T::Int16 => extend!(Int16Type, |v| i64::from(*v)),
        T::Int32 => extend!(Int32Type, |v| i64::from(*v)),
        T::Int64 => extend!(Int64Type, |v| *v),
        T::UInt8 => extend!(UInt8Type, |v| i64::from(*v)),
        T::UInt16 => extend!(UInt16Type, |v| i64::from(*v)),
        T::UInt32 => extend!(UInt32Type, |v| i64::from(*v)),
        T::UInt64 => extend!(UInt64Type, |v| keys::of_u64(*v)),
        T::Float32 => extend!(Float32Type, |v| keys::of_f32(*v)),
        T::Float64 => extend!(Float64Type, |v| keys::of_f64(*v)),
        T::Date32 => extend!(Date32Type, |v| i64::from(*v)),
        T::Decimal128(..) => extend!(Decimal128Type, |v| *v as i64),
        T::Timestamp(..) => extend!(TimestampMicrosecondType, |v| *v),
        other => broken(&format!("{other} is the type of no column")),
    }
}
