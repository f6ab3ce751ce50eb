//! Expressions and conditions.

use std::{cell::Cell, collections::HashMap, rc::Rc};

use sqlparser::ast::{
    self, BinaryOperator, DataType, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArguments,
    Spanned as _, UnaryOperator, Value,
};

use super::{error::SqlError, subquery, version::Versions};
use crate::{
    expr::{Expr, Filter, Literal, attribute, avg, col, count, count_distinct, count_of, lit, max, min, sum},
    text::{self, Decimal},
};

/// How far expressions may nest here; the server's own limit is lower.
const MAX_DEPTH: usize = 200;

/// What names stand for.
#[derive(Default)]
pub(super) struct Scope {
    /// What the table is called before a column's name.
    pub(super) name: String,
    /// What the tables of the queries around this one are called.
    pub(super) outer: Vec<String>,
    /// The versions of tables that the text names.
    pub(super) versions: Rc<Versions>,
    /// The select list's names; `None` for one that stands for two things.
    pub(super) aliases: HashMap<String, Option<Expr>>,
    /// The columns of GROUP BY.
    pub(super) keys: Vec<String>,
    /// The table's columns, once they are known.
    pub(super) columns: Option<Vec<String>>,
    /// A name was read whose meaning depends on the table's columns, which are not known.
    pub(super) needs_columns: Cell<bool>,
}

/// Which names a clause sees, and which of two that are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// The table's columns alone: the select list, WHERE, and inside an aggregate.
    Columns,
    /// A column before a name of the select list: GROUP BY, and inside an expression of ORDER BY.
    ColumnFirst,
    /// A column of GROUP BY before a name of the select list, which comes before other columns: HAVING.
    KeyFirst,
    /// A name of the select list before a column: a name that stands alone in ORDER BY.
    AliasFirst,
}

/// Reads expressions.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) scope: &'a Scope,
    pub(super) names: Names,
    pub(super) depth: usize,
}

