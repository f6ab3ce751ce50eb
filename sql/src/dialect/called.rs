//! Functions that give rows of one column, and are called as that is: `SELECT g FROM generate_series(1, 3) AS g`, as PostgreSQL
//! has it. Columns that have the name are meant before, so it is looked for only when the planner has found none.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement,
    sqlparser::{
        ast::{Expr, Ident, Select, TableAlias, TableAliasColumnDef, TableFactor, VisitMut as _, VisitorMut},
        tokenizer::Location,
    },
};

use super::exprs::bare;

/// Functions of one column.
const SERIES: [&str; 2] = ["generate_series", "range"];

/// Names the column of such a function as the function is called, where a name stands that no column has; whether there was one.
pub(crate) fn resolve(statement: &mut Statement, place: Location) -> bool {
    let Some(statement) = super::inner(statement) else { return false };
    let mut called = Called { place, depth: 0, name: None };
    statement.visit(&mut called).is_break()
}

struct Called {
    place: Location,
    /// Selects around.
    depth: usize,
    /// The name, and how many selects around it have not been looked at.
    name: Option<(Ident, usize)>,
}

impl VisitorMut for Called {
    /// The column has its name.
    type Break = ();

    fn pre_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let depth = self.depth;
        self.depth -= 1;
        let Some((name, around)) = &mut self.name else { return ControlFlow::Continue(()) };
        if *around < depth {
            return ControlFlow::Continue(());
        }
        *around = depth - 1;
        for table in &mut select.from {
            let joined = table.joins.iter_mut().map(|join| &mut join.relation);
            if std::iter::once(&mut table.relation).chain(joined).any(|table| names(table, name)) {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr
            && name.span.start == self.place
        {
            self.name = Some((name.clone(), self.depth));
        }
        ControlFlow::Continue(())
    }
}

/// Gives the column of a function that is called so its name; whether it is one whose column has no other.
fn names(table: &mut TableFactor, name: &Ident) -> bool {
    let (alias, own) = match table {
        TableFactor::Table { name: function, alias: Some(alias), args: Some(_), .. } => {
            let Some(function) = bare(function).filter(|name| SERIES.contains(&name.as_str())) else {
                return false;
            };
            (alias, Some(function))
        }
        TableFactor::UNNEST { alias: Some(alias), array_exprs, .. } if array_exprs.len() == 1 => {
            (alias, None)
        }
        _ => return false,
    };
    // A series may have its own name for it already.
    let is_free = match alias.columns.as_slice() {
        [] => true,
        [column] => own.is_some_and(|own| column.name == Ident::with_quote('"', own)),
        _ => false,
    };
    if !is_free || !is_called(alias, name) {
        return false;
    }
    alias.columns = vec![TableAliasColumnDef { name: alias.name.clone(), data_type: None }];
    true
}

fn is_called(alias: &TableAlias, name: &Ident) -> bool {
    match (alias.name.quote_style, name.quote_style) {
        (Some(_), Some(_)) => alias.name.value == name.value,
        _ => alias.name.value.eq_ignore_ascii_case(&name.value),
    }
}
