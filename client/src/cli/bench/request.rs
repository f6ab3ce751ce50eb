//! One request of a load: made by chance, sent, and its answer checked.

use std::{fmt, time::Duration};

use arrow_array::{Array, RecordBatch, cast::AsArray as _, types};
use arrow_schema::DataType;
use tokio::time::timeout;

use super::{
    data::{self, AMOUNTS, EVENTS, KIND_COUNT, KINDS, PREPARED_IDS, Random, SEGMENTS, Total, Truth, USERS},
    mix::Operation,
};
use crate::{
    answer::QueryResult,
    client::Client,
    error::Error,
    expr::{col, count, sum},
    options::WriteOptions,
    set::keys_of,
};

/// Rows of the answer of a heavy query.
const HEAVY_ROWS: usize = 10;

/// A request with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// The event with an id.
    Point { id: u64 },
    /// The events of a kind with an amount from `low` up to `end`.
    Filter { kind: usize, low: u32, end: u32 },
    /// All events with an amount below `end`, by kind.
    Group { end: u32 },
    /// The events of a segment's users.
    SemiJoin { segment: u32 },
    /// New events with ids from `first`.
    Write { first: i64, rows: u32 },
    /// All events by user and kind, the first [`HEAVY_ROWS`] of the groups.
    Heavy,
}

/// Why a request failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// It was not answered.
    Call(Error),
    /// It was answered, and the answer is not the truth.
    Wrong(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

impl Failure {
    /// A word for it: the server's reason, or what the client found out by itself.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Wrong(_) => "WRONG_ANSWER".to_owned(),
            Self::Call(Error::Server(error)) => error.reason_name(),
            Self::Call(Error::Connection { .. }) => "CONNECTION".to_owned(),
            Self::Call(Error::Deadline) => "DEADLINE".to_owned(),
            Self::Call(Error::Incomplete) => "INCOMPLETE".to_owned(),
            Self::Call(_) => "CLIENT".to_owned(),
        }
    }

    /// Whether another node, or the same one later, may answer the same request.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Wrong(_) => false,
            Self::Call(Error::Deadline) => true,
            Self::Call(error) => error.is_retryable() || self.reason() == "DEADLINE_EXCEEDED",
        }
    }
}

impl Request {
    /// A request of the wanted kind; for a write, `first` gives the first of so many new ids.
    pub(super) fn new(
        operation: Operation,
        truth: &Truth,
        random: &mut Random,
        write_rows: u32,
        first: impl FnOnce() -> i64,
    ) -> Self {
        match operation {
            Operation::Point => Self::Point { id: random.below(truth.events()) },
            Operation::Filter => {
                let kind = random.below_small(KIND_COUNT) as usize;
                let low = random.below_small(AMOUNTS);
                Self::Filter { kind, low, end: low + random.below_small(AMOUNTS - low) }
            }
            Operation::Group => Self::Group { end: random.below_small(AMOUNTS) + 1 },
            Operation::SemiJoin => Self::SemiJoin { segment: random.below_small(SEGMENTS) },
            Operation::Write => Self::Write { first: first(), rows: write_rows },
            Operation::Heavy => Self::Heavy,
        }
    }

