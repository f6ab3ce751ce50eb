//! One try of a call: to which server, for how long, and with which headers; and what is done when it fails.

use std::{future::Future, ops::Deref, time::Duration};

use basalt_proto::v1::{
    catalog_service_client::CatalogServiceClient, cluster_service_client::ClusterServiceClient,
    ingest_service_client::IngestServiceClient, query_service_client::QueryServiceClient,
    sip_service_client::SipServiceClient, sql_service_client::SqlServiceClient,
};
use tokio::time::{self, Instant};
use tonic::transport::Channel;

use crate::{
    client::Client,
    error::{Code, Error, Result},
    hosts::Host,
    interceptor::Outgoing,
    retry::jittered,
    server_info::ServerInfo,
};

/// What the server is given to answer a deadline itself.
const GRACE: Duration = Duration::from_secs(1);

/// One try of a call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    client: Client,
    host: usize,
    /// Which try it is, from 1.
    attempt: u32,
    until: Instant,
    /// When another server is asked instead, as long as the answer has not begun.
    begins_by: Option<Instant>,
}

macro_rules! services {
    ($($method:ident $service:ident;)+) => {$(
        pub(crate) fn $method(&self) -> $service<Channel> {
            let most = self.client.options().max_message_bytes;
            $service::new(self.host().channel.clone()).max_decoding_message_size(most)
        }
    )+};
}

impl Call {
    services! {
        catalog CatalogServiceClient;
        cluster_service ClusterServiceClient;
        ingest IngestServiceClient;
        queries QueryServiceClient;
        sips SipServiceClient;
        statements SqlServiceClient;
    }

    pub(crate) fn host(&self) -> &Host {
        // A host's number comes from the list, which never changes.
        &self.client.hosts().all()[self.host]
    }

    pub(crate) fn host_number(&self) -> usize {
        self.host
    }

    /// A request that carries the deadline, and who sends it.
    pub(crate) fn request<M>(&self, message: M) -> Result<tonic::Request<M>> {
        let mut request = self.unbounded(message)?;
        request.set_timeout(self.until.saturating_duration_since(Instant::now()));
        Ok(request)
    }

    /// A request that carries who sends it, and takes as long as it takes.
    pub(crate) fn unbounded<M>(&self, message: M) -> Result<tonic::Request<M>> {
        let mut request = tonic::Request::new(message);
        if let Some(header) = self.client.header() {
            request.metadata_mut().insert("authorization", header.clone());
        }
        for interceptor in self.client.interceptors() {
            let mut outgoing = Outgoing::new(request.metadata_mut(), self.host(), self.attempt);
            interceptor.intercept(&mut outgoing)?;
        }
        Ok(request)
    }

    /// When to stop waiting: a little after the deadline, so that the server's own answer to it arrives.
    pub(crate) fn give_up_at(&self) -> Instant {
        self.until + GRACE
    }

    /// When to stop waiting for the beginning of the answer.
    pub(crate) fn begins_by(&self) -> Instant {
        self.begins_by.unwrap_or_else(|| self.give_up_at())
    }

