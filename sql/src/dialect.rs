//! What people write who come from DuckDB or PostgreSQL, in the words that the planner has; and what the planner would
//! pass over without a word, refused.

pub(crate) mod aliases;
mod exprs;
mod quantified;

use std::{collections::HashMap, ops::ControlFlow};

use datafusion::sql::{
    parser::Statement,
    sqlparser::{
        ast::{
            self, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
            JoinConstraint, JoinOperator, NamedWindowExpr, NullTreatment, ObjectName, Select, SelectFlavor,
            SelectItem, SetExpr, SetOperator, SetQuantifier, TableFactor, TableWithJoins, UnaryOperator,
            Value, VisitMut as _, VisitorMut, WindowSpec, WindowType, visit_expressions,
            visit_expressions_mut,
        },
        keywords::Keyword,
        tokenizer::{Token, TokenWithSpan},
    },
};

use crate::{
    error::{Error, Result},
    interval, limits,
    names::{self, Meant},
};
use exprs::{
    arguments, bare, bucket, formats, in_subquery, interval_expr, interval_of, is_interval, is_subquery,
    literal, parsed, similar, type_of,
};

/// Aggregates that are the same in each order of their arguments.
const UNORDERED: [&str; 24] = [
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "entropy",
    "histogram",
    "kurtosis",
    "mad",
    "max",
    "median",
    "min",
    "mode",
    "quantile",
    "quantile_disc",
    "skewness",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "var_pop",
    "var_samp",
    "variance",
];

/// Puts digits together that `_` parts, and leaves out whether a common table expression is materialized, which changes
/// no answer. The tokens have no white space among them.
pub(crate) fn tokens(mut tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    struct_types(&mut tokens);
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for mut token in tokens {
        singular(&kept, &mut token);
        matched(&kept, &mut token);
        if let Some(number) = bracketed(&kept, &token) {
            // `INTERVAL (2) DAY`
            kept.truncate(kept.len() - 2);
            kept.push(number);
            continue;
        }
        if let (Token::Word(word), Some(before)) = (&token.token, kept.last_mut())
            && word.quote_style.is_none()
            && before.span.end == token.span.start
            && let Token::Number(number, _) = &mut before.token
        {
            let parts = word.value.strip_prefix('_');
            match parts.filter(|parts| {
                parts.split('_').all(|part| part.bytes().all(|b| b.is_ascii_digit()) && !part.is_empty())
            }) {
                Some(parts) => {
                    number.push_str(&parts.replace('_', ""));
                    before.span.end = token.span.end;
                    continue;
                }
                None => {
                    let error =
                        Error::invalid(format!("{number}{} is neither a number nor a name", word.value));
                    return Err(error.at(token.span.start.line, token.span.start.column));
                }
            }
        }
        if matches!(token.token, Token::LParen) {
            let keyword = |back: usize, expected: Keyword| {
                kept.len().checked_sub(back).and_then(|at| kept.get(at)).is_some_and(|token| {
                    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.keyword == expected)
                })
            };
            if keyword(1, Keyword::MATERIALIZED) {
                if keyword(2, Keyword::AS) {
                    kept.pop();
                } else if keyword(2, Keyword::NOT) && keyword(3, Keyword::AS) {
                    kept.truncate(kept.len() - 2);
                }
            }
        }
        kept.push(token);
    }
    Ok(kept)
}

/// `STRUCT(a INT)` and `ROW(a INT)` as types, which the parser knows as `STRUCT<a INT>`.
fn struct_types(tokens: &mut [TokenWithSpan]) {
    let word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    };
    let mut open = Vec::new();
    for at in 0..tokens.len() {
        match tokens[at].token {
            Token::LParen => {
                let is_type = at >= 2
                    && matches!(word(&tokens[at - 1]), Some(Keyword::STRUCT | Keyword::ROW))
                    && match &tokens[at - 2].token {
                        Token::DoubleColon => true,
                        Token::Word(_) => {
                            open.last() == Some(&true) || word(&tokens[at - 2]) == Some(Keyword::AS)
                        }
                        _ => false,
                    };
                if is_type {
                    tokens[at - 1].token = Token::make_keyword("STRUCT");
                    tokens[at].token = Token::Lt;
                }
                open.push(is_type);
            }
            Token::RParen if open.pop() == Some(true) => tokens[at].token = Token::Gt,
            _ => {}
        }
    }
}

