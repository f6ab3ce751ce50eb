//! `+ - * /` and the sign with the engine's meaning, wherever they are evaluated: what does not fit its type is an
//! error, `/` is float64, and division by zero is an error. DataFusion's own wrap around, so they are replaced while a
//! statement is planned, before anything is folded or rewritten.

use std::{
    any::Any,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int64Array, PrimitiveArray,
    cast::AsArray as _,
    types::{ArrowPrimitiveType, Decimal128Type, Float64Type, Int64Type, UInt64Type},
};
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use basalt_core::{error::ErrorKind, query::ArithmeticOp};
use datafusion::{
    arrow::{
        compute::{
            cast,
            kernels::{arity::try_binary, numeric::neg},
        },
        error::ArrowError,
    },
    common::{DFSchema, DataFusionError, Result, ScalarValue},
    logical_expr::{
        ColumnarValue, Expr, ExprSchemable as _, GetFieldAccess, ReturnFieldArgs, ScalarFunctionArgs,
        ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        planner::{ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawFieldAccessExpr},
    },
    sql::sqlparser::ast::BinaryOperator,
};

use crate::{
    error::Error,
    functions::{self, of_rows},
    limits, lists,
};

/// Digits of a decimal in an expression, at most.
const DIGITS: u8 = 38;

/// `left op right` of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Arithmetic {
    pub(crate) op: ArithmeticOpName,
    /// What it is called where it was written. It is kept, since every part of an expression is asked for its name by
    /// each part around it.
    name: Arc<str>,
    signature: Signature,
}

impl PartialEq for Arithmetic {
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op
    }
}

impl Eq for Arithmetic {}

impl Hash for Arithmetic {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.op.hash(state);
    }
}

/// [`ArithmeticOp`] with a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ArithmeticOpName {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl ArithmeticOpName {
    /// The engine's.
    pub(crate) fn op(self) -> ArithmeticOp {
        match self {
            Self::Add => ArithmeticOp::Add,
            Self::Subtract => ArithmeticOp::Subtract,
            Self::Multiply => ArithmeticOp::Multiply,
            Self::Divide => ArithmeticOp::Divide,
        }
    }

    fn symbol(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
            Self::Divide => '/',
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Add => "basalt_add",
            Self::Subtract => "basalt_subtract",
            Self::Multiply => "basalt_multiply",
            Self::Divide => "basalt_divide",
        }
    }
}

impl Arithmetic {
    fn call(op: ArithmeticOpName, left: Expr, right: Expr) -> Expr {
        let name = short(format!("{} {} {}", left.schema_name(), op.symbol(), right.schema_name())).into();
        let function = Self { op, name, signature: Signature::any(2, Volatility::Immutable) };
        ScalarUDF::new_from_impl(function).call(vec![left, right])
    }

    /// The function of an expression, where it is one of these.
    pub(crate) fn of(function: &ScalarUDF) -> Option<&Self> {
        (function.inner().as_ref() as &dyn Any).downcast_ref()
    }
}

/// Whether it is a number, or the null that may be one.
fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric() && !matches!(data_type, DataType::Float16 | DataType::Decimal256(..))
}

fn scale_of(data_type: &DataType) -> i8 {
    match data_type {
        DataType::Decimal128(_, scale) | DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) => {
            *scale
        }
        _ => 0,
    }
}

fn type_of(op: ArithmeticOpName, left: &DataType, right: &DataType) -> Result<DataType> {
    if op == ArithmeticOpName::Divide || left.is_floating() || right.is_floating() {
        return Ok(DataType::Float64);
    }
    if left.is_integer() && right.is_integer() {
        return Ok(DataType::Int64);
    }
    let (a, b) = (scale_of(left), scale_of(right));
    let scale = if op == ArithmeticOpName::Multiply { a.saturating_add(b) } else { a.max(b) };
    if i16::from(scale) > i16::from(DIGITS) {
        let message = format!("the result would have {scale} decimal places; the limit is {DIGITS}");
        return Err(Error::new(ErrorKind::Overflow, message).into());
    }
    Ok(DataType::Decimal128(DIGITS, scale))
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        self.op.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = types else { return Err(arguments()) };
        for side in [left, right] {
            if !is_number(side) && *side != DataType::Null {
                let message = format!("arithmetic takes numbers, not {side}");
                return Err(Error::new(ErrorKind::TypeMismatch, message).into());
            }
        }
        // A null takes the other side's type.
        let known = |side: &DataType, other: &DataType| match (side, other) {
            (DataType::Null, DataType::Null) => DataType::Int64,
            (DataType::Null, other) => other.clone(),
            (side, _) => side.clone(),
        };
        type_of(self.op, &known(left, right), &known(right, left))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        // Null only where an argument is.
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn display_name(&self, _: &[Expr]) -> Result<String> {
        Ok(self.name.to_string())
    }

    fn schema_name(&self, _: &[Expr]) -> Result<String> {
        Ok(self.name.to_string())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data_type = args.return_field.data_type();
        let [left, right] = args.args.as_slice() else { return Err(arguments()) };
        of_rows(&args, |rows| evaluate(self.op, left, right, rows, data_type))
    }
}

