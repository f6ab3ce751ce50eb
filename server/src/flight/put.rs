//! What comes by DoPut: parameters of a prepared statement, statements that write, and rows for a table.

use arrow_flight::{
    FlightData, PutResult,
    sql::{Command, DoPutPreparedStatementResult, DoPutUpdateResult},
};
use prost::Message as _;
use tokio::time::{Instant, sleep_until};
use tonic::Streaming;

use super::{Flight, command, next, parameters, prepared};
use crate::{
    call::Call,
    convert::MessageReader,
    limits,
    memory::Consumer,
    status::{RequestError, Result},
};

impl Flight {
    /// Does what the first message of a stream says.
    pub(super) async fn put(
        &self,
        call: &mut Call,
        mut messages: Streaming<FlightData>,
    ) -> Result<PutResult> {
        let first = next(&mut messages, late(call)?).await?;
        let first = first.ok_or_else(|| RequestError::protocol("a stream without messages"))?;
        let descriptor = first.flight_descriptor.as_ref();
        let descriptor =
            descriptor.ok_or_else(|| RequestError::protocol("the first message has no descriptor"))?;
        let written = match command::of_descriptor(descriptor)? {
            Command::CommandStatementUpdate(update) => {
                command::without_transaction(update.transaction_id.as_ref())?;
                self.count(call, &update.query, Vec::new(), None).await?
            }
            Command::CommandPreparedStatementUpdate(update) => {
                let handle = &update.prepared_statement_handle;
                let statement = self.bind(call, handle, first, messages).await?;
                self.count_prepared(call, &statement).await?
            }
            Command::CommandPreparedStatementQuery(query) => {
                let handle = query.prepared_statement_handle;
                self.bind(call, &handle, first, messages).await?;
                let bound = DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) };
                return Ok(PutResult { app_metadata: bound.encode_to_vec().into() });
            }
            Command::CommandStatementIngest(ingest) => self.ingest(call, ingest, first, messages).await?,
            other => return Err(command::unknown(&other)),
        };
        call.rows = written;
        let record_count = i64::try_from(written).map_err(|_| RequestError::internal())?;
        Ok(PutResult { app_metadata: DoPutUpdateResult { record_count }.encode_to_vec().into() })
    }

    /// Binds the parameters that a stream has to a prepared statement; none, where it has none. The answer is that statement.
    async fn bind(
        &self,
        call: &Call,
        handle: &[u8],
        first: FlightData,
        mut messages: Streaming<FlightData>,
    ) -> Result<prepared::Statement> {
        self.prepared.get(handle)?;
        let (mut reader, mut bound, mut message) = (MessageReader::default(), Vec::new(), Some(first));
        let (mut held, mut bytes) = (self.state.memory.reserve(Consumer::Requests), 0);
        while let Some(data) = message {
            if !data.data_header.is_empty() {
                let batch = reader.read(&data.data_header, data.data_body)?;
                if let Some(batch) = &batch {
                    bytes = parameters::room(batch, bytes)?;
                }
                held.set(bytes + reader.held())?;
                if let Some(batch) = &batch {
                    bound.extend(parameters::rows(batch)?);
                }
            }
            message = next(&mut messages, late(call)?).await?;
        }
        drop(held);
        // Clients that have nothing to bind send no columns, those whose parameters have no rows send columns.
        let by_rows = reader.schema().is_some_and(|schema| !schema.fields().is_empty());
        self.prepared.bind(handle, bound, by_rows)
    }
}

/// Waits until a client that sends a stream is given up.
pub(super) fn late(call: &Call) -> Result<impl Future<Output = Result<()>> + use<>> {
    let idle = Instant::now() + limits::INGEST_IDLE_TIMEOUT;
    let until = call.deadline()?.map_or(idle, |until| until.min(idle));
    Ok(async move {
        sleep_until(until).await;
        Err(RequestError::deadline())
    })
}
