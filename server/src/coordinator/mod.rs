//! A request that several nodes answer: its semi-joins' sets are gathered from those that hold the inner tables, the
//! rest is asked of those that hold the table itself, and what they answer is merged.
//!
//! Fragments whose bounds in the log show that they have no rows are not asked. A set of keys travels with the
//! question: where it cannot prune it costs next to nothing, since it is cut to the keys that the column may have in
//! the fragments that are asked, and what is left whole of a range of keys is a few bytes. Whatever has no bounds takes
//! the whole set: without it the rows themselves would have to travel.
//!
//! All of this waits for others, so that it runs on a thread that may.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arrow_array::RecordBatch;
use basalt_core::{
    error::{Error, ErrorKind, Result as CoreResult},
    exec::{self, Build, BuildSide, BuiltSet, Control, Merge, Resolver, SetUse, Statistics},
    plan::{Plan, pred::Pred},
    query::{Filter, KeySet, Query},
    schema::DataType,
    table::{Cutoff, Snapshot, Table},
};
use basalt_proto::cluster::v1::{self as peer, task::Request};
use basalt_sip::Sip;
use prost::bytes::Bytes;

use crate::{
    cache::{Purpose, Told},
    convert, limits,
    memory::Reservation,
    status::{RequestError, Result},
    tables::TableVersion,
};

mod coverage;
mod describe;
mod estimate;
mod execute;
mod explain;
mod find;
pub(crate) mod fresh;
mod here;
mod local;
mod reach;
mod remote;
mod scatter;
mod select;
mod steps;

#[cfg(any(test, fuzzing))]
pub(crate) use execute::Waves;
pub(crate) use execute::execute;
pub(crate) use explain::explained;
pub(crate) use find::TablesPeers;
pub(crate) use here::{columns, coordinate};
#[cfg(feature = "sql")]
pub(crate) use local::version_of_task;
pub(crate) use local::{Messages, Place, Reads, Times};
pub(crate) use reach::Reach;
use remote::Part;
pub(crate) use remote::Task;
pub(crate) use steps::run;

/// The other tables' nodes, and those of the request's own table. `pin` and `ask` wait.
pub(crate) trait Nodes {
    /// A version of a table; the newest where none is named.
    fn pin(&self, name: &str, version: Option<u64>) -> Result<Pinned>;

    /// Has a task done over fragments of a pinned version: the parts cover each of them once.
    fn ask(&self, pinned: &Pinned, task: Task, fragments: &[u32]) -> Result<Vec<Part>>;

    /// Some fragments of a pinned version with some columns, given by their places, where this process has all of them
    /// in memory: then nobody need be asked. `None`: they are asked for.
    fn in_memory(
        &self,
        pinned: &Pinned,
        fragments: &[u32],
        columns: &[usize],
        purpose: Purpose,
    ) -> Result<Option<Arc<Snapshot>>>;

    /// What this process tells of the columns of a pinned version beside what they hold, by fragment.
    fn elastic(&self, _: &Pinned) -> Result<Vec<Vec<Told>>> {
        Ok(Vec::new())
    }

    /// How many nodes there are.
    fn count(&self) -> usize;

    /// Memory of what travels between them: none yet.
    fn memory(&self) -> Reservation;
}

/// One version of a table, and all of its fragments.
#[derive(Clone)]
pub(crate) struct Pinned {
    pub(crate) table: Arc<Table>,
    pub(crate) version: TableVersion,
    /// The ids, ascending.
    pub(crate) fragments: Arc<[u32]>,
    /// What is hidden from this request.
    pub(crate) cutoff: Option<Cutoff>,
}

impl Pinned {
    /// The fragments that may have rows for a filter; the others are counted.
    pub(crate) fn fragments_for(&self, filter: Option<&Pred>, statistics: &mut Statistics) -> Vec<u32> {
        let mut fragments = Vec::with_capacity(self.fragments.len());
        for fragment in self.fragments.iter().copied() {
            if exec::may_select(filter, fragment, &|column| self.version.bounds(fragment, column)) {
                fragments.push(fragment);
                continue;
            }
            let (rows, blocks) = self.version.size(fragment);
            statistics.rows += rows;
            statistics.fragments += 1;
            statistics.blocks += blocks;
            statistics.blocks_pruned += blocks;
        }
        fragments
    }

