//! `Write` streams: how many are open, and which of them have a place.
//!
//! A stream that is open costs next to nothing; only one that sends rows takes one of the places. Where streams or
//! places are short, the stream whose client has been silent for longest gives up its own, first of the connection
//! that has most of these, so that nobody is locked out by clients that do nothing.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use basalt_proto::v1::ErrorReason;
use tokio::{sync::Notify, time::Instant};

use crate::{
    limits,
    status::{RequestError, Result},
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Writes {
    most_places: usize,
    most_open: usize,
    /// The server is shutting down.
    stopping: AtomicBool,
    streams: Mutex<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    next: u64,
    open: BTreeMap<u64, Open>,
    places: usize,
}

#[derive(Debug)]
struct Open {
    connection: u64,
    /// Since when its client has been waited for.
    silent_since: Option<Instant>,
    has_place: bool,
    given_up: Arc<Notify>,
}

impl Writes {
    pub(crate) fn new(most_places: usize, most_open: usize) -> Arc<Self> {
        let (stopping, streams) = (AtomicBool::new(false), Mutex::default());
        Arc::new(Self { most_places, most_open, stopping, streams })
    }

    /// Streams that have a place.
    pub(crate) fn places(&self) -> usize {
        self.streams().places
    }

    /// A stream that has begun on a connection.
    pub(crate) fn open(self: &Arc<Self>, connection: u64) -> Result<Arc<Stream>> {
        let mut streams = self.streams();
        if streams.open.len() >= self.most_open && !streams.give_one_up(|_| true) {
            return Err(overloaded(self.most_open, "are open"));
        }
        let id = streams.next;
        streams.next += 1;
        let given_up = Arc::new(Notify::new());
        let open = Open { connection, silent_since: None, has_place: false, given_up: Arc::clone(&given_up) };
        streams.open.insert(id, open);
        Ok(Arc::new(Stream { writes: Arc::clone(self), id, given_up }))
    }

    /// The server is shutting down: gives up all streams whose clients have been silent for a while.
    pub(crate) fn give_up_silent(&self) {
        self.stopping.store(true, Ordering::Release);
        while self.streams().give_one_up(|_| true) {}
    }

    /// What a stream that was given up is told.
    fn silent(&self) -> RequestError {
        if self.stopping.load(Ordering::Acquire) {
            let message = "the server is shutting down, and the client was silent; nothing was written";
            return RequestError::new(ErrorReason::ShuttingDown, message);
        }
        silent()
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Streams {
    /// Gives up a stream whose client is silent, for another one; whether there was one.
    fn give_one_up(&mut self, which: impl Fn(&Open) -> bool) -> bool {
        let now = Instant::now();
        let mut silent = BTreeMap::<u64, Vec<(Instant, u64)>>::new();
        for (id, open) in self.open.iter().filter(|(_, open)| which(open)) {
            if let Some(since) = open.silent_since
                && now.saturating_duration_since(since) >= limits::IDLE_WRITE
            {
                silent.entry(open.connection).or_default().push((since, *id));
            }
        }
        let most = silent.into_values().max_by_key(Vec::len).unwrap_or_default();
        let Some((_, oldest)) = most.into_iter().min() else { return false };
        if let Some(open) = self.remove(oldest) {
            open.given_up.notify_one();
        }
        true
    }

    fn remove(&mut self, id: u64) -> Option<Open> {
        let open = self.open.remove(&id)?;
        self.places -= usize::from(open.has_place);
        Some(open)
    }
}

fn overloaded(n: usize, what: &str) -> RequestError {
    RequestError::new(ErrorReason::Overloaded, format!("{n} writes {what}; try again later"))
}

/// One of them, until this is dropped.
#[derive(Debug)]
pub(crate) struct Stream {
    writes: Arc<Writes>,
    id: u64,
    given_up: Arc<Notify>,
}

impl Stream {
    /// Takes a place, unless it has one.
    pub(crate) fn take_place(&self) -> Result<()> {
        let mut streams = self.writes.streams();
        if streams.open.get(&self.id).ok_or_else(|| self.writes.silent())?.has_place {
            return Ok(());
        }
        if streams.places >= self.writes.most_places && !streams.give_one_up(|open| open.has_place) {
            return Err(overloaded(self.writes.most_places, "are under way"));
        }
        streams.open.get_mut(&self.id).ok_or_else(|| self.writes.silent())?.has_place = true;
        streams.places += 1;
        Ok(())
    }

    /// Gives its place back.
    pub(crate) fn leave_place(&self) {
        let mut streams = self.writes.streams();
        if let Some(open) = streams.open.get_mut(&self.id)
            && std::mem::take(&mut open.has_place)
        {
            streams.places -= 1;
        }
    }

    /// Waits for its client, which may be silent for too long.
    pub(crate) async fn wait<T>(&self, client: impl Future<Output = T>) -> Result<T> {
        self.set_silent(Some(Instant::now()))?;
        let done = tokio::select! {
            biased;
            done = pin!(client) => Some(done),
            () = self.given_up.notified() => None,
        };
        self.set_silent(None)?;
        done.ok_or_else(|| self.writes.silent())
    }

    fn set_silent(&self, since: Option<Instant>) -> Result<()> {
        let mut streams = self.writes.streams();
        let open = streams.open.get_mut(&self.id).ok_or_else(|| self.writes.silent())?;
        open.silent_since = since;
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.writes.streams().remove(self.id);
    }
}

fn silent() -> RequestError {
    let message = format!(
        "the client was silent for {} s or more while another write waited for its place; nothing was written",
        limits::IDLE_WRITE.as_secs()
    );
    RequestError::new(ErrorReason::Overloaded, message)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use std::time::Duration;

    use super::*;

    /// Has a stream wait for a client that has said nothing for so long.
    async fn fall_silent(stream: &Arc<Stream>, seconds: u64) -> tokio::task::JoinHandle<Result<()>> {
        let waiting = Arc::clone(stream);
        let task = tokio::spawn(async move { waiting.wait(pending()).await });
        tokio::task::yield_now().await;
        stream.set_silent(Instant::now().checked_sub(Duration::from_secs(seconds))).unwrap();
        task
    }

    #[tokio::test]
    async fn only_rows_take_a_place() {
        let writes = Writes::new(2, 4);
        let streams: Vec<_> = (0..4).map(|_| writes.open(1).unwrap()).collect();
        assert_eq!(writes.open(2).unwrap_err().reason(), "OVERLOADED");
        for stream in [&streams[0], &streams[1], &streams[0]] {
            stream.take_place().unwrap();
        }
        assert_eq!(writes.places(), 2);
        // Both are at work.
        assert_eq!(streams[2].take_place().unwrap_err().reason(), "OVERLOADED");
        streams[0].leave_place();
        streams[2].take_place().unwrap();
        drop(streams);
        assert_eq!(writes.places(), 0);
        writes.open(2).unwrap();
    }

    #[tokio::test]
    async fn the_longest_silence_of_the_busiest_connection_makes_room() {
        let writes = Writes::new(4, 8);
        let streams: Vec<_> = [1, 2, 2, 2].into_iter().map(|of| writes.open(of).unwrap()).collect();
        let mut tasks = Vec::new();
        for (stream, seconds) in streams.iter().zip([90, 20, 30, 0]) {
            stream.take_place().unwrap();
            tasks.push(fall_silent(stream, seconds).await);
        }
        let new: Vec<_> = (0..4).map(|_| writes.open(3).unwrap()).collect();
        new[0].take_place().unwrap();
        let error = tasks.remove(2).await.unwrap().unwrap_err();
        assert_eq!(error.reason(), "OVERLOADED");
        assert!(error.message().contains("silent"), "{}", error.message());
        assert_eq!(streams[2].take_place().unwrap_err().message(), error.message());
        // Two more are silent, and then nobody is who was so for long.
        new[1].take_place().unwrap();
        new[2].take_place().unwrap();
        assert_eq!(new[3].take_place().unwrap_err().reason(), "OVERLOADED");
        assert_eq!(writes.places(), 4);
        assert!(streams[3].take_place().is_ok() && new[0].wait(ready(())).await.is_ok());
    }
}
