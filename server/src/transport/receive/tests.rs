use std::{collections::VecDeque, convert::Infallible, time::Duration};

use futures_util::{FutureExt as _, poll};
use hyper::HeaderMap;
use tokio::sync::mpsc;
use tonic::Code;

use super::*;
use crate::memory::{Consumer, MemoryPool};

const UNARY: Method = Method { message_bytes: limits::MESSAGE_BYTES, streams: false, decoded: None };
const STREAM: Method = Method { message_bytes: limits::MESSAGE_BYTES, streams: true, decoded: None };
const MIB: u64 = 1 << 20;
/// Bytes of a message that counts by itself.
const LARGE: usize = 1 << 20;

/// Frames that come from elsewhere. It has ended when nobody can send any more.
struct Frames(mpsc::UnboundedReceiver<Vec<u8>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes.into()))))
    }
}

type Sender = mpsc::UnboundedSender<Vec<u8>>;

struct Request {
    body: Received<Frames>,
    receipt: Arc<Receipt>,
    frames: Option<Sender>,
}

fn request(connection: &Arc<Connection>, method: Method) -> Request {
    let (frames, receiver) = mpsc::unbounded_channel();
    let (body, receipt) = connection.receive(Frames(receiver), method).unwrap();
    Request { body, receipt, frames: Some(frames) }
}

/// What comes before a message.
fn prefix(length: usize) -> Vec<u8> {
    [&[0][..], &u32::try_from(length).unwrap().to_be_bytes()].concat()
}

impl Request {
    fn send(&self, bytes: impl Into<Vec<u8>>) {
        self.frames.as_ref().unwrap().send(bytes.into()).unwrap();
    }

    async fn next(&mut self) -> Option<Result<Bytes, Status>> {
        let frame = std::future::poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await;
        frame.map(|frame| frame.map(|frame| frame.into_data().unwrap()))
    }

    /// What is there now; `None` where the body waits.
    fn now(&mut self) -> Option<Bytes> {
        self.next().now_or_never().map(|frame| frame.unwrap().unwrap())
    }

    async fn refused(&mut self) -> Status {
        self.next().await.unwrap().unwrap_err()
    }
}

fn clients(limit: u64) -> (Arc<MemoryPool>, Arc<Port>) {
    let memory = Arc::new(MemoryPool::new(limit));
    let port = Port::clients(&memory, limits::CONNECTIONS);
    (memory, port)
}

#[tokio::test]
async fn messages_are_handed_on_one_by_one_however_they_are_cut() {
    let (_, port) = clients(256 * MIB);
    let lengths = [0, 1, 7, 40_000, 3];
    let all: Vec<u8> = lengths.iter().flat_map(|n| [prefix(*n), vec![7; *n]].concat()).collect();
    for size in [1, 2, 3, 5, 6, 1000, 16 << 10] {
        let mut request = request(&port.connect().unwrap(), STREAM);
        all.chunks(size).for_each(|frame| request.send(frame));
        request.frames = None;
        let mut expected: VecDeque<usize> = lengths.iter().map(|n| n + PREFIX).collect();
        let (mut message, mut sent) = (0, Vec::new());
        while let Some(bytes) = request.next().await {
            let bytes = bytes.unwrap();
            message += bytes.len();
            sent.extend_from_slice(&bytes);
            if message == expected[0] {
                (message, _) = (0, expected.pop_front());
            }
            assert!(expected.front().is_none_or(|length| message < *length), "{size}");
        }
        assert_eq!((sent, expected.len()), (all.clone(), 0), "{size}");
    }
}

#[tokio::test]
async fn what_is_announced_is_counted_until_it_is_dealt_with() {
    let (memory, port) = clients(256 * MIB);
    let connection = port.connect().unwrap();
    assert_eq!(memory.used(Consumer::Connections), limits::CONNECTION_BYTES);
    let one = u64::from(port.stream_window()) + limits::REQUEST_BYTES;

    let mut stream = request(&connection, STREAM);
    assert_eq!(memory.used(Consumer::Requests), one);
    stream.send(prefix(LARGE));
    assert_eq!(stream.now().unwrap().len(), PREFIX);
    assert_eq!(memory.used(Consumer::Messages), 2 * MIB);
    stream.send(vec![1; LARGE]);
    assert_eq!(stream.now().unwrap().len(), LARGE);
    // It is being dealt with until the next is asked for.
    assert_eq!(memory.used(Consumer::Messages), 2 * MIB);
    assert!(stream.now().is_none());
    assert_eq!(memory.used(Consumer::Messages), 0);
    stream.send(prefix(LARGE));
    assert!(stream.now().is_some());
    drop(stream);
    assert_eq!((memory.used(Consumer::Messages), memory.used(Consumer::Requests)), (0, 0));

    let mut unary = request(&connection, UNARY);
    unary.send([prefix(LARGE), vec![1; LARGE]].concat());
    unary.frames = None;
    assert_eq!(unary.next().await.unwrap().unwrap().len(), LARGE + PREFIX);
    assert!(unary.next().await.is_none());
    // What was sent is read; what it says is not dealt with yet.
    assert_eq!((memory.used(Consumer::Messages), memory.used(Consumer::Requests)), (2 * MIB, 0));
    let message = unary.receipt.take();
    drop(unary);
    assert_eq!(memory.used(Consumer::Messages), 2 * MIB);
    drop(message);
    assert_eq!(memory.used(Consumer::Messages), 0);
    drop((connection, port));
    assert_eq!(memory.used(Consumer::Connections), 0);
}

