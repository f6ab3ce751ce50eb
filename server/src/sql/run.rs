//! A query of the engine below a SQL plan: on a thread of its own, which waits where its rows are not taken yet.

use arrow_array::RecordBatch;
use basalt_core::{exec::Statistics, query::Query};
use basalt_sql::Answers;
use futures_util::stream;
use tokio::{sync::mpsc, time::timeout_at};

use super::{At, carried, gone, lock};
use crate::{
    class::Class,
    coordinator::Coordinator,
    cpu::{MayWait, on_own_thread_as},
    limits,
    panics::{self, caught},
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
    Begin(Box<At>, Box<Query>),
    Under(mpsc::Receiver<Piece>, Box<At>),
    Over,
}

/// The rows of a query. It begins with the first poll and ends when the stream is dropped.
pub(super) fn run(table: At, query: Query) -> Answers {
    let begin = State::Begin(Box::new(table), Box::new(query));
    Box::pin(stream::unfold(begin, async |state| {
        let (mut pieces, table) = match state {
            State::Begin(table, query) => {
                let (sender, pieces) = mpsc::channel(limits::WAITING_PIECES);
                let _runtime = table.runtime.enter();
                let of = table.clone();
                let _entered = Entered::new(table.reach.trace());
                let (environment, class) = (&table.state.environment, table.asker.class());
                let answer = move |may_wait: &MayWait| answer(&of, *query, class, may_wait, &sender);
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

fn answer(table: &At, query: Query, class: Class, may_wait: &MayWait, sender: &mpsc::Sender<Piece>) {
    let outcome = caught(|| {
        panics::wanted("sql", table.pinned.table.name());
        let control = table.state.cpu.spread(may_wait, class, table.control.clone());
        let mut coordinator = Coordinator::new(&*table.reach, &control, false);
        // Its semi-joins and attributes are of what the statement reads.
        let current: Vec<_> = lock(&table.done).current.values().cloned().collect();
        current.iter().chain([&table.pinned]).for_each(|pinned| coordinator.reads(pinned));
        let (query, plan) = coordinator.resolve(&table.pinned, query)?;
        coordinator.run(&table.pinned, &query, &plan, &mut |batch| {
            // Whoever takes the rows may be waiting for another scan.
            let sent = timeout_at(table.deadline, sender.send(Piece::Batch(batch)));
            match may_wait.wait(sent) {
                Ok(sent) => sent.map_err(|_| gone()),
                Err(_) => {
                    table.control.expire();
                    table.control.check()
                }
            }
        })
    });
    // An error says that nobody waits for it.
    let _ = may_wait.wait(sender.send(Piece::End(outcome)));
}
