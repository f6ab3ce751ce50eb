//! Queries that run: who asks what, for how long, and how to stop it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use basalt_proto::v1 as pb;

use crate::{client::Client, error::Result};

/// How far a query is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryState {
    /// It waits for its turn, or is being planned.
    Planning,
    /// Rows are read, or are on their way to the client.
    Running,
    /// It was asked to stop.
    Cancelling,
    /// A newer server says something else.
    Unknown,
}

/// What runs at the nodes of a cluster.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RunningQueries {
    /// The oldest first.
    pub queries: Vec<RunningQuery>,
    /// The nodes that did not answer, of whose queries nothing is known. None: the list is complete.
    pub unanswered: Vec<UnansweredNode>,
}

/// A node that did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnansweredNode {
    /// As the others reach it.
    pub node: String,
    /// Why there is no answer.
    pub problem: String,
}

/// A query that runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunningQuery {
    /// No other query of any server has it.
    pub id: String,
    /// The statement, or the request as a statement; its beginning, where it is long. Empty until it is known.
    pub text: String,
    /// The method that it came by, as the server's log and metrics have it.
    pub method: String,
    /// Its address, and the name of its key.
    pub caller: String,
    /// When it came.
    pub started: SystemTime,
    /// For how long it runs.
    pub elapsed: Duration,
    /// How far it is.
    pub state: QueryState,
    /// Rows of its answer that have been made.
    pub rows: u64,
    /// The node that was asked for it; empty for a server without a cluster.
    pub node: String,
}

impl From<pb::RunningQuery> for RunningQuery {
    fn from(query: pb::RunningQuery) -> Self {
        let state = match query.state() {
            pb::QueryState::Planning => QueryState::Planning,
            pb::QueryState::Running => QueryState::Running,
            pb::QueryState::Cancelling => QueryState::Cancelling,
            pb::QueryState::Unspecified => QueryState::Unknown,
        };
        Self {
            id: query.id,
            text: query.text,
            method: query.method,
            caller: query.caller,
            // Default: a time before 1970 is none that a query came at.
            started: UNIX_EPOCH + Duration::from_micros(query.started_us.try_into().unwrap_or_default()),
            elapsed: Duration::from_millis(query.elapsed_ms),
            state,
            rows: query.rows,
            node: query.node,
        }
    }
}

impl Client {
    /// The queries that run at all nodes of the cluster: the caller's own, or all where its key may observe the server.
    /// A node that does not answer within half a second is named.
    ///
    /// # Errors
    /// Those of the connection, and of a key that may not.
    pub async fn running_queries(&self) -> Result<RunningQueries> {
        let listed = self.retrying(|call| async move {
            call.call(call.queries().list_queries(call.request(pb::ListQueriesRequest {})?)).await
        });
        let pb::ListQueriesResponse { queries, unanswered } = listed.await?;
        let unanswered = unanswered
            .into_iter()
            .map(|pb::UnansweredNode { node, problem }| UnansweredNode { node, problem });
        Ok(RunningQueries {
            queries: queries.into_iter().map(RunningQuery::from).collect(),
            unanswered: unanswered.collect(),
        })
    }

    /// Stops a query, at whichever node it runs; whoever waits for its answer gets the error `CANCELLED`.
    ///
    /// # Errors
    /// `QUERY_NOT_FOUND`: it does not run, or is another's that the caller may not see; `PERMISSION_DENIED`: it is
    /// another's, and the caller is no administrator; `INCOMPLETE`: the node where it runs does not answer.
    pub async fn cancel_query(&self, id: &str) -> Result<()> {
        let request = pb::CancelQueryRequest { id: id.to_owned() };
        let call = self.once();
        call.call(call.queries().cancel_query(call.request(request)?)).await?;
        Ok(())
    }
}
