//! What follows a request through threads, other nodes and log lines: its id, and its W3C trace.
//!
//! Every door makes one of them for each request and [enters](Trace::enter) it while it works on that: the request's
//! task does ([`scope`]), and whatever runs a part of it elsewhere ([`carried`], [`crate::cpu`]). So whoever writes a log
//! line, makes an error for a client or asks another node finds it ([`current`]).
//!
//! Spans are recorded by builds with the feature `otlp` alone, where a collector is configured and the trace is sampled;
//! in all other cases they are nothing, and a parent that came with a request goes on to other nodes as it is.

mod id;
#[cfg(not(feature = "otlp"))]
mod none;
#[cfg(feature = "otlp")]
mod otlp;
mod parent;

use std::{
    cell::RefCell,
    fmt,
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use basalt_core::exec::OperatorUse;
use hyper::HeaderMap;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};

use crate::{Config, Error, environment::Environment};
use id::Id;
pub(crate) use id::REQUEST_ID;
#[cfg(not(feature = "otlp"))]
pub(crate) use none::Span;
#[cfg(not(feature = "otlp"))]
use none::Spans;
#[cfg(feature = "otlp")]
pub(crate) use otlp::Span;
#[cfg(feature = "otlp")]
use otlp::Spans;
use parent::Parent;

/// A request; see the module.
#[derive(Debug)]
pub(crate) struct Trace {
    id: Id,
    /// Of an id that was made here: a query has it.
    is_taken: AtomicBool,
    parent: Option<Parent>,
    span: Span,
}

/// Begins what follows requests.
#[derive(Debug)]
pub(crate) struct Traces {
    /// The first part of all ids, which those of another server, or of this one before, do not have.
    run: u64,
    next: Arc<AtomicU64>,
    spans: Spans,
}

/// What a request may be in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has a span, and begins a trace where it belongs to none.
    Root,
    /// It has a span where it belongs to a trace: another node's request does.
    Child,
    /// It has none, as probes.
    Silent,
}

impl Traces {
    /// `run` is another number for each run of a server, and `next` that of the next request; `node` is the name in a
    /// cluster.
    pub(crate) fn new(
        (run, next): (u64, Arc<AtomicU64>),
        config: &Config,
        node: Option<&str>,
        environment: &Arc<dyn Environment>,
    ) -> Result<Self, Error> {
        Ok(Self { run, next, spans: Spans::open(config, node, environment)? })
    }

    /// A request that came with headers, by a method.
    pub(crate) fn arrived(&self, headers: &HeaderMap, method: &'static str, role: Role) -> Arc<Trace> {
        self.begin(Id::of_headers(headers), Parent::of_headers(headers), method, role)
    }

    /// A request without headers: a statement, whose comment may say what it belongs to.
    #[cfg(feature = "sql")]
    pub(crate) fn stated(&self, sql: &str, method: &'static str) -> Arc<Trace> {
        self.begin(None, Parent::of_statement(sql), method, Role::Root)
    }

    fn begin(&self, id: Option<Id>, parent: Option<Parent>, method: &'static str, role: Role) -> Arc<Trace> {
        let made = || Id::Made { run: self.run, number: self.next.fetch_add(1, Ordering::Relaxed) };
        let id = id.unwrap_or_else(made);
        let has_span = match role {
            Role::Root => true,
            Role::Child => parent.is_some(),
            Role::Silent => false,
        };
        let span = if has_span { self.spans.request(method, parent.as_ref()) } else { Span::none() };
        span.text("basalt.request_id", || id.to_string());
        Arc::new(Trace { id, is_taken: AtomicBool::new(false), parent, span })
    }

    /// Has what is recorded sent, for a moment; nothing is recorded from then on.
    pub(crate) async fn close(&self, environment: &dyn Environment) {
        self.spans.close(environment).await;
    }
}

impl Trace {
    /// The id of the request, as people see it.
    pub(crate) fn id(&self) -> impl fmt::Display + '_ {
        &self.id
    }

    /// The number of an id that was made here, for the one query that has it too.
    pub(crate) fn take_number(&self) -> Option<u64> {
        match self.id {
            Id::Made { number, .. } => (!self.is_taken.swap(true, Ordering::Relaxed)).then_some(number),
            Id::Given(_) => None,
        }
    }

    /// The W3C trace that it belongs to.
    pub(crate) fn trace_id(&self) -> Option<u128> {
        self.span.parent().or_else(|| self.parent.clone()).map(|parent| parent.trace)
    }

    /// Whether its spans are recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.span.is_recorded()
    }

    /// The request's own span.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Another node is asked from now on, until this is dropped.
    pub(crate) fn hop(&self, name: &'static str) -> Span {
        self.span.child(name, true)
    }

    /// The steps of a plan that has just been run, by the clock of [`crate::cpu::clock`].
    pub(crate) fn steps(&self, table: &str, operators: &[OperatorUse]) {
        operators.iter().for_each(|operator| self.span.past(table, operator));
    }

    /// Tells another node what is asked of it, and by which span.
    pub(crate) fn send(&self, metadata: &mut MetadataMap, by: &Span) {
        if let Ok(value) = AsciiMetadataValue::try_from(self.id.to_string()) {
            metadata.insert(REQUEST_ID, value);
        }
        if let Some(parent) = by.parent().or_else(|| self.span.parent()).as_ref().or(self.parent.as_ref()) {
            parent.send(metadata);
        }
    }

    /// This thread works on it until what is returned is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Entered {
        Entered::new(Some(Arc::clone(self)))
    }
}

