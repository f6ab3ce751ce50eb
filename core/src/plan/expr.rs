//! Expressions bound to slots: the columns of a row, or the keys and aggregates of a group.

use std::{fmt, sync::Arc};

use crate::{
    error::{Error, ErrorKind, Result},
    keys::Native,
    logical::Logical,
    lookup::Lookup,
    query::{ArithmeticOp, Literal},
    schema::DataType,
    time_parts::TimeFunction,
    value::{self, Value},
};

/// An expression whose columns are places and whose types are known.
#[derive(Clone, Debug, PartialEq)]
pub enum BoundExpr {
    /// A slot: see [`Slots`].
    Slot(usize),
    /// A value of the row that a slot refers to.
    Attribute(BoundAttribute),
    /// A literal.
    Literal(Value),
    /// `left op right`, of this type.
    Arithmetic(ArithmeticOp, Box<BoundExpr>, Box<BoundExpr>, DataType),
    /// A function of a date or a timestamp, of this type.
    Time(TimeFunction, Box<BoundExpr>, DataType),
}

/// What a lookup has for the keys of a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundAttribute {
    /// The slot, a column of keys.
    pub slot: usize,
    /// The attribute's name.
    pub name: Arc<str>,
    /// Its values by key.
    pub lookup: Arc<Lookup>,
}

/// What the slots of an expression are.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    /// The name and type of each.
    pub fields: Vec<(String, DataType)>,
    /// What the values of each are, where they are held in the form of another type.
    pub logicals: Vec<Option<Logical>>,
    /// Whether integers and decimals are those of rows, 64 bits wide, or those above aggregates, 128.
    pub of_rows: bool,
}

/// The scale of decimals; 0 of other types.
pub(crate) fn scale_of(data_type: Option<DataType>) -> u8 {
    if let Some(DataType::Decimal { scale, .. }) = data_type { scale } else { 0 }
}

/// The type of a literal on its own; `None` for null.
pub fn literal_type(literal: &Literal) -> Option<DataType> {
    Some(match literal {
        Literal::Null => return None,
        Literal::Bool(_) => DataType::Bool,
        Literal::Int(_) => DataType::Int64,
        Literal::UInt(_) => DataType::UInt64,
        Literal::Float(_) => DataType::Float64,
        Literal::Decimal { scale, .. } => DataType::Decimal { precision: 18.max(*scale), scale: *scale },
        Literal::Text(_) => DataType::Utf8,
        Literal::Date(_) => DataType::Date32,
        Literal::Timestamp(_) => DataType::Timestamp,
    })
}

/// The value of a literal on its own.
pub fn literal_value(literal: &Literal) -> Value {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(b) => Value::Bool(*b),
        Literal::Int(i) => Value::Int(i128::from(*i)),
        Literal::UInt(u) => Value::Int(i128::from(*u)),
        Literal::Float(f) => Value::Float(*f),
        Literal::Decimal { unscaled, scale } => Value::Decimal { unscaled: *unscaled, scale: *scale },
        Literal::Text(t) => Value::Text(t.as_str().into()),
        Literal::Date(d) => Value::Date(*d),
        Literal::Timestamp(t) => Value::Timestamp(*t),
    }
}

/// The type of a function of a time.
///
/// # Errors
/// [`ErrorKind::TypeMismatch`] for what is no time, or a date that is not divided so.
pub fn time_type(function: TimeFunction, of: Option<DataType>) -> Result<DataType> {
    match (function, of) {
        (TimeFunction::Truncate(_), Some(DataType::Timestamp)) => Ok(DataType::Timestamp),
        (_, Some(DataType::Timestamp)) => Ok(DataType::Int32),
        (function, Some(DataType::Date32)) if function.is_of_dates() => Ok(DataType::Int32),
        (_, of) => {
            let of = of.map_or_else(|| "null".to_owned(), |of| of.to_string());
            Err(Error::new(ErrorKind::TypeMismatch, format!("{function:?} is no function of {of}")))
        }
    }
}

