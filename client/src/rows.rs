//! Rows of an answer as types of the program's own.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
    vec,
};

use arrow_array::RecordBatch;
use futures_core::Stream;
use serde::de::DeserializeOwned;

use crate::{
    answer::{QueryResult, QueryStream},
    error::{Error, Result},
};

impl QueryResult {
    /// The rows as values of a type whose fields are named like the columns; columns without a field are left out. With the
    /// feature `serde`.
    ///
    /// | column | field |
    /// |---|---|
    /// | integers, floats, bool, utf8 | Rust's types, and wider ones |
    /// | anything that may be null | `Option` of it |
    /// | decimal | `String`, or a type that is read from one |
    /// | date, time, timestamp | `String` (ISO 8601), a type that is read from one such as those of `chrono`, or the number that Arrow holds |
    /// | binary | a type that is read from bytes |
    ///
    /// # Errors
    /// [`Error::Rows`] where a column is missing, or has a value that the field cannot hold, a null among them.
    ///
    /// ```no_run
    /// # async fn example(client: &basalt_client::Client) -> basalt_client::Result<()> {
    /// use basalt_client::{avg, col, count};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Carrier {
    ///     carrier: String,
    ///     n: i64,
    ///     delay: Option<f64>,
    /// }
    ///
    /// let columns = [col("carrier"), count().alias("n"), avg(col("dep_delay")).alias("delay")];
    /// let answer = client.query("flights").select(columns).group_by([col("carrier")]).collect().await?;
    /// for Carrier { carrier, n, delay } in answer.rows::<Carrier>()? {
    ///     println!("{carrier}: {n} flights, {delay:?} minutes late");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn rows<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        for batch in &self.batches {
            rows.extend(rows_of(batch)?);
        }
        Ok(rows)
    }
}

impl QueryStream {
    /// The rows as they come, as [`QueryResult::rows`] has them. With the feature `serde`.
    ///
    /// ```no_run
    /// # async fn example(client: &basalt_client::Client) -> basalt_client::Result<()> {
    /// use basalt_client::cols;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Flight {
    ///     origin: String,
    ///     dep_delay: Option<f64>,
    /// }
    ///
    /// let flights = client.query("flights").select(cols(["origin", "dep_delay"])).stream().await?;
    /// let mut flights = flights.rows::<Flight>();
    /// while let Some(flight) = flights.next().await? {
    ///     println!("{} {:?}", flight.origin, flight.dep_delay);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn rows<T: DeserializeOwned>(self) -> RowStream<T> {
        RowStream { batches: self, ready: Vec::new().into_iter(), has_failed: false }
    }
}

/// The rows of an answer as they come, a [`Stream`]; made by [`QueryStream::rows`]. The answer is complete when it has ended
/// without an error, and only then.
pub struct RowStream<T> {
    batches: QueryStream,
    /// The rest of the batch that came last.
    ready: vec::IntoIter<T>,
    has_failed: bool,
}

// A row is only ever moved.
impl<T> Unpin for RowStream<T> {}

impl<T: DeserializeOwned> RowStream<T> {
    /// The next row; `None` when the answer is complete. The stream as a [`Stream`] says the same.
    ///
    /// # Errors
    /// Those of [`QueryStream::next`], and [`Error::Rows`].
    pub async fn next(&mut self) -> Result<Option<T>> {
        if self.has_failed {
            return Err(Error::Incomplete);
        }
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await.transpose()
    }

    /// The answer itself: its columns, its version and what it took.
    pub fn answer(&self) -> &QueryStream {
        &self.batches
    }
}

impl<T: DeserializeOwned> Stream for RowStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(row) = self.ready.next() {
                return Poll::Ready(Some(Ok(row)));
            }
            if self.has_failed {
                return Poll::Ready(None);
            }
            let rows = match ready!(Pin::new(&mut self.batches).poll_next(cx)) {
                None => return Poll::Ready(None),
                Some(batch) => batch.and_then(|batch| rows_of(&batch)),
            };
            match rows {
                Ok(rows) => self.ready = rows.into_iter(),
                Err(error) => {
                    self.has_failed = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

impl<T> fmt::Debug for RowStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowStream").field("batches", &self.batches).field("ready", &self.ready.len()).finish()
    }
}

fn rows_of<T: DeserializeOwned>(batch: &RecordBatch) -> Result<Vec<T>> {
    serde_arrow::from_record_batch(batch).map_err(|error| Error::Rows(Box::new(error)))
}
