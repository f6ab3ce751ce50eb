//! Functions that make timestamps: `strptime` and `try_strptime`, by formats, `time_bucket`, and `to_timestamp` of seconds.

use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, PrimitiveArray,
    builder::TimestampMicrosecondBuilder,
    cast::AsArray as _,
    types::{
        Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType,
        TimestampMicrosecondType,
    },
};
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use basalt_core::{error::ErrorKind, limits::TIMESTAMPS};
use datafusion::{
    arrow::compute::cast,
    common::{Result, ScalarValue},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility,
    },
};

use crate::{
    around::Call,
    calendar::{Moment, days_of},
    checked,
    error::Error,
    functions::{INTERVAL, moments, of_arrays},
    lists,
    strptime::Format,
};

const DAY: i64 = 86_400_000_000;

/// How far from 1970 nanoseconds of 64 bits reach.
const SECONDS: f64 = 9_223_372_036.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Read { is_try: bool },
    Bucket,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Timestamps {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

/// The function that is called by [`Seconds`].
pub(crate) const OF_SECONDS: &str = "to_timestamp";

/// The way that `to_timestamp` is called: DataFusion would take the nearest that it has for seconds beyond its years, and
/// 1970 for NaN.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seconds;

impl Call for Seconds {
    fn call(function: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let [seconds] = args.args.as_slice()
            && (seconds.data_type().is_floating() || seconds.data_type().is_decimal())
        {
            let rows = if matches!(seconds, ColumnarValue::Scalar(_)) { 1 } else { args.number_rows };
            let seconds = cast(&seconds.to_array(rows)?, &DataType::Float64)?;
            let fits = |seconds: f64| seconds.abs() < SECONDS;
            if let Some(other) = seconds.as_primitive::<Float64Type>().iter().flatten().find(|s| !fits(*s)) {
                let message = format!("{other} seconds are no timestamp of the years 1677 to 2262");
                return Err(Error::new(ErrorKind::Overflow, message).into());
            }
        }
        function.invoke_with_args(args)
    }
}

/// What a session has of them.
pub(crate) fn all() -> impl Iterator<Item = ScalarUDF> {
    let all = [
        ("strptime", Kind::Read { is_try: false }),
        ("try_strptime", Kind::Read { is_try: true }),
        ("time_bucket", Kind::Bucket),
    ];
    all.into_iter().map(|(name, kind)| {
        let signature = Signature::variadic_any(Volatility::Immutable);
        ScalarUDF::new_from_impl(Timestamps { name, kind, signature })
    })
}

/// `date_bin` of a width and timestamps, which begins at 1970: DataFusion's goes by nanoseconds, and gives NULL for a year that
/// has none.
pub(crate) fn binned(mut args: Vec<Expr>) -> Expr {
    args.push(Expr::Literal(ScalarValue::TimestampMicrosecond(Some(0), None), None));
    let signature = Signature::variadic_any(Volatility::Immutable);
    ScalarUDF::new_from_impl(Timestamps { name: "time_bucket", kind: Kind::Bucket, signature }).call(args)
}

fn timestamps(zone: bool) -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, zone.then(|| "UTC".into()))
}

fn is_texts(data_type: &DataType) -> bool {
    data_type.is_string() || data_type.is_null()
}

impl Timestamps {
    fn wrong(&self, takes: &str) -> datafusion::common::DataFusionError {
        Error::new(ErrorKind::TypeMismatch, format!("{} takes {takes}", self.name)).into()
    }

    /// The type of what comes of these arguments, where the formats, if they are literals, have a zone or none.
    fn of_types(&self, types: &[DataType], zone: bool) -> Result<DataType> {
        match (self.kind, types) {
            (Kind::Read { .. }, [text, format])
                if is_texts(text)
                    && (is_texts(format) || lists::item(format).is_some_and(|item| is_texts(&item))) =>
            {
                Ok(timestamps(zone))
            }
            (Kind::Read { .. }, _) => Err(self.wrong("a text and a format, or a list of formats")),
            (Kind::Bucket, [DataType::Interval(_) | DataType::Null, moment, rest @ ..]) if rest.len() < 2 => {
                let is_moment = |data_type: &DataType| {
                    matches!(
                        data_type,
                        DataType::Date32
                            | DataType::Timestamp(..)
                            | DataType::Time32(_)
                            | DataType::Time64(_)
                            | DataType::Null
                    )
                };
                let is_time =
                    |data_type: &DataType| matches!(data_type, DataType::Time32(_) | DataType::Time64(_));
                let fits = is_moment(moment)
                    && rest.iter().all(|rest| {
                        matches!(rest, DataType::Interval(_))
                            || is_moment(rest)
                                && (is_time(rest) == is_time(moment) || rest.is_null() || moment.is_null())
                    });
                match moment {
                    _ if !fits => {
                        Err(self
                            .wrong("an interval, a timestamp, a date or a time, and an origin or an offset"))
                    }
                    DataType::Timestamp(_, zone) => Ok(timestamps(zone.is_some())),
                    DataType::Time32(_) | DataType::Time64(_) => Ok(DataType::Time64(TimeUnit::Microsecond)),
                    DataType::Null => Ok(timestamps(false)),
                    other => Ok(other.clone()),
                }
            }
            (Kind::Bucket, _) => {
                Err(self.wrong("an interval, a timestamp, a date or a time, and an origin or an offset"))
            }
        }
    }

