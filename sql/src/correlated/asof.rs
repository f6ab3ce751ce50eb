//! The one row of a plan that is nearest to each value of a domain, as ASOF JOIN asks for it. A join of the values with all
//! rows that their condition leaves has as many rows as both sides multiplied. Here the rows and the values are sorted
//! together, once, and each value takes the last row before it.

use std::{collections::BTreeSet, sync::Arc};

use datafusion::{
    arrow::datatypes::DataType,
    common::{
        Column, ExprSchema as _, JoinType, Result, ScalarValue,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion},
    },
    logical_expr::{
        Expr, ExprFunctionExt as _, ExprSchemable as _, Filter, LogicalPlan, LogicalPlanBuilder, Operator,
        Projection, SortExpr, cast,
        expr::WindowFunction,
        lit,
        type_coercion::binary::comparison_coercion,
        utils::{conjunction, split_conjunction},
    },
};

use super::{Dependent, Domain, Names, dependent::moved, has_subquery, joined, keys, outer_columns};
use crate::{carried, spool};

/// What a row's expression and one of a value are compared as.
struct Pair {
    of_row: Expr,
    of_value: Expr,
    data_type: DataType,
}

impl Pair {
    fn row(&self) -> Result<Expr> {
        self.side(self.of_row.clone())
    }

    /// Where the columns of a domain are these.
    fn value(&self, domain: &Domain, keys: &[Column]) -> Result<Expr> {
        self.side(moved(self.of_value.clone(), &domain.outer, keys)?)
    }

    fn side(&self, expr: Expr) -> Result<Expr> {
        keys::value(cast(expr, self.data_type.clone()), &self.data_type)
    }
}

/// The first of the rows that a condition leaves of a plan, in an order that begins with what the condition's one inequality
/// compares.
pub(super) struct Asof {
    rows: LogicalPlan,
    /// What is selected of the row, and under which names: computed of the nearest ones alone, for it may fail.
    selected: Vec<(Expr, Column)>,
    /// The columns that it reads.
    read: Vec<Column>,
    equal: Vec<Pair>,
    nearest: Pair,
    /// Whether the row is before its value, and whether it may be as far as that.
    is_before: bool,
    may_be_equal: bool,
    /// In which order those are that are equally near.
    then: Vec<SortExpr>,
    of_rows: Vec<Expr>,
    of_values: Vec<Expr>,
}

impl Asof {
    /// `None`: it is none.
    pub(super) fn of(order: &[SortExpr], input: &LogicalPlan, domain: &Domain) -> Result<Option<Self>> {
        let own = input.schema().columns();
        let (exprs, filter) = match input {
            LogicalPlan::Projection(Projection { expr, input, .. }) => match input.as_ref() {
                LogicalPlan::Filter(filter) => (expr.clone(), filter),
                _ => return Ok(None),
            },
            LogicalPlan::Filter(filter) => (own.iter().cloned().map(Expr::Column).collect(), filter),
            _ => return Ok(None),
        };
        let Filter { predicate, input: rows, .. } = filter;
        let is_own = |expr: &Expr| reads(expr, domain) == Reads::Rows && !has_subquery(expr);
        if !outer_columns(rows).is_empty() || !exprs.iter().all(is_own) {
            return Ok(None);
        }
        let selected: Vec<_> = exprs.into_iter().map(Expr::unalias).zip(own).collect();
        let read = selected.iter().flat_map(|(expr, _)| expr.column_refs().into_iter().cloned());
        let read: Vec<Column> = read.collect::<BTreeSet<_>>().into_iter().collect();
        let mut keys = Vec::with_capacity(order.len());
        for key in order {
            let below = |expr: Expr| match &expr {
                Expr::Column(column) => Ok(match selected.iter().find(|(_, own)| own == column) {
                    Some((below, _)) => Transformed::yes(below.clone()),
                    None => Transformed::no(expr),
                }),
                _ => Ok(Transformed::no(expr)),
            };
            let key = SortExpr { expr: key.expr.clone().transform_up(below).data()?, ..key.clone() };
            if !is_own(&key.expr) {
                return Ok(None);
            }
            keys.push(key);
        }
        let mut keys = keys.into_iter();
        let Some(first) = keys.next() else { return Ok(None) };
        let (mut equal, mut nearest) = (Vec::new(), None);
        let (mut of_rows, mut of_values) = (Vec::new(), Vec::new());
        for condition in split_conjunction(predicate) {
            if has_subquery(condition) {
                return Ok(None);
            }
            match reads(condition, domain) {
                Reads::Rows => of_rows.push(condition.clone()),
                Reads::Values => of_values.push(condition.clone()),
                Reads::Both => {
                    let Expr::BinaryExpr(both) = condition else { return Ok(None) };
                    let (left, right) = (both.left.as_ref().clone(), both.right.as_ref().clone());
                    let sides = (reads(&left, domain), reads(&right, domain));
                    let (of_row, op, of_value) = match (sides, both.op.swap()) {
                        ((Reads::Rows, Reads::Values), _) => (left, both.op, right),
                        ((Reads::Values, Reads::Rows), Some(swapped)) => (right, swapped, left),
                        _ => return Ok(None),
                    };
                    let types = (of_row.get_type(rows.schema())?, of_value.get_type(rows.schema())?);
                    let Some(data_type) = compared_as(&types.0, &types.1) else { return Ok(None) };
                    let pair = Pair { of_row, of_value, data_type };
                    match op {
                        Operator::Eq => equal.push(pair),
                        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
                            if nearest.replace((pair, op)).is_some() {
                                return Ok(None);
                            }
                        }
                        _ => return Ok(None),
                    }
                }
                Reads::Others => return Ok(None),
            }
        }
        let Some((nearest, op)) = nearest else { return Ok(None) };
        let is_before = matches!(op, Operator::Lt | Operator::LtEq);
        if first.expr != nearest.of_row || first.asc == is_before {
            return Ok(None);
        }
        Ok(Some(Self {
            rows: rows.as_ref().clone(),
            selected,
            read,
            equal,
            nearest,
            is_before,
            may_be_equal: matches!(op, Operator::LtEq | Operator::GtEq),
            then: keys.collect(),
            of_rows,
            of_values,
        }))
    }
}