thread_local! {
    /// What this thread works on.
    static CURRENT: RefCell<Option<Arc<Trace>>> = const { RefCell::new(None) };
}

/// What this thread works on.
pub(crate) fn current() -> Option<Arc<Trace>> {
    // An error says that the thread ends.
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// The same where its spans are recorded.
pub(crate) fn recorded() -> Option<Arc<Trace>> {
    current().filter(|trace| trace.is_recorded())
}

/// A step of what this thread works on, which begins now and ends when it is dropped.
pub(crate) fn step(name: &'static str) -> Span {
    current().map_or_else(Span::none, |trace| trace.span.child(name, false))
}

/// Tells another node of what this thread works on.
pub(crate) fn send<T>(request: &mut tonic::Request<T>) {
    if let Some(trace) = current() {
        trace.send(request.metadata_mut(), trace.span());
    }
}

/// What a thread works on, until this is dropped; it stays on the thread.
#[derive(Debug)]
pub(crate) struct Entered(Option<Arc<Trace>>, PhantomData<*const ()>);

impl Entered {
    pub(crate) fn new(trace: Option<Arc<Trace>>) -> Self {
        // Default: the thread ends.
        let before = CURRENT.try_with(|current| current.replace(trace)).ok().flatten();
        Self(before, PhantomData)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // An error says that the thread ends.
        let _ = CURRENT.try_with(|current| current.replace(self.0.take()));
    }
}

/// Work on a request, by whatever thread it is polled.
pub(crate) async fn scope<F: Future>(trace: Option<Arc<Trace>>, work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| {
        let _entered = Entered::new(trace.clone());
        work.as_mut().poll(context)
    })
    .await
}

/// A part of the work on this thread's request, for another task.
pub(crate) fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> {
    scope(current(), work)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traces() -> Traces {
        let next = Arc::new(AtomicU64::new(1));
        Traces::new((0xa1, next), &Config::default(), None, &crate::environment::process()).unwrap()
    }

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn ids_and_parents_come_in_and_go_on() {
        let traces = traces();
        let made = traces.arrived(&HeaderMap::new(), "Query", Role::Root);
        assert_eq!(made.id().to_string(), "a1-1");
        assert_eq!((made.take_number(), made.take_number()), (Some(1), None));
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let all = [("x-request-id", "mine"), ("traceparent", parent), ("tracestate", "a=b")];
        let given = traces.arrived(&headers(&all), "Query", Role::Root);
        assert_eq!((given.id().to_string().as_str(), given.take_number()), ("mine", None));
        assert_eq!(given.trace_id(), Some(0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c));
        let mut metadata = MetadataMap::new();
        given.send(&mut metadata, &given.hop("hop"));
        for (name, value) in all {
            assert_eq!(metadata.get(name).unwrap(), value);
        }
        let hostile = headers(&[("x-request-id", "a b"), ("traceparent", "00-0-0-0")]);
        let hostile = traces.arrived(&hostile, "Query", Role::Root);
        assert_eq!((hostile.id().to_string().as_str(), hostile.trace_id()), ("a1-2", None));
        let mut metadata = MetadataMap::new();
        hostile.send(&mut metadata, hostile.span());
        assert_eq!(metadata.len(), 1);
    }

    #[tokio::test]
    async fn what_a_thread_works_on_goes_with_the_work() {
        let traces = traces();
        let trace = |id: &str| traces.arrived(&headers(&[("x-request-id", id)]), "Query", Role::Root);
        let now = || current().map(|trace| trace.id().to_string());
        let (one, two) = (trace("one"), trace("two"));
        assert_eq!(now(), None);
        {
            let _one = one.enter();
            {
                let _two = two.enter();
                assert_eq!(now().unwrap(), "two");
            }
            assert_eq!(now().unwrap(), "one");
        }
        let (first, second) = tokio::join!(
            scope(Some(one), async {
                tokio::task::yield_now().await;
                let elsewhere = tokio::spawn(carried(async move { now() })).await.unwrap();
                (now(), elsewhere)
            }),
            scope(Some(two), async {
                tokio::task::yield_now().await;
                now()
            }),
        );
        assert_eq!(first, (Some("one".to_owned()), Some("one".to_owned())));
        assert_eq!((second, now()), (Some("two".to_owned()), None));
    }
}
