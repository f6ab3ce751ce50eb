//! Rows for a table, as ADBC sends them: into one that is there, or into a new one.

use std::{collections::VecDeque, sync::Arc};

use arrow_array::RecordBatch;
use arrow_flight::{
    FlightData,
    sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption},
};
use basalt_core::{schema::Schema, table::Table};
use basalt_proto::v1::{self as pb, ErrorReason};
use basalt_storage::Deletes;
use prost::bytes::Bytes;
use tokio::runtime::Handle;
use tonic::Streaming;

use super::{Flight, catalog, command, next, put::late};
use crate::{
    access::{Action, Object},
    call::Call,
    convert::{self, MessageReader},
    coordinator::fresh,
    drafts::{Draft, New},
    memory::{Consumer, Reservation},
    services::Write,
    status::{RequestError, Result},
    tables::Gone,
    writes::Stream,
};

/// What is to become of a table that is there, and of one that is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mode {
    creates: bool,
    exists: Exists,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exists {
    Fail,
    Append,
    Replace,
}

impl Mode {
    fn of(ingest: &CommandStatementIngest) -> Result<Self> {
        let options = ingest.table_definition_options.unwrap_or_default();
        let creates = match options.if_not_exist() {
            TableNotExistOption::Create => true,
            TableNotExistOption::Fail | TableNotExistOption::Unspecified => false,
        };
        let exists = match options.if_exists() {
            TableExistsOption::Append => Exists::Append,
            TableExistsOption::Replace => Exists::Replace,
            TableExistsOption::Fail | TableExistsOption::Unspecified => Exists::Fail,
        };
        if !creates && exists == Exists::Fail {
            let message = "rows for a table that must be neither there nor new";
            return Err(RequestError::protocol(message).at("table_definition_options"));
        }
        Ok(Self { creates, exists })
    }
}

/// The rows of a stream of messages.
struct Incoming {
    messages: Streaming<FlightData>,
    reader: MessageReader,
    /// For what the reader keeps.
    held: Reservation,
}

impl Incoming {
    /// The next batch and the bytes that it came in; `None`: there are no more.
    async fn next(&mut self, call: &Call, stream: &Stream) -> Result<Option<(RecordBatch, u64)>> {
        loop {
            let message = stream.wait(next(&mut self.messages, late(call)?)).await??;
            let Some(FlightData { data_header, data_body, .. }) = message else { return Ok(None) };
            if data_header.is_empty() {
                continue;
            }
            let bytes = (data_header.len() + data_body.len()) as u64;
            if let Some(batch) = self.read(&data_header, data_body)? {
                return Ok(Some((batch, bytes)));
            }
        }
    }

    /// Reads a message, and counts what is kept of it.
    fn read(&mut self, header: &[u8], body: Bytes) -> Result<Option<RecordBatch>> {
        let read = self.reader.read(header, body)?;
        self.held.set(self.reader.held())?;
        Ok(read)
    }
}

