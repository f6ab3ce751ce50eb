//! Callers of the nodes' port without certificates: none chooses whom a node connects to.

use std::{
    collections::VecDeque,
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use basalt_proto::{
    cluster::v1::{
        ExecuteRequest, GetStatusRequest, Task, execute_request, peer_service_client::PeerServiceClient, task,
    },
    v1::{And, Filter, QueryRequest, filter},
};
use basalt_server::limits;
use hyper::{
    HeaderMap, Request, Response,
    body::{Body, Bytes, Frame, Incoming},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use tokio::{
    net::TcpListener,
    time::{sleep, timeout},
};
use tonic::{Code, transport::Channel};

use super::nodes::Nodes;
use crate::support::check as told_as;

type Status = basalt_proto::cluster::v1::GetStatusResponse;
/// What is answered at an address.
type Answer = Box<dyn Fn(SocketAddr) -> Status + Send>;

/// Somewhere that counts who comes.
struct Place {
    address: SocketAddr,
    came: Arc<AtomicUsize>,
}

impl Place {
    /// At an address of this machine, where whatever is asked is answered by `status`.
    async fn at(host: &str, status: Answer) -> Self {
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let (address, came) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&came);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let status = status(address);
                tokio::spawn(async move {
                    let answer = service_fn(move |_: Request<Incoming>| {
                        let status = status.clone();
                        async move { Ok::<_, Infallible>(answered(&status)) }
                    });
                    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        Self { address, came }
    }

    fn came(&self) -> usize {
        self.came.load(Ordering::Relaxed)
    }
}

/// A message of gRPC, and its trailers.
fn answered(status: &Status) -> Response<Frames> {
    let message = status.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let bytes = [&[0][..], &length, &message].concat();
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
    let body = Frames(VecDeque::from([Frame::data(Bytes::from(bytes)), Frame::trailers(trailers)]));
    Response::builder().header("content-type", "application/grpc").body(body).unwrap()
}

struct Frames(VecDeque<Frame<Bytes>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

async fn peer(nodes: &Nodes) -> PeerServiceClient<Channel> {
    let channel = Channel::from_shared(format!("http://{}", nodes.name(0))).unwrap();
    PeerServiceClient::new(channel.connect().await.unwrap())
}

fn named(node: &str) -> GetStatusRequest {
    GetStatusRequest { protocol: 3, node: node.to_owned(), ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_has_a_node_connect_to_itself_at_most() {
    let nothing = || -> Answer { Box::new(|_| Status::default()) };
    // Another host of the network, as far as addresses go.
    let (host, told) = (Place::at("127.0.0.2", nothing()).await, Place::at("127.0.0.3", nothing()).await);
    let nodes = Nodes::start(1).await;
    let mut peer = peer(&nodes).await;
    for name in [host.address.to_string(), "no-such-name.invalid:80".to_owned()] {
        told_as(peer.get_status(named(&name)).await, Code::PermissionDenied, "PERMISSION_DENIED", "");
    }
    // At its own address it is asked, and is not believed about others.
    let knows = told.address.to_string();
    let caller = Place::at(
        "127.0.0.1",
        Box::new(move |own| Status {
            protocol: 3,
            node: own.to_string(),
            instance: 77,
            ready: true,
            known: vec![knows.clone()],
            ..Status::default()
        }),
    )
    .await;
    peer.get_status(named(&caller.address.to_string())).await.unwrap();
    let known = async {
        while !nodes
            .client(0)
            .cluster()
            .await
            .unwrap()
            .nodes
            .iter()
            .any(|node| node.name == caller.address.to_string())
        {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(20), known).await.expect("the caller is no member");
    assert!(caller.came() > 0);
    sleep(Duration::from_secs(3)).await;
    assert_eq!((host.came(), told.came()), (0, 0));
    // What the node answers is as new as what was acknowledged: it looks into the store.
    assert!(nodes.client(0).list_tables().await.unwrap().is_empty());
}

/// Nodes are not believed about what their messages come to, either.
#[tokio::test(flavor = "multi_thread")]
async fn messages_of_nodes_are_refused_by_what_they_are_decoded_to() {
    let nodes = Nodes::start(1).await;
    let mut peer = peer(&nodes).await;
    let filters =
        vec![Filter::default(); usize::try_from(limits::PEER_DECODED_BYTES).unwrap() / size_of::<Filter>()];
    let and = Some(Filter { kind: Some(filter::Kind::And(And { filters })) });
    let query = task::Request::Query(QueryRequest { filter: and, ..Default::default() });
    let task = execute_request::Kind::Task(Task { protocol: 3, request: Some(query), ..Default::default() });
    let messages = tokio_stream::iter([ExecuteRequest { kind: Some(task) }]);
    told_as(peer.execute(messages).await.map(drop), Code::ResourceExhausted, "MESSAGE_TOO_LARGE", "");
}
