//! Functions that give rows of one column, and are called as that is: `SELECT g FROM generate_series(1, 3) AS g`, as PostgreSQL
//! has it. Columns that have the name are meant before, so it is looked for only when the planner has found none; but for those
//! of queries around, which are meant behind it.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement,
    sqlparser::{
        ast::{
            self, Expr, Ident, Query, Select, SelectItem, SetExpr, TableAlias, TableAliasColumnDef,
            TableFactor, VisitMut as _, VisitorMut,
        },
        tokenizer::Location,
    },
};

use super::{elements::VALUE, exprs::bare};

/// Functions of one column.
pub(super) const SERIES: [&str; 2] = ["generate_series", "range"];
/// What their columns are called without a name, and that of UNNEST.
const OF_SERIES: &[&str] = &["generate_series", "range", "value"];
const OF_LISTS: &[&str] = &["unnest"];
/// What the values of an array of JSON are called.
const OF_ELEMENTS: &[&str] = &[VALUE];

/// Names the column of such a function as the function is called, where a name stands that no column has; whether there was one.
pub(crate) fn resolve(statement: &mut Statement, place: Location) -> bool {
    let Some(statement) = super::inner(statement) else { return false };
    let mut called = Called { place, depth: 0, name: None, renamed: None };
    statement.visit(&mut called).is_break()
}

struct Called {
    place: Location,
    /// Selects around.
    depth: usize,
    /// The name, and how many selects around it have not been looked at.
    name: Option<(Ident, usize)>,
    /// The column that has its name now.
    renamed: Option<Renamed>,
}

/// A column that has got another name.
#[derive(Clone)]
struct Renamed {
    /// That of its table is its own, too.
    alias: TableAlias,
    /// What it was called before.
    before: &'static [&'static str],
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
        if *around < depth || self.renamed.is_some() {
            return ControlFlow::Continue(());
        }
        *around = depth - 1;
        self.renamed = name_in(select, name);
        ControlFlow::Continue(())
    }

    /// What a query is ordered by stands behind its select.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(of) = self.renamed.take() else { return ControlFlow::Continue(()) };
        if let (SetExpr::Select(_), Some(order_by)) = (&*query.body, &mut query.order_by) {
            let _ = order_by.visit(&mut Rename { of, selects: 1, hidden: 0 });
        }
        ControlFlow::Break(())
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

/// The tables of a select, in turn.
fn tables(select: &Select) -> impl Iterator<Item = &TableFactor> {
    select.from.iter().flat_map(|table| {
        std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation))
    })
}

/// The same, to be changed.
fn tables_mut(select: &mut Select) -> impl Iterator<Item = &mut TableFactor> {
    select.from.iter_mut().flat_map(|table| {
        std::iter::once(&mut table.relation).chain(table.joins.iter_mut().map(|join| &mut join.relation))
    })
}

/// Gives the column of a function among a select's tables that is called so its name, also where it stands by the one that it had.
fn name_in(select: &mut Select, name: &Ident) -> Option<Renamed> {
    let of = tables_mut(select).find_map(|table| names(table, name))?;
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) = item
            && let [table, column] = parts.as_slice()
            && of.is_one(table, column)
        {
            // It is called as before in the answer.
            let (expr, alias) = (Expr::CompoundIdentifier(parts.clone()), column.clone());
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    let _ = select.visit(&mut Rename { of: of.clone(), selects: 0, hidden: 0 });
    Some(of)
}

impl Renamed {
    /// Whether a column of a table is the one, by the name that it had.
    fn is_one(&self, table: &Ident, column: &Ident) -> bool {
        is_called(&self.alias, table)
            && self.before.iter().any(|before| column.value.eq_ignore_ascii_case(before))
    }

    /// Whether a select has a table of its own that is called so.
    fn is_hidden(&self, select: &Select) -> bool {
        tables(select).any(|table| match table {
            TableFactor::Table { alias: None, name, .. } => name
                .0
                .last()
                .and_then(|part| part.as_ident())
                .is_some_and(|name| is_called(&self.alias, name)),
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. } => is_called(&self.alias, &alias.name),
            _ => false,
        })
    }
}

/// Puts the name that a column has now in the places of the one that it had.
struct Rename {
    of: Renamed,
    /// Selects around.
    selects: usize,
    /// Those of them within which the table is another.
    hidden: usize,
}

impl VisitorMut for Rename {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.hidden += usize::from(self.selects > 0 && self.of.is_hidden(select));
        self.selects += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.selects -= 1;
        self.hidden -= usize::from(self.selects > 0 && self.of.is_hidden(select));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.hidden == 0
            && let Expr::CompoundIdentifier(parts) = expr
            && let [table, column, ..] = parts.as_mut_slice()
            && self.of.is_one(table, column)
        {
            *column = Ident { span: column.span, ..self.of.alias.name.clone() };
        }
        ControlFlow::Continue(())
    }
}

