//! A plan evaluated for all values of a domain at once: each operator keeps apart what is of different values.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::DataType,
    common::{
        Column, DFSchema, JoinConstraint, JoinType, NullEquality, Result,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _},
    },
    logical_expr::{
        Aggregate, Case, Distinct, DistinctOn, Expr, ExprFunctionExt as _, ExprSchemable as _, FetchType,
        Filter, Join, Limit, LogicalPlan, LogicalPlanBuilder, Operator, Projection, SkipType, Sort, SortExpr,
        Union, Values, Window, binary_expr, cast, expr::WindowFunction, lit,
    },
    optimizer::simplify_expressions::{ExprSimplifier, SimplifyContext},
};

use super::{Dependent, Domain, Names, asof::Asof, keys, outer_columns, refused};
use crate::numbered;

/// Whether a plan reads columns of a domain.
fn reads(plan: &LogicalPlan, domain: &Domain) -> bool {
    outer_columns(plan).iter().any(|column| domain.outer.contains(column))
}

fn has_outer(expr: &Expr, domain: &Domain) -> bool {
    let is_one = |expr: &Expr| {
        Ok(matches!(expr, Expr::OuterReferenceColumn(_, column) if domain.outer.contains(column)))
    };
    // Default: what cannot be walked is looked into.
    expr.exists(is_one).unwrap_or(true)
}

/// An expression that reads the columns of a domain where they are now.
pub(super) fn moved(expr: Expr, outer: &[Column], keys: &[Column]) -> Result<Expr> {
    let here = |expr: Expr| match &expr {
        Expr::OuterReferenceColumn(_, column) => match outer.iter().position(|outer| outer == column) {
            Some(at) => Ok(Transformed::yes(Expr::Column(keys[at].clone()))),
            None => Ok(Transformed::no(expr)),
        },
        _ => Ok(Transformed::no(expr)),
    };
    expr.transform_up(here).data()
}

/// The same of a condition, where the columns stand in it or are read by its subqueries.
pub(super) fn moved_with_subqueries(condition: Expr, outer: &[Column], keys: &[Column]) -> Result<Expr> {
    let at = |column: &Column| outer.iter().position(|outer| outer == column);
    let within = |plan: LogicalPlan| -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            plan.map_expressions(|expr| {
                expr.transform_up(|expr| match &expr {
                    Expr::OuterReferenceColumn(field, column) => match at(column) {
                        Some(at) => Ok(Transformed::yes(Expr::OuterReferenceColumn(
                            Arc::clone(field),
                            keys[at].clone(),
                        ))),
                        None => Ok(Transformed::no(expr)),
                    },
                    _ => Ok(Transformed::no(expr)),
                })
            })
        })
        .data()
    };
    let of = |subquery: datafusion::logical_expr::Subquery| -> Result<_> {
        let plan = within(subquery.subquery.as_ref().clone())?;
        let outer_ref_columns = plan.all_out_ref_exprs();
        Ok(datafusion::logical_expr::Subquery { subquery: Arc::new(plan), outer_ref_columns, ..subquery })
    };
    let here = |expr: Expr| {
        Ok(Transformed::yes(match expr {
            Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(of(subquery)?),
            Expr::Exists(mut exists) => {
                exists.subquery = of(exists.subquery)?;
                Expr::Exists(exists)
            }
            Expr::InSubquery(mut within) => {
                within.subquery = of(within.subquery)?;
                let sought = |expr: Expr| match &expr {
                    Expr::Column(column) => match at(column) {
                        Some(at) => Ok(Transformed::yes(Expr::Column(keys[at].clone()))),
                        None => Ok(Transformed::no(expr)),
                    },
                    _ => Ok(Transformed::no(expr)),
                };
                within.expr = Box::new(within.expr.transform_up(sought).data()?);
                Expr::InSubquery(within)
            }
            other => return Ok(Transformed::no(other)),
        }))
    };
    condition.transform_up(here).data()
}

