//! Statements: described, prepared, and run.

use std::sync::Arc;

use arrow_array::{cast::AsArray as _, types::Int64Type};
use arrow_flight::{
    Result as ActionResult,
    sql::{
        ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
        ActionCreatePreparedStatementResult, Any, Command, ProstMessageExt,
    },
};
use basalt_core::query::Literal;
use basalt_proto::v1::ErrorReason;
use basalt_sql::Description;
use prost::{Message as _, bytes::Bytes};

use super::{
    Flight,
    answer::{COUNT, Rows},
    command, info, prepared,
};
use crate::{
    call::Call,
    sql::{RowStream, Statement, Transaction},
    status::{RequestError, Result},
};

pub(super) const CREATE_PREPARED: &str = "CreatePreparedStatement";
pub(super) const CLOSE_PREPARED: &str = "ClosePreparedStatement";

impl Flight {
    /// What a statement takes and gives.
    pub(super) async fn describe(&self, call: &mut Call, sql: &str) -> Result<Description> {
        self.describe_with(call, sql, Vec::new()).await
    }

    /// What a prepared statement gives by what is bound to it.
    pub(super) async fn describe_bound(
        &self,
        call: &mut Call,
        statement: &prepared::Statement,
    ) -> Result<Description> {
        let bound = if let [once] = &*statement.bound.rows { once.clone() } else { Vec::new() };
        self.describe_with(call, &statement.sql, bound).await
    }

    async fn describe_with(
        &self,
        call: &mut Call,
        sql: &str,
        parameters: Vec<Literal>,
    ) -> Result<Description> {
        let connection = call.connection();
        let statement = Statement {
            sql: sql.to_owned(),
            parameters,
            caller: call.caller(),
            method: call.label(),
            connection: &connection,
            deadline: self.state.deadline(call)?,
            running: None,
        };
        statement.describe(&self.state, None, Vec::new()).await
    }

    /// Begins to run a statement.
    async fn run(
        &self,
        call: &mut Call,
        sql: &str,
        parameters: Vec<Literal>,
        transaction: Option<&Arc<Transaction>>,
    ) -> Result<RowStream> {
        let (deadline, running) = (self.state.deadline(call)?, call.take_running());
        let connection = call.connection();
        let (sql, caller, method, connection) = (sql.to_owned(), call.caller(), call.label(), &connection);
        let statement = Statement { sql, parameters, caller, method, connection, deadline, running };
        RowStream::begin(&self.state, statement, transaction).await
    }

    /// Runs a statement to its end; the answer is how many rows it has written, or given.
    pub(super) async fn count(
        &self,
        call: &mut Call,
        sql: &str,
        parameters: Vec<Literal>,
        transaction: Option<&Arc<Transaction>>,
    ) -> Result<u64> {
        let mut rows = self.run(call, sql, parameters, transaction).await?;
        let writes = !rows.command().gives_rows();
        let mut count = 0;
        while let Some(batch) = rows.next().await? {
            let column = batch.columns().first().and_then(|column| column.as_primitive_opt::<Int64Type>());
            if let (true, Some(column)) = (writes, column) {
                // Default: a count is none, or at least zero.
                count += column.iter().flatten().map(|rows| u64::try_from(rows).unwrap_or(0)).sum::<u64>();
            } else {
                count += if writes { 0 } else { batch.num_rows() as u64 };
            }
        }
        Ok(count)
    }

    /// The same of a prepared one, once for each row of its parameters. What many rows insert is committed at once.
    pub(super) async fn count_prepared(
        &self,
        call: &mut Call,
        statement: &prepared::Statement,
    ) -> Result<u64> {
        match &*statement.bound.rows {
            [] if statement.bound.by_rows => Ok(0),
            [] => self.count(call, &statement.sql, Vec::new(), None).await,
            [once] => self.count(call, &statement.sql, once.clone(), None).await,
            many => {
                let inserts =
                    self.describe(call, &statement.sql).await?.command == basalt_sql::Command::Insert;
                let transaction = inserts.then(Arc::<Transaction>::default);
                let mut rows = 0;
                for parameters in many {
                    rows +=
                        self.count(call, &statement.sql, parameters.clone(), transaction.as_ref()).await?;
                }
                if let Some(transaction) = transaction {
                    transaction.commit(&self.state).await?;
                }
                Ok(rows)
            }
        }
    }

    /// The rows for a ticket.
    pub(super) async fn rows(&self, call: &mut Call, ticket: &[u8]) -> Result<Rows> {
        match command::of_bytes(ticket)? {
            Command::TicketStatementQuery(ticket) => {
                let wrong = || RequestError::protocol("the ticket is none of this server");
                let sql = std::str::from_utf8(&ticket.statement_handle).map_err(|_| wrong())?;
                match sql.strip_prefix(COUNT) {
                    Some(rows) => {
                        let rows = rows.parse::<i64>().ok().filter(|rows| *rows >= 0);
                        Ok(Rows::Counted(rows.ok_or_else(wrong)?))
                    }
                    None => Ok(Rows::Running(self.run(call, sql, Vec::new(), None).await?)),
                }
            }
            Command::CommandPreparedStatementQuery(query) => {
                let statement = self.prepared.get(&query.prepared_statement_handle)?;
                let parameters = match &*statement.bound.rows {
                    [] => Vec::new(),
                    [once] => once.clone(),
                    many => {
                        let message = format!(
                            "{} rows of parameters for a query, which takes one: run it once for each",
                            many.len()
                        );
                        return Err(RequestError::new(ErrorReason::InvalidQuery, message));
                    }
                };
                Ok(Rows::Running(self.run(call, &statement.sql, parameters, None).await?))
            }
            command => self.list(call, command, false).await.map(Rows::Whole),
        }
    }

    /// Prepares a statement.
    pub(super) async fn prepare(&self, call: &mut Call, body: &[u8]) -> Result<ActionResult> {
        let request: ActionCreatePreparedStatementRequest = unpacked(body)?;
        command::without_transaction(request.transaction_id.as_ref())?;
        let description = self.describe(call, &request.query).await?;
        let parameter_schema = match description.parameters.as_slice() {
            [] => Bytes::new(),
            types => info::encoded(&info::parameters_schema(types))?,
        };
        // A statement without columns is run by its count: so clients tell it from a query.
        let dataset_schema = match description.command.gives_rows() {
            true => info::encoded(&description.schema.to_outer_arrow())?,
            false => Bytes::new(),
        };
        let prepared_statement_handle = self.prepared.add(&request.query)?;
        let made = ActionCreatePreparedStatementResult {
            prepared_statement_handle,
            dataset_schema,
            parameter_schema,
        };
        Ok(ActionResult { body: made.as_any().encode_to_vec().into() })
    }

    /// Forgets a prepared statement.
    pub(super) fn close(&self, body: &[u8]) -> Result<()> {
        let request: ActionClosePreparedStatementRequest = unpacked(body)?;
        self.prepared.close(&request.prepared_statement_handle);
        Ok(())
    }
}

/// The message in an action's body.
fn unpacked<M: ProstMessageExt>(body: &[u8]) -> Result<M> {
    let wrong = || RequestError::protocol("the action's body is not its message");
    let any = Any::decode(body).map_err(|_| wrong())?;
    any.unpack().map_err(|_| wrong())?.ok_or_else(wrong)
}
