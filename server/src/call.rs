//! One request from its arrival to its log line.

use std::{sync::Arc, time::Duration};

use basalt_core::table::Table;
use tokio::time::Instant;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::{Code, Request, Response, Status, Streaming, metadata::MetadataMap};

use crate::{
    access::{Action, Asks, Caller, Method, Object, Principal, quota::Turn},
    connection::{Connection, Visit},
    logged,
    metrics::Metrics,
    status::RequestError,
    trace::Trace,
};

/// What the connection knows of a request; travels to its method in the request's extensions.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) caller: Caller,
    pub(crate) method: &'static Method,
    pub(crate) at: Instant,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) trace: Arc<Trace>,
    /// A shutdown waits for those that hold one.
    pub(crate) running: Option<TaskTrackerToken>,
    /// Its connection is not idle meanwhile.
    pub(crate) _visit: Option<Arc<Visit>>,
    /// It counts among those that its sender has under way.
    pub(crate) _turn: Option<Turn>,
}

/// A request under way. It writes its log line when it is dropped, as cancelled if nothing else was said.
#[derive(Debug)]
pub(crate) struct Call {
    arrival: Arrival,
    timeout: Result<Option<Duration>, ()>,
    /// What the log line tells of.
    pub(crate) table: Option<Arc<Table>>,
    /// Rows written or answered.
    pub(crate) rows: u64,
    /// Rows that the filter selected.
    pub(crate) selected: u64,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    Dropped,
    Done,
    Failed(Failure),
}

/// What is kept of an error for the log.
#[derive(Debug)]
struct Failure {
    code: Code,
    reason: &'static str,
    message: String,
}

impl Call {
    /// A request with its message, if its sender may have done what it asks for.
    pub(crate) fn begin<T: Asks>(request: Request<T>) -> Result<(Self, T), Status> {
        let (mut call, message) = Self::arrived(request)?;
        match call.authorise(&message) {
            Ok(()) => Ok((call, message)),
            Err(error) => Err(call.fail(error)),
        }
    }

    /// A request with a stream of messages, the first of which is to be [authorised](Self::authorise).
    pub(crate) fn begin_stream<T>(request: Request<Streaming<T>>) -> Result<(Self, Streaming<T>), Status> {
        Self::arrived(request)
    }

    fn arrived<T>(mut request: Request<T>) -> Result<(Self, T), Status> {
        let arrival: Option<Arrival> = request.extensions_mut().remove();
        // A door has let it in that asks nobody.
        let arrival = arrival.ok_or_else(RequestError::internal)?;
        let call = Self {
            arrival,
            timeout: grpc_timeout(request.metadata()),
            table: None,
            rows: 0,
            selected: 0,
            outcome: Outcome::Dropped,
        };
        Ok((call, request.into_inner()))
    }

    /// A request that came over another protocol, which has told its deadline elsewhere.
    pub(crate) fn of(arrival: Arrival) -> Self {
        Self { arrival, timeout: Ok(None), table: None, rows: 0, selected: 0, outcome: Outcome::Dropped }
    }

    /// Fails where its sender may not do to a message's object what the method does.
    pub(crate) fn authorise(&self, message: &impl Asks) -> Result<(), RequestError> {
        self.may(self.arrival.method.action, message.object())
    }

    /// Fails where its sender may not do something else.
    pub(crate) fn may(&self, action: Action, object: Object<'_>) -> Result<(), RequestError> {
        self.arrival.caller.authorise(action, object)
    }

    /// What a shutdown waits for: whoever takes it holds it for as long as this request is worth waiting for.
    pub(crate) fn take_running(&mut self) -> Option<TaskTrackerToken> {
        self.arrival.running.take()
    }

    /// Who has sent it.
    pub(crate) fn caller(&self) -> &Caller {
        &self.arrival.caller
    }