impl Reader<'_> {
    fn deeper(self, at: &ast::Expr) -> Result<Self, SqlError> {
        if self.depth >= MAX_DEPTH {
            return Err(SqlError::too_deep().at(at.span()));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    /// A value for every row or group.
    pub(super) fn value(self, expr: &ast::Expr) -> Result<Expr, SqlError> {
        let inner = self.deeper(expr)?;
        match expr {
            ast::Expr::Nested(nested) => inner.value(nested),
            ast::Expr::Identifier(ident) => self.name(&ident.value).map_err(|e| e.at(expr.span())),
            ast::Expr::CompoundIdentifier(parts) => self.qualified(parts).map_err(|e| e.at(expr.span())),
            ast::Expr::UnaryOp { op: UnaryOperator::Plus, expr: operand } => inner.value(operand),
            ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr: operand } => match number_text(operand) {
                Some(digits) => number(&format!("-{digits}")).map(lit).map_err(|e| e.at(expr.span())),
                None => Ok(lit(0) - inner.value(operand)?),
            },
            ast::Expr::BinaryOp { left, op, right } => {
                let combine: fn(Expr, Expr) -> Expr = match op {
                    BinaryOperator::Plus => |l, r| l + r,
                    BinaryOperator::Minus => |l, r| l - r,
                    BinaryOperator::Multiply => |l, r| l * r,
                    BinaryOperator::Divide => |l, r| l / r,
                    BinaryOperator::And | BinaryOperator::Or => return Err(condition_as_value(expr)),
                    _ if comparison(op).is_some() => return Err(condition_as_value(expr)),
                    _ => return Err(SqlError::unsupported(format!("the operator {op}")).at(expr.span())),
                };
                Ok(combine(inner.value(left)?, inner.value(right)?))
            }
            ast::Expr::Function(function) => inner.aggregate(function).map_err(|e| e.at(expr.span())),
            ast::Expr::Value(_) | ast::Expr::TypedString(_) => {
                literal(expr).map(lit).map_err(|e| e.at(expr.span()))
            }
            ast::Expr::Between { .. }
            | ast::Expr::InList { .. }
            | ast::Expr::InSubquery { .. }
            | ast::Expr::Like { .. }
            | ast::Expr::IsNull(_)
            | ast::Expr::IsNotNull(_)
            | ast::Expr::UnaryOp { op: UnaryOperator::Not, .. } => Err(condition_as_value(expr)),
            _ => Err(SqlError::unsupported(shown(expr)).at(expr.span())),
        }
    }

    fn name(self, name: &str) -> Result<Expr, SqlError> {
        let Scope { aliases, keys, columns, needs_columns, .. } = self.scope;
        // A column under its own name is the same either way.
        let is_itself = |alias: &&Option<Expr>| alias.as_ref().and_then(Expr::column) == Some(name);
        let Some(alias) = aliases.get(name).filter(|alias| !is_itself(alias)) else { return Ok(col(name)) };
        let column_wins = match (self.names, columns) {
            (Names::Columns, _) => true,
            (Names::ColumnFirst, Some(columns)) => columns.iter().any(|column| column == name),
            (Names::ColumnFirst, None) => {
                needs_columns.set(true);
                // It is read again once they are known.
                return Ok(alias.clone().unwrap_or_else(|| col(name)));
            }
            (Names::KeyFirst, _) => keys.iter().any(|key| key == name),
            (Names::AliasFirst, _) => false,
        };
        match alias {
            _ if column_wins => Ok(col(name)),
            Some(alias) => Ok(alias.clone()),
            None => Err(SqlError::new(format!("{name} names two columns of the select list"))),
        }
    }

    fn qualified(self, parts: &[ast::Ident]) -> Result<Expr, SqlError> {
        match parts {
            [table, column] if self.scope.name == table.value => Ok(col(&column.value)),
            [table, _] if self.scope.outer.contains(&table.value) => {
                Err(SqlError::unsupported(format!("a column of {:?}, the query around, here", table.value)))
            }
            // Whether there is such a column, and what it refers to, the server knows.
            [column, name] => Ok(attribute(&column.value, &name.value)),
            [table, column, name] if self.scope.name == table.value => {
                Ok(attribute(&column.value, &name.value))
            }
            [table, _, _] => Err(SqlError::new(format!("no table {:?} in this query", table.value))),
            _ => Err(SqlError::unsupported("a name of more than three parts")),
        }
    }

    fn aggregate(self, function: &ast::Function) -> Result<Expr, SqlError> {
        let name = function.name.to_string().to_ascii_lowercase();
        for (present, construct) in [
            (function.over.is_some(), "OVER"),
            (function.filter.is_some(), "FILTER"),
            (!function.within_group.is_empty(), "WITHIN GROUP"),
            (function.null_treatment.is_some(), "IGNORE NULLS"),
            (!matches!(function.parameters, FunctionArguments::None), "a function with parameters"),
        ] {
            if present {
                return Err(SqlError::unsupported(construct));
            }
        }
        let make: fn(Expr) -> Expr = match name.as_str() {
            "count" => count_of,
            "sum" => sum,
            "min" => min,
            "max" => max,
            "avg" => avg,
            _ => return Err(SqlError::unsupported(format!("the function {name}"))),
        };
        let one_argument = || SqlError::new(format!("{name} takes one argument"));
        let FunctionArguments::List(list) = &function.args else { return Err(one_argument()) };
        if !list.clauses.is_empty() {
            return Err(SqlError::unsupported(format!("a clause inside {name}(...)")));
        }
        let distinct = matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct));
        // The argument is of the table's rows, where the select list's names mean nothing.
        let of_rows = Self { names: Names::Columns, ..self };
        match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] if name == "count" && !distinct => Ok(count()),
            [] if name == "count" => Ok(count()),
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] => {
                let argument = of_rows.value(argument)?;
                match (distinct, name.as_str()) {
                    (true, "count") => Ok(count_distinct(argument)),
                    // The smallest and the largest value are the same with and without duplicates.
                    (false, _) | (true, "min" | "max") => Ok(make(argument)),
                    (true, _) => Err(SqlError::unsupported(format!("{name}(DISTINCT ...)"))),
                }
            }
            _ => Err(one_argument()),
        }
    }

    /// A condition on rows or groups.
    pub(super) fn filter(self, expr: &ast::Expr) -> Result<Filter, SqlError> {
        let inner = self.deeper(expr)?;
        let negate = |filter: Filter, negated: bool| if negated { !filter } else { filter };
        match expr {
            ast::Expr::Nested(nested) => inner.filter(nested),
            ast::Expr::UnaryOp { op: UnaryOperator::Not, expr: operand } => Ok(!inner.filter(operand)?),
            ast::Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => {
                let operands = chain(expr, op).into_iter().map(|e| inner.filter(e));
                let operands = operands.collect::<Result<Vec<_>, _>>()?;
                Ok(if *op == BinaryOperator::And { Filter::all(operands) } else { Filter::any(operands) })
            }
            ast::Expr::BinaryOp { left, op, right } => match comparison(op) {
                Some(compare) => Ok(compare(inner.value(left)?, inner.value(right)?)),
                None => Err(not_a_condition(expr)),
            },
            ast::Expr::IsNull(operand) => Ok(inner.value(operand)?.is_null()),
            ast::Expr::IsNotNull(operand) => Ok(inner.value(operand)?.is_not_null()),
            ast::Expr::Between { expr: operand, negated, low, high } => {
                let between = inner.value(operand)?.between(inner.value(low)?, inner.value(high)?);
                Ok(negate(between, *negated))
            }
            ast::Expr::InList { expr: operand, list, negated } => {
                let values = list.iter().map(|e| literal(e).map_err(|error| error.at(e.span())));
                let values = values.collect::<Result<Vec<_>, _>>()?;
                Ok(negate(inner.value(operand)?.is_in(values), *negated))
            }
            ast::Expr::InSubquery { expr: operand, subquery, negated } => {
                if self.names != Names::Columns {
                    return Err(SqlError::unsupported("IN (SELECT ...) outside WHERE").at(expr.span()));
                }
                let value = inner.value(operand)?;
                if value.column().is_none() {
                    let what = format!("{} IN (SELECT ...), which takes a column,", shown(operand));
                    return Err(SqlError::unsupported(what).at(operand.span()));
                }
                Ok(negate(value.in_keys(subquery::semi_join(subquery, inner)?), *negated))
            }
            ast::Expr::Exists { .. } => {
                Err(SqlError::unsupported("EXISTS (column IN (SELECT ...) does the same)").at(expr.span()))
            }
            ast::Expr::Like { negated, any: false, expr: operand, pattern, escape_char } => {
                if escape_char.as_ref().is_some_and(|e| e.value != Value::SingleQuotedString("\\".to_owned()))
                {
                    return Err(SqlError::unsupported("an ESCAPE other than '\\'").at(expr.span()));
                }
                let Some(pattern) = string(pattern) else {
                    return Err(
                        SqlError::unsupported("LIKE with a pattern that is not a text").at(expr.span())
                    );
                };
                Ok(negate(inner.value(operand)?.like(pattern), *negated))
            }
            ast::Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => {
                Ok(Filter::constant(matches!(value.value, Value::Boolean(true))))
            }
            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) => Ok(inner.value(expr)?.eq(true)),
            ast::Expr::Value(_) | ast::Expr::Function(_) => Err(not_a_condition(expr)),
            _ => Err(SqlError::unsupported(shown(expr)).at(expr.span())),
        }
    }
}