/// A name that does not grow with the depth of what it names: every part of an expression is asked for its own. What is
/// cut off is told apart by its hash.
fn short(name: String) -> String {
    let Some(shown) = name.get(..name.floor_char_boundary(limits::NAME_BYTES)).filter(|shown| *shown != name)
    else {
        return name;
    };
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    format!("{shown} ... #{:016x}", hasher.finish())
}

fn arguments() -> DataFusionError {
    Error::Internal("arithmetic takes two arguments".to_owned()).into()
}

fn overflow(op: ArithmeticOpName, data_type: &DataType) -> DataFusionError {
    let what = match data_type {
        DataType::Int64 => "an int64".to_owned(),
        _ => format!("a decimal of {DIGITS} digits"),
    };
    Error::new(ErrorKind::Overflow, format!("the result of '{}' does not fit {what}", op.symbol())).into()
}

fn evaluate(
    op: ArithmeticOpName,
    left: &ColumnarValue,
    right: &ColumnarValue,
    rows: usize,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let (left, right) = (left.to_array(rows)?, right.to_array(rows)?);
    match data_type {
        DataType::Float64 => {
            let (a, b) = (cast(&left, &DataType::Float64)?, cast(&right, &DataType::Float64)?);
            floats(op, a.as_primitive(), b.as_primitive())
        }
        DataType::Int64 => {
            let wide = |array: &ArrayRef| *array.data_type() == DataType::UInt64;
            if wide(&left) || wide(&right) {
                let (a, b) = (exact(&left, 0)?, exact(&right, 0)?);
                let sums = zip::<Decimal128Type, Decimal128Type, Int64Type>(&a, &b, |a, b| {
                    checked(op, a, b)
                        .and_then(|x| i64::try_from(x).ok())
                        .ok_or_else(|| overflow(op, data_type))
                })?;
                return Ok(Arc::new(sums));
            }
            let (a, b) = (cast(&left, &DataType::Int64)?, cast(&right, &DataType::Int64)?);
            let of = match op {
                ArithmeticOpName::Add => i64::checked_add,
                ArithmeticOpName::Subtract => i64::checked_sub,
                _ => i64::checked_mul,
            };
            let array: Int64Array =
                zip::<Int64Type, Int64Type, Int64Type>(a.as_primitive(), b.as_primitive(), |a, b| {
                    of(a, b).ok_or_else(|| overflow(op, data_type))
                })?;
            Ok(Arc::new(array))
        }
        DataType::Decimal128(precision, scale) => {
            let up = |array: &ArrayRef| match op {
                ArithmeticOpName::Multiply => 0,
                _ => scale - scale_of(array.data_type()),
            };
            let (a, b) = (exact(&left, up(&left))?, exact(&right, up(&right))?);
            let array: Decimal128Array =
                zip::<Decimal128Type, Decimal128Type, Decimal128Type>(&a, &b, |a, b| {
                    let fits = |x: &i128| x.unsigned_abs() < 10_u128.pow(u32::from(DIGITS));
                    checked(op, a, b).filter(fits).ok_or_else(|| overflow(op, data_type))
                })?;
            Ok(Arc::new(array.with_precision_and_scale(*precision, *scale)?))
        }
        other => Err(Error::Internal(format!("arithmetic of {other}")).into()),
    }
}

fn checked(op: ArithmeticOpName, a: i128, b: i128) -> Option<i128> {
    match op {
        ArithmeticOpName::Add => a.checked_add(b),
        ArithmeticOpName::Subtract => a.checked_sub(b),
        _ => a.checked_mul(b),
    }
}