/// The same expression under its old name.
fn named(old: &Expr, new: Expr) -> Expr {
    let (relation, name) = old.qualified_name();
    if new.qualified_name() == (relation.clone(), name.clone()) {
        new
    } else {
        new.alias_qualified(relation, name)
    }
}

/// A limit by the numbers that its expressions stand for, such as those of parameters, which come in casts: the planner's own rules
/// look at it later.
fn by_numbers(limit: Limit) -> Result<Limit> {
    let number = |rows: Expr| -> Result<Expr> {
        let schema = DFSchema::empty();
        let data_type = rows.get_type(&schema)?;
        if !data_type.is_integer() && !data_type.is_null() {
            return Err(refused(&format!("with a LIMIT or OFFSET of {data_type}")));
        }
        let simplifier = ExprSimplifier::new(SimplifyContext::default());
        simplifier.simplify(simplifier.coerce(cast(rows, DataType::Int64), &schema)?)
    };
    let number = |rows: Option<Box<Expr>>| rows.map(|rows| number(*rows).map(Box::new)).transpose();
    Ok(Limit { skip: number(limit.skip)?, fetch: number(limit.fetch)?, input: limit.input })
}

fn columns(keys: &[Column]) -> Vec<Expr> {
    keys.iter().cloned().map(Expr::Column).collect()
}

