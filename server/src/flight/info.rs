//! What an answer will be, before it is asked for: its columns, and the ticket with which it is had.

use std::sync::Arc;

use arrow_flight::{
    FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage, SchemaAsIpc, SchemaResult, Ticket,
    sql::{Any, Command, ProstMessageExt as _, TicketStatementQuery},
};
use arrow_ipc::writer::IpcWriteOptions;
use arrow_schema::{Schema, SchemaRef};
use prost::{Message as _, bytes::Bytes};

use super::{Flight, answer, command, unwritten};
use crate::{call::Call, status::Result};

impl Flight {
    /// Describes what a command's answer is, with the ticket for it. What is no query runs here, as Flight SQL has it: a
    /// client that has no use for its count does not come for it. Its ticket is the count.
    pub(super) async fn info(&self, call: &mut Call, descriptor: FlightDescriptor) -> Result<FlightInfo> {
        let command = command::of_descriptor(&descriptor)?;
        let (schema, ticket) = match command {
            Command::CommandStatementQuery(query) => {
                command::without_transaction(query.transaction_id.as_ref())?;
                let description = self.describe(call, &query.query).await?;
                match description.command.gives_rows() {
                    true => (description.schema.to_outer_arrow(), of_statement(query.query.into())),
                    false => of_count(self.count(call, &query.query, Vec::new(), None).await?),
                }
            }
            Command::CommandPreparedStatementQuery(query) => {
                let statement = self.prepared.get(&query.prepared_statement_handle)?;
                let description = self.describe_bound(call, &statement).await?;
                match description.command.gives_rows() {
                    true => (description.schema.to_outer_arrow(), query.as_any()),
                    false => of_count(self.count_prepared(call, &statement).await?),
                }
            }
            command => {
                let list = self.list(call, command.clone(), true).await?;
                (list.schema(), command.into_any())
            }
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
                Ok(description.schema.to_outer_arrow())
            }
            Command::CommandPreparedStatementQuery(query) => {
                let statement = self.prepared.get(&query.prepared_statement_handle)?;
                Ok(self.describe_bound(call, &statement).await?.schema.to_outer_arrow())
            }
            command => self.list(call, command.clone(), true).await.map(|list| list.schema()),
        }
    }
}

fn of_statement(statement_handle: Bytes) -> Any {
    TicketStatementQuery { statement_handle }.as_any()
}

/// The answer that is a count, and its ticket.
fn of_count(rows: u64) -> (SchemaRef, Any) {
    (answer::counted_schema(), of_statement(format!("{}{rows}", answer::COUNT).into()))
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
