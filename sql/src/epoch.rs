//! How long ago 1970 was, and how long an interval is: `epoch_ms` and `epoch_us` in whole numbers, for as floats some are one less
//! than they are, and `epoch` of an interval, whose years are of 365.25 days as in DuckDB and PostgreSQL. Whole units of an interval
//! have years of 12 months of 30 days, as in DuckDB. `century` and `millennium` are of a moment, or how many an interval has, and
//! the quarter of an interval is that of its months. Milliseconds and microseconds of one have the fraction of its seconds.

use std::{str::FromStr as _, sync::Arc};

use arrow_array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, PrimitiveArray,
    cast::AsArray as _,
    types::{
        Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64NanosecondType,
        TimestampMicrosecondType,
    },
};
use arrow_schema::{DataType, TimeUnit};
use basalt_core::error::ErrorKind;
use datafusion::{
    arrow::compute::{CastOptions, cast, cast_with_options, kernels::cast_utils::IntervalUnit},
    common::{DFSchema, Result},
    logical_expr::{
        ColumnarValue, Expr, ExprSchemable as _, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility, expr::ScalarFunction,
    },
};

use crate::{
    calendar::Moment,
    error::Error,
    functions::{INTERVAL, moments, of_arrays},
    interval,
    meaning::is_interval,
};

const SECOND: i128 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// So many whole units, each of so many nanoseconds.
    Units(i128),
    /// Seconds of an interval, with their fraction.
    Seconds,
    /// Which one of so many years it is, or how many of them an interval has.
    Years(i64),
    /// In which quarter of a year the months of an interval end, as DuckDB counts them.
    Quarter,
    /// The units, each of so many nanoseconds, of the seconds of an interval, without its minutes.
    OfMinute(i128),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Epoch {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

fn function(name: &'static str, kind: Kind) -> ScalarUDF {
    ScalarUDF::new_from_impl(Epoch { name, kind, signature: Signature::variadic_any(Volatility::Immutable) })
}

/// What a session has of them.
pub(crate) fn all() -> impl Iterator<Item = ScalarUDF> {
    [
        ("epoch_ms", Kind::Units(1_000_000)),
        ("epoch_us", Kind::Units(1000)),
        ("century", Kind::Years(100)),
        ("millennium", Kind::Years(1000)),
    ]
    .into_iter()
    .map(|(name, kind)| function(name, kind))
}

/// What a task may have beside them.
pub(crate) fn inner() -> impl Iterator<Item = ScalarUDF> {
    [seconds(), quarter(), milliseconds(), microseconds()].into_iter()
}

fn seconds() -> ScalarUDF {
    function("basalt_epoch_of_interval", Kind::Seconds)
}

fn quarter() -> ScalarUDF {
    function("basalt_quarter_of_interval", Kind::Quarter)
}

fn milliseconds() -> ScalarUDF {
    function("basalt_milliseconds_of_interval", Kind::OfMinute(1_000_000))
}

fn microseconds() -> ScalarUDF {
    function("basalt_microseconds_of_interval", Kind::OfMinute(1000))
}

/// What `date_part` of an interval is instead, where it is of this part; `None`: it stands for itself.
fn part(part: &Expr) -> Option<ScalarUDF> {
    let Expr::Literal(part, _) = part else { return None };
    let part = part.try_as_str().flatten()?.to_lowercase();
    match part.as_str() {
        "epoch" => Some(seconds()),
        "quarter" => Some(quarter()),
        // The planner's are without a fraction from three seconds on.
        part => match IntervalUnit::from_str(part).ok()? {
            IntervalUnit::Millisecond => Some(milliseconds()),
            IntervalUnit::Microsecond => Some(microseconds()),
            _ => None,
        },
    }
}

/// Whether a call is one of `date_part` of an interval that is another function, or of the seconds of a difference.
pub(crate) fn is_of_interval(call: &ScalarFunction, schema: &DFSchema) -> bool {
    let ("date_part", [name, of]) = (call.func.name(), call.args.as_slice()) else { return false };
    let is_difference = || of.get_type(schema).is_ok_and(|of| matches!(of, DataType::Duration(_)));
    match part(name) {
        Some(made) => is_interval(of, schema) || (made == seconds() && is_difference()),
        None => false,
    }
}

/// What such a call becomes.
pub(crate) fn of_interval(call: ScalarFunction) -> Expr {
    match call.args.first().and_then(part) {
        Some(made) => made.call(call.args.into_iter().skip(1).collect()),
        None => Expr::ScalarFunction(call),
    }
}

fn takes(data_type: &DataType) -> bool {
    data_type.is_string()
        || data_type.is_null()
        || matches!(
            data_type,
            DataType::Date32
                | DataType::Timestamp(..)
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Interval(_)
                | DataType::Duration(_)
        )
}

impl ScalarUDFImpl for Epoch {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (types, self.kind) {
            ([of], Kind::Units(_)) if takes(of) => Ok(DataType::Int64),
            ([DataType::Interval(_) | DataType::Duration(_)], Kind::Seconds) => Ok(DataType::Float64),
            ([DataType::Interval(_)], Kind::Quarter | Kind::OfMinute(_)) => Ok(DataType::Int32),
            ([of], Kind::Years(_)) if takes(of) && !is_time(of) => Ok(DataType::Int64),
            _ => {
                let takes = match self.kind {
                    Kind::Years(_) => "a date, a timestamp or an interval",
                    _ => "a date, a timestamp, a time or an interval",
                };
                let message = format!("{} takes {takes}", self.name);
                Err(Error::new(ErrorKind::TypeMismatch, message).into())
            }
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_arrays(&args, |arrays, _| {
            let [of] = arrays else {
                return Err(Error::Internal(format!("{} takes one argument", self.name)).into());
            };
            match self.kind {
                Kind::Units(each) => units(&nanos(of, interval::order)?, each),
                Kind::Seconds => Ok(floats(&nanos(of, interval::length)?)),
                Kind::Years(each) => years(of, each),
                Kind::Quarter => quarters(of),
                Kind::OfMinute(each) => {
                    Ok(of_minute(&nanos(of, |interval| i128::from(interval.nanoseconds))?, each))
                }
            }
        })
    }
}

/// Whether values of the type have no date.
fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_))
}

