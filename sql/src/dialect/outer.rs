//! Columns of a query around, by a table that is called as a column of the query itself: of `t.a` the planner makes the field
//! `a` of the column `t`, where there is one, and looks no further.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement,
    sqlparser::ast::{
        Expr, Ident, Select, TableAlias, TableFactor, TableWithJoins, VisitMut as _, VisitorMut,
    },
};

use crate::system::SCHEMA;

/// Says of `table.column` that it is of a table, wherever one of that name is only in a query around; whether it is anywhere.
pub(crate) fn resolve(statement: &mut Statement, table: &str, column: &str) -> bool {
    let Some(statement) = super::inner(statement) else { return false };
    let mut outer = Outer { table, column, has: Vec::new(), found: false };
    let _ = statement.visit(&mut outer);
    outer.found
}

struct Outer<'a> {
    table: &'a str,
    column: &'a str,
    /// Of the selects around, whether they have such a table.
    has: Vec<bool>,
    found: bool,
}

fn has(tables: &[TableWithJoins], name: &str) -> bool {
    tables.iter().any(|table| {
        is_called(&table.relation, name) || table.joins.iter().any(|join| is_called(&join.relation, name))
    })
}

fn is_called(table: &TableFactor, name: &str) -> bool {
    let is = |alias: &Option<TableAlias>| alias.as_ref().is_some_and(|alias| alias.name.value == name);
    match table {
        TableFactor::Table { name: of, alias: None, .. } => {
            of.0.last().and_then(|part| part.as_ident()).is_some_and(|part| part.value == name)
        }
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            has(std::slice::from_ref(&**table_with_joins), name)
        }
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => is(alias),
        _ => false,
    }
}

impl VisitorMut for Outer<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.has.push(has(&select.from, self.table));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.has.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::CompoundIdentifier(parts) = expr else { return ControlFlow::Continue(()) };
        if let [table, column] = parts.as_slice()
            && table.value == self.table
            && column.value == self.column
            && let Some((false, around)) = self.has.split_last()
            && around.contains(&true)
        {
            // With a schema before it, it is no column of a struct.
            let schema = Ident { value: SCHEMA.to_owned(), quote_style: Some('"'), span: table.span };
            parts.insert(0, schema);
            self.found = true;
        }
        ControlFlow::Continue(())
    }
}
