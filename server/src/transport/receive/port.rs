//! Where connections come in, and what they and their requests may hold.

use std::{pin::pin, sync::Arc};

use basalt_proto::v1::ErrorReason;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, sleep_until, timeout_at},
};

use super::stalled::{Stalled, Window};
use crate::{
    limits,
    memory::{Consumer, MemoryPool, Reservation},
    status::RequestError,
};

/// Where connections come in, and what they may hold together.
#[derive(Debug)]
pub(in super::super) struct Port {
    memory: Arc<MemoryPool>,
    kinds: Kinds,
    /// KiB for requests whose body has not ended.
    requests: Arc<Semaphore>,
    /// Those of them that wait for their clients.
    stalled: Arc<Stalled>,
    /// KiB for messages.
    messages: Arc<Semaphore>,
    /// KiB for messages of one connection.
    connection_messages: u32,
    stream_window: u32,
    connections: usize,
}

#[derive(Clone, Copy, Debug)]
struct Kinds {
    connections: Consumer,
    requests: Consumer,
    messages: Consumer,
}

impl Kinds {
    fn is_of_peers(self) -> bool {
        matches!(self.messages, Consumer::PeerMessages)
    }

    /// What the largest message counts as.
    fn largest_message(self) -> u64 {
        let bytes = if self.is_of_peers() { limits::PEER_MESSAGE_BYTES } else { limits::MESSAGE_BYTES };
        limits::MESSAGE_COPIES * bytes as u64
    }
}

impl Port {
    /// That of the clients, of so many connections at most.
    pub(in super::super) fn clients(memory: &Arc<MemoryPool>, connections: usize) -> Arc<Self> {
        let kinds = Kinds {
            connections: Consumer::Connections,
            requests: Consumer::Requests,
            messages: Consumer::Messages,
        };
        Self::new(memory, kinds, connections)
    }

    /// That of the other nodes.
    pub(in super::super) fn peers(memory: &Arc<MemoryPool>) -> Arc<Self> {
        let kinds = Kinds {
            connections: Consumer::PeerConnections,
            requests: Consumer::PeerRequests,
            messages: Consumer::PeerMessages,
        };
        Self::new(memory, kinds, limits::PEER_CONNECTIONS)
    }

    fn new(memory: &Arc<MemoryPool>, kinds: Kinds, connections: usize) -> Arc<Self> {
        let part = |part: u64, of: Consumer| (memory.limit() / part).max(of.floor(memory.limit()));
        let all_connections = part(limits::CONNECTIONS_PART, kinds.connections) / limits::CONNECTION_BYTES;
        let requests = part(limits::REQUESTS_PART, kinds.requests);
        let messages = part(limits::MESSAGES_PART, kinds.messages);
        let (connection_part, most) = limits::CONNECTION_MESSAGES;
        let of_connection = (messages / connection_part).min(most).max(kinds.largest_message());
        let (narrow, wide) = limits::STREAM_WINDOW_BYTES;
        let window = u32::try_from(requests / limits::STREAM_WINDOW_PART).unwrap_or(wide);
        Arc::new(Self {
            memory: Arc::clone(memory),
            kinds,
            requests: Arc::new(Semaphore::new(kib(requests) as usize)),
            stalled: Arc::default(),
            messages: Arc::new(Semaphore::new(kib(messages) as usize)),
            connection_messages: kib(of_connection),
            stream_window: window.clamp(narrow, wide),
            connections: connections.min(usize::try_from(all_connections).unwrap_or(usize::MAX)),
        })
    }

    /// How many connections there may be at once.
    pub(in super::super) fn connections(&self) -> usize {
        self.connections
    }

    /// Bytes that may be sent on one stream and not be read.
    pub(in super::super) fn stream_window(&self) -> u32 {
        self.stream_window
    }

    /// Takes in a connection.
    pub(in super::super) fn connect(self: &Arc<Self>) -> Result<Arc<Connection>, RequestError> {
        let mut held = self.memory.reserve(self.kinds.connections);
        held.set(limits::CONNECTION_BYTES)?;
        let messages = Arc::new(Semaphore::new(self.connection_messages as usize));
        Ok(Arc::new(Connection { port: Arc::clone(self), messages, _held: held }))
    }
}

/// One connection. It is counted until it and its requests are gone.
#[derive(Debug)]
pub(in super::super) struct Connection {
    port: Arc<Port>,
    /// KiB for its messages.
    messages: Arc<Semaphore>,
    _held: Reservation,
}

