//! Keys of groups: `()`, which is none, places of the select list within grouping sets, and those that would be too many, before
//! the planner writes each of them down: CUBE of 24 keys stands for 16 million.

use basalt_core::error::ErrorKind;
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem, UnaryOperator, Value};

use super::{exprs::parsed, selects::has_columns};
use crate::{
    error::{Error, Result},
    limits,
};

/// Leaves out `()`. Where there are no other keys all rows are one group, also where nothing is aggregated, and where there
/// are no rows.
pub(super) fn without_empty(select: &mut Select) -> Result<()> {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return Ok(()) };
    let before = keys.len();
    keys.retain(|key| !matches!(key, Expr::Tuple(parts) if parts.is_empty()));
    if keys.len() == before || !keys.is_empty() {
        return Ok(());
    }
    let having = select.having.take();
    select.having = Some(match having {
        Some(having) => parsed("count(*) >= 0 AND $1", &[having], &mut 0)?,
        None => parsed("count(*) >= 0", &[], &mut 0)?,
    });
    Ok(())
}

/// Has a whole number within GROUPING SETS, ROLLUP or CUBE be what stands in that place of the select list, as it is beside them: the
/// planner takes it for a constant. `doubled` counts the bytes of what is put there.
pub(super) fn by_place(select: &mut Select, doubled: &mut usize) -> Result<()> {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return Ok(()) };
    let parts = keys.iter_mut().filter_map(|key| match key {
        Expr::GroupingSets(parts) | Expr::Rollup(parts) | Expr::Cube(parts) => Some(parts),
        _ => None,
    });
    let places = parts.flatten().flatten().filter_map(|key| {
        let place = whole(key)?;
        Some((place, key))
    });
    let mut places = places.peekable();
    if places.peek().is_none() {
        return Ok(());
    }
    // Behind what stands for several columns, places are not known yet.
    let known = select.projection.iter().map_while(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } if !has_columns(item) => {
            Some(expr)
        }
        _ => None,
    });
    let known: Vec<&Expr> = known.collect();
    let items = select.projection.len();
    for (place, key) in places {
        let index = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
        let Some(item) = index.and_then(|index| known.get(index).copied()) else {
            if known.len() < items {
                continue;
            }
            // The words are the planner's for a place beside grouping sets.
            return Err(Error::invalid(format!(
                "cannot find column with position {place} in SELECT clause. Valid columns: 1 to {items}"
            )));
        };
        *doubled += item.to_string().len();
        if *doubled > limits::STATEMENT_BYTES {
            let message = "the keys of the groups stand for too much of the select list";
            return Err(Error::new(ErrorKind::FilterTooLarge, message));
        }
        *key = match whole(item) {
            // It is a constant, no place.
            Some(_) => Expr::Nested(Box::new(item.clone())),
            None => item.clone(),
        };
    }
    Ok(())
}

/// A whole number that stands there without parentheses.
fn whole(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse().ok(),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            whole(expr).filter(|number| *number >= 0).map(|number| -number)
        }
        _ => None,
    }
}

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

/// Has what stands for sets in which a key is several times be these sets, with each key once: the planner has no two columns
/// of one name. So has ROLLUP or CUBE of lists in parentheses, which the planner has not. There are not too many of them.
pub(super) fn once(select: &mut Select) {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    for key in keys {
        let (parts, has_lists) = match key {
            Expr::GroupingSets(parts) => (parts, false),
            Expr::Rollup(parts) | Expr::Cube(parts) => {
                let has_lists = parts.iter().any(|part| part.len() != 1);
                (parts, has_lists)
            }
            _ => continue,
        };
        let all: Vec<&Expr> = parts.iter().flatten().collect();
        if !has_lists && (1..all.len()).all(|at| !all[..at].contains(&all[at])) {
            continue;
        }
        let set = |parts: &mut dyn Iterator<Item = &Vec<Expr>>| {
            let mut set: Vec<Expr> = Vec::new();
            for part in parts.flatten() {
                if !set.contains(part) {
                    set.push(part.clone());
                }
            }
            set
        };
        *key = Expr::GroupingSets(match key {
            Expr::Rollup(parts) => (0..=parts.len()).map(|to| set(&mut parts.iter().take(to))).collect(),
            Expr::Cube(parts) => (0..1_usize << parts.len())
                .map(|of| {
                    let chosen = parts.iter().enumerate().filter(|(at, _)| of >> at & 1 == 1);
                    set(&mut chosen.map(|(_, part)| part))
                })
                .collect(),
            Expr::GroupingSets(parts) => parts.iter().map(|part| set(&mut std::iter::once(part))).collect(),
            _ => continue,
        });
    }
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
