//! Joins that the engine answers by itself: a join to the key of a table that a column refers to is a scan of the
//! referring table, whose rows have the other's values as attributes; a semi-join and an anti-join are conditions on it.
//! So nothing of the rows is decoded to be joined, and an aggregate above is the engine's, too.

use std::sync::Arc;

use arrow_schema::{Field, Schema as ArrowSchema};
use basalt_core::{
    plan::expr_text,
    query::{Attribute, Expr as Value, Filter, Query, SelectItem, SemiJoin},
    schema::DataType as Logical,
};
use datafusion::{
    common::{Column, DFSchema, NullEquality, Result, TableReference, tree_node::Transformed},
    datasource::provider_as_source,
    logical_expr::{Expr, Join, JoinType, LogicalPlan, Projection, TableScan, TableScanBuilder},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

use crate::{
    fuse::{below, named, scan_of, table_of},
    limits,
    table::{BasaltTable, Columns, all, selected},
};

/// See the module.
#[derive(Debug)]
pub(crate) struct FuseJoins;

impl OptimizerRule for FuseJoins {
    fn name(&self) -> &str {
        "fuse_joins"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &plan else { return Ok(Transformed::no(plan)) };
        match fused(join)? {
            Some(fused) => Ok(Transformed::yes(fused)),
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// What becomes of the rows of the one side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Those that have one of the other's are left, with its values.
    Inner,
    /// All are left, with the other's values, or null.
    Outer,
    /// Those that have one of the other's are left.
    Semi,
    /// Those that have none.
    Anti,
}

fn fused(join: &Join) -> Result<Option<LogicalPlan>> {
    if join.filter.is_some() || join.null_aware || join.null_equality != NullEquality::NullEqualsNothing {
        return Ok(None);
    }
    let [(left_key, right_key)] = join.on.as_slice() else { return Ok(None) };
    let (Some(left), Some(right)) = (Side::of(&join.left), Side::of(&join.right)) else { return Ok(None) };
    let (from_left, from_right) = ((left, left_key), (right, right_key));
    let (ways, kind) = match join.join_type {
        JoinType::Inner => (vec![(&from_left, &from_right), (&from_right, &from_left)], Kind::Inner),
        JoinType::Left => (vec![(&from_left, &from_right)], Kind::Outer),
        JoinType::Right => (vec![(&from_right, &from_left)], Kind::Outer),
        JoinType::LeftSemi => (vec![(&from_left, &from_right)], Kind::Semi),
        JoinType::RightSemi => (vec![(&from_right, &from_left)], Kind::Semi),
        JoinType::LeftAnti => (vec![(&from_left, &from_right)], Kind::Anti),
        JoinType::RightAnti => (vec![(&from_right, &from_left)], Kind::Anti),
        _ => return Ok(None),
    };
    for ((outer, outer_key), (inner, inner_key)) in ways {
        if let Some(fused) = (Way { outer, inner, kind }).fused(outer_key, inner_key, &join.schema)? {
            return Ok(Some(fused));
        }
    }
    Ok(None)
}

/// One side of a join: a scan, and the projections above it.
struct Side<'a> {
    plan: &'a LogicalPlan,
    scan: &'a TableScan,
    projections: Vec<&'a Projection>,
    table: &'a BasaltTable,
}

impl<'a> Side<'a> {
    fn of(plan: &'a LogicalPlan) -> Option<Self> {
        let (scan, projections) = scan_of(plan)?;
        let table = table_of(scan)?;
        scan.fetch.is_none().then_some(Self { plan, scan, projections, table })
    }

    /// An expression over its rows as one over those of the scan.
    fn below(&self, expr: &Expr) -> Option<Expr> {
        self.projections.iter().try_fold(expr.clone(), |expr, between| below(expr, between))
    }

    /// The name of a column of the table that a side of the join's condition is.
    fn key(&self, expr: &Expr) -> Option<String> {
        match self.table.translator().compared_column(&self.below(expr)?)? {
            Value::Column(name) => Some(name),
            _ => None,
        }
    }

    fn has(&self, column: &Column) -> bool {
        self.plan.schema().has_column(column)
    }
}

/// A side whose rows are scanned, and one that they refer to.
struct Way<'a> {
    outer: &'a Side<'a>,
    inner: &'a Side<'a>,
    kind: Kind,
}

impl Way<'_> {
    fn fused(
        &self,
        outer_key: &Expr,
        inner_key: &Expr,
        schema: &Arc<DFSchema>,
    ) -> Result<Option<LogicalPlan>> {
        let Some(relation) = self.relation(outer_key, inner_key, schema) else { return Ok(None) };
        let (table, places) = relation;
        let inner = self.inner.table.source().table().name();
        let name = format!("{}, {inner}", self.outer.scan.table_name.table());
        let source = provider_as_source(Arc::new(table));
        let scan = TableScanBuilder::new(TableReference::bare(name), source).build()?;
        Ok(Some(named(scan, &places, schema)?))
    }

    /// The rows that the engine gives, and which of its columns those of the join are; `None`: it cannot.
    fn relation(
        &self,
        outer_key: &Expr,
        inner_key: &Expr,
        schema: &DFSchema,
    ) -> Option<(BasaltTable, Vec<usize>)> {
        let Self { outer, inner, kind } = self;
        let (column, key) = (outer.key(outer_key)?, inner.key(inner_key)?);
        let (of, other) = (outer.table.source().table(), inner.table.source().table());
        if !inner.table.is_current() || !inner.table.conditions().is_empty() || of.name() == other.name() {
            return None;
        }
        let own = outer.table.filters(&outer.scan.filters)?;
        let filter = inner.table.filters(&inner.scan.filters)?;
        let looks_up = matches!(kind, Kind::Inner | Kind::Outer);
        if looks_up {
            let field = &of.schema().fields()[of.schema().index_of(&column)?];
            let refers =
                field.references.as_ref().is_some_and(|to| to.table == other.name() && to.column == key);
            // What the other's conditions leave out would have to be null.
            let is_whole = *kind == Kind::Inner || filter.is_none();
            if !refers || !inner.table.is_key(&key) || !is_whole || !self.is_worth_it(own.as_ref()) {
                return None;
            }
        }
        let join = |filter| {
            let (column, table, key) = (column.clone(), other.name().to_owned(), key.clone());
            Filter::SemiJoin(Box::new(SemiJoin { column, table, key, filter, version: None }))
        };
        let condition = match kind {
            Kind::Inner | Kind::Semi => Some(join(filter)),
            Kind::Outer => None,
            Kind::Anti => {
                // A null among the keys equals nothing here.
                let is_key = Filter::Not(Box::new(Filter::IsNull(Value::Column(key.clone()))));
                let keys = join(all(filter.into_iter().chain([is_key]).collect()));
                let is_null = Filter::IsNull(Value::Column(column.clone()));
                Some(Filter::Or(vec![is_null, Filter::Not(Box::new(keys))]))
            }
        };
        let source = outer.table.source().with(other);
        let (mut columns, mut fields, mut values, mut places) =
            (Columns::default(), Vec::new(), Vec::<Value>::new(), Vec::new());
        for (qualifier, field) in schema.iter() {
            let at = Column::new(qualifier.cloned(), field.name());
            let value = self.value(&at, looks_up, &column)?;
            let place = values.iter().position(|known| *known == value);
            places.push(place.unwrap_or(values.len()));
            if place.is_none() {
                let data_type = Logical::from_arrow(field.data_type())?;
                let name = expr_text(&value);
                columns.add(&name, value.clone(), data_type).then_some(())?;
                fields.push(Field::new(name, field.data_type().clone(), true));
                values.push(value);
            }
        }
        let conditions: Vec<_> = own.into_iter().chain(condition).collect();
        // That the types of keys go together is found with the semi-join, whether it is a condition or not.
        let bound = conditions.iter().cloned().chain(looks_up.then(|| join(None))).collect();
        let select = values.iter().map(|expr| SelectItem { expr: expr.clone(), name: None }).collect();
        let query = Query { select, filter: all(bound), ..Query::default() };
        let types = source.types(&query)?;
        let agree = types.iter().zip(&fields).all(|(given, field)| given.to_arrow() == *field.data_type());
        let table = BasaltTable::of(source, columns, Arc::new(ArrowSchema::new(fields)), conditions);
        agree.then_some((table, places))
    }

    /// What a column of the join is in queries of the outer side's table.
    fn value(&self, named: &Column, looks_up: bool, column: &str) -> Option<Value> {
        let expr = Expr::Column(named.clone());
        if self.outer.has(named) {
            return self.outer.table.translator().value(&self.outer.below(&expr)?);
        }
        let inner = looks_up.then(|| self.inner.below(&expr)).flatten()?;
        match self.inner.table.translator().column(&inner)? {
            Value::Column(name) => {
                Some(Value::Attribute(Attribute { column: column.to_owned(), name, lookup: None }))
            }
            _ => None,
        }
    }

    /// All rows of the inner table may be looked at to look up some: few of them, or no more than are scanned.
    fn is_worth_it(&self, own: Option<&Filter>) -> bool {
        let rows = self.inner.table.source().table().rows().most();
        let scanned = selected(self.outer.table.source().table().rows(), own, None);
        rows <= limits::LOOKED_UP_ROWS || scanned.get_value().is_some_and(|scanned| rows <= *scanned as u64)
    }
}
