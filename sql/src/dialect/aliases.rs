//! Names of a select list where DuckDB knows them too: in WHERE, in GROUP BY and HAVING, in the rest of the list. What is
//! the name of a column is that column, so a name is looked up here only when the planner has found none.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement,
    sqlparser::{
        ast::{Expr, Select, SelectItem, VisitMut as _, VisitorMut},
        tokenizer::Location,
    },
};

/// Puts what a name of the select list stands for into the place where no column has it; whether there was one.
pub(crate) fn resolve(statement: &mut Statement, place: Location) -> bool {
    let Some(statement) = super::inner(statement) else { return false };
    let mut aliases = Aliases { place, known: Vec::new(), found: false };
    let _ = statement.visit(&mut aliases);
    aliases.found
}

struct Aliases {
    place: Location,
    /// The names of the select lists around the expression, and what they stand for.
    known: Vec<Vec<(String, Expr)>>,
    found: bool,
}

impl VisitorMut for Aliases {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let aliases = select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } => Some((alias.value.clone(), expr.clone())),
            _ => None,
        });
        self.known.push(aliases.collect());
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.known.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Identifier(name) = expr else { return ControlFlow::Continue(()) };
        if name.span.start != self.place {
            return ControlFlow::Continue(());
        }
        let known = self.known.last().into_iter().flatten();
        let mut named = known.filter(|(alias, _)| alias.eq_ignore_ascii_case(&name.value));
        // What two columns are named stands for neither.
        if let (Some((_, meant)), None) = (named.next(), named.next())
            && !within(meant, self.place)
            && !is_volatile(meant)
        {
            *expr = Expr::Nested(Box::new(meant.clone()));
            self.found = true;
        }
        ControlFlow::Break(())
    }
}

/// Whether it is another value each time.
fn is_volatile(expr: &Expr) -> bool {
    const VOLATILE: [&str; 4] = ["random", "uuid", "gen_random_uuid", "nextval"];
    datafusion::sql::sqlparser::ast::visit_expressions(expr, |expr| match expr {
        Expr::Function(function)
            if VOLATILE.iter().any(|name| function.name.to_string().eq_ignore_ascii_case(name)) =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Whether the name stands in what it would stand for.
fn within(expr: &Expr, place: Location) -> bool {
    datafusion::sql::sqlparser::ast::visit_expressions(expr, |expr| match expr {
        Expr::Identifier(name) if name.span.start == place => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}
