//! Expressions of other dialects: how they are told apart, and what they are in the planner's words.

use std::ops::ControlFlow;

use basalt_core::schema::{DataType as Logical, Field};
use datafusion::sql::sqlparser::{
    ast::{
        self, BinaryOperator, Expr, FunctionArg, FunctionArguments, ObjectName, ObjectNamePart,
        UnaryOperator, Value, visit_expressions_mut,
    },
    dialect::PostgreSqlDialect,
    parser::Parser,
};

use super::{
    known::{self, Known},
    quantified,
};
use crate::{
    error::{Error, Result},
    interval, limits,
    syntax::BOTH_BOUNDS,
};

/// A text as it stands in a statement.
pub(super) fn text(text: String) -> Expr {
    Expr::value(Value::SingleQuotedString(text))
}

/// `None`: no list.
pub(super) fn arguments(function: &ast::Function) -> Option<&[FunctionArg]> {
    match &function.args {
        FunctionArguments::List(list) => Some(&list.args),
        _ => None,
    }
}

pub(super) fn bare(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Some(name.value.to_lowercase()),
        _ => None,
    }
}

/// An expression with others in the places of its parameters.
pub(super) fn parsed(template: &str, given: &[Expr], doubled: &mut usize) -> Result<Expr> {
    Ok(filled(read(template)?, given, doubled))
}

/// The same, whose aggregates are of the rows alone for which the last of the given ones is true; `None`: it has none.
pub(super) fn parsed_of_some(template: &str, given: &[Expr], doubled: &mut usize) -> Result<Option<Expr>> {
    let mut expr = read(template)?;
    let condition = read(&format!("${}", given.len()))?;
    let mut has_any = false;
    let _ = visit_expressions_mut(&mut expr, |expr| {
        if let Expr::Function(function) = expr
            && bare(&function.name).is_some_and(|name| AGGREGATES.contains(&name.as_str()))
        {
            has_any = true;
            let condition = Box::new(condition.clone());
            function.filter = Some(match function.filter.take() {
                Some(left) => {
                    Box::new(Expr::BinaryOp { left, op: ast::BinaryOperator::And, right: condition })
                }
                None => condition,
            });
        }
        ControlFlow::<()>::Continue(())
    });
    Ok(has_any.then(|| filled(expr, given, doubled)))
}

/// Fails where the bytes of what stands more than once where it was written once, within each other, are too many.
pub(super) fn check_doubled(doubled: usize, what: impl std::fmt::Display) -> Result<()> {
    match doubled > limits::STATEMENT_BYTES {
        true => Err(Error::invalid(format!("too many {what} in one another"))),
        false => Ok(()),
    }
}

/// Whether an expression is a name or a literal.
pub(super) fn is_plain(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::Value(_))
}

/// The struct that a row of values is, as it is compared.
pub(super) fn struct_of(values: &[Expr]) -> Result<Expr> {
    let places: Vec<String> = (1..=values.len()).map(|at| format!("${at}")).collect();
    parsed(&format!("struct({})", places.join(", ")), values, &mut 0)
}

/// Whether an expression is a literal or a parameter.
pub(super) fn is_value(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(_))
}

/// The list that a literal one is, as a call: the planner plans literal ones as if no tables and queries were around them.
pub(super) fn list_of(values: &[Expr]) -> Result<Expr> {
    let places: Vec<String> = (1..=values.len()).map(|at| format!("${at}")).collect();
    parsed(&format!("make_array({})", places.join(", ")), values, &mut 0)
}

/// The aggregates of templates.
const AGGREGATES: [&str; 5] = ["avg", "count", "first_value", "max", "sum"];

fn read(template: &str) -> Result<Expr> {
    let failed = || Error::Internal(format!("the template {template} is none"));
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(template).map_err(|_| failed())?;
    parser.parse_expr().map_err(|_| failed())
}

fn filled(mut expr: Expr, given: &[Expr], doubled: &mut usize) -> Expr {
    let mut used = vec![0_usize; given.len()];
    let _ = visit_expressions_mut(&mut expr, |expr| {
        if let Expr::Value(value) = expr
            && let Value::Placeholder(number) = &value.value
            && let Some(at) = number.strip_prefix('$').and_then(|number| number.parse::<usize>().ok())
            && let Some(argument) = at.checked_sub(1).and_then(|at| given.get(at))
        {
            used[at - 1] += 1;
            if used[at - 1] > 1 {
                *doubled += argument.to_string().len();
            }
            *expr = Expr::Nested(Box::new(argument.clone()));
        }
        ControlFlow::<()>::Continue(())
    });
    expr
}

