//! SET of several columns at once, which is SET of each: `(a, b) = (1, 2)` is `a = 1, b = 2`.

use datafusion::sql::sqlparser::ast::{
    self, Assignment, AssignmentTarget, Expr, OnConflict, OnConflictAction, OnInsert,
};

use super::quantified;
use crate::error::{Error, Result};

/// Parts what UPDATE, and INSERT ... ON CONFLICT, set.
///
/// # Errors
/// Other values than there are columns; a query of several columns.
pub(super) fn apart(statement: &mut ast::Statement) -> Result<()> {
    match statement {
        ast::Statement::Update(update) => each(&mut update.assignments),
        ast::Statement::Insert(insert) => match &mut insert.on {
            Some(OnInsert::OnConflict(OnConflict { action: OnConflictAction::DoUpdate(update), .. })) => {
                each(&mut update.assignments)
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn each(assignments: &mut Vec<Assignment>) -> Result<()> {
    for Assignment { target, value } in std::mem::take(assignments) {
        match target {
            AssignmentTarget::ColumnName(_) => assignments.push(Assignment { target, value }),
            AssignmentTarget::Tuple(columns) => {
                let values = values(value, columns.len())?;
                let targets = columns.into_iter().map(AssignmentTarget::ColumnName);
                let parted = targets.zip(values).map(|(target, value)| Assignment { target, value });
                assignments.extend(parted);
            }
        }
    }
    Ok(())
}

/// The values for so many columns.
fn values(value: Expr, columns: usize) -> Result<Vec<Expr>> {
    if columns > 1 && matches!(value, Expr::Subquery(_)) {
        let what = "SET of several columns to what one query gives (a query for each, or FROM, is)";
        return Err(Error::unsupported(what));
    }
    let row = quantified::row(&value).map(|row| row.into_iter().cloned().collect::<Vec<_>>());
    // Default: it is one value.
    let values = row.unwrap_or_else(|| vec![value]);
    match values.len() == columns {
        true => Ok(values),
        false => Err(Error::invalid(format!("SET has {} values for {columns} columns", values.len()))),
    }
}