impl Asof {
    /// What is compared: what is equal, and the last one of what is near.
    fn compared(&self) -> impl Iterator<Item = &Pair> {
        self.equal.iter().chain([&self.nearest])
    }

    /// Of rows and values that are equal in what must be.
    fn order(&self) -> Vec<SortExpr> {
        let nearest = column(named("compared", self.equal.len())).sort(self.is_before, false);
        let mut order = vec![nearest, column(named("side", 0)).sort(true, false)];
        // The last of those that are equally near is the first in their order.
        order.extend(
            self.then
                .iter()
                .enumerate()
                .map(|(at, key)| column(named("then", at)).sort(!key.asc, !key.nulls_first)),
        );
        order
    }

    /// On which side a row is, and a value: a row comes before the value that it may be equal to.
    fn sides(&self) -> (i64, i64) {
        if self.may_be_equal { (0, 1) } else { (1, 0) }
    }
}

impl Names<'_> {
    /// The row that is nearest to each value of a domain that has one.
    pub(super) fn nearest(&mut self, asof: Asof, domain: &Domain) -> Result<Dependent> {
        let together = self.together(&asof, domain)?;
        let order = asof.order();
        let equal: Vec<_> = (0..asof.equal.len()).map(|at| column(named("compared", at))).collect();
        let name = self.fresh();
        let last = |of: String| -> Result<Expr> {
            let args = vec![column(of.clone()), column(named("there", 0))];
            let last = Expr::from(WindowFunction::new(Arc::new(carried::function()), args));
            let last = last.order_by(order.clone());
            let last = if equal.is_empty() { last } else { last.partition_by(equal.clone()) };
            Ok(last.build()?.alias_qualified(Some(name.clone()), format!("last_{of}")))
        };
        let taken = |of: String| Expr::Column(Column::new(Some(name.clone()), format!("last_{of}")));

        let mut functions = vec![last(named("there", 0))?];
        let is_value = column(named("side", 0)).eq(lit(asof.sides().1)).and(taken(named("there", 0)));
        let mut found = Vec::with_capacity(asof.read.len() + domain.outer.len());
        for (at, own) in asof.read.iter().enumerate() {
            functions.push(last(named("of_row", at))?);
            found.push(taken(named("of_row", at)).alias_qualified(own.relation.clone(), &own.name));
        }
        let name = self.fresh();
        let keys = (0..domain.outer.len()).map(|at| Column::new(Some(name.clone()), format!("basalt_c{at}")));
        let keys: Vec<_> = keys.collect();
        for (at, key) in keys.iter().enumerate() {
            found.push(column(named("of_value", at)).alias_qualified(key.relation.clone(), &key.name));
        }
        let selected = asof.selected.into_iter();
        let selected = selected.map(|(expr, own)| expr.alias_qualified(own.relation, own.name));
        let selected = selected.chain(keys.iter().cloned().map(Expr::Column));
        let plan = LogicalPlanBuilder::from(together)
            .window(functions)?
            .filter(is_value)?
            .project(found)?
            .project(selected.collect::<Vec<_>>())?
            .build()?;
        Ok(Dependent { plan, keys })
    }

    /// The rows and the values of a domain in columns of one kind.
    fn together(&mut self, asof: &Asof, domain: &Domain) -> Result<LogicalPlan> {
        let known = asof.compared().map(|pair| pair.of_row.clone().is_not_null());
        let mut rows = filtered(asof.rows.clone(), asof.of_rows.iter().cloned().chain(known))?;
        if !asof.equal.is_empty() && is_one_table(&domain.values)? {
            // Rows that are equal to no value need not be sorted. Where the values are those of joins, these would be planned once
            // more for it, and a chain of them three times as often for each.
            let Dependent { plan, keys } = self.values(domain)?;
            let on = asof.equal.iter().map(|pair| Ok((pair.row()?, pair.value(domain, &keys)?)));
            rows = joined(rows, plan, on.collect::<Result<Vec<_>>>()?, None, JoinType::LeftSemi)?;
        }

        let Dependent { plan: values, keys } = self.values(domain)?;
        let known = asof.compared().map(|pair| pair.of_value.clone().is_not_null());
        let of_values = asof.of_values.iter().cloned().chain(known);
        let of_values = of_values.map(|condition| moved(condition, &domain.outer, &keys));
        let values = filtered(values, of_values.collect::<Result<Vec<_>>>()?)?;

        let mut both = Both::default();
        for (at, pair) in asof.compared().enumerate() {
            both.put(named("compared", at), pair.row()?, pair.value(domain, &keys)?);
        }
        let (of_row, of_value) = asof.sides();
        both.put(named("side", 0), lit(of_row), lit(of_value));
        for (at, key) in asof.then.iter().enumerate() {
            both.put(named("then", at), key.expr.clone(), null(&key.expr.get_type(rows.schema())?)?);
        }
        both.put(named("there", 0), lit(true), lit(false));
        for (at, column) in asof.read.iter().enumerate() {
            let data_type = rows.schema().field_from_column(column)?.data_type();
            both.put(named("of_row", at), Expr::Column(column.clone()), null(data_type)?);
        }
        for (at, key) in keys.iter().enumerate() {
            let data_type = values.schema().field_from_column(key)?.data_type();
            both.put(named("of_value", at), null(data_type)?, Expr::Column(key.clone()));
        }
        let rows = LogicalPlanBuilder::from(rows).project(both.of_rows)?.build()?;
        let values = LogicalPlanBuilder::from(values).project(both.of_values)?.build()?;
        LogicalPlanBuilder::from(rows).union(values)?.build()
    }
}

