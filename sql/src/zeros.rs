//! -0.0 is 0 in every order and every group: what tables hold has one zero, what is computed may have two.

use std::sync::Arc;

use datafusion::{
    common::{
        Column, DFSchema, Result, ScalarValue,
        tree_node::{Transformed, TreeNode as _, TreeNodeRecursion},
    },
    logical_expr::{
        Cast, Distinct, Expr, ExprSchemable as _, LogicalPlan, Projection, TryCast, Window, expr::InList,
        expr_rewriter::NamePreserver,
    },
};

use crate::{functions, spool};

/// Functions that make lists, rows and maps of values, or look for values in them, all of which are told apart by their bits.
const NESTED: [&str; 18] = [
    "array_append",
    "array_positions",
    "array_prepend",
    "array_remove",
    "array_remove_all",
    "array_remove_n",
    "array_repeat",
    "array_replace",
    "array_replace_all",
    "array_replace_n",
    "list_contains",
    "list_position",
    "list_resize",
    "make_array",
    "make_map",
    "map",
    "named_struct",
    "struct",
];

/// Whether a float is computed, here or below, so that it may be -0.0: what tables hold has one zero.
pub(crate) fn is_computed(key: &Expr, input: &LogicalPlan) -> bool {
    let column = match key {
        Expr::Column(column) => column,
        Expr::Alias(alias) => return is_computed(&alias.expr, input),
        Expr::Literal(ScalarValue::Float64(value), _) => {
            return value.is_some_and(|value| value.to_bits() == (-0.0_f64).to_bits());
        }
        Expr::Literal(ScalarValue::Float32(value), _) => {
            return value.is_some_and(|value| value.to_bits() == (-0.0_f32).to_bits());
        }
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => {
            return match expr.get_type(input.schema()) {
                // These have one zero.
                Ok(of) if of.is_integer() || of.is_decimal() => false,
                Ok(of) if of.is_floating() => is_computed(expr, input),
                _ => true,
            };
        }
        key => return !is_one_zero(key),
    };
    let at = |schema: &DFSchema| schema.maybe_index_of_column(column);
    let of = |below: &LogicalPlan, at: usize| {
        let (qualifier, field) = below.schema().qualified_field(at);
        is_computed(&Expr::from((qualifier, field)), below)
    };
    match input {
        LogicalPlan::TableScan(_) => spool::is_computed(column, input),
        LogicalPlan::Projection(below) => {
            let made = at(&below.schema).and_then(|at| below.expr.get(at));
            made.is_none_or(|made| is_computed(made, &below.input))
        }
        LogicalPlan::SubqueryAlias(below) => at(&below.schema).is_none_or(|at| of(&below.input, at)),
        LogicalPlan::Union(union) => {
            at(&union.schema).is_none_or(|at| union.inputs.iter().any(|input| of(input, at)))
        }
        LogicalPlan::Filter(below) => is_computed(key, &below.input),
        LogicalPlan::Sort(below) => is_computed(key, &below.input),
        LogicalPlan::Limit(below) => is_computed(key, &below.input),
        LogicalPlan::Distinct(Distinct::All(below)) => is_computed(key, below),
        LogicalPlan::Join(join) => {
            let side = if at(join.left.schema()).is_some() { &join.left } else { &join.right };
            is_computed(key, side)
        }
        LogicalPlan::Window(window) => at(window.input.schema()).is_none() || is_computed(key, &window.input),
        LogicalPlan::Aggregate(groups) => {
            let made =
                at(&groups.schema).and_then(|at| groups.group_expr.iter().chain(&groups.aggr_expr).nth(at));
            match made.map(bare) {
                Some(Expr::AggregateFunction(of)) => {
                    of.params.args.iter().any(|arg| is_computed(arg, &groups.input))
                }
                Some(made) => is_computed(made, &groups.input),
                None => true,
            }
        }
        _ => true,
    }
}

fn bare(expr: &Expr) -> &Expr {
    if let Expr::Alias(alias) = expr { bare(&alias.expr) } else { expr }
}

fn is_one_zero(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if function.func.name() == functions::ONE_ZERO)
}

