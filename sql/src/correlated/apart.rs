//! Which correlated subqueries the planner's own rules would make joins of that give other rows.

use std::{cell::Cell, collections::HashMap, ptr};

use datafusion::{
    common::{
        DFSchema, Result,
        tree_node::{TreeNode as _, TreeNodeRecursion},
    },
    logical_expr::{
        Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable as _, LogicalPlan, Operator,
        utils::split_conjunction,
    },
};

use super::outer_columns;
use crate::arithmetic::Arithmetic;

/// Whether a plan has a correlated subquery that the planner's own rules are not to have:
///
/// * with windows, limits or DISTINCT ON, which they would take over the rows of all values at once, or with rows of no
///   table, which they would take for there whatever the conditions are;
/// * one that a value is not to be in: they would have NULLs count where the subquery has no rows;
/// * one that is correlated by columns of one name: they are taken out of it by their names;
/// * one in the condition of a join, which they would put above one side as if it read no other;
/// * one with a join (`joins_values`), or with an aggregate (`takes_rows_together`).
pub(super) fn is_apart(plan: &LogicalPlan) -> Result<bool> {
    let found = Cell::new(false);
    plan.apply_with_subqueries(|plan| {
        let of_join = matches!(plan, LogicalPlan::Join(_));
        let look = |subquery: &LogicalPlan, gives_values: bool| -> Result<()> {
            if found.get() || outer_columns(subquery).is_empty() {
                return Ok(());
            }
            found.set(
                of_join
                    || has_one_name(subquery)?
                    || joins_values(subquery)?
                    || takes_rows_together(subquery, gives_values)?,
            );
            subquery.apply_with_subqueries(|plan| {
                let is_one = matches!(
                    plan,
                    LogicalPlan::Window(_)
                        | LogicalPlan::Limit(_)
                        | LogicalPlan::Distinct(Distinct::On(_))
                        | LogicalPlan::EmptyRelation(_)
                        | LogicalPlan::Values(_)
                );
                found.set(found.get() || is_one);
                Ok(TreeNodeRecursion::Continue)
            })?;
            Ok(())
        };
        if let LogicalPlan::Subquery(subquery) = plan {
            look(&subquery.subquery, true)?;
        }
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                match expr {
                    Expr::InSubquery(within) if within.negated => {
                        found.set(found.get() || !outer_columns(&within.subquery.subquery).is_empty());
                    }
                    Expr::Not(inner) => {
                        let is_within = inner.exists(|expr| {
                            Ok(matches!(expr, Expr::InSubquery(within)
                                if !outer_columns(&within.subquery.subquery).is_empty()))
                        })?;
                        found.set(found.get() || is_within);
                    }
                    Expr::ScalarSubquery(subquery) => look(&subquery.subquery, true)?,
                    Expr::Exists(exists) => look(&exists.subquery.subquery, false)?,
                    Expr::InSubquery(within) => look(&within.subquery.subquery, false)?,
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found.get())
}

/// Whether two of the columns that a subquery gives, or compares with what is around it, have one name.
fn has_one_name(subquery: &LogicalPlan) -> Result<bool> {
    let mut named: HashMap<String, Expr> = HashMap::new();
    let mut is_one = false;
    let mut add = |name: &str, expr: &Expr| {
        is_one |= named.insert(name.to_owned(), expr.clone()).is_some_and(|other| other != *expr);
    };
    if let LogicalPlan::Projection(projection) = subquery {
        for (field, expr) in projection.schema.fields().iter().zip(&projection.expr) {
            add(field.name(), &expr.clone().unalias());
        }
    }
    subquery.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            for condition in
                split_conjunction(expr).into_iter().filter(|condition| condition.contains_outer())
            {
                condition.column_refs().iter().for_each(|column| {
                    add(&column.name, &Expr::Column((*column).clone()));
                });
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(is_one)
}

/// Whether a subquery has a join that reads what is around it, in its condition or below. The rules would take that above
/// the join, also out of a side for whose rows it gives NULLs where the other has none; and they take another side that
/// is the same plan without its condition for one that had it. A join below what they take apart only after other rules
/// changed it is as good as one: these put conditions below the join.
fn joins_values(subquery: &LogicalPlan) -> Result<bool> {
    let (mut is_joined, mut is_late, mut found) = (false, false, false);
    subquery.apply(|plan| {
        match plan {
            LogicalPlan::Join(_) => {
                is_joined = true;
                found |= !outer_columns(plan).is_empty();
            }
            LogicalPlan::Filter(_) | LogicalPlan::Subquery(_) => {}
            LogicalPlan::Sort(_) | LogicalPlan::Union(_) => is_late |= !outer_columns(plan).is_empty(),
            plan => is_late |= plan.contains_outer_reference(),
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found || is_joined && is_late)
}

/// Whether a subquery takes rows together for which the rules would group by other columns than it compares with what is
/// around it, or of which they would drop one: the one that an aggregate without groups has, of no rows too. They have
/// that one where the values that a subquery gives are the aggregate's own.
fn takes_rows_together(subquery: &LogicalPlan, gives_values: bool) -> Result<bool> {
    let kept = if gives_values { of_values(subquery) } else { None };
    let mut found = false;
    subquery.apply_with_subqueries(|plan| {
        match plan {
            LogicalPlan::Aggregate(aggregate) if !outer_columns(&aggregate.input).is_empty() => {
                let groups = &aggregate.group_expr;
                let is_of_all =
                    groups.is_empty() || groups.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)));
                found |= is_of_all && !kept.is_some_and(|kept| ptr::eq(kept, aggregate));
                // Rows that are there twice are nothing else to EXISTS and IN.
                let is_distinct = aggregate.aggr_expr.is_empty() && !gives_values;
                found |= !is_distinct && !compares_columns(&aggregate.input)?;
            }
            LogicalPlan::Distinct(distinct) if gives_values => {
                found |= !compares_columns(distinct.input())?;
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// The aggregate over all rows whose values are what a subquery gives.
fn of_values(subquery: &LogicalPlan) -> Option<&Aggregate> {
    match subquery {
        LogicalPlan::Projection(projection) if projection.expr.iter().all(is_value) => {
            of_values(&projection.input)
        }
        LogicalPlan::SubqueryAlias(alias) => of_values(&alias.input),
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => Some(aggregate),
        _ => None,
    }
}

/// Whether an expression is a column, or is computed from some so that it is NULL where they are. Of others the rules
/// may not see that they read an aggregate: they are simplified first, `count(*) IS NULL` to false.
fn is_value(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Alias(alias) => is_value(&alias.expr),
        Expr::Cast(cast) => is_value(&cast.expr),
        Expr::ScalarFunction(of) => {
            let is_read = |arg: &Expr| is_value(arg) || matches!(arg, Expr::Literal(..));
            Arithmetic::of(&of.func).is_some() && of.args.iter().any(is_value) && of.args.iter().all(is_read)
        }
        _ => false,
    }
}

/// Whether all that a plan compares with what is around it are columns, each with an equal value of its own type. By
/// these the rules group; by a column that is cast they do so before the cast, where one value is many.
fn compares_columns(plan: &LogicalPlan) -> Result<bool> {
    let mut are_columns = true;
    plan.apply(|plan| {
        if let LogicalPlan::Filter(filter) = plan {
            let conditions = split_conjunction(&filter.predicate).into_iter();
            are_columns &= conditions
                .filter(|condition| condition.contains_outer())
                .all(|condition| is_of_column(condition, filter.input.schema()));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(are_columns)
}

fn is_of_column(condition: &Expr, schema: &DFSchema) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return false };
    let (own, other) = if left.contains_outer() { (right, left) } else { (left, right) };
    if !matches!(**own, Expr::Column(_)) || other.any_column_refs() {
        return false;
    }
    let (Ok(own), Ok(other)) = (own.get_type(schema), other.get_type(schema)) else { return false };
    own == other || own.is_integer() && other.is_integer() || own.is_string() && other.is_string()
}
