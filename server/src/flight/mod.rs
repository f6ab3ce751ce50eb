//! Arrow Flight SQL, the door of ADBC and JDBC: statements, prepared statements, what tables there are, and rows that come in
//! as Arrow batches.
//!
//! Nothing is kept between calls but prepared statements. A ticket is the statement itself, or the command of a list, so a
//! ticket that a client makes up asks for no more than the client may ask for anyway.

mod answer;
mod catalog;
mod command;
mod info;
mod ingest;
mod parameters;
mod prepared;
mod put;
mod statements;

use std::{pin::Pin, sync::Arc};

use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, Result as ActionResult, SchemaResult, Ticket,
    flight_service_server::{FlightService, FlightServiceServer},
};
use basalt_proto::shapes::Shape;
use futures_util::stream;
use tonic::{Request, Response, Status, Streaming};

use crate::{
    call::Call,
    connection::Connection,
    limits, logged,
    state::State,
    status::{RequestError, Result},
};
use prepared::Prepared;

/// See the module. Each connection has its own.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    state: Arc<State>,
    prepared: Arc<Prepared>,
}

type Answer<T> = std::result::Result<Response<T>, Status>;
type Many<T> = Pin<Box<dyn futures_util::Stream<Item = std::result::Result<T, Status>> + Send>>;

impl Flight {
    /// For the requests of one connection.
    pub(crate) fn service(state: &Arc<State>, connection: &Connection) -> FlightServiceServer<Self> {
        let prepared = Prepared::new(state, connection);
        FlightServiceServer::new(Self { state: Arc::clone(state), prepared: Arc::new(prepared) })
            .max_decoding_message_size(limits::FLIGHT_MESSAGE_BYTES)
            .max_encoding_message_size(limits::MESSAGE_BYTES)
    }
}

/// What a method is asked with; `None`: messages that hold nothing which is there many times.
pub(crate) fn shape(method: &str) -> Option<&'static Shape> {
    command::shape(method)
}

/// A stream of what is there already.
fn all<T: Send + 'static>(items: Vec<T>) -> Many<T> {
    Box::pin(stream::iter(items.into_iter().map(Ok)))
}

/// The answer to a call that this door does not have.
fn without<T>(mut call: Call, what: &str) -> Answer<T> {
    // It is no failure of the call: what asks for it tries whether it is there.
    call.done();
    Err(Status::unimplemented(format!("Basalt has no {what}")))
}

#[tonic::async_trait]
impl FlightService for Flight {
    type HandshakeStream = Many<HandshakeResponse>;
    type ListFlightsStream = Many<FlightInfo>;
    type DoGetStream = Many<FlightData>;
    type DoPutStream = Many<PutResult>;
    type DoExchangeStream = Many<FlightData>;
    type DoActionStream = Many<ActionResult>;
    type ListActionsStream = Many<ActionType>;

    /// A client that has shown a key is told to go on with it, as those do that ask for a token first.
    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Self::HandshakeStream> {
        let header = request.metadata().get("authorization").cloned();
        let (call, mut requests) = Call::begin_stream(request)?;
        let first = requests.message().await.map_err(|status| {
            RequestError::of_reading(&status).unwrap_or_else(|| RequestError::protocol(status.message()))
        });
        let answered = first.map(|first| {
            let protocol_version = first.map_or(0, |request| request.protocol_version);
            all(vec![HandshakeResponse { protocol_version, ..HandshakeResponse::default() }])
        });
        let mut response = call.reply(answered)?;
        if let Some(header) = header {
            response.metadata_mut().insert("authorization", header);
        }
        Ok(response)
    }

    async fn list_flights(&self, request: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        let (call, _) = Call::begin(request)?;
        without(call, "list of flights; Flight SQL's GetTables has the tables")
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        let (mut call, descriptor) = Call::begin(request)?;
        let answer = self.info(&mut call, descriptor).await;
        call.reply(answer)
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<PollInfo> {
        let (call, _) = Call::begin(request)?;
        without(call, "PollFlightInfo; GetFlightInfo answers at once")
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        let (mut call, descriptor) = Call::begin(request)?;
        let answer = self.schema(&mut call, descriptor).await;
        call.reply(answer)
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        let (mut call, ticket) = Call::begin(request)?;
        match self.rows(&mut call, &ticket.ticket).await {
            Ok(rows) => Ok(Response::new(answer::stream(call, rows))),
            Err(error) => Err(call.fail(error)),
        }
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        let (mut call, messages) = Call::begin_stream(request)?;
        let answer = self.put(&mut call, messages).await;
        call.reply(answer.map(|put| all(vec![put])))
    }

    async fn do_exchange(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoExchangeStream> {
        let (call, _) = Call::begin_stream(request)?;
        without(call, "DoExchange")
    }

    async fn do_action(&self, request: Request<Action>) -> Answer<Self::DoActionStream> {
        let (mut call, action) = Call::begin(request)?;
        match action.r#type.as_str() {
            statements::CREATE_PREPARED => {
                let made = self.prepare(&mut call, &action.body).await;
                call.reply(made.map(|made| all(vec![made])))
            }
            statements::CLOSE_PREPARED => {
                let closed = self.close(&action.body);
                call.reply(closed.map(|()| all(Vec::new())))
            }
            _ => without(call, "such action"),
        }
    }

    async fn list_actions(&self, request: Request<Empty>) -> Answer<Self::ListActionsStream> {
        let (call, _) = Call::begin(request)?;
        let action = |name: &str, description: &str| ActionType {
            r#type: name.to_owned(),
            description: description.to_owned(),
        };
        call.reply(Ok(all(vec![
            action(statements::CREATE_PREPARED, "Prepares a statement for this connection"),
            action(statements::CLOSE_PREPARED, "Forgets a prepared statement"),
        ])))
    }
}

/// A failure to write what was made here.
fn unwritten(error: impl std::fmt::Display) -> RequestError {
    tracing::error!(error = logged::text(&error.to_string()), "an answer cannot be written as Arrow Flight");
    RequestError::internal()
}

/// The next message of a stream of data; `None`: it has ended.
async fn next(
    messages: &mut Streaming<FlightData>,
    until: impl Future<Output = Result<()>>,
) -> Result<Option<FlightData>> {
    tokio::select! {
        biased;
        message = messages.message() => message.map_err(|status| {
            RequestError::of_reading(&status).unwrap_or_else(|| RequestError::protocol(status.message()))
        }),
        late = until => Err(late.err().unwrap_or_else(RequestError::deadline)),
    }
}
