//! Common table expressions that are named more than once and may have other rows each time that they are evaluated: the planner
//! writes each down where it is named. They get a name in the plan that no other has, by which they are found there.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::{
    ast::{
        Expr, Query, SetExpr, Statement, TableFactor, Visit, VisitMut as _, Visitor, VisitorMut,
        visit_relations,
    },
    dialect::GenericDialect,
    parser::Parser,
};

use super::exprs::bare;

/// What the names begin with.
pub(crate) const MARK: &str = "basalt_cte_";

/// Functions whose values are others each time, or depend on the order of rows, or are rounded by it.
const UNSTEADY: [&str; 23] = [
    "any_value",
    "approx_percentile_cont",
    "approx_quantile",
    "array_agg",
    "avg",
    "corr",
    "covar_pop",
    "covar_samp",
    "first",
    "first_value",
    "gen_random_uuid",
    "group_concat",
    "last",
    "last_value",
    "list",
    "mean",
    "rand",
    "random",
    "regr_slope",
    "string_agg",
    "sum",
    "uuid",
    "variance",
];

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
            if self.times(&name) < 2 || !is_unsteady(&cte.query) || with.recursive && reads(&cte.query, &name)
            {
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

fn is_unsteady(query: &Query) -> bool {
    query.visit(&mut Unsteady).is_break()
}

struct Unsteady;

impl Visitor for Unsteady {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let is_one = query.limit_clause.is_some() || query.fetch.is_some();
        if is_one { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = bare(&function.name).map(|name| name.to_lowercase());
        let is_one = function.over.is_some() || name.is_some_and(|name| UNSTEADY.contains(&name.as_str()));
        if is_one { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