    fn read(&self, args: &[ArrayRef], rows: usize, zone: bool, is_try: bool) -> Result<ArrayRef> {
        let texts = cast(&args[0], &DataType::Utf8)?;
        let texts = texts.as_string::<i32>();
        let is_list = lists::item(args[1].data_type()).is_some() && !args[1].data_type().is_null();
        let lists = if is_list { Some(lists::as_list(&args[1])?) } else { None };
        let single = if is_list { None } else { Some(cast(&args[1], &DataType::Utf8)?) };
        let mut last: Option<(Vec<String>, Vec<Format>)> = None;
        let mut builder = TimestampMicrosecondBuilder::with_capacity(rows);
        for row in 0..rows {
            let formats: Vec<String> = match (&lists, &single) {
                (Some(lists), _) if lists.is_valid(row) => {
                    let formats = cast(&lists.value(row), &DataType::Utf8)?;
                    formats.as_string::<i32>().iter().flatten().map(str::to_owned).collect()
                }
                (_, Some(single)) if single.is_valid(row) => {
                    vec![single.as_string::<i32>().value(row).to_owned()]
                }
                _ => Vec::new(),
            };
            if formats.is_empty() || texts.is_null(row) {
                builder.append_null();
                continue;
            }
            let parsed = match &last {
                Some((known, parsed)) if *known == formats => parsed,
                _ => {
                    let parsed = formats
                        .iter()
                        .map(|format| Format::new(format))
                        .collect::<std::result::Result<Vec<_>, Error>>()?;
                    if parsed.iter().any(|format| format.has_zone() && !zone) {
                        return Err(Error::unsupported("%z and %Z in a format that is no literal").into());
                    }
                    &last.insert((formats.clone(), parsed)).1
                }
            };
            let text = texts.value(row);
            let is_kept = |at: &i64| !is_try || TIMESTAMPS.contains(at);
            match parsed.iter().find_map(|format| format.read(text)).filter(is_kept) {
                None if !is_try => {
                    let message = format!("{text:?} is no timestamp of the format {:?}", formats.join(", "));
                    return Err(Error::new(ErrorKind::TypeMismatch, message).into());
                }
                read => builder.append_option(read),
            }
        }
        let read: ArrayRef = Arc::new(builder.finish());
        if !is_try {
            checked::check(&read)?;
        }
        Ok(cast(&read, &timestamps(zone))?)
    }

