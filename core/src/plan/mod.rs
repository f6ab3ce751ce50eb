//! From a query with names to a plan with places: everything that can be wrong with a request, apart from
//! the values themselves, is found here.
//!
//! A plan of rows reads the columns of each selected row. A plan of groups has two levels: row expressions
//! feed the group keys and the aggregates; above them, outputs, `having` and the order see only the slots
//! `[group keys..., aggregates...]`.

mod bind_filter;
pub mod expr;
mod literal;
pub mod pred;
pub(crate) mod references;
pub mod sets;

use std::sync::Arc;

pub use literal::parse_decimal;

use self::{
    expr::{BoundAttribute, BoundExpr, Slots, arithmetic_type, literal_value},
    pred::Pred,
};
use crate::{
    error::{Error, ErrorKind, Result},
    invariant::{Invariant, index},
    limits::{MAX_FILTER_DEPTH, MAX_FILTER_NODES, MAX_OUTPUTS},
    query::{Aggregate, AggregateFunction, Attribute, CompareOp, Expr, Filter, Query, ROW_ADDRESS},
    schema::{DataType, Field, Schema},
    table::{Cutoff, Snapshot, Table, no_column},
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
                .map(|(name, expr)| Field::new(name, expr.shown_type(&slots), true))
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
        _ => false,
    }
}

/// Resolves names and types, first against the columns of a row, then (see [`Binder::enter_groups`]) against
/// the keys and aggregates of a group.
struct Binder<'a> {
    table: &'a Table,
    version: u64,
    cutoff: Option<Cutoff>,
    slots: Slots,
    nodes: usize,
    /// Above groups: the keys as the query wrote them.
    keys: Vec<Expr>,
    /// Above groups: the row slots, and the aggregates met so far.
    below: Slots,
    aggregates: Option<Vec<BoundAggregate>>,
}

impl<'a> Binder<'a> {
    fn new(table: &'a Table, snapshot: &Snapshot) -> Self {
        let mut fields: Vec<_> =
            table.schema().fields().iter().map(|f| (f.name.clone(), f.data_type)).collect();
        fields.push((ROW_ADDRESS.to_owned(), DataType::UInt64));
        let slots = Slots { fields, of_rows: true };
        Self {
            table,
            version: snapshot.version(),
            cutoff: snapshot.cutoff(),
            slots,
            nodes: 0,
            keys: Vec::new(),
            below: Slots::default(),
            aggregates: None,
        }
    }

    fn top_filter(&mut self, filter: Option<&Filter>) -> Result<Option<Pred>> {
        let selected = filter.map(|filter| self.filter(filter, false, 1).map_err(|e| e.at("filter")));
        let preds = selected.transpose()?.into_iter().chain(self.kept()?);
        Ok(Some(Pred::and(preds.collect())).filter(|pred| !matches!(pred, Pred::Constant(true))))
    }

    /// The rows that the snapshot does not hide.
    fn kept(&self) -> Result<Option<Pred>> {
        let Some(cutoff) = self.cutoff else { return Ok(None) };
        let slot = cutoff.column;
        let field = &self.table.schema().fields()[slot];
        let Some(literal) = cutoff.literal(field.data_type) else { return Ok(None) };
        let newer = self.test(slot, CompareOp::Ge, &literal)?;
        let is_null = Pred::IsNull { slot, negated: false };
        Ok(Some(if field.nullable { Pred::or(vec![newer, is_null]) } else { newer }))
    }

    /// From here on expressions see group keys and aggregates.
    fn enter_groups(&mut self, keys: &[Expr], bound: &[BoundExpr]) {
        let fields = keys
            .iter()
            .zip(bound)
            .map(|(key, b)| (expr_text(key), b.data_type(&self.slots).invariant("null is no group key")));
        let above = Slots { fields: fields.collect(), of_rows: false };
        self.below = std::mem::replace(&mut self.slots, above);
        self.keys = keys.to_vec();
        self.aggregates = Some(Vec::new());
    }

