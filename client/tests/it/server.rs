//! A server whose answers the test writes.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use basalt_client::{
    Client, ClientOptions, RetryPolicy,
    proto::{
        self as pb,
        catalog_service_server::{CatalogService, CatalogServiceServer},
        ingest_service_server::{IngestService, IngestServiceServer},
        query_service_server::{QueryService, QueryServiceServer},
    },
};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_stream::{
    Stream, StreamExt as _,
    wrappers::{ReceiverStream, TcpListenerStream},
};
use tonic::{Request, Response, Status, Streaming, metadata::MetadataMap, transport::Server};
use tonic_types::{ErrorDetails, StatusExt as _};

/// Plays the server's side of one write.
pub(crate) type PlayWrite =
    dyn Fn(usize, Streaming<pb::WriteRequest>, mpsc::Sender<Result<pb::WriteResponse, Status>>) + Send + Sync;

/// What the server does.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) limits: pb::Limits,
    /// One list of messages a call; the last again and again.
    pub(crate) queries: Vec<Vec<Result<pb::QueryResponse, Status>>>,
    /// The answer to every selection.
    pub(crate) select: pb::SelectResponse,
    /// Is given the number of the call.
    pub(crate) write: Arc<PlayWrite>,
    /// Calls so far, by their names.
    pub(crate) calls: Arc<Mutex<Vec<&'static str>>>,
    /// What came with the queries.
    pub(crate) headers: Arc<Mutex<Vec<MetadataMap>>>,
    /// The key that queries must have.
    pub(crate) key: Option<&'static str>,
    /// How a query goes on behind its messages.
    pub(crate) then: Then,
    /// How often it says that it starts, to whoever asks what it is.
    pub(crate) starting: usize,
}

/// How a query goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Then {
    /// It ends behind its messages.
    End,
    /// Nothing comes any more behind its messages.
    Stall,
    /// Nothing comes at all.
    Silence,
}

/// Notes that a query's answer was dropped.
struct Dropped(Script);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.called("dropped");
    }
}

impl Default for Script {
    fn default() -> Self {
        let limits = pb::Limits { message_bytes: 4 << 20, batch_rows: 1 << 20, ..Default::default() };
        let (queries, select) = (Vec::new(), pb::SelectResponse::default());
        Self {
            limits,
            queries,
            select,
            write: Arc::new(|_, _, _| ()),
            calls: Arc::default(),
            headers: Arc::default(),
            key: None,
            then: Then::End,
            starting: 0,
        }
    }
}

impl Script {
    /// Starts the server, and a client that tries three times without waiting long.
    pub(crate) async fn start(self) -> Client {
        Client::connect_with(&self.serve().await, options()).await.unwrap()
    }

    /// Starts the server, and gives its address.
    pub(crate) async fn serve(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = Server::builder()
            .add_service(CatalogServiceServer::new(self.clone()))
            .add_service(QueryServiceServer::new(self.clone()))
            .add_service(IngestServiceServer::new(self));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        address
    }

    /// How often a method was called.
    pub(crate) fn calls_of(&self, name: &str) -> usize {
        self.calls.lock().unwrap().iter().filter(|call| **call == name).count()
    }

    /// Notes a call; gives how many of its name came before.
    fn called(&self, name: &'static str) -> usize {
        let mut calls = self.calls.lock().unwrap();
        calls.push(name);
        calls.iter().filter(|c| **c == name).count() - 1
    }
}

/// Three tries, without waiting long.
pub(crate) fn options() -> ClientOptions {
    ClientOptions::new().retry(RetryPolicy::new().tries(3).first_delay(Duration::from_millis(1)))
}

/// An error as the server gives it.
pub(crate) fn status(code: tonic::Code, reason: &str) -> Status {
    Status::with_error_details(
        code,
        reason.to_lowercase(),
        ErrorDetails::with_error_info(reason, "basalt", []),
    )
}

#[tonic::async_trait]
impl CatalogService for Script {
    async fn create_table(
        &self,
        _: Request<pb::CreateTableRequest>,
    ) -> Result<Response<pb::CreateTableResponse>, Status> {
        self.called("create_table");
        Err(status(tonic::Code::Unavailable, "SHUTTING_DOWN"))
    }

    async fn attach_table(
        &self,
        _: Request<pb::AttachTableRequest>,
    ) -> Result<Response<pb::AttachTableResponse>, Status> {
        Err(status(tonic::Code::InvalidArgument, "INVALID_STORE"))
    }

    async fn drop_table(
        &self,
        _: Request<pb::DropTableRequest>,
    ) -> Result<Response<pb::DropTableResponse>, Status> {
        Err(status(tonic::Code::NotFound, "TABLE_NOT_FOUND"))
    }

    async fn set_retention(
        &self,
        _: Request<pb::SetRetentionRequest>,
    ) -> Result<Response<pb::SetRetentionResponse>, Status> {
        Err(status(tonic::Code::NotFound, "TABLE_NOT_FOUND"))
    }

