//! Queries on their way in, and what is told of their run.

use basalt_core::{
    exec::{Explanation, SetUse, Statistics},
    limits::MAX_OUTPUTS,
    query::{Filter, OrderBy, Query, SelectItem},
};
use basalt_proto::v1 as pb;
use tokio::time::Instant;

use super::filter::{Trees, invalid};
use crate::{sets::Sets, status::Result};

/// The engine's query of a request, and whether all that it needs beside its table is in the request; its table,
/// version and format are the caller's.
pub(crate) fn query(request: pb::QueryRequest, sets: &Sets) -> Result<(Query, bool)> {
    let mut trees = Trees::new(&request.table, sets);
    let few = |n: usize, name: &str| {
        let message = || invalid(format!("{n} expressions; the limit is {MAX_OUTPUTS}")).at(name);
        if n > MAX_OUTPUTS { Err(message()) } else { Ok(n) }
    };
    let mut select = Vec::with_capacity(few(request.select.len(), "select")?);
    for (i, item) in request.select.into_iter().enumerate() {
        let expr = trees.needed(item.expr, 1, "expr").map_err(|e| e.at(format!("select[{i}]")))?;
        select.push(SelectItem { expr, name: (!item.name.is_empty()).then_some(item.name) });
    }
    let filter = request.filter.map(|f| trees.filter(f, 1).map_err(|e| e.at("filter"))).transpose()?;
    let mut group_by = Vec::with_capacity(few(request.group_by.len(), "group_by")?);
    for (i, key) in request.group_by.into_iter().enumerate() {
        group_by.push(trees.expr(key, 1).map_err(|e| e.at(format!("group_by[{i}]")))?);
    }
    let having = request.having.map(|f| trees.filter(f, 1).map_err(|e| e.at("having"))).transpose()?;
    let mut order_by = Vec::with_capacity(few(request.order_by.len(), "order_by")?);
    for (i, key) in request.order_by.into_iter().enumerate() {
        let expr = trees.needed(key.expr, 1, "expr").map_err(|e| e.at(format!("order_by[{i}]")))?;
        let pb::OrderBy { descending, nulls_first, of_table, .. } = key;
        order_by.push(OrderBy { expr, descending, nulls_first, of_table });
    }
    let self_contained = !trees.outside();
    let (limit, offset) = (request.limit, request.offset);
    Ok((Query { select, filter, group_by, having, order_by, limit, offset }, self_contained))
}

/// A filter by itself.
pub(crate) fn filter(filter: Option<pb::Filter>, table: &str, sets: &Sets) -> Result<Option<Filter>> {
    filter.map(|f| Trees::new(table, sets).filter(f, 1).map_err(|e| e.at("filter"))).transpose()
}

/// What a query did, with the time from its arrival and from its start to now.
pub(crate) fn statistics(statistics: &Statistics, arrived: Instant, started: Instant) -> pb::Statistics {
    let us = |since: Instant| u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
    pb::Statistics { elapsed_us: us(arrived), execute_us: us(started), ..to_statistics(statistics) }
}

/// The same without times.
pub(crate) fn to_statistics(statistics: &Statistics) -> pb::Statistics {
    pb::Statistics {
        rows: statistics.rows,
        fragments: statistics.fragments,
        blocks: statistics.blocks,
        blocks_pruned: statistics.blocks_pruned,
        blocks_full: statistics.blocks_full,
        rows_selected: statistics.rows_selected,
        elapsed_us: 0,
        execute_us: 0,
    }
}

/// How a query runs.
pub(crate) fn explanation(
    explanation: Explanation,
    table_version: u64,
    statistics: pb::Statistics,
) -> pb::ExplainResponse {
    let filters = explanation.filters.into_iter().map(|f| pb::PlanFilter {
        text: f.text,
        blocks_pruned: f.blocks_pruned,
        blocks_full: f.blocks_full,
        method: f.method.to_owned(),
        expected_share: f.share,
    });
    let operators = explanation.operators.into_iter().map(|o| pb::PlanOperator {
        name: o.name.to_owned(),
        text: o.text,
        rows_in: o.usage.rows_in,
        rows_out: o.usage.rows_out,
        elapsed_ns: o.usage.elapsed_ns,
        busy_ns: o.usage.busy_ns,
    });
    let columns = explanation.columns.into_iter();
    pb::ExplainResponse {
        text: explanation.text,
        table_version,
        filters: filters.collect(),
        columns: columns
            .map(|c| pb::PlanColumn { name: c.name, encodings: c.encodings, bytes: c.bytes })
            .collect(),
        statistics: Some(statistics),
        sips: explanation.sets.into_iter().map(plan_sip).collect(),
        operators: operators.collect(),
        hops: Vec::new(),
        expected_selected: explanation.expected.map(|expected| expected.selected),
        expected_rows: explanation.expected.map(|expected| expected.answer),
    }
}

fn plan_sip(set: SetUse) -> pb::PlanSip {
    pb::PlanSip {
        text: set.text,
        tag: set.tag.to_owned(),
        bytes: set.bytes,
        cardinality: set.cardinality,
        blocks_skipped: set.blocks_skipped,
        blocks_full: set.blocks_full,
        rows_in: set.rows_in,
        rows_passed: set.rows_passed,
        build_us: set.build_ns.div_ceil(1000),
        apply_us: set.apply_ns.div_ceil(1000),
        source: set.origin.to_string(),
    }
}
