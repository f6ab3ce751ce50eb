//! A server on port 0, and short ways to talk to it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use basalt_client::Client;
use basalt_proto::v1::{
    self as pb, WriteRequest, catalog_service_client::CatalogServiceClient,
    ingest_service_client::IngestServiceClient, query_service_client::QueryServiceClient,
    sip_service_client::SipServiceClient, write_request, write_response,
};
use basalt_server::{Config, Error};
use hyper::{Request, Response, body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};
use tonic::{Code, Status, body::Body, transport::Channel};
use tonic_types::StatusExt as _;
use tower::Service;

/// A running server.
pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) address: String,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), Error>>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let attach_roots = vec!["/".to_owned()];
        let mut config = Config { threads: 2, store: "memory:".into(), attach_roots, ..Config::default() };
        change(&mut config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(basalt_server::run(listener, config, async move {
            // Dropped without a word, the server stops as well.
            let _ = stopped.await;
        }));
        let client = Client::connect(&address).await.unwrap();
        // Durable tables are loaded first.
        while let Err(error) = client.list_tables().await {
            assert_eq!(error.reason(), pb::ErrorReason::Starting, "{error}");
            assert!(!task.is_finished(), "the server does not start");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        Self { client, address, stop: Some(stop), task }
    }

    /// Tells it to stop.
    pub(crate) fn signal(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits for its end.
    pub(crate) async fn ended(self) {
        self.task.await.unwrap().unwrap();
    }

    pub(crate) async fn channel(&self) -> Channel {
        Channel::from_shared(self.address.clone()).unwrap().connect().await.unwrap()
    }

    /// A connection that leaves `grpc-timeout` to the server; tonic's own channel enforces it as well.
    pub(crate) async fn plain(&self) -> Plain {
        let stream = TcpStream::connect(self.address.trim_start_matches("http://")).await.unwrap();
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Plain { sender, authority: self.address.clone() }
    }

    pub(crate) fn catalog(&self) -> CatalogServiceClient<Channel> {
        CatalogServiceClient::new(self.client.channel())
    }

    pub(crate) fn queries(&self) -> QueryServiceClient<Channel> {
        QueryServiceClient::new(self.client.channel())
    }

    pub(crate) fn sips(&self) -> SipServiceClient<Channel> {
        SipServiceClient::new(self.client.channel())
    }

    pub(crate) async fn create(&self, name: &str, fields: Vec<pb::Field>) -> Result<pb::Table, Status> {
        let schema = Some(pb::Schema { fields });
        let request =
            pb::CreateTableRequest { name: name.into(), schema, if_not_exists: false, ..Default::default() };
        Ok(self.catalog().create_table(request).await?.into_inner().table.unwrap())
    }

    /// A table of one column `a` (int64, nullable) that holds `values`.
    pub(crate) async fn numbers(&self, name: &str, values: impl IntoIterator<Item = i64>) -> Committed {
        self.create(name, vec![field("a", pb::TypeKind::Int64)]).await.unwrap();
        let array: ArrayRef = Arc::new(values.into_iter().map(Some).collect::<Int64Array>());
        let batch = RecordBatch::try_from_iter_with_nullable([("a", array, true)]).unwrap();
        self.client.write_all(name, &[batch]).await.unwrap()
    }

    /// Sends these messages as one `Write` stream, and gathers the answers up to the end or the error.
    pub(crate) async fn write(
        &self,
        messages: Vec<write_request::Kind>,
    ) -> (Vec<write_response::Kind>, Result<(), Status>) {
        let messages = messages.into_iter().map(|kind| WriteRequest { kind: Some(kind) });
        let stream =
            IngestServiceClient::new(self.client.channel()).write(tokio_stream::iter(messages)).await;
        let (mut stream, mut answers) = (stream.unwrap().into_inner(), Vec::new());
        loop {
            match stream.message().await {
                Ok(Some(answer)) => answers.push(answer.kind.unwrap()),
                Ok(None) => return (answers, Ok(())),
                Err(status) => return (answers, Err(status)),
            }
        }
    }

    /// Rows of a table.
    pub(crate) async fn rows(&self, name: &str) -> u64 {
        let request = pb::GetTableRequest { name: name.into(), view: 0 };
        self.catalog().get_table(request).await.unwrap().into_inner().table.unwrap().rows
    }

    /// The messages of a query.
    pub(crate) async fn query(
        &self,
        request: pb::QueryRequest,
    ) -> Result<Vec<pb::query_response::Kind>, Status> {
        let mut stream = self.queries().query(request).await?.into_inner();
        let mut messages = Vec::new();
        while let Some(message) = stream.message().await? {
            messages.push(message.kind.unwrap());
        }
        Ok(messages)
    }
}

pub(crate) use basalt_client::Committed;

/// See [`Server::plain`].
#[derive(Clone)]
pub(crate) struct Plain {
    sender: http2::SendRequest<Body>,
    authority: String,
}

impl Service<Request<Body>> for Plain {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        *request.uri_mut() = format!("{}{}", self.authority, request.uri().path()).parse().unwrap();
        Box::pin(self.sender.send_request(request))
    }
}

pub(crate) fn field(name: &str, kind: pb::TypeKind) -> pb::Field {
    let data_type = pb::DataType { kind: kind.into(), precision: 0, scale: 0 };
    pb::Field { name: name.into(), r#type: Some(data_type), nullable: true, ..pb::Field::default() }
}

pub(crate) fn decimal(name: &str, precision: u32, scale: u32) -> pb::Field {
    let data_type = pb::DataType { kind: pb::TypeKind::Decimal.into(), precision, scale };
    pb::Field { r#type: Some(data_type), ..field(name, pb::TypeKind::Decimal) }
}

pub(crate) fn open(table: &str) -> write_request::Kind {
    open_as(table, "")
}

pub(crate) fn open_as(table: &str, request_id: &str) -> write_request::Kind {
    write_request::Kind::Open(pb::Open {
        table: table.into(),
        request_id: request_id.into(),
        ..Default::default()
    })
}

/// A batch of one int64 column.
pub(crate) fn batch(sequence: u64, values: &[i64]) -> write_request::Kind {
    let column = column(pb::column::Values::Int64s(pb::Int64s { values: values.to_vec() }));
    batch_of(sequence, u32::try_from(values.len()).unwrap(), vec![column])
}

pub(crate) fn batch_of(sequence: u64, rows: u32, columns: Vec<pb::Column>) -> write_request::Kind {
    let rows = Some(pb::batch::Rows::Columns(pb::RecordBatch { rows, columns }));
    write_request::Kind::Batch(pb::Batch { sequence, rows })
}

pub(crate) fn column(values: pb::column::Values) -> pb::Column {
    pb::Column { validity: vec![], values: Some(values) }
}

pub(crate) fn commit(batches: u64, rows: u64) -> write_request::Kind {
    write_request::Kind::Commit(pb::Commit { batches, rows })
}

/// What an error says to a program: its code, its reason, and the place in the request ("" without one).
pub(crate) fn told(status: &Status) -> (Code, String, String) {
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("an error without details: {status:?}"));
    assert_eq!(info.domain, "basalt");
    let place = details.bad_request().map(|b| b.field_violations[0].field.clone()).unwrap_or_default();
    (status.code(), info.reason.clone(), place)
}

#[track_caller]
pub(crate) fn check<T: std::fmt::Debug>(result: Result<T, Status>, code: Code, reason: &str, place: &str) {
    assert_eq!(told(&result.unwrap_err()), (code, reason.to_owned(), place.to_owned()));
}
