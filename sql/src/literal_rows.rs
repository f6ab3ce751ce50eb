//! The rows of an INSERT whose VALUES are constants and parameters alone. They need no planner, which takes longer for one
//! row than its way to the table: each value goes into its column by itself, as it does in CAST.

use std::{borrow::Cow, sync::Arc};

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt64Array, new_null_array,
};
use arrow_schema::DataType;
use basalt_core::{
    query::Literal,
    schema::{DataType as Logical, Field, Schema},
};
use datafusion::{
    arrow::compute::interleave,
    sql::sqlparser::ast::{self, CastKind, Expr, Ident, SetExpr, UnaryOperator, Value},
};

use crate::{
    answer::{shown_type, stands_for},
    assign::Rows,
    catalog::{Writer, Written},
    command::TextOf,
    dialect::stored_text,
    error::{Error, Result},
    limits,
    parse::Parameters,
    write::Effect,
};

/// Digits of a decimal, before and behind the point.
const DIGITS: u8 = 38;

/// See the module.
#[derive(Debug)]
pub(crate) struct LiteralRows {
    /// Row by row.
    cells: Vec<Cell>,
    width: usize,
}

#[derive(Debug)]
enum Cell {
    Value(Literal),
    /// Its number, from 0, of one that has no value yet, and its type where the statement names it.
    Open(usize, Option<Logical>),
}

impl LiteralRows {
    /// Takes the rows out of a statement, where it is such an INSERT.
    pub(crate) fn take(statement: &mut ast::Statement, parameters: Parameters<'_>) -> Option<Self> {
        let ast::Statement::Insert(insert) = statement else { return None };
        let query = insert.source.as_deref_mut().filter(|_| insert.on.is_none())?;
        let is_plain = query.with.is_none()
            && query.order_by.is_none()
            && query.limit_clause.is_none()
            && query.fetch.is_none()
            && query.pipe_operators.is_empty();
        let SetExpr::Values(values) = &mut *query.body else { return None };
        let width = values.rows.first().filter(|row| is_plain && !row.content.is_empty())?.content.len();
        let mut taking = Taking { parameters, positional: 0, seen: Vec::new() };
        let mut cells = Vec::with_capacity(values.rows.len() * width);
        for row in values.rows.iter().map(|row| &row.content) {
            if row.len() != width {
                return None;
            }
            for value in row {
                cells.push(taking.cell(value)?);
            }
        }
        values.rows.clear();
        Some(Self { cells, width })
    }

    /// The columns that each row has a value for.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The types of the parameters, which are those of the columns that they go to, and what they stand for where they are
    /// texts.
    pub(crate) fn parameters(&self, schema: &Schema, effect: &Effect) -> (Vec<Logical>, Vec<Option<TextOf>>) {
        // Default: no rows come.
        let columns = effect.rows.as_ref().map(Rows::columns).unwrap_or_default();
        let (mut types, mut texts) = (Vec::new(), Vec::new());
        for (at, cell) in self.cells.iter().enumerate() {
            let Cell::Open(number, named) = cell else { continue };
            let field = columns.get(at % self.width).and_then(|column| schema.fields().get(*column));
            if types.len() <= *number {
                // One that the statement does not have.
                types.resize(number + 1, Logical::Utf8);
                texts.resize(number + 1, None);
            }
            let taken = field.filter(|_| named.is_none()).map(Field::to_arrow_type);
            if let Some(data_type) = named.or_else(|| taken.as_ref().map(shown_type)) {
                types[*number] = data_type;
                texts[*number] = taken.as_ref().and_then(stands_for);
            }
        }
        (types, texts)
    }

    /// Writes them, and commits them.
    pub(crate) async fn write(&self, effect: &Effect, mut writer: Box<dyn Writer>) -> Result<Written> {
        if let Some(rows) = &effect.rows {
            for batch in self.batches(rows) {
                writer.insert(batch?).await?;
            }
        }
        writer.commit().await
    }

    /// The rows as the table has them, so many at once.
    fn batches<'a>(&'a self, rows: &'a Rows) -> impl Iterator<Item = Result<RecordBatch>> + 'a {
        let cells = self.width * limits::INSERTED_ROWS;
        self.cells.chunks(cells).map(|cells| {
            rows.made(cells.len() / self.width, |field, source| {
                column(cells.iter().skip(source).step_by(self.width), field, rows)
            })
        })
    }
}

/// What is known on the way through the rows.
struct Taking<'a> {
    parameters: Parameters<'a>,
    /// Of each `?`.
    positional: usize,
    /// Parameters without values that stand somewhere.
    seen: Vec<bool>,
}

