//! What casts and the arithmetic of dates make, where a column does not hold all of it: dates and timestamps are of the years
//! 0001 to 9999, and a float is infinite only where infinity was said. DataFusion has dates of any year, and takes `1e400`
//! for infinity.

use std::sync::Arc;

use arrow_array::{
    Array as _, ArrayRef, BooleanArray, PrimitiveArray,
    cast::AsArray as _,
    types::{
        Float32Type, Float64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampSecondType,
    },
};
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use basalt_core::{error::ErrorKind, fragment::beyond_calendar};
use basalt_nested::says_infinity;
use datafusion::{
    arrow::compute::{CastOptions, cast_with_options, kernels::nullif::nullif},
    common::{DFSchema, DataFusionError, Result, ScalarValue},
    logical_expr::{
        ColumnarValue, Expr, ExprSchemable as _, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature, Volatility,
        expr::{Cast, ScalarFunction, TryCast},
    },
};

use crate::{
    around::Call,
    error::Error,
    functions::{self, of_arrays},
    nan, nearest,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// What is a date or a timestamp of the calendar; anything else as it is.
    Within { is_try: bool },
    /// A text, a float or a decimal as a float of 64 or 32 bits.
    Float { is_narrow: bool, is_try: bool },
}

/// A function of this file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Function {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

const ALL: [(&str, Kind); 6] = [
    ("basalt_within", Kind::Within { is_try: false }),
    ("basalt_try_within", Kind::Within { is_try: true }),
    ("basalt_float64", Kind::Float { is_narrow: false, is_try: false }),
    ("basalt_try_float64", Kind::Float { is_narrow: false, is_try: true }),
    ("basalt_float32", Kind::Float { is_narrow: true, is_try: false }),
    ("basalt_try_float32", Kind::Float { is_narrow: true, is_try: true }),
];

/// What a task may have beside the functions that a session has.
pub(crate) fn inner() -> impl Iterator<Item = ScalarUDF> {
    ALL.into_iter().map(|(name, kind)| function(name, kind))
}

fn function(name: &'static str, kind: Kind) -> ScalarUDF {
    let signature = Signature::variadic_any(Volatility::Immutable);
    ScalarUDF::new_from_impl(Function { name, kind, signature })
}

fn call(kind: Kind, expr: Expr) -> Option<Expr> {
    let (name, kind) = ALL.into_iter().find(|(_, known)| *known == kind)?;
    Some(function(name, kind).call(vec![expr]))
}

/// A value that is an error where it is a date or a timestamp beyond the calendar.
pub(crate) fn within(expr: Expr) -> Expr {
    function("basalt_within", Kind::Within { is_try: false }).call(vec![expr])
}

/// A decimal as the float that is nearest to it.
pub(crate) fn float(expr: Expr, to: &DataType) -> Expr {
    let is_narrow = *to == DataType::Float32;
    let name = if is_narrow { "basalt_float32" } else { "basalt_float64" };
    function(name, Kind::Float { is_narrow, is_try: false }).call(vec![expr])
}

/// What [`float`] makes a double of.
pub(crate) fn as_float(function: &ScalarFunction) -> Option<&Expr> {
    match function.args.as_slice() {
        [inner] if function.func.name() == "basalt_float64" => Some(inner),
        _ => None,
    }
}

/// The functions of DataFusion that make dates and timestamps of numbers and texts, and of others the local times of zones.
pub(crate) const MAKERS: [&str; 7] = [
    "make_date",
    "to_date",
    "date_bin",
    "to_timestamp_seconds",
    "to_timestamp_millis",
    "to_timestamp_micros",
    "to_local_time",
];

/// The way that [`MAKERS`] are called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Within;

impl Call for Within {
    fn call(function: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let made = function.invoke_with_args(args)?;
        match &made {
            ColumnarValue::Array(array) => check(array)?,
            ColumnarValue::Scalar(value) => check(&value.to_array()?)?,
        }
        Ok(made)
    }
}

/// Whether an expression is a cast that could make what no column holds.
pub(crate) fn is_one(expr: &Expr, schema: &DFSchema) -> bool {
    let (Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })) = expr else {
        return false;
    };
    let to = field.data_type();
    let is_other = |from: &DataType| of_decimal(from, to) || kind_of(from, to, false).is_some();
    expr.get_type(schema).is_ok_and(|from| is_other(&from))
}

/// Whether a decimal becomes what the planner's cast makes wrong of it: an integer of more digits than 38.
fn of_decimal(from: &DataType, to: &DataType) -> bool {
    matches!(from, DataType::Decimal256(..)) && to.is_integer()
}