    /// The answer of one call.
    pub(crate) async fn call<T>(
        &self,
        call: impl Future<Output = std::result::Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T> {
        let answer = time::timeout_at(self.begins_by(), call).await.map_err(|_| Error::Deadline)?;
        answer.map(tonic::Response::into_inner).map_err(|status| self.error(&status))
    }

    /// What a status says. The next call goes to another server where this one cannot be reached, or not now.
    pub(crate) fn error(&self, status: &tonic::Status) -> Error {
        let error = Error::from_status(status, &self.host().address);
        if is_of_the_host(&error) {
            self.client.hosts().leave(self.host);
        }
        error
    }

    /// What the server says of itself.
    pub(crate) async fn info(&self) -> Result<&ServerInfo> {
        let ask = || async {
            let request = self.request(basalt_proto::v1::GetServerInfoRequest {})?;
            self.call(self.catalog().get_server_info(request)).await.map(ServerInfo::from)
        };
        self.host().info.get_or_try_init(ask).await
    }
}

impl Deref for Call {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// Whether another server may do better.
fn is_of_the_host(error: &Error) -> bool {
    match error {
        Error::Connection { .. } | Error::Incomplete => true,
        Error::Server(error) => error.code == Code::Unavailable,
        _ => false,
    }
}

/// Whether the call's time was over: the client's clock says so, or the server's.
fn is_deadline(error: &Error) -> bool {
    match error {
        Error::Deadline => true,
        // A server's framework that stops a call at its deadline answers without a reason.
        Error::Server(error) => matches!(error.code, Code::DeadlineExceeded | Code::Cancelled),
        _ => false,
    }
}

/// A try that failed, and how long the next one was waited for.
#[derive(Debug)]
struct Failed {
    error: Error,
    waited: Duration,
}

impl Failed {
    /// Whether it says more than the try behind it, which failed with `error` and had `given` time.
    fn is_better(&self, error: &Error, given: Duration) -> bool {
        given < self.waited && is_deadline(error)
    }
}

impl Client {
    /// A call that is made once.
    pub(crate) fn once(&self) -> Call {
        let until = Instant::now() + self.options().deadline;
        Call { client: self.clone(), host: self.hosts().current(), attempt: 1, until, begins_by: None }
    }

    /// Repeats a call that has no effect, or the same effect twice, within the deadline.
    pub(crate) async fn retrying<T, F>(&self, call: impl FnMut(Call) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let until = Instant::now() + self.options().deadline;
        self.repeat(Some(until), call).await
    }

    /// Repeats a call until `until`; without it, every try has the deadline for itself.
    ///
    /// `call` is no `AsyncFnMut`: the compiler cannot show yet that what those return is `Send`.
    pub(crate) async fn repeat<T, F>(
        &self,
        until: Option<Instant>,
        mut call: impl FnMut(Call) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let policy = self.options().retry;
        let hosts = self.hosts();
        // Other hosts than the first, each of which is asked without a wait.
        let mut unasked = hosts.all().len() - 1;
        let mut wanted = Duration::ZERO;
        let mut before: Option<Failed> = None;
        for attempt in 1.. {
            let now = Instant::now();
            let host = hosts.current();
            let end = until.unwrap_or_else(|| now + self.options().deadline);
            let begins_by = self.options().try_timeout.map(|timeout| (now + timeout).min(end + GRACE));
            let try_of = Call { client: self.clone(), host, attempt, until: end, begins_by };
            let error = match call(try_of).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            // A try of the last moments says only that the deadline passed; the one before it says why.
            if let Some(before) =
                before.take().filter(|before| before.is_better(&error, end.saturating_duration_since(now)))
            {
                return Err(before.error);
            }
            let is_slow = matches!(error, Error::Deadline) && Instant::now() < end;
            if is_slow || is_of_the_host(&error) {
                hosts.leave(host);
            }
            if attempt >= policy.tries || !(is_slow || error.is_retryable()) {
                return Err(error);
            }
            if hosts.current() != host && unasked > 0 {
                unasked -= 1;
                wanted = wanted.max(error.retry_delay().unwrap_or_default());
                continue;
            }
            let delay = if is_slow { Some(policy.back_off(attempt)) } else { policy.delay(&error, attempt) };
            let Some(delay) = delay.filter(|_| wanted <= policy.max_delay) else { return Err(error) };
            let delay = jittered(delay.max(wanted));
            // What cannot be answered in time is not waited for.
            if until.is_some_and(|until| Instant::now() + delay >= until) {
                return Err(error);
            }
            time::sleep(delay).await;
            before = Some(Failed { error, waited: delay });
            (wanted, unasked) = (Duration::ZERO, hosts.all().len() - 1);
        }
        Err(Error::Deadline)
    }
}
