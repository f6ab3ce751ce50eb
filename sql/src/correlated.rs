//! Correlated subqueries that the planner's own rules cannot make joins of. Each becomes a join with what it gives for the
//! distinct values that it reads of the query around it: those values go down through the subquery's plan as columns
//! (`dependent`), so that it is evaluated for all of them at once.

mod apart;
mod around;
mod asof;
mod dependent;
mod keys;

use std::sync::Arc;

use datafusion::{
    common::{
        Column, Result, ScalarValue, TableReference,
        tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion},
    },
    execution::SessionState,
    functions_aggregate::{count::count_udaf, first_last::first_value_udaf},
    logical_expr::{
        Distinct, DistinctOn, Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection,
        Subquery, lit, when,
    },
};

use self::{apart::is_apart, around::Around};
use crate::{error::Error, functions, interruptible::GivenUp, limits, spool};

/// The plan without correlated subqueries; `None`: it has none.
///
/// # Errors
/// Where one is of a kind that is not made a join.
pub(crate) fn decorrelated(session: &SessionState, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let mut is_correlated = false;
    plan.apply_with_subqueries(|plan| {
        is_correlated |= plan.contains_outer_reference();
        Ok(if is_correlated { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !is_correlated {
        return Ok(None);
    }
    Names { made: 0, session }.plan(plan.clone()).map(Some)
}

/// The plan without correlated subqueries where the planner would make other joins of them; `None`: it may try.
///
/// # Errors
/// As of [`decorrelated`].
pub(crate) fn set_apart(session: &SessionState, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    if is_apart(plan)? { decorrelated(session, plan) } else { Ok(None) }
}

/// Whether a plan reads columns of queries around it.
pub(crate) fn is_within(plan: &LogicalPlan) -> bool {
    !outer_columns(plan).is_empty()
}

fn refused(what: &str) -> datafusion::common::DataFusionError {
    Error::unsupported(format!("a correlated subquery {what}")).into()
}

/// What names begin with that no statement has.
const OWN: &str = "basalt_outer_";

/// Whether a column has values that a subquery reads of the query around it.
pub(crate) fn is_of_domain(column: &Column) -> bool {
    let is_own = |table: &TableReference| table.table().starts_with(OWN);
    column.name.starts_with(OWN)
        || column.name.starts_with("basalt_c") && column.relation.as_ref().is_some_and(is_own)
}

/// Makes names that no statement has.
struct Names<'a> {
    made: usize,
    session: &'a SessionState,
}

/// What a subquery reads of the query around it.
#[derive(Clone, Debug)]
struct Domain {
    /// The columns around it.
    outer: Vec<Column>,
    /// Their distinct values, in columns of the same order.
    values: LogicalPlan,
}

/// A plan evaluated for each row of a domain, and the columns that say for which.
#[derive(Debug)]
struct Dependent {
    plan: LogicalPlan,
    keys: Vec<Column>,
}

impl Names<'_> {
    fn fresh(&mut self) -> TableReference {
        self.made += 1;
        TableReference::bare(format!("{OWN}{}", self.made))
    }

    /// A plan that has the same rows wherever it is read: what is made for some of its rows is joined to them.
    fn settled(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        if spool::repeats(&plan)? {
            return Ok(plan);
        }
        if spool::takes_turns(&plan)? || is_within(&plan) {
            return Err(refused("beside what may be other rows each time"));
        }
        spool::spooled(plan, self.session, self.fresh())
    }

    /// Makes joins of all correlated subqueries in a plan. Those that are deeper come first, so that a column is that of
    /// the nearest query that has it.
    fn plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let plan = plan.map_children(|child| self.plan(child).map(Transformed::yes)).data()?;
        match plan {
            LogicalPlan::Join(join) => self.join(join),
            plan => self.subqueries(plan),
        }
    }

    /// The subqueries in the expressions of a plan.
    fn subqueries(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let exprs = plan.expressions();
        if !exprs.iter().any(has_subquery) {
            return Ok(plan);
        }
        let [input] = plan.inputs()[..] else { return Err(refused("in this place")) };
        let (mut around, mut changed) = (Around::new(input.clone()), false);
        // Which of them name columns.
        let named = match &plan {
            LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => 0..exprs.len(),
            LogicalPlan::Distinct(Distinct::On(of)) => {
                of.on_expr.len()..of.on_expr.len() + of.select_expr.len()
            }
            _ => 0..0,
        };
        let mut rewritten: Vec<Expr> = Vec::with_capacity(exprs.len());
        for (at, expr) in exprs.iter().enumerate() {
            // What DISTINCT ON is in the order of is what it is of: a subquery in both is one column.
            let is_order = matches!(plan, LogicalPlan::Distinct(_)) && at >= named.end;
            let key =
                if is_order { exprs.iter().take(named.start).position(|key| key == expr) } else { None };
            if let Some(key) = key.and_then(|key| rewritten.get(key)).cloned() {
                rewritten.push(key);
                continue;
            }
            let name = expr.qualified_name();
            let new = self.expr(expr.clone(), &mut around, &mut changed)?;
            rewritten.push(if named.contains(&at) && new.qualified_name() != name {
                new.alias_qualified(name.0, name.1)
            } else {
                new
            });
        }
        let schema = Arc::clone(plan.schema());
        let plan = match &plan {
            LogicalPlan::Distinct(Distinct::On(of)) => distinct_on(of, rewritten, around.plan)?,
            plan => plan.with_new_exprs(rewritten, vec![around.plan])?,
        };
        let keeps =
            matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_));
        if !changed || keeps { Ok(plan) } else { only(plan, schema.columns()) }
    }

    /// An expression with columns in the places of its correlated subqueries, which are joined to what is around them.
    fn expr(&mut self, expr: Expr, around: &mut Around, changed: &mut bool) -> Result<Expr> {
        GivenUp::of_task().check()?;
        let joined = |expr: Expr| match expr {
            Expr::ScalarSubquery(subquery) => {
                let (plan, read) = self.read(&subquery, &around.plan)?;
                let Some(outer) = read else {
                    return Ok(Transformed::yes(Expr::ScalarSubquery(uncorrelated(plan))));
                };
                *changed = true;
                around.settle(self)?;
                self.scalar(plan, outer, around).map(Transformed::yes)
            }
            Expr::Exists(mut exists) => {
                let (plan, read) = self.read(&exists.subquery, &around.plan)?;
                let Some(outer) = read else {
                    exists.subquery = uncorrelated(plan);
                    return Ok(Transformed::yes(Expr::Exists(exists)));
                };
                *changed = true;
                around.settle(self)?;
                let rows = self.rows(plan, outer, around)?;
                let there = rows.gt(lit(0_i64)).is_true();
                Ok(Transformed::yes(if exists.negated { Expr::Not(Box::new(there)) } else { there }))
            }
            Expr::InSubquery(mut within) => {
                let (plan, read) = self.read(&within.subquery, &around.plan)?;
                let Some(outer) = read else {
                    within.subquery = uncorrelated(plan);
                    return Ok(Transformed::yes(Expr::InSubquery(within)));
                };
                *changed = true;
                around.settle(self)?;
                let found = self.within(*within.expr, plan, outer, around)?;
                Ok(Transformed::yes(if within.negated { Expr::Not(Box::new(found)) } else { found }))
            }
            Expr::SetComparison(_) => Err(refused("before ANY or ALL")),
            other => Ok(Transformed::no(other)),
        };
        expr.transform_up(joined).data()
    }

    /// A subquery's plan, and the columns around it that it reads; `None`: it is not correlated.
    fn read(
        &mut self,
        subquery: &Subquery,
        around: &LogicalPlan,
    ) -> Result<(LogicalPlan, Option<Vec<Column>>)> {
        let plan = self.plan(subquery.subquery.as_ref().clone())?;
        let all = outer_columns(&plan);
        if !all.is_empty() {
            keys::steady(&plan)?;
        }
        let read = all.iter().filter(|column| around.schema().has_column(column)).cloned().collect();
        Ok((plan, if all.is_empty() { None } else { Some(read) }))
    }

    fn scalar(&mut self, plan: LogicalPlan, outer: Vec<Column>, around: &mut Around) -> Result<Expr> {
        let Some((qualifier, field)) = plan.schema().iter().next() else {
            return Err(refused("of no column"));
        };
        let value = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        let Dependent { plan, keys } = self.over(plan, outer.clone(), around.with(&outer))?;
        let of_keys = keys.iter().cloned().map(Expr::Column).collect::<Vec<_>>();
        let first = first_value_udaf().call(vec![value]).alias("first");
        let count = count_udaf().call(vec![lit(1_i64)]).alias("count");
        let one = functions::only(
            Expr::Column(Column::from_name("first")),
            Expr::Column(Column::from_name("count")),
        );
        let name = self.fresh();
        let selected = of_keys.iter().cloned().chain([one.alias_qualified(Some(name.clone()), "value")]);
        let plan = LogicalPlanBuilder::from(plan)
            .aggregate(of_keys.clone(), vec![first, count])?
            .project(selected.collect::<Vec<_>>())?
            .build()?;
        around.plan = self.attached(around.plan.clone(), Dependent { plan, keys }, &outer)?;
        Ok(Expr::Column(Column::new(Some(name), "value")))
    }

    /// How many rows a subquery has.
    fn rows(&mut self, plan: LogicalPlan, outer: Vec<Column>, around: &mut Around) -> Result<Expr> {
        let Dependent { plan, keys } = self.over(plan, outer.clone(), around.with(&outer))?;
        let of_keys = keys.iter().cloned().map(Expr::Column).collect::<Vec<_>>();
        let name = self.fresh();
        let count = count_udaf().call(vec![lit(1_i64)]).alias_qualified(Some(name.clone()), "rows");
        let plan = LogicalPlanBuilder::from(plan).aggregate(of_keys, vec![count])?.build()?;
        around.plan = self.attached(around.plan.clone(), Dependent { plan, keys }, &outer)?;
        Ok(Expr::Column(Column::new(Some(name), "rows")))
    }

    /// Whether a value is among the rows of a subquery: by how many there are, how many have the value, and how many are
    /// not NULL.
    fn within(
        &mut self,
        value: Expr,
        plan: LogicalPlan,
        mut outer: Vec<Column>,
        around: &mut Around,
    ) -> Result<Expr> {
        let sought = match value {
            Expr::Column(column) => column,
            value => {
                let name = self.fresh();
                around.add(&value.alias_qualified(Some(name.clone()), "sought"), self)?;
                Column::new(Some(name), "sought")
            }
        };
        if !outer.contains(&sought) {
            outer.push(sought.clone());
        }
        let Some((qualifier, field)) = plan.schema().iter().next() else {
            return Err(refused("of no column"));
        };
        let own = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        let Dependent { plan, keys } = self.over(plan, outer.clone(), around.with(&outer))?;
        let at = outer.iter().position(|column| *column == sought);
        let Some(wanted) = at.and_then(|at| keys.get(at)) else { return Err(refused("of these columns")) };
        let same = when(own.clone().eq(Expr::Column(wanted.clone())), lit(1_i64)).end()?;
        let name = self.fresh();
        let of = |expr: Expr, called: &str| {
            count_udaf().call(vec![expr]).alias_qualified(Some(name.clone()), called)
        };
        let counts = vec![of(lit(1_i64), "rows"), of(same, "same"), of(own, "known")];
        let of_keys = keys.iter().cloned().map(Expr::Column).collect::<Vec<_>>();
        let plan = LogicalPlanBuilder::from(plan).aggregate(of_keys, counts)?.build()?;
        around.plan = self.attached(around.plan.clone(), Dependent { plan, keys }, &outer)?;
        let count = |called: &str| Expr::Column(Column::new(Some(name.clone()), called));
        let unknown = Expr::Column(sought).is_null().or(count("known").lt(count("rows")));
        when(count("rows").gt(lit(0_i64)).is_not_true(), lit(false))
            .when(count("same").gt(lit(0_i64)), lit(true))
            .when(unknown, lit(ScalarValue::Boolean(None)))
            .otherwise(lit(false))
    }

    /// A subquery's plan, for the values that it reads of a plan around it.
    fn over(&mut self, plan: LogicalPlan, outer: Vec<Column>, around: &LogicalPlan) -> Result<Dependent> {
        if outer.is_empty() {
            return Ok(Dependent { plan, keys: Vec::new() });
        }
        let domain = self.domain(outer, around)?;
        self.dependent(plan, &domain)
    }

    fn domain(&mut self, outer: Vec<Column>, around: &LogicalPlan) -> Result<Domain> {
        // By names of their own: no value is taken for one that is merely equal.
        let name = self.fresh();
        let columns = outer.iter().cloned().enumerate().map(|(at, column)| {
            Expr::Column(column).alias_qualified(Some(name.clone()), format!("basalt_c{at}"))
        });
        let columns = columns.collect::<Vec<_>>();
        let values = LogicalPlanBuilder::from(around.clone()).project(columns)?.distinct()?.build()?;
        Ok(Domain { outer, values })
    }

    /// What was made of a subquery beside the rows that it is for, each of which stays once.
    fn attached(&mut self, around: LogicalPlan, of: Dependent, outer: &[Column]) -> Result<LogicalPlan> {
        sized(&of.plan)?;
        if of.keys.is_empty() {
            return LogicalPlanBuilder::from(around).cross_join(of.plan)?.build();
        }
        let on = keys::pairs(outer, around.schema(), &of.keys, of.plan.schema())?;
        joined(around, of.plan, on, None, JoinType::Left)
    }

    /// A join, on the right side of which there may be what reads columns of the left, and in whose condition there may be
    /// subqueries.
    fn join(&mut self, join: Join) -> Result<LogicalPlan> {
        let right = join.right.as_ref().clone().transform_down(unwrapped).data()?;
        let left = join.left.as_ref().clone();
        let outer: Vec<Column> =
            outer_columns(&right).into_iter().filter(|column| left.schema().has_column(column)).collect();
        if outer.is_empty() {
            return self.condition(Join { right: Arc::new(right), ..join });
        }
        if !matches!(
            join.join_type,
            JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti
        ) {
            return Err(refused("in this kind of join"));
        }
        let columns = join.schema.columns();
        let left = self.settled(left)?;
        let Dependent { plan: right, keys } = self.over(right, outer.clone(), &left)?;
        let mut on = keys::pairs(&outer, left.schema(), &keys, right.schema())?;
        on.extend(join.on);
        let plan = joined(left, right, on, join.filter, join.join_type)?;
        match plan {
            LogicalPlan::Join(join) => only(self.condition(join)?, columns),
            plan => only(plan, columns),
        }
    }

    /// A full join: the left join, and the rows of the right side that it has not.
    fn full(&mut self, join: Join) -> Result<LogicalPlan> {
        let [left, right] = [&join.left, &join.right].map(|side| self.settled(side.as_ref().clone()));
        let join = Join { left: Arc::new(left?), right: Arc::new(right?), ..join };
        let (left, right) = (join.left.schema().clone(), join.right.schema().clone());
        let of = |join_type: JoinType, join: &Join| {
            let (on, filter) = (join.on.clone(), join.filter.clone());
            joined(join.left.as_ref().clone(), join.right.as_ref().clone(), on, filter, join_type)
        };
        let both = [of(JoinType::Left, &join)?, of(JoinType::RightAnti, &join)?].map(|plan| match plan {
            LogicalPlan::Join(join) => self.condition(join),
            plan => Ok(plan),
        });
        let [matched, alone] = both;
        let nulls = left.iter().map(|(table, field)| {
            let null = lit(ScalarValue::try_from(field.data_type())?);
            Ok(null.alias_qualified(table.cloned(), field.name()))
        });
        let nulls = nulls.collect::<Result<Vec<_>>>()?;
        let columns = nulls.into_iter().chain(right.columns().into_iter().map(Expr::Column));
        let alone = LogicalPlanBuilder::from(alone?).project(columns.collect::<Vec<_>>())?.build()?;
        // A union forgets of which tables its columns are, and wants one of each name.
        let names = (0..join.schema.fields().len()).map(|at| format!("basalt_f{at}")).collect::<Vec<_>>();
        let renamed = |plan: LogicalPlan| {
            let columns = plan.schema().columns().into_iter().zip(&names);
            let columns = columns.map(|(column, name)| Expr::Column(column).alias(name)).collect::<Vec<_>>();
            LogicalPlanBuilder::from(plan).project(columns)?.build()
        };
        let all = LogicalPlanBuilder::from(renamed(matched?)?).union(renamed(alone)?)?.build()?;
        let back = names.iter().zip(join.schema.columns()).map(|(name, column)| {
            Expr::Column(Column::from_name(name)).alias_qualified(column.relation, column.name)
        });
        LogicalPlanBuilder::from(all).project(back.collect::<Vec<_>>())?.build()
    }

    /// The subqueries in the condition of a join. What reads both sides is evaluated for each pair of values, and joined to
    /// the side whose rows may be there more often for it.
    fn condition(&mut self, mut join: Join) -> Result<LogicalPlan> {
        let on = join.on.iter().any(|(left, right)| has_subquery(left) || has_subquery(right));
        let Some(condition) = join.filter.take_if(|filter| on || has_subquery(filter)) else {
            return match on {
                true => Err(refused("in this place")),
                false => Ok(LogicalPlan::Join(join)),
            };
        };
        if on {
            return Err(refused("in this place"));
        }
        let columns = join.schema.columns();
        if join.join_type == JoinType::Inner {
            let (on, kind) = (join.on, join.join_type);
            let around = joined(join.left.as_ref().clone(), join.right.as_ref().clone(), on, None, kind)?;
            let filter = LogicalPlan::Filter(Filter::try_new(condition, Arc::new(around))?);
            return only(self.subqueries(filter)?, columns);
        }
        if join.join_type == JoinType::Full {
            return self.full(Join { filter: Some(condition), ..join });
        }
        let right_is_kept = match join.join_type {
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => false,
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => true,
            _ => return Err(refused("in the condition of this kind of join")),
        };
        // What is deeper in the subqueries reads what is nearer first.
        let nearer = |expr: Expr| {
            Ok(match expr {
                Expr::ScalarSubquery(subquery) => {
                    Transformed::yes(Expr::ScalarSubquery(of(self.plan(subquery.subquery.as_ref().clone())?)))
                }
                Expr::Exists(mut exists) => {
                    exists.subquery = of(self.plan(exists.subquery.subquery.as_ref().clone())?);
                    Transformed::yes(Expr::Exists(exists))
                }
                Expr::InSubquery(mut within) => {
                    within.subquery = of(self.plan(within.subquery.subquery.as_ref().clone())?);
                    Transformed::yes(Expr::InSubquery(within))
                }
                other => Transformed::no(other),
            })
        };
        let mut condition = condition.transform_up(nearer).data()?;
        let (left, right) = (join.left.as_ref().clone(), join.right.as_ref().clone());
        let (mut kept, mut other) = if right_is_kept { (right, left) } else { (left, right) };
        let mut read = Vec::new();
        condition.apply(|expr| {
            let of = match expr {
                Expr::ScalarSubquery(subquery) => subquery,
                Expr::Exists(exists) => &exists.subquery,
                Expr::InSubquery(within) => {
                    read.extend(within.expr.column_refs().into_iter().cloned());
                    &within.subquery
                }
                _ => return Ok(TreeNodeRecursion::Continue),
            };
            read.extend(outer_columns(&of.subquery));
            Ok(TreeNodeRecursion::Continue)
        })?;
        read.sort();
        read.dedup();
        read.retain(|column| kept.schema().has_column(column));
        let mut on = join.on;
        if !read.is_empty() {
            // The rows of the other side once for each of the values of this one, which the subqueries then read there.
            kept = self.settled(kept)?;
            let Domain { outer, values } = self.domain(read, &kept)?;
            let name = self.fresh();
            let columns = (0..).map(|at: usize| Column::new(Some(name.clone()), format!("basalt_c{at}")));
            let keys: Vec<Column> = columns.take(outer.len()).collect();
            let renamed = values.schema().columns().into_iter().zip(&keys);
            let renamed = renamed
                .map(|(column, key)| Expr::Column(column).alias_qualified(key.relation.clone(), &key.name));
            let values =
                LogicalPlanBuilder::from(values.clone()).project(renamed.collect::<Vec<_>>())?.build()?;
            other = LogicalPlanBuilder::from(other).cross_join(values)?.build()?;
            let pairs = keys::pairs(&outer, kept.schema(), &keys, other.schema())?;
            on.extend(pairs.into_iter().map(|(of_kept, of_other)| match right_is_kept {
                true => (of_other, of_kept),
                false => (of_kept, of_other),
            }));
            condition = dependent::moved_with_subqueries(condition, &outer, &keys)?;
        }
        let mut changed = false;
        let mut other = Around::new(other);
        let condition = self.expr(condition, &mut other, &mut changed)?;
        let other = other.plan;
        let (left, right) = if right_is_kept { (other, kept) } else { (kept, other) };
        only(joined(left, right, on, Some(condition), join.join_type)?, columns)
    }
}