    /// Sends it once and checks the answer.
    pub(super) async fn send(&self, client: &Client, truth: &Truth) -> Result<(), Failure> {
        // The server is to say that the deadline has passed; one that is cut off says nothing.
        let patience = client.options().deadline + Duration::from_millis(500);
        match timeout(patience, self.ask(client, truth)).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::Call(Error::Deadline)),
        }
    }

    async fn ask(&self, client: &Client, truth: &Truth) -> Result<(), Failure> {
        let totals = || [count(), sum(col("amount"))];
        let in_range = |low: u32, end: u32| col("amount").ge(low).and(col("amount").lt(end));
        let query = client.query(EVENTS);
        match *self {
            Self::Point { id } => {
                let columns = ["user", "kind", "amount"].map(col);
                let answer = query.select(columns).filter(col("id").eq(id)).collect().await?;
                let event = data::event(id);
                let wanted = [event.user, event.amount].map(|n| Some(i128::from(n)));
                check(&wanted, &[integer(&answer, 0, 0), integer(&answer, 2, 0)], &answer, 1)?;
                check(&Some(KINDS[event.kind]), &text(&answer, 1, 0), &answer, 1)
            }
            Self::Filter { kind, low, end } => {
                let filter = col("kind").eq(KINDS[kind]).and(in_range(low, end));
                let answer = query.select(totals()).filter(filter).collect().await?;
                check(&Some(truth.range(kind, low, end)), &total(&answer, 0, 0), &answer, 1)
            }
            Self::Group { end } => {
                let columns = [col("kind")].into_iter().chain(totals());
                let answer =
                    query.select(columns).filter(in_range(0, end)).group_by([col("kind")]).collect().await?;
                let mut wanted: Vec<_> = KINDS.iter().zip(0..).collect();
                wanted.sort_unstable();
                wanted.retain(|(_, kind)| truth.range(*kind, 0, end).count > 0);
                for (row, (name, kind)) in wanted.iter().enumerate() {
                    check(&Some(**name), &text(&answer, 0, row), &answer, wanted.len())?;
                    let truth = truth.range(*kind, 0, end);
                    check(&Some(truth), &total(&answer, 1, row), &answer, wanted.len())?;
                }
                Ok(())
            }
            Self::SemiJoin { segment } => {
                let users = keys_of(USERS, "id").filter(col("segment").eq(segment));
                let answer = query.select(totals()).filter(col("user").in_keys(users)).collect().await?;
                check(&Some(truth.segment(segment)), &total(&answer, 0, 0), &answer, 1)
            }
            Self::Write { first, rows } => {
                // The same id in every try, at every node: no row is ever there twice.
                let options =
                    WriteOptions { request_id: format!("bench-{first:x}"), ..WriteOptions::default() };
                let mut writer = client.write(EVENTS, options).await?;
                writer.send(&data::written(first, rows)).await?;
                writer.commit().await?;
                Ok(())
            }
            Self::Heavy => {
                let keys = || ["user", "kind"].map(col);
                // Written events are not meant.
                let query = query.select(keys().into_iter().chain(totals())).filter(in_range(0, AMOUNTS));
                let query = query.group_by(keys()).order_by(["user", "kind"].map(|key| col(key).asc()));
                let answer = query.limit(HEAVY_ROWS as u64).collect().await?;
                let wanted = truth.groups(HEAVY_ROWS);
                for (row, (user, kind, truth)) in wanted.iter().enumerate() {
                    check(&Some(i128::from(*user)), &integer(&answer, 0, row), &answer, wanted.len())?;
                    check(&Some(*kind), &text(&answer, 1, row), &answer, wanted.len())?;
                    check(&Some(*truth), &total(&answer, 2, row), &answer, wanted.len())?;
                }
                Ok(())
            }
        }
    }
}

/// How many of the rows with ids from `first` up to `end` a table has, and how many different ids.
pub(super) async fn written(client: &Client, first: i64, end: i64) -> Result<(u64, u64), Error> {
    let ids = || col("id").ge(first).and(col("id").lt(end));
    let columns = [count(), crate::expr::count_distinct(col("id"))];
    let answer = client.query(EVENTS).select(columns).filter(ids()).collect().await?;
    let number = |column| integer(&answer, column, 0).and_then(|n| u64::try_from(n).ok()).unwrap_or_default();
    Ok((number(0), number(1)))
}

/// How many prepared events there are, and the largest id.
pub(super) async fn prepared(client: &Client) -> Result<(u64, Option<i128>), Error> {
    let columns = [count(), crate::expr::max(col("id"))];
    let answer = client.query(EVENTS).select(columns).filter(col("id").lt(PREPARED_IDS)).collect().await?;
    let rows = integer(&answer, 0, 0).and_then(|n| u64::try_from(n).ok()).unwrap_or_default();
    Ok((rows, integer(&answer, 1, 0)))
}

fn check<T: PartialEq + fmt::Debug>(
    wanted: &T,
    got: &T,
    answer: &QueryResult,
    rows: usize,
) -> Result<(), Failure> {
    if got == wanted && answer.rows == rows as u64 {
        return Ok(());
    }
    Err(Failure::Wrong(format!(
        "version {}: {got:?} in {} rows, where {wanted:?} in {rows} is true",
        answer.version, answer.rows
    )))
}

fn total(answer: &QueryResult, column: usize, row: usize) -> Option<Total> {
    let count = u64::try_from(integer(answer, column, row)?).ok()?;
    // The sum of no rows is null.
    let sum = integer(answer, column + 1, row).unwrap_or_default();
    Some(Total { count, sum: u64::try_from(sum).ok()? })
}

/// The batch that a row of an answer is in, and its place there.
fn locate(answer: &QueryResult, mut row: usize) -> Option<(&RecordBatch, usize)> {
    for batch in &answer.batches {
        match row.checked_sub(batch.num_rows()) {
            Some(rest) => row = rest,
            None => return Some((batch, row)),
        }
    }
    None
}

fn integer(answer: &QueryResult, column: usize, row: usize) -> Option<i128> {
    let (batch, row) = locate(answer, row)?;
    let array = batch.columns().get(column).filter(|array| !array.is_null(row))?;
    Some(match array.data_type() {
        DataType::Int32 => array.as_primitive::<types::Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<types::Int64Type>().value(row).into(),
        DataType::UInt64 => array.as_primitive::<types::UInt64Type>().value(row).into(),
        _ => return None,
    })
}

fn text(answer: &QueryResult, column: usize, row: usize) -> Option<&str> {
    let (batch, row) = locate(answer, row)?;
    let array = batch.columns().get(column)?.as_string_opt::<i32>()?;
    array.is_valid(row).then(|| array.value(row))
}