    /// Whether comparisons of a slot become tests on an encoded column.
    fn lowers(&self, slot: usize) -> bool {
        self.slots.of_rows && slot + 1 < self.slots.fields.len()
    }

    fn count_node(&mut self, depth: usize) -> Result<()> {
        if depth > MAX_FILTER_DEPTH {
            let message = format!("nested deeper than {MAX_FILTER_DEPTH}");
            return Err(Error::new(ErrorKind::FilterTooDeep, message));
        }
        self.count_nodes(1)
    }

    fn count_nodes(&mut self, n: usize) -> Result<()> {
        self.nodes = self.nodes.saturating_add(n);
        if self.nodes > MAX_FILTER_NODES {
            let message = format!("more than {MAX_FILTER_NODES} nodes");
            return Err(Error::new(ErrorKind::FilterTooLarge, message));
        }
        Ok(())
    }

    fn expr(&mut self, expr: &Expr, depth: usize) -> Result<BoundExpr> {
        self.count_node(depth)?;
        if let Some(at) = self.keys.iter().position(|key| key == expr) {
            return Ok(BoundExpr::Slot(at));
        }
        match expr {
            Expr::Literal(literal) => Ok(BoundExpr::Literal(literal_value(literal))),
            Expr::Column(name) => self.column(name).map_err(|e| e.at("column")),
            Expr::Attribute(attribute) => self.attribute(attribute).map_err(|e| e.at("attribute")),
            Expr::Arithmetic(op, left, right) => {
                let left = self.expr(left, depth + 1).map_err(|e| e.at("arithmetic.left"))?;
                let right = self.expr(right, depth + 1).map_err(|e| e.at("arithmetic.right"))?;
                let data_type = arithmetic_type(
                    *op,
                    left.data_type(&self.slots),
                    right.data_type(&self.slots),
                    self.slots.of_rows,
                )?;
                Ok(BoundExpr::Arithmetic(*op, Box::new(left), Box::new(right), data_type))
            }
            Expr::Aggregate(aggregate) => self.aggregate(aggregate, depth).map_err(|e| e.at("aggregate")),
        }
    }

    fn column(&self, name: &str) -> Result<BoundExpr> {
        let found = if self.aggregates.is_some() {
            None
        } else if name == ROW_ADDRESS {
            Some(self.slots.fields.len() - 1)
        } else {
            self.table.schema().index_of(name)
        };
        match found {
            Some(slot) => Ok(BoundExpr::Slot(slot)),
            None if self.table.schema().index_of(name).is_some() || name == ROW_ADDRESS => {
                let message = format!("column {name:?} is neither in an aggregate nor in group_by");
                Err(Error::new(ErrorKind::InvalidQuery, message))
            }
            None => Err(no_column(self.table, name)),
        }
    }

    fn attribute(&self, attribute: &Attribute) -> Result<BoundExpr> {
        if self.aggregates.is_some() {
            let message = format!("attribute {attribute} is neither in an aggregate nor in group_by");
            return Err(Error::new(ErrorKind::InvalidQuery, message));
        }
        references::reference(self.table, &attribute.column)?;
        match (self.table.schema().index_of(&attribute.column), &attribute.lookup) {
            (Some(slot), Some(lookup)) => {
                let (name, lookup) = (attribute.name.as_str().into(), Arc::clone(lookup));
                Ok(BoundExpr::Attribute(BoundAttribute { slot, name, lookup }))
            }
            _ => {
                let message = "an attribute is looked up before its query is bound";
                Err(Error::new(ErrorKind::InvalidQuery, message))
            }
        }
    }

