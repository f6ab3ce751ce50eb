//! Common table expressions that are named more than once: the planner writes each down where it is named, and it may have other
//! rows each time that it is evaluated. They get a name in the plan that no other has, by which they are found there.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::{
    ast::{Query, SetExpr, Statement, TableFactor, VisitMut as _, VisitorMut, visit_relations},
    dialect::GenericDialect,
    parser::Parser,
};

use super::exprs::bare;

/// What the names begin with.
pub(crate) const MARK: &str = "basalt_cte_";

/// Whether any was given a name.
pub(crate) fn mark(statement: &mut Statement) -> bool {
    let mut names: Vec<String> = Vec::new();
    let _ = visit_relations(statement, |name| {
        names.extend(bare(name).map(|name| name.to_lowercase()));
        ControlFlow::<()>::Continue(())
    });
    let mut marks = Marks { names, marked: 0 };
    let _ = statement.visit(&mut marks);
    marks.marked > 0
}

struct Marks {
    /// The names of all relations, as often as they stand there.
    names: Vec<String>,
    marked: usize,
}

impl Marks {
    fn times(&self, name: &str) -> usize {
        self.names.iter().filter(|named| *named == name).count()
    }
}

impl VisitorMut for Marks {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(with) = &mut query.with else { return ControlFlow::Continue(()) };
        for cte in &mut with.cte_tables {
            let name = cte.alias.name.value.to_lowercase();
            // A recursive one is found by its own name.
            if self.times(&name) < 2 || with.recursive && reads(&cte.query, &name) {
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
        Some(name) if name.to_lowercase() == wanted => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
