//! A task at another node: sent, and its part gathered.

use std::sync::Arc;

use basalt_proto::cluster::v1::{self as peer, End, ExecuteRequest, execute_request, execute_response::Kind};
use prost::{Message as _, bytes::Bytes};
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Request, Status};

use super::scatter::Failure;
use crate::{
    limits,
    membership::Link,
    memory::{Consumer, Reservation},
    state::State,
    status::RequestError,
    trace,
};

/// What some fragments of a table are asked.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// The fragments are filled in for each node.
    pub(crate) head: peer::Task,
    /// The bytes of each of its sets, then of each of its lookups.
    pub(crate) data: Vec<Bytes>,
}

/// What a node has answered.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) node: Arc<str>,
    /// Ascending.
    pub(crate) fragments: Vec<u32>,
    pub(crate) messages: Vec<Bytes>,
    pub(crate) end: End,
    /// Bytes that went to another node, and that came back.
    pub(crate) shipped: (u64, u64),
    /// From the question to the answer.
    pub(crate) elapsed_ns: u64,
    /// The memory that the messages take, until they are merged.
    pub(crate) held: Reservation,
}

impl Task {
    /// The task for some fragments, as it travels.
    fn messages(&self, protocol: u32, fragments: &[u32]) -> (u64, Vec<ExecuteRequest>) {
        let head = peer::Task { protocol, fragments: fragments.to_vec(), ..self.head.clone() };
        let bytes = head.encoded_len() + self.data.iter().map(Bytes::len).sum::<usize>();
        let pieces = self.data.iter().flat_map(|data| {
            let cut = (0..data.len()).step_by(limits::PEER_PIECE_BYTES);
            cut.map(|at| data.slice(at..data.len().min(at + limits::PEER_PIECE_BYTES)))
        });
        let kinds =
            std::iter::once(execute_request::Kind::Task(head)).chain(pieces.map(execute_request::Kind::Data));
        (bytes as u64, kinds.map(|kind| ExecuteRequest { kind: Some(kind) }).collect())
    }
}

/// Has a node do its share of a task.
pub(super) async fn execute(
    name: &Arc<str>,
    link: &Link,
    task: &Task,
    fragments: &[u32],
    deadline: Instant,
    state: &State,
) -> Result<Part, Failure> {
    let started = Instant::now();
    task.data.iter().take(task.head.sets.len()).for_each(|set| state.metrics.sip_shipped(set.len() as u64));
    let (sent, messages) = task.messages(state.environment.protocol(), fragments);
    let mut request = Request::new(tokio_stream::iter(messages));
    request.set_timeout(deadline.saturating_duration_since(started));
    let trace = trace::current();
    let hop = trace.as_ref().map(|trace| trace.hop("hop"));
    if let (Some(trace), Some(hop)) = (&trace, &hop) {
        trace.send(request.metadata_mut(), hop);
        hop.text("basalt.node", || name.to_string());
        hop.text("basalt.table", || task.head.table.clone());
        hop.count("basalt.fragments", fragments.len() as u64);
        hop.count("basalt.sets", task.head.sets.len() as u64);
        hop.count("basalt.set_bytes", task.data.iter().map(|data| data.len() as u64).sum());
        hop.count("basalt.sent_bytes", sent);
    }
    let run = async {
        let mut stream = link.client().execute(request).await.map_err(|status| failure(link, &status))?;
        let stream = stream.get_mut();
        let (mut messages, mut received, mut held) = (Vec::new(), 0, state.memory.reserve(Consumer::Parts));
        loop {
            let message = stream.message().await.map_err(|status| failure(link, &status))?;
            match message.and_then(|message| message.kind) {
                Some(Kind::Partial(bytes)) => {
                    received += bytes.len() as u64;
                    held.set(received).map_err(Failure::Request)?;
                    messages.push(bytes);
                }
                Some(Kind::End(end)) => return Ok((messages, received, held, end)),
                None => return Err(Failure::Node("the answer ended before its end".into())),
            }
        }
    };
    let answer =
        timeout_at(deadline, run).await.unwrap_or_else(|_| Err(Failure::Request(RequestError::deadline())));
    if let Some(hop) = &hop {
        match &answer {
            Ok((_, received, _, end)) => {
                hop.count("basalt.received_bytes", *received);
                hop.count("basalt.rows_selected", end.statistics.as_ref().map_or(0, |s| s.rows_selected));
            }
            Err(Failure::Request(error)) => hop.fail(error.reason()),
            Err(Failure::Node(_) | Failure::Gone(_)) => hop.fail("NODE"),
        }
    }
    let (messages, received, held, end) = answer?;
    Ok(Part {
        node: Arc::clone(name),
        fragments: fragments.to_vec(),
        messages,
        end,
        shipped: (sent, received),
        elapsed_ns: u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX),
        held,
    })
}

/// What another node's error means: the request's own errors are the same everywhere, all others are the node's.
fn failure(link: &Link, status: &Status) -> Failure {
    match RequestError::of_peer(status) {
        Some(error) if matches!(error.code(), Code::InvalidArgument | Code::OutOfRange) => {
            Failure::Request(error)
        }
        Some(error) => Failure::of_node(&error),
        // It has not said so itself.
        None => {
            link.failed();
            Failure::Node(status.message().to_owned())
        }
    }
}