/// The decimal of 38 digits that has the whole part of one that has more.
pub(crate) fn narrower(data_type: &DataType) -> DataType {
    let DataType::Decimal256(precision, scale) = data_type else { return data_type.clone() };
    let whole = i16::from(*precision) - i16::from(*scale);
    let scale = i16::from(*scale).min(38 - whole).clamp(0, 38);
    // It is within 38.
    DataType::Decimal128(38, scale.to_le_bytes()[0].cast_signed())
}

/// What a cast becomes so that it makes nothing that no column holds; `None`: it stays what it is. A literal that fits stays
/// one that the planner casts.
pub(crate) fn of_cast(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (inner, to, is_try) = match expr {
        Expr::Cast(Cast { expr, field }) => (expr, field.data_type(), false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field.data_type(), true),
        _ => return Ok(None),
    };
    let Ok(from) = inner.get_type(schema) else { return Ok(None) };
    if of_decimal(&from, to) {
        return Ok(Some(cast_of_decimal(expr, inner, &from)));
    }
    let Some(kind) = kind_of(&from, to, is_try) else { return Ok(None) };
    let whole = match to {
        DataType::Timestamp(..) if from.is_string() => Some(functions::moment(inner.as_ref().clone())),
        _ => None,
    };
    let taken = whole.as_ref().unwrap_or(inner);
    if let Expr::Literal(value, _) = taken {
        let other = of_literal(value, to, kind, is_try)?;
        return Ok(
            other.or_else(|| whole.filter(|whole| whole != inner.as_ref()).map(|whole| of(expr, whole)))
        );
    }
    Ok(match kind {
        Kind::Within { .. } => call(kind, of(expr, taken.clone())),
        Kind::Float { .. } => call(kind, taken.clone()),
    })
}

/// The cast of such a decimal.
fn cast_of_decimal(cast: &Expr, inner: &Expr, from: &DataType) -> Expr {
    let field = Arc::new(Field::new("narrower", narrower(from), true));
    let inner = Box::new(inner.clone());
    let narrow = match cast {
        Expr::TryCast(_) => Expr::TryCast(TryCast { expr: inner, field }),
        _ => Expr::Cast(Cast { expr: inner, field }),
    };
    of(cast, narrow)
}

/// The same cast of another expression.
fn of(cast: &Expr, inner: Expr) -> Expr {
    match cast {
        Expr::Cast(Cast { field, .. }) => {
            Expr::Cast(Cast { expr: Box::new(inner), field: Arc::clone(field) })
        }
        Expr::TryCast(TryCast { field, .. }) => {
            Expr::TryCast(TryCast { expr: Box::new(inner), field: Arc::clone(field) })
        }
        _ => inner,
    }
}

fn kind_of(from: &DataType, to: &DataType, is_try: bool) -> Option<Kind> {
    match to {
        DataType::Float64 if from.is_string() => Some(Kind::Float { is_narrow: false, is_try }),
        DataType::Float32 if from.is_string() || *from == DataType::Float64 => {
            Some(Kind::Float { is_narrow: true, is_try })
        }
        DataType::Date32 | DataType::Timestamp(..) if !from.is_temporal() && !from.is_null() => {
            Some(Kind::Within { is_try })
        }
        _ => None,
    }
}

fn of_literal(value: &ScalarValue, to: &DataType, kind: Kind, is_try: bool) -> Result<Option<Expr>> {
    let given = value.to_array()?;
    // What is no value of the type at all is an error of the cast.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let Ok(made) = cast_with_options(&given, to, &options) else { return Ok(None) };
    let why = match kind {
        Kind::Within { .. } => first_beyond(&made).map(|(_, shown)| match value.try_as_str().flatten() {
            Some(text) => not_within(&format!("'{text}'")),
            None => not_within(&shown),
        }),
        Kind::Float { .. } => first_overflow(&given, &made).map(|row| overflow(&given, &made, row)),
    };
    match why {
        None => Ok(None),
        Some(_) if is_try => Ok(Some(Expr::Literal(ScalarValue::try_from(to)?, None))),
        Some(error) => Err(error.into()),
    }
}

/// The inner one of two checks of a value, which a plan has that was settled twice.
pub(crate) fn once(function: &ScalarFunction) -> Option<Expr> {
    let is_within = |function: &ScalarFunction| {
        ALL.iter().any(|(name, kind)| *name == function.func.name() && matches!(kind, Kind::Within { .. }))
    };
    match function.args.as_slice() {
        [inner @ Expr::ScalarFunction(of)] if is_within(function) && is_within(of) => Some(inner.clone()),
        _ => None,
    }
}

/// Fails where a date or a timestamp is beyond the calendar.
///
/// # Errors
/// The first of them.
pub(crate) fn check(array: &ArrayRef) -> std::result::Result<(), Error> {
    match first_beyond(array) {
        None => Ok(()),
        Some((_, shown)) => Err(not_within(&shown)),
    }
}

