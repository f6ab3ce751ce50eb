//! Expressions: exact in 128 bits, then checked against the width that they should have.

use basalt_core::{
    error::ErrorKind,
    query::{Aggregate, AggregateFunction, ArithmeticOp, Attribute, Expr, Literal, ROW_ADDRESS},
    schema::Field,
    time_parts::TimeFunction,
};

use super::{Evaluator, Result, Scope, time};
use crate::value::{Value, order};

impl Evaluator<'_> {
    pub(super) fn fail(&self, kind: ErrorKind) -> ErrorKind {
        let mut failures = self.failures.borrow_mut();
        if !failures.contains(&kind) {
            failures.push(kind);
        }
        kind
    }

    pub(super) fn expr(&self, expr: &Expr, scope: Scope<'_>) -> Result<Value> {
        if let Scope::Group { keys, values, .. } = scope
            && let Some(i) = keys.iter().position(|key| key == expr)
        {
            return Ok(values[i].clone());
        }
        match (expr, scope) {
            (Expr::Literal(literal), _) => Ok(of_literal(literal)),
            (Expr::Column(name), Scope::Row(row)) if name == ROW_ADDRESS => {
                Ok(Value::Int(self.table.addresses[row].into()))
            }
            (Expr::Column(name), Scope::Row(row)) => {
                let i = self.table.fields.iter().position(|field| field.name == *name).unwrap();
                Ok(self.table.rows[row][i].clone())
            }
            (Expr::Attribute(attribute), Scope::Row(row)) => Ok(self.attribute(attribute, row)),
            (Expr::Arithmetic(op, left, right), _) => {
                let (left, right) = (self.expr(left, scope), self.expr(right, scope));
                arithmetic(*op, &left?, &right?, matches!(scope, Scope::Row(_)))
                    .map_err(|kind| self.fail(kind))
            }
            (Expr::Time(function, of), _) => Ok(match self.expr(of, scope)? {
                Value::Date(days) => Value::Int(time::of(*function, i128::from(days) * 86_400_000_000)),
                Value::Timestamp(micros) => {
                    let value = time::of(*function, micros.into());
                    match function {
                        TimeFunction::Truncate(_) => Value::Timestamp(
                            i64::try_from(value).map_err(|_| self.fail(ErrorKind::Overflow))?,
                        ),
                        _ => Value::Int(value),
                    }
                }
                value => value,
            }),
            (Expr::Aggregate(aggregate), Scope::Group { rows, .. }) => self.aggregate(aggregate, rows),
            (expr, _) => panic!("{expr:?} is out of place"),
        }
    }

    /// The value in the one row of another table that has the key.
    fn attribute(&self, Attribute { column, name, .. }: &Attribute, row: usize) -> Value {
        let place =
            |fields: &[Field], name: &str| fields.iter().position(|field| field.name == name).unwrap();
        let i = place(self.table.fields, column);
        let reference = self.table.fields[i].references.as_ref().unwrap();
        let other = self.named(&reference.table);
        let Some(key) = self.table.rows[row][i].integer() else { return Value::Null };
        let mut places = self.keys.borrow_mut();
        let places = places.entry(reference.column.clone()).or_insert_with(|| {
            let at = place(other.fields, &reference.column);
            let keys =
                other.rows.iter().enumerate().filter_map(|(row, values)| Some((values[at].integer()?, row)));
            keys.collect()
        });
        places.get(&key).map_or(Value::Null, |row| other.rows[*row][place(other.fields, name)].clone())
    }

    /// The field that a column or an attribute stands for.
    pub(super) fn field(&self, expr: &Expr) -> Option<&Field> {
        let named = |fields: &'_ [Field], name: &str| fields.iter().position(|field| field.name == name);
        match expr {
            Expr::Column(name) => named(self.table.fields, name).map(|i| &self.table.fields[i]),
            Expr::Attribute(attribute) => {
                let column = named(self.table.fields, &attribute.column)?;
                let other = self.named(&self.table.fields[column].references.as_ref()?.table);
                named(other.fields, &attribute.name).map(|i| &other.fields[i])
            }
            _ => None,
        }
    }

    fn aggregate(&self, aggregate: &Aggregate, rows: &[usize]) -> Result<Value> {
        let Some(argument) = &aggregate.argument else { return Ok(Value::Int(rows.len() as i128)) };
        let values: Vec<_> = rows.iter().map(|row| self.expr(argument, Scope::Row(*row))).collect();
        let mut values = values.into_iter().collect::<Result<Vec<_>>>()?;
        values.retain(|value| *value != Value::Null);
        let total = |values: &[Value]| match values {
            [Value::Float(_), ..] => {
                let floats = || values.iter().map(|value| if let Value::Float(v) = value { *v } else { 0.0 });
                let magnitude: f64 = floats().filter(|v| v.is_finite()).map(f64::abs).sum();
                // What comes near to the largest may be beyond it in another order.
                let is_near = magnitude >= f64::MAX * (1.0 - 1e-9);
                Value::About(floats().sum(), if is_near { f64::INFINITY } else { magnitude })
            }
            [Value::Decimal(_, scale), ..] => {
                let sum =
                    values.iter().map(|value| if let Value::Decimal(v, _) = value { *v } else { 0 }).sum();
                Value::Decimal(sum, *scale)
            }
            values => {
                Value::Int(values.iter().map(|value| if let Value::Int(v) = value { *v } else { 0 }).sum())
            }
        };
        Ok(match aggregate.function {
            AggregateFunction::Count if aggregate.distinct => {
                values.sort_by(order);
                values.dedup_by(|a, b| order(a, b).is_eq());
                Value::Int(values.len() as i128)
            }
            AggregateFunction::Count => Value::Int(values.len() as i128),
            _ if values.is_empty() => Value::Null,
            AggregateFunction::Min => values.into_iter().min_by(order).unwrap(),
            AggregateFunction::Max => values.into_iter().max_by(order).unwrap(),
            AggregateFunction::Sum => match total(&values) {
                Value::Int(sum) if !self.fits_sum(argument, sum) => {
                    return Err(self.fail(ErrorKind::Overflow));
                }
                sum => sum,
            },
            #[allow(clippy::cast_precision_loss, reason = "an average is a float")]
            AggregateFunction::Avg => {
                let n = values.len() as f64;
                match total(&values) {
                    Value::About(sum, magnitude) => Value::About(sum / n, magnitude / n),
                    exact => {
                        let average = to_f64(&exact) / n;
                        Value::About(average, average.abs())
                    }
                }
            }
        })
    }

    /// Sums of unsigned columns are uint64, those of other integers int64.
    fn fits_sum(&self, argument: &Expr, sum: i128) -> bool {
        use basalt_core::schema::DataType as T;
        let is_unsigned = match argument {
            Expr::Column(name) if name == ROW_ADDRESS => true,
            Expr::Literal(Literal::UInt(v)) => i64::try_from(*v).is_err(),
            argument => self
                .field(argument)
                .is_some_and(|field| matches!(field.data_type, T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64)),
        };
        if is_unsigned { u64::try_from(sum).is_ok() } else { i64::try_from(sum).is_ok() }
    }
}