/// The error of a time whose unit begins before the first that there is.
pub(crate) fn before_all_times() -> Error {
    Error::new(ErrorKind::Overflow, "the unit of a time begins before the first timestamp")
}

/// The type of `left op right`: `/` gives float64, a float makes a float, a decimal makes a decimal (the
/// larger scale; the sum of both for `*`), integers give int64. `None` is the type of null.
/// Decimals have 18 digits in rows, 38 above aggregates.
pub fn arithmetic_type(
    op: ArithmeticOp,
    left: Option<DataType>,
    right: Option<DataType>,
    of_rows: bool,
) -> Result<DataType> {
    for side in [left, right].into_iter().flatten() {
        if !side.is_numeric() {
            return Err(Error::new(ErrorKind::TypeMismatch, format!("arithmetic takes numbers, not {side}")));
        }
    }
    let scale = |t: Option<DataType>| match t {
        Some(DataType::Decimal { scale, .. }) => Some(scale),
        _ => None,
    };
    let is_float = |t: Option<DataType>| t.is_some_and(DataType::is_float);
    if op == ArithmeticOp::Divide || is_float(left) || is_float(right) {
        return Ok(DataType::Float64);
    }
    let (a, b) = (scale(left), scale(right));
    if a.is_none() && b.is_none() {
        return Ok(DataType::Int64);
    }
    // Default: integers have no decimal places.
    let (a, b) = (a.unwrap_or(0), b.unwrap_or(0));
    let scale = if op == ArithmeticOp::Multiply { a.saturating_add(b) } else { a.max(b) };
    if scale > 18 {
        let message = format!("the result would have {scale} decimal places; the limit is 18");
        return Err(Error::new(ErrorKind::Overflow, message));
    }
    Ok(DataType::Decimal { precision: if of_rows { 18 } else { 38 }, scale })
}

impl BoundExpr {
    /// Its type; `None` for a null literal.
    pub fn data_type(&self, slots: &Slots) -> Option<DataType> {
        match self {
            Self::Slot(i) => Some(slots.fields[*i].1),
            Self::Attribute(attribute) => Some(attribute.lookup.data_type()),
            Self::Arithmetic(.., data_type) | Self::Time(.., data_type) => Some(*data_type),
            Self::Literal(value) => Some(match value {
                Value::Null => return None,
                Value::Bool(_) => DataType::Bool,
                Value::Int(i) if i64::try_from(*i).is_ok() => DataType::Int64,
                Value::Int(_) => DataType::UInt64,
                Value::Float(_) => DataType::Float64,
                Value::Decimal { scale, .. } => {
                    DataType::Decimal { precision: 18.max(*scale), scale: *scale }
                }
                Value::Text(_) => DataType::Utf8,
                Value::Date(_) => DataType::Date32,
                Value::Timestamp(_) => DataType::Timestamp,
            }),
        }
    }

    /// What its values are, where they are held in the form of another type.
    pub fn logical(&self, slots: &Slots) -> Option<Logical> {
        match self {
            Self::Slot(i) => slots.logicals.get(*i).copied().flatten(),
            // A resolver looks up no values that are held so, and nothing is computed with them.
            Self::Attribute(_) | Self::Literal(_) | Self::Arithmetic(..) | Self::Time(..) => None,
        }
    }

    /// The type of the column that shows it: nulls are bools.
    pub fn shown_type(&self, slots: &Slots) -> DataType {
        self.data_type(slots).unwrap_or(DataType::Bool)
    }