    fn bucket(&self, args: &[ArrayRef], rows: usize, data_type: &DataType) -> Result<ArrayRef> {
        let widths = cast(&args[0], &INTERVAL)?;
        let widths = widths.as_primitive::<IntervalMonthDayNanoType>();
        let is_time = matches!(data_type, DataType::Time64(_));
        let of_moments = |array: &ArrayRef| -> Result<PrimitiveArray<TimestampMicrosecondType>> {
            match is_time {
                true => {
                    let micros =
                        cast(&cast(array, &DataType::Time64(TimeUnit::Microsecond))?, &DataType::Int64)?;
                    let micros = micros.as_primitive::<Int64Type>();
                    Ok(micros.iter().collect())
                }
                false => moments(array),
            }
        };
        let at = of_moments(&args[1])?;
        let is_offset = args.get(2).is_some_and(|other| matches!(other.data_type(), DataType::Interval(_)));
        let offsets = match args.get(2).filter(|_| is_offset) {
            Some(offsets) => {
                Some(cast(offsets, &INTERVAL)?.as_primitive::<IntervalMonthDayNanoType>().clone())
            }
            None => None,
        };
        let origins = args.get(2).filter(|_| !is_offset).map(of_moments).transpose()?;
        let mut builder = TimestampMicrosecondBuilder::with_capacity(rows);
        for row in 0..rows {
            let missing = widths.is_null(row)
                || at.is_null(row)
                || offsets.as_ref().is_some_and(|offsets| offsets.is_null(row))
                || origins.as_ref().is_some_and(|origins| origins.is_null(row));
            if missing {
                builder.append_null();
                continue;
            }
            let width = widths.value(row);
            let offset = offsets.as_ref().map(|offsets| offsets.value(row));
            let origin = origins.as_ref().map(|origins| origins.value(row));
            let begin = begin(width, Moment(at.value(row)), offset, origin.map(Moment), is_time)?;
            builder.append_value(begin.0);
        }
        let begins: ArrayRef = Arc::new(builder.finish());
        if !is_time {
            checked::check(&begins)?;
        }
        Ok(match data_type {
            DataType::Time64(_) => {
                let begins = begins.as_primitive::<TimestampMicrosecondType>();
                let times: PrimitiveArray<Time64MicrosecondType> =
                    begins.iter().map(|at| at.map(|at| at.rem_euclid(DAY))).collect();
                Arc::new(times)
            }
            DataType::Timestamp(_, Some(_)) => cast(&cast(&begins, &timestamps(false))?, data_type)?,
            other => cast(&begins, other)?,
        })
    }
}

/// The begin of the bucket in which a moment is. Buckets of months begin with 2000-01-01, others with 2000-01-03, a Monday,
/// or with an origin.
fn begin(
    width: IntervalMonthDayNano,
    at: Moment,
    offset: Option<IntervalMonthDayNano>,
    origin: Option<Moment>,
    is_time: bool,
) -> std::result::Result<Moment, Error> {
    let too_far =
        || Error::new(ErrorKind::Overflow, "time_bucket: the bucket is farther away than timestamps go");
    let negated = |interval: IntervalMonthDayNano| {
        let parts =
            (interval.months.checked_neg(), interval.days.checked_neg(), interval.nanoseconds.checked_neg());
        match parts {
            (Some(months), Some(days), Some(nanoseconds)) => {
                Ok(IntervalMonthDayNano::new(months, days, nanoseconds))
            }
            _ => Err(too_far()),
        }
    };
    if let Some(offset) = offset {
        let moved = at.after(negated(offset)?);
        return Ok(begin(width, moved, None, None, is_time)?.after(offset));
    }
    if width.months != 0 {
        if width.days != 0 || width.nanoseconds != 0 {
            return Err(Error::invalid("time_bucket takes a width of months, or of days and time"));
        }
        let width = i64::from(width.months);
        if width < 0 || is_time {
            return Err(Error::invalid("time_bucket takes a width of more than nothing"));
        }
        let origin = origin.map_or(2000 * 12, Moment::month);
        let month = (at.month() - origin).div_euclid(width) * width + origin;
        let day = days_of(month.div_euclid(12), month.rem_euclid(12) + 1, 1);
        return Ok(Moment(day.checked_mul(DAY).ok_or_else(too_far)?));
    }
    let days = i64::from(width.days).checked_mul(DAY);
    let width = days.and_then(|days| days.checked_add(width.nanoseconds / 1000)).ok_or_else(too_far)?;
    if width <= 0 {
        return Err(Error::invalid("time_bucket takes a width of more than nothing"));
    }
    let origin = match origin {
        Some(origin) => origin.0,
        None if is_time => 0,
        None => days_of(2000, 1, 3) * DAY,
    };
    let from = at.0.checked_sub(origin).ok_or_else(too_far)?;
    let begin = from.div_euclid(width).checked_mul(width).and_then(|from| from.checked_add(origin));
    begin.map(Moment).ok_or_else(too_far)
}

impl ScalarUDFImpl for Timestamps {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.of_types(types, false)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let has_zone = |format: &str| Format::new(format).is_ok_and(|format| format.has_zone());
        let zone = match args.scalar_arguments.get(1) {
            Some(Some(ScalarValue::Utf8(Some(format)))) => has_zone(format),
            _ => false,
        };
        Ok(Arc::new(Field::new(self.name, self.of_types(&types, zone)?, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = args.return_field.data_type();
        of_arrays(&args, |arrays, rows| match self.kind {
            Kind::Read { is_try } => {
                let zone = matches!(data_type, DataType::Timestamp(_, Some(_)));
                self.read(arrays, rows, zone, is_try)
            }
            Kind::Bucket => self.bucket(arrays, rows, data_type),
        })
    }
}
