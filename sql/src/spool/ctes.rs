//! Common table expressions with a name of their own in a plan, each of which is made once if it would be other rows each time.

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    common::{
        Result, TableReference,
        tree_node::{Transformed, TransformedResult as _, TreeNodeRecursion},
    },
    execution::SessionState,
    logical_expr::{LogicalPlan, RecursiveQuery, SubqueryAlias},
};

use super::{is_volatile, repeats, spooled, takes_turns};
use crate::{
    correlated,
    dialect::{INLINED, MARK, RECURSIVE},
};

/// The plan with spools for those that it reads more than once; `None`: there are none.
///
/// # Errors
/// Where the plan of one is none.
pub(crate) fn shared(session: &SessionState, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let mut times: HashMap<TableReference, usize> = HashMap::new();
    plan.apply_with_subqueries(|plan| {
        if let Some((name, _)) = marked(plan) {
            *times.entry(name).or_default() += 1;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    times.retain(|_, times| *times > 1);
    if times.is_empty() {
        return Ok(None);
    }
    let mut sharing = Sharing { session, made: times.into_keys().map(|name| (name, None)).collect() };
    sharing.plan(plan.clone()).map(Some)
}

/// The name by which the query of a plan is the same wherever it stands, and what has its rows there.
fn marked(plan: &LogicalPlan) -> Option<(TableReference, &LogicalPlan)> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) if alias.alias.table().starts_with(MARK) => {
            Some((alias.alias.clone(), &alias.input))
        }
        // The plan that was made of it is the same.
        LogicalPlan::RecursiveQuery(query) => {
            Some((TableReference::partial(told_apart(query), query.name.clone()), plan))
        }
        _ => None,
    }
}

/// What tells a recursive query from others of its name.
fn told_apart(query: &RecursiveQuery) -> String {
    // It stands below the names of its columns.
    let mut plan = query.static_term.as_ref();
    loop {
        plan = match plan {
            LogicalPlan::SubqueryAlias(alias) if alias.alias.table().starts_with(RECURSIVE) => {
                return alias.alias.table().to_owned();
            }
            LogicalPlan::Projection(projection) => projection.input.as_ref(),
            _ => return "recursive".to_owned(),
        };
    }
}

struct Sharing<'a> {
    session: &'a SessionState,
    /// By the names of those that are read more than once, what was found and what is in its place; `None`: it was not met yet.
    made: HashMap<TableReference, Option<(LogicalPlan, LogicalPlan)>>,
}

impl Sharing<'_> {
    fn plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        plan.transform_down_with_subqueries(|plan| {
            let Some((name, rows)) = marked(&plan) else { return Ok(Transformed::no(plan)) };
            let made = match self.made.get(&name) {
                Some(Some((found, made))) if *found == plan => made.clone(),
                Some(None) => {
                    let made = self.once(&plan, rows, name.clone())?;
                    self.made.insert(name, Some((plan.clone(), made.clone())));
                    made
                }
                _ => return Ok(Transformed::no(plan)),
            };
            Ok(Transformed::new(made, true, TreeNodeRecursion::Jump))
        })
        .data()
    }

    /// What is in the place of a plan, whose rows are those of `rows`.
    fn once(&mut self, plan: &LogicalPlan, rows: &LogicalPlan, name: TableReference) -> Result<LogicalPlan> {
        let rows = match plan {
            LogicalPlan::SubqueryAlias(_) => self.plan(rows.clone())?,
            other => other.clone(),
        };
        let is_other = match name.table().starts_with(INLINED) {
            // As in PostgreSQL.
            true => is_volatile(&rows)?,
            false => !repeats(&rows)?,
        };
        // What reads the query around it is evaluated there.
        let is_shared = is_other && !takes_turns(&rows)? && !correlated::is_within(&rows);
        let rows = match is_shared {
            true => {
                let joined = correlated::set_apart(self.session, &rows)?;
                let own = TableReference::bare(name.to_string().replace('.', "_"));
                // Default: it has no correlated subqueries that are made joins here.
                spooled(joined.unwrap_or(rows), self.session, own)?
            }
            false => rows,
        };
        match plan {
            LogicalPlan::SubqueryAlias(_) => {
                Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(rows), name)?))
            }
            _ => Ok(rows),
        }
    }
}
