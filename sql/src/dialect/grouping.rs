//! Grouping sets that would be too many, before the planner writes each of them down: CUBE of 24 keys stands for 16 million.

use basalt_core::error::ErrorKind;
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select};

use crate::{
    error::{Error, Result},
    limits,
};

/// Refuses what stands for too many sets.
pub(super) fn check(select: &Select) -> Result<()> {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else { return Ok(()) };
    let has_sets = |key: &Expr| matches!(key, Expr::GroupingSets(_) | Expr::Rollup(_) | Expr::Cube(_));
    if !keys.iter().any(has_sets) {
        return Ok(());
    }
    if keys.iter().any(|key| matches!(key, Expr::Tuple(_))) {
        return Err(Error::unsupported("GROUPING SETS, ROLLUP or CUBE beside a list in parentheses"));
    }
    // Several stand for each set of one with each of the others.
    let sets = keys.iter().map(sets).fold(1, usize::saturating_mul);
    if sets > limits::SETS {
        let message = format!("the statement groups by more than {} sets of keys", limits::SETS);
        return Err(Error::new(ErrorKind::FilterTooLarge, message));
    }
    Ok(())
}

/// How many sets a key stands for, or more than there may be.
fn sets(key: &Expr) -> usize {
    match key {
        Expr::GroupingSets(sets) => sets.len(),
        Expr::Rollup(keys) => keys.len() + 1,
        // Default: more than there are numbers.
        Expr::Cube(keys) => {
            u32::try_from(keys.len()).ok().and_then(|keys| 1_usize.checked_shl(keys)).unwrap_or(usize::MAX)
        }
        _ => 1,
    }
}