/// That a plan is not too large. What reads values of another plan has that plan in it: in subqueries within subqueries it is
/// there many times, all of which would be planned.
fn sized(plan: &LogicalPlan) -> Result<()> {
    let mut nodes = 0;
    plan.apply_with_subqueries(|_| {
        nodes += 1;
        Ok(if nodes > limits::CORRELATED_NODES {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    match nodes > limits::CORRELATED_NODES {
        true => Err(refused("among so many others")),
        false => Ok(()),
    }
}

fn uncorrelated(plan: LogicalPlan) -> Subquery {
    Subquery { subquery: Arc::new(plan), outer_ref_columns: Vec::new(), spans: Default::default() }
}

/// A subquery of a plan, with what it reads.
fn of(plan: LogicalPlan) -> Subquery {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Subquery { outer_ref_columns, ..uncorrelated(plan) }
}

fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)
        ))
    };
    // Default: what cannot be walked is looked into.
    expr.exists(is_one).unwrap_or(true)
}

/// The columns of queries around a plan that it reads.
fn outer_columns(plan: &LogicalPlan) -> Vec<Column> {
    let columns = plan.all_out_ref_exprs().into_iter().filter_map(|expr| match expr {
        Expr::OuterReferenceColumn(_, column) => Some(column),
        _ => None,
    });
    columns.collect()
}

