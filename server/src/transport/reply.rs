//! The answer to one request: what its reading came to, its error's details, and the memory of what it answers.

use std::{
    convert::Infallible,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use hyper::{Request, Response, body::Incoming};
use tokio::time::Instant;
use tonic::{Status, body::Body, codegen::BoxFuture};

use super::receive::{Answering, Connection, Method, Receipt, Received};
use crate::{
    access::{Caller, Method as Asked},
    call::{Arrival, tell_refused},
    metrics::Metrics,
    pace::Paced,
    panics,
    status::RequestError,
    trace::{self, Entered, Trace},
};

/// See the module.
pub(super) struct Reply {
    future: BoxFuture<Response<Body>, Infallible>,
    receipt: Option<Arc<Receipt>>,
    /// Its method tells itself what reading its messages came to.
    streams: bool,
    /// Of requests to our own services.
    ours: Option<Arrival>,
    /// The request, which is entered while this is polled.
    trace: Option<Arc<Trace>>,
}

impl Reply {
    /// An answer to a request that is not read.
    pub(super) fn new(future: BoxFuture<Response<Body>, Infallible>) -> Self {
        Self { future, receipt: None, streams: false, ours: None, trace: trace::current() }
    }

    /// The answer of a method to a request, if there is memory for it.
    pub(super) fn to(
        connection: &Arc<Connection>,
        request: Request<Incoming>,
        method: Method,
        ours: Option<Arrival>,
        serve: impl FnOnce(Request<Received<Paced<Incoming>>>) -> BoxFuture<Response<Body>, Infallible>,
    ) -> Self {
        let (head, body) = request.into_parts();
        let body = Paced::new(body, ours.as_ref().and_then(|arrival| arrival.caller.pace()));
        match connection.receive(body, method) {
            Ok((body, receipt)) => Self {
                future: serve(Request::from_parts(head, body)),
                receipt: Some(receipt),
                streams: method.streams,
                ours,
                trace: trace::current(),
            },
            Err(error) => {
                if let Some(arrival) = &ours {
                    unread(&error, arrival);
                }
                Self::new(answer(error.into()))
            }
        }
    }
}

/// The answer that is an error.
pub(super) fn answer(status: Status) -> BoxFuture<Response<Body>, Infallible> {
    Box::pin(std::future::ready(Ok(status.into_http())))
}

impl Future for Reply {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let _entered = Entered::new(self.trace.clone());
        // What a method does on its async thread, before it answers, may panic as what it has others do.
        let future = &mut self.future;
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        let Ok(mut response) =
            ready!(polled.unwrap_or_else(|panic| {
                Poll::Ready(Ok(Status::from(panics::error(&*panic)).into_http()))
            }));
        let Some(receipt) = self.receipt.take() else { return Poll::Ready(Ok(response)) };
        if let Some(arrival) = &self.ours {
            match receipt.refused() {
                Some(error) if !self.streams => unread(error, arrival),
                _ => response = with_details(response, arrival),
            }
        }
        if let Some(pace) = self.ours.as_ref().and_then(|arrival| arrival.caller.pace()) {
            response = response.map(|body| Body::new(Paced::new(body, Some(pace))));
        }
        // What the message asks for may be held until the answer has ended.
        let message = if self.streams { Vec::new() } else { receipt.take() };
        if !message.is_empty() {
            let trace = self.trace.take();
            response = response.map(|inner| Body::new(Answering { inner, _message: message, trace }));
        }
        Poll::Ready(Ok(response))
    }
}

/// The answer to a request whose sender may not ask it.
pub(super) fn refused(
    error: RequestError,
    asked: &'static Asked,
    caller: &Caller,
    at: Instant,
    metrics: &Metrics,
) -> Reply {
    metrics.request(asked.label, error.code(), at.elapsed(), 0);
    metrics.error(error.reason());
    if let Some(trace) = trace::current() {
        trace.span().fail(error.reason());
    }
    tell_refused(Some(asked.label), &error, &caller.principal);
    Reply::new(answer(error.into()))
}

/// Gives the errors that tonic makes itself, while it reads the request, their reason and details.
fn with_details(response: Response<Body>, arrival: &Arrival) -> Response<Body> {
    let headers = response.headers();
    if !headers.contains_key(Status::GRPC_STATUS) || headers.contains_key(Status::GRPC_STATUS_DETAILS) {
        return response;
    }
    let Some(error) = Status::from_header_map(headers).as_ref().and_then(RequestError::of_reading) else {
        return response;
    };
    unread(&error, arrival);
    Status::from(error).into_http()
}

/// Tells of a request that was not read to its end.
fn unread(error: &RequestError, Arrival { caller, at, metrics, trace, .. }: &Arrival) {
    metrics.request("unread", error.code(), at.elapsed(), 0);
    metrics.error(error.reason());
    trace.span().fail(error.reason());
    tell_refused(None, error, &caller.principal);
}