/// What stands for an operator between two operands: GLOB has the parser's operator REGEXP, and REGEXP that of `~`.
fn matched(before: &[TokenWithSpan], token: &mut TokenWithSpan) {
    let Token::Word(word) = &token.token else { return };
    let is_glob = word.value.eq_ignore_ascii_case("glob");
    if word.quote_style.is_some() || !(is_glob || word.keyword == Keyword::REGEXP) {
        return;
    }
    let is_operand = before.last().is_some_and(|before| match &before.token {
        Token::Word(word) => {
            let not = [Keyword::SELECT, Keyword::WHERE, Keyword::AND, Keyword::OR, Keyword::ON, Keyword::BY];
            word.quote_style.is_some() || !(not.contains(&word.keyword) || word.keyword == Keyword::AS)
        }
        Token::SingleQuotedString(_) | Token::Number(..) | Token::RParen | Token::RBracket => true,
        _ => false,
    });
    if is_operand && is_glob {
        token.token = Token::make_keyword("REGEXP");
    } else if is_operand {
        token.token = Token::Tilde;
    }
}

/// The number of an interval that stands in parentheses, where `token` closes them.
fn bracketed(before: &[TokenWithSpan], token: &TokenWithSpan) -> Option<TokenWithSpan> {
    let [.., interval, open, number] = before else { return None };
    let is_interval = matches!(&interval.token, Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::INTERVAL);
    let closes = matches!((&open.token, &token.token), (Token::LParen, Token::RParen));
    match &number.token {
        Token::Number(text, _) if is_interval && closes => {
            Some(TokenWithSpan { token: Token::SingleQuotedString(text.clone()), span: number.span })
        }
        _ => None,
    }
}

/// Units of intervals that the parser would take for a name.
fn singular(before: &[TokenWithSpan], token: &mut TokenWithSpan) {
    let of_interval = before.len().checked_sub(2).and_then(|at| before.get(at)).is_some_and(
        |token| matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::INTERVAL),
    );
    let Token::Word(word) = &mut token.token else { return };
    let units = [
        ("millennia", "MILLENNIUM"),
        ("centuries", "CENTURY"),
        ("decades", "DECADE"),
        ("quarters", "QUARTER"),
    ];
    let unit = units.iter().find(|(unit, _)| word.value.eq_ignore_ascii_case(unit));
    if of_interval && let Some((_, unit)) = unit {
        token.token = Token::make_keyword(unit);
    }
}

/// Puts a statement into the planner's words.
pub(crate) fn rewrite(statement: &mut ast::Statement) -> Result<()> {
    let mut rewrite = Rewrite { fault: None, doubled: 0 };
    let _ = statement.visit(&mut rewrite);
    rewrite.fault.map_or(Ok(()), Err)
}

