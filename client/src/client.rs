//! The connection, and what every call has in common.

use std::{fmt, sync::Arc, time::Duration};

use tonic::metadata::{Ascii, MetadataValue};

use crate::{
    credentials::Credentials,
    error::{Error, Result},
    hosts::{Host, Hosts},
    interceptor::Interceptor,
    options::ClientOptions,
    server_info::ServerInfo,
};

/// A connection to a server, or to one of several ([`Client::connect_any`]); clones are cheap and share it.
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
#[derive(Clone)]
pub struct Client {
    hosts: Arc<Hosts>,
    options: ClientOptions,
    /// Who the client is.
    header: Option<MetadataValue<Ascii>>,
    interceptors: Vec<Arc<dyn Interceptor>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("addresses", &self.addresses().collect::<Vec<_>>())
            .field("options", &self.options)
            .field("interceptors", &self.interceptors.len())
            .finish_non_exhaustive()
    }
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
        Self::connect_any([address], options, credentials).await
    }

    /// Connects to one of several servers that answer the same, such as the nodes of a cluster: to the first address that
    /// answers. A server that cannot be reached later, or says that it is not available, is left for the next one, and so
    /// is one that is too slow for [`ClientOptions::try_timeout`]. Whatever may be repeated is then asked there:
    /// everything that reads, and what has the same effect twice, such as [`Client::write_all`] with its request id. Of
    /// anything else the error is returned, and only the next call goes to the next server.
    ///
    /// # Errors
    /// Those of [`Client::connect_as`]; [`Error::Connection`] when nothing answers at any of the addresses.
    ///
    /// ```no_run
    /// # async fn example() -> basalt_client::Result<()> {
    /// use std::time::Duration;
    ///
    /// use basalt_client::{Client, ClientOptions, Credentials};
    ///
    /// let nodes = ["https://db1:7700", "https://db2:7700", "https://db3:7700"];
    /// let credentials = Credentials::new().key_file("basalt.key")?;
    /// let options = ClientOptions::new().try_timeout(Duration::from_secs(2));
    /// let client = Client::connect_any(nodes, options, &credentials).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect_any<A: AsRef<str>>(
        addresses: impl IntoIterator<Item = A>,
        options: ClientOptions,
        credentials: &Credentials,
    ) -> Result<Self> {
        let hosts = Hosts::connect(addresses, &options, credentials).await?;
        Ok(Self::of_hosts(hosts, options, credentials.header().cloned()))
    }

    pub(crate) fn of_hosts(
        hosts: Hosts,
        options: ClientOptions,
        header: Option<MetadataValue<Ascii>>,
    ) -> Self {
        Self { hosts: Arc::new(hosts), options, header, interceptors: Vec::new() }
    }

    /// The same connection, with an interceptor that is asked before each try of each call, behind those that are there.
    ///
    /// ```no_run
    /// # async fn example(client: basalt_client::Client) -> basalt_client::Result<()> {
    /// use basalt_client::Outgoing;
    ///
    /// let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let client = client.with_interceptor(move |call: &mut Outgoing<'_>| call.set_header("traceparent", trace));
    /// client.query("flights").collect().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_interceptor(mut self, interceptor: impl Interceptor) -> Self {
        self.interceptors.push(Arc::new(interceptor));
        self
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

    /// The address of the server that is asked now.
    pub fn address(&self) -> &str {
        &self.host().address
    }

    /// The addresses of all servers that may be asked.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.hosts.all().iter().map(|host| host.address.as_ref())
    }

    /// The server's version and limits; asked once for a connection.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn server_info(&self) -> Result<&ServerInfo> {
        let asked =
            self.retrying(|call| async move { call.info().await.map(|_| call.host_number()) }).await?;
        let info = self.hosts.all().get(asked).and_then(|host| host.info.get());
        info.ok_or_else(|| Error::Malformed("no information of the server".to_owned()))
    }

    pub(crate) fn host(&self) -> &Host {
        // The current host's number comes from the list, which never changes.
        &self.hosts.all()[self.hosts.current()]
    }

    pub(crate) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    pub(crate) fn header(&self) -> Option<&MetadataValue<Ascii>> {
        self.header.as_ref()
    }

    pub(crate) fn interceptors(&self) -> &[Arc<dyn Interceptor>] {
        &self.interceptors
    }
}