    /// The keys of a set that a column may have in some fragments: those between the least and the greatest key of one
    /// of them. A set that is not empty stays so, since a null is in no empty set.
    fn cut(&self, column: &str, set: &KeySet, fragments: &[u32]) -> Arc<Sip> {
        let schema = self.table.schema();
        let of_64_bits = |data_type| data_type == DataType::UInt64;
        let Some(slot) = schema.index_of(column).filter(|slot| {
            !of_64_bits(schema.fields()[*slot].data_type) && !of_64_bits(set.data_type) && !set.sip.is_empty()
        }) else {
            return Arc::clone(&set.sip);
        };
        let mut ranges = Vec::with_capacity(fragments.len());
        for fragment in fragments {
            let Some((least, greatest)) = self.version.bounds(*fragment, slot) else {
                return Arc::clone(&set.sip);
            };
            // The ids of negative keys come behind the others.
            for (from, to) in [(least.max(0), greatest), (least, greatest.min(-1))] {
                if from <= to {
                    ranges.push(from.cast_unsigned()..=to.cast_unsigned());
                }
            }
        }
        let cut = set.sip.intersection(&Sip::from_ranges(ranges));
        match set.sip.first() {
            Some(first) if cut.is_empty() => Arc::new(Sip::from_sorted_ids(&[first])),
            _ if cut.as_bytes().len() < set.sip.as_bytes().len() => Arc::new(cut),
            _ => Arc::clone(&set.sip),
        }
    }

    /// What plans are bound to: the version without rows.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::new(Snapshot::new(self.version.number(), Vec::new()).with_cutoff(self.cutoff))
    }
}

/// What a node did for a request.
#[derive(Clone, Debug)]
pub(crate) struct Hop {
    /// What was asked: `table.key` of a semi-join; empty for the request itself.
    pub(crate) what: String,
    pub(crate) node: Arc<str>,
    pub(crate) fragments: usize,
    /// Bytes that went there, and that came back.
    pub(crate) shipped: (u64, u64),
    /// Of what went there, the bytes of sets.
    pub(crate) sets: u64,
    pub(crate) elapsed_ns: u64,
    pub(crate) end: peer::End,
}

/// How many nodes have read something of the request's own table; at least this one.
pub(crate) fn nodes_of(hops: &[Hop]) -> usize {
    let nodes: BTreeSet<&str> = hops.iter().filter(|hop| hop.what.is_empty()).map(|hop| &*hop.node).collect();
    nodes.len().max(1)
}

/// Coordinates one request.
pub(crate) struct Coordinator<'a, N> {
    nodes: &'a N,
    control: &'a Control,
    /// What the request has named so far.
    pinned: BTreeMap<String, Pinned>,
    hops: Vec<Hop>,
    /// What sets in the filters of inner queries did.
    uses: Vec<SetUse>,
    analyze: bool,
    purpose: Purpose,
    /// Why the engine was stopped, where it has no kind for it.
    error: Option<RequestError>,
}

impl<'a, N: Nodes> Coordinator<'a, N> {
    /// Nothing is asked yet.
    pub(crate) fn new(nodes: &'a N, control: &'a Control, analyze: bool) -> Self {
        let (pinned, hops, uses) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { nodes, control, pinned, hops, uses, analyze, purpose: Purpose::Query, error: None }
    }

    /// The same for what is no client's query.
    fn aside(self) -> Self {
        Self { purpose: Purpose::Aside, ..self }
    }

    /// What the sets in the filters of inner queries did that this process answered by itself, where there is a clock.
    pub(crate) fn take_uses(&mut self) -> Vec<SetUse> {
        std::mem::take(&mut self.uses)
    }

    /// What the nodes did.
    pub(crate) fn into_hops(self) -> Vec<Hop> {
        self.hops
    }

    /// The version of a table that a request is about.
    pub(crate) fn pin(&mut self, name: &str, version: Option<u64>) -> Result<Pinned> {
        let pinned = self.nodes.pin(name, version)?;
        self.reads(&pinned);
        Ok(pinned)
    }

    /// The request reads a version of a table that was pinned before.
    pub(crate) fn reads(&mut self, pinned: &Pinned) {
        self.pinned.insert(pinned.table.name().to_owned(), pinned.clone());
    }

    /// A query whose semi-joins are sets.
    pub(crate) fn resolve(&mut self, pinned: &Pinned, mut query: Query) -> Result<(Query, Plan)> {
        let (snapshot, control) = (pinned.snapshot(), self.control);
        let resolved = Resolver::new(&pinned.table, &snapshot, self, control).query(&mut query);
        resolved.map_err(|error| self.error(error))?;
        let plan = Plan::new(&pinned.table, &snapshot, &query)?;
        Ok((query, plan))
    }

