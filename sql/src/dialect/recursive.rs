//! WITH RECURSIVE. The planner takes each UNION in it for a recursive query, and of such a one nothing but the two queries that it is
//! made of: a WITH before them, and ORDER BY, LIMIT and OFFSET behind, it passes over without a word.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, Query, SetExpr};

use crate::error::{Error, Result};

/// Has all of what is recursive be planned, or refuses it.
pub(super) fn rewrite(query: &mut Query) -> Result<()> {
    let Some(with) = query.with.as_mut().filter(|with| with.recursive) else { return Ok(()) };
    for table in &mut with.cte_tables {
        let name = &table.alias.name.value;
        let times = times(&*table.query, name);
        // The planner takes a second time, in a subquery, for another table.
        if times > 1 {
            return Err(Error::unsupported("a recursive query that reads itself several times"));
        }
        if times > 0 {
            bared(&mut table.query);
        }
        if !matches!(*table.query.body, SetExpr::SetOperation { .. }) {
            continue;
        }
        let is_cut = is_cut(&table.query);
        if times == 0 && (is_cut || table.query.with.is_some()) {
            let whole = table.query.clone();
            *table.query = of(Box::new(SetExpr::Query(whole)));
        } else if is_cut {
            let message = "ORDER BY, LIMIT and OFFSET of a recursive query (those of what reads it are)";
            return Err(Error::unsupported(message));
        } else if times > 0 && table.query.with.is_some() {
            // Each of its steps would make what is in there anew.
            let message = "a WITH of a recursive query's own (one before it, in the WITH that it is in, is)";
            return Err(Error::unsupported(message));
        }
    }
    Ok(())
}

fn is_cut(query: &Query) -> bool {
    query.order_by.is_some() || query.limit_clause.is_some() || query.fetch.is_some()
}

/// Takes the parentheses away that are around all of it.
fn bared(query: &mut Box<Query>) {
    while query.with.is_none()
        && !is_cut(query)
        && let SetExpr::Query(whole) = &mut *query.body
    {
        *query = whole.clone();
    }
}

/// How often something reads what has a name.
fn times(of: &impl ast::Visit, name: &str) -> usize {
    let mut times = 0;
    let _: ControlFlow<()> = ast::visit_relations(of, |read| {
        let is_own =
            matches!(read.0.as_slice(), [part] if part.as_ident().is_some_and(|read| read.value == name));
        times += usize::from(is_own);
        ControlFlow::Continue(())
    });
    times
}

fn of(body: Box<SetExpr>) -> Query {
    Query {
        with: None,
        body,
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}
