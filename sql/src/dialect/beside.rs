//! A column beside a star that has the name of one of the star's, which the planner refuses.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement,
    sqlparser::ast::{
        self, Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, VisitMut as _, VisitorMut,
    },
};

use crate::order::written;

/// Gives columns beside a star another name, for the first select list with one that has this name; whether there was one.
pub(crate) fn resolve(statement: &mut Statement, name: &str) -> bool {
    let Some(statement) = super::inner(statement) else { return false };
    let mut beside = Beside { name, is_done: false };
    let _ = statement.visit(&mut beside);
    beside.is_done
}

struct Beside<'a> {
    name: &'a str,
    is_done: bool,
}

impl Beside<'_> {
    fn other(&self, at: usize) -> Ident {
        Ident::with_quote('"', format!("{}:{at}", self.name))
    }
}

impl VisitorMut for Beside<'_> {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let is_star =
            |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        if self.is_done || !select.projection.iter().any(is_star) {
            return ControlFlow::Continue(());
        }
        let mut times = 0;
        for item in &mut select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item
                && written(alias) == self.name
            {
                times += 1;
                *alias = self.other(times);
            }
        }
        self.is_done = times > 0;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if !self.is_done {
            return ControlFlow::Continue(());
        }
        // In the order of a list a name is that of its column.
        if let SetExpr::Select(_) = &*query.body
            && let Some(ast::OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by
        {
            for key in keys {
                if matches!(&key.expr, Expr::Identifier(name) if written(name) == self.name) {
                    key.expr = Expr::Identifier(self.other(1));
                }
            }
        }
        ControlFlow::Break(())
    }
}