fn of_literal(literal: &Literal) -> Value {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(v) => Value::Bool(*v),
        Literal::Int(v) => Value::Int((*v).into()),
        Literal::UInt(v) => Value::Int((*v).into()),
        Literal::Float(v) => Value::Float(*v),
        Literal::Decimal { unscaled, scale } => Value::Decimal(*unscaled, *scale),
        Literal::Text(v) => Value::Text(v.clone()),
        Literal::Date(v) => Value::Date(*v),
        Literal::Timestamp(v) => Value::Timestamp(*v),
    }
}

#[allow(clippy::cast_precision_loss, reason = "the nearest float is asked for")]
fn to_f64(value: &Value) -> f64 {
    match value {
        Value::Int(v) => *v as f64,
        Value::Decimal(v, scale) => format!("{v}e-{scale}").parse().unwrap(),
        Value::Float(v) => *v,
        other => panic!("{other:?} is no number"),
    }
}

/// `a op b`; operands and result of rows have 64 bits, those above aggregates 128.
fn arithmetic(op: ArithmeticOp, a: &Value, b: &Value, of_row: bool) -> Result<Value> {
    if *a == Value::Null || *b == Value::Null {
        return Ok(Value::Null);
    }
    let is_float = |value: &Value| matches!(value, Value::Float(_));
    if op == ArithmeticOp::Divide || is_float(a) || is_float(b) {
        let (a, b) = (to_f64(a), to_f64(b));
        return Ok(Value::Float(match op {
            ArithmeticOp::Add => a + b,
            ArithmeticOp::Subtract => a - b,
            ArithmeticOp::Multiply => a * b,
            ArithmeticOp::Divide if b == 0.0 => return Err(ErrorKind::DivisionByZero),
            ArithmeticOp::Divide => a / b,
        }));
    }
    let fits = |v: i128| if of_row && i64::try_from(v).is_err() { Err(ErrorKind::Overflow) } else { Ok(v) };
    let (a, a_scale) = exact(a);
    let (b, b_scale) = exact(b);
    let scale = match op {
        ArithmeticOp::Multiply => a_scale.unwrap_or(0) + b_scale.unwrap_or(0),
        _ => a_scale.unwrap_or(0).max(b_scale.unwrap_or(0)),
    };
    let meet = |v: i128, from: Option<u8>| match op {
        ArithmeticOp::Multiply => fits(v),
        _ => {
            let factor = 10_i128.pow(u32::from(scale - from.unwrap_or(0)));
            v.checked_mul(factor).ok_or(ErrorKind::Overflow).and_then(fits)
        }
    };
    let (a, b) = (meet(a, a_scale)?, meet(b, b_scale)?);
    let result = match op {
        ArithmeticOp::Add => a.checked_add(b),
        ArithmeticOp::Subtract => a.checked_sub(b),
        _ => a.checked_mul(b),
    };
    let result = result.ok_or(ErrorKind::Overflow).and_then(fits)?;
    Ok(if a_scale.is_some() || b_scale.is_some() {
        Value::Decimal(result, scale)
    } else {
        Value::Int(result)
    })
}

fn exact(value: &Value) -> (i128, Option<u8>) {
    match value {
        Value::Int(v) => (*v, None),
        Value::Decimal(v, scale) => (*v, Some(*scale)),
        other => panic!("{other:?} is no exact number"),
    }
}

pub(super) fn has_aggregate(expr: &Expr) -> bool {
    match expr {
        Expr::Aggregate(_) => true,
        Expr::Arithmetic(_, left, right) => has_aggregate(left) || has_aggregate(right),
        Expr::Time(_, of) => has_aggregate(of),
        Expr::Column(_) | Expr::Attribute(_) | Expr::Literal(_) => false,
    }
}