impl Taking<'_> {
    /// `None`: it is something else, or not what it should be, which the planner tells.
    fn cell(&mut self, value: &Expr) -> Option<Cell> {
        let is_default =
            |name: &Ident| name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default");
        let value = match value {
            Expr::Identifier(name) if is_default(name) => return Some(Cell::Value(Literal::Null)),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match &**expr {
                Expr::Value(value) => match &value.value {
                    Value::Number(text, false) if !text.starts_with('-') => {
                        return number(&format!("-{text}")).map(Cell::Value);
                    }
                    _ => return None,
                },
                _ => return None,
            },
            Expr::Value(value) => &value.value,
            // Drivers say of which type a parameter is.
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                array: false,
                format: None,
            } => {
                return match (&**expr, self.cell(expr)?) {
                    (Expr::Value(_), Cell::Value(value)) => {
                        is_of(&value, data_type).then_some(Cell::Value(value))
                    }
                    (Expr::Value(_), Cell::Open(at, None)) => Some(Cell::Open(at, Some(type_of(data_type)?))),
                    _ => None,
                };
            }
            _ => return None,
        };
        Some(Cell::Value(match value {
            Value::Null => Literal::Null,
            Value::Boolean(value) => Literal::Bool(*value),
            Value::SingleQuotedString(text) => Literal::Text(text.clone()),
            Value::Number(text, false) => number(text)?,
            Value::Placeholder(name) => return self.parameter(name),
            _ => return None,
        }))
    }

    fn parameter(&mut self, name: &str) -> Option<Cell> {
        let number: usize = match name.strip_prefix('$') {
            Some(number) => number.parse().ok()?,
            None => {
                self.positional += 1;
                self.positional
            }
        };
        let at = number.checked_sub(1).filter(|at| *at < limits::PARAMETERS)?;
        match self.parameters {
            Parameters::Given(given) => given.get(at).cloned().map(Cell::Value),
            Parameters::Open(_) => {
                if self.seen.len() <= at {
                    self.seen.resize(at + 1, false);
                }
                // The planner finds the type of one that goes to several columns.
                (!std::mem::replace(&mut self.seen[at], true)).then_some(Cell::Open(at, None))
            }
        }
    }
}

/// The type that a name in SQL means, of those that drivers name.
fn type_of(data_type: &ast::DataType) -> Option<Logical> {
    use ast::DataType as Named;
    Some(match data_type {
        Named::SmallInt(None) | Named::Int2(None) => Logical::Int16,
        Named::Int(None) | Named::Integer(None) | Named::Int4(None) => Logical::Int32,
        Named::BigInt(None) | Named::Int8(None) => Logical::Int64,
        Named::DoublePrecision | Named::Float8 | Named::Double(ast::ExactNumberInfo::None) => {
            Logical::Float64
        }
        Named::Varchar(None) | Named::CharacterVarying(None) | Named::Text => Logical::Utf8,
        Named::Boolean | Named::Bool => Logical::Bool,
        Named::Date => Logical::Date32,
        Named::Timestamp(None, _) => Logical::Timestamp,
        _ => return None,
    })
}

/// Whether a value is as it is in a type.
fn is_of(value: &Literal, data_type: &ast::DataType) -> bool {
    let Some(data_type) = type_of(data_type) else { return false };
    match (value, data_type) {
        (Literal::Null, _)
        | (Literal::Int(_), Logical::Int64)
        | (Literal::Float(_), Logical::Float64)
        | (Literal::Text(_), Logical::Utf8)
        | (Literal::Bool(_), Logical::Bool)
        | (Literal::Date(_), Logical::Date32)
        | (Literal::Timestamp(_), Logical::Timestamp) => true,
        (Literal::Int(value), Logical::Int32) => i32::try_from(*value).is_ok(),
        (Literal::Int(value), Logical::Int16) => i16::try_from(*value).is_ok(),
        _ => false,
    }
}

/// A number as SQL has it: with an exponent it is a float, with a point a decimal.
fn number(text: &str) -> Option<Literal> {
    if text.contains(['e', 'E']) {
        return text.parse().ok().filter(|float: &f64| float.is_finite()).map(Literal::Float);
    }
    let Some((whole, fraction)) = text.split_once('.') else {
        let int = text.parse().ok().map(Literal::Int);
        return int.or_else(|| text.parse().ok().map(Literal::UInt));
    };
    let digits = format!("{whole}{fraction}");
    let scale = u8::try_from(fraction.len()).ok().filter(|scale| *scale <= DIGITS)?;
    let unscaled: i128 = digits.parse().ok()?;
    (unscaled.unsigned_abs() < 10_u128.pow(DIGITS.into())).then_some(Literal::Decimal { unscaled, scale })
}

