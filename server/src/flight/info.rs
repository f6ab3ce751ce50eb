//! What an answer will be, before it is asked for: its columns, and the ticket with which it is had.

use std::sync::Arc;

use arrow_flight::{
    FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage, SchemaAsIpc, SchemaResult, Ticket,
    sql::{Command, ProstMessageExt as _, TicketStatementQuery},
};
use arrow_ipc::writer::IpcWriteOptions;
use arrow_schema::{Schema, SchemaRef};
use prost::{Message as _, bytes::Bytes};

use super::{Flight, answer, command, unwritten};
use crate::{call::Call, status::Result};

impl Flight {
    /// Describes what a command's answer is. Nothing runs yet.
    pub(super) async fn info(&self, call: &mut Call, descriptor: FlightDescriptor) -> Result<FlightInfo> {
        let command = command::of_descriptor(&descriptor)?;
        let schema = self.columns(call, &command).await?;
        let ticket = match command {
            // The statement itself.
            Command::CommandStatementQuery(query) => {
                TicketStatementQuery { statement_handle: query.query.into() }.as_any()
            }
            command => command.into_any(),
        };
        let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket.encode_to_vec()));
        let info = FlightInfo::new().try_with_schema(&schema).map_err(unwritten)?;
        Ok(info.with_endpoint(endpoint).with_descriptor(descriptor).with_ordered(true))
    }

    /// The columns alone.
    pub(super) async fn schema(&self, call: &mut Call, descriptor: FlightDescriptor) -> Result<SchemaResult> {
        let command = command::of_descriptor(&descriptor)?;
        let schema = self.columns(call, &command).await?;
        Ok(SchemaResult { schema: encoded(&schema)? })
    }

    async fn columns(&self, call: &mut Call, command: &Command) -> Result<SchemaRef> {
        match command {
            Command::CommandStatementQuery(query) => {
                command::without_transaction(query.transaction_id.as_ref())?;
                let description = self.describe(call, &query.query).await?;
                Ok(description.schema.to_arrow())
            }
            Command::CommandPreparedStatementQuery(query) => {
                let statement = self.prepared.get(&query.prepared_statement_handle)?;
                if statement.bound.len() > 1 {
                    return Ok(answer::counted_schema());
                }
                Ok(self.describe(call, &statement.sql).await?.schema.to_arrow())
            }
            command => self.list(call, command.clone(), true).await.map(|list| list.schema()),
        }
    }
}

/// Columns as Flight has them where they stand alone: a message of Arrow IPC.
pub(super) fn encoded(schema: &Schema) -> Result<Bytes> {
    let options = IpcWriteOptions::default();
    let message = IpcMessage::try_from(SchemaAsIpc::new(schema, &options));
    let IpcMessage(bytes) = message.map_err(unwritten)?;
    Ok(bytes)
}

/// The columns in which parameters are taken.
pub(super) fn parameters_schema(types: &[basalt_core::schema::DataType]) -> Arc<Schema> {
    let field = |(i, data_type): (usize, &basalt_core::schema::DataType)| {
        arrow_schema::Field::new(format!("${}", i + 1), data_type.to_arrow(), true)
    };
    Arc::new(Schema::new(types.iter().enumerate().map(field).collect::<Vec<_>>()))
}
