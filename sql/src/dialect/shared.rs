//! Common table expressions that are named more than once: the planner writes each down where it is named, and it may have other
//! rows each time that it is evaluated. They get a name in the plan that no other has, by which they are found there.

use std::{collections::HashMap, ops::ControlFlow};

use datafusion::sql::sqlparser::{
    ast::{
        Cte, ObjectName, Query, SetExpr, Statement, TableFactor, Visit as _, VisitMut as _, Visitor,
        VisitorMut, visit_relations,
    },
    dialect::GenericDialect,
    parser::Parser,
};

use super::exprs::bare;

/// What the names begin with.
pub(crate) const MARK: &str = "basalt_cte_";

/// Whether a statement has such ones, maybe: most have none, and need not be copied to be marked.
pub(crate) fn has_shared(statement: &Statement) -> bool {
    let named = Named::of(statement);
    named.queries.iter().any(|query| named.times(query) > 1)
}

/// Whether any was given a name.
pub(crate) fn mark(statement: &mut Statement) -> bool {
    let mut marks = Marks { named: Named::of(statement), marked: 0 };
    let _ = statement.visit(&mut marks);
    marks.marked > 0
}

/// What a statement names.
#[derive(Default)]
struct Named {
    /// Its common table expressions.
    queries: Vec<String>,
    /// How often its relations stand there.
    relations: HashMap<String, usize>,
}

impl Named {
    fn of(statement: &Statement) -> Self {
        let mut named = Self::default();
        let _ = statement.visit(&mut named);
        named
    }

    fn times(&self, name: &str) -> usize {
        // Default: it is named nowhere.
        self.relations.get(name).copied().unwrap_or_default()
    }
}

impl Visitor for Named {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.queries.extend(ctes.map(name_of));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if let Some(name) = bare(relation) {
            *self.relations.entry(name).or_default() += 1;
        }
        ControlFlow::Continue(())
    }
}

fn name_of(cte: &Cte) -> String {
    cte.alias.name.value.to_lowercase()
}

struct Marks {
    named: Named,
    marked: usize,
}

impl VisitorMut for Marks {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(with) = &mut query.with else { return ControlFlow::Continue(()) };
        for cte in &mut with.cte_tables {
            let name = name_of(cte);
            // A recursive one is found by its own name.
            if self.named.times(&name) < 2 || with.recursive && reads(&cte.query, &name) {
                continue;
            }
            let Some(wrapped) = within(&cte.query, self.marked) else { continue };
            self.marked += 1;
            *cte.query = wrapped;
        }
        ControlFlow::Continue(())
    }
}

/// A query that selects all of another, which has a name.
fn within(query: &Query, number: usize) -> Option<Query> {
    let text = format!("SELECT * FROM (SELECT 1) AS {MARK}{number}");
    let mut whole = *Parser::new(&GenericDialect {}).try_with_sql(&text).ok()?.parse_query().ok()?;
    let SetExpr::Select(select) = &mut *whole.body else { return None };
    let Some(TableFactor::Derived { subquery, .. }) = select.from.first_mut().map(|from| &mut from.relation)
    else {
        return None;
    };
    **subquery = query.clone();
    Some(whole)
}

fn reads(query: &Query, wanted: &str) -> bool {
    let found = visit_relations(query, |name| match bare(name) {
        Some(name) if name == wanted => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