pub(crate) fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        Expr::Nested(inner) => literal(inner),
        _ => None,
    }
}

pub(super) fn is_interval(expr: &Expr) -> bool {
    match expr {
        Expr::Interval(_) => true,
        Expr::Nested(inner) => is_interval(inner),
        _ => false,
    }
}

/// What is cast to an interval, as one; `None`: it stays, as NULL and a parameter without a value do.
pub(super) fn as_interval(cast: &Expr) -> Result<Option<Expr>> {
    let Expr::Cast { expr, kind, .. } = cast else { return Ok(None) };
    let inner = known::bare(expr);
    // What is one already, as a driver's parameter that the door knows for one.
    if matches!(inner, Expr::Cast { data_type: ast::DataType::Interval { .. }, .. }) {
        // Default: it stays.
        return Ok(Some(as_interval(inner)?.unwrap_or_else(|| inner.clone())));
    }
    let is_null = matches!(inner, Expr::Value(ast::ValueWithSpan { value: Value::Null, .. }));
    if is_null || quantified::is_open(inner) {
        return Ok(None);
    }
    let is_try = matches!(kind, ast::CastKind::TryCast | ast::CastKind::SafeCast);
    let null = || parsed("CAST(NULL AS INTERVAL)", &[], &mut 0).map(Some);
    let other = || Error::unsupported("CAST of this to an interval");
    match known::text_of(inner).ok_or_else(other)? {
        Known::Null => null(),
        Known::Text(text) => match interval::parse(&text, None) {
            Some(interval) => Ok(Some(interval_expr(interval))),
            None if is_try => null(),
            None => Err(other()),
        },
    }
}

/// An interval in the form that is read in one way only.
fn interval_expr(interval: arrow_array::types::IntervalMonthDayNano) -> Expr {
    let text =
        format!("{} months {} days {} nanoseconds", interval.months, interval.days, interval.nanoseconds);
    Expr::Interval(ast::Interval {
        value: Box::new(Expr::value(Value::SingleQuotedString(text))),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    })
}

pub(super) fn interval_of(expr: &Expr, negative: bool) -> Result<Expr> {
    let interval = match expr {
        Expr::Nested(inner) => return interval_of(inner, negative),
        Expr::Interval(interval) => interval,
        _ => return Err(Error::Internal("no interval".to_owned())),
    };
    if interval.last_field.is_some() || interval.leading_precision.is_some() {
        return Err(Error::unsupported("this form of INTERVAL"));
    }
    let field = interval.leading_field.as_ref().map(|field| field.to_string().to_lowercase());
    let of_text = |text: &str| {
        let parsed = interval::parse(text, field.as_deref());
        let signed =
            parsed.and_then(|parsed| if negative { interval::negated(parsed) } else { Some(parsed) });
        signed.map(interval_expr).ok_or_else(|| Error::invalid(format!("{text:?} is no interval")))
    };
    if let Some(text) = literal(&interval.value) {
        return of_text(text);
    }
    let Some(field) = &field else {
        return Err(Error::invalid("INTERVAL of a number takes a unit: INTERVAL 3 DAY"));
    };
    match plain_number(&interval.value) {
        Some(number) => of_text(&number),
        None => {
            let unit = Expr::value(Value::SingleQuotedString(field.clone()));
            let template = if negative { "basalt_interval(-($1), $2)" } else { "basalt_interval($1, $2)" };
            parsed(template, &[(*interval.value).clone(), unit], &mut 0)
        }
    }
}

pub(super) fn is_subquery(expr: &Expr) -> bool {
    match expr {
        Expr::Subquery(_) => true,
        Expr::Nested(inner) => is_subquery(inner),
        _ => false,
    }
}

