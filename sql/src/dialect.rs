//! What people write who come from DuckDB or PostgreSQL, in the words that the planner has; and what the planner would
//! pass over without a word, refused.

pub(crate) mod aliases;
mod arrows;
mod asof;
mod assignments;
pub(crate) mod beside;
pub(crate) mod called;
mod calls;
mod casts;
mod comprehensions;
mod distinct;
mod elements;
mod exprs;
mod fetch;
mod functions;
mod grouping;
mod integers;
mod known;
mod lateral;
mod numerics;
mod operators;
mod ordinality;
pub(crate) mod outer;
mod patterns;
mod quantified;
mod recursive;
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
    sqlparser::ast::{self, Expr, Select, TableFactor, VisitMut as _, VisitorMut},
};

use crate::error::{Error, Result};
pub(crate) use casts::name_casts;
pub(crate) use distinct::{distinct_on, ordered_by_place};
pub(crate) use exprs::{literal, stored_text};
pub(crate) use numerics::as_casts;
pub(crate) use quantified::{array_values, counted};
pub(crate) use selects::{expand_using, name_apart, name_ordered};
pub(crate) use shared::{INLINED, MARK, RECURSIVE, all_of, has_shared, inline, mark, take_materialized};
pub(crate) use within::qualify_natural;
pub(crate) use words::{keyword, quote_columns, tokens};

use selects::{joins, name_by_text, of_select, order_by_all, series, set_operations};

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
        let done = recursive::rewrite(query)
            .and_then(|()| set_operations(&query.body))
            .and_then(|()| order_by_all(query))
            .and_then(|()| match (&*query.body, &mut query.order_by) {
                (ast::SetExpr::Select(select), Some(order_by)) => using::order_by(select, order_by),
                _ => Ok(()),
            });
        self.done(done)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let done = of_select(select, &mut self.doubled);
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
