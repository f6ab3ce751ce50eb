//! A task where its fragments are: the request runs over them as far as that is possible without the others.

use std::sync::Arc;

use basalt_core::{
    error::{Error, ErrorKind},
    exec::{self, BuiltSet, Control, Part, Statistics},
    plan::Plan,
    query::Query,
    table::{Snapshot, Table},
};
use basalt_proto::{
    cluster::v1::{self as peer, End, task::Request},
    v1 as pb,
};
use basalt_sip::Sip;
use prost::{Message as _, bytes::Bytes};

use super::{coverage, steps};
use crate::{
    cache::Told,
    convert,
    cpu::clock,
    limits, panics,
    sets::Sets,
    status::{RequestError, Result},
    trace,
};

/// The fragments of a task with the columns that it reads, as many at once as memory has room for.
pub(crate) trait Waves {
    /// The table.
    fn table(&self) -> Arc<Table>;

    /// The version without rows, which what the task names is bound to.
    fn none(&self) -> Snapshot;

    /// The next of them; `None`: there are no more.
    fn next(&mut self, columns: &[usize]) -> Result<Option<Arc<Snapshot>>>;

    /// What is told of the columns of these fragments beside what they hold, by fragment.
    fn elastic(&self, _: &Snapshot) -> Result<Vec<Vec<Told>>> {
        Ok(Vec::new())
    }
}

/// Runs a task over its fragments; `data` has the bytes of its sets, one after the other. Messages go to `sink` in their
/// order, each of them whole. The times of the answer are the caller's.
pub(crate) fn execute(
    waves: &mut dyn Waves,
    task: peer::Task,
    data: &[Bytes],
    sets: &Sets,
    control: &Control,
    sink: &mut dyn FnMut(Bytes) -> Result<()>,
) -> Result<End> {
    let (table, none) = (&waves.table(), &waves.none());
    panics::wanted("part", table.name());
    if task.sets.len() + task.lookups.len() != data.len() {
        return Err(RequestError::protocol("the sets of a task are not those that it names"));
    }
    let given = decoded(&task.sets, data, control)?;
    let mut whole = End::default();
    match task.request {
        Some(Request::Query(request)) => {
            let (mut query, _) = convert::query(request, sets)?;
            exec::place_sets(&mut query, given)?;
            convert::place_lookups(&mut query, table, (&task.lookups, &data[task.sets.len()..]), control)?;
            let plan = Plan::new(table, none, &query)?;
            let columns = plan.columns();
            while let Some(snapshot) = waves.next(&columns)? {
                add(
                    &mut whole,
                    &snapshot,
                    run((table.name(), &plan), &snapshot, task.analyze, control, sink)?,
                );
            }
        }
        Some(Request::Select(request)) => {
            let filter = convert::filter(request.filter, &request.table, sets)?;
            let mut query = Query { filter, ..Query::default() };
            exec::place_sets(&mut query, given)?;
            convert::place_lookups(&mut query, table, (&task.lookups, &data[task.sets.len()..]), control)?;
            let filter = query.filter.as_ref();
            let mut columns = Plan::filter_columns(table, none, filter)?;
            let bytes = if request.key.is_empty() {
                let mut sips = Vec::new();
                while let Some(snapshot) = waves.next(&columns)? {
                    let (sip, statistics) = exec::select(table, &snapshot, filter, control)?;
                    add(&mut whole, &snapshot, end(&statistics));
                    sips.push(sip);
                }
                Bytes::copy_from_slice(Sip::union_all(&sips).as_bytes())
            } else {
                columns.extend(table.schema().index_of(&request.key));
                let mut all: Option<BuiltSet> = None;
                while let Some(snapshot) = waves.next(&columns)? {
                    let (values, statistics) =
                        exec::select_values(table, &snapshot, &request.key, filter, control)?;
                    add(&mut whole, &snapshot, end(&statistics));
                    all = Some(match all {
                        Some(all) => all.union(values)?,
                        None => values,
                    });
                }
                let all = all.ok_or_else(|| RequestError::protocol("a task without fragments"))?;
                convert::to_values(&all)
            };
            for at in (0..bytes.len()).step_by(limits::PEER_PIECE_BYTES) {
                sink(bytes.slice(at..bytes.len().min(at + limits::PEER_PIECE_BYTES)))?;
            }
        }
        Some(Request::Describe(request)) => {
            let columns: Vec<usize> = (0..table.schema().fields().len()).collect();
            while let Some(snapshot) = waves.next(&columns)? {
                let mut columns = convert::columns(table.schema(), &snapshot, request.estimates, control)?;
                if request.estimates {
                    convert::tell(&mut columns, waves.elastic(&snapshot)?);
                }
                sink(pb::GetTableResponse { columns, table: None }.encode_to_vec().into())?;
                add(&mut whole, &snapshot, End::default());
            }
        }
        None => {
            return Err(RequestError::protocol(
                "a task without a request, or of a kind that is not known here",
            ));
        }
    }
    Ok(whole)
}

