//! Lists of IN that are not made one list. Where AND or OR stand between two about one value, DataFusion's simplifier makes one
//! of them as if it knew all their values: NULL and columns are to it values like others, that the other list has or has not,
//! and a list of which nothing is left is false or true to it, also of a NULL. Such lists come from IN, and are made in the
//! midst of its work, of comparisons with OR between them and of patterns. So it sees each under a name of its own, below which
//! it has its way with it; those that OR joins, or NOT IN that AND joins, are one list rightly, and go under one name.

use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TreeNode as _, TreeNodeRecursion},
    },
    logical_expr::{
        BinaryExpr, Expr, LogicalPlan, Operator,
        expr::{Alias, InList},
        expr_rewriter::NamePreserver,
    },
};

/// The name.
const APART: &str = "basalt_apart";

/// Functions of which the simplifier makes lists.
const OF_LISTS: [&str; 2] = ["array_has", "regexp_like"];

/// What the simplifier makes of a plan in which lists of one expression are apart.
pub(crate) fn kept_apart(
    plan: LogicalPlan,
    simplify: impl FnOnce(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    let apart = plan.map_expressions(|expr| {
        // Grouping sets with a name are none; what they are of are columns.
        if matches!(expr, Expr::GroupingSet(_)) || !may_meet(&expr)? {
            return Ok(Transformed::no(expr));
        }
        Ok(match told_apart(expr.clone())? {
            Some(apart) => Transformed::yes(names.save(&expr).restore(apart)),
            None => Transformed::no(expr),
        })
    })?;
    if !apart.transformed {
        return simplify(apart.data);
    }
    let simplified = simplify(apart.data)?;
    // An aggregate may have come below a projection.
    let plan = together(simplified.data)?.data.map_children(together)?.data;
    Ok(Transformed::new_transformed(plan, simplified.transformed))
}

/// Whether there may be two lists in an expression, before it is looked at closely.
fn may_meet(expr: &Expr) -> Result<bool> {
    let mut found = 0_usize;
    expr.apply(|part| {
        let is_one = match part {
            Expr::BinaryExpr(BinaryExpr { op: Operator::Or | Operator::NotEq, .. }) => true,
            part => is_list(part),
        };
        found += usize::from(is_one);
        Ok(if found > 1 { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found > 1)
}

/// Whether it is a list, or becomes one.
fn is_list(expr: &Expr) -> bool {
    match expr {
        Expr::InList(_) => true,
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(
            op,
            Operator::RegexMatch | Operator::RegexIMatch | Operator::RegexNotMatch | Operator::RegexNotIMatch
        ),
        Expr::ScalarFunction(function) => OF_LISTS.contains(&function.func.name()),
        _ => false,
    }
}

fn is_mark(alias: &Alias) -> bool {
    alias.name == APART && alias.relation.is_none()
}

fn is_apart(expr: &Expr) -> bool {
    matches!(expr, Expr::Alias(alias) if is_mark(alias))
}

/// Whether a condition asks for one of some values, and not for none of them. `None`: for something else.
fn asks_for_one(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Alias(alias) if is_mark(alias) => joined_for_one(&alias.expr),
        Expr::Not(inner) => asks_for_one(inner).map(|asks| !asks),
        Expr::InList(list) => Some(!list.negated),
        Expr::Like(like) => Some(!like.negated),
        Expr::BinaryExpr(BinaryExpr { op, .. }) => match op {
            Operator::Eq | Operator::RegexMatch | Operator::RegexIMatch => Some(true),
            Operator::NotEq | Operator::RegexNotMatch | Operator::RegexNotIMatch => Some(false),
            _ => None,
        },
        Expr::ScalarFunction(_) if is_list(expr) => Some(true),
        _ => None,
    }
}

/// The same of what is apart, which is joined by one of AND and OR.
fn joined_for_one(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => Some(true),
        Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => Some(false),
        Expr::Not(inner) => joined_for_one(inner).map(|asks| !asks),
        expr => asks_for_one(expr),
    }
}

/// An expression in which each list is apart, if there are several.
fn told_apart(expr: Expr) -> Result<Option<Expr>> {
    let mut lists = 0_usize;
    let apart = expr.transform_up(|expr| {
        // How many that are apart already it joins.
        let joined = match &expr {
            expr if is_list(expr) => Some(0),
            Expr::Not(inner) if is_apart(inner) => Some(1),
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                let sides = [&**left, &**right];
                let wanted = Some(*op == Operator::Or);
                let is_one = sides.iter().all(|side| asks_for_one(side) == wanted);
                is_one.then(|| sides.iter().filter(|side| is_apart(side)).count())
            }
            _ => None,
        };
        let Some(joined) = joined else { return Ok(Transformed::no(expr)) };
        lists = lists + 1 - joined;
        let expr = match expr {
            Expr::Not(inner) => Expr::Not(Box::new(opened(*inner))),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (left, right) = (Box::new(opened(*left)), Box::new(opened(*right)));
                Expr::BinaryExpr(BinaryExpr { left, op, right })
            }
            list => list,
        };
        Ok(Transformed::yes(expr.alias(APART)))
    })?;
    Ok((lists > 1).then_some(apart.data))
}

fn opened(expr: Expr) -> Expr {
    match expr {
        Expr::Alias(alias) if is_mark(&alias) => *alias.expr,
        other => other,
    }
}

/// A plan whose lists have no names any longer; NOT before a list is in it.
fn together(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.map_expressions(|expr| {
        expr.transform_up(|expr| {
            Ok(match expr {
                Expr::Alias(alias) if is_mark(&alias) => Transformed::yes(*alias.expr),
                Expr::Not(inner) => match *inner {
                    Expr::InList(InList { expr, list, negated }) => {
                        Transformed::yes(Expr::InList(InList { expr, list, negated: !negated }))
                    }
                    inner => Transformed::no(Expr::Not(Box::new(inner))),
                },
                other => Transformed::no(other),
            })
        })
    })
}