struct Rewrite {
    fault: Option<Error>,
    /// Bytes of arguments that stand more than once where they were written once.
    doubled: usize,
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
        match expr {
            Expr::Interval(_) => *expr = interval_of(expr, false)?,
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } if is_interval(inner) => {
                *expr = interval_of(inner, true)?;
            }
            Expr::Cast { data_type: ast::DataType::Interval { .. }, expr: inner, kind, .. } => {
                // Default: what is no text is refused.
                let text = literal(inner).unwrap_or_default();
                let is_try = matches!(kind, ast::CastKind::TryCast | ast::CastKind::SafeCast);
                *expr = match interval::parse(text, None) {
                    Some(interval) => interval_expr(interval),
                    None if is_try && literal(inner).is_some() => {
                        parsed("CAST(NULL AS INTERVAL)", &[], &mut 0)?
                    }
                    None if matches!(**inner, Expr::Value(ast::ValueWithSpan { value: Value::Null, .. })) => {
                        return Ok(());
                    }
                    None => return Err(Error::unsupported("CAST of this to an interval")),
                };
            }
            Expr::Cast { data_type, expr: inner, .. } => {
                type_of(data_type);
                if matches!(data_type, ast::DataType::Bytea)
                    && literal(inner).is_some_and(|text| text.contains('\\'))
                {
                    return Err(Error::unsupported("binary text with escapes"));
                }
            }
            Expr::TypedString(typed) => {
                type_of(&mut typed.data_type);
                if matches!(typed.data_type, ast::DataType::Bytea) && typed.value.to_string().contains('\\') {
                    return Err(Error::unsupported("binary text with escapes"));
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
            Expr::BinaryOp { left, op: BinaryOperator::PGStartsWith, right } => {
                let sides = [(**left).clone(), (**right).clone()];
                *expr = parsed("starts_with($1, $2)", &sides, &mut 0)?;
            }
            // What stands for GLOB.
            Expr::RLike { negated, expr: text, pattern, regexp: true } => {
                let sides = [(**text).clone(), (**pattern).clone()];
                let call = parsed("basalt_glob($1, $2)", &sides, &mut 0)?;
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
            Expr::AnyOp { left, compare_op, right, .. } if is_subquery(right) => {
                *expr = match compare_op {
                    BinaryOperator::Eq => in_subquery(left, compare_op, right, &BinaryOperator::Eq)?,
                    op => quantified::compared(left, op, right, false)?,
                };
            }
            Expr::AllOp { left, compare_op, right } if is_subquery(right) => {
                *expr = match compare_op {
                    BinaryOperator::NotEq => in_subquery(left, compare_op, right, &BinaryOperator::NotEq)?,
                    op => quantified::compared(left, op, right, true)?,
                };
            }
            Expr::CompoundFieldAccess { access_chain, .. } => {
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
                let name = field.to_string().to_lowercase();
                if let Some(name) = Some("decade").filter(|known| *known == name)
                    && let Some(Meant::Template(template)) = names::meant(name, 1)
                {
                    let inner = (**inner).clone();
                    *expr = Expr::Nested(Box::new(parsed(template, &[inner], &mut self.doubled)?));
                }
            }
            Expr::SimilarTo { .. } => return Err(Error::unsupported("SIMILAR TO with ESCAPE")),
            Expr::Function(_) => self.function(expr)?,
            _ => {}
        }
        Ok(())
    }

    fn function(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Function(function) = expr else { return Ok(()) };
        let Some(name) = bare(&function.name) else { return Ok(()) };
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
            options(&name, &mut list.args)?;
        }
        // What an aggregate of a window is told of the order of its arguments, where it is the same in each.
        if function.over.is_some()
            && UNORDERED.contains(&name.as_str())
            && let FunctionArguments::List(list) = &mut function.args
        {
            list.clauses.retain(|clause| !matches!(clause, ast::FunctionArgumentClause::OrderBy(_)));
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
            return packed(function);
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
                let is_plain = function.filter.is_none()
                    && function.over.is_none()
                    && function.within_group.is_empty()
                    && function.null_treatment.is_none()
                    && matches!(&function.args, FunctionArguments::List(list) if list.clauses.is_empty() && list.duplicate_treatment.is_none());
                if !is_plain {
                    return Err(Error::unsupported(format!(
                        "{name} with DISTINCT, ORDER BY, FILTER or OVER"
                    )));
                }
                let plain = given.iter().map(|argument| match argument {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                    _ => None,
                });
                let Some(given) = plain.collect::<Option<Vec<_>>>() else { return Ok(()) };
                let given = match name.as_str() {
                    "strftime" => formats(given, "%.6f", "%6f")?,
                    "strptime" => formats(given, "%.f", "%6f")?,
                    _ => given,
                };
                let template = if name == "time_bucket" { bucket(&given[0], template)? } else { template };
                *expr = Expr::Nested(Box::new(parsed(template, &given, &mut self.doubled)?));
                if self.doubled > limits::STATEMENT_BYTES {
                    return Err(Error::invalid(format!("too many calls of {name} in one another")));
                }
            }
        }
        Ok(())
    }
}

/// Options of regular expressions: `c`, which is as without it, is left out, and what the planner has not is refused.
fn options(name: &str, args: &mut Vec<FunctionArg>) -> Result<()> {
    let at = match name {
        "regexp_replace" => 3,
        "regexp_matches" | "regexp_like" => 2,
        _ => return Ok(()),
    };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(given))) = args.get_mut(at) else { return Ok(()) };
    let Some(text) = literal(given) else { return Ok(()) };
    if let Some(other) = text.chars().find(|c| !"cgims".contains(*c)) {
        return Err(Error::unsupported(format!("the option {other:?} of a regular expression")));
    }
    let kept = text.replace('c', "");
    *given = Expr::value(Value::SingleQuotedString(kept.clone()));
    if kept.is_empty() {
        args.remove(at);
    }
    Ok(())
}

