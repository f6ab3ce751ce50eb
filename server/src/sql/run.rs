//! A query of the engine below a SQL plan: on a thread of its own, which waits where its rows are not taken yet.

use std::time::Duration;

use arrow_array::RecordBatch;
use basalt_core::{exec::Statistics, query::Query};
use basalt_sql::{Answers, Hop, Hops};
use futures_util::stream;
use tokio::{sync::mpsc, time::timeout_at};

use super::{At, carried, gone, lock};
use crate::{
    class::Class,
    coordinator::{self, Coordinator, nodes_of},
    cpu::{MayWait, on_own_thread_as},
    limits,
    panics::{self, caught},
    peers,
    plan_summary::Scanned,
    status::{RequestError, Result},
    trace::Entered,
};

/// What a scan gives.
enum Piece {
    Batch(RecordBatch),
    /// The last.
    End(Result<Statistics>),
}

/// What is left of a scan.
enum State {
    Begin(Box<At>, Box<Query>, Hops),
    Under(mpsc::Receiver<Piece>, Box<At>),
    Over,
}

/// The rows of a query. It begins with the first poll and ends when the stream is dropped.
pub(super) fn run(table: At, query: Query, hops: &Hops) -> Answers {
    let begin = State::Begin(Box::new(table), Box::new(query), hops.clone());
    Box::pin(stream::unfold(begin, async |state| {
        let (mut pieces, table) = match state {
            State::Begin(table, query, hops) => {
                let (sender, pieces) = mpsc::channel(limits::WAITING_PIECES);
                let _runtime = table.runtime.enter();
                let of = table.clone();
                let _entered = Entered::new(table.reach.trace());
                let (environment, class) = (&table.state.environment, table.asker.class());
                let answer = move |may_wait: &MayWait| answer(&of, *query, &hops, (class, may_wait), &sender);
                drop(on_own_thread_as(environment, class, answer));
                (pieces, table)
            }
            State::Under(pieces, table) => (pieces, table),
            State::Over => return None,
        };
        match pieces.recv().await {
            Some(Piece::Batch(batch)) => Some((Ok(batch), State::Under(pieces, table))),
            Some(Piece::End(Ok(statistics))) => {
                lock(&table.done).statistics += statistics;
                None
            }
            Some(Piece::End(Err(error))) => Some((Err(carried(error)), State::Over)),
            None => Some((Err(carried(RequestError::internal())), State::Over)),
        }
    }))
}

fn answer(
    table: &At,
    query: Query,
    hops: &Hops,
    (class, may_wait): (Class, &MayWait),
    sender: &mpsc::Sender<Piece>,
) {
    let outcome = caught(|| {
        panics::wanted("sql", table.pinned.table.name());
        let control = table.state.cpu.spread(may_wait, class, table.control.clone());
        let mut coordinator = Coordinator::new(&*table.reach, &control, false);
        // Its semi-joins and attributes are of what the statement reads.
        let current: Vec<_> = lock(&table.done).current.values().cloned().collect();
        current.iter().chain([&table.pinned]).for_each(|pinned| coordinator.reads(pinned));
        let (query, plan) = coordinator.resolve(&table.pinned, query)?;
        let done = coordinator.run(&table.pinned, &query, &plan, &mut |batch| {
            // Whoever takes the rows may be waiting for another scan.
            let sent = timeout_at(table.deadline, sender.send(Piece::Batch(batch)));
            match may_wait.wait(sent) {
                Ok(sent) => sent.map_err(|_| gone()),
                Err(_) => {
                    table.control.expire();
                    table.control.check()
                }
            }
        });
        let done_by = coordinator.into_hops();
        let Ok(statistics) = done else { return done };
        if let Some(entry) = &table.asker.entry {
            let version = table.pinned.version.number();
            let scanned = Scanned::once(version, statistics, nodes_of(&done_by));
            entry.scanned(table.pinned.table.name(), scanned);
        }
        // A server without a cluster has no name.
        for done in done_by.into_iter().filter(|hop| !hop.node.is_empty()) {
            let node = peers::node_for(&table.state, &table.asker.caller, &done.node).into();
            hops.add(hop(coordinator::Hop { node, ..done }));
        }
        Ok(statistics)
    });
    // An error says that nobody waits for it.
    let _ = may_wait.wait(sender.send(Piece::End(outcome)));
}

/// What a node did, as EXPLAIN ANALYZE tells it.
fn hop(done: coordinator::Hop) -> Hop {
    // Default: a node that tells of nothing has read nothing.
    let rows = done.end.statistics.map_or(0, |statistics| statistics.rows_selected);
    Hop {
        node: done.node,
        of: done.what,
        fragments: done.fragments as u64,
        loaded: done.end.loaded.into(),
        rows,
        sent_bytes: done.shipped.0,
        set_bytes: done.sets,
        received_bytes: done.shipped.1,
        elapsed: Duration::from_nanos(done.elapsed_ns),
        executing: Duration::from_nanos(done.end.execute_ns),
    }
}
