//! QueryService.Select: the rows that a filter selects, as a set of their addresses or of a column's values.

use std::{sync::Arc, time::Duration};

use basalt_core::exec::{self, BuiltSet, Control, Statistics};
use basalt_proto::v1::{self as pb, ErrorReason};
use basalt_sip::{Sip, Tag};
use tokio::time::Instant;

use super::Query;
use crate::{
    access::{Action, Object},
    call::Call,
    convert,
    coordinator::{Coordinator, Pinned, Reach, coordinate},
    panics,
    sets::{Keeper, KeptSet, KeyDomain, Scope},
    state::State,
    status::{RequestError, Result},
    tables::VersionPin,
    trace,
    units::millis,
};

impl Query {
    pub(super) async fn select_set(
        &self,
        call: &mut Call,
        request: pb::SelectRequest,
    ) -> Result<pb::SelectResponse> {
        let deadline = self.0.deadline(call)?;
        convert::tag(request.tag)?;
        if request.omit_sip && request.keep_ms == 0 {
            let message = "without its bytes a set is of use only when it is kept";
            return Err(RequestError::new(ErrorReason::InvalidQuery, message).at("omit_sip"));
        }
        if request.keep_ms > 0 {
            call.may(Action::KeepSet, Object::Sets)?;
        }
        let arrived = call.at();
        let control = self.0.control_of(call.caller());
        let reach = Reach::new(Arc::clone(&self.0), call.caller(), deadline, control.clone());
        let (of, filters) = ((request.table.as_str(), request.version), [&request.filter, &None]);
        let pinned = self.target(call, of, filters, &reach, deadline).await?;
        // Before the rows are looked for: then their version is there when they are found.
        let pin = match request.keep_ms > 0 && request.key.is_empty() {
            true => {
                let (table, version) = (&pinned.table, pinned.version.number());
                self.0.tables.pin_version(table.name(), table.id(), version).await?
            }
            false => None,
        };
        let keeper = Keeper::new(call.caller());
        let select = move |state: &State, control: &Control| {
            let started = Instant::now();
            let found = find(state, &reach, &pinned, &request, control)?;
            finish(state, request, found, pin, keeper, arrived, started)
        };
        let answer = coordinate(&self.0, deadline, control, select).await?;
        call.rows = answer.cardinality;
        call.selected = answer.statistics.as_ref().map_or(0, |s| s.rows_selected);
        Ok(answer)
    }
}

/// What a selection has found.
struct Found {
    /// `None`: the ids are addresses.
    key: Option<KeyDomain>,
    sip: Sip,
    statistics: Statistics,
    version: u64,
    table_id: u64,
}

/// The set of a selection.
fn find(
    state: &State,
    reach: &Reach,
    pinned: &Pinned,
    request: &pb::SelectRequest,
    control: &Control,
) -> Result<Found> {
    panics::wanted("select", pinned.table.name());
    let filter = convert::filter(request.filter.clone(), &request.table, &state.sets)?;
    let mut coordinator = Coordinator::new(reach, control, false);
    coordinator.reads(pinned);
    let (key, sip, statistics) = if request.key.is_empty() {
        let (sip, statistics) = coordinator.select(pinned, filter)?;
        (None, sip, statistics)
    } else {
        // That the values of the column are ids.
        exec::select_keys(&pinned.table, &pinned.snapshot(), &request.key, None, control)?;
        let (set, statistics) = coordinator.select_values(pinned, &request.key, filter)?;
        let BuiltSet::Keys { data_type, has_null, sip } = set else { return Err(RequestError::internal()) };
        let key = KeyDomain { column: request.key.clone(), data_type, has_null };
        (Some(key), Arc::unwrap_or_clone(sip), statistics)
    };
    Ok(Found { key, sip, statistics, version: pinned.version.number(), table_id: pinned.table.id() })
}

/// The answer with a set: encoded as the client wants it, and kept if it wants that.
fn finish(
    state: &State,
    request: pb::SelectRequest,
    found: Found,
    pin: Option<Arc<VersionPin>>,
    keeper: Keeper,
    arrived: Instant,
    started: Instant,
) -> Result<pb::SelectResponse> {
    let Found { key, sip, statistics, version, table_id } = found;
    state.metrics.sip_built(sip.as_bytes().len() as u64);
    if let Some(trace) = trace::recorded() {
        trace.span().count("basalt.sip_bytes", sip.as_bytes().len() as u64);
    }
    let sip = match convert::tag(request.tag)? {
        Some(tag) if request.omit_sip => encoded(sip, tag, |bytes| state.sets.check(bytes))?,
        Some(tag) => encoded(sip, tag, convert::check_sip_bytes)?,
        None => sip,
    };
    let scope = Scope { table: request.table, version, table_id, key };
    let mut answer = pb::SelectResponse {
        scope: Some(convert::to_scope(scope.clone())),
        cardinality: sip.cardinality(),
        ..Default::default()
    };
    if !request.omit_sip {
        answer.sip = convert::to_sip(&sip)?;
    }
    if request.keep_ms > 0 {
        let (set, time) = (KeptSet { scope, sip: Arc::new(sip) }, Duration::from_millis(request.keep_ms));
        let (handle, left) = state.sets.keep(keeper, set, pin, time, Instant::now())?;
        (answer.handle, answer.expires_ms) = (handle.to_vec(), millis(left));
    }
    answer.statistics = Some(convert::statistics(&statistics, arrived, started));
    Ok(answer)
}

/// The set in the encoding that the client wants. What it takes at least is checked before it is made: a set of
/// few ranges can be gigabytes of ids.
fn encoded(sip: Sip, tag: Tag, check: impl Fn(u64) -> Result<()>) -> Result<Sip> {
    check(match tag {
        Tag::VarintDelta => sip.cardinality(),
        Tag::Gaps => sip.cardinality() / 8,
        Tag::Empty | Tag::Roaring | Tag::Ranges => 0,
    })?;
    Ok(sip.to_tag(tag))
}