/// `= ANY` is IN, `<> ALL` is NOT IN. Of the others the planner passes over NULLs and what is not there.
pub(super) fn in_subquery(
    left: &Expr,
    op: &BinaryOperator,
    right: &Expr,
    known: &BinaryOperator,
) -> Result<Expr> {
    match right {
        Expr::Nested(inner) => in_subquery(left, op, inner, known),
        Expr::Subquery(query) if op == known => Ok(Expr::InSubquery {
            expr: Box::new(left.clone()),
            subquery: query.clone(),
            negated: *op == BinaryOperator::NotEq,
        }),
        _ => Err(Error::unsupported("ANY or ALL of a subquery, but for = ANY and <> ALL,")),
    }
}

/// Whether ESCAPE names no character: where it is NULL the condition is, and where it is empty nothing is escaped.
pub(super) fn is_no_escape(escape: &ast::ValueWithSpan, pattern: &Expr) -> Result<bool> {
    match &escape.value {
        Value::Null => Ok(true),
        Value::SingleQuotedString(text) if text.is_empty() => match literal(pattern) {
            Some(pattern) if !pattern.contains('\\') => Ok(true),
            _ => Err(Error::unsupported("ESCAPE '' behind a pattern that is no literal, or has a backslash")),
        },
        _ => Ok(false),
    }
}

/// The text of a timestamp that ends with its minutes, whole: Arrow wants seconds.
pub(super) fn with_seconds(text: &str, data_type: &ast::DataType) -> Option<String> {
    let is_time = matches!(data_type, ast::DataType::Timestamp(..) | ast::DataType::Datetime(_));
    if is_time { to_seconds(text) } else { None }
}

fn to_seconds(text: &str) -> Option<String> {
    let has_minutes = |text: &str| {
        let form = b"0000-00-00 00:00".iter().zip(text.bytes());
        text.len() == 16
            && form.enumerate().all(|(i, (form, byte))| match form {
                b'0' => byte.is_ascii_digit(),
                _ => byte == *form || (i == 10 && byte.eq_ignore_ascii_case(&b'T')),
            })
    };
    has_minutes(text.trim()).then(|| format!("{}:00", text.trim()))
}

/// The digits of a number in a text that `_` parts; `None`: there is no `_` between two digits, or the type is no number.
pub(super) fn without_separators(text: &str, data_type: &ast::DataType) -> Option<String> {
    use ast::DataType;
    let is_number = matches!(
        data_type,
        DataType::TinyInt(_)
            | DataType::SmallInt(_)
            | DataType::Int(_)
            | DataType::Integer(_)
            | DataType::BigInt(_)
            | DataType::Float(_)
            | DataType::Real
            | DataType::Double(_)
            | DataType::DoublePrecision
    );
    if is_number { in_one(text) } else { None }
}

fn in_one(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let parts = |at: usize| {
        let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
        digit(at.checked_sub(1)) && digit(Some(at + 1))
    };
    let mut found = text.match_indices('_').peekable();
    found.peek()?;
    found.all(|(at, _)| parts(at)).then(|| text.replace('_', ""))
}

/// The text of a literal that is stored in a column, where CAST to its type reads another than the planner's.
pub(crate) fn stored_text(text: &str, field: &Field) -> Option<String> {
    match field.data_type {
        _ if field.logical.is_some() => None,
        Logical::Timestamp => to_seconds(text),
        Logical::Decimal { .. } => None,
        number if number.is_numeric() => in_one(text),
        _ => None,
    }
}

/// `a BETWEEN SYMMETRIC low AND high`, as the parser has it: between them in either order. `None`: it is something else.
pub(super) fn symmetric(expr: &Expr, doubled: &mut usize) -> Result<Option<Expr>> {
    let Expr::Between { expr: value, negated, low, high } = expr else { return Ok(None) };
    let (Expr::Tuple(bounds), Expr::Identifier(name)) = (&**low, &**high) else { return Ok(None) };
    let [low, high] = bounds.as_slice() else { return Ok(None) };
    if name.value != BOTH_BOUNDS {
        return Ok(None);
    }
    let given = [(**value).clone(), low.clone(), high.clone()];
    let template = match negated {
        true => "NOT ($1 BETWEEN $2 AND $3 OR $1 BETWEEN $3 AND $2)",
        false => "$1 BETWEEN $2 AND $3 OR $1 BETWEEN $3 AND $2",
    };
    let between = parsed(template, &given, doubled)?;
    check_doubled(*doubled, "BETWEEN SYMMETRIC")?;
    Ok(Some(Expr::Nested(Box::new(between))))
}

