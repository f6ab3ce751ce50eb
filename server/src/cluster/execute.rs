//! A task where its fragments are: the request runs over them as far as that is possible without the others.

use basalt_core::{
    error::{Error, ErrorKind},
    exec::{self, Control, Part, Statistics},
    plan::Plan,
    query::{Filter, Query},
    table::{Snapshot, Table},
};
use basalt_proto::{
    cluster::v1::{self as peer, End, task::Request},
    v1 as pb,
};
use prost::{Message as _, bytes::Bytes};

use super::coverage;
use crate::{
    convert,
    cpu::clock,
    limits, panics,
    sets::Sets,
    status::{Fault, Result},
};

/// Runs a task over a snapshot of its fragments; `data` has the bytes of its sets, one after the other. Messages go to
/// `sink` in their order, each of them whole. The times of the answer are the caller's.
pub(crate) fn execute(
    table: &Table,
    snapshot: &Snapshot,
    task: peer::Task,
    data: &[Bytes],
    sets: &Sets,
    control: &Control,
    sink: &mut dyn FnMut(Bytes) -> Result<()>,
) -> Result<End> {
    panics::wanted("part", table.name());
    if task.sets.len() + task.lookups.len() != data.len() {
        return Err(Fault::protocol("the sets of a task are not those that it names"));
    }
    let answered = coverage::answered(snapshot);
    let given = task.sets.iter().zip(data).map(|(head, bytes)| convert::join_set(head, bytes));
    let given = given.collect::<Result<Vec<_>>>()?;
    let end = match task.request {
        Some(Request::Query(request)) => {
            let (mut query, _) = convert::query(request, sets)?;
            exec::place_sets(&mut query, given)?;
            convert::place_lookups(&mut query, table, &task.lookups, &data[task.sets.len()..])?;
            let plan = Plan::new(table, snapshot, &query)?;
            run(&plan, snapshot, task.analyze, control, sink)?
        }
        Some(Request::Select(request)) => {
            let filter = convert::filter(request.filter, &request.table, sets)?;
            let mut query = Query { filter, ..Query::default() };
            exec::place_sets(&mut query, given)?;
            convert::place_lookups(&mut query, table, &task.lookups, &data[task.sets.len()..])?;
            let (bytes, statistics) = select(table, snapshot, query.filter.as_ref(), &request.key, control)?;
            for at in (0..bytes.len()).step_by(limits::PEER_PIECE_BYTES) {
                sink(bytes.slice(at..bytes.len().min(at + limits::PEER_PIECE_BYTES)))?;
            }
            end(&statistics)
        }
        Some(Request::Describe(request)) => {
            let columns = convert::columns(table.schema(), snapshot, request.bids, control)?;
            sink(pb::GetTableResponse { columns, table: None }.encode_to_vec().into())?;
            End::default()
        }
        None => {
            return Err(Fault::protocol("a task without a request, or of a kind that is not known here"));
        }
    };
    Ok(End { answered, ..end })
}

fn run(
    plan: &Plan,
    snapshot: &Snapshot,
    analyze: bool,
    control: &Control,
    sink: &mut dyn FnMut(Bytes) -> Result<()>,
) -> Result<End> {
    let mut fault = None;
    let mut sink = |part: Part| {
        convert::to_messages(part, sink).map_err(|stopped| {
            fault = Some(stopped);
            Error::new(ErrorKind::Cancelled, "the part cannot be sent")
        })
    };
    let done = if analyze {
        let control = control.clone().with_clock(clock);
        plan.explain_part(snapshot, &control, &mut sink).map(|explanation| {
            let statistics = convert::to_statistics(&explanation.statistics);
            let told = convert::explanation(explanation, snapshot.version(), statistics);
            let pb::ExplainResponse { filters, columns, sips, operators, statistics, .. } = told;
            End { statistics, operators, sips, filters, columns, ..End::default() }
        })
    } else {
        plan.run_part(snapshot, control, &mut sink).map(|statistics| end(&statistics))
    };
    done.map_err(|error| fault.unwrap_or_else(|| error.into()))
}

/// The rows that a filter selects, or with a key the values of a column, as bytes.
fn select(
    table: &Table,
    snapshot: &Snapshot,
    filter: Option<&Filter>,
    key: &str,
    control: &Control,
) -> Result<(Bytes, Statistics)> {
    if key.is_empty() {
        let (sip, statistics) = exec::select(table, snapshot, filter, control)?;
        return Ok((Bytes::copy_from_slice(sip.as_bytes()), statistics));
    }
    let (values, statistics) = exec::select_values(table, snapshot, key, filter, control)?;
    Ok((convert::to_values(&values), statistics))
}

fn end(statistics: &Statistics) -> End {
    End { statistics: Some(convert::to_statistics(statistics)), ..End::default() }
}