/// The sets of a task, which count as memory of its work beside the bytes that they come from.
fn decoded(heads: &[peer::JoinSet], data: &[Bytes], control: &Control) -> Result<Vec<BuiltSet>> {
    let mut sets = Vec::with_capacity(heads.len());
    for (head, bytes) in heads.iter().zip(data) {
        // No set takes less than its bytes; how much more is known when it is there.
        control.reserve(bytes.len())?;
        let set = convert::join_set(head, bytes)?;
        control.reserve(set.bytes().saturating_sub(bytes.len()))?;
        sets.push(set);
    }
    Ok(sets)
}

/// Runs a part of a query over fragments that are all there, as [`execute`] does.
pub(super) fn execute_plan(
    (table, plan, snapshot): (&Table, &Plan, &Snapshot),
    control: &Control,
    sink: &mut dyn FnMut(Bytes) -> Result<()>,
) -> Result<End> {
    panics::wanted("part", table.name());
    let mut whole = End::default();
    add(&mut whole, snapshot, run((table.name(), plan), snapshot, false, control, sink)?);
    Ok(whole)
}

/// Adds what was done for some fragments to what was done for those before.
fn add(whole: &mut End, snapshot: &Snapshot, end: End) {
    whole.answered.extend(coverage::answered(snapshot));
    whole.operators.extend(end.operators);
    whole.sips.extend(end.sips);
    whole.filters.extend(end.filters);
    whole.columns.extend(end.columns);
    whole.statistics = match (whole.statistics.take(), end.statistics) {
        (Some(all), Some(more)) => Some(convert::add_statistics(all, more)),
        (all, more) => all.or(more),
    };
}

fn run(
    (table, plan): (&str, &Plan),
    snapshot: &Snapshot,
    analyze: bool,
    control: &Control,
    sink: &mut dyn FnMut(Bytes) -> Result<()>,
) -> Result<End> {
    let mut refused = None;
    let mut sink = |part: Part| {
        convert::to_messages(part, sink).map_err(|stopped| {
            refused = Some(stopped);
            Error::new(ErrorKind::Cancelled, "the part cannot be sent")
        })
    };
    let done = if analyze {
        let control = control.clone().with_clock(clock);
        plan.explain_part(snapshot, &control, &mut sink).map(|explanation| {
            if let Some(trace) = trace::recorded() {
                trace.steps(table, &explanation.operators);
            }
            let statistics = convert::to_statistics(&explanation.statistics);
            let explained = convert::explanation(explanation, snapshot.version(), statistics);
            let pb::ExplainResponse { filters, columns, sips, operators, statistics, .. } = explained;
            End { statistics, operators, sips, filters, columns, ..End::default() }
        })
    } else {
        steps::run_part((table, plan), snapshot, control, &mut sink).map(|statistics| end(&statistics))
    };
    done.map_err(|error| refused.unwrap_or_else(|| error.into()))
}

fn end(statistics: &Statistics) -> End {
    End { statistics: Some(convert::to_statistics(statistics)), ..End::default() }
}
