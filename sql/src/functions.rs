//! Functions that the planner has not, or has otherwise than people expect.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, IntervalMonthDayNanoArray,
    PrimitiveArray, StringArray,
    cast::AsArray as _,
    types::{
        Decimal128Type, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
        Time64NanosecondType, TimestampMicrosecondType,
    },
};
use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::compute::cast,
    common::{Result, ScalarValue},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility,
    },
};

use basalt_nested::{all_with_seconds, with_seconds};

use crate::{
    bytes,
    calendar::{self, Moment},
    error::Error,
    interval, nan, nearest, nested, of_texts, system, timestamp_texts,
};

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// A time, an interval or a timestamp as text.
    Text,
    /// Text that has the form of a time.
    Clock {
        is_try: bool,
    },
    /// Text of a timestamp, with its seconds.
    Moment,
    /// Text that has the form of a decimal, with an exponent where it has one.
    Decimal {
        precision: u8,
        scale: i8,
        is_try: bool,
    },
    /// Text that stands for bytes.
    Bytes {
        is_try: bool,
    },
    DateDiff,
    DateSub,
    Age,
    TypeOf,
    /// By PostgreSQL's names.
    PgTypeOf,
    RegexpExtract,
    IsInf,
    IsFinite,
    /// So many of a unit.
    Interval,
    /// Its first argument; the second tells it from others.
    Same,
    /// The number by which an interval has its place in an order.
    IntervalOrder,
    /// An interval, so many times.
    IntervalTimes,
    /// A value, of which there is one at most.
    Only,
    /// A float whose zero has no sign; anything else as it is.
    OneZero,
    /// A float of which there is one that is no number; anything else as it is.
    OneNan,
    /// A decimal that is not negative.
    Unsigned {
        is_try: bool,
    },
}

/// A function of this file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Function {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

const ALL: [(&str, Kind); 12] = [
    ("basalt_unsigned", Kind::Unsigned { is_try: false }),
    ("basalt_try_unsigned", Kind::Unsigned { is_try: true }),
    ("basalt_text", Kind::Text),
    ("basalt_date_diff", Kind::DateDiff),
    ("basalt_date_sub", Kind::DateSub),
    ("age", Kind::Age),
    ("typeof", Kind::TypeOf),
    ("pg_typeof", Kind::PgTypeOf),
    ("regexp_extract", Kind::RegexpExtract),
    ("isinf", Kind::IsInf),
    ("isfinite", Kind::IsFinite),
    ("basalt_interval", Kind::Interval),
];

/// The name of [`Kind::Moment`].
const MOMENT: &str = "basalt_moment";

/// Those that only statements which were rewritten have.
const INNER: [(&str, Kind); 11] = [
    ("basalt_clock", Kind::Clock { is_try: false }),
    ("basalt_try_clock", Kind::Clock { is_try: true }),
    (MOMENT, Kind::Moment),
    ("basalt_bytes", Kind::Bytes { is_try: false }),
    ("basalt_try_bytes", Kind::Bytes { is_try: true }),
    ("basalt_same", Kind::Same),
    ("basalt_only", Kind::Only),
    (ONE_ZERO, Kind::OneZero),
    (ONE_NAN, Kind::OneNan),
    ("basalt_interval_order", Kind::IntervalOrder),
    ("basalt_interval_times", Kind::IntervalTimes),
];

fn function(name: &'static str, kind: Kind) -> ScalarUDF {
    let signature = Signature::variadic_any(Volatility::Immutable);
    ScalarUDF::new_from_impl(Function { name, kind, signature })
}

/// What a session has of them.
pub(crate) fn all() -> impl Iterator<Item = ScalarUDF> {
    ALL.into_iter().map(|(name, kind)| function(name, kind))
}

/// What a task may have beside them.
pub(crate) fn inner() -> impl Iterator<Item = ScalarUDF> {
    INNER.into_iter().map(|(name, kind)| function(name, kind))
}

/// A value as text.
pub(crate) fn text(expr: Expr) -> Expr {
    function("basalt_text", Kind::Text).call(vec![expr])
}

/// Text that is to be a time.
pub(crate) fn clock(expr: Expr, is_try: bool) -> Expr {
    function(if is_try { "basalt_try_clock" } else { "basalt_clock" }, Kind::Clock { is_try })
        .call(vec![expr])
}

