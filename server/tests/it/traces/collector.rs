//! A collector of OpenTelemetry that keeps what it is sent: the messages of OTLP as far as the tests look at them.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use hyper::{Request, body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tonic::{Response, Status};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, prost::Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Taken {}

#[derive(Clone, PartialEq, prost::Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

/// A span as it travels.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) parent: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(super) name: String,
    #[prost(int32, tag = "6")]
    pub(super) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(super) start: u64,
    #[prost(fixed64, tag = "8")]
    pub(super) end: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<Attribute>,
    #[prost(message, optional, tag = "15")]
    pub(super) status: Option<SpanStatus>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SpanStatus {
    #[prost(int32, tag = "3")]
    pub(super) code: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Value {
    #[prost(oneof = "Kind", tags = "1, 3")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

/// The value of a key, as text.
fn value(attributes: &[Attribute], key: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == key)?;
    Some(match attribute.value.as_ref()?.kind.as_ref()? {
        Kind::Text(text) => text.clone(),
        Kind::Number(number) => number.to_string(),
    })
}

impl Span {
    pub(super) fn attribute(&self, key: &str) -> Option<String> {
        value(&self.attributes, key)
    }
}

/// What was sent: a span, and the service that it is of.
type All = Arc<Mutex<Vec<(String, Span)>>>;

pub(super) struct Collector {
    pub(super) url: String,
    all: All,
}

impl Collector {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (url, all) = (format!("http://{}", listener.local_addr().unwrap()), All::default());
        let kept = Arc::clone(&all);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                let take = service_fn(move |request| take(request, Arc::clone(&kept)));
                let served =
                    http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), take);
                tokio::spawn(served);
            }
        });
        Self { url, all }
    }

    /// What was sent until now.
    pub(super) fn spans(&self) -> Vec<Span> {
        self.all.lock().unwrap().iter().map(|(_, span)| span.clone()).collect()
    }

    /// The services that have sent something.
    pub(super) fn services(&self) -> Vec<String> {
        let mut all: Vec<_> = self.all.lock().unwrap().iter().map(|(service, _)| service.clone()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

async fn take(
    request: Request<Incoming>,
    kept: All,
) -> Result<hyper::Response<tonic::body::Body>, Infallible> {
    assert_eq!(request.uri().path(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
    let keep = tower::service_fn(move |request: tonic::Request<Export>| {
        let kept = Arc::clone(&kept);
        async move {
            for of in request.into_inner().resource_spans {
                let attributes = of.resource.unwrap_or_default().attributes;
                let service = value(&attributes, "service.name").unwrap();
                let spans = of.scope_spans.into_iter().flat_map(|scope| scope.spans);
                kept.lock().unwrap().extend(spans.map(|span| (service.clone(), span)));
            }
            Ok::<_, Status>(Response::new(Taken {}))
        }
    });
    let mut grpc = tonic::server::Grpc::new(ProstCodec::<Taken, Export>::default());
    Ok(grpc.unary(keep, request).await)
}
