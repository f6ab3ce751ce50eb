//! From a query with names to a plan with places: everything that can be wrong with a request, apart from
//! the values themselves, is found here.
//!
//! A plan of rows reads the columns of each selected row. A plan of groups has two levels: row expressions
//! feed the group keys and the aggregates; above them, outputs, `having` and the order see only the slots
//! `[group keys..., aggregates...]`.

mod bind_filter;
mod binder;
pub mod expr;
mod literal;
pub mod pred;
pub(crate) mod references;
pub mod sets;
mod text;

pub(crate) use self::literal::floor_among;
pub use self::text::{expr_text, filter_text, query_text};
use self::{
    binder::Binder,
    expr::{BoundExpr, Slots},
    pred::Pred,
};
use crate::{
    error::{Error, ErrorKind, Result},
    invariant::{Invariant, index},
    limits::{MAX_FILTER_DEPTH, MAX_OUTPUTS},
    logical::Logical,
    query::{AggregateFunction, Expr, Filter, Query},
    schema::{DataType, Field, Schema},
    table::{Snapshot, Table},
};

/// An aggregate over a row expression.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundAggregate {
    /// The function.
    pub function: AggregateFunction,
    /// Its argument; `None` is `count(*)`.
    pub argument: Option<BoundExpr>,
    /// The argument's type.
    pub argument_type: Option<DataType>,
    /// `count(distinct ...)`.
    pub distinct: bool,
    /// The result's type.
    pub data_type: DataType,
}

impl BoundAggregate {
    /// What its values are, where they are held in the form of another type.
    pub(crate) fn logical(&self, slots: &Slots) -> Option<Logical> {
        match self.function {
            AggregateFunction::Min | AggregateFunction::Max => self.argument.as_ref()?.logical(slots),
            _ => None,
        }
    }

    /// The places behind the point that integer sums of the argument have.
    pub(crate) fn argument_scale(&self) -> u8 {
        match self.argument_type {
            Some(DataType::Decimal { scale, .. }) => scale,
            _ => 0,
        }
    }
}

/// What an answer's rows are.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Selected rows of the table.
    Rows,
    /// One row for each group.
    Groups {
        /// The keys, over the row slots.
        keys: Vec<BoundExpr>,
        /// The aggregates, over the row slots.
        aggregates: Vec<BoundAggregate>,
        /// Which groups, over the group slots.
        having: Option<Pred>,
    },
}

/// One key of the order: a place among the outputs, hidden ones included.
#[derive(Clone, Copy, Debug)]
pub struct SortKey {
    /// The output.
    pub output: usize,
    /// Largest first.
    pub descending: bool,
    /// Nulls first.
    pub nulls_first: bool,
}

/// A query bound to a table.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The columns of a row, and its address behind them.
    pub rows: Slots,
    /// Which rows.
    pub filter: Option<Pred>,
    /// What the answer's rows are.
    pub shape: Shape,
    /// The slots that outputs and the order see: those of `rows`, or the group slots.
    pub slots: Slots,
    /// The answer's columns, then hidden ones that only the order needs.
    pub outputs: Vec<BoundExpr>,
    /// The order; empty: by group key, or by row address.
    pub order: Vec<SortKey>,
    /// At most so many rows.
    pub limit: Option<u64>,
    /// After leaving out so many.
    pub offset: u64,
    visible: usize,
    schema: Schema,
}

impl Plan {
    /// Binds a query to a snapshot of its table.
    ///
    /// # Errors
    /// What is wrong with the request, and where.
    pub fn new(table: &Table, snapshot: &Snapshot, query: &Query) -> Result<Self> {
        let mut binder = Binder::new(table, snapshot);
        let filter = binder.top_filter(query.filter.as_ref())?;
        let select: Vec<(Expr, Option<&str>)> = if query.select.is_empty() && query.group_by.is_empty() {
            let all = table.schema().fields().iter();
            all.map(|f| (Expr::Column(f.name.clone()), Some(f.name.as_str()))).collect()
        } else if query.select.is_empty() {
            query.group_by.iter().map(|e| (e.clone(), None)).collect()
        } else {
            query.select.iter().map(|item| (item.expr.clone(), item.name.as_deref())).collect()
        };
        for (what, n) in
            [("select", select.len()), ("group_by", query.group_by.len()), ("order_by", query.order_by.len())]
        {
            if n > MAX_OUTPUTS {
                let message = format!("{n} expressions; the limit is {MAX_OUTPUTS}");
                return Err(Error::new(ErrorKind::InvalidQuery, message).at(what));
            }
        }
        let grouped = !query.group_by.is_empty()
            || query.having.is_some()
            || select.iter().any(|(e, _)| has_aggregate(e, 0))
            || query.order_by.iter().any(|o| has_aggregate(&o.expr, 0));
        let rows = binder.slots.clone();
        let mut keys = Vec::new();
        if grouped {
            for (i, key) in query.group_by.iter().enumerate() {
                let bound = binder.expr(key, 1).map_err(|e| e.at(format!("group_by[{i}]")))?;
                if bound.data_type(&rows).is_none() {
                    let error = Error::new(ErrorKind::TypeMismatch, "null is no group key");
                    return Err(error.at(format!("group_by[{i}]")));
                }
                keys.push(bound);
            }
            binder.enter_groups(&query.group_by, &keys);
        }
        let mut outputs = Vec::new();
        let mut fields = Vec::new();
        for (i, (expr, name)) in select.iter().enumerate() {
            let bound = binder.expr(expr, 1).map_err(|e| e.at("expr").at(format!("select[{i}]")))?;
            let name = name.filter(|n| !n.is_empty()).map_or_else(|| expr_text(expr), str::to_owned);
            outputs.push(bound);
            fields.push(name);
        }
        let having = match &query.having {
            Some(having) => Some(binder.filter(having, false, 1).map_err(|e| e.at("having"))?),
            None => None,
        };
        let mut order = Vec::new();
        for (i, key) in query.order_by.iter().enumerate() {
            let place = || format!("order_by[{i}].expr");
            let named = match &key.expr {
                Expr::Column(name) if !key.of_table => fields.iter().position(|f| f == name),
                _ => None,
            };
            let output = match named {
                Some(output) => output,
                None => {
                    let bound = binder.expr(&key.expr, 1).map_err(|e| e.at(place()))?;
                    outputs.iter().position(|o| *o == bound).unwrap_or_else(|| {
                        outputs.push(bound);
                        outputs.len() - 1
                    })
                }
            };
            order.push(SortKey { output, descending: key.descending, nulls_first: key.nulls_first });
        }
        let visible = fields.len();
        let slots = binder.slots.clone();
        let schema = Schema::of_answer(
            fields
                .into_iter()
                .zip(&outputs)
                .map(|(name, bound)| Field {
                    logical: bound.logical(&slots),
                    ..Field::new(name, bound.shown_type(&slots), true)
                })
                .collect(),
        );
        let shape = if grouped {
            let aggregates = binder.aggregates.invariant("a grouped query has entered its groups");
            Shape::Groups { keys, aggregates, having }
        } else {
            Shape::Rows
        };
        Ok(Self {
            rows,
            filter,
            shape,
            slots,
            outputs,
            order,
            limit: query.limit,
            offset: query.offset,
            visible,
            schema,
        })
    }