/// `struct_pack(a := 1)`: a struct with the names of its fields.
fn packed(function: &mut ast::Function) -> Result<()> {
    let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
    let mut fields = Vec::with_capacity(2 * list.args.len());
    for argument in &list.args {
        let FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } = argument else {
            return Err(Error::unsupported("struct_pack of fields without names"));
        };
        let name = Expr::value(Value::SingleQuotedString(name.value.clone()));
        let parts = [name, value.clone()].map(|part| FunctionArg::Unnamed(FunctionArgExpr::Expr(part)));
        fields.extend(parts);
    }
    list.args = fields;
    function.name = ObjectName::from(vec![Ident::new("named_struct")]);
    Ok(())
}

impl VisitorMut for Rewrite {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        let done = set_operations(&query.body).and_then(|()| order_by_all(query));
        self.done(done)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let done = of_select(select);
        self.done(done)
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let done = match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => joins(table_with_joins),
            TableFactor::Table { name, alias, args: Some(_), .. } => {
                series(name, alias);
                Ok(())
            }
            _ => Ok(()),
        };
        self.done(done)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let done = self.expr(expr);
        self.done(done)
    }
}

fn set_operations(body: &SetExpr) -> Result<()> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return Ok(()) };
    if *op != SetOperator::Union && !matches!(set_quantifier, SetQuantifier::None | SetQuantifier::Distinct) {
        return Err(Error::unsupported(format!("{op} {set_quantifier}")));
    }
    set_operations(left)?;
    set_operations(right)
}

/// `*` over JOIN USING: what is left has all its columns, what is right those that are not joined by. The planner would
/// take a column of either, by their names.
fn expand_using(select: &mut Select) -> Result<()> {
    let of_wildcard = |item: &SelectItem| matches!(item, SelectItem::Wildcard(options) if is_plain(options));
    let mut items = Vec::new();
    let mut is_using = false;
    for table in &select.from {
        items.push(all_of(&table.relation, &[]));
        for join in &table.joins {
            let (constraint, keeps_left) = match &join.join_operator {
                JoinOperator::Join(constraint)
                | JoinOperator::Inner(constraint)
                | JoinOperator::Left(constraint)
                | JoinOperator::LeftOuter(constraint) => (constraint, true),
                JoinOperator::Right(constraint)
                | JoinOperator::RightOuter(constraint)
                | JoinOperator::FullOuter(constraint) => (constraint, false),
                _ => return Ok(()),
            };
            match constraint {
                JoinConstraint::Using(_) | JoinConstraint::Natural if !keeps_left => {
                    let what = "a right or full join with USING or NATURAL (one with ON is)";
                    return Err(Error::unsupported(what));
                }
                JoinConstraint::Using(columns) => {
                    is_using = true;
                    let columns = columns.iter().filter_map(|name| name.0.first()?.as_ident().cloned());
                    items.push(all_of(&join.relation, &columns.collect::<Vec<_>>()));
                }
                JoinConstraint::Natural if select.projection.iter().any(of_wildcard) => {
                    return Err(Error::unsupported("* over a NATURAL JOIN (USING is)"));
                }
                _ => items.push(all_of(&join.relation, &[])),
            }
        }
    }
    if !is_using || !select.projection.iter().any(of_wildcard) {
        return Ok(());
    }
    let Some(items) = items.into_iter().collect::<Option<Vec<_>>>() else { return Ok(()) };
    for item in std::mem::take(&mut select.projection) {
        match of_wildcard(&item) {
            true => select.projection.extend(items.iter().cloned()),
            false => select.projection.push(item),
        }
    }
    Ok(())
}

fn is_plain(options: &ast::WildcardAdditionalOptions) -> bool {
    options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none()
}

/// All columns of a table but some; `None`: it has no name.
fn all_of(table: &TableFactor, but: &[Ident]) -> Option<SelectItem> {
    let name = match table {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            ObjectName::from(vec![alias.name.clone()])
        }
        TableFactor::Table { name, alias: None, .. } => name.clone(),
        _ => return None,
    };
    let but = but.iter().cloned().map(|name| ObjectName::from(vec![name])).collect::<Vec<_>>();
    let opt_exclude = (!but.is_empty()).then_some(ast::ExcludeSelectItem::Multiple(but));
    let options = ast::WildcardAdditionalOptions { opt_exclude, ..Default::default() };
    Some(SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), options))
}