impl Connection {
    /// The window of a request that has to be waited for; where there is room for no more, that of one whose client has
    /// been waited for the longest.
    pub(super) fn window(&self) -> Result<Window, RequestError> {
        let Port { kinds, stalled, .. } = &*self.port;
        let held = match self.try_window() {
            Ok(held) => held,
            // Nodes wait for each other in the middle of a statement, and none of them for long for nothing.
            Err(error) if kinds.is_of_peers() => return Err(error),
            Err(error) => stalled.give_up(false).ok_or(error)?,
        };
        Ok(stalled.add(held))
    }

    fn try_window(&self) -> Result<Held, RequestError> {
        let Port { memory, kinds, requests, stream_window, .. } = &*self.port;
        let bytes = u64::from(*stream_window) + limits::REQUEST_BYTES;
        let permit = Arc::clone(requests).try_acquire_many_owned(kib(bytes)).map_err(|_| no_memory())?;
        let mut reservation = memory.reserve(kinds.requests);
        reservation.set(bytes).map_err(RequestError::retryable)?;
        Ok(Held { _permits: [Some(permit), None], _reservation: reservation })
    }

    /// The memory of a message, if there is enough and nobody waits for it.
    pub(super) fn try_message(&self, bytes: u64) -> Option<Held> {
        let Port { memory, kinds, messages, .. } = &*self.port;
        let own = Arc::clone(&self.messages).try_acquire_many_owned(kib(bytes)).ok()?;
        let all = Arc::clone(messages).try_acquire_many_owned(kib(bytes)).ok()?;
        let mut reservation = memory.reserve(kinds.messages);
        reservation.set(bytes).ok()?;
        Some(Held { _permits: [Some(own), Some(all)], _reservation: reservation })
    }

    /// The memory of what a message is decoded to, beyond what is counted by its length, if there is so much.
    pub(super) fn try_decoded(&self, bytes: u64) -> Option<Held> {
        let mut reservation = self.port.memory.reserve(self.port.kinds.messages);
        reservation.set(bytes).ok()?;
        Some(Held { _permits: [None, None], _reservation: reservation })
    }

    /// Waits for that memory. It comes from the pool alone: whoever waited for what is kept for messages, and has some of
    /// it, would wait for another who does the same.
    pub(super) async fn decoded(self: Arc<Self>, bytes: u64) -> Result<Held, RequestError> {
        let mut reservation = self.port.memory.reserve(self.port.kinds.messages);
        reservation.set_by(bytes, Instant::now() + limits::MESSAGE_WAIT).await?;
        Ok(Held { _permits: [None, None], _reservation: reservation })
    }

    /// Waits for the memory of a message: behind the others of its connection, then behind those of other connections, of
    /// which those make room whose clients stall.
    pub(super) async fn message(self: Arc<Self>, bytes: u64) -> Result<Held, RequestError> {
        let Port { memory, kinds, stalled, messages, connection_messages, .. } = &*self.port;
        if kib(bytes) > *connection_messages {
            let most = u64::from(*connection_messages) * 1024 / limits::MESSAGE_COPIES;
            let message = format!("with this much memory the server takes messages of at most {most} bytes");
            return Err(RequestError::new(ErrorReason::MemoryLimit, message).with("limit_bytes", most));
        }
        let until = Instant::now() + limits::MESSAGE_WAIT;
        let own = Arc::clone(&self.messages).acquire_many_owned(kib(bytes));
        let own = timeout_at(until, own).await.map_err(|_| no_memory())?.map_err(|_| no_memory())?;
        let mut all = pin!(Arc::clone(messages).acquire_many_owned(kib(bytes)));
        let all = loop {
            tokio::select! {
                biased;
                all = &mut all => break all.map_err(|_| no_memory())?,
                () = sleep_until(until) => return Err(no_memory()),
                () = sleep(limits::STALLED_LEAST), if !kinds.is_of_peers() => drop(stalled.give_up(true)),
            }
        };
        let mut reservation = memory.reserve(kinds.messages);
        reservation.set_by(bytes, until).await?;
        Ok(Held { _permits: [Some(own), Some(all)], _reservation: reservation })
    }
}

pub(super) fn too_slow() -> RequestError {
    let message = "the request came so slowly that others needed its memory; try again later";
    RequestError::new(ErrorReason::MemoryLimit, message).retryable()
}

fn no_memory() -> RequestError {
    let message = "other requests that are being received take the memory for them; try again later";
    RequestError::new(ErrorReason::MemoryLimit, message).retryable()
}

/// Rounded up.
fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

/// Memory of a request or of a message.
#[derive(Debug)]
pub(in super::super) struct Held {
    _permits: [Option<OwnedSemaphorePermit>; 2],
    _reservation: Reservation,
}