/// Text that is to be a timestamp.
pub(crate) fn moment(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(value, metadata) => {
            let whole = value.try_as_str().flatten().map(|text| with_seconds(text).into_owned());
            Expr::Literal(whole.map_or(value, |text| ScalarValue::Utf8(Some(text))), metadata)
        }
        Expr::ScalarFunction(of) if of.func.name() == MOMENT => Expr::ScalarFunction(of),
        expr => function(MOMENT, Kind::Moment).call(vec![expr]),
    }
}

/// Text that is to be a decimal.
pub(crate) fn decimal(expr: Expr, precision: u8, scale: i8, is_try: bool) -> Expr {
    function("basalt_decimal", Kind::Decimal { precision, scale, is_try }).call(vec![expr])
}

/// Text that is to be bytes.
pub(crate) fn bytes(expr: Expr, is_try: bool) -> Expr {
    function(if is_try { "basalt_try_bytes" } else { "basalt_bytes" }, Kind::Bytes { is_try })
        .call(vec![expr])
}

/// The same value, by one of several functions.
pub(crate) fn same(expr: Expr, number: usize) -> Expr {
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    function("basalt_same", Kind::Same).call(vec![expr, datafusion::logical_expr::lit(number)])
}

/// A value, where the second argument says that there is one at most.
pub(crate) fn only(value: Expr, count: Expr) -> Expr {
    function("basalt_only", Kind::Only).call(vec![value, count])
}

/// The function of [`one_zero`].
pub(crate) const ONE_ZERO: &str = "basalt_one_zero";

/// The name of [`Kind::OneNan`].
const ONE_NAN: &str = "basalt_one_nan";

/// A float as others tell it from the rest by its bits: with one zero.
pub(crate) fn one_zero(expr: Expr) -> Expr {
    function(ONE_ZERO, Kind::OneZero).call(vec![expr])
}

/// A float that may have become no number.
pub(crate) fn one_nan(expr: Expr) -> Expr {
    function(ONE_NAN, Kind::OneNan).call(vec![expr])
}

/// What an interval is compared by.
pub(crate) fn interval_order(expr: Expr) -> Expr {
    function("basalt_interval_order", Kind::IntervalOrder).call(vec![expr])
}

/// An interval, a whole number of times.
pub(crate) fn interval_times(interval: Expr, times: Expr) -> Expr {
    function("basalt_interval_times", Kind::IntervalTimes).call(vec![interval, times])
}

/// Whether a value of this type is written here, not by the cast to text.
pub(crate) fn is_written(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Timestamp(..)
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Interval(_)
            | DataType::Duration(_)
    ) || nested::is_nested(data_type)
}

fn wrong(name: &str, takes: &str) -> Error {
    Error::new(ErrorKind::TypeMismatch, format!("{name} takes {takes}"))
}

/// Months, days and time.
pub(crate) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

impl Function {
    fn check(&self, types: &[DataType]) -> Result<()> {
        let (numbers, takes) = match self.kind {
            Kind::DateDiff | Kind::DateSub => (3..=3, "a part and two timestamps"),
            Kind::RegexpExtract => (2..=3, "a text, a pattern and a group"),
            Kind::Age | Kind::Interval | Kind::IntervalTimes | Kind::Same | Kind::Only => {
                (2..=2, "two arguments")
            }
            _ => (1..=1, "one argument"),
        };
        if numbers.contains(&types.len()) { Ok(()) } else { Err(wrong(self.name, takes).into()) }
    }