fn column(name: String) -> Expr {
    Expr::Column(Column::from_name(name))
}

/// The rows of a plan that meet all conditions.
fn filtered(plan: LogicalPlan, conditions: impl IntoIterator<Item = Expr>) -> Result<LogicalPlan> {
    match conjunction(conditions) {
        Some(condition) => LogicalPlanBuilder::from(plan).filter(condition)?.build(),
        None => Ok(plan),
    }
}

/// Whether a domain is of no more than one table, which is cheap to read again.
fn is_one_table(values: &LogicalPlan) -> Result<bool> {
    let (mut tables, mut of_spool) = (0, false);
    values.apply_with_subqueries(|plan| {
        tables += usize::from(matches!(plan, LogicalPlan::TableScan(_)));
        of_spool |= spool::is_spool(plan);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(tables <= 1 && !of_spool)
}

fn named(kind: &str, at: usize) -> String {
    format!("{kind}{at}")
}

fn null(data_type: &DataType) -> Result<Expr> {
    Ok(lit(ScalarValue::try_from(data_type)?))
}

/// Columns of a row and of a value under the same names.
#[derive(Default)]
struct Both {
    of_rows: Vec<Expr>,
    of_values: Vec<Expr>,
}

impl Both {
    fn put(&mut self, name: String, of_row: Expr, of_value: Expr) {
        self.of_rows.push(of_row.alias(&name));
        self.of_values.push(of_value.alias(name));
    }
}

/// What an expression reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// At most columns of the rows.
    Rows,
    /// Columns of the domain alone.
    Values,
    Both,
    /// Columns of a query that is further out.
    Others,
}

fn reads(expr: &Expr, domain: &Domain) -> Reads {
    let (mut of_domain, mut of_others) = (false, false);
    let walked = expr.apply(|expr| {
        if let Expr::OuterReferenceColumn(_, column) = expr {
            let is_one = domain.outer.contains(column);
            of_domain |= is_one;
            of_others |= !is_one;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    match (of_domain, expr.column_refs().is_empty()) {
        _ if of_others || walked.is_err() => Reads::Others,
        (false, _) => Reads::Rows,
        (true, true) => Reads::Values,
        (true, false) => Reads::Both,
    }
}

/// As what values of two types are compared, where their order is that of sorting; `None`: it may be another one.
fn compared_as(left: &DataType, right: &DataType) -> Option<DataType> {
    let is_sorted = |data_type: &DataType| {
        data_type.is_integer()
            || data_type.is_temporal() && !matches!(data_type, DataType::Interval(_))
            || data_type.is_decimal()
            || data_type.is_string()
            || data_type.is_floating()
            || *data_type == DataType::Boolean
    };
    if left == right {
        return is_sorted(left).then(|| left.clone());
    }
    let both = comparison_coercion(left, right)?;
    // What is written as another type is left to the planner, as are integers and decimals beside floats.
    let is_near = is_sorted(left) && is_sorted(right) && left.is_string() == right.is_string();
    (is_near && is_sorted(&both) && !both.is_floating()).then_some(both)
}
