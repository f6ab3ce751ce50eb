//! What people write who come from DuckDB or PostgreSQL, in the words that the planner has; and what the planner would
//! pass over without a word, refused.

pub(crate) mod aliases;
mod arrows;
mod asof;
mod assignments;
pub(crate) mod called;
mod calls;
mod casts;
mod comprehensions;
mod distinct;
mod elements;
mod exprs;
mod fetch;
mod grouping;
mod integers;
mod lateral;
mod numerics;
mod ordinality;
pub(crate) mod outer;
mod patterns;
mod quantified;
pub(crate) mod rows;
mod selects;
mod shared;
pub(crate) mod signs;
mod specifiers;
mod templates;
mod times;
pub(crate) mod unknown;
pub(crate) mod using;
mod weight;
mod windows;
mod within;
mod words;

use std::{collections::BTreeSet, ops::ControlFlow};

use datafusion::sql::{
    parser::Statement,
    sqlparser::ast::{
        self, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, NullTreatment,
        ObjectName, Select, TableFactor, UnaryOperator, Value, VisitMut as _, VisitorMut,
    },
};

use crate::{
    error::{Error, Result},
    limits,
    names::{self, Meant},
};
pub(crate) use casts::name_casts;
pub(crate) use distinct::{distinct_on, ordered_by_place};
pub(crate) use exprs::{literal, stored_text};
pub(crate) use numerics::as_casts;
pub(crate) use selects::{expand_using, name_apart, name_ordered};
pub(crate) use shared::{INLINED, MARK, RECURSIVE, all_of, has_shared, inline, mark, take_materialized};
pub(crate) use within::qualify_natural;
pub(crate) use words::{keyword, quote_columns, tokens};

use exprs::{
    arguments, bare, formats, in_subquery, interval_of, is_interval, is_subquery, parsed, similar, type_of,
};
use selects::{joins, name_by_text, of_select, order_by_all, recursions, series, set_operations};

/// A time as clocks elsewhere show it; there it has this type.
const LOCAL_TIME: &str =
    "to_local_time(arrow_cast(arrow_cast($1, 'Timestamp(Microsecond, Some(\"UTC\"))'), $2))";

/// The statement that is planned: of EXPLAIN the one that is explained; `None`: it is none of the parser's.
pub(crate) fn inner(statement: &mut Statement) -> Option<&mut ast::Statement> {
    match statement {
        Statement::Explain(explain) => inner(&mut explain.statement),
        Statement::Statement(statement) => Some(statement),
        _ => None,
    }
}

/// Puts a statement into the planner's words.
pub(crate) fn rewrite(statement: &mut ast::Statement) -> Result<()> {
    let tables = calls::table_names(statement);
    let mut rewrite = Rewrite { tables, fault: None, doubled: 0, is_stored: false };
    weight::check(statement)?;
    integers::rewrite(statement);
    lateral::as_unnest(statement);
    called::name_within(statement);
    within::qualify(statement)?;
    arrows::as_calls(statement)?;
    let _ = statement.visit(&mut rewrite);
    rewrite.fault.map_or(Ok(()), Err)
}

struct Rewrite {
    /// What tables are called anywhere in the statement.
    tables: BTreeSet<String>,
    fault: Option<Error>,
    /// Bytes of arguments that stand more than once where they were written once.
    doubled: usize,
    /// The next query gives what is stored, whose types are those of columns.
    is_stored: bool,
}

impl Rewrite {
    fn done(&mut self, done: Result<()>) -> ControlFlow<()> {
        match done {
            Ok(()) => ControlFlow::Continue(()),
            Err(fault) => {
                self.fault = Some(fault);
                ControlFlow::Break(())
            }
        }
    }