    /// Binds a filter alone, for a selection of rows.
    ///
    /// # Errors
    /// What is wrong with the filter, and where.
    pub fn filter(
        table: &Table,
        snapshot: &Snapshot,
        filter: Option<&Filter>,
    ) -> Result<(Slots, Option<Pred>)> {
        let mut binder = Binder::new(table, snapshot);
        let pred = binder.top_filter(filter)?;
        Ok((binder.slots, pred))
    }

    /// The columns that a filter reads, by their places, ascending.
    ///
    /// # Errors
    /// Those of [`Plan::filter`].
    pub fn filter_columns(table: &Table, snapshot: &Snapshot, filter: Option<&Filter>) -> Result<Vec<usize>> {
        let (rows, pred) = Self::filter(table, snapshot, filter)?;
        let mut slots = Vec::new();
        pred.iter().for_each(|pred| pred.slots(&mut slots));
        Ok(columns_of(slots, &rows))
    }

    /// The columns that it reads, by their places, ascending.
    pub fn columns(&self) -> Vec<usize> {
        let mut slots = Vec::new();
        self.filter.iter().for_each(|pred| pred.slots(&mut slots));
        match &self.shape {
            Shape::Rows => self.outputs.iter().for_each(|output| output.slots(&mut slots)),
            Shape::Groups { keys, aggregates, .. } => {
                let arguments = aggregates.iter().filter_map(|aggregate| aggregate.argument.as_ref());
                keys.iter().chain(arguments).for_each(|expr| expr.slots(&mut slots));
            }
        }
        columns_of(slots, &self.rows)
    }

    /// How many of the outputs the answer shows.
    pub fn visible(&self) -> usize {
        self.visible
    }

    /// The answer's columns.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The plan of rows that some of the table's fragments run when the others are elsewhere: it shows the first
    /// rows up to the end of this plan's page. Where rows are sorted it shows all outputs, the address, and why a
    /// row has no values.
    pub(crate) fn of_part(&self) -> Self {
        let mut part = Self { limit: self.top(), offset: 0, ..self.clone() };
        if matches!(self.shape, Shape::Rows) && !self.order.is_empty() {
            part.outputs.push(BoundExpr::Slot(self.rows.fields.len() - 1));
            let fields = part
                .outputs
                .iter()
                .enumerate()
                .map(|(i, output)| Field::new(i.to_string(), output.shown_type(&self.slots), true));
            let failure = Field::new("failure", DataType::UInt8, true);
            part.schema = Schema::of_answer(fields.chain([failure]).collect());
            part.visible = part.outputs.len();
        }
        part
    }

    /// Rows that are needed from the front of the order; `None`: all.
    pub fn top(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_add(self.offset))
    }

    /// The same as a number of items in memory, of which there are never `usize::MAX`.
    pub(crate) fn top_items(&self) -> usize {
        self.top().map_or(usize::MAX, index)
    }
}

/// The columns among some slots, by their places, ascending. The last slot is the row's address, which is none.
fn columns_of(mut slots: Vec<usize>, rows: &Slots) -> Vec<usize> {
    slots.sort_unstable();
    slots.dedup();
    slots.retain(|slot| slot + 1 < rows.fields.len());
    slots
}

/// Whether an expression holds an aggregate (as deep as one may be).
fn has_aggregate(expr: &Expr, depth: usize) -> bool {
    match expr {
        Expr::Aggregate(_) => true,
        Expr::Arithmetic(_, left, right) if depth < MAX_FILTER_DEPTH => {
            has_aggregate(left, depth + 1) || has_aggregate(right, depth + 1)
        }
        Expr::Time(_, of) if depth < MAX_FILTER_DEPTH => has_aggregate(of, depth + 1),
        _ => false,
    }
}