    async fn set_deletes(
        &self,
        _: Request<pb::SetDeletesRequest>,
    ) -> Result<Response<pb::SetDeletesResponse>, Status> {
        Err(status(tonic::Code::NotFound, "TABLE_NOT_FOUND"))
    }

    /// Three pages of two files each, of which the second has a damaged one.
    async fn verify_table(
        &self,
        request: Request<pb::VerifyTableRequest>,
    ) -> Result<Response<pb::VerifyTableResponse>, Status> {
        let page: u32 = request.into_inner().page_token.parse().unwrap_or(0);
        let damage = pb::Damage { file: "f".into(), column: String::new(), message: "gone".into() };
        let damage = if page == 1 { vec![damage] } else { Vec::new() };
        let next_page_token = if page < 2 { (page + 1).to_string() } else { String::new() };
        Ok(Response::new(pb::VerifyTableResponse { files: 2, bytes: 10, damage, next_page_token }))
    }

    /// Five pages of one table each; the last also names one that cannot be read.
    async fn list_tables(
        &self,
        request: Request<pb::ListTablesRequest>,
    ) -> Result<Response<pb::ListTablesResponse>, Status> {
        let page: u32 = request.into_inner().page_token.parse().unwrap_or(0);
        let schema = Some(pb::Schema::default());
        let table = pb::Table { name: format!("t{page}"), schema, ..Default::default() };
        let next_page_token = if page < 4 { (page + 1).to_string() } else { String::new() };
        let damaged = pb::DamagedTable { name: "u".into(), message: "gone".into() };
        let damaged = if page < 4 { Vec::new() } else { vec![damaged] };
        Ok(Response::new(pb::ListTablesResponse { tables: vec![table], next_page_token, damaged }))
    }

    async fn get_table(
        &self,
        _: Request<pb::GetTableRequest>,
    ) -> Result<Response<pb::GetTableResponse>, Status> {
        Ok(Response::new(pb::GetTableResponse::default()))
    }

    async fn get_server_info(
        &self,
        _: Request<pb::GetServerInfoRequest>,
    ) -> Result<Response<pb::GetServerInfoResponse>, Status> {
        if self.called("get_server_info") < self.starting {
            return Err(status(tonic::Code::Unavailable, "STARTING"));
        }
        let limits = Some(self.limits);
        Ok(Response::new(pb::GetServerInfoResponse { limits, ..Default::default() }))
    }
}

#[tonic::async_trait]
impl QueryService for Script {
    type QueryStream = Pin<Box<dyn Stream<Item = Result<pb::QueryResponse, Status>> + Send>>;

    async fn query(&self, request: Request<pb::QueryRequest>) -> Result<Response<Self::QueryStream>, Status> {
        let call = self.called("query").min(self.queries.len() - 1);
        let key = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        if self.key.is_some_and(|wanted| key != Some(&format!("Bearer {wanted}"))) {
            return Err(status(tonic::Code::Unauthenticated, "UNAUTHENTICATED"));
        }
        self.headers.lock().unwrap().push(request.metadata().clone());
        let messages = tokio_stream::iter(self.queries[call].clone());
        match self.then {
            Then::End => Ok(Response::new(Box::pin(messages))),
            Then::Silence => std::future::pending().await,
            Then::Stall => {
                let guard = Dropped(self.clone());
                let rest = tokio_stream::pending().map(move |message| (&guard, message).1);
                Ok(Response::new(Box::pin(messages.chain(rest))))
            }
        }
    }

    async fn select(&self, _: Request<pb::SelectRequest>) -> Result<Response<pb::SelectResponse>, Status> {
        Ok(Response::new(self.select.clone()))
    }

    /// Does not answer in time.
    async fn explain(&self, _: Request<pb::ExplainRequest>) -> Result<Response<pb::ExplainResponse>, Status> {
        std::future::pending().await
    }

    async fn list_queries(
        &self,
        _: Request<pb::ListQueriesRequest>,
    ) -> Result<Response<pb::ListQueriesResponse>, Status> {
        Ok(Response::new(pb::ListQueriesResponse::default()))
    }

    async fn cancel_query(
        &self,
        _: Request<pb::CancelQueryRequest>,
    ) -> Result<Response<pb::CancelQueryResponse>, Status> {
        Ok(Response::new(pb::CancelQueryResponse {}))
    }
}

#[tonic::async_trait]
impl IngestService for Script {
    type WriteStream = ReceiverStream<Result<pb::WriteResponse, Status>>;

    async fn write(
        &self,
        requests: Request<Streaming<pb::WriteRequest>>,
    ) -> Result<Response<Self::WriteStream>, Status> {
        let (responses, receiver) = mpsc::channel(16);
        (self.write)(self.called("write"), requests.into_inner(), responses);
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn delete(&self, _: Request<pb::DeleteRequest>) -> Result<Response<pb::DeleteResponse>, Status> {
        Ok(Response::new(pb::DeleteResponse { version: 7, rows: 3 }))
    }
}