    fn expr(&mut self, expr: &mut Expr) -> Result<()> {
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
            Expr::Cast { data_type, expr: inner, .. } => {
                if let (ast::DataType::Array(_), Some(list)) = (&*data_type, quantified::array(inner)) {
                    **inner = list;
                }
                type_of(data_type);
                if let Some(text) = literal(inner)
                    && let Some(plain) = exprs::without_separators(text, data_type)
                        .or_else(|| exprs::with_seconds(text, data_type))
                {
                    **inner = Expr::value(Value::SingleQuotedString(plain));
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
                **right = Expr::value(Value::SingleQuotedString("(?:.*)".to_owned()));
            }
            // Functions of types, which are their names here and numbers in PostgreSQL: 0 is none.
            Expr::BinaryOp { left, op: BinaryOperator::Eq | BinaryOperator::NotEq, right }
                if exprs::is_procedure(left) && exprs::is_zero(right) =>
            {
                **right = Expr::value(Value::SingleQuotedString("-".to_owned()));
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
                let Some(zone) = literal(time_zone) else {
                    let message = "AT TIME ZONE takes the name of a zone as a literal, not from a column";
                    return Err(Error::invalid(message));
                };
                if !zone.chars().all(exprs::is_of_zone) {
                    return Err(Error::invalid(format!("{zone:?} is no name of a time zone")));
                }
                let zone = Value::SingleQuotedString(format!("Timestamp(Microsecond, Some(\"{zone}\"))"));
                let sides = [(**timestamp).clone(), Expr::value(zone)];
                *expr = parsed(LOCAL_TIME, &sides, &mut 0)?;
            }
            // What stands for GLOB, and RLIKE itself.
            Expr::RLike { negated, expr: text, pattern, regexp } => {
                let sides = [(**text).clone(), (**pattern).clone()];
                let template = if *regexp { "basalt_glob($1, $2)" } else { "regexp_like($1, $2)" };
                let call = parsed(template, &sides, &mut 0)?;
                *expr = match *negated {
                    true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(call) },
                    false => call,
                };
            }
            Expr::SimilarTo { negated, expr: text, pattern, escape_char: None } => {
                let Some(pattern) = literal(pattern) else {
                    return Err(Error::unsupported("SIMILAR TO a pattern that is no literal"));
                };
                let pattern = Expr::value(Value::SingleQuotedString(similar(pattern)));
                let call = parsed("regexp_like($1, $2)", &[(**text).clone(), pattern], &mut 0)?;
                *expr = match *negated {
                    true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(call) },
                    false => call,
                };
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

    fn function(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Function(function) = expr else { return Ok(()) };
        calls::chained(function);
        let Some(name) = bare(&function.name) else { return Ok(()) };
        if matches!(name.as_str(), "to_char" | "to_date" | "to_timestamp")
            && let FunctionArguments::List(list) = &mut function.args
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern))) = list.args.get_mut(1)
            && let Some(text) = literal(pattern)
            && let Some(format) = templates::strftime(text)?
        {
            *pattern = Expr::value(Value::SingleQuotedString(format));
        }
        // PostgreSQL's is padded.
        if name == "encode"
            && let FunctionArguments::List(list) = &mut function.args
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(encoding))) = list.args.get_mut(1)
            && literal(encoding).is_some_and(|text| text.eq_ignore_ascii_case("base64"))
        {
            *encoding = Expr::value(Value::SingleQuotedString("base64pad".to_owned()));
        }
        if name.starts_with("regexp_")
            && let FunctionArguments::List(list) = &mut function.args
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(pattern))) = list.args.get_mut(1)
            && literal(pattern) == Some(".*")
        {
            *pattern = Expr::value(Value::SingleQuotedString("(?:.*)".to_owned()));
        }
        if ["string_agg", "group_concat", "listagg"].contains(&name.as_str())
            && let FunctionArguments::List(list) = &mut function.args
            && list.args.len() == 1
        {
            let separator = Expr::value(Value::SingleQuotedString(",".to_owned()));
            list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(separator)));
            function.name = ObjectName::from(vec![Ident::new("string_agg")]);
            return Ok(());
        }
        if let FunctionArguments::List(list) = &mut function.args {
            for clause in &mut list.clauses {
                if let ast::FunctionArgumentClause::OrderBy(keys) = clause {
                    // A key that was there before orders nothing.
                    let mut known: Vec<Expr> = Vec::with_capacity(keys.len());
                    keys.retain(|key| {
                        let is_new = !known.contains(&key.expr);
                        known.push(key.expr.clone());
                        is_new
                    });
                }
            }
            calls::options(&name, &mut list.args)?;
        }
        // What an aggregate of a window is told of the order of its arguments, where it is the same in each.
        if function.over.is_some()
            && calls::UNORDERED.contains(&name.as_str())
            && let FunctionArguments::List(list) = &mut function.args
        {
            list.clauses.retain(|clause| !matches!(clause, ast::FunctionArgumentClause::OrderBy(_)));
        }
        if ["date_trunc", "datetrunc"].contains(&name.as_str())
            && let FunctionArguments::List(list) = &mut function.args
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(part))) = list.args.first_mut()
            && let Some(other) = literal(part).and_then(exprs::truncated_part)
        {
            *part = Expr::value(Value::SingleQuotedString(other.to_owned()));
        }
        if name == "regexp_extract_all"
            && let FunctionArguments::List(list) = &mut function.args
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(names)))) = list.args.get(2)
        {
            let names: Option<Vec<&str>> = names.elem.iter().map(literal).collect();
            let names = names.ok_or_else(|| Error::unsupported("names of groups that are no literals"))?;
            let names = names.join("\u{1f}");
            let names = Expr::value(Value::SingleQuotedString(names));
            list.args[2] = FunctionArg::Unnamed(FunctionArgExpr::Expr(names));
            function.name = ObjectName::from(vec![Ident::new("basalt_extract_named")]);
            return Ok(());
        }
        if name == "map"
            && arguments(function).is_some_and(|args| args.iter().any(|arg| arg.to_string() == "NULL"))
        {
            return Err(Error::unsupported("map of NULL"));
        }
        if name == "struct_pack" {
            return calls::packed(function);
        }
        if let Some(other) = times::called(&name, function, &mut self.doubled)? {
            *expr = other;
            return Ok(());
        }
        if name == "array_length"
            && let Some(length) = calls::length(function)?
        {
            *expr = length;
            return Ok(());
        }
        if name == "unnest" {
            return calls::levels(function);
        }
        if name == "fill" {
            return windows::fill(function);
        }
        if name == "format"
            && let Some(text) = specifiers::format(function)?
        {
            *expr = text;
            return Ok(());
        }
        if let Some(root) = calls::deviation(function)? {
            *expr = root;
            return Ok(());
        }
        if name == "try" {
            *expr = windows::tried(function)?;
            return self.expr(expr);
        }
        if name == "array"
            && let FunctionArguments::Subquery(query) = &function.args
        {
            *expr = exprs::array_of(query)?;
            return Ok(());
        }
        match names::meant(&name, arguments(function).map_or(usize::MAX, <[_]>::len)) {
            None => {}
            Some(Meant::Name(other)) => function.name = ObjectName::from(vec![Ident::new(other)]),
            Some(Meant::NonNull(other)) => {
                function.name = ObjectName::from(vec![Ident::new(other)]);
                function.null_treatment = Some(NullTreatment::IgnoreNulls);
            }
            Some(Meant::Template(template)) => {
                let Some(given) = arguments(function) else { return Ok(()) };
                let is_plain = function.over.is_none()
                    && function.within_group.is_empty()
                    && function.null_treatment.is_none()
                    && matches!(&function.args, FunctionArguments::List(list) if list.clauses.is_empty() && list.duplicate_treatment.is_none());
                if !is_plain {
                    return Err(Error::unsupported(format!("{name} with DISTINCT, ORDER BY or OVER")));
                }
                let plain = given.iter().map(|argument| match argument {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                    _ => None,
                });
                let Some(given) = plain.collect::<Option<Vec<_>>>() else { return Ok(()) };
                let given = match name.as_str() {
                    "strftime" => formats(given, "%.6f", "%6f")?,
                    _ => given,
                };
                let meant = match function.filter.take() {
                    None => Some(parsed(template, &given, &mut self.doubled)?),
                    Some(condition) => {
                        let given: Vec<_> = given.into_iter().chain([*condition]).collect();
                        exprs::parsed_of_some(template, &given, &mut self.doubled)?
                    }
                };
                let meant = meant.ok_or_else(|| Error::unsupported(format!("{name} with FILTER")))?;
                *expr = Expr::Nested(Box::new(meant));
                if self.doubled > limits::STATEMENT_BYTES {
                    return Err(Error::invalid(format!("too many calls of {name} in one another")));
                }
            }
        }
        Ok(())
    }
}