    fn evaluate(&self, args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(match self.kind {
            Kind::Text => Arc::new(texts(&args[0])?),
            Kind::Same => Arc::clone(&args[0]),
            Kind::OneZero => nan::same_bits(&args[0]),
            Kind::OneNan => nan::of_array(Arc::clone(&args[0])),
            Kind::Unsigned { is_try } => {
                let values = cast(&args[0], &DataType::Decimal128(38, 0))?;
                let values = values.as_primitive::<Decimal128Type>();
                if !is_try && values.iter().flatten().any(|value| value < 0) {
                    let message = "a negative number is no UHUGEINT";
                    return Err(Error::new(ErrorKind::Overflow, message).into());
                }
                let kept = values.iter().map(|value| value.filter(|value| *value >= 0));
                Arc::new(kept.collect::<Decimal128Array>().with_precision_and_scale(38, 0)?)
            }
            Kind::Only => {
                let counts = cast(&args[1], &DataType::Int64)?;
                if counts.as_primitive::<Int64Type>().iter().flatten().any(|count| count > 1) {
                    return Err(
                        Error::invalid("a subquery that stands for a value has more than one row").into()
                    );
                }
                Arc::clone(&args[0])
            }
            Kind::Clock { is_try } => {
                let texts = cast(&args[0], &DataType::Utf8)?;
                Arc::new(of_texts::clocks(texts.as_string::<i32>(), is_try)?)
            }
            Kind::Moment => {
                let texts = cast(&args[0], &DataType::Utf8)?;
                Arc::new(all_with_seconds(texts.as_string::<i32>()))
            }
            Kind::Decimal { precision, scale, is_try } => {
                let texts = cast(&args[0], &DataType::Utf8)?;
                Arc::new(of_texts::decimals(texts.as_string::<i32>(), precision, scale, is_try)?)
            }
            Kind::Bytes { is_try } => {
                let texts = cast(&args[0], &DataType::Utf8)?;
                Arc::new(bytes::of_texts(texts.as_string::<i32>(), is_try)?)
            }
            Kind::DateDiff | Kind::DateSub => {
                let parts = cast(&args[0], &DataType::Utf8)?;
                let (from, to) = (moments(&args[1])?, moments(&args[2])?);
                let parts = parts.as_string::<i32>();
                // All rows have one part, mostly.
                let mut last: Option<(&str, String)> = None;
                let of_row = |row: usize| {
                    if parts.is_null(row) || from.is_null(row) || to.is_null(row) {
                        return Ok(None);
                    }
                    let (from, to) = (Moment(from.value(row)), Moment(to.value(row)));
                    let given = parts.value(row);
                    let part = match &last {
                        Some((known, part)) if *known == given => part,
                        _ => &last.insert((given, given.to_lowercase())).1,
                    };
                    let between = match self.kind {
                        Kind::DateDiff => calendar::boundaries(part, from, to),
                        _ => calendar::whole(part, from, to),
                    };
                    between
                        .map(Some)
                        .ok_or_else(|| Error::invalid(format!("date part {part:?} is not supported")))
                };
                let numbers: std::result::Result<Int64Array, Error> = (0..rows).map(of_row).collect();
                Arc::new(numbers?)
            }
            Kind::Age => {
                let (to, from) = (moments(&args[0])?, moments(&args[1])?);
                let of_row = |row: usize| {
                    let is_there = to.is_valid(row) && from.is_valid(row);
                    is_there.then(|| calendar::age(Moment(from.value(row)), Moment(to.value(row))))
                };
                Arc::new((0..rows).map(of_row).collect::<IntervalMonthDayNanoArray>())
            }
            Kind::TypeOf => Arc::new(StringArray::from(vec![type_name(args[0].data_type()); rows])),
            Kind::PgTypeOf => {
                Arc::new(StringArray::from(vec![system::postgres_name(args[0].data_type()); rows]))
            }
            Kind::RegexpExtract => Arc::new(extract(args, rows)?),
            Kind::IsInf => {
                Arc::new(floats(&args[0])?.iter().map(|x| x.map(f64::is_infinite)).collect::<BooleanArray>())
            }
            Kind::IsFinite => {
                Arc::new(floats(&args[0])?.iter().map(|x| x.map(f64::is_finite)).collect::<BooleanArray>())
            }
            Kind::Interval => Arc::new(intervals(args, rows)?),
            Kind::IntervalTimes => {
                let (intervals, times) = (cast(&args[0], &INTERVAL)?, cast(&args[1], &DataType::Int64)?);
                let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>().iter();
                let pairs = intervals.zip(times.as_primitive::<Int64Type>());
                let long = || Error::new(ErrorKind::Overflow, "the interval is too long");
                let of_row = |(interval, times): (Option<IntervalMonthDayNano>, Option<i64>)| {
                    let (Some(interval), Some(times)) = (interval, times) else { return Ok(None) };
                    interval::times(interval, times).map(Some).ok_or_else(long)
                };
                let all: std::result::Result<IntervalMonthDayNanoArray, Error> = pairs.map(of_row).collect();
                Arc::new(all?)
            }
            Kind::IntervalOrder => {
                let order: Decimal128Array = match args[0].data_type() {
                    DataType::Duration(unit) => {
                        let nanos = i128::from(DAY_NANOS / per_day(*unit));
                        let spans = cast(&args[0], &DataType::Int64)?;
                        let spans = spans.as_primitive::<Int64Type>();
                        spans.iter().map(|x| x.map(|x| i128::from(x) * nanos)).collect()
                    }
                    _ => {
                        let intervals = cast(&args[0], &INTERVAL)?;
                        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
                        intervals.iter().map(|x| x.map(interval::order)).collect()
                    }
                };
                Arc::new(order.with_precision_and_scale(38, 0)?)
            }
        })
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.check(types)?;
        Ok(match self.kind {
            Kind::Text | Kind::Clock { .. } | Kind::Moment => DataType::Utf8,
            Kind::TypeOf | Kind::PgTypeOf | Kind::RegexpExtract => DataType::Utf8,
            Kind::Decimal { precision, scale, .. } => DataType::Decimal128(precision, scale),
            Kind::Bytes { .. } => DataType::Binary,
            Kind::DateDiff | Kind::DateSub => DataType::Int64,
            Kind::Age | Kind::Interval | Kind::IntervalTimes => INTERVAL,
            Kind::Same | Kind::Only | Kind::OneZero | Kind::OneNan => types[0].clone(),
            Kind::IsInf | Kind::IsFinite => DataType::Boolean,
            Kind::IntervalOrder | Kind::Unsigned { .. } => DataType::Decimal128(38, 0),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = self.kind != Kind::Same || args.arg_fields[0].is_nullable();
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_arrays(&args, |arrays, rows| self.evaluate(arrays, rows))
    }
}

/// What a function makes of arrays of its arguments, and of so many rows; of values alone it makes a value, of one row.
pub(crate) fn of_arrays(
    args: &ScalarFunctionArgs,
    make: impl FnOnce(&[ArrayRef], usize) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    of_rows(args, |rows| {
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        make(&arrays, rows)
    })
}

/// The same, of arguments that are taken as they are.
pub(crate) fn of_rows(
    args: &ScalarFunctionArgs,
    make: impl FnOnce(usize) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let of_scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let array = make(if of_scalars { 1 } else { args.number_rows })?;
    Ok(match of_scalars {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
        false => ColumnarValue::Array(array),
    })
}

const DAY_NANOS: i64 = per_day(TimeUnit::Nanosecond);

/// How many of a unit a day has.
const fn per_day(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 86_400,
        TimeUnit::Millisecond => 86_400_000,
        TimeUnit::Microsecond => 86_400_000_000,
        TimeUnit::Nanosecond => 86_400_000_000_000,
    }
}

/// Values as texts, by a cast.
pub(crate) fn cast_to_texts(array: &ArrayRef) -> Result<StringArray> {
    Ok(cast(array, &DataType::Utf8)?.as_string::<i32>().clone())
}

pub(crate) fn floats(array: &ArrayRef) -> Result<Float64Array> {
    Ok(nearest::doubles(array)?.as_primitive::<Float64Type>().clone())
}

/// Dates, timestamps and their texts as microseconds.
pub(crate) fn moments(array: &ArrayRef) -> Result<PrimitiveArray<TimestampMicrosecondType>> {
    let plain = match array.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let values = array.as_primitive::<TimestampMicrosecondType>().clone();
            return Ok(values.with_timezone_opt(None::<Arc<str>>));
        }
        DataType::Timestamp(unit, Some(_)) => cast(array, &DataType::Timestamp(*unit, Some("UTC".into())))?,
        _ => Arc::clone(array),
    };
    let micros = cast(&plain, &DataType::Timestamp(TimeUnit::Microsecond, plain_zone(plain.data_type())))?;
    Ok(micros.as_primitive::<TimestampMicrosecondType>().clone().with_timezone_opt(None::<Arc<str>>))
}