/// The first row whose date or timestamp is beyond the calendar, and the value.
pub(crate) fn first_beyond(array: &ArrayRef) -> Option<(usize, String)> {
    let in_micros = |seconds: PrimitiveArray<TimestampMicrosecondType>| beyond_calendar(&seconds);
    match array.data_type() {
        // What is too far away for microseconds is the last of them.
        DataType::Timestamp(TimeUnit::Second, _) => {
            in_micros(array.as_primitive::<TimestampSecondType>().unary(|at| at.saturating_mul(1_000_000)))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            in_micros(array.as_primitive::<TimestampMillisecondType>().unary(|at| at.saturating_mul(1000)))
        }
        _ => beyond_calendar(array),
    }
}

fn not_within(shown: &str) -> Error {
    Error::new(ErrorKind::Overflow, format!("{shown} is not within 0001-01-01 to 9999-12-31"))
}

/// The first row that became infinite though it was not said to be.
pub(crate) fn first_overflow(given: &ArrayRef, made: &ArrayRef) -> Option<usize> {
    let is_infinite = |row: usize| match made.data_type() {
        DataType::Float64 => made.as_primitive::<Float64Type>().value(row).is_infinite(),
        DataType::Float32 => made.as_primitive::<Float32Type>().value(row).is_infinite(),
        _ => false,
    };
    (0..made.len()).find(|row| made.is_valid(*row) && is_infinite(*row) && !was_infinite(given, *row))
}

fn was_infinite(given: &ArrayRef, row: usize) -> bool {
    match given.data_type() {
        DataType::Utf8 => says_infinity(given.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => says_infinity(given.as_string::<i64>().value(row)),
        DataType::Utf8View => says_infinity(given.as_string_view().value(row)),
        DataType::Float64 => given.as_primitive::<Float64Type>().value(row).is_infinite(),
        _ => true,
    }
}

/// The error of [`first_overflow`].
pub(crate) fn overflow(given: &ArrayRef, made: &ArrayRef, row: usize) -> Error {
    let shown = match ScalarValue::try_from_array(given, row) {
        Ok(ScalarValue::Float64(Some(value))) => format!("{value:e}"),
        Ok(value) => format!("'{value}'"),
        Err(_) => "a value".to_owned(),
    };
    let name = if *made.data_type() == DataType::Float32 { "float32" } else { "float64" };
    Error::new(ErrorKind::Overflow, format!("{shown} does not fit a {name}"))
}

impl Function {
    fn evaluate(&self, given: &ArrayRef) -> Result<ArrayRef> {
        match self.kind {
            Kind::Within { is_try: false } => {
                check(given)?;
                Ok(Arc::clone(given))
            }
            Kind::Within { is_try: true } => match first_beyond(given) {
                None => Ok(Arc::clone(given)),
                Some(_) => without(given, |row| first_beyond(&given.slice(row, 1)).is_some()),
            },
            Kind::Float { is_narrow, is_try } => {
                let to = if is_narrow { DataType::Float32 } else { DataType::Float64 };
                if let Some(floats) = nearest::floats(given, &to) {
                    return Ok(floats);
                }
                let options = CastOptions { safe: is_try, ..CastOptions::default() };
                // A text may say that what is no number has a sign.
                let made = nan::of_array(cast_with_options(given, &to, &options)?);
                let is_beyond = |row| first_overflow(&given.slice(row, 1), &made.slice(row, 1)).is_some();
                match first_overflow(given, &made) {
                    None => Ok(made),
                    Some(row) if !is_try => Err(overflow(given, &made, row).into()),
                    Some(_) => without(&made, is_beyond),
                }
            }
        }
    }
}

/// The values, and null for some rows.
fn without(array: &ArrayRef, is_gone: impl Fn(usize) -> bool) -> Result<ArrayRef> {
    let gone: BooleanArray = (0..array.len()).map(|row| Some(is_gone(row))).collect();
    Ok(nullif(array, &gone)?)
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [given] = types else { return Err(arguments()) };
        Ok(match self.kind {
            Kind::Within { .. } => given.clone(),
            Kind::Float { is_narrow: false, .. } => DataType::Float64,
            Kind::Float { is_narrow: true, .. } => DataType::Float32,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let is_try = match self.kind {
            Kind::Within { is_try } | Kind::Float { is_try, .. } => is_try,
        };
        let nullable = is_try || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_arrays(&args, |arrays, _| match arrays {
            [given] => self.evaluate(given),
            _ => Err(arguments()),
        })
    }
}

fn arguments() -> DataFusionError {
    Error::Internal("a check takes one argument".to_owned()).into()
}
