//! How many relations a statement has when each CTE stands where it is named: the planner writes it down there each time, so that a
//! short text in which each doubles the one before it would take all memory.

use std::{collections::HashMap, ops::ControlFlow};

use basalt_core::error::ErrorKind;
use datafusion::sql::sqlparser::ast::{self, Visit, visit_relations};

use super::exprs::bare;
use crate::{
    error::{Error, Result},
    limits,
};

/// Fails where there are too many.
pub(super) fn check(statement: &ast::Statement) -> Result<()> {
    let ast::Statement::Query(query) = statement else { return Ok(()) };
    let Some(with) = &query.with else { return Ok(()) };
    let mut known = HashMap::new();
    for cte in &with.cte_tables {
        let relations = relations(&*cte.query, &known);
        known.insert(cte.alias.name.value.to_lowercase(), relations.max(1));
    }
    let all = relations(&*query.body, &known);
    match all > limits::RELATIONS {
        true => {
            let message = format!(
                "{all} relations, with each WITH where it is named; the limit is {}",
                limits::RELATIONS
            );
            Err(Error::new(ErrorKind::FilterTooLarge, message))
        }
        false => Ok(()),
    }
}

fn relations(of: &impl Visit, known: &HashMap<String, u64>) -> u64 {
    let mut all = 0_u64;
    let _ = visit_relations(of, |name| {
        let relations = bare(name).and_then(|name| known.get(&name).copied());
        // Default: it is a table.
        all = all.saturating_add(relations.unwrap_or(1));
        ControlFlow::<()>::Continue(())
    });
    all
}