/// The column of `range` has its name.
fn series(name: &ObjectName, alias: &mut Option<ast::TableAlias>) {
    let Some(function) = bare(name).filter(|name| name == "range") else { return };
    let name = Ident::with_quote('"', function);
    let alias = alias.get_or_insert_with(|| ast::TableAlias {
        explicit: true,
        name: name.clone(),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns.push(ast::TableAliasColumnDef { name, data_type: None });
    }
}

/// ORDER BY ALL: by each column, from the first.
fn order_by_all(query: &mut ast::Query) -> Result<()> {
    let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(keys), .. }) = &mut query.order_by else {
        return Ok(());
    };
    let [key] = keys.as_slice() else { return Ok(()) };
    let is_all = matches!(&key.expr, Expr::Identifier(name)
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all"));
    if !is_all {
        return Ok(());
    }
    let mut body = &*query.body;
    let columns = loop {
        match body {
            SetExpr::Select(select) => {
                let is_one = |item: &SelectItem| {
                    matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
                };
                if !select.projection.iter().all(is_one) {
                    return Err(Error::unsupported("ORDER BY ALL of a select list with *"));
                }
                break select.projection.len();
            }
            SetExpr::SetOperation { left, .. } => body = left,
            SetExpr::Query(inner) => body = &inner.body,
            _ => return Err(Error::unsupported("ORDER BY ALL of this")),
        }
    };
    let key = key.clone();
    let ordinal = |at: usize| ast::OrderByExpr {
        expr: Expr::value(Value::Number(at.to_string(), false)),
        ..key.clone()
    };
    *keys = (1..=columns).map(ordinal).collect();
    Ok(())
}

fn joins(table: &mut TableWithJoins) -> Result<()> {
    for join in &mut table.joins {
        let nothing = JoinOperator::Join(JoinConstraint::None);
        join.join_operator = match std::mem::replace(&mut join.join_operator, nothing) {
            JoinOperator::Semi(constraint) => JoinOperator::LeftSemi(constraint),
            JoinOperator::Anti(constraint) => JoinOperator::LeftAnti(constraint),
            other => other,
        };
        let bare = matches!(
            &join.join_operator,
            JoinOperator::Join(JoinConstraint::None)
                | JoinOperator::Inner(JoinConstraint::None)
                | JoinOperator::Left(JoinConstraint::None)
                | JoinOperator::LeftOuter(JoinConstraint::None)
                | JoinOperator::Right(JoinConstraint::None)
                | JoinOperator::RightOuter(JoinConstraint::None)
                | JoinOperator::FullOuter(JoinConstraint::None)
        );
        if bare {
            return Err(Error::invalid("JOIN takes ON or USING (CROSS JOIN takes none)"));
        }
    }
    Ok(())
}

fn of_select(select: &mut Select) -> Result<()> {
    if select.flavor == SelectFlavor::FromFirstNoSelect {
        select.projection = vec![SelectItem::Wildcard(ast::WildcardAdditionalOptions::default())];
        select.flavor = SelectFlavor::Standard;
    }
    select.from.iter_mut().try_for_each(joins)?;
    if let ast::GroupByExpr::Expressions(keys, _) = &select.group_by {
        let sets = |key: &Expr| matches!(key, Expr::GroupingSets(_) | Expr::Rollup(_) | Expr::Cube(_));
        if keys.iter().any(sets) && keys.iter().any(|key| matches!(key, Expr::Tuple(_))) {
            return Err(Error::unsupported("GROUPING SETS, ROLLUP or CUBE beside a list in parentheses"));
        }
    }
    expand_using(select)?;
    for item in &mut select.projection {
        match item {
            SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
                if options.opt_ilike.is_some() || options.opt_alias.is_some() {
                    return Err(Error::unsupported("* with ILIKE or AS"));
                }
                let replaced = options.opt_replace.iter().flat_map(|replace| &replace.items);
                if replaced.into_iter().any(|item| item.column_name.quote_style.is_some()) {
                    return Err(Error::unsupported("* REPLACE with a quoted name"));
                }
            }
            SelectItem::UnnamedExpr(expr) => {
                let name = expr.to_string();
                let renamed = is_renamed(expr);
                if quantified::counted(item)? || renamed {
                    let SelectItem::UnnamedExpr(expr) = item else { continue };
                    let alias = Ident::with_quote('"', short_name(name));
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
            SelectItem::ExprWithAlias { .. } => {
                quantified::counted(item)?;
            }
            _ => {}
        }
    }
    windows(select)
}

fn short_name(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(limits::NAME_BYTES));
    name
}