/// The operands of `a AND b AND c`, which the parser nests to the left.
fn chain<'a>(mut expr: &'a ast::Expr, operator: &BinaryOperator) -> Vec<&'a ast::Expr> {
    let mut operands = Vec::new();
    while let ast::Expr::BinaryOp { left, op, right } = expr
        && op == operator
    {
        operands.push(right.as_ref());
        expr = left;
    }
    operands.push(expr);
    operands.reverse();
    operands
}

fn comparison(op: &BinaryOperator) -> Option<fn(Expr, Expr) -> Filter> {
    Some(match op {
        BinaryOperator::Eq => Expr::eq,
        BinaryOperator::NotEq => Expr::ne,
        BinaryOperator::Lt => Expr::lt,
        BinaryOperator::LtEq => Expr::le,
        BinaryOperator::Gt => Expr::gt,
        BinaryOperator::GtEq => Expr::ge,
        _ => return None,
    })
}

/// A literal, signed numbers included.
pub(super) fn literal(expr: &ast::Expr) -> Result<Literal, SqlError> {
    match expr {
        ast::Expr::Nested(nested) => literal(nested),
        ast::Expr::UnaryOp { op: op @ (UnaryOperator::Minus | UnaryOperator::Plus), expr: operand } => {
            let sign = if *op == UnaryOperator::Minus { "-" } else { "" };
            let digits = number_text(operand).ok_or_else(|| not_a_literal(expr))?;
            number(&format!("{sign}{digits}"))
        }
        ast::Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => number(digits),
            Value::SingleQuotedString(text) => Ok(text.into()),
            Value::Boolean(value) => Ok((*value).into()),
            Value::Null => Ok(Literal::null()),
            other => Err(SqlError::unsupported(format!("the literal {other}"))),
        },
        ast::Expr::TypedString(typed) => {
            let text = typed.value.clone().into_string().unwrap_or_default();
            match typed.data_type {
                DataType::Date => text::parse_date(&text)
                    .map(Literal::date)
                    .ok_or_else(|| SqlError::new(format!("{text:?} is not a date like 2013-07-04"))),
                DataType::Timestamp(..) => text::parse_timestamp(&text)
                    .or_else(|| text::parse_date(&text).map(|days| i64::from(days) * 86_400_000_000))
                    .map(Literal::timestamp)
                    .ok_or_else(|| {
                        SqlError::new(format!("{text:?} is not a timestamp like 2013-07-04T10:00:00Z"))
                    }),
                ref other => Err(SqlError::unsupported(format!("a literal of the type {other}"))),
            }
        }
        _ => Err(not_a_literal(expr)),
    }
}