fn plain_zone(data_type: &DataType) -> Option<Arc<str>> {
    match data_type {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    }
}

/// Times, intervals and timestamps as text.
pub(crate) fn texts(array: &ArrayRef) -> Result<StringArray> {
    Ok(match array.data_type() {
        DataType::Timestamp(unit, _) => {
            let values = cast(array, &DataType::Int64)?;
            timestamp_texts::texts(values.as_primitive::<Int64Type>(), per_day(*unit) / 86_400)
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            let times = cast(array, &DataType::Time64(TimeUnit::Nanosecond))?;
            times
                .as_primitive::<Time64NanosecondType>()
                .iter()
                .map(|value| value.map(interval::time))
                .collect()
        }
        DataType::Interval(_) | DataType::Duration(_) => {
            as_intervals(array)?.iter().map(|value| value.map(interval::text)).collect()
        }
        nested if nested::is_nested(nested) => nested::texts(array)?,
        _ => cast(array, &DataType::Utf8)?.as_string::<i32>().clone(),
    })
}

/// Intervals of any unit, and durations, which have whole days, as intervals.
pub(crate) fn as_intervals(array: &ArrayRef) -> Result<IntervalMonthDayNanoArray> {
    let DataType::Duration(unit) = array.data_type() else {
        return Ok(cast(array, &INTERVAL)?.as_primitive::<IntervalMonthDayNanoType>().clone());
    };
    let per_day = per_day(*unit);
    let interval = |value: i64| {
        // Default: more days than an interval has.
        let days = i32::try_from(value / per_day).unwrap_or(i32::MAX);
        IntervalMonthDayNano::new(0, days, value % per_day * (DAY_NANOS / per_day))
    };
    let values = cast(array, &DataType::Int64)?;
    Ok(values.as_primitive::<Int64Type>().iter().map(|value| value.map(interval)).collect())
}

