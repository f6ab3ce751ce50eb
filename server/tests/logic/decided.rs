//! Where an answer differs from another database's by a decision: the rows of the table of semantics in `sql/README.md`.

use sqlparser::{
    ast::{Expr, OrderByExpr, OrderByKind, Query, VisitMut as _, VisitorMut, WindowType},
    dialect::DuckDbDialect,
    parser::Parser,
};

/// Words of a statement that name what has a meaning of its own here.
const WORDS: [(&str, &str); 39] = [
    ("substring(", "substring counts as PostgreSQL's does: before the first character there are others"),
    ("substr(", "substring counts as PostgreSQL's does: before the first character there are others"),
    ("overlay(", "overlay counts as PostgreSQL's does"),
    ("split_part(", "split_part by an empty text gives the whole text"),
    (" ~ ", "a regular expression matches anywhere in the text"),
    (" !~ ", "a regular expression matches anywhere in the text"),
    (" ~* ", "a regular expression matches anywhere in the text"),
    ("similar to", "SIMILAR TO has the patterns of the standard"),
    ("reverse(", "characters are code points"),
    ("corr(", "what is undefined is NULL"),
    ("regr_", "what is undefined is NULL"),
    ("string_agg(", "no separator is an empty one"),
    ("bc)", "years before 1 are numbers"),
    ("bytea", "binary is shown in hexadecimal digits"),
    ("blob", "binary is shown in hexadecimal digits"),
    (" !~* ", "a regular expression matches anywhere in the text"),
    ("sign(", "the sign of NaN is NaN"),
    ("typeof(", "whole numbers are int64, decimals have 38 digits"),
    ("approx", "what is approximate is another approximation"),
    ("try_cast(", "text is a date, a time or a timestamp in the form of ISO 8601"),
    ("::decimal", "a decimal without digits has 38"),
    ("interval '0.", "a part of a month is days"),
    ("interval '-0.", "a part of a month is days"),
    ("interval '.", "a part of a month is days"),
    ("regexp_extract(", "NULL among the arguments is NULL"),
    ("chr(0)", "the character 0 is shown as it is"),
    ("pg_size_pretty(", "pg_size_pretty is PostgreSQL's"),
    ("extract(epoch", "the epoch of a time of day has its fraction"),
    ("=any(", "a list that has NULLs has not what is not in it"),
    (">any(", "a list that has NULLs has not what is not in it"),
    ("::time", "times have nanoseconds, timestamps microseconds"),
    ("from ts_precision", "times have nanoseconds, timestamps microseconds"),
    (" est'", "a literal with a zone is one of UTC"),
    ("::interval", "intervals have nanoseconds"),
    ("interval '1.5'", "a part of a unit is what it is of the next"),
    ("interval '-1.5'", "a part of a unit is what it is of the next"),
    ("null_byte", "the character 0 is shown as it is"),
    ("as integer) as double", "a float is cast to an integer by truncation"),
    ("mode(", "of values that are there as often as one another the least is the mode"),
];

/// The row of the table by which an answer may differ; the statement's words decide.
pub(crate) fn by_words(sql: &str) -> Option<&'static str> {
    let sql = sql.to_lowercase();
    WORDS.iter().find(|(word, _)| sql.contains(word)).map(|(_, row)| *row)
}

/// The statement where NULLs come last in every order that does not say otherwise, as in DuckDB; `None`: it has none.
pub(crate) fn nulls_last(sql: &str) -> Option<String> {
    let mut statements = Parser::parse_sql(&DuckDbDialect {}, sql).ok()?;
    let mut last = NullsLast { changed: false };
    let _ = statements.visit(&mut last);
    last.changed.then(|| statements.first().map(ToString::to_string)).flatten()
}

/// Whether a file has rows in another order than its query asks for by NULLS FIRST of the column by which it orders
/// first: there are NULLs behind other values.
pub(crate) fn denies_nulls_first(sql: &str, expected: &[Vec<String>]) -> bool {
    let Ok(statements) = Parser::parse_sql(&DuckDbDialect {}, sql) else { return false };
    let [sqlparser::ast::Statement::Query(query)] = statements.as_slice() else { return false };
    let Some(OrderByKind::Expressions(keys)) = query.order_by.as_ref().map(|order| &order.kind) else {
        return false;
    };
    let Some(key) = keys.first().filter(|key| key.options.nulls_first == Some(true)) else { return false };
    let Some(column) = key.expr.to_string().parse::<usize>().ok().and_then(|number| number.checked_sub(1))
    else {
        return false;
    };
    let nulls: Vec<bool> =
        expected.iter().map(|row| row.get(column).is_some_and(|value| value == "NULL")).collect();
    nulls.windows(2).any(|pair| !pair[0] && pair[1])
}

struct NullsLast {
    changed: bool,
}

impl NullsLast {
    fn keys<'a>(&mut self, keys: impl IntoIterator<Item = &'a mut OrderByExpr>) {
        for key in keys {
            if key.options.nulls_first.is_none() && key.options.asc == Some(false) {
                key.options.nulls_first = Some(false);
                self.changed = true;
            }
        }
    }
}

impl VisitorMut for NullsLast {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> std::ops::ControlFlow<()> {
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(keys) = &mut order.kind
        {
            self.keys(keys);
        }
        std::ops::ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> std::ops::ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let Some(WindowType::WindowSpec(window)) = &mut function.over
        {
            self.keys(&mut window.order_by);
        }
        std::ops::ControlFlow::Continue(())
    }
}
