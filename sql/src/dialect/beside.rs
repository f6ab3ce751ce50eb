//! A column beside a star that has the name of one of the star's, which the planner refuses.

use std::ops::ControlFlow;

use datafusion::{
    common::Column,
    sql::{
        parser::Statement,
        sqlparser::ast::{
            self, ExcludeSelectItem, Expr, Ident, ObjectName, OrderByKind, Query, Select, SelectItem,
            SelectItemQualifiedWildcardKind, SetExpr, VisitMut as _, VisitorMut, WildcardAdditionalOptions,
            With,
        },
    },
};

use crate::order::{self, written};

/// What is selected from where a column beside a star has the name of this one, which the star may give, in the order in which
/// these select lists are met.
pub(crate) fn sources(statement: &mut Statement, of: &Column) -> Vec<Query> {
    let Some(statement) = super::inner(statement) else { return Vec::new() };
    let mut sources = Sources { of, around: Vec::new(), found: Vec::new() };
    let _ = statement.visit(&mut sources);
    sources.found
}

/// Gives columns beside a star another name, in the select list of this number among those; whether there was one.
pub(crate) fn resolve(statement: &mut Statement, of: &Column, at: usize) -> bool {
    let Some(statement) = super::inner(statement) else { return false };
    let mut beside = Beside { of, left: at, is_done: false, behind: 0 };
    let _ = statement.visit(&mut beside);
    beside.is_done
}

struct Sources<'a> {
    of: &'a Column,
    /// The WITH of each query around, and how many queries were met in it.
    around: Vec<(Option<With>, usize)>,
    found: Vec<Query>,
}

impl VisitorMut for Sources<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some((_, met)) = self.around.last_mut() {
            *met += 1;
        }
        self.around.push((query.with.clone(), 0));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.around.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if !is_beside(select, self.of) {
            return ControlFlow::Continue(());
        }
        let Some(mut source) = order::over(select).into_iter().next() else { return ControlFlow::Break(()) };
        // The query that it is of has all of its WITH.
        for (depth, (with, met)) in self.around.iter().rev().enumerate() {
            let known = with.as_ref().and_then(|with| match depth {
                0 => Some(with.clone()),
                _ => order::seen(with, *met),
            });
            if let Some(known) = known {
                let Some(within) = order::within(source, &known) else { return ControlFlow::Break(()) };
                source = within;
            }
        }
        self.found.push(source);
        ControlFlow::Continue(())
    }
}

struct Beside<'a> {
    of: &'a Column,
    /// So many select lists stay as they are.
    left: usize,
    is_done: bool,
    /// How many queries there are around, of those that were met behind it.
    behind: usize,
}

impl Beside<'_> {
    fn other(&self, at: usize) -> Ident {
        Ident::with_quote('"', format!("{}:{at}", self.of.name))
    }
}

impl VisitorMut for Beside<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.behind += usize::from(self.is_done);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if self.is_done || !is_beside(select, self.of) {
            return ControlFlow::Continue(());
        }
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            return ControlFlow::Continue(());
        }
        let mut times = 0;
        for item in &mut select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item
                && written(alias) == self.of.name
            {
                times += 1;
                *alias = self.other(times);
            }
        }
        self.is_done = true;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(behind) = self.behind.checked_sub(1) {
            self.behind = behind;
            return ControlFlow::Continue(());
        }
        if !self.is_done {
            return ControlFlow::Continue(());
        }
        // In the order of a list a name is that of its column.
        if let SetExpr::Select(_) = &*query.body
            && let Some(ast::OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by
        {
            for key in keys {
                if matches!(&key.expr, Expr::Identifier(name) if written(name) == self.of.name) {
                    key.expr = Expr::Identifier(self.other(1));
                }
            }
        }
        ControlFlow::Break(())
    }
}

/// Whether a SELECT calls a column as one that a star beside it may give.
fn is_beside(select: &Select, of: &Column) -> bool {
    let is_called = |item: &SelectItem| matches!(item, SelectItem::ExprWithAlias { alias, .. } if written(alias) == of.name);
    select.projection.iter().any(|item| may_give(item, of)) && select.projection.iter().any(is_called)
}

fn may_give(item: &SelectItem, of: &Column) -> bool {
    let table = of.relation.as_ref().map(|relation| relation.table());
    match item {
        SelectItem::Wildcard(options) => !leaves_out(options, &of.name),
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(own), options) => {
            last(own).as_deref() == table && !leaves_out(options, &of.name)
        }
        _ => false,
    }
}

/// Whether a star leaves out a column of this name.
fn leaves_out(options: &WildcardAdditionalOptions, name: &str) -> bool {
    let is_excluded = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(own)) => last(own).as_deref() == Some(name),
        Some(ExcludeSelectItem::Multiple(names)) => {
            names.iter().any(|own| last(own).as_deref() == Some(name))
        }
        None => false,
    };
    is_excluded
        || options.opt_except.as_ref().is_some_and(|except| {
            std::iter::once(&except.first_element)
                .chain(&except.additional_elements)
                .any(|own| written(own) == name)
        })
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(|part| part.as_ident()).map(written)
}
