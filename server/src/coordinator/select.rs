//! Selections: the nodes say which rows a filter selects, or which values these have, and what they say is united.

use basalt_core::{
    exec::{self, BuiltSet, Statistics},
    plan::Plan,
    query::{Filter, KeySet, Query},
};
use basalt_proto::{cluster::v1::task::Request, v1 as pb};
use basalt_sip::Sip;
use prost::bytes::{Bytes, BytesMut};

use super::{Coordinator, Nodes, Pinned, add, coverage};
use crate::{
    convert,
    memory::Reservation,
    status::{RequestError, Result},
    trace,
};

/// What a node selects, as it has come.
struct Selected {
    /// Those that it was asked for, ascending.
    fragments: Vec<u32>,
    bytes: Bytes,
    /// The memory that these take.
    _held: Reservation,
}

impl<N: Nodes> Coordinator<'_, N> {
    /// The addresses of the rows that a filter selects.
    pub(crate) fn select(&mut self, pinned: &Pinned, filter: Option<Filter>) -> Result<(Sip, Statistics)> {
        let filter = self.resolve_filter(pinned, filter)?;
        let columns = Plan::filter_columns(&pinned.table, &pinned.snapshot(), filter.as_ref())?;
        if let Some(snapshot) = self.whole(pinned, &columns)? {
            return Ok(exec::select(&pinned.table, &snapshot, filter.as_ref(), self.control)?);
        }
        let (parts, statistics) = self.selected(pinned, filter.as_ref(), "", "")?;
        let (mut sips, mut held, mut bytes) = (Vec::with_capacity(parts.len()), self.nodes.memory(), 0);
        for part in parts {
            let sip = convert::addresses(&part.bytes)?;
            coverage::check_rows(pinned.table.name(), &pinned.version, &part.fragments, &sip)?;
            // The union takes no more than all of them.
            bytes += 2 * sip.heap_bytes() as u64;
            held.set(bytes)?;
            sips.push(sip);
        }
        Ok((Sip::union_all(&sips), statistics))
    }

    /// The values of a column over the rows that a filter selects.
    pub(crate) fn select_values(
        &mut self,
        pinned: &Pinned,
        key: &str,
        filter: Option<Filter>,
    ) -> Result<(BuiltSet, Statistics)> {
        let filter = self.resolve_filter(pinned, filter)?;
        self.values(pinned, key, filter.as_ref(), "")
    }

    /// The values of a column over the rows that a resolved filter selects.
    pub(super) fn values(
        &mut self,
        pinned: &Pinned,
        key: &str,
        filter: Option<&Filter>,
        what: &str,
    ) -> Result<(BuiltSet, Statistics)> {
        let step = trace::step("set");
        step.text("basalt.table", || pinned.table.name().to_owned());
        step.text("basalt.column", || key.to_owned());
        let schema = pinned.table.schema();
        let slot = schema.index_of(key).ok_or_else(RequestError::internal)?;
        let data_type = schema.fields()[slot].data_type;
        let mut columns = Plan::filter_columns(&pinned.table, &pinned.snapshot(), filter)?;
        columns.push(slot);
        if let Some(snapshot) = self.whole(pinned, &columns)? {
            let (table, uses) = (&pinned.table, &mut self.uses);
            return Ok(exec::select_values_with(table, &snapshot, key, filter, self.control, uses)?);
        }
        let (parts, statistics) = self.selected(pinned, filter, key, what)?;
        let (mut all, mut held) = (BuiltSet::empty(data_type), self.nodes.memory());
        for part in parts {
            let more = convert::values(data_type, &part.bytes)?;
            // Their union takes no more than both of them.
            held.set(2 * (all.bytes() as u64 + more.bytes() as u64))?;
            all = all.union(more)?;
        }
        Ok((all, statistics))
    }

    /// What each node selects.
    fn selected(
        &mut self,
        pinned: &Pinned,
        filter: Option<&Filter>,
        key: &str,
        what: &str,
    ) -> Result<(Vec<Selected>, Statistics)> {
        // What is wrong with it is found before anybody is asked.
        let (_, pred) = Plan::filter(&pinned.table, &pinned.snapshot(), filter)?;
        let (mut statistics, mut selected) = (Statistics::default(), Vec::new());
        let fragments = pinned.fragments_for(pred.as_ref(), &mut statistics);
        let mut sets = Vec::new();
        let query = Query { filter: filter.cloned(), ..Query::default() };
        let lookups = convert::to_lookups(query, &pinned.table)?;
        let cut = |column: &str, set: &KeySet| pinned.cut(column, set, &fragments);
        let filter = filter.map(|filter| convert::to_filter(filter, &mut sets, &cut));
        let table = pinned.table.name().to_owned();
        let request = pb::SelectRequest { table, filter, key: key.to_owned(), ..Default::default() };
        let (task, _held) = self.task(pinned, Request::Select(request), &sets, lookups)?;
        if fragments.is_empty() {
            return Ok((selected, statistics));
        }
        for mut part in self.ask(pinned, task, &fragments, what)? {
            add(&mut statistics, &part.end);
            let bytes = match &mut part.messages[..] {
                [one] => std::mem::take(one),
                messages => {
                    let mut all = BytesMut::with_capacity(messages.iter().map(Bytes::len).sum());
                    messages.iter().for_each(|message| all.extend_from_slice(message));
                    all.freeze()
                }
            };
            selected.push(Selected { fragments: part.fragments, bytes, _held: part.held });
        }
        Ok((selected, statistics))
    }
}