/// Windows in the order of what is computed, or in parts by it: those are columns below the window, of which floats have one zero.
/// In the window itself they would be expressions, and where one is of a constant the planner takes rows that are sorted by it for
/// sorted by what comes behind it, and then refuses its own plan.
pub(crate) fn windows_by_columns(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Window(window) = plan else { return Ok(Transformed::no(plan)) };
    let schema = window.input.schema();
    let called = |at: usize| format!("basalt_key_{at}");
    let names = NamePreserver::new_for_projection();
    let mut keys: Vec<Expr> = Vec::new();
    let mut exprs = Vec::with_capacity(window.window_expr.len());
    for expr in &window.window_expr {
        let name = names.save(expr);
        let made = expr.clone().transform_up(|expr| {
            let Expr::WindowFunction(mut of) = expr else { return Ok(Transformed::no(expr)) };
            let params = &mut of.params;
            let ordered = params.order_by.iter_mut().map(|sort| &mut sort.expr);
            let mut changed = false;
            for key in params.partition_by.iter_mut().chain(ordered) {
                let mut made = key.clone();
                let has_one =
                    is_computed(&made, &window.input) && one_zero(std::iter::once(&mut made), schema);
                let is_plain =
                    matches!(made, Expr::Column(_) | Expr::Literal(..) | Expr::OuterReferenceColumn(..));
                // What has no type yet cannot be a column.
                if !has_one && (is_plain || made.get_type(schema).is_err()) {
                    continue;
                }
                let known = keys.iter().position(|other| *other == made);
                let at = match known {
                    Some(at) => at,
                    None => {
                        keys.push(made);
                        keys.len() - 1
                    }
                };
                *key = Expr::Column(Column::from_name(called(at)));
                changed = true;
            }
            let of = Expr::WindowFunction(of);
            Ok(if changed { Transformed::yes(of) } else { Transformed::no(of) })
        })?;
        exprs.push(name.restore(made.data));
    }
    if keys.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let columns = schema.columns().into_iter().map(Expr::Column);
    let keys = keys.into_iter().enumerate().map(|(at, key)| key.alias(called(at)));
    let below = Projection::try_new(columns.chain(keys).collect(), Arc::clone(&window.input))?;
    let made = Window::try_new(exprs, Arc::new(LogicalPlan::Projection(below)))?;
    let columns = window.schema.columns().into_iter().map(Expr::Column).collect();
    let made = Projection::try_new(columns, Arc::new(LogicalPlan::Window(made)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(made)))
}

/// Whether a plan has what [`nested_with_one_zero`] looks for.
pub(crate) fn nests(plan: &LogicalPlan) -> Result<bool> {
    let is_one = |expr: &Expr| {
        Ok(match expr {
            Expr::InList(_) => true,
            Expr::Case(of) => of.expr.is_some(),
            Expr::ScalarFunction(of) => NESTED.contains(&of.func.name()),
            Expr::AggregateFunction(of) => of.func.name() == "array_agg",
            _ => false,
        })
    };
    let mut found = false;
    plan.apply_expressions(|expr| {
        found |= expr.exists(is_one)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Lists and rows of floats that are computed, and such floats beside those of IN and of CASE, in a plan that reads some inputs.
pub(crate) fn nested_with_one_zero(
    expr: Expr,
    inputs: &[LogicalPlan],
    schema: &DFSchema,
) -> Result<Transformed<Expr>> {
    let may_have_two = |arg: &Expr| {
        let input = match arg {
            Expr::Column(column) => inputs.iter().find(|input| input.schema().has_column(column)),
            _ => inputs.first(),
        };
        input.is_none_or(|input| is_computed(arg, input))
    };
    expr.transform_up(|expr| match expr {
        Expr::ScalarFunction(mut of) if NESTED.contains(&of.func.name()) => {
            let changed = one_zero(of.args.iter_mut().filter(|arg| may_have_two(arg)), schema);
            let of = Expr::ScalarFunction(of);
            Ok(if changed { Transformed::yes(of) } else { Transformed::no(of) })
        }
        Expr::AggregateFunction(mut of) if of.func.name() == "array_agg" => {
            let changed = one_zero(of.params.args.iter_mut().filter(|arg| may_have_two(arg)), schema);
            let of = Expr::AggregateFunction(of);
            Ok(if changed { Transformed::yes(of) } else { Transformed::no(of) })
        }
        Expr::InList(InList { mut expr, mut list, negated }) => {
            let sides = [&mut *expr].into_iter().chain(&mut list);
            let changed = one_zero(sides.filter(|side| may_have_two(side)), schema);
            let of = Expr::InList(InList { expr, list, negated });
            Ok(if changed { Transformed::yes(of) } else { Transformed::no(of) })
        }
        Expr::Case(mut of) if of.expr.is_some() => {
            let whens = of.when_then_expr.iter_mut().map(|(when, _)| &mut **when);
            let sides = whens.chain(of.expr.as_deref_mut());
            let changed = one_zero(sides.filter(|side| may_have_two(side)), schema);
            let of = Expr::Case(of);
            Ok(if changed { Transformed::yes(of) } else { Transformed::no(of) })
        }
        other => Ok(Transformed::no(other)),
    })
}

/// Aggregates of distinct floats that are computed.
pub(crate) fn distinct_with_one_zero(
    expr: Expr,
    input: &LogicalPlan,
    schema: &DFSchema,
) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::AggregateFunction(mut of) if of.params.distinct => {
            let args = of.params.args.iter_mut().filter(|arg| is_computed(arg, input));
            let changed = one_zero(args, schema);
            let distinct = Expr::AggregateFunction(of);
            Ok(if changed { Transformed::yes(distinct) } else { Transformed::no(distinct) })
        }
        other => Ok(Transformed::no(other)),
    })
}

/// Has floats be told apart as numbers.
pub(crate) fn one_zero<'a>(exprs: impl Iterator<Item = &'a mut Expr>, schema: &DFSchema) -> bool {
    let mut changed = false;
    for expr in exprs {
        if !is_one_zero(expr) && expr.get_type(schema).is_ok_and(|data_type| data_type.is_floating()) {
            *expr = functions::one_zero(expr.clone());
            changed = true;
        }
    }
    changed
}