/// Parts of a timestamp that are cut off as one that the planner knows.
pub(super) fn truncated_part(part: &str) -> Option<&'static str> {
    Some(match part.to_lowercase().as_str() {
        "dow" | "dayofweek" | "weekday" | "isodow" | "doy" | "dayofyear" | "dayofmonth" | "julian"
        | "days" | "d" => "day",
        "yr" | "y" | "years" => "year",
        "mon" | "months" => "month",
        "quarters" => "quarter",
        "weeks" | "weekofyear" | "w" | "isoyearweek" => "week",
        "hr" | "h" | "hours" => "hour",
        "min" | "m" | "minutes" => "minute",
        "sec" | "s" | "seconds" | "epoch" => "second",
        "ms" | "msec" | "milliseconds" => "millisecond",
        "us" | "usec" | "microseconds" => "microsecond",
        _ => return None,
    })
}

/// `ARRAY(query)`: the values of a query as a list, in its order.
pub(super) fn array_of(query: &ast::Query) -> Result<Expr> {
    let mut query = query.clone();
    let mut order = String::new();
    if let Some(keys) = query.order_by.take() {
        let ast::OrderByKind::Expressions(keys) = keys.kind else {
            return Err(Error::unsupported("ARRAY of a query in this order"));
        };
        let is_plain = query.limit_clause.is_none() && query.fetch.is_none();
        let ast::SetExpr::Select(select) = &mut *query.body else {
            return Err(Error::unsupported("ARRAY of a query in this order"));
        };
        let [ast::SelectItem::UnnamedExpr(value) | ast::SelectItem::ExprWithAlias { expr: value, .. }] =
            select.projection.as_mut_slice()
        else {
            return Err(Error::unsupported("ARRAY of a query in an order, which has several columns,"));
        };
        if !is_plain || select.distinct.is_some() || select.top.is_some() {
            return Err(Error::unsupported("ARRAY of a query with DISTINCT or LIMIT in an order"));
        }
        let mut columns = Vec::with_capacity(keys.len());
        for (at, key) in keys.into_iter().enumerate() {
            let expr = match &key.expr {
                Expr::Value(ast::ValueWithSpan { value: Value::Number(..), .. }) => value.clone(),
                expr => expr.clone(),
            };
            let alias = ast::Ident::new(format!("basalt_o{at}"));
            let by = Expr::Identifier(ast::Ident::new(format!("basalt_o{at}")));
            order += &format!(
                "{} {}",
                if at == 0 { " ORDER BY" } else { "," },
                ast::OrderByExpr { expr: by, ..key }
            );
            columns.push(ast::SelectItem::ExprWithAlias { expr, alias });
        }
        let value =
            ast::SelectItem::ExprWithAlias { expr: value.clone(), alias: ast::Ident::new("basalt_c") };
        select.projection = std::iter::once(value).chain(columns).collect();
        let text =
            format!("coalesce((SELECT array_agg(basalt_c{order}) FROM ({query}) AS basalt_q), make_array())");
        return parse(&text);
    }
    parse(&format!(
        "coalesce((SELECT array_agg(basalt_c) FROM ({query}) AS basalt_q (basalt_c)), make_array())"
    ))
}

fn parse(text: &str) -> Result<Expr> {
    let expr = crate::parse::ast_parser(text).and_then(|mut parser| parser.parse_expr().ok());
    expr.ok_or_else(|| Error::unsupported("this query as a value"))
}

pub(super) fn plain_number(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => Some(number.clone()),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            plain_number(expr).map(|number| format!("-{number}"))
        }
        Expr::Nested(inner) => plain_number(inner),
        _ => None,
    }
}

/// The format of a timestamp, which is the second argument, in the planner's words, where a fraction has nine digits
/// unless it is said how many.
pub(super) fn formats(mut given: Vec<Expr>, with_point: &str, digits: &str) -> Result<Vec<Expr>> {
    if let [format, _] = given.as_slice()
        && literal(format).is_some_and(|text| text.contains('%'))
    {
        given.swap(0, 1);
    }
    let [_, format] = given.as_mut_slice() else { return Ok(given) };
    let Some(text) = literal(format) else { return Err(Error::unsupported("a format that is no literal")) };
    if let Some(other) = ["%c", "%x", "%X", "%Z", "%g", "%n", "%i"].iter().find(|other| text.contains(*other))
    {
        return Err(Error::unsupported(format!("{other} in a format")));
    }
    let text = text.replace(".%f", with_point).replace("%f", digits);
    *format = Expr::value(Value::SingleQuotedString(text));
    Ok(given)
}

