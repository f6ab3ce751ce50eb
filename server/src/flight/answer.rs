//! Rows on their way out, as messages of Flight.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use arrow_flight::{FlightData, encode::FlightDataEncoderBuilder, error::FlightError};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use basalt_proto::v1::ErrorReason;
use futures_util::{StreamExt as _, stream};
use tonic::Status;

use super::{Many, unwritten};
use crate::{
    call::Call,
    limits,
    sql::RowStream,
    status::{RequestError, Result},
};

/// The one column of what a statement answers that is no query: how many rows it has written.
const ROWS: &str = "rows";

/// What the ticket of a count begins with, as no statement does.
pub(super) const COUNT: char = '\0';

/// The columns of a count.
pub(super) fn counted_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(ROWS, DataType::Int64, true)]))
}

/// A count as an answer.
fn counted(rows: i64) -> Result<RecordBatch> {
    let column = Arc::new(Int64Array::from(vec![rows]));
    RecordBatch::try_new(counted_schema(), vec![column]).map_err(unwritten)
}

/// The rows that answer a ticket.
pub(super) enum Rows {
    /// A list that is there already.
    Whole(RecordBatch),
    /// Those of a statement that runs.
    Running(RowStream),
    /// How many rows a statement has written.
    Counted(i64),
}

impl Rows {
    fn schema(&self) -> SchemaRef {
        match self {
            Self::Whole(batch) => batch.schema(),
            Self::Running(rows) => Arc::clone(rows.schema()),
            Self::Counted(_) => counted_schema(),
        }
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self {
            Self::Running(rows) => rows.next().await,
            Self::Whole(batch) => {
                let rows = (batch.num_rows() > 0).then(|| batch.clone());
                *self = Self::Whole(batch.slice(0, 0));
                Ok(rows)
            }
            Self::Counted(rows) => {
                let batch = counted(*rows)?;
                *self = Self::Whole(batch.slice(0, 0));
                Ok(Some(batch))
            }
        }
    }
}

/// What is under way of an answer.
struct Sending {
    call: Call,
    rows: Rows,
    /// An error is the last message.
    is_over: bool,
}

impl Sending {
    async fn next(&mut self) -> Option<std::result::Result<RecordBatch, FlightError>> {
        if self.is_over {
            return None;
        }
        match self.rows.next().await {
            Ok(Some(batch)) => {
                self.call.rows += batch.num_rows() as u64;
                Some(Ok(batch))
            }
            Ok(None) => {
                self.call.done();
                None
            }
            Err(error) => {
                self.is_over = true;
                Some(Err(FlightError::Tonic(Box::new(self.call.fail(error)))))
            }
        }
    }
}

/// The messages of an answer. An answer that is not complete ends in an error.
pub(super) fn stream(call: Call, rows: Rows) -> Many<FlightData> {
    let schema = rows.schema();
    let sending = Sending { call, rows, is_over: false };
    let batches = stream::unfold(sending, async |mut sending| {
        let next = sending.next().await?;
        Some((next, sending))
    });
    let messages = FlightDataEncoderBuilder::new()
        .with_schema(schema)
        .with_max_flight_data_size(limits::ANSWER_MESSAGE_BYTES)
        .build(batches);
    // What comes after an error is not an answer.
    let messages =
        messages.map(|message| message.map_err(status).and_then(fits)).scan(false, |failed, message| {
            let goes_on = !std::mem::replace(failed, message.is_err());
            std::future::ready(goes_on.then_some(message))
        });
    Box::pin(messages)
}

fn status(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        error => unwritten(error).into(),
    }
}

/// A row that is longer than a message may be ends the answer.
fn fits(message: FlightData) -> std::result::Result<FlightData, Status> {
    let bytes = message.data_body.len() + message.data_header.len();
    if bytes <= limits::ROW_BYTES {
        return Ok(message);
    }
    let text = format!("a row of the answer takes {bytes} bytes; a message holds {}", limits::ROW_BYTES);
    let error = RequestError::new(ErrorReason::MessageTooLarge, text);
    Err(error.with("limit_bytes", limits::ROW_BYTES as u64).into())
}