    fn aggregate(&mut self, aggregate: &Aggregate, depth: usize) -> Result<BoundExpr> {
        let Some(mut aggregates) = self.aggregates.take() else {
            let message = "an aggregate inside an aggregate, a filter or a group key";
            return Err(Error::new(ErrorKind::InvalidQuery, message));
        };
        // The argument is bound below the groups.
        let above = std::mem::replace(&mut self.slots, std::mem::take(&mut self.below));
        let keys = std::mem::take(&mut self.keys);
        let bound = self.bind_aggregate(aggregate, depth);
        self.keys = keys;
        self.below = std::mem::replace(&mut self.slots, above);
        let result = bound.map(|bound| {
            let known = aggregates.iter().position(|a| *a == bound);
            let at = known.unwrap_or_else(|| {
                self.slots
                    .fields
                    .push((expr_text(&Expr::Aggregate(Box::new(aggregate.clone()))), bound.data_type));
                aggregates.push(bound);
                aggregates.len() - 1
            });
            BoundExpr::Slot(self.keys.len() + at)
        });
        self.aggregates = Some(aggregates);
        result
    }

    fn bind_aggregate(&mut self, aggregate: &Aggregate, depth: usize) -> Result<BoundAggregate> {
        let function = aggregate.function;
        let argument = match &aggregate.argument {
            Some(argument) => Some(self.expr(argument, depth + 1).map_err(|e| e.at("argument"))?),
            None => None,
        };
        if aggregate.distinct && (function != AggregateFunction::Count || argument.is_none()) {
            return Err(Error::new(ErrorKind::InvalidQuery, "distinct belongs to count of an expression"));
        }
        if argument.is_none() && function != AggregateFunction::Count {
            return Err(
                Error::new(ErrorKind::InvalidQuery, "this aggregate needs an argument").at("argument")
            );
        }
        let argument_type = argument.as_ref().and_then(|a| a.data_type(&self.slots));
        if argument.is_some() && argument_type.is_none() {
            return Err(
                Error::new(ErrorKind::TypeMismatch, "an aggregate of null has no type").at("argument")
            );
        }
        let numeric = |t: DataType| {
            if t.is_numeric() {
                return Ok(t);
            }
            Err(Error::new(
                ErrorKind::TypeMismatch,
                format!("{function:?} takes numbers, not {t}").to_lowercase(),
            )
            .at("argument"))
        };
        let data_type = match (function, argument_type) {
            (AggregateFunction::Count, _) | (_, None) => DataType::Int64,
            (AggregateFunction::Min | AggregateFunction::Max, Some(t)) => t,
            (AggregateFunction::Avg, Some(t)) => numeric(t).map(|_| DataType::Float64)?,
            (AggregateFunction::Sum, Some(t)) => match numeric(t)? {
                DataType::Float32 | DataType::Float64 => DataType::Float64,
                DataType::Decimal { scale, .. } => DataType::Decimal { precision: 38, scale },
                DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => DataType::UInt64,
                _ => DataType::Int64,
            },
        };
        Ok(BoundAggregate { function, argument, argument_type, distinct: aggregate.distinct, data_type })
    }
}

/// An expression as SQL writes it: the name of an output that has none.
pub fn expr_text(expr: &Expr) -> String {
    match expr {
        Expr::Column(name) => name.clone(),
        Expr::Attribute(attribute) => attribute.to_string(),
        Expr::Literal(literal) => {
            BoundExpr::Literal(literal_value(literal)).display(&Slots::default()).to_string()
        }
        Expr::Arithmetic(op, left, right) => {
            let side = |e: &Expr| match e {
                Expr::Arithmetic(..) => format!("({})", expr_text(e)),
                e => expr_text(e),
            };
            let op = match op {
                crate::query::ArithmeticOp::Add => '+',
                crate::query::ArithmeticOp::Subtract => '-',
                crate::query::ArithmeticOp::Multiply => '*',
                crate::query::ArithmeticOp::Divide => '/',
            };
            format!("{} {op} {}", side(left), side(right))
        }
        Expr::Aggregate(aggregate) => {
            let name = match aggregate.function {
                AggregateFunction::Count => "count",
                AggregateFunction::Sum => "sum",
                AggregateFunction::Min => "min",
                AggregateFunction::Max => "max",
                AggregateFunction::Avg => "avg",
            };
            let distinct = if aggregate.distinct { "DISTINCT " } else { "" };
            match &aggregate.argument {
                Some(argument) => format!("{name}({distinct}{})", expr_text(argument)),
                None => format!("{name}(*)"),
            }
        }
    }
}
