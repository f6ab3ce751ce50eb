//! Spans of OpenTelemetry, sent to a collector by OTLP over gRPC.
//!
//! The crate's own thread sends them in batches. What does not fit its queue is dropped, and so is what the collector
//! does not take: a request never waits for either. The crate reads its variables of the environment (`OTEL_*`).

use std::{
    env,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use basalt_core::exec::OperatorUse;
use opentelemetry::{
    Context, Key, KeyValue,
    trace::{
        Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags,
        TraceId, TraceState, Tracer as _, TracerProvider as _,
    },
};
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{
        BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, Span as SdkSpan, SpanData, SpanExporter,
    },
};

use super::parent::Parent;
use crate::{
    Config, Error,
    cpu::clock,
    environment::{Environment, run},
    limits,
};

/// Variables that name a collector where the configuration does not.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const SERVICE_NAME: &str = "service.name";

/// Records spans, if a collector is configured.
#[derive(Debug)]
pub(super) struct Spans(Option<Recorder>);

#[derive(Debug)]
struct Recorder {
    provider: SdkTracerProvider,
    way: Arc<Way>,
}

/// How spans are made.
#[derive(Debug)]
struct Way {
    tracer: SdkTracer,
    environment: Arc<dyn Environment>,
}

impl Spans {
    /// In the runtime that takes spans to the collector.
    pub(super) fn open(
        config: &Config,
        node: Option<&str>,
        environment: &Arc<dyn Environment>,
    ) -> Result<Self, Error> {
        let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        if config.otlp.is_none() && !ENDPOINTS.iter().any(|name| is_set(name)) {
            return Ok(Self(None));
        }
        let mut exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic();
        if let Some(url) = &config.otlp {
            exporter = exporter.with_endpoint(url);
        }
        let exporter = exporter.build().map_err(|error| Error::Config(format!("otlp: {error}")))?;
        let processor = BatchSpanProcessor::builder(Watched { exporter, fails: AtomicBool::new(false) });
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(config.trace_ratio))))
            .with_resource(resource(node))
            .with_span_processor(processor.build())
            .build();
        let tracer = provider.tracer("basalt");
        let way = Arc::new(Way { tracer, environment: Arc::clone(environment) });
        Ok(Self(Some(Recorder { provider, way })))
    }

    /// The span of a request.
    pub(super) fn request(&self, method: &'static str, parent: Option<&Parent>) -> Span {
        let Some(Recorder { way, .. }) = &self.0 else { return Span::none() };
        let context = parent.map(of_parent);
        Span(Some(Recorded::new(way, method, SpanKind::Server, context)))
    }

    /// Waits a moment for what is not sent yet, and records nothing from then on.
    pub(super) async fn close(&self, environment: &dyn Environment) {
        let Some(Recorder { provider, .. }) = &self.0 else { return };
        let provider = provider.clone();
        let closed = run(environment, move || provider.shutdown_with_timeout(limits::SPANS_TIMEOUT)).await;
        if let Ok(Err(error)) = closed {
            tracing::warn!(%error, "the last spans are not sent");
        }
    }
}

/// What the server is to the collector; `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win.
fn resource(node: Option<&str>) -> Resource {
    let said = Resource::builder().build();
    let has = |key: &'static str| {
        let value = said.get(&Key::from_static_str(key));
        value.is_some_and(|value| !value.as_str().starts_with("unknown_service"))
    };
    let ours = [
        (SERVICE_NAME, Some("basalt")),
        ("service.version", Some(crate::VERSION)),
        ("service.instance.id", node),
    ];
    let ours = ours.into_iter().filter(|(key, _)| !has(key));
    let ours = ours.filter_map(|(key, value)| Some(KeyValue::new(key, value?.to_owned())));
    Resource::builder().with_attributes(ours).build()
}

/// Says once that the collector is gone, and once that it is back.
#[derive(Debug)]
struct Watched {
    exporter: opentelemetry_otlp::SpanExporter,
    fails: AtomicBool,
}

