//! Tables and nodes as tasks of statements see them: which node reads which fragments, how a scan travels to it, and how
//! tasks and rows do.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use basalt_core::{
    exec::Control,
    query::{KeySet, Query},
};
use basalt_proto::{
    cluster::v1::{
        self as peer, BeginTaskRequest, ReadTaskRequest, TaskKey, begin_task_response,
        peer_service_client::PeerServiceClient, read_task_request, read_task_response, task::Request,
    },
    v1::ErrorReason,
};
use basalt_sql::{
    Table, async_trait,
    distributed::{Borrowed, Head, Key, Leaves, NewTask, Nodes, RowsOfTask},
};
use futures_util::{
    FutureExt as _, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use prost::{Message as _, bytes::Bytes};
use tokio::{
    runtime::Handle,
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, transport::Channel};

use super::{Asker, At, carried};
use crate::{
    access::{Action, Caller, Object},
    convert,
    coordinator::{Pinned, Reach, version_of_task},
    membership::Link,
    peers::{Asked, Tasks, same_protocol},
    state::State,
    status::{RequestError, Result},
    trace::{self, Entered, Span, Trace},
};

impl At {
    /// Whether its fragments may be read one by one, at any node.
    pub(super) fn has_shares(&self) -> bool {
        let Pinned { table, version, .. } = &self.pinned;
        // Of what has no name yet the others do not know.
        !self.is_written && version.is_stored() && !self.state.tables.is_draft(table)
    }

    /// The same with some of its fragments, which this node reads itself.
    fn share_of(&self, node: &str, fragments: Vec<u32>) -> Self {
        let of = self.pinned.fragments.len();
        let share = format!("node {node}, {} of {of} fragments", fragments.len());
        let pinned = Pinned { fragments: fragments.into(), ..self.pinned.clone() };
        Self { pinned, reach: Arc::new(self.reach.alone()), share: Some(share.into()), ..self.clone() }
    }

    /// What each of some nodes reads: the fragments for which it is the first of them to be asked.
    pub(super) fn shared_out(&self, nodes: &[Arc<str>]) -> Result<Vec<Arc<dyn Table>>> {
        let shares = self.reach.shares(&self.pinned, nodes)?;
        check(&self.pinned, &shares)?;
        let shares = nodes.iter().zip(shares);
        Ok(shares.map(|(node, share)| Arc::new(self.share_of(node, share)) as Arc<dyn Table>).collect())
    }

    /// Every so many-th of its fragments.
    pub(super) fn part_of(&self, part: usize, of: usize) -> Arc<dyn Table> {
        let fragments = self.pinned.fragments.iter().copied().skip(part).step_by(of.max(1)).collect();
        let pinned = Pinned { fragments, ..self.pinned.clone() };
        Arc::new(Self { pinned, ..self.clone() })
    }

    /// A query of its fragments, for the node that reads them.
    pub(super) fn encoded(&self, query: &Query) -> Result<Vec<u8>> {
        let Pinned { table, version, fragments, cutoff } = &self.pinned;
        let whole = |_: &str, set: &KeySet| Arc::clone(&set.sip);
        let (request, sets) = convert::to_query(query, table.name(), version.number(), &whole);
        if !sets.is_empty() {
            return Err(RequestError::protocol("a scan with sets does not travel"));
        }
        let task = peer::Task {
            protocol: self.state.environment.protocol(),
            table: table.name().to_owned(),
            table_id: table.id(),
            log_id: version.log_id().to_owned(),
            version: version.number(),
            fragments: fragments.to_vec(),
            cutoff: cutoff.map(convert::to_cutoff),
            request: Some(Request::Query(request)),
            ..peer::Task::default()
        };
        Ok(task.encode_to_vec())
    }
}

/// That shares have the fragments of the pinned version, each once: what an answer covers is computed, never assumed.
fn check(pinned: &Pinned, shares: &[Vec<u32>]) -> Result<()> {
    let mut all: Vec<u32> = shares.iter().flatten().copied().collect();
    all.sort_unstable();
    if *all == *pinned.fragments {
        return Ok(());
    }
    let message = format!("the tasks do not cover table {:?}", pinned.table.name());
    Err(RequestError::new(ErrorReason::Incomplete, message))
}

/// The other nodes, for one statement or one task.
#[derive(Debug)]
pub(super) struct Others {
    reach: Arc<Reach>,
    deadline: Instant,
    /// The connections of this statement.
    open: Mutex<BTreeMap<String, Arc<Client>>>,
    /// Where they are served: the threads of statements do not know the network.
    runtime: Handle,
}

type Client = PeerServiceClient<Channel>;

impl Others {
    pub(super) fn new(reach: &Arc<Reach>, deadline: Instant, runtime: Handle) -> Self {
        Self { reach: Arc::clone(reach), deadline, open: Mutex::default(), runtime }
    }

    /// Those that a task of another node's statement reads from.
    fn of_task(state: &Arc<State>, caller: &Caller, deadline: Instant, control: Control) -> Self {
        let reach = Reach::new(Arc::clone(state), caller, deadline, control);
        Self::new(&Arc::new(reach), deadline, Handle::current())
    }

    /// The way to a node, for a statement. A plan may name members alone.
    fn way(&self, node: &str, statement: u128) -> Result<(Arc<Link>, Client)> {
        let link =
            self.reach.link(node).ok_or_else(|| failed(node, "it is no other member of the cluster"))?;
        let _runtime = self.runtime.enter();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let client = open.entry(node.to_owned()).or_insert_with(|| link.of_statement(statement));
        let client = Client::clone(client);
        Ok((link, client))
    }

    /// A request of another node, and the span that it is.
    fn request<T>(&self, message: T, node: &str, name: &'static str) -> (tonic::Request<T>, Option<Span>) {
        let mut request = tonic::Request::new(message);
        request.set_timeout(self.deadline.saturating_duration_since(Instant::now()));
        let hop = self.reach.trace().map(|trace| {
            let hop = trace.hop(name);
            trace.send(request.metadata_mut(), &hop);
            hop.text("basalt.node", || node.to_owned());
            hop
        });
        (request, hop)
    }
}

async fn in_time<T>(deadline: Instant, work: BoxFuture<'static, Result<T>>) -> Result<T> {
    timeout_at(deadline, work).await.map_err(|_| RequestError::deadline())?
}

/// The error of a node that does not do its part.
fn failed(node: &str, why: &str) -> RequestError {
    RequestError::new(ErrorReason::Incomplete, format!("a task at node {node}: {why}"))
}

fn of_status(node: &str, link: &Link, status: &Status) -> RequestError {
    RequestError::of_peer(status).unwrap_or_else(|| {
        // It has not said so itself.
        link.failed();
        failed(node, status.message())
    })
}

async fn begun(
    node: String,
    link: Arc<Link>,
    mut client: Client,
    request: tonic::Request<ReceiverStream<BeginTaskRequest>>,
) -> Result<Streaming<peer::BeginTaskResponse>> {
    let mut answers = match client.begin_task(request).await {
        Ok(answers) => answers.into_inner(),
        Err(status) => return Err(of_status(&node, &link, &status)),
    };
    match answers.message().await {
        Ok(Some(peer::BeginTaskResponse { kind: Some(begin_task_response::Kind::Begun(_)) })) => Ok(answers),
        Ok(_) => Err(failed(&node, "it has not begun")),
        Err(status) => Err(of_status(&node, &link, &status)),
    }
}

/// What a task has done. The end of its request says that no more of its rows are wanted.
async fn done(
    node: String,
    link: Arc<Link>,
    mut answers: Streaming<peer::BeginTaskResponse>,
    request: mpsc::Sender<BeginTaskRequest>,
    mut ended: BoxFuture<'static, ()>,
) -> basalt_sql::Result<Vec<u8>> {
    let mut request = Some(request);
    let answer = loop {
        tokio::select! {
            biased;
            answer = answers.message() => break answer,
            () = &mut ended, if request.is_some() => request = None,
        }
    };
    match answer {
        Ok(Some(peer::BeginTaskResponse { kind: Some(begin_task_response::Kind::Done(done)) })) => Ok(done),
        Ok(_) => Err(carried(failed(&node, "it has ended before its end"))),
        Err(status) => Err(carried(of_status(&node, &link, &status))),
    }
}

async fn asked(
    node: String,
    link: Arc<Link>,
    mut client: Client,
    request: tonic::Request<ReadTaskRequest>,
) -> Result<Streaming<peer::ReadTaskResponse>> {
    match client.read_task(request).await {
        Ok(answers) => Ok(answers.into_inner()),
        Err(status) => Err(of_status(&node, &link, &status)),
    }
}

#[async_trait]
impl Nodes for Others {
    fn names(&self) -> Vec<Arc<str>> {
        self.reach.takers()
    }

    async fn begin(
        &self,
        node: &str,
        task: NewTask,
        ended: BoxFuture<'static, ()>,
    ) -> basalt_sql::Result<BoxFuture<'static, basalt_sql::Result<Vec<u8>>>> {
        let (link, client) = self.way(node, task.key.statement).map_err(carried)?;
        let task = BeginTaskRequest {
            protocol: self.reach.protocol(),
            build: crate::VERSION.to_owned(),
            key: Some(to_key(task.key)),
            tasks: task.tasks,
            plan: task.plan,
        };
        let (sender, messages) = mpsc::channel(1);
        sender.try_send(task).map_err(|_| carried(RequestError::internal()))?;
        let (request, hop) = self.request(ReceiverStream::new(messages), node, "task");
        let (node, deadline) = (node.to_owned(), self.deadline);
        let begun = begun(node.clone(), Arc::clone(&link), client, request).boxed();
        let answers = in_time(deadline, begun).await.map_err(carried)?;
        let done = done(node, link, answers, sender, ended);
        let done = async move {
            let outcome = done.await;
            if let (Some(hop), Err(_)) = (&hop, &outcome) {
                hop.fail("TASK");
            }
            outcome
        };
        Ok(done.boxed())
    }

    async fn read(
        &self,
        node: &str,
        rows: RowsOfTask,
    ) -> basalt_sql::Result<BoxStream<'static, basalt_sql::Result<Bytes>>> {
        use read_task_response::Kind;
        let (link, client) = self.way(node, rows.key.statement).map_err(carried)?;
        let request = ReadTaskRequest {
            protocol: self.reach.protocol(),
            key: Some(to_key(rows.key)),
            partition: rows.partition,
            head: match rows.head {
                Head::Own => None,
                Head::Broadcast(partitions) => Some(read_task_request::Head::Broadcast(partitions)),
                Head::Hash(partitioning) => Some(read_task_request::Head::Hash(partitioning)),
            },
        };
        let (request, hop) = self.request(request, node, "rows of a task");
        let (node, deadline) = (node.to_owned(), self.deadline);
        let asked = asked(node.clone(), Arc::clone(&link), client, request).boxed();
        let answers = in_time(deadline, asked).await.map_err(carried)?;
        let of = (answers, link, node, hop, 0);
        Ok(stream::unfold(Some(of), async |of| {
            let (mut answers, link, node, hop, received) = of?;
            match answers.message().await {
                Ok(Some(peer::ReadTaskResponse { kind: Some(Kind::Rows(rows)) })) => {
                    let received = received + rows.len() as u64;
                    Some((Ok(rows), Some((answers, link, node, hop, received))))
                }
                Ok(Some(peer::ReadTaskResponse { kind: Some(Kind::End(_)) })) => {
                    if let Some(hop) = hop {
                        hop.count("basalt.received_bytes", received);
                    }
                    None
                }
                Ok(_) => Some((Err(carried(failed(&node, "its rows end before their end"))), None)),
                Err(status) => Some((Err(carried(of_status(&node, &link, &status))), None)),
            }
        })
        .boxed())
    }
}