impl VisitorMut for Rewrite {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut ast::Statement) -> ControlFlow<()> {
        self.is_stored = matches!(statement, ast::Statement::Insert(_));
        selects::name_view(statement);
        let done = assignments::apart(statement);
        self.done(done)
    }

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        fetch::rewrite(query);
        if !std::mem::take(&mut self.is_stored) {
            rows::typed(&mut query.body);
        }
        for table in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            if table.alias.columns.is_empty() {
                name_by_text(&mut table.query.body);
            }
        }
        let done = recursions(query)
            .and_then(|()| set_operations(&query.body))
            .and_then(|()| order_by_all(query))
            .and_then(|()| match (&*query.body, &mut query.order_by) {
                (ast::SetExpr::Select(select), Some(order_by)) => using::order_by(select, order_by),
                _ => Ok(()),
            });
        self.done(done)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let done = of_select(select);
        self.done(done)
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let done = elements::as_unnest(factor).and_then(|()| match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => joins(table_with_joins),
            TableFactor::Derived { subquery, alias, .. } => {
                if alias.as_ref().is_none_or(|alias| alias.columns.is_empty()) {
                    name_by_text(&mut subquery.body);
                }
                Ok(())
            }
            TableFactor::Table { name, alias, args: Some(_), .. } => {
                series(name, alias);
                Ok(())
            }
            TableFactor::UNNEST { .. } => ordinality::numbered(factor, &mut self.doubled),
            _ => Ok(()),
        });
        self.done(done)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let done = self.expr(expr).and_then(|()| match expr {
            Expr::InSubquery { subquery, .. } => rows::selected(subquery),
            _ => Ok(()),
        });
        self.done(done)
    }
}
