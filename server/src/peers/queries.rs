//! The queries that run at all nodes, and their end: whoever asks one node is told of all of them, and stops each wherever
//! it runs. What a client may see and stop is found out by the node that it asks.

use std::{future::Future, sync::Arc};

use basalt_proto::{
    cluster::v1::{CancelOutcome, CancelQueryRequest, ListQueriesRequest, ListQueriesResponse},
    v1::{self as pb, ErrorReason},
};
use futures_util::future::join_all;
use tokio::time::{Duration, timeout};
use tonic::{Code, Request, Response, Status};

use crate::{
    access::{Action, Caller, Object},
    limits,
    membership::{Link, LinkState, Node, View},
    queries::{Asker, run_of, within_message},
    state::State,
    status::{RequestError, Result},
    trace,
};

/// The queries of all nodes that somebody may see, the oldest first, and the nodes that do not answer in time.
pub(crate) async fn running(state: &State, caller: &Caller) -> pb::ListQueriesResponse {
    let asker = Asker::new(caller);
    let own = state.queries.running(&asker);
    let Some(cluster) = &state.cluster else {
        return pb::ListQueriesResponse { queries: own, unanswered: Vec::new() };
    };
    let members = cluster.members();
    let request = ListQueriesRequest { protocol: members.protocol(), asker: Some(asker.to_peer()) };
    let view = members.view();
    let others = view.nodes().iter().filter_map(|Node { name, link }| Some((name, link.as_ref()?)));
    let asked = others.map(async |(name, link)| (name, ask(link, request.clone()).await));
    let mut queries = named(own, members.own()).collect::<Vec<_>>();
    let mut unanswered = Vec::new();
    for (name, answer) in join_all(asked).await {
        match answer {
            Ok(answer) => queries.extend(named(answer.queries, name)),
            Err(problem) => unanswered.push(pb::UnansweredNode { node: name.to_string(), problem }),
        }
    }
    queries.sort_by(|a, b| (a.started_us, &a.id).cmp(&(b.started_us, &b.id)));
    let mut answer = pb::ListQueriesResponse { queries: within_message(queries), unanswered };
    if !caller.allows(Action::Observe, Object::Server) {
        number_nodes(&mut answer, &view);
    }
    answer
}

/// The name of a node as somebody is told it: whoever may not see the cluster, its number.
pub(crate) fn node_for(state: &State, caller: &Caller, node: &str) -> String {
    match &state.cluster {
        Some(cluster) if !caller.allows(Action::Observe, Object::Server) => {
            number_of(&cluster.members().view(), node)
        }
        _ => node.to_owned(),
    }
}

fn number_of(view: &View, node: &str) -> String {
    match view.nodes().iter().position(|known| *known.name == *node) {
        Some(place) => format!("node {}", place + 1),
        // It has left meanwhile.
        None => "a node".to_owned(),
    }
}

/// Nor is such a one told what is the matter with a node.
fn number_nodes(answer: &mut pb::ListQueriesResponse, view: &View) {
    for query in &mut answer.queries {
        query.node = number_of(view, &query.node);
    }
    for node in &mut answer.unanswered {
        *node = pb::UnansweredNode {
            node: number_of(view, &node.node),
            problem: "it does not answer".to_owned(),
        };
    }
}

/// The queries of a node with its name. What another node says of the length of a text is not believed.
fn named(queries: Vec<pb::RunningQuery>, node: &str) -> impl Iterator<Item = pb::RunningQuery> {
    queries.into_iter().map(move |mut query| {
        for text in [&mut query.id, &mut query.method, &mut query.caller, &mut query.text] {
            let most = limits::QUERY_TEXT_BYTES + '…'.len_utf8();
            text.truncate(text.floor_char_boundary(most));
        }
        pb::RunningQuery { node: node.to_owned(), ..query }
    })
}

async fn ask(link: &Link, request: ListQueriesRequest) -> std::result::Result<ListQueriesResponse, String> {
    match link.state() {
        LinkState::Dead => return Err("it does not answer".to_owned()),
        LinkState::Incompatible => {
            return Err("it speaks another version of the nodes' protocol".to_owned());
        }
        LinkState::Alive | LinkState::Suspect | LinkState::NotReady => {}
    }
    let mut client = link.client();
    let asked = client.list_queries(sent(request, limits::OVERVIEW_TIMEOUT));
    match in_time(asked, limits::OVERVIEW_TIMEOUT).await {
        Ok(answer) => Ok(answer),
        Err(status) if status.code() == Code::Unimplemented => {
            Err("it is of an earlier version, which does not tell".to_owned())
        }
        Err(status) => Err(status.message().to_owned()),
    }
}