impl Flight {
    /// Writes all rows of a stream, or none; the answer is their number.
    pub(super) async fn ingest(
        &self,
        call: &mut Call,
        ingest: CommandStatementIngest,
        first: FlightData,
        messages: Streaming<FlightData>,
    ) -> Result<u64> {
        command::without_transaction(ingest.transaction_id.as_ref())?;
        let mode = Mode::of(&ingest)?;
        for (given, known) in [(&ingest.catalog, catalog::CATALOG), (&ingest.schema, catalog::SCHEMA)] {
            if given.as_deref().is_some_and(|given| !given.is_empty() && given != known) {
                let message = format!("there is no {given:?}; all tables are in {known:?}");
                return Err(RequestError::new(ErrorReason::TableNotFound, message));
            }
        }
        if ingest.temporary {
            let message = "there are no temporary tables";
            return Err(RequestError::new(ErrorReason::InvalidQuery, message).at("temporary"));
        }
        let name = ingest.table;
        call.may(Action::Write, Object::Table(&name))?;
        let stream = self.state.writes.open(call.connection().id())?;
        let held = self.state.memory.reserve(Consumer::Writes).of(call.caller().account());
        let mut incoming = Incoming { messages, reader: MessageReader::default(), held };
        let (header, body) = (first.data_header, first.data_body);
        let mut ahead = VecDeque::new();
        if !header.is_empty()
            && let Some(batch) = incoming.read(&header, body)?
        {
            ahead.push_back((batch, header.len() as u64));
        }
        if incoming.reader.schema().is_none() {
            ahead.extend(incoming.next(call, &stream).await?);
        }
        let schema = incoming.reader.schema().cloned();
        let schema = schema.ok_or_else(|| RequestError::protocol("a stream without a schema"))?;
        let columns: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();

        let known = match fresh::table(&self.state, &name).await {
            Err(error) if error.reason() == "TABLE_NOT_FOUND" => None,
            known => Some(known?),
        };
        let is_there = || known.is_some() || self.state.catalog.find(&name).is_ok();
        let mut turn = None;
        if mode.creates && !is_there() {
            // Default: rows may be many, without another word they have the longest time.
            let deadline = call.deadline()?.unwrap_or(call.at() + self.state.max_deadline);
            turn = Some(self.state.made.turn(&name, deadline).await?);
        }
        // Another load may have made it by then.
        let is_there = is_there();
        let turn = turn.filter(|_| !is_there);
        let mut gone = Vec::new();
        let draft = match (is_there, mode) {
            (true, Mode { exists: Exists::Append, .. }) => None,
            (true, Mode { exists: Exists::Fail, .. }) => {
                let message = format!("table {name:?} exists");
                return Err(RequestError::new(ErrorReason::TableExists, message).at("table"));
            }
            (false, Mode { creates: false, .. }) => {
                return Err(
                    RequestError::new(ErrorReason::TableNotFound, format!("no table {name:?}")).at("table")
                );
            }
            (true, Mode { exists: Exists::Replace, .. }) => {
                call.may(Action::Drop, Object::Table(&name))?;
                call.may(Action::Create, Object::Table(&name))?;
                // The old rows are there until all of the new ones are.
                gone.push(Gone { name: name.clone(), id: None, at: None });
                Some(self.draft(call, &name, convert::table_schema(&schema)?).await?)
            }
            (false, Mode { creates: true, .. }) => {
                call.may(Action::Create, Object::Table(&name))?;
                let draft = self.draft(call, &name, convert::table_schema(&schema)?).await?;
                Some(match turn {
                    Some(turn) => draft.in_turn(turn),
                    None => draft,
                })
            }
        };
        let table = match (&draft, known) {
            (Some(draft), _) => Arc::clone(draft.table()),
            (None, Some(known)) => known,
            (None, None) => self.state.catalog.get(&name)?,
        };
        let written = self.write(call, &stream, table, columns, &mut incoming, ahead).await;
        match (draft, &written) {
            (Some(draft), Ok(_)) => draft.publish(gone).await?,
            (Some(draft), Err(_)) => draft.discard().await,
            (None, _) => {}
        }
        written
    }

    async fn write(
        &self,
        call: &mut Call,
        stream: &Arc<Stream>,
        table: Arc<Table>,
        columns: Vec<String>,
        incoming: &mut Incoming,
        mut ahead: VecDeque<(RecordBatch, u64)>,
    ) -> Result<u64> {
        let open = pb::Open { table: table.name().to_owned(), columns, ..pb::Open::default() };
        call.table = Some(Arc::clone(&table));
        let mut write = Write::to(&self.state, call.caller(), table, &open)?;
        loop {
            let next = match ahead.pop_front() {
                Some(next) => Some(next),
                None => incoming.next(call, stream).await?,
            };
            let Some((batch, bytes)) = next else { break };
            stream.take_place()?;
            write = write.take_arrow(bytes, batch).await?;
        }
        stream.take_place()?;
        Ok(write.commit(Arc::clone(stream)).await?.rows)
    }

    async fn draft(&self, call: &Call, name: &str, schema: Schema) -> Result<Draft> {
        let new = New { name: name.to_owned(), schema, retention: None, deletes: Deletes::default() };
        Draft::make(&self.state, call.caller(), &Handle::current(), new).await
    }
}

#[cfg(test)]
mod tests {
    use arrow_flight::sql::TableDefinitionOptions;

    use super::*;

    #[test]
    fn the_modes_of_adbc_are_known() {
        let mode = |if_not_exist: TableNotExistOption, if_exists: TableExistsOption| {
            let options =
                TableDefinitionOptions { if_not_exist: if_not_exist.into(), if_exists: if_exists.into() };
            let options = Some(options);
            let ingest = CommandStatementIngest {
                table_definition_options: options,
                ..CommandStatementIngest::default()
            };
            Mode::of(&ingest).map(|mode| (mode.creates, mode.exists))
        };
        let (create, no) = (TableNotExistOption::Create, TableNotExistOption::Fail);
        assert_eq!(mode(create, TableExistsOption::Fail).unwrap(), (true, Exists::Fail));
        assert_eq!(mode(no, TableExistsOption::Append).unwrap(), (false, Exists::Append));
        assert_eq!(mode(create, TableExistsOption::Replace).unwrap(), (true, Exists::Replace));
        assert_eq!(mode(create, TableExistsOption::Append).unwrap(), (true, Exists::Append));
        assert!(mode(no, TableExistsOption::Fail).is_err());
    }
}