/// Gives columns of one list names of their own where they would have the same.
pub(crate) fn name_apart(statement: &mut Statement) {
    let statement = match statement {
        Statement::Explain(explain) => return name_apart(&mut explain.statement),
        Statement::Statement(statement) => statement,
        _ => return,
    };
    let _ = statement.visit(&mut Apart);
}

struct Apart;

impl VisitorMut for Apart {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let all = select
            .projection
            .iter()
            .any(|item| !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }));
        let mut known: HashMap<String, usize> = HashMap::new();
        for item in &mut select.projection {
            let (expr, name) = match item {
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) if !all => {
                    (None, parts.last().map(|name| name.value.clone()))
                }
                SelectItem::UnnamedExpr(Expr::Identifier(name)) if !all => (None, Some(name.value.clone())),
                SelectItem::UnnamedExpr(expr) => (Some(expr.clone()), Some(expr.to_string())),
                SelectItem::ExprWithAlias { alias, .. } => (None, Some(alias.value.clone())),
                _ => continue,
            };
            let mut name = name.unwrap_or_default();
            name.truncate(name.floor_char_boundary(limits::NAME_BYTES));
            let times = known.entry(name.clone()).or_default();
            *times += 1;
            if *times > 1 || all {
                name = format!("{name}:{times}");
            }
            let expr = match (expr, &item) {
                (Some(expr), _) => expr,
                (None, SelectItem::UnnamedExpr(expr)) if *times > 1 => expr.clone(),
                _ => continue,
            };
            *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
        }
        ControlFlow::Continue(())
    }
}

/// Whether it will be another expression, whose column is to have the name that was written.
fn is_renamed(expr: &Expr) -> bool {
    visit_expressions(expr, |expr| {
        let is_other = match expr {
            Expr::Function(function) => bare(&function.name).is_some_and(|name| {
                names::meant(&name, arguments(function).map_or(usize::MAX, <[_]>::len)).is_some()
            }),
            Expr::SimilarTo { .. } | Expr::Interval(_) => true,
            _ => false,
        };
        if is_other { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .is_break()
}

/// Puts what a window takes from another one into its place.
fn windows(select: &mut Select) -> Result<()> {
    let mut known: HashMap<String, WindowSpec> = HashMap::new();
    for definition in &mut select.named_window {
        let spec = match &mut definition.1 {
            NamedWindowExpr::NamedWindow(name) => {
                let spec = known.get(&name.value).cloned();
                spec.ok_or_else(|| Error::invalid(format!("no window {:?}", name.value)))?
            }
            NamedWindowExpr::WindowSpec(spec) => {
                based(spec, &known)?;
                spec.clone()
            }
        };
        known.insert(definition.0.value.clone(), spec.clone());
        definition.1 = NamedWindowExpr::WindowSpec(spec);
    }
    let mut fault = None;
    let _ = visit_expressions_mut(select, |expr| {
        if let Expr::Function(function) = expr
            && let Some(WindowType::WindowSpec(spec)) = &mut function.over
            && let Err(error) = based(spec, &known)
        {
            fault = Some(error);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    fault.map_or(Ok(()), Err)
}

fn based(spec: &mut WindowSpec, known: &HashMap<String, WindowSpec>) -> Result<()> {
    let Some(name) = spec.window_name.take() else { return Ok(()) };
    let Some(base) = known.get(&name.value) else {
        return Err(Error::invalid(format!("no window {:?}", name.value)));
    };
    if !spec.partition_by.is_empty() || (!spec.order_by.is_empty() && !base.order_by.is_empty()) {
        return Err(Error::invalid(format!("the window {:?} is parted or ordered already", name.value)));
    }
    if base.window_frame.is_some() {
        return Err(Error::invalid(format!("the window {:?} has a frame already", name.value)));
    }
    spec.partition_by.clone_from(&base.partition_by);
    if spec.order_by.is_empty() {
        spec.order_by.clone_from(&base.order_by);
    }
    Ok(())
}
