//! Selections: a filter's answer as a set.

use std::{future::IntoFuture, marker::PhantomData, pin::Pin, time::Duration};

use basalt_proto::v1;
use basalt_sip::Tag;

use super::{Domain, Kept, Keys, Rows, Set, malformed};
use crate::{client::Client, error::Result, plan::Statistics, query::Query};

/// A selection, being built; awaiting it runs it.
///
/// ```no_run
/// # async fn example(client: &basalt_client::Client) -> basalt_client::Result<()> {
/// use std::time::Duration;
///
/// use basalt_client::{avg, col, count};
///
/// // Rows, for later queries on the same version of the table.
/// let late = client.query("flights").filter(col("dep_delay").gt(60)).select_rows().await?;
/// println!("{} rows in {} bytes", late.cardinality, late.bytes.len());
/// let of_them = client.query("flights").select([count(), avg(col("distance"))]).rows(&late).collect().await?;
///
/// // Values, for any table; kept on the server for ten minutes, so that filters only name them.
/// let years = client.query("planes").filter(col("engines").gt(2)).select_keys("year");
/// let years = years.keep(Duration::from_secs(600)).await?;
/// let same_age = client.query("planes").filter(!col("year").in_keys(&years)).collect().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a selection runs when it is awaited"]
pub struct Select<D> {
    client: Client,
    request: v1::SelectRequest,
    of: PhantomData<fn() -> D>,
}

impl Query {
    /// The addresses of the rows that the filter selects, for [`Query::rows`] of a later query. Only the
    /// table, the filter and the version count.
    pub fn select_rows(self) -> Select<Rows> {
        self.select_set(String::new())
    }

    /// The distinct values of `column` in the rows that the filter selects, for
    /// [`Expr::in_keys`](crate::Expr::in_keys) of a later query. Only the table, the filter and the version
    /// count. Texts and floats have no ids: [`keys_of`](crate::keys_of) takes texts too.
    pub fn select_keys(self, column: impl Into<String>) -> Select<Keys> {
        self.select_set(column.into())
    }

    fn select_set<D>(self, key: String) -> Select<D> {
        let (client, v1::QueryRequest { table, filter, version, .. }) = self.into_parts();
        let request = v1::SelectRequest { table, filter, version, key, ..Default::default() };
        Select { client, request, of: PhantomData }
    }
}

impl<D: Domain> Select<D> {
    pub(crate) fn of_request(client: Client, request: v1::SelectRequest) -> Self {
        Self { client, request, of: PhantomData }
    }

    /// The encoding, for those who read the bytes without this crate; the smallest one otherwise.
    pub fn tag(mut self, tag: Tag) -> Self {
        self.request.tag = i32::from(tag as u8);
        self
    }

    /// Keeps the set on the server for so long, at most 24 hours: filters then name it by its
    /// [`Handle`](super::Handle).
    pub fn keep(mut self, time: Duration) -> Self {
        self.request.keep_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
        self
    }

    /// Keeps the set on the server for so long, and leaves its bytes there: it may then be larger than a
    /// message.
    pub fn only_kept(mut self, time: Duration) -> Self {
        self.request.omit_sip = true;
        self.keep(time)
    }

    async fn run(self) -> Result<Set<D>> {
        let Self { client, request, .. } = self;
        let asked = &request;
        let answer = client.retrying(|call| async move {
            call.call(call.queries().select(call.request(asked.clone())?)).await
        });
        let answer = answer.await?;
        if answer.sip.is_empty() != request.omit_sip {
            return Err(malformed("a set with other bytes than were asked for"));
        }
        let mut set = Set::from_answer(answer.scope, answer.sip, answer.cardinality)?;
        set.statistics = answer.statistics.map(Statistics::from).unwrap_or_default();
        if request.keep_ms > 0 {
            set.kept = Some(Kept::from_proto(&answer.handle, answer.expires_ms)?);
        }
        Ok(set)
    }
}

impl<D: Domain> IntoFuture for Select<D> {
    type Output = Result<Set<D>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// Runs it. Tried again when the server is not available.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