    /// Runs a query that [`Coordinator::resolve`] gave. Batches of its answer go to `sink`.
    pub(crate) fn run(
        &mut self,
        pinned: &Pinned,
        query: &Query,
        plan: &Plan,
        sink: &mut dyn FnMut(RecordBatch) -> CoreResult<()>,
    ) -> Result<Statistics> {
        if let Some(snapshot) = self.whole(pinned, &plan.columns())? {
            return Ok(steps::run((pinned.table.name(), plan), &snapshot, self.control, sink)?);
        }
        let reader = convert::PartReader::new(plan);
        let mut merge = Merge::new(plan, self.control)?;
        let mut statistics = Statistics::default();
        let fragments = pinned.fragments_for(plan.filter.as_ref(), &mut statistics);
        let cut = |column: &str, set: &KeySet| pinned.cut(column, set, &fragments);
        let (request, sets) = convert::to_query(query, pinned.table.name(), pinned.version.number(), &cut);
        let lookups = convert::to_lookups(query.clone(), &pinned.table)?;
        let (task, _held) = self.task(pinned, Request::Query(request), &sets, lookups)?;
        let (first, widest) = limits::WAVE_FRAGMENTS;
        let mut wave = match &reader {
            convert::PartReader::Rows(_) if plan.top().is_some() => first,
            convert::PartReader::Rows(_) => widest,
            convert::PartReader::Groups | convert::PartReader::Sorted(_) => fragments.len(),
        };
        let mut rest = &fragments[..];
        while !rest.is_empty() {
            let now;
            (now, rest) = rest.split_at(wave.saturating_mul(self.nodes.count()).clamp(1, rest.len()));
            wave = wave.saturating_mul(4).min(widest.max(wave));
            for part in self.ask(pinned, task.clone(), now, "")? {
                add(&mut statistics, &part.end);
                for message in part.messages {
                    for piece in reader.read(message)? {
                        merge.add(piece, &part.fragments)?;
                    }
                }
            }
            // The rest could add nothing: there are as many rows as the query wants.
            if !merge.flush(sink)? {
                break;
            }
        }
        merge.finish(sink)?;
        Ok(statistics)
    }

    /// A filter whose semi-joins are sets.
    pub(crate) fn resolve_filter(
        &mut self,
        pinned: &Pinned,
        mut filter: Option<Filter>,
    ) -> Result<Option<Filter>> {
        let (snapshot, control) = (pinned.snapshot(), self.control);
        if let Some(filter) = &mut filter {
            let resolved = Resolver::new(&pinned.table, &snapshot, self, control).filter(filter);
            resolved.map_err(|error| self.error(error))?;
        }
        Ok(filter)
    }

    /// The version with some columns, where this process answers for all of it and has it in memory.
    pub(crate) fn whole(&self, pinned: &Pinned, columns: &[usize]) -> Result<Option<Arc<Snapshot>>> {
        self.whole_for(pinned, columns, self.purpose)
    }

    /// The same for another purpose.
    fn whole_for(
        &self,
        pinned: &Pinned,
        columns: &[usize],
        purpose: Purpose,
    ) -> Result<Option<Arc<Snapshot>>> {
        match &pinned.version {
            // Each does its share.
            TableVersion::Stored(_) if self.nodes.count() > 1 => Ok(None),
            TableVersion::Stored(_) | TableVersion::InMemory(_) => {
                self.in_memory(pinned, &pinned.fragments, columns, purpose)
            }
        }
    }

    /// Some fragments of the version with some columns, where this process has them in memory. They are compared with the
    /// version like everything else that is answered.
    pub(crate) fn in_memory(
        &self,
        pinned: &Pinned,
        fragments: &[u32],
        columns: &[usize],
        purpose: Purpose,
    ) -> Result<Option<Arc<Snapshot>>> {
        let snapshot = self.nodes.in_memory(pinned, fragments, columns, purpose)?;
        let Some(snapshot) = snapshot else { return Ok(None) };
        let answered = coverage::answered(&snapshot);
        coverage::check(pinned.table.name(), &pinned.version, fragments, &answered)?;
        Ok(Some(snapshot))
    }

    /// What the nodes answer to a request without sets, over all fragments.
    pub(super) fn ask_all(&mut self, pinned: &Pinned, request: Request) -> Result<Vec<Bytes>> {
        if pinned.fragments.is_empty() {
            return Ok(Vec::new());
        }
        let (task, _held) = self.task(pinned, request, &[], Vec::new())?;
        let parts = self.ask(pinned, task, &pinned.fragments, "")?;
        Ok(parts.into_iter().flat_map(|part| part.messages).collect())
    }