/// Types by the names that others have for them. A timestamp has microseconds.
pub(super) fn type_of(data_type: &mut ast::DataType) {
    use ast::{ArrayElemTypeDef, DataType, ExactNumberInfo, TimezoneInfo};
    match data_type {
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(inner, _)
            | ArrayElemTypeDef::AngleBracket(inner)
            | ArrayElemTypeDef::Parenthesis(inner),
        ) => type_of(inner),
        DataType::Struct(fields, _) => fields.iter_mut().for_each(|field| type_of(&mut field.field_type)),
        _ => {}
    }
    let named = match data_type {
        DataType::Timestamp(None, zone) => Some(DataType::Timestamp(Some(6), *zone)),
        DataType::Datetime(None) => Some(DataType::Timestamp(Some(6), TimezoneInfo::None)),
        DataType::UTinyInt => Some(DataType::TinyIntUnsigned(None)),
        DataType::USmallInt => Some(DataType::SmallIntUnsigned(None)),
        DataType::UBigInt => Some(DataType::BigIntUnsigned(None)),
        DataType::HugeInt => Some(DataType::Decimal(ExactNumberInfo::PrecisionAndScale(38, 0))),
        DataType::Blob(None) => Some(DataType::Bytea),
        DataType::Character(length) => Some(DataType::Char(*length)),
        DataType::CharacterVarying(length) | DataType::CharVarying(length) => {
            Some(DataType::Varchar(*length))
        }
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            match bare(name).unwrap_or_default().as_str() {
                "uinteger" => Some(DataType::IntegerUnsigned(None)),
                "int1" => Some(DataType::TinyInt(None)),
                "short" => Some(DataType::SmallInt(None)),
                "long" => Some(DataType::BigInt(None)),
                "timestamp_s" => Some(DataType::Timestamp(Some(0), TimezoneInfo::None)),
                "timestamp_ms" => Some(DataType::Timestamp(Some(3), TimezoneInfo::None)),
                "timestamp_us" => Some(DataType::Timestamp(Some(6), TimezoneInfo::None)),
                "timestamp_ns" => Some(DataType::Timestamp(Some(9), TimezoneInfo::None)),
                _ => None,
            }
        }
        _ => None,
    };
    if let Some(named) = named {
        *data_type = named;
    }
}

/// The regular expression of a pattern of SIMILAR TO, which matches the whole text.
pub(super) fn similar(pattern: &str) -> String {
    let mut regex = String::from("(?s)^(?:");
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '.' | '^' | '$' => {
                regex.push('\\');
                regex.push(c);
            }
            '\\' => {
                regex.push('\\');
                regex.extend(chars.next());
            }
            c => regex.push(c),
        }
    }
    regex + ")$"
}

/// Whether it is a column of pg_type that names a function.
pub(super) fn is_procedure(expr: &Expr) -> bool {
    is_called(expr, &["typinput", "typoutput", "typreceive", "typsend"])
}

/// Makes a text of a column that is the number of what a row is of; others stay.
pub(super) fn number_as_text(expr: &mut Expr) -> Result<()> {
    if is_called(expr, &["oid"]) {
        *expr = parsed("CAST($1 AS TEXT)", std::slice::from_ref(expr), &mut 0)?;
    }
    Ok(())
}

/// Whether it is a column of one of these names.
fn is_called(expr: &Expr, names: &[&str]) -> bool {
    let name = match expr {
        Expr::Nested(inner) => return is_called(inner, names),
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    };
    name.is_some_and(|name| names.contains(&name.value.to_ascii_lowercase().as_str()))
}

pub(super) fn is_zero(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(&value.value, Value::Number(number, _) if number == "0"))
}

/// Whether it is a character of a time zone's name or offset.
pub(super) fn is_of_zone(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '+' | '-' | ':')
}
