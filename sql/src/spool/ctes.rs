//! Common table expressions with a name of their own in a plan, each of which is made once if it would be other rows each time.

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    common::{
        Result, TableReference,
        tree_node::{Transformed, TransformedResult as _, TreeNodeRecursion},
    },
    execution::SessionState,
    logical_expr::{LogicalPlan, SubqueryAlias},
};

use super::{repeats, spooled, takes_turns};
use crate::{correlated, dialect::MARK};

/// The plan with spools for those that it reads more than once; `None`: there are none.
///
/// # Errors
/// Where the plan of one is none.
pub(crate) fn shared(session: &SessionState, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let mut times: HashMap<TableReference, usize> = HashMap::new();
    plan.apply_with_subqueries(|plan| {
        if let Some(alias) = marked(plan) {
            *times.entry(alias.alias.clone()).or_default() += 1;
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

fn marked(plan: &LogicalPlan) -> Option<&SubqueryAlias> {
    let LogicalPlan::SubqueryAlias(alias) = plan else { return None };
    alias.alias.table().starts_with(MARK).then_some(alias)
}

struct Sharing<'a> {
    session: &'a SessionState,
    /// By the names of those that are read more than once; `None`: it was not met yet.
    made: HashMap<TableReference, Option<LogicalPlan>>,
}

impl Sharing<'_> {
    fn plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        plan.transform_down_with_subqueries(|plan| {
            let Some(alias) = marked(&plan) else { return Ok(Transformed::no(plan)) };
            let name = alias.alias.clone();
            let made = match self.made.get(&name) {
                None => return Ok(Transformed::no(plan)),
                Some(Some(made)) => made.clone(),
                Some(None) => {
                    let body = self.plan(alias.input.as_ref().clone())?;
                    let made = self.once(body, name.clone())?;
                    self.made.insert(name, Some(made.clone()));
                    made
                }
            };
            Ok(Transformed::new(made, true, TreeNodeRecursion::Jump))
        })
        .data()
    }

    fn once(&self, body: LogicalPlan, name: TableReference) -> Result<LogicalPlan> {
        let alias =
            |body| Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(body), name.clone())?));
        // What reads the query around it is evaluated there.
        if repeats(&body)? || takes_turns(&body)? || correlated::is_within(&body) {
            return alias(body);
        }
        let joined = match correlated::is_apart(&body)? {
            true => correlated::decorrelated(self.session, &body)?,
            false => None,
        };
        // Default: it has no correlated subqueries that are made joins here.
        let body = joined.unwrap_or(body);
        alias(spooled(body, self.session, name.clone())?)
    }
}
