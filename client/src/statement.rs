//! SQL statements over all tables, which the server plans.

use basalt_proto::v1::{self, Format};

use crate::{
    answer::{QueryResult, QueryStream},
    call::Call,
    client::Client,
    error::Result,
    expr::Literal,
};

/// A SQL statement; [`Statement::collect`] or [`Statement::stream`] runs it.
///
/// ```no_run
/// # async fn example(client: &basalt_client::Client) -> basalt_client::Result<()> {
/// let answer = client
///     .sql("SELECT name, count(*) FROM flights JOIN airlines USING (carrier) WHERE dep_delay > $1 GROUP BY name")
///     .bind(60)
///     .collect()
///     .await?;
/// for batch in &answer.batches {
///     println!("{batch:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Statement {
    client: Client,
    request: v1::SqlRequest,
}

impl Client {
    /// A statement. A server that is built without SQL answers UNIMPLEMENTED.
    pub fn sql(&self, sql: impl Into<String>) -> Statement {
        let request =
            v1::SqlRequest { sql: sql.into(), parameters: Vec::new(), format: Format::Columns.into() };
        Statement { client: self.clone(), request }
    }
}

impl Statement {
    /// The value of the next parameter: `$1`, `$2`, ..., or each `?` in turn.
    #[must_use]
    pub fn bind(mut self, value: impl Into<Literal>) -> Self {
        self.request.parameters.push(value.into().into());
        self
    }

    /// Has the batches travel as Arrow IPC instead of packed arrays; the answer is the same.
    #[must_use]
    pub fn as_arrow_ipc(mut self) -> Self {
        self.request.format = Format::ArrowIpc.into();
        self
    }

    /// Runs the statement and gathers the whole answer. A query is tried again when the server is not available; a
    /// statement that writes is not: it may have been done.
    ///
    /// # Errors
    /// What the server objects to, with its line and column; [`Error::Incomplete`](crate::Error::Incomplete).
    pub async fn collect(self) -> Result<QueryResult> {
        match may_repeat(&self.request.sql) {
            true => {
                let statement = &self;
                self.client.retrying(|call| async move { statement.open(call).await?.gather().await }).await
            }
            false => self.open(self.client.once()).await?.gather().await,
        }
    }

    /// Runs the statement and gives its batches as they come.
    ///
    /// # Errors
    /// Those of [`Statement::collect`].
    pub async fn stream(self) -> Result<QueryStream> {
        match may_repeat(&self.request.sql) {
            true => self.client.retrying(|call| self.open(call)).await,
            false => self.open(self.client.once()).await,
        }
    }

    async fn open(&self, call: Call) -> Result<QueryStream> {
        let request = call.request(self.request.clone())?;
        let messages = call.call(call.statements().query(request)).await?;
        QueryStream::open(call, messages).await
    }
}

/// First words of statements that only read.
const READS: [&str; 10] =
    ["select", "with", "values", "from", "table", "explain", "show", "describe", "desc", "summarize"];

/// Words that write, which may stand behind the queries of a WITH.
const WRITES: [&str; 4] = ["insert", "update", "delete", "merge"];

/// Whether a statement may be run twice: it only reads. One that begins with WITH and has a word that writes may do that.
pub(crate) fn may_repeat(sql: &str) -> bool {
    let mut words = sql.split(|c: char| !c.is_alphanumeric() && c != '_');
    let is_with = first_word(sql).eq_ignore_ascii_case("with");
    let may_write = is_with && words.any(|word| WRITES.iter().any(|write| word.eq_ignore_ascii_case(write)));
    is_query(sql) && !may_write
}

/// Whether a statement only reads, by its first word.
pub(crate) fn is_query(sql: &str) -> bool {
    READS.iter().any(|word| first_word(sql).eq_ignore_ascii_case(word))
}

/// The first word of a statement.
pub(crate) fn first_word(sql: &str) -> &str {
    let begins = |c: char| c == '(' || c.is_whitespace();
    sql.trim_start_matches(begins).split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_writes_is_not_repeated() {
        for (sql, repeats) in [
            ("SELECT 1", true),
            (" (with c AS (SELECT 1) SELECT * FROM c)", true),
            ("WITH c AS (SELECT deleted FROM t) SELECT * FROM c", true),
            ("WITH c AS (SELECT 1) INSERT INTO t SELECT * FROM c", false),
            ("with c as (select 1)delete from t", false),
            ("SELECT 'update'", true),
            ("INSERT INTO t VALUES (1)", false),
        ] {
            assert_eq!(may_repeat(sql), repeats, "{sql}");
        }
    }
}