/// Integers and decimals as integers, after `up` more decimal places.
fn exact(array: &ArrayRef, up: i8) -> Result<Decimal128Array> {
    let array = match array.data_type() {
        DataType::Decimal128(..) => Arc::clone(array),
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) => {
            cast(array, &DataType::Decimal128(DIGITS, *scale))?
        }
        DataType::UInt64 => {
            let wide = array.as_primitive::<UInt64Type>().unary::<_, Decimal128Type>(i128::from);
            Arc::new(wide) as ArrayRef
        }
        _ => {
            let ints = cast(array, &DataType::Int64)?;
            Arc::new(ints.as_primitive::<Int64Type>().unary::<_, Decimal128Type>(i128::from)) as ArrayRef
        }
    };
    let array = array.as_primitive::<Decimal128Type>();
    let Ok(up @ 1..) = u32::try_from(up) else { return Ok(array.clone()) };
    let by = 10_i128.checked_pow(up).ok_or_else(arguments)?;
    let raised = array.try_unary::<_, Decimal128Type, DataFusionError>(|value| {
        value.checked_mul(by).ok_or_else(|| {
            Error::new(ErrorKind::Overflow, format!("a number does not fit a decimal of {DIGITS} digits"))
                .into()
        })
    })?;
    Ok(raised)
}

/// `op` of each pair of values; what is null is not looked at.
fn zip<A: ArrowPrimitiveType, B: ArrowPrimitiveType, O: ArrowPrimitiveType>(
    a: &PrimitiveArray<A>,
    b: &PrimitiveArray<B>,
    op: impl Fn(A::Native, B::Native) -> Result<O::Native>,
) -> Result<PrimitiveArray<O>> {
    let zipped = try_binary::<_, _, _, O>(a, b, |a, b| {
        op(a, b).map_err(|error| ArrowError::from_external_error(Box::new(error)))
    });
    Ok(zipped?)
}

fn floats(op: ArithmeticOpName, a: &Float64Array, b: &Float64Array) -> Result<ArrayRef> {
    // There is one NaN: which bits an instruction makes is nobody's business.
    let canonical = |x: f64| if x.is_nan() { f64::NAN } else { x };
    let array = zip::<Float64Type, Float64Type, Float64Type>(a, b, |a, b| {
        Ok(canonical(match op {
            ArithmeticOpName::Add => a + b,
            ArithmeticOpName::Subtract => a - b,
            ArithmeticOpName::Multiply => a * b,
            ArithmeticOpName::Divide if b == 0.0 => {
                return Err(Error::new(ErrorKind::DivisionByZero, "division by zero").into());
            }
            ArithmeticOpName::Divide => a / b,
        }))
    })?;
    Ok(Arc::new(array))
}

/// Plans arithmetic, and the aggregates whose types would cut what they give.
#[derive(Debug)]
pub(crate) struct Planner;

impl ExprPlanner for Planner {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let lists = |expr: &RawBinaryExpr| {
            let item = |side: &Expr| side.get_type(schema).ok().and_then(|side| lists::item(&side));
            let (left, right) = (item(&expr.left), item(&expr.right));
            // A NULL alone is no list.
            matches!((left, right), (Some(left), Some(right)) if !(left.is_null() && right.is_null()))
                && [&expr.left, &expr.right]
                    .iter()
                    .any(|side| side.get_type(schema).is_ok_and(|side| !side.is_null()))
        };
        let op = match expr.op {
            BinaryOperator::Plus | BinaryOperator::StringConcat if lists(&expr) => {
                return Ok(PlannerResult::Planned(lists::concatenated(expr.left, expr.right)));
            }
            BinaryOperator::Plus => ArithmeticOpName::Add,
            BinaryOperator::Minus => ArithmeticOpName::Subtract,
            BinaryOperator::Multiply => ArithmeticOpName::Multiply,
            BinaryOperator::Divide => ArithmeticOpName::Divide,
            BinaryOperator::PGBitwiseShiftLeft | BinaryOperator::PGBitwiseShiftRight => {
                let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
                    return Ok(PlannerResult::Original(expr));
                };
                let whole = |data_type: &DataType| data_type.is_integer() || data_type.is_null();
                if !whole(&left) || !whole(&right) {
                    return Err(Error::new(ErrorKind::TypeMismatch, "bits are those of whole numbers").into());
                }
                let is_left = matches!(expr.op, BinaryOperator::PGBitwiseShiftLeft);
                return Ok(PlannerResult::Planned(functions::shift(expr.left, expr.right, is_left)));
            }
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        if let Some(planned) = of_dates(op, &expr, &left, &right) {
            return Ok(PlannerResult::Planned(planned));
        }
        if timed(&left, &expr.right, &right) {
            let left = datafusion::logical_expr::cast(expr.left, MICROSECONDS);
            return Ok(PlannerResult::Original(RawBinaryExpr { left, ..expr }));
        }
        if timed(&right, &expr.left, &left) {
            let right = datafusion::logical_expr::cast(expr.right, MICROSECONDS);
            return Ok(PlannerResult::Original(RawBinaryExpr { right, ..expr }));
        }
        let null = |data_type: &DataType| *data_type == DataType::Null;
        let numbers = (is_number(&left) || null(&left)) && (is_number(&right) || null(&right));
        if !numbers || (null(&left) && null(&right)) {
            return Ok(PlannerResult::Original(expr));
        }
        Ok(PlannerResult::Planned(Arithmetic::call(op, expr.left, expr.right)))
    }

    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let of = expr.expr.get_type(schema)?;
        if !of.is_string() && lists::item(&of).is_none() {
            return Ok(PlannerResult::Original(expr));
        }
        let RawFieldAccessExpr { field_access, expr } = expr;
        match field_access {
            GetFieldAccess::ListIndex { key } => Ok(PlannerResult::Planned(lists::element(expr, *key))),
            GetFieldAccess::ListRange { start, stop, stride } => match *stride {
                Expr::Literal(ScalarValue::Int64(Some(1)), _) => {
                    Ok(PlannerResult::Planned(lists::slice(expr, *start, *stop)))
                }
                step => Ok(PlannerResult::Planned(lists::slice_by(expr, *start, *stop, step))),
            },
            field_access => Ok(PlannerResult::Original(RawFieldAccessExpr { field_access, expr })),
        }
    }

    fn plan_aggregate(&self, mut expr: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        // The middle of two integers is seldom one.
        if expr.func.name() == "median" {
            expr.args = expr
                .args
                .into_iter()
                .map(|arg| datafusion::logical_expr::cast(arg, DataType::Float64))
                .collect();
        }
        Ok(PlannerResult::Original(expr))
    }
}

