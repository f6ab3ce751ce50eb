//! A table's columns as the whole cluster holds them, each fragment once.

use arrow_array::{cast::AsArray as _, types::Int64Type};
use basalt_core::{
    describe::{self, entropy_of},
    exec::Control,
    plan::Plan,
    query::{Aggregate, AggregateFunction, Expr, Query, SelectItem},
    table::Snapshot,
};
use basalt_proto::{
    cluster::v1::{Describe, task::Request},
    v1 as pb,
};
use prost::Message as _;

use super::{Coordinator, Nodes, Pinned};
use crate::{
    cache::Purpose,
    convert,
    status::{RequestError, Result},
};

/// What is held of each column; with `full` also its entropy, each encoding's size estimate, its heat and faster forms.
pub(crate) fn columns<N: Nodes>(
    coordinator: &mut Coordinator<'_, N>,
    pinned: &Pinned,
    full: bool,
) -> Result<Vec<pb::ColumnInfo>> {
    let schema = pinned.table.schema();
    // Of no fragments, nothing is held.
    let empty = Snapshot::new(pinned.version.number(), Vec::new());
    let mut columns = convert::columns(schema, &empty, false, coordinator.control())?;
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    if let Some(snapshot) = coordinator.whole_for(pinned, &all, Purpose::Maintenance)? {
        columns = convert::columns(schema, &snapshot, full, coordinator.control())?;
        for (index, column) in columns.iter_mut().enumerate().filter(|_| full) {
            column.entropy_bits = Some(describe::entropy(&snapshot, index, coordinator.control())?);
        }
        if full {
            convert::tell(&mut columns, coordinator.nodes().elastic(pinned)?);
        }
        return Ok(columns);
    }
    for message in coordinator.ask_all(pinned, Request::Describe(Describe { estimates: full }))? {
        let part = pb::GetTableResponse::decode(message);
        let part =
            part.map_err(|_| RequestError::protocol("what a node tells of its columns cannot be read"))?;
        if part.columns.len() != columns.len() {
            return Err(RequestError::protocol("a node tells of other columns than the table has"));
        }
        columns.iter_mut().zip(part.columns).for_each(|(sum, other)| convert::add_column(sum, other));
    }
    // What is hidden takes memory, too.
    let whole = Pinned { cutoff: None, ..pinned.clone() };
    if full {
        for (column, field) in columns.iter_mut().zip(schema.fields()) {
            column.entropy_bits =
                Some(entropy(coordinator.nodes(), coordinator.control(), &whole, &field.name)?);
        }
    }
    Ok(columns)
}

/// By the counts of a column's values, which take as much memory as a request may.
fn entropy<N: Nodes>(nodes: &N, control: &Control, pinned: &Pinned, column: &str) -> Result<f64> {
    let control = control.with_own_memory();
    let mut coordinator = Coordinator::new(nodes, &control, false).aside();
    let count = Aggregate { function: AggregateFunction::Count, argument: None, distinct: false };
    let select = vec![SelectItem { expr: Expr::Aggregate(Box::new(count)), name: None }];
    let query = Query { select, group_by: vec![Expr::Column(column.to_owned())], ..Query::default() };
    let plan = Plan::new(&pinned.table, &pinned.snapshot(), &query)?;
    let mut counts: Vec<u64> = Vec::new();
    coordinator.run(pinned, &query, &plan, &mut |batch| {
        let found = batch.column(0).as_primitive::<Int64Type>().values();
        control.reserve(size_of_val(&**found))?;
        counts.extend(found.iter().map(|n| n.cast_unsigned()));
        Ok(())
    })?;
    let rows = counts.iter().sum();
    Ok(if rows == 0 { 0.0 } else { entropy_of(counts.into_iter(), rows) })
}
