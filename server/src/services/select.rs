//! QueryService.Select: the rows that a filter selects, as a set of their addresses or of a column's values.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use basalt_core::{
    exec::{self, Control, Statistics},
    table::{Snapshot, Table},
};
use basalt_proto::v1::{self as pb, ErrorReason};
use basalt_sip::{Sip, Tag};

use super::{Query, nodes};
use crate::{
    call::Call,
    cluster::fresh,
    convert, panics,
    sets::{KeptSet, KeyDomain, Scope},
    state::State,
    status::{Fault, Result},
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
            return Err(Fault::new(ErrorReason::InvalidQuery, message).at("omit_sip"));
        }
        let (state, arrived) = (Arc::clone(&self.0), call.at());
        let answer = if nodes::in_cluster(&self.0) {
            let (found, taken) = self.find_at_nodes(call, &request, deadline).await?;
            let finish = move |_: &Control| finish(&state, request, found, arrived, Instant::now() - taken);
            self.0.cpu.query(deadline, self.0.control(), finish).await?
        } else {
            let control = self.0.control();
            fresh::table_until(&self.0, &request.table, deadline).await?;
            let (table, snapshot) = self.target(call, &request.table, request.version, &control)?;
            let select = move |control: &Control| {
                let started = Instant::now();
                let found = find(&state, &table, &snapshot, &request, control)?;
                finish(&state, request, found, arrived, started)
            };
            self.0.cpu.query(deadline, control, select).await?
        };
        call.rows = answer.cardinality;
        call.selected = answer.statistics.as_ref().map_or(0, |s| s.rows_selected);
        Ok(answer)
    }
}

/// What a selection has found.
pub(super) struct Found {
    /// `None`: the ids are addresses.
    pub(super) key: Option<KeyDomain>,
    pub(super) sip: Sip,
    pub(super) statistics: Statistics,
    pub(super) version: u64,
    pub(super) table_id: u64,
}

/// The set of a selection that this node answers alone.
fn find(
    state: &State,
    table: &Arc<Table>,
    snapshot: &Arc<Snapshot>,
    request: &pb::SelectRequest,
    control: &Control,
) -> Result<Found> {
    panics::wanted("select", table.name());
    let mut filter = convert::filter(request.filter.clone(), &request.table, &state.sets)?;
    if let Some(filter) = &mut filter {
        exec::resolve_filter(&state.catalog, table, snapshot, filter, control)?;
    }
    let (key, sip, statistics) = if request.key.is_empty() {
        let (sip, statistics) = exec::select(table, snapshot, filter.as_ref(), control)?;
        (None, sip, statistics)
    } else {
        let (keys, statistics) = exec::select_keys(table, snapshot, &request.key, filter.as_ref(), control)?;
        let (data_type, has_null) = (keys.data_type, keys.has_null);
        (Some(KeyDomain { column: request.key.clone(), data_type, has_null }), keys.sip, statistics)
    };
    Ok(Found { key, sip, statistics, version: snapshot.version(), table_id: table.id() })
}

/// The answer with a set: encoded as the client wants it, and kept if it wants that.
fn finish(
    state: &State,
    request: pb::SelectRequest,
    found: Found,
    arrived: Instant,
    started: Instant,
) -> Result<pb::SelectResponse> {
    let Found { key, sip, statistics, version, table_id } = found;
    state.metrics.sip_built(sip.as_bytes().len() as u64);
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
        let (handle, left) = state.sets.keep(set, time, Instant::now())?;
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