/// Stops a query that somebody may stop, at whichever node it runs: his own, or any where he is an administrator.
///
/// # Errors
/// There is none of this id, as far as he may know; or its node does not answer.
pub(crate) async fn cancel(state: &State, caller: &Caller, id: &str) -> Result<()> {
    let asker = Asker::new(caller);
    let outcome = match state.queries.has_id(id) {
        true => state.queries.cancel(&asker, id),
        false => cancel_elsewhere(state, &asker, id).await?,
    };
    match outcome {
        CancelOutcome::Own => {
            caller.did("cancel", "query", told(id), true);
            Ok(())
        }
        // That it was another's is remembered, whether it was stopped or not.
        CancelOutcome::OfAnother => caller.authorise(Action::Cancel, Object::Query(id)),
        CancelOutcome::Forbidden => {
            caller.authorise(Action::Cancel, Object::Query(id))?;
            // What he may do has changed since he was looked at.
            Err(RequestError::internal())
        }
        CancelOutcome::NotFound | CancelOutcome::Unspecified => {
            // It may run, and be another's of which he is not told.
            caller.did("cancel", "query", told(id), false);
            Err(RequestError::new(ErrorReason::QueryNotFound, format!("no query {id:?} runs")))
        }
    }
}

/// An id as it is remembered: what is none may be any words of a client.
fn told(id: &str) -> &str {
    let is_id = id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if is_id { id } else { "?" }
}

async fn cancel_elsewhere(state: &State, asker: &Asker, id: &str) -> Result<CancelOutcome> {
    let (Some(cluster), Some(run)) = (&state.cluster, run_of(id)) else {
        return Ok(CancelOutcome::NotFound);
    };
    let members = cluster.members();
    let find = || {
        let view = members.view();
        let mut others = view.nodes().iter().filter_map(|node| Some((&node.name, node.link.as_ref()?)));
        let found = others.find(|(_, link)| link.status().is_some_and(|status| status.instance == run));
        found.map(|(name, link)| (Arc::clone(name), Arc::clone(link)))
    };
    let mut found = find();
    if found.is_none() {
        // It may have begun since it was asked for its status.
        let _ = timeout(limits::OVERVIEW_TIMEOUT, members.ask()).await;
        found = find();
    }
    let Some((name, link)) = found else { return Ok(CancelOutcome::NotFound) };
    let request =
        CancelQueryRequest { protocol: members.protocol(), asker: Some(asker.to_peer()), id: id.to_owned() };
    let mut client = link.client();
    let asked = client.cancel_query(sent(request, limits::CANCEL_TIMEOUT));
    match in_time(asked, limits::CANCEL_TIMEOUT).await {
        Ok(answer) => Ok(answer.outcome()),
        Err(status) => {
            let message = format!("node {name}, where query {id:?} runs: {}", status.message());
            Err(RequestError::new(ErrorReason::Incomplete, message))
        }
    }
}

fn sent<T>(message: T, time: Duration) -> Request<T> {
    let mut request = Request::new(message);
    // What is said here of a node that does not answer comes first.
    request.set_timeout(2 * time);
    trace::send(&mut request);
    request
}

async fn in_time<T>(
    asked: impl Future<Output = std::result::Result<Response<T>, Status>>,
    time: Duration,
) -> std::result::Result<T, Status> {
    match timeout(time, asked).await {
        Ok(answer) => answer.map(Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded("it does not answer in time")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_other_nodes_are_cut() {
        let long = "é".repeat(limits::QUERY_TEXT_BYTES);
        let query =
            pb::RunningQuery { id: long.clone(), text: long, node: "x".to_owned(), ..Default::default() };
        let [named] = named(vec![query], "node:1").collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(named.node, "node:1");
        assert!(
            named.id.len() <= limits::QUERY_TEXT_BYTES + 3 && named.text.len() > limits::QUERY_TEXT_BYTES - 3
        );
    }
}
