//! Requests on their way in: what may come is counted as memory before it is taken.
//!
//! Two things hold bytes of a request. HTTP/2 holds what was sent and not read yet, up to the window of its stream; so a
//! request counts as its window from when it has to be waited for until its body has ended. tonic's decoder holds a message until it is whole, and
//! allocates what was announced; so the body that it reads ([`Received`]) follows the lengths that gRPC puts before each
//! message, and hands nothing on of one that there is no memory for. Meanwhile it is not read, and its window closes.
//! What the message is once it is decoded can be many times as much, so its bytes are looked through as they come
//! ([`Decoded`]): the last of them are handed on when there is memory for that, too, and none behind what is too much.
//! The window of a connection is that of all its streams, so a message that waits holds up none that need not.
//!
//! A message is bounded in time, too, from its first byte to its last.

mod port;
mod stalled;

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::{Context, Poll, ready},
};

use basalt_proto::{shapes::Shape, v1::ErrorReason};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

pub(super) use self::port::{Connection, Port};
use self::{
    port::{Held, too_slow},
    stalled::Window,
};
use crate::{
    decoded::Decoded,
    limits,
    status::RequestError,
    trace::{Entered, Trace},
};

/// What is to be known of a method before its messages are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Method {
    /// Bytes of a message at most.
    pub(super) message_bytes: usize,
    /// The request is a stream of messages.
    pub(super) streams: bool,
    /// What a message is, and what it may take once it is decoded; `None`: it is little by its length.
    pub(super) decoded: Option<(&'static Shape, u64)>,
}

impl Connection {
    /// Takes in the body of a request, or refuses the request. A stream of messages counts from the start, since what
    /// comes after a message may have to wait; a single message that is whole already never does.
    pub(super) fn receive<B: Body>(
        self: &Arc<Self>,
        inner: B,
        method: Method,
    ) -> Result<(Received<B>, Arc<Receipt>), RequestError> {
        let window = if method.streams { Some(self.window()?) } else { None };
        let receipt = Arc::new(Receipt::default());
        let received = Received {
            inner,
            connection: Arc::clone(self),
            method,
            window,
            receipt: Arc::clone(&receipt),
            state: State::BETWEEN,
            decoded: None,
            unread: Bytes::new(),
            waiting: None,
            due: Some(Instant::now() + limits::MESSAGE_TIMEOUT),
            timer: None,
        };
        Ok((received, receipt))
    }
}

/// What has become of a request's body.
#[derive(Debug, Default)]
pub(super) struct Receipt {
    /// The memory of the message that was read last: of its bytes, and of what they are decoded to.
    message: Mutex<Vec<Held>>,
    refused: OnceLock<RequestError>,
}

impl Receipt {
    /// Why the body was not read to its end.
    pub(super) fn refused(&self) -> Option<&RequestError> {
        self.refused.get()
    }

    /// The memory of the message: it is dealt with until this is dropped.
    pub(super) fn take(&self) -> Vec<Held> {
        std::mem::take(&mut *self.message())
    }

    fn has_message(&self) -> bool {
        !self.message().is_empty()
    }

    fn put(&self, held: Held) {
        self.message().push(held);
    }

