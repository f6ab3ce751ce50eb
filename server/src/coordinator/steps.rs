//! Plans as they are run for requests: the steps of one whose request is traced are spans of it.

use arrow_array::RecordBatch;
use basalt_core::{
    error::Result,
    exec::{Control, Part, Statistics},
    plan::Plan,
    table::Snapshot,
};

use crate::{cpu::clock, trace};

/// Runs a plan over a table, given by its name.
pub(crate) fn run(
    (table, plan): (&str, &Plan),
    snapshot: &Snapshot,
    control: &Control,
    sink: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<Statistics> {
    let Some(trace) = trace::recorded() else { return plan.run(snapshot, control, sink) };
    let control = control.clone().with_clock(clock);
    let (statistics, steps) = plan.run_timed(snapshot, &control, sink)?;
    trace.steps(table, &steps);
    Ok(statistics)
}

/// The same of a part.
pub(super) fn run_part(
    (table, plan): (&str, &Plan),
    snapshot: &Snapshot,
    control: &Control,
    sink: &mut dyn FnMut(Part) -> Result<()>,
) -> Result<Statistics> {
    let Some(trace) = trace::recorded() else { return plan.run_part(snapshot, control, sink) };
    let control = control.clone().with_clock(clock);
    let (statistics, steps) = plan.run_part_timed(snapshot, &control, sink)?;
    trace.steps(table, &steps);
    Ok(statistics)
}
