//! UNNEST of a list WITH ORDINALITY: a query of its values and their numbers.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Ident, SelectItem, TableAlias, TableFactor, visit_expressions};

use super::exprs::{check_doubled, parsed};
use crate::{
    error::{Error, Result},
    write::{quoted, select, template},
};

/// Puts the query in its place. `doubled` counts the bytes of the list, which stands there twice.
///
/// # Errors
/// Names for more columns than there are.
pub(super) fn numbered(factor: &mut TableFactor, doubled: &mut usize) -> Result<()> {
    let TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality: true, .. } = factor
    else {
        return Ok(());
    };
    // Several lists are refused by the planner.
    let [list] = array_exprs.as_slice() else { return Ok(()) };
    *doubled += list.to_string().len();
    check_doubled(*doubled, "calls of unnest")?;
    let name = alias.as_ref().map_or_else(|| quoted("unnest"), |alias| alias.name.clone());
    let mut columns = [name.clone(), quoted("ordinality")];
    let given: Vec<Ident> =
        alias.iter().flat_map(|alias| &alias.columns).map(|column| column.name.clone()).collect();
    if given.len() > columns.len() {
        return Err(Error::invalid("UNNEST WITH ORDINALITY has two columns"));
    }
    columns.iter_mut().zip(given).for_each(|(column, given)| *column = given);
    // Columns are of tables before it. Without any it stands in every join, as a LATERAL one does not.
    let lateral = visit_expressions(list, |expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break();
    let values = ["unnest($1)", "unnest(range(1, len($1) + 1))"];
    let items = values.into_iter().zip(columns).map(|(value, alias)| {
        let expr = parsed(value, std::slice::from_ref(list), &mut 0)?;
        Ok::<_, Error>(SelectItem::ExprWithAlias { expr, alias })
    });
    let items = items.collect::<Result<Vec<_>>>()?;
    let mut subquery = template("SELECT 1")?;
    select(&mut subquery)?.projection = items;
    let alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
    *factor = TableFactor::Derived { lateral, subquery, alias, sample: None };
    Ok(())
}