    fn message(&self) -> MutexGuard<'_, Vec<Held>> {
        self.message.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of a request, as tonic reads it.
pub(super) struct Received<B> {
    inner: B,
    connection: Arc<Connection>,
    method: Method,
    /// Until the body has ended.
    window: Option<Window>,
    receipt: Arc<Receipt>,
    state: State,
    /// What the message comes to that is being read.
    decoded: Option<Decoded>,
    /// Of the last frame, what is not handed on.
    unread: Bytes,
    /// For the memory of the message that begins.
    waiting: Option<Waiting>,
    /// When more must have come.
    due: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

type Waiting = Pin<Box<dyn Future<Output = Result<Held, RequestError>> + Send>>;

/// How far the body is handed on.
#[derive(Debug)]
enum State {
    /// So many bytes of what comes before a message: a flag, and its length.
    Prefix { bytes: [u8; PREFIX], n: usize },
    /// Within a message, of which so many bytes are left, behind so many of what comes before it.
    Message { prefix: usize, left: usize },
    /// So many bytes are its last.
    Last(usize),
    /// It ends here.
    Ended,
}

const PREFIX: usize = 5;

impl State {
    /// Before the first byte of a message.
    const BETWEEN: Self = Self::Prefix { bytes: [0; PREFIX], n: 0 };
}

impl<B> Received<B> {
    /// What can be handed on of a frame, up to the end of a message; nothing while memory is waited for.
    fn hand_on(&mut self) -> Result<Option<Bytes>, RequestError> {
        match &mut self.state {
            State::Prefix { bytes, n } => {
                let more = self.unread.len().min(PREFIX - *n);
                bytes[*n..*n + more].copy_from_slice(&self.unread[..more]);
                if *n == 0 {
                    self.due = Some(Instant::now() + limits::MESSAGE_TIMEOUT);
                }
                if *n + more < PREFIX {
                    *n += more;
                    return Ok(Some(self.unread.split_to(more)));
                }
                let ([compressed, length @ ..], before) = (*bytes, *n);
                self.begin(u32::from_be_bytes(length) as usize, compressed != 0, PREFIX - before)
            }
            State::Message { prefix, left } => {
                let n = self.unread.len().min(*prefix + *left);
                if let Some(decoded) = &mut self.decoded {
                    decoded.read(&self.unread[*prefix..n])?;
                }
                if n < *prefix + *left {
                    *left -= n - *prefix;
                    *prefix = 0;
                    return Ok(Some(self.unread.split_to(n)));
                }
                self.state = State::Last(n);
                self.count_decoded();
                Ok(None)
            }
            State::Last(n) => {
                let bytes = self.unread.split_to(*n);
                self.state = State::BETWEEN;
                self.goes_on();
                // Whoever sends one message ends the request after it.
                self.due = (!self.method.streams).then(|| Instant::now() + limits::MESSAGE_TIMEOUT);
                Ok(Some(bytes))
            }
            State::Ended => Ok(Some(std::mem::take(&mut self.unread))),
        }
    }

    /// A message of so many bytes begins; so many of what comes before it are not handed on yet.
    fn begin(
        &mut self,
        length: usize,
        is_compressed: bool,
        prefix: usize,
    ) -> Result<Option<Bytes>, RequestError> {
        if length > self.method.message_bytes {
            // The decoder says so, and what comes after it is not looked at.
            self.state = State::Ended;
            return Ok(Some(std::mem::take(&mut self.unread)));
        }
        self.state = State::Message { prefix, left: length };
        // One that is compressed the decoder does not take.
        let decoded = self.method.decoded.filter(|_| !is_compressed);
        self.decoded = decoded.map(|(shape, most)| Decoded::new(shape, length, most));
        if length > limits::FRAME_BYTES as usize {
            let bytes = limits::MESSAGE_COPIES * length as u64;
            match self.connection.try_message(bytes) {
                Some(held) => self.receipt.put(held),
                None => self.waiting = Some(self.wait_for(Arc::clone(&self.connection).message(bytes))),
            }
        }
        Ok(None)
    }

    /// Counts what a message is decoded to, where that is more than what is counted by its length.
    fn count_decoded(&mut self) {
        let Some(decoded) = self.decoded.take() else { return };
        let length = decoded.length() as u64;
        let by_length =
            if length > limits::FRAME_BYTES.into() { (limits::MESSAGE_COPIES - 1) * length } else { 0 };
        let more = decoded.bytes().saturating_sub(by_length.max(limits::UNCOUNTED_DECODED_BYTES));
        if more > 0 {
            match self.connection.try_decoded(more) {
                Some(held) => self.receipt.put(held),
                None => self.waiting = Some(self.wait_for(Arc::clone(&self.connection).decoded(more))),
            }
        }
    }