/// What stands in a plan for a subquery in FROM is that subquery.
fn unwrapped(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    Ok(match plan {
        LogicalPlan::Subquery(subquery) => Transformed::yes(subquery.subquery.as_ref().clone()),
        plan => Transformed::no(plan),
    })
}

/// DISTINCT ON of other expressions: its keys, its list, and its order, which the plan would not be given.
fn distinct_on(of: &DistinctOn, mut exprs: Vec<Expr>, input: LogicalPlan) -> Result<LogicalPlan> {
    let order = exprs.split_off(of.on_expr.len() + of.select_expr.len());
    let list = exprs.split_off(of.on_expr.len());
    let mut made = DistinctOn::try_new(exprs, list, None, Arc::new(input))?;
    made.sort_expr = of.sort_expr.as_ref().map(|keys| {
        let keys = keys.iter().zip(order);
        keys.map(|(key, expr)| key.with_expr(expr)).collect()
    });
    Ok(LogicalPlan::Distinct(Distinct::On(made)))
}

/// A plan with some of its columns.
fn only(plan: LogicalPlan, columns: Vec<Column>) -> Result<LogicalPlan> {
    let columns = columns.into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}

fn joined(
    left: LogicalPlan,
    right: LogicalPlan,
    on: Vec<(Expr, Expr)>,
    filter: Option<Expr>,
    join_type: JoinType,
) -> Result<LogicalPlan> {
    use datafusion::common::{JoinConstraint, NullEquality};
    let (left, right) = (Arc::new(left), Arc::new(right));
    let (constraint, nulls) = (JoinConstraint::On, NullEquality::NullEqualsNothing);
    Ok(LogicalPlan::Join(Join::try_new(left, right, on, filter, join_type, constraint, nulls, false)?))
}
