//! Expressions but for calls of functions in the planner's words: casts, operators, conditions, fields.

use std::borrow::Cow;

use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, UnaryOperator, Value};

use super::{
    Rewrite, calls,
    exprs::{
        self, in_subquery, interval_of, is_interval, is_subquery, literal, parsed, similar, text, type_of,
    },
    known::{self, Known},
    numerics, patterns, quantified, times,
};
use crate::{
    error::{Error, Result},
    limits,
};

/// A time as clocks elsewhere show it; there it has this type.
const LOCAL_TIME: &str =
    "to_local_time(arrow_cast(arrow_cast($1, 'Timestamp(Microsecond, Some(\"UTC\"))'), $2))";

impl Rewrite {
    /// An expression as the planner has it; those in it come next.
    ///
    /// # Errors
    /// One that there is not here.
    pub(super) fn expr(&mut self, expr: &mut Expr) -> Result<()> {
        if let Some(of_values) = quantified::of_listed(expr) {
            *expr = of_values;
        }
        if let Some(now) = times::now(expr)? {
            *expr = now;
            return Ok(());
        }
        if let Some(each) = patterns::of_several(expr, &mut self.doubled)? {
            *expr = each;
            return Ok(());
        }
        if let Some(between) = exprs::symmetric(expr, &mut self.doubled)? {
            *expr = between;
            return Ok(());
        }
        match expr {
            // The planner would take a table's struct, called as another table, for that table.
            Expr::CompoundIdentifier(parts)
                if parts.len() > 2 && parts[..2].iter().all(|part| self.tables.contains(&part.value)) =>
            {
                *expr = calls::field_of(parts)?;
            }
            // The planner has but names and literals in one.
            Expr::Tuple(values) if !values.iter().all(exprs::is_plain) => *expr = exprs::struct_of(values)?,
            Expr::Array(list) if !list.elem.iter().all(exprs::is_value) => {
                *expr = exprs::list_of(&list.elem)?;
            }
            // A word of its own, as `current_user`, which the parser knows.
            Expr::Identifier(ident)
                if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("current_schema") =>
            {
                *expr = parsed("current_schema()", &[], &mut 0)?;
            }
            Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: inner } => {
                let inner = (**inner).clone();
                *expr = Expr::Nested(Box::new(parsed("xor($1, -1)", &[inner], &mut 0)?));
                if let Expr::Nested(call) = expr {
                    return self.expr(call);
                }
            }
            Expr::Interval(_) => *expr = interval_of(expr, false)?,
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } if is_interval(inner) => {
                *expr = interval_of(inner, true)?;
            }
            Expr::Cast { data_type: ast::DataType::Interval { .. }, .. } => {
                if let Some(interval) = exprs::as_interval(expr)? {
                    *expr = interval;
                }
            }
            Expr::Cast { data_type: ast::DataType::UHugeInt, expr: inner, kind, .. } => {
                let is_try = matches!(kind, ast::CastKind::TryCast | ast::CastKind::SafeCast);
                let template = match is_try {
                    true => "basalt_try_unsigned(TRY_CAST($1 AS DECIMAL(38, 0)))",
                    false => "basalt_unsigned(CAST($1 AS DECIMAL(38, 0)))",
                };
                *expr = Expr::Nested(Box::new(parsed(template, &[(**inner).clone()], &mut 0)?));
            }
            Expr::Cast {
                data_type:
                    ast::DataType::Numeric(ast::ExactNumberInfo::None)
                    | ast::DataType::Decimal(ast::ExactNumberInfo::None),
                ..
            } => numerics::undigited(expr)?,
            Expr::Cast { data_type, expr: inner, kind, .. } => {
                if let ast::DataType::Array(of) = &*data_type {
                    if let Some(list) = quantified::array(inner) {
                        **inner = list;
                    }
                    quantified::cast_intervals(inner, of, kind);
                }
                type_of(data_type);
                if let Some(given) = literal(inner)
                    && let Some(plain) = exprs::without_separators(given, data_type)
                        .or_else(|| exprs::with_seconds(given, data_type))
                {
                    **inner = text(plain);
                }
            }
            Expr::TypedString(typed) => {
                type_of(&mut typed.data_type);
                if let Value::SingleQuotedString(text) = &typed.value.value
                    && let Some(whole) = exprs::with_seconds(text, &typed.data_type)
                {
                    typed.value.value = Value::SingleQuotedString(whole);
                }
            }
            // What the planner takes for IS NOT NULL, which is never NULL.
            Expr::BinaryOp {
                op: BinaryOperator::PGRegexMatch | BinaryOperator::PGRegexIMatch,
                right,
                ..
            } if literal(right) == Some(".*") => {
                **right = text("(?:.*)".to_owned());
            }
            // Functions of types, which are their names here and numbers in PostgreSQL: 0 is none.
            Expr::BinaryOp { left, op: BinaryOperator::Eq | BinaryOperator::NotEq, right }
                if exprs::is_procedure(left) && exprs::is_zero(right) =>
            {
                **right = text("-".to_owned());
            }
            // And where they are looked for among the functions, of which there are none.
            Expr::BinaryOp { left, op: BinaryOperator::Eq | BinaryOperator::NotEq, right }
                if exprs::is_procedure(left) != exprs::is_procedure(right) =>
            {
                exprs::number_as_text(left)?;
                exprs::number_as_text(right)?;
            }
            Expr::BinaryOp { op: BinaryOperator::BitwiseXor, .. } => {
                return Err(Error::unsupported("'^' (power(a, b) and xor(a, b) are)"));
            }
            Expr::BinaryOp {
                left,
                op: BinaryOperator::DuckIntegerDivide | BinaryOperator::MyIntegerDivide,
                right,
            } => {
                let sides = [(**left).clone(), (**right).clone()];
                *expr = Expr::Nested(Box::new(parsed("basalt_divide_whole($1, $2)", &sides, &mut 0)?));
            }
            Expr::BinaryOp { left, op: BinaryOperator::PGOverlap, right } => {
                let sides = [(**left).clone(), (**right).clone()];
                *expr = parsed("array_has_any($1, $2)", &sides, &mut 0)?;
            }
            Expr::BinaryOp { left, op: BinaryOperator::PGStartsWith, right } => {
                let sides = [(**left).clone(), (**right).clone()];
                *expr = parsed("starts_with($1, $2)", &sides, &mut 0)?;
            }
            // The time that clocks there show, which is a time of its own: DataFusion's is the same instant by another name.
            Expr::AtTimeZone { timestamp, time_zone } => {
                *expr = in_zone("AT TIME ZONE", LOCAL_TIME, time_zone, &[&**timestamp])?;
            }
            // What a regular expression finds, or its first group where it has one.
            Expr::Substring { expr: given, substring_from: Some(pattern), substring_for, .. }
                if literal(pattern).is_some() =>
            {
                if substring_for.is_some() {
                    return Err(Error::unsupported("SUBSTRING of a pattern with an ESCAPE"));
                }
                let sides = [(**given).clone(), (**pattern).clone()];
                *expr = Expr::Nested(Box::new(parsed("regexp_match($1, $2)[1]", &sides, &mut 0)?));
            }
            // What stands for GLOB, and RLIKE itself.
            Expr::RLike { negated, expr: given, pattern, regexp } => {
                let sides = [(**given).clone(), (**pattern).clone()];
                let template = if *regexp { "basalt_glob($1, $2)" } else { "regexp_like($1, $2)" };
                let call = parsed(template, &sides, &mut 0)?;
                *expr = maybe_not(*negated, call);
            }
            Expr::SimilarTo { negated, expr: given, pattern, escape_char: None } => {
                let Some(pattern) = literal(pattern) else {
                    return Err(Error::unsupported("SIMILAR TO a pattern that is no literal"));
                };
                let pattern = text(similar(pattern));
                let call = parsed("regexp_like($1, $2)", &[(**given).clone(), pattern], &mut 0)?;
                *expr = maybe_not(*negated, call);
            }
            Expr::InList { expr: left, list, negated }
                if list.len() > 1 && list.iter().any(is_subquery) && quantified::row(left).is_none() =>
            {
                let queries = list.iter().filter(|value| is_subquery(value)).count();
                self.doubled += queries * left.to_string().len();
                if self.doubled > limits::STATEMENT_BYTES {
                    return Err(Error::invalid("too many queries in the list of IN"));
                }
                *expr = quantified::in_values(left, list, *negated);
            }
            Expr::InSubquery { expr: left, subquery, negated } if quantified::row(left).is_some() => {
                *expr = quantified::within(left, subquery, *negated)?;
            }
            Expr::AnyOp { left, compare_op, right, .. } if is_subquery(right) => {
                *expr = match compare_op {
                    BinaryOperator::Eq if quantified::row(left).is_none() => {
                        in_subquery(left, compare_op, right, &BinaryOperator::Eq)?
                    }
                    op => quantified::compared(left, op, right, false)?,
                };
            }
            Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. }
                if quantified::is_open(right) =>
            {
                *expr = quantified::of_parameter(left, right)?;
            }
            Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. }
                if quantified::is_open_decimals(right) =>
            {
                *expr = quantified::of_decimals(left, right)?;
            }
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } if quantified::is_one_value(right) => {
                return Err(Error::unsupported(
                    "a list as one parameter or text, which IN ($1, $2, ...) takes value by value,",
                ));
            }
            Expr::AnyOp { left, compare_op, right, .. } => {
                if let Some(of_list) = quantified::any_of_list(left, compare_op, right) {
                    *expr = of_list;
                }
            }
            Expr::AllOp { left, compare_op, right } if is_subquery(right) => {
                *expr = match compare_op {
                    BinaryOperator::NotEq if quantified::row(left).is_none() => {
                        in_subquery(left, compare_op, right, &BinaryOperator::NotEq)?
                    }
                    op => quantified::compared(left, op, right, true)?,
                };
            }
            Expr::Like { escape_char: Some(escape), pattern, .. }
            | Expr::ILike { escape_char: Some(escape), pattern, .. }
                if exprs::is_no_escape(escape, pattern)? =>
            {
                if matches!(escape.value, Value::Null) {
                    *expr = Expr::Nested(Box::new(parsed("CAST(NULL AS BOOLEAN)", &[], &mut 0)?));
                } else if let Expr::Like { escape_char, .. } | Expr::ILike { escape_char, .. } = expr {
                    *escape_char = None;
                }
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                if let Some(call) = calls::chain_of_calls(root, access_chain) {
                    *expr = call;
                    return self.expr(expr);
                }
                calls::fields(root, access_chain);
                for access in access_chain {
                    if let ast::AccessExpr::Subscript(ast::Subscript::Slice {
                        lower_bound,
                        upper_bound,
                        ..
                    }) = access
                    {
                        // From the first, to the last.
                        lower_bound.get_or_insert_with(|| Expr::value(Value::Number("1".to_owned(), false)));
                        upper_bound.get_or_insert_with(|| Expr::value(Value::Number("-1".to_owned(), false)));
                    }
                }
            }
            Expr::Extract { field, expr: inner, .. } => {
                if let Some(part) = times::part(&field.to_string(), inner, &mut self.doubled)? {
                    *expr = part;
                }
            }
            // The planner would spell names without quotes anew here, and nowhere else.
            Expr::Lambda(lambda) => {
                let parameters = match &mut lambda.params {
                    ast::OneOrManyWithParens::One(parameter) => std::slice::from_mut(parameter),
                    ast::OneOrManyWithParens::Many(parameters) => parameters.as_mut_slice(),
                };
                parameters.iter_mut().for_each(|parameter| parameter.name.quote_style = Some('"'));
            }
            Expr::SimilarTo { .. } => return Err(Error::unsupported("SIMILAR TO with ESCAPE")),
            Expr::Function(_) => self.function(expr)?,
            _ => {}
        }
        Ok(())
    }
}

fn maybe_not(is_not: bool, expr: Expr) -> Expr {
    match is_not {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) },
        false => expr,
    }
}

/// A template of expressions, and behind them of the type of timestamps of a zone. That of NULL is NULL, in the type that it has.
pub(super) fn in_zone(name: &str, template: &str, zone: &Expr, given: &[&Expr]) -> Result<Expr> {
    let (zone, template) = match known::text_of(zone) {
        Some(Known::Text(zone)) => (zone, Cow::Borrowed(template)),
        Some(Known::Null) => ("UTC".to_owned(), Cow::Owned(format!("CASE WHEN FALSE THEN {template} END"))),
        None => {
            let message = format!("{name} takes the name of a zone as a literal, not from a column");
            return Err(Error::invalid(message));
        }
    };
    if !zone.chars().all(exprs::is_of_zone) {
        return Err(Error::invalid(format!("{zone:?} is no name of a time zone")));
    }
    let zone = Value::SingleQuotedString(format!("Timestamp(Microsecond, Some(\"{zone}\"))"));
    let given: Vec<Expr> = given.iter().map(|expr| (*expr).clone()).chain([Expr::value(zone)]).collect();
    parsed(&template, &given, &mut 0)
}
