//! Keys of groups: `()`, which is none, and grouping sets that would be too many, before the planner writes each of them down:
//! CUBE of 24 keys stands for 16 million.

use basalt_core::error::ErrorKind;
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select};

use super::exprs::parsed;
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