    /// Its value, given those of the slots.
    ///
    /// # Errors
    /// [`ErrorKind::Overflow`], [`ErrorKind::DivisionByZero`].
    pub fn eval(&self, slots: &Slots, value_of: &dyn Fn(usize) -> Value) -> Result<Value> {
        match self {
            Self::Slot(i) => Ok(value_of(*i)),
            Self::Attribute(BoundAttribute { slot, lookup, .. }) => {
                let native = Native::of(slots.fields[*slot].1);
                let key = native.and_then(|native| value_of(*slot).to_key(native));
                Ok(key.map_or(Value::Null, |key| lookup.value(key)))
            }
            Self::Literal(value) => Ok(value.clone()),
            Self::Arithmetic(op, left, right, _) => {
                let (left, right) = (left.eval(slots, value_of)?, right.eval(slots, value_of)?);
                let arithmetic = if slots.of_rows { value::row_arithmetic } else { value::arithmetic };
                arithmetic(*op, &left, &right)
            }
            Self::Time(function, of, _) => Ok(match (function, of.eval(slots, value_of)?) {
                (_, Value::Date(days)) => Value::Int(function.of_days(days.into()).into()),
                (TimeFunction::Truncate(_), Value::Timestamp(micros)) => {
                    Value::Timestamp(function.of_micros(micros).ok_or_else(before_all_times)?)
                }
                (_, Value::Timestamp(micros)) => {
                    Value::Int(function.of_micros(micros).ok_or_else(before_all_times)?.into())
                }
                _ => Value::Null,
            }),
        }
    }

    /// How many literals, slots, attributes (twice) and operations it has.
    pub fn nodes(&self) -> usize {
        match self {
            Self::Slot(_) | Self::Literal(_) => 1,
            Self::Attribute(_) => 2,
            Self::Arithmetic(_, left, right, _) => 1 + left.nodes() + right.nodes(),
            Self::Time(_, of, _) => 1 + of.nodes(),
        }
    }

    /// The slots it reads, appended to `out`.
    pub fn slots(&self, out: &mut Vec<usize>) {
        match self {
            Self::Slot(i) => out.push(*i),
            Self::Attribute(attribute) => out.push(attribute.slot),
            Self::Literal(_) => {}
            Self::Time(_, of, _) => of.slots(out),
            Self::Arithmetic(_, left, right, _) => {
                left.slots(out);
                right.slots(out);
            }
        }
    }

    /// As text, with the slots' names.
    pub fn display<'a>(&'a self, slots: &'a Slots) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| match self {
            Self::Slot(i) => f.write_str(&slots.fields[*i].0),
            Self::Attribute(BoundAttribute { slot, name, .. }) => {
                write!(f, "{}.{name}", slots.fields[*slot].0)
            }
            Self::Literal(value) => fmt_value(f, value),
            Self::Time(function, of, _) => write!(f, "{function:?}({})", of.display(slots)),
            Self::Arithmetic(op, left, right, _) => {
                let op = match op {
                    ArithmeticOp::Add => '+',
                    ArithmeticOp::Subtract => '-',
                    ArithmeticOp::Multiply => '*',
                    ArithmeticOp::Divide => '/',
                };
                let side = |f: &mut fmt::Formatter<'_>, e: &Self| match e {
                    Self::Arithmetic(..) => write!(f, "({})", e.display(slots)),
                    e => write!(f, "{}", e.display(slots)),
                };
                side(f, left)?;
                write!(f, " {op} ")?;
                side(f, right)
            }
        })
    }
}

/// A value as SQL would write it.
pub fn fmt_value(f: &mut fmt::Formatter<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Null => f.write_str("NULL"),
        Value::Bool(b) => write!(f, "{b}"),
        Value::Int(i) => write!(f, "{i}"),
        Value::Float(x) => write!(f, "{x}"),
        Value::Decimal { unscaled, scale: 0 } => write!(f, "{unscaled}"),
        Value::Decimal { unscaled, scale } => {
            let width = usize::from(*scale) + 1;
            let digits = format!("{:0>width$}", unscaled.unsigned_abs());
            let (whole, fraction) = digits.split_at(digits.len() - usize::from(*scale));
            write!(f, "{}{whole}.{fraction}", if *unscaled < 0 { "-" } else { "" })
        }
        Value::Date(d) => f.write_str(&crate::time::format_date(*d)),
        Value::Timestamp(t) => f.write_str(&crate::time::format_timestamp(*t)),
        Value::Text(t) => write!(f, "'{}'", t.replace('\'', "''")),
    }
}