/// What the leaves of a task of another node's statement read.
#[derive(Debug)]
struct Opened {
    state: Arc<State>,
    caller: Caller,
    deadline: Instant,
    control: Control,
    runtime: Handle,
    trace: Option<Arc<Trace>>,
}

impl Opened {
    /// In a runtime that may wait for the store.
    fn new(state: &Arc<State>, caller: &Caller, deadline: Instant, control: Control) -> Self {
        let (state, caller) = (Arc::clone(state), caller.clone());
        Self { state, caller, deadline, control, runtime: Handle::current(), trace: trace::current() }
    }

    async fn table(&self, leaf: &[u8]) -> Result<(Arc<dyn Table>, Query)> {
        let task = peer::Task::decode(leaf).map_err(|error| RequestError::protocol(error.to_string()))?;
        same_protocol(&self.state, task.protocol)?;
        {
            let _entered = Entered::new(self.trace.clone());
            self.caller.authorise(Action::Peer, Object::Table(&task.table))?;
        }
        if !task.fragments.is_sorted_by(|a, b| a < b) {
            return Err(RequestError::protocol("the fragments do not ascend"));
        }
        let Some(Request::Query(request)) = task.request.clone() else {
            return Err(RequestError::protocol("a scan without a query"));
        };
        let (query, is_alone) = convert::query(request, &self.state.sets)?;
        if !is_alone || !task.sets.is_empty() || !task.lookups.is_empty() {
            return Err(RequestError::protocol("a scan that names more than its table"));
        }
        let (state, cutoff, fragments) =
            (Arc::clone(&self.state), task.cutoff, task.fragments.clone().into());
        let found = async move { version_of_task(&state, &task).await };
        let found = self.runtime.spawn(trace::scope(self.trace.clone(), found));
        let found = timeout_at(self.deadline, found).await.map_err(|_| RequestError::deadline())?;
        let (table, version) = found.unwrap_or_else(|_| Err(RequestError::internal()))?;
        let cutoff = cutoff.map(|cutoff| convert::cutoff(cutoff, table.schema())).transpose()?;
        let pinned = Pinned { table, version, fragments, cutoff };
        let _entered = Entered::new(self.trace.clone());
        let reach = Reach::new(Arc::clone(&self.state), &self.caller, self.deadline, self.control.clone());
        let at = At {
            pinned,
            reach: Arc::new(reach.alone()),
            state: Arc::clone(&self.state),
            asker: Asker {
                caller: self.caller.clone(),
                connection: 0,
                client: None,
                transaction: None,
                turn: None,
                entry: None,
                trace: self.trace.clone(),
            },
            is_written: false,
            share: None,
            control: self.control.clone(),
            deadline: self.deadline,
            runtime: self.runtime.clone(),
            done: Arc::default(),
        };
        Ok((Arc::new(at), query))
    }
}