    /// Waits for memory; meanwhile the window fills.
    fn wait_for(
        &mut self,
        memory: impl Future<Output = Result<Held, RequestError>> + Send + 'static,
    ) -> Waiting {
        match self.count_window() {
            Ok(window) => {
                window.go_on();
                Box::pin(memory)
            }
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn count_window(&mut self) -> Result<&Window, RequestError> {
        match &mut self.window {
            Some(window) => Ok(window),
            none => Ok(none.insert(self.connection.window()?)),
        }
    }

    /// Whether the client may be waited for.
    fn may_wait(&mut self, context: &Context<'_>) -> Result<(), RequestError> {
        let has_message = self.receipt.has_message();
        if self.count_window()?.wait(context, has_message) { Ok(()) } else { Err(too_slow()) }
    }

    /// The client is not waited for now.
    fn goes_on(&self) {
        if let Some(window) = &self.window {
            window.go_on();
        }
    }

    fn refuse<T>(&mut self, error: RequestError) -> Poll<Option<Result<T, Status>>> {
        self.state = State::Ended;
        self.unread = Bytes::new();
        self.window = None;
        drop(self.receipt.take());
        let status = Status::from(error.clone());
        // It is the first: nothing is read after it.
        let _ = self.receipt.refused.set(error);
        Poll::Ready(Some(Err(status)))
    }

    /// Whether the time is over in which more must have come.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let Some(due) = self.due else { return false };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.deadline() != due {
            timer.as_mut().reset(due);
        }
        timer.as_mut().poll(context).is_ready()
    }
}

impl<B> Body for Received<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let me = &mut *self;
        if me.method.streams && matches!(me.state, State::Prefix { n: 0, .. }) {
            // Who asks for the next message is done with the last.
            drop(me.receipt.take());
        }
        if me.window.as_ref().is_some_and(Window::is_given_up) {
            return me.refuse(too_slow());
        }
        loop {
            if let Some(waiting) = &mut me.waiting {
                let held = ready!(waiting.as_mut().poll(context));
                me.waiting = None;
                match held {
                    Ok(held) => {
                        me.receipt.put(held);
                        me.due = Some(Instant::now() + limits::MESSAGE_TIMEOUT);
                    }
                    Err(error) => return me.refuse(error),
                }
            }
            if !me.unread.is_empty() {
                match me.hand_on() {
                    Ok(Some(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                    Ok(None) => continue,
                    Err(error) => return me.refuse(error),
                }
            }
            if matches!(me.state, State::Ended) {
                return Poll::Ready(None);
            }
            match Pin::new(&mut me.inner).poll_frame(context) {
                Poll::Pending if me.is_late(context) => {
                    let seconds = limits::MESSAGE_TIMEOUT.as_secs();
                    let message = format!("the request did not arrive within {seconds} seconds");
                    return me.refuse(RequestError::new(ErrorReason::DeadlineExceeded, message));
                }
                Poll::Pending => match me.may_wait(context) {
                    Ok(()) => return Poll::Pending,
                    Err(error) => return me.refuse(error),
                },
                Poll::Ready(Some(Ok(frame))) => {
                    if me.inner.is_end_stream() {
                        me.window = None;
                    }
                    match frame.into_data() {
                        Ok(data) => me.unread = data,
                        Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    me.window = None;
                    return Poll::Ready(Some(Err(Status::from_error(error.into()))));
                }
                Poll::Ready(None) => {
                    me.window = None;
                    return Poll::Ready(None);
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.unread.is_empty() && (matches!(self.state, State::Ended) || self.inner.is_end_stream())
    }
}

impl<B> Drop for Received<B> {
    fn drop(&mut self) {
        // Of a method with one message, the reply still holds it.
        if self.method.streams {
            drop(self.receipt.take());
        }
    }
}

/// The body of an answer, and the message that it answers.
pub(super) struct Answering<B> {
    pub(super) inner: B,
    pub(super) _message: Vec<Held>,
    /// The request, which is entered while this is polled.
    pub(super) trace: Option<Arc<Trace>>,
}

impl<B: Body + Unpin> Body for Answering<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let _entered = Entered::new(self.trace.clone());
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests;