/// The text of an unsigned number.
fn number_text(expr: &ast::Expr) -> Option<&str> {
    match expr {
        ast::Expr::Nested(nested) => number_text(nested),
        ast::Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Some(digits),
            _ => None,
        },
        _ => None,
    }
}

fn string(expr: &ast::Expr) -> Option<&str> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Digits alone are an integer, with a point an exact decimal, with an exponent a float.
fn number(text: &str) -> Result<Literal, SqlError> {
    if let Ok(int) = text.parse::<i64>() {
        return Ok(int.into());
    }
    if let Ok(uint) = text.parse::<u64>() {
        return Ok(uint.into());
    }
    if let Some(decimal) = Decimal::parse(text) {
        return Ok(Literal::decimal(decimal.unscaled, u32::from(decimal.scale)));
    }
    match text.parse::<f64>() {
        Ok(double) if text.contains(['e', 'E']) && double.is_finite() => Ok(double.into()),
        _ => Err(SqlError::new(format!(
            "{text} has more than 18 digits; with an exponent it is a float: {text}e0"
        ))),
    }
}

/// An expression as text, shortened.
pub(super) fn shown(expr: &ast::Expr) -> String {
    let text = expr.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("`{}...`", &text[..end]),
        None => format!("`{text}`"),
    }
}

fn not_a_condition(expr: &ast::Expr) -> SqlError {
    SqlError::new(format!("{} is not a condition", shown(expr))).at(expr.span())
}

fn condition_as_value(expr: &ast::Expr) -> SqlError {
    SqlError::unsupported(format!("the condition {} as a value", shown(expr))).at(expr.span())
}

fn not_a_literal(expr: &ast::Expr) -> SqlError {
    SqlError::unsupported(format!("{} in a list of literals", shown(expr)))
}
