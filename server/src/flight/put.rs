//! What comes by DoPut: parameters of a prepared statement, statements that write, and rows for a table.

use arrow_flight::{
    FlightData, PutResult,
    sql::{Command, DoPutPreparedStatementResult, DoPutUpdateResult},
};
use arrow_schema::SchemaRef;
use basalt_core::query::Literal;
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
                let statement = self.prepared.get(handle)?;
                // What comes with the run is for the run alone. Some clients bind before it, and send nothing with it.
                let (statement, _held) = match self.bound(call, first, messages).await? {
                    Some(bound) => {
                        let (statement, held) = self.prepared.run_with(handle, bound)?;
                        (statement, Some(held))
                    }
                    None => (statement, None),
                };
                self.count_prepared(call, &statement).await?
            }
            Command::CommandPreparedStatementQuery(query) => {
                let handle = query.prepared_statement_handle;
                self.prepared.get(&handle)?;
                // Default: a stream without columns binds nothing, in the place of what was bound.
                let bound = self.bound(call, first, messages).await?.unwrap_or_default();
                self.prepared.bind(&handle, bound)?;
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

    /// The parameters that a stream has for a prepared statement; `None`: it says nothing of any, not even their columns.
    async fn bound(
        &self,
        call: &Call,
        first: FlightData,
        mut messages: Streaming<FlightData>,
    ) -> Result<Option<prepared::Bound>> {
        let (mut reader, mut rows, mut message) =
            (MessageReader::default(), Vec::<Vec<Literal>>::new(), Some(first));
        let (mut held, mut bytes) = (self.state.memory.reserve(Consumer::Requests), 0);
        while let Some(data) = message {
            if !data.data_header.is_empty() {
                let batch = reader.read(&data.data_header, data.data_body)?;
                if let Some(batch) = &batch {
                    bytes = parameters::room(batch, bytes)?;
                }
                held.set(bytes + reader.held())?;
                if let Some(batch) = &batch {
                    rows.extend(parameters::rows(batch)?);
                }
            }
            message = next(&mut messages, late(call)?).await?;
        }
        drop(held);
        // Some clients that have nothing to bind send a schema without columns; those whose parameters have no rows send columns.
        let by_rows = |schema: &SchemaRef| !schema.fields().is_empty();
        Ok(reader.schema().map(|schema| prepared::Bound { rows: rows.into(), by_rows: by_rows(schema) }))
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
