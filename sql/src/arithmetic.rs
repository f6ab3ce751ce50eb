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
use arrow_schema::{DataType, Field, FieldRef};
use basalt_core::{error::ErrorKind, query::ArithmeticOp};
use datafusion::{
    arrow::{
        compute::{
            cast,
            kernels::{arity::try_binary, numeric::neg},
        },
        error::ArrowError,
    },
    common::{DataFusionError, Result, ScalarValue},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility,
    },
};

use crate::{error::Error, functions::of_rows, limits, nan, nearest};

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
    pub(crate) fn call(op: ArithmeticOpName, left: Expr, right: Expr) -> Expr {
        let name = short(format!("{} {} {}", left.schema_name(), op.symbol(), right.schema_name()));
        Self::function(op, &name).call(vec![left, right])
    }

    fn function(op: ArithmeticOpName, name: &str) -> ScalarUDF {
        let signature = Signature::any(2, Volatility::Immutable);
        ScalarUDF::new_from_impl(Self { op, name: name.into(), signature })
    }

    /// The function of an expression, where it is one of these.
    pub(crate) fn of(function: &ScalarUDF) -> Option<&Self> {
        (function.inner().as_ref() as &dyn Any).downcast_ref()
    }
}

/// Whether it is a number, or the null that may be one.
pub(crate) fn is_number(data_type: &DataType) -> bool {
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
            let (a, b) = (nearest::doubles(&left)?, nearest::doubles(&right)?);
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
    let array = zip::<Float64Type, Float64Type, Float64Type>(a, b, |a, b| {
        Ok(nan::one(match op {
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

fn negate() -> ScalarUDF {
    ScalarUDF::new_from_impl(Negate { signature: Signature::any(1, Volatility::Immutable) })
}

/// The sign of an expression, checked.
pub(crate) fn negated(inner: Expr) -> Expr {
    negate().call(vec![inner])
}

/// What a task may have of these: by a name of their own, and none that was written anywhere.
pub(crate) fn inner() -> impl Iterator<Item = ScalarUDF> {
    use ArithmeticOpName::{Add, Divide, Multiply, Subtract};
    let two = [Add, Subtract, Multiply, Divide].map(|op| Arithmetic::function(op, op.name()));
    two.into_iter().chain([negate()])
}