    /// Those that are asked.
    pub(super) fn nodes(&self) -> &'a N {
        self.nodes
    }

    /// What the request obeys.
    pub(super) fn control(&self) -> &'a Control {
        self.control
    }

    /// A task, and the memory of what it carries, which is there until all have answered.
    fn task(
        &self,
        pinned: &Pinned,
        request: Request,
        sets: &[BuiltSet],
        lookups: Vec<(peer::Lookup, Bytes)>,
    ) -> Result<(Task, Reservation)> {
        let (heads, mut data): (Vec<_>, Vec<_>) = sets.iter().map(convert::to_join_set).unzip();
        let (lookups, of_lookups): (Vec<_>, Vec<_>) = lookups.into_iter().unzip();
        data.extend(of_lookups);
        let mut held = self.nodes.memory();
        held.set(data.iter().map(|data| data.len() as u64).sum())?;
        let head = peer::Task {
            table: pinned.table.name().to_owned(),
            table_id: pinned.table.id(),
            log_id: pinned.version.log_id().to_owned(),
            version: pinned.version.number(),
            cutoff: pinned.cutoff.map(convert::to_cutoff),
            request: Some(request),
            sets: heads,
            lookups,
            analyze: self.analyze,
            aside: self.purpose != Purpose::Query,
            ..peer::Task::default()
        };
        Ok((Task { head, data }, held))
    }

    /// The parts of some fragments. Together with those that were pruned these are the version: every answer is made of
    /// parts that were asked for here, and here they are compared with it.
    fn ask(&mut self, pinned: &Pinned, task: Task, fragments: &[u32], what: &str) -> Result<Vec<Part>> {
        self.control.check()?;
        let sets = task.data.iter().map(|data| data.len() as u64).sum();
        let parts = self.nodes.ask(pinned, task, fragments)?;
        let answered = parts.iter().flat_map(|part| &part.end.answered);
        coverage::check(pinned.table.name(), &pinned.version, fragments, answered)?;
        self.hops.extend(parts.iter().map(|part| Hop {
            what: what.to_owned(),
            node: Arc::clone(&part.node),
            fragments: part.fragments.len(),
            shipped: part.shipped,
            sets: if part.shipped.0 > 0 { sets } else { 0 },
            elapsed_ns: part.elapsed_ns,
            end: part.end.clone(),
        }));
        Ok(parts)
    }

    /// The error behind an error of the engine, which knows its place.
    fn error(&mut self, error: Error) -> RequestError {
        match (self.error.take(), error.place()) {
            (Some(error), Some(place)) => error.at(place),
            (Some(error), None) => error,
            (None, _) => error.into(),
        }
    }

    /// Stops the engine.
    fn stop<T>(&mut self, result: Result<T>) -> CoreResult<T> {
        result.map_err(|error| {
            self.error = Some(error);
            Error::new(ErrorKind::Cancelled, "other nodes did not answer")
        })
    }
}

impl<N: Nodes> BuildSide for Coordinator<'_, N> {
    fn table(&mut self, name: &str, version: Option<u64>) -> CoreResult<(Arc<Table>, Arc<Snapshot>)> {
        // A statement has pinned what it names.
        let known = self.pinned.get(name).filter(|known| version.is_none_or(|v| v == known.version.number()));
        let pinned = match known {
            Some(known) => known.clone(),
            None => {
                let pinned = self.pin(name, version);
                self.stop(pinned)?
            }
        };
        let snapshot = pinned.snapshot();
        Ok((pinned.table, snapshot))
    }

    fn set(&mut self, build: &Build<'_>) -> CoreResult<BuiltSet> {
        // What is wrong with the filter is found here, with its place.
        Plan::filter(build.table, build.snapshot, build.filter)?;
        build.check_key()?;
        let pinned = self.pinned_table(build.table)?;
        let key = &build.table.schema().fields()[build.key].name;
        let what = format!("{}.{key}", build.table.name());
        let values = self.values(&pinned, key, build.filter, &what);
        Ok(self.stop(values)?.0)
    }

    fn rows(
        &mut self,
        table: &Arc<Table>,
        snapshot: &Arc<Snapshot>,
        query: &Query,
    ) -> CoreResult<Vec<RecordBatch>> {
        let pinned = self.pinned_table(table)?;
        let plan = Plan::new(table, snapshot, query)?;
        let mut batches = Vec::new();
        let control = self.control;
        let done = self.run(&pinned, query, &plan, &mut |batch| {
            control.reserve(batch.get_array_memory_size())?;
            batches.push(batch);
            Ok(())
        });
        self.stop(done)?;
        Ok(batches)
    }
}

impl<N: Nodes> Coordinator<'_, N> {
    /// The version of a table that this request reads.
    fn pinned_table(&mut self, table: &Table) -> CoreResult<Pinned> {
        let pinned = self.pinned.get(table.name()).cloned();
        self.stop(pinned.ok_or_else(RequestError::internal))
    }
}

/// Counts what a node did.
fn add(statistics: &mut Statistics, end: &peer::End) {
    *statistics += end.statistics.as_ref().map(convert::from_statistics).unwrap_or_default();
}

#[cfg(test)]
mod tests;
