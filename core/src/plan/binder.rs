//! Resolving the names and types of expressions.

use std::sync::Arc;

use super::{
    BoundAggregate,
    expr::{BoundAttribute, BoundExpr, Slots, arithmetic_type, literal_value, time_type},
    pred::Pred,
    references,
    text::expr_text,
};
use crate::{
    error::{Error, ErrorKind, Result},
    invariant::Invariant,
    limits::{MAX_FILTER_DEPTH, MAX_FILTER_NODES},
    query::{Aggregate, AggregateFunction, Attribute, CompareOp, Expr, Filter, ROW_ADDRESS},
    schema::DataType,
    table::{Cutoff, Snapshot, Table, no_column},
};

/// Resolves names and types, first against the columns of a row, then (see [`Binder::enter_groups`]) against
/// the keys and aggregates of a group.
pub(super) struct Binder<'a> {
    pub(super) table: &'a Table,
    pub(super) version: u64,
    cutoff: Option<Cutoff>,
    pub(super) slots: Slots,
    nodes: usize,
    /// Above groups: the keys as the query wrote them.
    keys: Vec<Expr>,
    /// Above groups: the row slots, and the aggregates met so far.
    below: Slots,
    pub(super) aggregates: Option<Vec<BoundAggregate>>,
}

impl<'a> Binder<'a> {
    pub(super) fn new(table: &'a Table, snapshot: &Snapshot) -> Self {
        let mut fields: Vec<_> =
            table.schema().fields().iter().map(|f| (f.name.clone(), f.data_type)).collect();
        fields.push((ROW_ADDRESS.to_owned(), DataType::UInt64));
        let logicals = table.schema().fields().iter().map(|f| f.logical).chain([None]).collect();
        let slots = Slots { fields, logicals, of_rows: true };
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

    pub(super) fn top_filter(&mut self, filter: Option<&Filter>) -> Result<Option<Pred>> {
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
    pub(super) fn enter_groups(&mut self, keys: &[Expr], bound: &[BoundExpr]) {
        let fields = keys
            .iter()
            .zip(bound)
            .map(|(key, b)| (expr_text(key), b.data_type(&self.slots).invariant("null is no group key")));
        let logicals = bound.iter().map(|key| key.logical(&self.slots)).collect();
        let above = Slots { fields: fields.collect(), logicals, of_rows: false };
        self.below = std::mem::replace(&mut self.slots, above);
        self.keys = keys.to_vec();
        self.aggregates = Some(Vec::new());
    }

    /// Whether comparisons of a slot become tests on an encoded column.
    pub(super) fn lowers(&self, slot: usize) -> bool {
        self.slots.of_rows && slot + 1 < self.slots.fields.len()
    }

    pub(super) fn count_node(&mut self, depth: usize) -> Result<()> {
        if depth > MAX_FILTER_DEPTH {
            let message = format!("nested deeper than {MAX_FILTER_DEPTH}");
            return Err(Error::new(ErrorKind::FilterTooDeep, message));
        }
        self.count_nodes(1)
    }

    pub(super) fn count_nodes(&mut self, n: usize) -> Result<()> {
        self.nodes = self.nodes.saturating_add(n);
        if self.nodes > MAX_FILTER_NODES {
            let message = format!("more than {MAX_FILTER_NODES} nodes");
            return Err(Error::new(ErrorKind::FilterTooLarge, message));
        }
        Ok(())
    }

    pub(super) fn expr(&mut self, expr: &Expr, depth: usize) -> Result<BoundExpr> {
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
                for side in [&left, &right] {
                    self.not_held("arithmetic takes numbers", side)?;
                }
                let data_type = arithmetic_type(
                    *op,
                    left.data_type(&self.slots),
                    right.data_type(&self.slots),
                    self.slots.of_rows,
                )?;
                Ok(BoundExpr::Arithmetic(*op, Box::new(left), Box::new(right), data_type))
            }
            Expr::Time(function, of) => {
                let of = self.expr(of, depth + 1).map_err(|e| e.at("time.of"))?;
                let data_type = time_type(*function, of.data_type(&self.slots))?;
                Ok(BoundExpr::Time(*function, Box::new(of), data_type))
            }
            Expr::Aggregate(aggregate) => self.aggregate(aggregate, depth).map_err(|e| e.at("aggregate")),
        }
    }

    /// Fails for what is held in the form of another type, where the form would be taken for the value.
    pub(super) fn not_held(&self, what: &str, expr: &BoundExpr) -> Result<()> {
        match expr.logical(&self.slots) {
            Some(logical) => Err(Error::new(ErrorKind::TypeMismatch, format!("{what}, not {logical}"))),
            None => Ok(()),
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
        let logical = bound.as_ref().ok().and_then(|bound| bound.logical(&self.slots));
        self.keys = keys;
        self.below = std::mem::replace(&mut self.slots, above);
        let result = bound.map(|bound| {
            let known = aggregates.iter().position(|a| *a == bound);
            let at = known.unwrap_or_else(|| {
                self.slots
                    .fields
                    .push((expr_text(&Expr::Aggregate(Box::new(aggregate.clone()))), bound.data_type));
                self.slots.logicals.push(logical);
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
        if let (AggregateFunction::Sum | AggregateFunction::Avg, Some(argument)) = (function, &argument) {
            let what = format!("{function:?} takes numbers").to_lowercase();
            self.not_held(&what, argument).map_err(|e| e.at("argument"))?;
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