#[async_trait]
impl Leaves for Opened {
    async fn open(&self, leaf: &[u8]) -> basalt_sql::Result<(Arc<dyn Table>, Query)> {
        self.table(leaf).await.map_err(carried)
    }
}

/// Runs the tasks that other nodes send.
pub(crate) fn runner(state: &Arc<State>) -> Arc<dyn Tasks> {
    Arc::new(Runner(Arc::downgrade(state)))
}

#[derive(Debug)]
struct Runner(Weak<State>);

impl Runner {
    fn state(&self) -> Result<Arc<State>> {
        self.0.upgrade().ok_or_else(RequestError::internal)
    }
}

#[async_trait]
impl Tasks for Runner {
    async fn begin(
        &self,
        task: BeginTaskRequest,
        from: Asked<'_>,
        ended: BoxFuture<'static, ()>,
    ) -> Result<BoxFuture<'static, Result<Vec<u8>>>> {
        let (state, key) = (self.state()?, key(task.key.as_ref())?);
        let Asked { caller, deadline, control } = from;
        let borrowed = Borrowed {
            nodes: Arc::new(Others::of_task(&state, caller, deadline, control.clone())),
            leaves: Arc::new(Opened::new(&state, caller, deadline, control)),
            memory: state.memory.shared(None),
        };
        let task = NewTask { key, tasks: task.tasks, plan: task.plan };
        let done = state.sql.begin_task(task, borrowed, ended).await.map_err(super::error)?;
        Ok(async move { done.await.map_err(super::error) }.boxed())
    }

    fn read(&self, rows: ReadTaskRequest) -> Result<BoxStream<'static, Result<Bytes>>> {
        let head = match rows.head {
            None => Head::Own,
            Some(read_task_request::Head::Broadcast(partitions)) => Head::Broadcast(partitions),
            Some(read_task_request::Head::Hash(partitioning)) => Head::Hash(partitioning),
        };
        let rows = RowsOfTask { key: key(rows.key.as_ref())?, partition: rows.partition, head };
        let rows = self.state()?.sql.rows_of_task(rows);
        Ok(stream::unfold(rows, async |mut rows| {
            let next = rows.next().await.map_err(super::error).transpose()?;
            Some((next, rows))
        })
        .boxed())
    }
}

fn key(key: Option<&TaskKey>) -> Result<Key> {
    let key = key.and_then(|key| {
        let statement = u128::from_be_bytes(key.statement.as_slice().try_into().ok()?);
        Some(Key { statement, stage: key.stage, task: key.task })
    });
    key.ok_or_else(|| RequestError::protocol("a task without its key"))
}

/// As it travels.
fn to_key(key: Key) -> TaskKey {
    TaskKey { statement: key.statement.to_be_bytes().to_vec(), stage: key.stage, task: key.task }
}