impl Names<'_> {
    /// The values of a domain under names of their own.
    pub(super) fn values(&mut self, domain: &Domain) -> Result<Dependent> {
        let name = self.fresh();
        let keys: Vec<Column> = (0..domain.outer.len())
            .map(|at| Column::new(Some(name.clone()), format!("basalt_c{at}")))
            .collect();
        let columns = domain.values.schema().columns().into_iter().zip(&keys);
        let columns = columns
            .map(|(column, key)| Expr::Column(column).alias_qualified(key.relation.clone(), &key.name));
        let columns = columns.collect::<Vec<_>>();
        let plan = LogicalPlanBuilder::from(domain.values.clone()).project(columns)?.build()?;
        Ok(Dependent { plan, keys })
    }

    pub(super) fn dependent(&mut self, plan: LogicalPlan, domain: &Domain) -> Result<Dependent> {
        if !reads(&plan, domain) {
            let Dependent { plan: values, keys } = self.values(domain)?;
            return Ok(Dependent { plan: LogicalPlanBuilder::from(plan).cross_join(values)?.build()?, keys });
        }
        let outer = &domain.outer;
        match plan {
            LogicalPlan::Projection(Projection { expr, input, .. }) => {
                let Dependent { plan, keys } = self.dependent(Arc::unwrap_or_clone(input), domain)?;
                let mut selected = expr
                    .into_iter()
                    .map(|expr| Ok(named(&expr, moved(expr.clone(), outer, &keys)?)))
                    .collect::<Result<Vec<_>>>()?;
                selected.extend(columns(&keys));
                let plan = LogicalPlan::Projection(Projection::try_new(selected, Arc::new(plan))?);
                Ok(Dependent { plan, keys })
            }
            LogicalPlan::Filter(Filter { predicate, input, .. }) => {
                let Dependent { plan, keys } = self.dependent(Arc::unwrap_or_clone(input), domain)?;
                let predicate = moved(predicate, outer, &keys)?;
                Ok(Dependent { plan: LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?), keys })
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let own = alias.input.schema().columns();
                let Dependent { plan, keys } = self.dependent(alias.input.as_ref().clone(), domain)?;
                let called = own.into_iter().zip(alias.schema.columns());
                let mut selected: Vec<Expr> = called
                    .map(|(own, new)| Expr::Column(own).alias_qualified(new.relation, new.name))
                    .collect();
                selected.extend(columns(&keys));
                Ok(Dependent { plan: LogicalPlanBuilder::from(plan).project(selected)?.build()?, keys })
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Dependent { plan, keys } = self.dependent(Arc::unwrap_or_clone(input), domain)?;
                Ok(Dependent { plan: LogicalPlan::Distinct(Distinct::All(Arc::new(plan))), keys })
            }
            LogicalPlan::Distinct(Distinct::On(on)) => {
                let plan = self.numbered(on)?;
                self.dependent(plan, domain)
            }
            // The order of what a subquery has says nothing, unless a limit takes the first.
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                self.dependent(Arc::unwrap_or_clone(sort.input), domain)
            }
            LogicalPlan::Limit(limit) => self.limit(by_numbers(limit)?, domain),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate, domain),
            LogicalPlan::Window(window) => self.window(window, domain),
            LogicalPlan::Join(join) => self.both(join, domain),
            LogicalPlan::Union(union) => self.union(union, domain),
            LogicalPlan::Values(rows) => self.literal_rows(rows, domain),
            LogicalPlan::Unnest(unnest) => {
                let Dependent { plan, keys } = self.dependent(unnest.input.as_ref().clone(), domain)?;
                let own = unnest.schema.columns();
                let plan = LogicalPlanBuilder::from(plan)
                    .unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())?
                    .project(own.into_iter().map(Expr::Column).chain(columns(&keys)).collect::<Vec<_>>())?
                    .build()?;
                Ok(Dependent { plan, keys })
            }
            LogicalPlan::Subquery(subquery) => self.dependent(subquery.subquery.as_ref().clone(), domain),
            other => {
                let shown = other.display().to_string();
                let operator = shown.split([':', ' ']).next().unwrap_or_default().to_owned();
                Err(refused(&format!("with {operator}")))
            }
        }
    }

    /// The first rows of each value.
    fn limit(&mut self, limit: Limit, domain: &Domain) -> Result<Dependent> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return Err(refused("with a LIMIT that is no constant"));
        };
        let (skip, fetch) = (i64::try_from(skip).ok(), fetch.map(i64::try_from).transpose().ok());
        let (Some(skip), Some(fetch)) = (skip, fetch) else { return Err(refused("with such a LIMIT")) };
        let (order, input) = match limit.input.as_ref() {
            // What is computed of each row is computed of those that are left.
            LogicalPlan::Projection(projection) => {
                let below = Limit { input: Arc::clone(&projection.input), ..limit.clone() };
                let below = Arc::new(LogicalPlan::Limit(below));
                let plan = LogicalPlan::Projection(Projection::try_new(projection.expr.clone(), below)?);
                return self.dependent(plan, domain);
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                (sort.expr.clone(), sort.input.as_ref().clone())
            }
            LogicalPlan::Distinct(Distinct::On(on)) => {
                let input = Arc::new(self.numbered(on.clone())?);
                return self.limit(Limit { input, ..limit.clone() }, domain);
            }
            input => (Vec::new(), input.clone()),
        };
        // Values that read a query further out would multiply all rows by that query's.
        if (skip, fetch) == (0, Some(1))
            && outer_columns(&domain.values).is_empty()
            && let Some(asof) = Asof::of(&order, &input, domain)?
        {
            return self.nearest(asof, domain);
        }
        let own = input.schema().columns();
        let Dependent { plan, keys } = self.dependent(input, domain)?;
        let order = order
            .into_iter()
            .map(|key| Ok(SortExpr { expr: moved(key.expr, &domain.outer, &keys)?, ..key }))
            .collect::<Result<Vec<_>>>()?;
        let (number, at) = self.row_number(columns(&keys), order)?;
        let mut within = at.clone().gt(lit(skip));
        if let Some(fetch) = fetch {
            within = within.and(at.lt_eq(lit(skip.saturating_add(fetch))));
        }
        let kept = own.into_iter().map(Expr::Column).chain(columns(&keys)).collect::<Vec<_>>();
        let plan =
            LogicalPlanBuilder::from(plan).window(vec![number])?.filter(within)?.project(kept)?.build()?;
        Ok(Dependent { plan, keys })
    }

    /// The number of a row among those that are alike in some way, in an order, and the column that has it, from 1.
    fn row_number(&mut self, alike: Vec<Expr>, order: Vec<SortExpr>) -> Result<(Expr, Expr)> {
        let number = Expr::from(WindowFunction::new(numbered::row_number(), Vec::new())).partition_by(alike);
        let number = if order.is_empty() { number.build()? } else { number.order_by(order).build()? };
        let name = Column::new(Some(self.fresh()), "number");
        let number = number.alias_qualified(name.relation.clone(), &name.name);
        Ok((number, Expr::Column(name)))
    }

    /// DISTINCT ON as the rows that are the first of those that are alike, by their numbers, in the order in which it gives them.
    fn numbered(&mut self, on: DistinctOn) -> Result<LogicalPlan> {
        let DistinctOn { on_expr, select_expr, sort_expr, input, .. } = on;
        let alike = on_expr.into_iter().map(Expr::unalias).collect();
        // Default: any row of them is the first.
        let order = sort_expr.unwrap_or_default().into_iter();
        let order: Vec<_> = order.map(|key| SortExpr { expr: key.expr.unalias(), ..key }).collect();
        let (number, at) = self.row_number(alike, order.clone())?;
        let first =
            LogicalPlanBuilder::from(input).window(vec![number])?.filter(at.eq(lit(1_i64)))?.build()?;
        let input = match order.is_empty() {
            true => first,
            false => LogicalPlan::Sort(Sort { expr: order, input: Arc::new(first), fetch: None }),
        };
        Ok(LogicalPlan::Projection(Projection::try_new(select_expr, Arc::new(input))?))
    }

    fn aggregate(&mut self, aggregate: Aggregate, domain: &Domain) -> Result<Dependent> {
        let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
        if group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
            return Err(refused("with GROUPING SETS"));
        }
        for expr in &aggr_expr {
            let of_outer = |expr: &Expr| match expr {
                Expr::AggregateFunction(of) => {
                    let read = |expr: &Expr| has_outer(expr, domain);
                    let args = &of.params.args;
                    Ok(args.iter().any(read) && args.iter().all(|arg| arg.column_refs().is_empty()))
                }
                _ => Ok(false),
            };
            if expr.exists(of_outer)? {
                return Err(refused("with an aggregate of columns of the query around it alone"));
            }
        }
        let Dependent { mut plan, mut keys } = self.dependent(Arc::unwrap_or_clone(input), domain)?;
        let mut is_there = None;
        if group_expr.is_empty() {
            // One row for each value, though there be nothing to aggregate.
            let name = Column::new(Some(self.fresh()), "there");
            let own = plan.schema().columns().into_iter().map(Expr::Column);
            let marked = own.chain([lit(true).alias_qualified(name.relation.clone(), &name.name)]);
            plan = LogicalPlanBuilder::from(plan).project(marked.collect::<Vec<_>>())?.build()?;
            let all = self.values(domain)?;
            let on = keys::pairs(&all.keys, all.plan.schema(), &keys, plan.schema())?;
            plan = super::joined(all.plan, plan, on, None, JoinType::Left)?;
            // Those of what is joined are NULL where there is nothing.
            keys = all.keys;
            is_there = Some(Expr::Column(name));
        }
        let mut aggregates = Vec::with_capacity(aggr_expr.len());
        for expr in aggr_expr {
            let new = moved(expr.clone(), &domain.outer, &keys)?;
            let new = new.transform_up(|expr| {
                Ok(match (&is_there, expr) {
                    (Some(there), Expr::AggregateFunction(mut of)) => {
                        let filter = of.params.filter.take();
                        let there = there.clone().is_true();
                        of.params.filter = Some(Box::new(match filter {
                            Some(filter) => there.and(*filter),
                            None => there,
                        }));
                        Transformed::yes(Expr::AggregateFunction(of))
                    }
                    (_, expr) => Transformed::no(expr),
                })
            });
            aggregates.push(named(&expr, new.data()?));
        }
        let mut groups = Vec::with_capacity(group_expr.len() + keys.len());
        for expr in group_expr {
            groups.push(named(&expr, moved(expr.clone(), &domain.outer, &keys)?));
        }
        groups.extend(columns(&keys));
        let plan = Aggregate::try_new(Arc::new(plan), groups, aggregates)?;
        Ok(Dependent { plan: LogicalPlan::Aggregate(plan), keys })
    }

    fn window(&mut self, window: Window, domain: &Domain) -> Result<Dependent> {
        let Dependent { plan, keys } = self.dependent(Arc::unwrap_or_clone(window.input), domain)?;
        let mut functions = Vec::with_capacity(window.window_expr.len());
        for expr in window.window_expr {
            let new = moved(expr.clone(), &domain.outer, &keys)?.transform_up(|expr| {
                Ok(match expr {
                    Expr::WindowFunction(mut of) => {
                        of.params.partition_by.extend(columns(&keys));
                        Transformed::yes(Expr::WindowFunction(of))
                    }
                    expr => Transformed::no(expr),
                })
            });
            functions.push(named(&expr, new.data()?));
        }
        let plan = LogicalPlan::Window(Window::try_new(functions, Arc::new(plan))?);
        Ok(Dependent { plan, keys })
    }

    fn union(&mut self, union: Union, domain: &Domain) -> Result<Dependent> {
        let name = self.fresh();
        let called = union.schema.columns();
        let new: Vec<Column> =
            (0..domain.outer.len()).map(|at| Column::new_unqualified(format!("{name} {at}"))).collect();
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in union.inputs {
            let own = input.schema().columns();
            let Dependent { plan, keys } = self.dependent(Arc::unwrap_or_clone(input), domain)?;
            let own = own.into_iter().zip(&called);
            let own = own.map(|(own, called)| Expr::Column(own).alias(&called.name));
            let keys = keys.into_iter().zip(&new).map(|(key, new)| Expr::Column(key).alias(&new.name));
            let plan =
                LogicalPlanBuilder::from(plan).project(own.chain(keys).collect::<Vec<_>>())?.build()?;
            inputs.push(Arc::new(plan));
        }
        let plan = LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?);
        let own = plan.schema().columns().into_iter().zip(&called);
        let own =
            own.map(|(own, called)| Expr::Column(own).alias_qualified(called.relation.clone(), &called.name));
        let keys: Vec<Column> = new;
        let selected = own.chain(columns(&keys)).collect::<Vec<_>>();
        Ok(Dependent { plan: LogicalPlanBuilder::from(plan).project(selected)?.build()?, keys })
    }

    /// Rows that read the values: those of the domain beside the number of each row, by which its expressions are chosen. So the
    /// domain is read once, however many rows there are.
    fn literal_rows(&mut self, rows: Values, domain: &Domain) -> Result<Dependent> {
        let Dependent { plan: values, keys } = self.values(domain)?;
        let number = Column::new(Some(self.fresh()), "row");
        let numbers = (0_i64..).take(rows.values.len()).map(|at| vec![lit(at)]).collect::<Vec<_>>();
        let called =
            Expr::Column(Column::from_name("column1")).alias_qualified(number.relation.clone(), &number.name);
        let plan = LogicalPlanBuilder::values(numbers)?.project([called])?.cross_join(values)?.build()?;
        let mut selected = Vec::with_capacity(rows.schema.fields().len() + keys.len());
        for (at, (relation, field)) in rows.schema.iter().enumerate() {
            let mut chosen = Vec::with_capacity(rows.values.len());
            for (row, number) in rows.values.iter().zip(0_i64..) {
                let value = moved(row[at].clone(), &domain.outer, &keys)?;
                // All of a column are of one type, though what they are made of may be of another by now.
                let value = value.cast_to(field.data_type(), plan.schema())?;
                chosen.push((Box::new(lit(number)), Box::new(value)));
            }
            let of = Some(Box::new(Expr::Column(number.clone())));
            let value = Expr::Case(Case { expr: of, when_then_expr: chosen, else_expr: None });
            selected.push(value.alias_qualified(relation.cloned(), field.name()));
        }
        selected.extend(columns(&keys));
        Ok(Dependent { plan: LogicalPlanBuilder::from(plan).project(selected)?.build()?, keys })
    }

    /// A join, where one side or both read the values.
    fn both(&mut self, join: Join, domain: &Domain) -> Result<Dependent> {
        use JoinType::{Full, Inner, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
        let kind = join.join_type;
        let own = join.schema.columns();
        let (left, right) = (join.left.as_ref().clone(), join.right.as_ref().clone());
        let (in_left, in_right) = (reads(&left, domain), reads(&right, domain));
        let (on_left, on_right) = match kind {
            Inner => (in_left || !in_right, in_right),
            Left | LeftSemi | LeftAnti => (true, in_right),
            Right | RightSemi | RightAnti => (in_left, true),
            Full => (true, true),
            _ => return Err(refused("with this kind of join")),
        };
        let (mut left, mut of_left) = (left, None);
        if on_left {
            let dependent = self.dependent(left, domain)?;
            (left, of_left) = (dependent.plan, Some(dependent.keys));
        }
        let (mut right, mut of_right) = (right, None);
        if on_right {
            let dependent = self.dependent(right, domain)?;
            (right, of_right) = (dependent.plan, Some(dependent.keys));
        }
        let keys = match kind {
            Right | RightSemi | RightAnti => of_right.clone().or(of_left.clone()),
            _ => of_left.clone().or(of_right.clone()),
        };
        let Some(keys) = keys else { return Err(refused("with this join")) };
        let (mut on, mut filter) =
            (Vec::new(), join.filter.map(|filter| moved(filter, &domain.outer, &keys)).transpose()?);
        for (a, b) in join.on {
            if has_outer(&a, domain) || has_outer(&b, domain) {
                let same = if join.null_equality == NullEquality::NullEqualsNull {
                    Operator::IsNotDistinctFrom
                } else {
                    Operator::Eq
                };
                let same = moved(binary_expr(a, same, b), &domain.outer, &keys)?;
                filter = Some(filter.map_or(same.clone(), |filter| filter.and(same)));
            } else {
                on.push((a, b));
            }
        }
        if join.null_aware {
            return Err(refused("with this join"));
        }
        if let (Some(of_left), Some(of_right)) = (&of_left, &of_right) {
            on.extend(keys::pairs(of_left, left.schema(), of_right, right.schema())?);
        }
        let (left, right) = (Arc::new(left), Arc::new(right));
        // What keys are compared by is never NULL.
        let plan =
            Join::try_new(left, right, on, filter, kind, JoinConstraint::On, join.null_equality, false)?;
        let plan = LogicalPlan::Join(plan);
        let own = own.into_iter().map(Expr::Column);
        let (Full, Some(of_left), Some(of_right)) = (kind, of_left, of_right) else {
            let selected = own.chain(columns(&keys)).collect::<Vec<_>>();
            return Ok(Dependent { plan: LogicalPlanBuilder::from(plan).project(selected)?.build()?, keys });
        };
        // What is on one side alone has the value of that side.
        let name = self.fresh();
        let new: Vec<Column> =
            (0..of_left.len()).map(|at| Column::new(Some(name.clone()), format!("basalt_c{at}"))).collect();
        let mut selected: Vec<Expr> = own.collect();
        for ((left, right), new) in of_left.into_iter().zip(of_right).zip(&new) {
            let left = Expr::Column(left);
            let either = datafusion::logical_expr::when(left.clone().is_null(), Expr::Column(right))
                .otherwise(left)?;
            selected.push(either.alias_qualified(new.relation.clone(), &new.name));
        }
        Ok(Dependent { plan: LogicalPlanBuilder::from(plan).project(selected)?.build()?, keys: new })
    }
}