/// What values of one array are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bool,
    Int,
    UInt,
    Float,
    Decimal(u8),
    Text,
    Date,
    Timestamp,
}

impl Kind {
    /// `None`: null, which is a value of all kinds.
    fn of(value: &Literal) -> Option<Self> {
        Some(match value {
            Literal::Null => return None,
            Literal::Bool(_) => Self::Bool,
            Literal::Int(_) => Self::Int,
            Literal::UInt(_) => Self::UInt,
            Literal::Float(_) => Self::Float,
            Literal::Decimal { scale, .. } => Self::Decimal(*scale),
            Literal::Text(_) => Self::Text,
            Literal::Date(_) => Self::Date,
            Literal::Timestamp(_) => Self::Timestamp,
        })
    }

    /// The values of this kind; others are null.
    fn array(self, values: &[&Literal], field: &Field) -> Result<ArrayRef> {
        Ok(match self {
            Self::Bool => Arc::new(those::<BooleanArray, _>(values, |value| match value {
                Literal::Bool(value) => Some(*value),
                _ => None,
            })),
            Self::Int => Arc::new(those::<Int64Array, _>(values, |value| match value {
                Literal::Int(value) => Some(*value),
                _ => None,
            })),
            Self::UInt => Arc::new(those::<UInt64Array, _>(values, |value| match value {
                Literal::UInt(value) => Some(*value),
                _ => None,
            })),
            Self::Float => Arc::new(those::<Float64Array, _>(values, |value| match value {
                Literal::Float(value) => Some(*value),
                _ => None,
            })),
            Self::Decimal(of) => {
                let array = those::<Decimal128Array, _>(values, |value| match value {
                    Literal::Decimal { unscaled, scale } if *scale == of => Some(*unscaled),
                    _ => None,
                });
                let scale = i8::try_from(of).map_err(|_| lost())?;
                Arc::new(array.with_precision_and_scale(DIGITS, scale).map_err(|_| lost())?)
            }
            Self::Text => Arc::new(those::<StringArray, _>(values, |value| match value {
                Literal::Text(text) => {
                    Some(stored_text(text, field).map_or(Cow::Borrowed(text.as_str()), Cow::Owned))
                }
                _ => None,
            })),
            Self::Date => Arc::new(those::<Date32Array, _>(values, |value| match value {
                Literal::Date(value) => Some(*value),
                _ => None,
            })),
            Self::Timestamp => {
                let array = those::<TimestampMicrosecondArray, _>(values, |value| match value {
                    Literal::Timestamp(value) => Some(*value),
                    _ => None,
                });
                Arc::new(array.with_timezone("UTC"))
            }
        })
    }
}

fn those<'a, A: FromIterator<Option<T>>, T>(
    values: &[&'a Literal],
    value: impl Fn(&'a Literal) -> Option<T>,
) -> A {
    values.iter().map(|literal| value(literal)).collect()
}

fn lost() -> Error {
    Error::Internal("the rows of an INSERT have no values".to_owned())
}

/// The values of a column.
fn column<'a>(cells: impl Iterator<Item = &'a Cell>, field: &Field, rows: &Rows) -> Result<ArrayRef> {
    let values = cells.map(|cell| match cell {
        Cell::Value(value) => Ok(value),
        Cell::Open(..) => Err(lost()),
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    let mut kinds: Vec<Kind> = Vec::new();
    for kind in values.iter().filter_map(|value| Kind::of(value)) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let assigned = |kind: &Kind| rows.assigned(&kind.array(&values, field)?, field);
    match kinds.as_slice() {
        [] => rows.assigned(&new_null_array(&DataType::Null, values.len()), field),
        [only] => assigned(only),
        several => {
            let arrays = several.iter().map(assigned).collect::<Result<Vec<_>>>()?;
            let arrays: Vec<_> = arrays.iter().map(|array| array.as_ref()).collect();
            let place = |(row, value): (usize, &&Literal)| {
                // Default: null is so in each.
                let of = Kind::of(value).and_then(|kind| several.iter().position(|other| *other == kind));
                (of.unwrap_or_default(), row)
            };
            let places: Vec<_> = values.iter().enumerate().map(place).collect();
            interleave(&arrays, &places).map_err(|error| Error::Internal(error.to_string()))
        }
    }
}
