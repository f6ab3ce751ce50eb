//! The full fragments of a write, which are encoded and written to files while more of its rows come in.
//!
//! So that memory is bounded, few of them are under way at once, and what they take is reserved. A write that ends
//! without a commit leaves no files.

use std::{collections::VecDeque, sync::Arc};

use basalt_core::{fragment::RowBuffer, limits::FRAGMENT_ROWS, table::Table};
use tokio::{runtime::Handle, task::JoinHandle};

use super::{Tables, commit::NewFragment, stored::Stored};
use crate::{limits, memory::Reservation, panics::caught_async, status::RequestError, trace};

/// See the module.
#[derive(Debug)]
pub(crate) struct Writing {
    stored: Arc<Stored>,
    runtime: Handle,
    /// In the order of the rows.
    under_way: VecDeque<UnderWay>,
    done: Vec<NewFragment>,
}

/// What rows of so many bytes take while they are encoded and written by so many threads.
pub(crate) fn writing_bytes(bytes: u64, rows: u64, threads: usize) -> u64 {
    // Of a fragment's rows there are no more.
    let rows = rows.min(FRAGMENT_ROWS as u64);
    let at_once = limits::ENCODE_ROW_BYTES * rows * threads as u64;
    // Of few columns few are encoded at once.
    let most = limits::ENCODE_ROW_BYTES * bytes / limits::LEAST_COLUMN_ROW_BYTES;
    limits::FRAGMENT_COPIES * bytes + at_once.min(most)
}

#[derive(Debug)]
struct UnderWay {
    bytes: u64,
    task: JoinHandle<Result<NewFragment, RequestError>>,
}

impl Tables {
    /// For the full fragments of a write; `None` for a table in memory alone, which has no files.
    pub(crate) fn writing(&self, table: &Table) -> Result<Option<Writing>, RequestError> {
        let stored = self.stored(table)?;
        Ok(stored.map(|stored| Writing {
            stored,
            runtime: Handle::current(),
            under_way: VecDeque::new(),
            done: Vec::new(),
        }))
    }
}

impl Writing {
    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        let under_way: u64 = self.under_way.iter().map(|under_way| under_way.bytes).sum();
        under_way + self.done.iter().map(|new| new.data.bytes() as u64).sum::<u64>()
    }

    /// Takes the rows of a fragment over. It waits for earlier ones where too many are under way, or where memory is
    /// short; `held` has what this write holds, of which `beside` bytes are not held here.
    pub(crate) async fn add(
        &mut self,
        rows: RowBuffer,
        held: &mut Reservation,
        beside: u64,
    ) -> Result<(), RequestError> {
        self.stored.check_writable()?;
        while self.under_way.len() >= limits::FRAGMENTS_OF_A_WRITE {
            self.next().await?;
        }
        let threads = self.stored.shared.cpu.threads();
        let bytes = writing_bytes(rows.bytes() as u64, rows.rows() as u64, threads);
        self.hold(held, beside + bytes).await?;
        let stored = Arc::clone(&self.stored);
        let task =
            self.runtime.spawn(trace::carried(caught_async(async move { stored.write_rows(rows).await })));
        self.under_way.push_back(UnderWay { bytes, task });
        Ok(())
    }

    /// Reserves what is held here and `beside`. Where memory is short it waits for what is under way, which takes less
    /// when it is done.
    pub(crate) async fn hold(&mut self, held: &mut Reservation, beside: u64) -> Result<(), RequestError> {
        while let Err(refused) = held.set(self.bytes() + beside) {
            if !self.next().await? {
                return Err(refused);
            }
        }
        Ok(())
    }

    /// Waits for the oldest that is under way; `false` when none is.
    async fn next(&mut self) -> Result<bool, RequestError> {
        let Some(oldest) = self.under_way.front_mut() else { return Ok(false) };
        // It stays there while it is waited for: whoever gives up waiting drops all of this.
        let written = (&mut oldest.task).await;
        self.under_way.pop_front();
        self.done.push(written.map_err(|_| RequestError::internal())??);
        Ok(true)
    }

    /// Waits for all, and gives them to a commit.
    pub(super) async fn finish(mut self) -> Result<Vec<NewFragment>, RequestError> {
        while self.next().await? {}
        Ok(std::mem::take(&mut self.done))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let (under_way, done) = (std::mem::take(&mut self.under_way), std::mem::take(&mut self.done));
        if under_way.is_empty() && done.is_empty() {
            return;
        }
        let log = self.stored.log.clone();
        self.runtime.spawn(async move {
            let mut files: Vec<_> = done.into_iter().map(|new| new.file).collect();
            for UnderWay { task, .. } in under_way {
                files.extend(task.await.ok().and_then(Result::ok).map(|new| new.file));
            }
            log.discard(files).await;
        });
    }
}