/// Nanoseconds since 1970, since midnight, or of an interval as it is measured.
fn nanos(of: &ArrayRef, length: fn(IntervalMonthDayNano) -> i128) -> Result<Vec<Option<i128>>> {
    Ok(match of.data_type() {
        DataType::Interval(_) => {
            let intervals = cast(of, &INTERVAL)?;
            let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
            intervals.iter().map(|of| of.map(length)).collect()
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            let times = cast(of, &DataType::Time64(TimeUnit::Nanosecond))?;
            times.as_primitive::<Time64NanosecondType>().iter().map(|of| of.map(i128::from)).collect()
        }
        DataType::Duration(unit) => {
            let each = match unit {
                TimeUnit::Second => SECOND,
                TimeUnit::Millisecond => 1_000_000,
                TimeUnit::Microsecond => 1000,
                TimeUnit::Nanosecond => 1,
            };
            let spans = cast(of, &DataType::Int64)?;
            spans.as_primitive::<Int64Type>().iter().map(|of| of.map(|of| i128::from(of) * each)).collect()
        }
        _ => instants(of)?.iter().map(|of| of.map(|of| i128::from(of) * 1000)).collect(),
    })
}

/// Microseconds since 1970.
fn instants(of: &ArrayRef) -> Result<PrimitiveArray<TimestampMicrosecondType>> {
    if !of.data_type().is_string() {
        return moments(of);
    }
    // What is no timestamp is an error.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    moments(&cast_with_options(of, &DataType::Timestamp(TimeUnit::Microsecond, None), &options)?)
}

/// Which one of so many years it is, the first of which begins with the year 1; of an interval, how many whole ones it has.
fn years(of: &ArrayRef, each: i64) -> Result<ArrayRef> {
    let numbers: Int64Array = match of.data_type() {
        DataType::Interval(_) => {
            let intervals = cast(of, &INTERVAL)?;
            let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
            intervals.iter().map(|of| of.map(|of| i64::from(of.months) / (12 * each))).collect()
        }
        _ => {
            let number = |micros: i64| {
                let year = Moment(micros).month().div_euclid(12);
                (year + each - 1).div_euclid(each)
            };
            instants(of)?.iter().map(|of| of.map(number)).collect()
        }
    };
    Ok(Arc::new(numbers))
}

/// The quarters of intervals, whose years are left out; of negative months they are counted as those are divided.
fn quarters(of: &ArrayRef) -> Result<ArrayRef> {
    let intervals = cast(of, &INTERVAL)?;
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    let numbers: Int32Array = intervals.iter().map(|of| of.map(|of| of.months % 12 / 3 + 1)).collect();
    Ok(Arc::new(numbers))
}

/// Whole units of what is left of minutes.
fn of_minute(nanos: &[Option<i128>], each: i128) -> ArrayRef {
    let left = |nanos: i128| i32::try_from(nanos % (60 * SECOND) / each).ok();
    Arc::new(nanos.iter().map(|of| of.and_then(left)).collect::<Int32Array>())
}

/// Whole units, without what is less than one.
fn units(nanos: &[Option<i128>], each: i128) -> Result<ArrayRef> {
    let long = |_| Error::new(ErrorKind::Overflow, "the interval is too long");
    let of_row = |of: &Option<i128>| of.map(|of| i64::try_from(of / each).map_err(long)).transpose();
    let units: std::result::Result<Int64Array, Error> = nanos.iter().map(of_row).collect();
    Ok(Arc::new(units?))
}

#[allow(clippy::cast_precision_loss, reason = "a float has the nearest")]
fn floats(nanos: &[Option<i128>]) -> ArrayRef {
    let seconds = nanos.iter().map(|of| of.map(|of| of as f64 / SECOND as f64));
    Arc::new(seconds.collect::<Float64Array>())
}
