//! The column `xmin` that some virtual tables have and `*` does not show: tools ask it for what has changed. Here it is 1 of all
//! rows, as the number of the transaction is that `txid_current` gives. A column of that name of another table is meant before.

use std::{collections::BTreeSet, ops::ControlFlow};

use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, VisitMut as _,
    VisitorMut,
};

use super::rewrite::{expr, virtual_table, words};

const NAME: &str = "xmin";

/// The tables that have it.
const OF: [&str; 4] =
    ["pg_catalog.pg_attribute", "pg_catalog.pg_class", "pg_catalog.pg_namespace", "pg_catalog.pg_type"];

/// Puts the number in its place.
pub(super) fn rewrite(statement: &mut ast::Statement) {
    if statement.visit(&mut Reads).is_break() {
        let _ = statement.visit(&mut Hidden { scopes: Vec::new() });
    }
}

/// Whether what stands in FROM is a table that has the column.
fn has_it(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::Table { name, args: None, .. } => {
            virtual_table(name).is_some_and(|table| OF.contains(&table.name))
        }
        _ => false,
    }
}

/// Whether a statement reads such a table.
struct Reads;

impl VisitorMut for Reads {
    /// It does.
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if has_it(factor) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// What a select reads.
#[derive(Default)]
struct Scope {
    /// What tables that have the column are called in it.
    hidden: BTreeSet<String>,
    /// What others are called.
    others: BTreeSet<String>,
    /// Whether there are others, which may have one of that name.
    has_others: bool,
    /// Whether it is that of what a query is ordered by, where a column of the answer has the name.
    is_answered: bool,
}

impl Scope {
    fn of(select: &Select) -> Self {
        let mut scope = Self::default();
        select.from.iter().for_each(|tables| scope.add_all(tables));
        scope
    }

    /// That of what stands behind the body of a query.
    fn behind(query: &Query) -> Self {
        let SetExpr::Select(select) = &*query.body else {
            return Self { has_others: true, ..Self::default() };
        };
        let is_called = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { alias, .. } => alias.value == NAME,
            _ => false,
        };
        Self { is_answered: select.projection.iter().any(is_called), ..Self::of(select) }
    }

    fn add_all(&mut self, TableWithJoins { relation, joins }: &TableWithJoins) {
        self.add(relation);
        joins.iter().for_each(|join| self.add(&join.relation));
    }

    fn add(&mut self, factor: &TableFactor) {
        let called = match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                return self.add_all(table_with_joins);
            }
            TableFactor::Table { name, alias, .. } => {
                let plain = || words(name)?.last().map(|word| (*word).to_owned());
                alias.as_ref().map(|alias| alias.name.value.clone()).or_else(plain)
            }
            TableFactor::Derived { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => alias.as_ref().map(|alias| alias.name.value.clone()),
            _ => None,
        };
        if has_it(factor) {
            self.hidden.extend(called);
        } else {
            self.has_others = true;
            self.others.extend(called);
        }
    }
}

struct Hidden {
    /// Those of the selects around, the outermost first.
    scopes: Vec<Scope>,
}

impl Hidden {
    /// The number, where an expression is the column.
    fn number(&self, of: &Expr) -> Option<Expr> {
        let mut scopes = self.scopes.iter().rev();
        let is_one = match of {
            // A select without tables has the columns around it.
            Expr::Identifier(name) if name.value == NAME => scopes
                .find(|scope| scope.has_others || scope.is_answered || !scope.hidden.is_empty())
                .is_some_and(|scope| !scope.has_others && !scope.is_answered),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., table, name] if name.value == NAME => scopes
                    .find(|scope| scope.hidden.contains(&table.value) || scope.others.contains(&table.value))
                    .is_some_and(|scope| scope.hidden.contains(&table.value)),
                _ => false,
            },
            _ => false,
        };
        if is_one { expr("CAST(1 AS BIGINT)") } else { None }
    }
}

impl VisitorMut for Hidden {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.push(Scope::behind(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.scopes.push(Scope::of(select));
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(number) = self.number(expr)
            {
                *item = SelectItem::ExprWithAlias { expr: number, alias: Ident::new(NAME) };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(number) = self.number(expr) {
            *expr = number;
        }
        ControlFlow::Continue(())
    }
}
