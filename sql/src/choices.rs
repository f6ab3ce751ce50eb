//! Expressions that choose among others: CASE, NULLIF, and IN with such in its list.

use arrow_schema::DataType;
use datafusion::{
    common::{DFSchema, ScalarValue, tree_node::TreeNode as _},
    logical_expr::{
        Between, Case, Expr, ExprSchemable as _, SortExpr,
        type_coercion::other::get_coerce_type_for_case_expression,
        utils::{conjunction, disjunction},
    },
};

use crate::coerce;

/// Makes what a CASE chooses from of one type, as it will be: until the planner does so, the CASE has that of its first
/// THEN, to which a UNION would cut the others.
pub(crate) fn alike(sides: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let types: Vec<_> = sides.iter().map(|side| side.get_type(schema).unwrap_or(DataType::Null)).collect();
    let mut known = types.iter().filter(|data_type| !data_type.is_null());
    let Some(first) = known.next() else { return false };
    if known.all(|other| other == first) {
        return false;
    }
    let Some(common) = get_coerce_type_for_case_expression(&types, None) else { return false };
    coerce::cast_those(sides, &types, &common, |data_type| !data_type.is_null())
}

/// Whether there is a CASE among these that looks at rows, or a subquery, of which a CASE may be made. The planner asks the
/// list of an IN for its values without rows, and takes what a CASE says then for what it always says.
pub(crate) fn is_choice(list: &[Expr]) -> bool {
    let chooses = |expr: &Expr| {
        let found = expr.exists(|part| {
            let looks = |case: &Expr| case.exists(|part| Ok(is_column(part))).unwrap_or(true);
            Ok(match part {
                Expr::Case(_) => looks(part),
                Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) => true,
                _ => false,
            })
        });
        found.unwrap_or(true)
    };
    list.iter().any(chooses)
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(_) | Expr::OuterReferenceColumn(..))
}

/// IN as comparisons with each of its list.
pub(crate) fn one_by_one(expr: Expr, list: Vec<Expr>, negated: bool) -> Expr {
    let of = list.into_iter().map(|item| match negated {
        true => expr.clone().not_eq(item),
        false => expr.clone().eq(item),
    });
    let all = if negated { conjunction(of) } else { disjunction(of) };
    // Default: nothing is in an empty list.
    all.unwrap_or(Expr::Literal(ScalarValue::Boolean(Some(negated)), None))
}

/// Whether there are signed and unsigned whole numbers and floats among some values: no type has all of them as they are, and
/// the planner's is a decimal, which large floats are not.
pub(crate) fn are_unlike<'a>(sides: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> bool {
    let types: Vec<_> = sides.into_iter().filter_map(|side| side.get_type(schema).ok()).collect();
    types.contains(&DataType::UInt64)
        && types.iter().any(DataType::is_signed_integer)
        && types.iter().any(DataType::is_floating)
}

/// BETWEEN as two comparisons.
pub(crate) fn two_sided(between: Between) -> Expr {
    let Between { expr, negated, low, high } = between;
    let both = (*expr).clone().gt_eq(*low).and((*expr).lt_eq(*high));
    if negated { Expr::Not(Box::new(both)) } else { both }
}

/// Whether there is a float among some arguments.
pub(crate) fn has_floats(args: &[Expr], schema: &DFSchema) -> bool {
    args.iter().any(|arg| arg.get_type(schema).is_ok_and(|of| of.is_floating()))
}

/// Whether they are intervals, or differences of timestamps beside some.
pub(crate) fn are_spans(args: &[Expr], schema: &DFSchema) -> bool {
    let types: Vec<_> = args.iter().map(|arg| arg.get_type(schema).unwrap_or(DataType::Null)).collect();
    types.iter().any(|of| matches!(of, DataType::Interval(_)))
        && types.iter().all(|of| matches!(of, DataType::Interval(_) | DataType::Duration(_)))
}

/// NULLIF by `=`, for which there is one zero of floats, and intervals are equal that are of other days; of what is compared for
/// both of its arguments.
pub(crate) fn null_if(own: Expr, left: Expr, right: Expr) -> Expr {
    let when = (Box::new(left.eq(right)), Box::new(Expr::Literal(ScalarValue::Null, None)));
    Expr::Case(Case { expr: None, when_then_expr: vec![when], else_expr: Some(Box::new(own)) })
}

/// Leaves out keys of an order that stand there before.
pub(crate) fn once(order: &mut Vec<SortExpr>) {
    let mut at = 0;
    while at < order.len() {
        match order[..at].iter().any(|before| before.expr == order[at].expr) {
            true => drop(order.remove(at)),
            false => at += 1,
        }
    }
}