fn asked() -> Method {
    let shape = Shape::of_request("basalt.v1.SqlService", "Query").unwrap();
    Method { decoded: Some((shape, limits::DECODED_BYTES)), ..UNARY }
}

/// Statements with parameters, each of which is empty and becomes something: so many of them.
fn parameters(n: usize) -> Vec<u8> {
    [prefix(2 * n), [0x12, 0].repeat(n)].concat()
}

#[tokio::test(start_paused = true)]
async fn what_a_message_is_decoded_to_is_counted_before_its_last_bytes_are_handed_on() {
    let (memory, port) = clients(256 * MIB);
    let connection = port.connect().unwrap();
    let n = 500_000;
    let decoded = (n * size_of::<basalt_proto::v1::Value>()) as u64;
    let mut first = request(&connection, asked());
    let message = parameters(n);
    message.chunks(100_000).for_each(|frame| first.send(frame));
    let mut had = 0;
    while had < message.len() {
        had += first.now().unwrap().len();
    }
    let used = memory.used(Consumer::Messages);
    assert!(used > decoded && used < decoded + 3 * MIB, "{used} for {decoded}");
    let held = first.receipt.take();
    drop(first);
    assert_eq!(memory.used(Consumer::Messages), used);
    drop(held);
    assert_eq!(memory.used(Consumer::Messages), 0);

    // Where there is no memory its last bytes wait, and it is refused in the end.
    let mut tables = memory.reserve(Consumer::Tables);
    tables.set(254 * MIB).unwrap();
    let mut second = request(&connection, asked());
    second.send(message.clone());
    assert!(second.now().is_none());
    tables.set(200 * MIB).unwrap();
    assert_eq!(second.now().unwrap().len(), message.len());
    drop(second);
    tables.set(254 * MIB).unwrap();
    let mut third = request(&connection, asked());
    third.send(message);
    let start = Instant::now();
    let status = third.refused().await;
    assert_eq!(start.elapsed().as_secs(), limits::MESSAGE_WAIT.as_secs());
    assert_eq!(RequestError::of_reading(&status).unwrap().reason(), "MEMORY_LIMIT");
    assert_eq!(memory.used(Consumer::Messages), 0);
}

#[tokio::test]
async fn a_message_that_is_too_much_is_refused_where_that_is_seen() {
    let (memory, port) = clients(1024 * MIB);
    let connection = port.connect().unwrap();
    let mut request = request(&connection, asked());
    let message = parameters(2_000_000);
    let (mut sent, mut handed_on) = (0, 0);
    let status = loop {
        request.send(&message[sent..sent + 16_000]);
        sent += 16_000;
        match request.next().await.unwrap() {
            Ok(bytes) => handed_on += bytes.len(),
            Err(status) => break status,
        }
    };
    let error = RequestError::of_reading(&status).unwrap();
    assert_eq!((status.code(), error.reason()), (Code::ResourceExhausted, "MESSAGE_TOO_LARGE"));
    assert!(handed_on < message.len() / 2 + message.len() / 4, "{handed_on}");
    assert_eq!(memory.used(Consumer::Messages), 0);
    assert!(request.next().await.is_none());
}

