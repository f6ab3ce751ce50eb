//! Rows that are taken before they are asked for: a portal of few rows, whose client has not come back for all of them, holds
//! nothing but these. One of many rows has its place given to others after a while.

use std::{
    collections::{HashMap, VecDeque},
    pin::pin,
};

use arrow_array::RecordBatch;
use futures_util::future::join_all;

use super::portal::{Portal, Under};
use crate::{limits, panics::caught_async, readers::Kept, state::State};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    batches: VecDeque<RecordBatch>,
    /// For these rows, and for those in hand.
    kept: Option<Kept>,
    /// No more are taken until the client has asked for some.
    is_full: bool,
}

impl Ahead {
    /// The next rows; `None`: the statement has them.
    pub(super) fn pop(&mut self) -> Option<RecordBatch> {
        self.batches.pop_front()
    }
}

impl Under {
    /// Whether rows are to be taken before they are asked for.
    pub(super) fn reads_ahead(&self) -> bool {
        let gives_rows = self.rows.command().gives_rows() && self.rows.copied().is_none();
        gives_rows && !self.ahead.is_full && !self.rows.is_complete()
    }

    /// The client has what it has asked for, and may ask for more or not.
    pub(super) fn is_left(&mut self, state: &State) {
        self.ahead.is_full = false;
        self.count(state);
        self.rows.rest();
        self.rows.is_asked();
    }

    /// Takes rows until there are no more, or as many as are kept. Dropping the future loses none.
    async fn read_ahead(&mut self, state: &State) {
        while self.count(state) {
            match caught_async(self.rows.next()).await {
                Ok(Some(batch)) if batch.num_rows() == 0 => {}
                Ok(Some(batch)) => self.ahead.batches.push_back(batch),
                Ok(None) => {
                    self.turn = None;
                    break;
                }
                // Who asks for rows behind these is told.
                Err(_) => break,
            }
        }
        self.ahead.is_full = true;
        self.rows.rest();
    }

    /// Counts the rows that are here; whether there may be more.
    fn count(&mut self, state: &State) -> bool {
        let in_hand = self.batch.iter().map(|(batch, _)| batch);
        let batches = in_hand.chain(&self.ahead.batches);
        let bytes: u64 = batches.map(|batch| batch.get_array_memory_size() as u64).sum();
        let is_counted = state.readers.count(&mut self.ahead.kept, bytes, &state.memory);
        is_counted && bytes < limits::POSTGRES_AHEAD_BYTES
    }
}

/// Takes rows of all portals that are to have some at hand.
pub(super) async fn read(portals: &mut HashMap<String, Portal>, state: &State) {
    let mut reading = Vec::new();
    for portal in portals.values_mut() {
        if let Some(under) = portal.reads_ahead() {
            reading.push(under.read_ahead(state));
        }
    }
    join_all(reading).await;
}

/// The same while something else is done, which may wait for what these portals hold.
pub(super) async fn read_beside<T>(
    portals: &mut HashMap<String, Portal>,
    state: &State,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return done,
        () = read(portals, state) => {}
    }
    work.await
}
