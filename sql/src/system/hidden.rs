//! The column `xmin` that some virtual tables have and `*` does not show: tools ask it for what has changed. Here it is 1 of all
//! rows, as the number of the transaction is that `txid_current` gives.

use std::{collections::BTreeSet, ops::ControlFlow};

use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, Select, SelectItem, TableFactor, VisitMut as _, VisitorMut,
};

use super::rewrite::{expr, virtual_table, words};

const NAME: &str = "xmin";

/// The tables that have it.
const OF: [&str; 4] =
    ["pg_catalog.pg_attribute", "pg_catalog.pg_class", "pg_catalog.pg_namespace", "pg_catalog.pg_type"];

/// Puts the number in its place.
pub(super) fn rewrite(statement: &mut ast::Statement) {
    let mut tables = Tables::default();
    let _ = statement.visit(&mut tables);
    if !tables.names.is_empty() {
        let _ = statement.visit(&mut Hidden { tables });
    }
}

/// What a statement reads.
#[derive(Default)]
struct Tables {
    /// What those that have the column are called in it.
    names: BTreeSet<String>,
    /// Whether there are others, which may have one of that name.
    has_others: bool,
}

impl VisitorMut for Tables {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else {
            self.has_others = true;
            return ControlFlow::Continue(());
        };
        match virtual_table(name) {
            Some(table) if OF.contains(&table.name) => {
                let plain = words(name).and_then(|words| words.last().map(|word| (*word).to_owned()));
                let alias = alias.as_ref().map(|alias| alias.name.value.clone());
                self.names.extend(alias.or(plain));
            }
            _ => self.has_others = true,
        }
        ControlFlow::Continue(())
    }
}

struct Hidden {
    tables: Tables,
}

impl Hidden {
    /// The number, where an expression is the column.
    fn number(&self, of: &Expr) -> Option<Expr> {
        let is_one = match of {
            Expr::Identifier(name) => !self.tables.has_others && name.value == NAME,
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [.., table, name] => name.value == NAME && self.tables.names.contains(&table.value),
                _ => false,
            },
            _ => false,
        };
        if is_one { expr("CAST(1 AS BIGINT)") } else { None }
    }
}

impl VisitorMut for Hidden {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(number) = self.number(expr)
            {
                *item = SelectItem::ExprWithAlias { expr: number, alias: Ident::new(NAME) };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(number) = self.number(expr) {
            *expr = number;
        }
        ControlFlow::Continue(())
    }
}