/// Gives the column of a function that is called so its name; `None`: it is no such function, or its column has another.
fn names(table: &mut TableFactor, name: &Ident) -> Option<Renamed> {
    let (alias, own, before) = match table {
        TableFactor::Table { name: function, alias: Some(alias), args: Some(_), .. } => {
            let function = bare(function).filter(|name| SERIES.contains(&name.as_str()))?;
            (alias, function, OF_SERIES)
        }
        TableFactor::UNNEST { alias: Some(alias), array_exprs, .. } if array_exprs.len() == 1 => {
            let before = if alias.columns.is_empty() { OF_LISTS } else { OF_ELEMENTS };
            (alias, VALUE.to_owned(), before)
        }
        _ => return None,
    };
    // A series may have its own name for it already, and so may the values of an array of JSON.
    let is_free = match alias.columns.as_slice() {
        [] => true,
        [column] => column.name == Ident::with_quote('"', own),
        _ => false,
    };
    if !is_free || !is_called(alias, name) {
        return None;
    }
    alias.columns = vec![TableAliasColumnDef { name: alias.name.clone(), data_type: None }];
    Some(Renamed { alias: alias.clone(), before })
}

/// Names the columns of such functions in queries within others, which have no other tables: the planner would find a column of
/// that name in a query around.
pub(super) fn name_within(statement: &mut ast::Statement) {
    let changes = matches!(statement, ast::Statement::Update(_) | ast::Statement::Delete(_));
    let _ = statement.visit(&mut Inner { around: usize::from(changes) });
}

struct Inner {
    /// Selects around, and the statement, where it is of rows that its queries see.
    around: usize,
}

impl VisitorMut for Inner {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.around > 0
            && let SetExpr::Select(select) = &mut *query.body
        {
            name_all(select, query.order_by.as_mut());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if self.around > 0 {
            name_all(select, None);
        }
        self.around += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.around -= 1;
        ControlFlow::Continue(())
    }
}

/// The alias of such a function whose column has no name yet, and what the column is called then.
fn unnamed(table: &TableFactor) -> Option<(&TableAlias, &'static [&'static str])> {
    let (alias, own) = match table {
        TableFactor::Table { name, alias: Some(alias), args: Some(_), .. } => {
            bare(name).filter(|name| SERIES.contains(&name.as_str()))?;
            (alias, OF_SERIES)
        }
        TableFactor::UNNEST { alias: Some(alias), array_exprs, .. } if array_exprs.len() == 1 => {
            (alias, OF_LISTS)
        }
        _ => return None,
    };
    alias.columns.is_empty().then_some((alias, own))
}

/// Names the columns of a select whose tables are such functions all, where they stand in it by the name of their function.
fn name_all(select: &mut Select, mut order_by: Option<&mut ast::OrderBy>) {
    let mut found = Vec::new();
    for table in tables(select) {
        match unnamed(table) {
            Some((alias, own)) => found.push((alias.clone(), own)),
            None => return,
        }
    }
    let named = found.into_iter().map(|(alias, own)| {
        // An item of the list that is called so may be what the query is grouped or ordered by.
        let is_item = select.projection.iter().any(|item| match item {
            SelectItem::ExprWithAlias { alias: item, expr } => {
                is_called(&alias, item) && !matches!(expr, Expr::Identifier(name) if is_called(&alias, name))
            }
            _ => false,
        });
        Stands { alias, own, is_item, selects: 0, tables: 0, by_name: false, otherwise: false }
    });
    let mut named: Vec<Stands> = named.collect();
    for stands in &mut named {
        let _ = select.visit(stands);
        if let Some(order_by) = &mut order_by {
            let _ = order_by.visit(stands);
        }
    }
    for name in named.iter().filter(|stands| stands.by_name && !stands.otherwise) {
        for table in tables_mut(select) {
            names(table, &name.alias.name);
        }
    }
}

/// Where the column of a function stands in a select and those within it, but for the arguments of its tables, which see none.
struct Stands {
    alias: TableAlias,
    /// What the column is called without a name.
    own: &'static [&'static str],
    /// An item of the select's list has the name.
    is_item: bool,
    /// Selects around.
    selects: usize,
    /// Tables of the select around.
    tables: usize,
    by_name: bool,
    /// It stands there as it is called without a name.
    otherwise: bool,
}

impl VisitorMut for Stands {
    type Break = ();

    fn pre_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.selects += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
        self.selects -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, _: &mut TableFactor) -> ControlFlow<()> {
        self.tables += usize::from(self.selects == 1 || self.tables > 0);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, _: &mut TableFactor) -> ControlFlow<()> {
        self.tables -= usize::from(self.tables > 0);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.tables > 0 {
            return ControlFlow::Continue(());
        }
        let own = self.own;
        let is_own = |name: &Ident| own.iter().any(|own| name.value.eq_ignore_ascii_case(own));
        match expr {
            Expr::Identifier(name) if is_called(&self.alias, name) => self.by_name = true,
            Expr::Identifier(name) if self.is_item && is_own(name) => self.otherwise = true,
            Expr::CompoundIdentifier(parts) => {
                if let [table, column, ..] = parts.as_slice()
                    && is_called(&self.alias, table)
                    && is_own(column)
                {
                    self.otherwise = true;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_called(alias: &TableAlias, name: &Ident) -> bool {
    match (alias.name.quote_style, name.quote_style) {
        (Some(_), Some(_)) => alias.name.value == name.value,
        _ => alias.name.value.eq_ignore_ascii_case(&name.value),
    }
}