const MICROSECONDS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Whether a date meets an interval that may have hours: the date becomes a timestamp then, or they would be lost.
fn timed(date: &DataType, other: &Expr, interval: &DataType) -> bool {
    let is_whole = match other {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) => interval.nanoseconds == 0,
        _ => false,
    };
    *date == DataType::Date32 && matches!(interval, DataType::Interval(_)) && !is_whole
}

/// A date and a number of days, or the days between two dates.
fn of_dates(op: ArithmeticOpName, expr: &RawBinaryExpr, left: &DataType, right: &DataType) -> Option<Expr> {
    use datafusion::logical_expr::cast;
    let days = |date: &Expr| cast(cast(date.clone(), DataType::Int32), DataType::Int64);
    let date = |days: Expr| cast(cast(days, DataType::Int32), DataType::Date32);
    let call = |left: Expr, right: Expr| Arithmetic::call(op, left, right);
    let adds = matches!(op, ArithmeticOpName::Add | ArithmeticOpName::Subtract);
    match (left, right) {
        (DataType::Date32, DataType::Date32) if op == ArithmeticOpName::Subtract => {
            Some(call(days(&expr.left), days(&expr.right)))
        }
        (DataType::Date32, number) if number.is_integer() && adds => {
            Some(date(call(days(&expr.left), expr.right.clone())))
        }
        (number, DataType::Date32) if number.is_integer() && op == ArithmeticOpName::Add => {
            Some(date(call(expr.left.clone(), days(&expr.right))))
        }
        _ => None,
    }
}

/// `-x` of an integer or a decimal, of the same type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Negate {
    signature: Signature,
}

impl ScalarUDFImpl for Negate {
    fn name(&self) -> &str {
        "basalt_negate"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(arguments)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        // Null only where an argument is.
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        self.schema_name(args)
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [arg] = args else { return Err(arguments()) };
        Ok(short(format!("(- {})", arg.schema_name())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [arg] = args.args.as_slice() else { return Err(arguments()) };
        let negated = |array: &ArrayRef| {
            neg(array).map_err(|error| match error {
                ArrowError::ArithmeticOverflow(_) => {
                    let message = format!("the result of '-' does not fit {}", array.data_type());
                    Error::new(ErrorKind::Overflow, message.to_lowercase()).into()
                }
                error => DataFusionError::from(error),
            })
        };
        Ok(match arg {
            ColumnarValue::Array(array) => ColumnarValue::Array(negated(array)?),
            ColumnarValue::Scalar(scalar) => {
                let array = negated(&scalar.to_array()?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
            }
        })
    }
}

/// The sign of an expression, checked.
pub(crate) fn negated(inner: Expr) -> Expr {
    let negate = Negate { signature: Signature::any(1, Volatility::Immutable) };
    ScalarUDF::new_from_impl(negate).call(vec![inner])
}
