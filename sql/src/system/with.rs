//! Queries that WITH calls as a virtual table is called, or as a WITH around it calls another. Such a name is meant before the table's or
//! the other's, from the queries behind it on: it becomes one of its own, by which it is read wherever it is meant, so that what is left
//! of that name is the table or the other. The planner knows each name once.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Ident, ObjectName, ObjectNamePart, Query, TableAlias, TableFactor, VisitMut as _, VisitorMut,
};

use super::rewrite::virtual_table;
use crate::error::{Error, Result};

pub(super) fn rewrite(statement: &mut ast::Statement) -> Result<()> {
    let mut names = Names { scopes: Vec::new(), made: 0, fault: None };
    let _ = statement.visit(&mut names);
    names.fault.map_or(Ok(()), Err)
}

/// What a query has in its WITH.
struct Scope {
    /// What they are called, in turn, and what those are called instead that have the name of a virtual table or of another.
    names: Vec<(String, Option<Ident>)>,
    is_recursive: bool,
    /// How many of the queries right below this one have been met. Those of its WITH are the first.
    met: usize,
}

impl Scope {
    fn of(query: &Query) -> Self {
        let with = query.with.as_ref();
        let tables = with.iter().flat_map(|with| &with.cte_tables);
        Self {
            names: tables.map(|table| (plain(&table.alias.name), None)).collect(),
            is_recursive: with.is_some_and(|with| with.recursive),
            met: 0,
        }
    }

    /// What it calls a name, where that is meant in the query itself or in the one below it that was met last.
    fn meant(&self, name: &str, is_itself: bool) -> Option<&(String, Option<Ident>)> {
        let known = match self.met.checked_sub(1) {
            Some(at) if !is_itself && at < self.names.len() => at + usize::from(self.is_recursive),
            _ => self.names.len(),
        };
        self.names.iter().take(known).find(|(called, _)| called == name)
    }
}

struct Names {
    scopes: Vec<Scope>,
    made: usize,
    fault: Option<Error>,
}

impl Names {
    /// Whether a query around the one that was met last has such a name for it, or one of those names of its own.
    fn is_around(&self, name: &str) -> bool {
        let is_own = |(_, own): &(String, Option<Ident>)| own.as_ref().is_some_and(|own| own.value == name);
        self.scopes.iter().any(|scope| scope.meant(name, false).is_some() || scope.names.iter().any(is_own))
    }

    /// A name that no query around has.
    fn own(&mut self) -> Ident {
        loop {
            self.made += 1;
            let name = format!("basalt_with_{}", self.made);
            if !self.is_around(&name) {
                return Ident::with_quote('"', name);
            }
        }
    }

    fn meant(&self, name: &str) -> Option<Ident> {
        let inner = self.scopes.len().checked_sub(1)?;
        let mut scopes = self.scopes.iter().enumerate().rev();
        let (_, own) = scopes.find_map(|(at, scope)| scope.meant(name, at == inner))?;
        own.clone()
    }
}

/// A name as it is compared.
fn plain(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(around) = self.scopes.last_mut() {
            around.met += 1;
        }
        let mut scope = Scope::of(query);
        let tables = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
        for (at, table) in tables.enumerate() {
            let name = &mut table.alias.name;
            let plain = plain(name);
            if scope.names.iter().take(at).any(|(called, _)| *called == plain) {
                self.fault =
                    Some(Error::invalid(format!("WITH query name {plain:?} specified more than once")));
                return ControlFlow::Break(());
            }
            if virtual_table(&ObjectName(vec![ObjectNamePart::Identifier(name.clone())])).is_some()
                || self.is_around(&plain)
            {
                *name = self.own();
                if let Some((_, own)) = scope.names.get_mut(at) {
                    *own = Some(name.clone());
                }
            }
        }
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args: None, .. } = factor
            && let [ObjectNamePart::Identifier(called)] = name.0.as_slice()
            && let Some(own) = self.meant(&plain(called))
        {
            let called = called.clone();
            if alias.is_none() {
                *alias = Some(TableAlias { explicit: true, name: called, columns: Vec::new(), at: None });
            }
            *name = ObjectName(vec![ObjectNamePart::Identifier(own)]);
        }
        ControlFlow::Continue(())
    }
}
