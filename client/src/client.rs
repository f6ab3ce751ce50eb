//! The connection, and what every call has in common.

use std::{future::Future, sync::Arc, time::Duration};

use basalt_proto::v1::{
    GetServerInfoRequest, GetServerInfoResponse, catalog_service_client::CatalogServiceClient,
    ingest_service_client::IngestServiceClient, query_service_client::QueryServiceClient,
    sip_service_client::SipServiceClient,
};
use tokio::{sync::OnceCell, time};
use tonic::{
    metadata::{Ascii, MetadataValue},
    transport::{Channel, Endpoint},
};

use crate::{
    credentials::Credentials,
    error::{Error, Result},
    retry::RetryPolicy,
};

/// Version, instruction set and limits of a server.
pub type ServerInfo = GetServerInfoResponse;

/// How a [`Client`] makes its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// How long a call may take; the server stops its work then. Writes are as long as their rows, so it
    /// only bounds their opening.
    pub deadline: Duration,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// The largest message to accept, in bytes.
    pub max_message_bytes: usize,
    /// When to try again.
    pub retry: RetryPolicy,
}

impl Default for ClientOptions {
    /// 60 seconds for a call, 5 for connecting, 64 MiB for a message, five tries.
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(5),
            max_message_bytes: 64 << 20,
            retry: RetryPolicy::default(),
        }
    }
}

/// A connection to a server; clones are cheap and share it.
///
/// ```no_run
/// # async fn example() -> basalt_client::Result<()> {
/// use basalt_client::{Client, col, count};
///
/// let client = Client::connect("http://127.0.0.1:7700").await?;
/// let late = client.query("flights").select([count()]).filter(col("dep_delay").gt(60)).collect().await?;
/// println!("{:?}", late.batches);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
    options: ClientOptions,
    /// Who the client is.
    header: Option<MetadataValue<Ascii>>,
    address: Arc<str>,
    info: Arc<OnceCell<ServerInfo>>,
}

impl Client {
    /// Connects with the default options, as nobody in particular. An address without a scheme is taken as `http://`;
    /// `https://` is TLS.
    ///
    /// # Errors
    /// [`Error::Address`], or [`Error::Connection`] when nothing answers there.
    pub async fn connect(address: &str) -> Result<Self> {
        Self::connect_with(address, ClientOptions::default()).await
    }

    /// Connects, as nobody in particular.
    ///
    /// # Errors
    /// [`Error::Address`], or [`Error::Connection`] when nothing answers there.
    pub async fn connect_with(address: &str, options: ClientOptions) -> Result<Self> {
        Self::connect_as(address, options, &Credentials::default()).await
    }

    /// Connects.
    ///
    /// # Errors
    /// [`Error::Address`], also where a key would go to another machine without TLS; [`Error::Credentials`] when a
    /// certificate is none; or [`Error::Connection`] when nothing answers there, or is not believed.
    pub async fn connect_as(
        address: &str,
        options: ClientOptions,
        credentials: &Credentials,
    ) -> Result<Self> {
        let bad_address = |message: String| Error::Address { address: address.to_owned(), message };
        let (scheme, rest) = address.split_once("://").unwrap_or(("http", address));
        let scheme = scheme.to_ascii_lowercase();
        let tls = scheme == "https";
        if !tls && scheme != "http" {
            return Err(bad_address(format!("{scheme:?} is not a scheme that is spoken here")));
        }
        let url = format!("{scheme}://{rest}");
        let endpoint = Endpoint::from_shared(url.clone()).map_err(|e| bad_address(e.to_string()))?;
        let uri = endpoint.uri();
        let host = uri.host().unwrap_or_default();
        if host.is_empty() {
            return Err(bad_address("it names no host".to_owned()));
        }
        if uri.port_u16().is_none() && uri.authority().is_some_and(|a| !a.as_str().ends_with(host)) {
            return Err(bad_address("its port is not a number up to 65535".to_owned()));
        }
        if !tls && !credentials.may_go_plain(host) {
            let message = "a key goes to another machine with TLS alone: https://";
            return Err(bad_address(message.to_owned()));
        }
        let mut endpoint = endpoint
            .connect_timeout(options.connect_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(20));
        if tls {
            let config = endpoint.tls_config(credentials.tls());
            endpoint = config.map_err(|e| Error::Credentials(crate::error::network_message(&e)))?;
        }
        let channel = endpoint.connect().await.map_err(|e| Error::from_transport(&e, &url))?;
        let header = credentials.header().cloned();
        Ok(Self { channel, options, header, address: url.into(), info: Arc::default() })
    }

    /// A client over a channel made elsewhere; `address` is only for messages.
    pub fn from_channel(channel: Channel, address: &str) -> Self {
        let (options, address) = (ClientOptions::default(), address.into());
        Self { channel, options, header: None, address, info: Arc::default() }
    }

    /// The same connection with other options.
    #[must_use]
    pub fn with_options(mut self, options: ClientOptions) -> Self {
        self.options = options;
        self
    }

    /// The same connection with another deadline for each call.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.options.deadline = deadline;
        self
    }

    /// The options in use.
    pub fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// The server's address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The channel, for other services of the same server.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// The server's version and limits; asked once for a connection.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn server_info(&self) -> Result<&ServerInfo> {
        let ask = || {
            self.retrying(|| async {
                let request = self.request(GetServerInfoRequest {});
                self.call(self.catalog().get_server_info(request)).await
            })
        };
        self.info.get_or_try_init(ask).await
    }

    pub(crate) fn catalog(&self) -> CatalogServiceClient<Channel> {
        CatalogServiceClient::new(self.channel()).max_decoding_message_size(self.options.max_message_bytes)
    }

    pub(crate) fn ingest(&self) -> IngestServiceClient<Channel> {
        IngestServiceClient::new(self.channel()).max_decoding_message_size(self.options.max_message_bytes)
    }

    pub(crate) fn queries(&self) -> QueryServiceClient<Channel> {
        QueryServiceClient::new(self.channel()).max_decoding_message_size(self.options.max_message_bytes)
    }

    pub(crate) fn sips(&self) -> SipServiceClient<Channel> {
        SipServiceClient::new(self.channel()).max_decoding_message_size(self.options.max_message_bytes)
    }

    /// A request that carries the deadline, and who sends it.
    pub(crate) fn request<M>(&self, message: M) -> tonic::Request<M> {
        let mut request = self.unbounded(message);
        request.set_timeout(self.options.deadline);
        request
    }

    /// A request that carries who sends it, and takes as long as it takes.
    pub(crate) fn unbounded<M>(&self, message: M) -> tonic::Request<M> {
        let mut request = tonic::Request::new(message);
        if let Some(header) = &self.header {
            request.metadata_mut().insert("authorization", header.clone());
        }
        request
    }

    /// When to stop waiting: a little after the deadline, so that the server's own answer to it arrives.
    pub(crate) fn give_up_at(&self) -> time::Instant {
        time::Instant::now() + self.options.deadline + Duration::from_secs(1)
    }

    /// The answer of one call.
    pub(crate) async fn call<T>(
        &self,
        call: impl Future<Output = std::result::Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T> {
        let answer = time::timeout_at(self.give_up_at(), call).await.map_err(|_| Error::Deadline)?;
        answer.map(tonic::Response::into_inner).map_err(|status| self.error(&status))
    }

    pub(crate) fn error(&self, status: &tonic::Status) -> Error {
        Error::from_status(status, &self.address)
    }

    /// Repeats a call that has no effect, or the same effect twice.
    pub(crate) async fn retrying<T, F>(&self, call: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.options.retry.run(call).await
    }
}