    /// The method, as the log and the metrics have it.
    pub(crate) fn label(&self) -> &'static str {
        self.arrival.method.label
    }

    /// When the request arrived.
    pub(crate) fn at(&self) -> Instant {
        self.arrival.at
    }

    /// The connection that it came on.
    pub(crate) fn connection(&self) -> Arc<Connection> {
        Arc::clone(&self.arrival.connection)
    }

    /// The client's deadline.
    pub(crate) fn deadline(&self) -> Result<Option<Instant>, RequestError> {
        let timeout =
            self.timeout.map_err(|()| RequestError::protocol("the header grpc-timeout is malformed"))?;
        Ok(timeout.map(|timeout| self.arrival.at + timeout))
    }

    /// The answer is complete, unless it failed before.
    pub(crate) fn done(&mut self) {
        if matches!(self.outcome, Outcome::Dropped) {
            self.outcome = Outcome::Done;
        }
    }

    pub(crate) fn fail(&mut self, error: RequestError) -> Status {
        let _entered = self.arrival.trace.enter();
        let (code, reason, message) = (error.code(), error.reason(), error.message().to_owned());
        self.outcome = Outcome::Failed(Failure { code, reason, message });
        error.into()
    }

    /// The end of a unary call.
    pub(crate) fn reply<T>(mut self, outcome: Result<T, RequestError>) -> Result<Response<T>, Status> {
        match outcome {
            Ok(message) => {
                self.done();
                Ok(Response::new(message))
            }
            Err(error) => Err(self.fail(error)),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let Self { arrival, table, rows, selected, .. } = self;
        let _entered = arrival.trace.enter();
        let (method, peer) = (arrival.method.label, tracing::field::display(&arrival.caller.principal));
        let table = table.as_ref().map(|t| t.name());
        let elapsed = arrival.at.elapsed();
        let elapsed_us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        let code = match &self.outcome {
            Outcome::Done => Code::Ok,
            Outcome::Dropped => Code::Cancelled,
            Outcome::Failed(failure) => failure.code,
        };
        arrival.metrics.request(method, code, elapsed, *rows);
        if let Outcome::Failed(failure) = &self.outcome {
            arrival.metrics.error(failure.reason);
        }
        let span = arrival.trace.span();
        if let Some(table) = table {
            span.text("basalt.table", || table.to_owned());
        }
        span.count("basalt.rows", *rows);
        span.count("basalt.rows_selected", *selected);
        match &self.outcome {
            Outcome::Done => {}
            Outcome::Dropped => span.fail("CANCELLED"),
            Outcome::Failed(failure) => span.fail(failure.reason),
        }
        span.end();
        let failure = match &self.outcome {
            Outcome::Failed(failure) => failure,
            ended => {
                let code = if matches!(ended, Outcome::Done) { "Ok" } else { "Cancelled" };
                macro_rules! tell {
                    ($level:ident) => {
                        tracing::$level!(method, table, rows, selected, elapsed_us, code, peer, "request")
                    };
                }
                return if logged::queries() { tell!(info) } else { tell!(debug) };
            }
        };
        let Failure { code, reason, message } = failure;
        let (error, shown) = (logged::message(*code, message), tracing::field::debug(code));
        macro_rules! tell {
            ($level:ident) => {
                tracing::$level!(method, table, elapsed_us, code = shown, reason, error, peer, "request")
            };
        }
        match *reason {
            "INTERNAL" => tell!(error),
            _ if is_of_operators(*code) || logged::queries() => tell!(info),
            _ => tell!(debug),
        }
    }
}

/// Whether an operator wants to know of an error: it is the server's, its store's or its load's, not the client's own.
pub(crate) fn is_of_operators(code: Code) -> bool {
    matches!(code, Code::ResourceExhausted | Code::Unavailable | Code::DataLoss | Code::Unknown)
}

/// The log line of a request that did not come to its method; `None`: nobody knows which.
pub(crate) fn tell_refused(method: Option<&'static str>, error: &RequestError, peer: &Principal) {
    let (code, reason) = (error.code(), error.reason());
    let error = logged::message(code, error.message());
    let (is_told, code) = (is_of_operators(code) || logged::queries(), tracing::field::debug(code));
    match is_told {
        true => tracing::info!(method, code, reason, error, %peer, "request"),
        false => tracing::debug!(method, code, reason, error, %peer, "request"),
    }
}

/// Reads `grpc-timeout`: at most eight digits and a unit (`gRPC over HTTP/2`, "Requests").
fn grpc_timeout(metadata: &MetadataMap) -> Result<Option<Duration>, ()> {
    let Some(value) = metadata.get("grpc-timeout") else { return Ok(None) };
    let (digits, unit) =
        value.as_bytes().split_at_checked(value.as_bytes().len().saturating_sub(1)).ok_or(())?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(());
    }
    let number = digits.iter().fold(0, |n: u64, digit| n * 10 + u64::from(digit - b'0'));
    Ok(Some(match unit {
        b"H" => Duration::from_secs(number * 3600),
        b"M" => Duration::from_secs(number * 60),
        b"S" => Duration::from_secs(number),
        b"m" => Duration::from_millis(number),
        b"u" => Duration::from_micros(number),
        b"n" => Duration::from_nanos(number),
        _ => return Err(()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_timeouts() {
        let read = |text: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            grpc_timeout(&metadata)
        };
        assert_eq!(read("1H"), Ok(Some(Duration::from_secs(3600))));
        assert_eq!(read("99999999S"), Ok(Some(Duration::from_secs(99_999_999))));
        assert_eq!(read("250m"), Ok(Some(Duration::from_millis(250))));
        assert_eq!(read("0n"), Ok(Some(Duration::ZERO)));
        for text in ["", "S", "1", "1s", "-1S", "123456789S", "1.5S", "١S"] {
            assert_eq!(read(text), Err(()), "{text:?}");
        }
        assert_eq!(grpc_timeout(&MetadataMap::new()), Ok(None));
    }
}