#[tokio::test]
async fn too_long_a_message_is_left_to_the_decoder() {
    let (memory, port) = clients(256 * MIB);
    let mut request = request(&port.connect().unwrap(), UNARY);
    let too_long = [prefix(limits::MESSAGE_BYTES + 1), vec![1; 100]].concat();
    request.send(too_long.clone());
    request.send(vec![1; 1000]);
    assert_eq!(request.next().await.unwrap().unwrap(), too_long);
    assert!(request.next().await.is_none());
    assert_eq!(memory.used(Consumer::Messages), 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_waits_for_memory_and_is_refused_in_the_end() {
    let (memory, port) = clients(256 * MIB);
    let connection = port.connect().unwrap();
    // 8 MiB are for one connection.
    let (mut first, mut second) = (request(&connection, STREAM), request(&connection, STREAM));
    first.send(prefix(limits::MESSAGE_BYTES));
    assert!(first.now().is_some());
    second.send(prefix(LARGE));
    assert!(second.now().is_none());
    // What is small needs no more than its request has, and another connection has its own.
    let mut small = request(&connection, UNARY);
    small.send([prefix(100), vec![1; 100]].concat());
    assert!(small.now().is_some());
    let mut other = request(&port.connect().unwrap(), STREAM);
    other.send(prefix(LARGE));
    assert!(other.now().is_some());

    let start = Instant::now();
    let status = second.refused().await;
    assert_eq!(start.elapsed().as_secs(), limits::MESSAGE_WAIT.as_secs());
    let error = RequestError::of_reading(&status).unwrap();
    assert_eq!((status.code(), error.reason()), (Code::ResourceExhausted, "MEMORY_LIMIT"));
    let again = tonic_types::StatusExt::get_error_details(&status).retry_info().unwrap().retry_delay;
    assert_eq!(again, Some(limits::RETRY_DELAY));
    assert_eq!(second.receipt.refused().unwrap().reason(), "MEMORY_LIMIT");
    assert!(second.next().await.is_none());

    // One that waits goes on as soon as there is room.
    let mut third = request(&connection, STREAM);
    third.send(prefix(LARGE));
    assert!(third.now().is_none());
    drop(first);
    assert!(third.now().is_some());
    assert_eq!(memory.used(Consumer::Messages), 4 * MIB);
}

#[tokio::test(start_paused = true)]
async fn all_connections_together_are_bounded_and_so_is_the_pool() {
    let (memory, port) = clients(256 * MIB);
    let one = |bytes| {
        let request = request(&port.connect().unwrap(), STREAM);
        request.send(prefix(bytes));
        request
    };
    // 32 MiB are for all connections.
    let mut four: Vec<_> = (0..4).map(|_| one(limits::MESSAGE_BYTES)).collect();
    assert!(four.iter_mut().all(|request| request.now().is_some()));
    let mut fifth = one(LARGE);
    assert!(fifth.now().is_none());
    four.pop();
    assert!(fifth.now().is_some());
    drop((four, fifth));

    // All memory is taken: one of the largest is beside it, no more.
    let mut tables = memory.reserve(Consumer::Tables);
    tables.set(256 * MIB - memory.held()).unwrap();
    let (mut first, mut second) = (one(limits::MESSAGE_BYTES), one(LARGE));
    assert!(first.now().is_some());
    assert!(second.now().is_none());
    tables.set(250 * MIB).unwrap();
    assert!(second.now().is_some());
}

#[tokio::test]
async fn requests_are_refused_when_there_are_too_many() {
    let (memory, port) = clients(64 * MIB);
    let connection = port.connect().unwrap();
    let mut requests = Vec::new();
    let refused = loop {
        let (frames, receiver) = mpsc::unbounded_channel();
        match connection.receive(Frames(receiver), STREAM) {
            Ok(request) => requests.push((frames, request)),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.reason(), "MEMORY_LIMIT");
    let held = memory.used(Consumer::Requests);
    assert!(held <= 8 * MIB && held > 7 * MIB, "{held}");
    // A message that is whole needs nothing; one that is not whole waits no longer.
    let mut whole = request(&connection, UNARY);
    whole.send([prefix(100), vec![1; 100]].concat());
    assert!(whole.now().is_some());
    let mut half = request(&connection, UNARY);
    half.send(prefix(100));
    assert!(half.now().is_some());
    assert_eq!(RequestError::of_reading(&half.refused().await).unwrap().reason(), "MEMORY_LIMIT");
    requests.pop();
    assert!(connection.receive(Frames(mpsc::unbounded_channel().1), STREAM).is_ok());
}

/// Clients that are silent, or send a byte now and then, keep nobody out for longer than a moment.
#[tokio::test(start_paused = true)]
async fn who_was_waited_for_longest_makes_room() {
    let (_, port) = clients(64 * MIB);
    let mut stalled = Vec::new();
    while let Ok((body, receipt)) =
        port.connect().unwrap().receive(Frames(mpsc::unbounded_channel().1), STREAM)
    {
        stalled.push(Request { body, receipt, frames: None });
    }
    for request in &mut stalled {
        let (frames, receiver) = mpsc::unbounded_channel();
        (request.body.inner, request.frames) = (Frames(receiver), Some(frames));
        request.send(prefix(1000));
        assert_eq!(request.now().unwrap().len(), PREFIX);
    }
    // The first is at work on what has come. The others are waited for, from one moment to the next.
    for request in &mut stalled[1..] {
        assert!(request.now().is_none());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let connection = port.connect().unwrap();
    let late = || connection.receive(Frames(mpsc::unbounded_channel().1), STREAM);
    assert_eq!(late().err().unwrap().reason(), "MEMORY_LIMIT");
    stalled[1].send([1]);
    assert!(stalled[1].now().is_some());
    tokio::time::sleep(limits::STALLED_LEAST).await;
    let _second = late().unwrap();
    let _third = late().unwrap();
    for request in &mut stalled[1..3] {
        let status = request.refused().await;
        assert_eq!(RequestError::of_reading(&status).unwrap().reason(), "MEMORY_LIMIT");
        assert!(request.next().await.is_none());
    }
    assert!(stalled[3].now().is_none());
    // A whole message is not waited for, nor is what comes after it, for a moment.
    stalled[3].send(vec![1; 1000]);
    assert_eq!(stalled[3].now().unwrap().len(), 1000);
    assert!(stalled[3].now().is_none());
    let _fourth = late().unwrap();
    assert!(stalled[3].now().is_none());
    assert!(stalled[4].refused().await.message().contains("slowly"));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_stalls_makes_room_for_one_that_waits() {
    let (memory, port) = clients(64 * MIB);
    let stalls = async |bytes| {
        let mut request = request(&port.connect().unwrap(), STREAM);
        request.send(prefix(bytes));
        assert!(request.now().is_some() && request.now().is_none());
        tokio::time::sleep(Duration::from_millis(1)).await;
        request
    };
    // 8 MiB are for all connections.
    let mut small = stalls(1000).await;
    let mut first = stalls(2 << 20).await;
    let mut second = stalls(2 << 20).await;
    let mut waits = request(&port.connect().unwrap(), STREAM);
    waits.send([prefix(LARGE), vec![1; LARGE]].concat());
    let start = Instant::now();
    let (refused, got) = tokio::join!(first.refused(), waits.next());
    assert!(refused.message().contains("slowly") && got.unwrap().is_ok());
    assert!(start.elapsed() < limits::MESSAGE_WAIT);
    assert!(second.now().is_none() && small.now().is_none());
    assert_eq!(memory.used(Consumer::Messages), 6 * MIB);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_arrive_is_refused() {
    let (_, port) = clients(256 * MIB);
    let connection = port.connect().unwrap();
    let refused = async |request: &mut Request, seconds: u64| {
        let start = Instant::now();
        let status = request.refused().await;
        assert_eq!(start.elapsed().as_secs(), seconds);
        assert_eq!(RequestError::of_reading(&status).unwrap().reason(), "DEADLINE_EXCEEDED");
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert!(request.next().await.is_none());
    };
    let bound = limits::MESSAGE_TIMEOUT;
    let later = Duration::from_secs(10);
    // Nothing; half of a prefix; a part of a message, and a byte now and then.
    refused(&mut request(&connection, STREAM), bound.as_secs()).await;
    let mut half = request(&connection, STREAM);
    half.send([0, 0]);
    assert!(half.now().is_some());
    tokio::time::sleep(later).await;
    refused(&mut half, (bound - later).as_secs()).await;
    let mut most = request(&connection, STREAM);
    most.send(prefix(100_000));
    assert!(most.now().is_some());
    for _ in 0..2 {
        tokio::time::sleep(later).await;
        most.send([1]);
        assert!(most.now().is_some());
    }
    refused(&mut most, (bound - 2 * later).as_secs()).await;

    // A stream may be silent between its messages, but not a request of one message after it.
    for (method, waits) in [(STREAM, true), (UNARY, false)] {
        let mut request = request(&connection, method);
        request.send([prefix(3), vec![1; 3]].concat());
        assert_eq!(request.now().unwrap().len(), 8);
        if waits {
            assert!(tokio::time::timeout(10 * bound, request.next()).await.is_err());
            request.send(prefix(3));
            assert_eq!(request.now().unwrap().len(), PREFIX);
        }
        refused(&mut request, bound.as_secs()).await;
    }
}

/// Whatever else a body has, such as trailers, goes through.
#[tokio::test]
async fn trailers_go_through() {
    struct Trailers(bool);
    impl Body for Trailers {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let first = !std::mem::replace(&mut self.0, true);
            Poll::Ready(first.then(|| Ok(Frame::trailers(HeaderMap::new()))))
        }
    }
    let (_, port) = clients(256 * MIB);
    let (mut body, _) = port.connect().unwrap().receive(Trailers(false), UNARY).unwrap();
    let mut next = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context));
    let Poll::Ready(Some(Ok(frame))) = poll!(&mut next) else { panic!("no frame") };
    assert!(frame.is_trailers());
    assert!(next.await.is_none());
}