impl SpanExporter for Watched {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let exported = self.exporter.export(batch).await;
        match (&exported, self.fails.swap(exported.is_err(), Ordering::Relaxed)) {
            (Err(error), false) => {
                tracing::warn!(%error, "spans are dropped: the collector does not take them")
            }
            (Ok(()), true) => tracing::info!("the collector takes spans again"),
            _ => {}
        }
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

fn of_parent(parent: &Parent) -> SpanContext {
    // Default: what breaks the rules of lists goes no further.
    let state = parent.state.as_deref().and_then(|state| state.parse().ok()).unwrap_or(TraceState::NONE);
    let (trace, span) = (parent.trace.to_be_bytes(), parent.span.to_be_bytes());
    let flags = TraceFlags::new(parent.flags);
    SpanContext::new(TraceId::from_bytes(trace), SpanId::from_bytes(span), flags, true, state)
}

/// A span under way; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Span(Option<Recorded>);

#[derive(Debug)]
struct Recorded {
    way: Arc<Way>,
    context: SpanContext,
    /// `None`: it is not sampled, or has ended.
    span: Mutex<Option<SdkSpan>>,
    is_sampled: bool,
}

impl Recorded {
    fn new(way: &Arc<Way>, name: &'static str, kind: SpanKind, parent: Option<SpanContext>) -> Self {
        let builder = SpanBuilder::from_name(name).with_kind(kind).with_start_time(way.environment.wall());
        let span = way.build(builder, parent);
        let (context, is_sampled) = (span.span_context().clone(), span.is_recording());
        Self { way: Arc::clone(way), context, span: Mutex::new(is_sampled.then_some(span)), is_sampled }
    }

    fn span(&self) -> MutexGuard<'_, Option<SdkSpan>> {
        self.span.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Way {
    fn build(&self, builder: SpanBuilder, parent: Option<SpanContext>) -> SdkSpan {
        let context = Context::new();
        let context = parent.map_or(context.clone(), |parent| context.with_remote_span_context(parent));
        self.tracer.build_with_context(builder, &context)
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let end = self.way.environment.wall();
        if let Some(mut span) = self.span().take() {
            span.end_with_timestamp(end);
        }
    }
}

impl Span {
    pub(super) fn none() -> Self {
        Self(None)
    }

    fn sampled(&self) -> Option<&Recorded> {
        self.0.as_ref().filter(|recorded| recorded.is_sampled)
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.sampled().is_some()
    }

    /// What it is to those below it, here or at another node.
    pub(super) fn parent(&self) -> Option<Parent> {
        let context = &self.0.as_ref().filter(|recorded| recorded.context.is_valid())?.context;
        let state = context.trace_state().header();
        Some(Parent {
            trace: u128::from_be_bytes(context.trace_id().to_bytes()),
            span: u64::from_be_bytes(context.span_id().to_bytes()),
            flags: context.trace_flags().to_u8(),
            state: (!state.is_empty()).then(|| state.into()),
        })
    }

    /// A span below this one, `is_hop` where another node is asked.
    pub(super) fn child(&self, name: &'static str, is_hop: bool) -> Self {
        let kind = if is_hop { SpanKind::Client } else { SpanKind::Internal };
        let child = |of: &Recorded| Recorded::new(&of.way, name, kind, Some(of.context.clone()));
        Self(self.sampled().map(child))
    }

    /// A step below this one that is over.
    pub(super) fn past(&self, table: &str, OperatorUse { name, usage, .. }: &OperatorUse) {
        let Some(Recorded { way, context, .. }) = self.sampled() else { return };
        let (now, clock) = (way.environment.wall(), clock());
        let at = |ns: u64| -> SystemTime {
            now.checked_sub(Duration::from_nanos(clock.saturating_sub(ns))).unwrap_or(now)
        };
        let builder = SpanBuilder::from_name(*name).with_start_time(at(usage.started_ns)).with_attributes([
            KeyValue::new("basalt.table", table.to_owned()),
            KeyValue::new("basalt.rows_in", signed(usage.rows_in)),
            KeyValue::new("basalt.rows_out", signed(usage.rows_out)),
            KeyValue::new("basalt.busy_us", signed(usage.busy_ns / 1000)),
        ]);
        let mut span = way.build(builder, Some(context.clone()));
        span.end_with_timestamp(at(usage.started_ns.saturating_add(usage.elapsed_ns)));
    }

    /// A number that it tells.
    pub(crate) fn count(&self, key: &'static str, number: u64) {
        self.set(|| KeyValue::new(key, signed(number)));
    }

    /// A text that it tells, made where it is recorded.
    pub(crate) fn text(&self, key: &'static str, text: impl FnOnce() -> String) {
        self.set(|| KeyValue::new(key, text()));
    }

    fn set(&self, attribute: impl FnOnce() -> KeyValue) {
        if let Some(recorded) = self.sampled()
            && let Some(span) = &mut *recorded.span()
        {
            span.set_attribute(attribute());
        }
    }

    /// It failed for a reason.
    pub(crate) fn fail(&self, reason: &'static str) {
        if let Some(recorded) = self.sampled()
            && let Some(span) = &mut *recorded.span()
        {
            span.set_attribute(KeyValue::new("error.type", reason));
            span.set_status(Status::error(reason));
        }
    }

    /// It ends now.
    pub(crate) fn end(&self) {
        let Some(recorded) = self.sampled() else { return };
        let end = recorded.way.environment.wall();
        let span = recorded.span().take();
        if let Some(mut span) = span {
            span.end_with_timestamp(end);
        }
    }
}

/// As attributes have numbers.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