fn intervals(args: &[ArrayRef], rows: usize) -> Result<IntervalMonthDayNanoArray> {
    let units = cast(&args[1], &DataType::Utf8)?;
    let units = units.as_string::<i32>();
    let failed = |row: usize| Error::invalid(format!("no interval of so many {}", units.value(row)));
    if !args[0].data_type().is_integer() && *args[0].data_type() != DataType::Null {
        return Err(wrong("an interval of a column", "a whole number").into());
    }
    let numbers = cast(&args[0], &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    let of_row = |row: usize| match numbers.is_valid(row) && units.is_valid(row) {
        true => interval::of_unit(numbers.value(row), units.value(row)).map(Some).ok_or_else(|| failed(row)),
        false => Ok(None),
    };
    Ok((0..rows).map(of_row).collect::<std::result::Result<_, Error>>()?)
}

fn extract(args: &[ArrayRef], rows: usize) -> Result<StringArray> {
    let (texts, patterns) = (cast(&args[0], &DataType::Utf8)?, cast(&args[1], &DataType::Utf8)?);
    let (texts, patterns) = (texts.as_string::<i32>(), patterns.as_string::<i32>());
    let groups = args.get(2).map(|groups| cast(groups, &DataType::Int64)).transpose()?;
    let groups = groups.as_ref().map(|groups| groups.as_primitive::<Int64Type>());
    let mut last: Option<(&str, regex::Regex)> = None;
    let mut extracted = Vec::with_capacity(rows);
    for row in 0..rows {
        if texts.is_null(row) || patterns.is_null(row) || groups.is_some_and(|groups| groups.is_null(row)) {
            extracted.push(None);
            continue;
        }
        let pattern = patterns.value(row);
        let regex = match &last {
            Some((known, regex)) if *known == pattern => regex,
            _ => {
                let regex = regex::Regex::new(pattern);
                let regex =
                    regex.map_err(|error| Error::invalid(format!("no regular expression: {error}")))?;
                &last.insert((pattern, regex)).1
            }
        };
        let group = usize::try_from(groups.map_or(0, |groups| groups.value(row)));
        let group = group.ok().filter(|group| *group < regex.captures_len());
        let group = group.ok_or_else(|| Error::invalid("the regular expression has no such group"))?;
        let found = regex.captures(texts.value(row)).and_then(|captures| captures.get(group));
        extracted.push(Some(found.map_or("", |found| found.as_str())));
    }
    Ok(extracted.into_iter().collect())
}

/// The name that DuckDB has for a type.
pub(crate) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "\"NULL\"",
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INTEGER",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "UTINYINT",
        DataType::UInt16 => "USMALLINT",
        DataType::UInt32 => "UINTEGER",
        DataType::UInt64 => "UBIGINT",
        DataType::Float32 => "FLOAT",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Date32 => "DATE",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Timestamp(_, None) => "TIMESTAMP",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE",
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BLOB",
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => return format!("DECIMAL({precision},{scale})"),
        DataType::List(item) | DataType::LargeList(item) => {
            return format!("{}[]", type_name(item.data_type()));
        }
        DataType::FixedSizeList(item, size) => return format!("{}[{size}]", type_name(item.data_type())),
        DataType::Struct(fields) => {
            let unnamed = fields.iter().enumerate().all(|(at, field)| *field.name() == format!("c{at}"));
            let field = |field: &FieldRef| match unnamed {
                true => type_name(field.data_type()),
                false => format!("{} {}", field.name(), type_name(field.data_type())),
            };
            return format!("STRUCT({})", fields.iter().map(field).collect::<Vec<_>>().join(", "));
        }
        other => return other.to_string(),
    }
    .to_owned()
}
