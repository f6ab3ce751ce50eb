//! Writes on their way into a durable table.
//!
//! The rows of one write that fill fragments are written to data files at once. Those of small writes are gathered for
//! a moment and share a fragment, a file and a version. A version that another node commits first is taken in, and
//! the change tried again behind it.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use arrow_array::ArrayRef;
use basalt_core::{
    error::ErrorKind,
    exec::SameKeys,
    fragment::{Deleted, FragmentData, RowBuffer},
    limits::{FRAGMENT_ROWS, PARALLEL_ROWS, PENDING_BYTES},
    table::{Appender, Change, Commit, Table},
};
use basalt_proto::v1::ErrorReason;
use basalt_storage::{CommitError, FileEncoder, FragmentEntry, NewFile, Operation, Request, TableState};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    Shared, closed,
    delete::without,
    locate::RowPredicate,
    stored::{Fresh, Stored},
    writing::Writing,
};
use crate::{
    class::Class,
    environment, limits,
    panics::{self, caught, caught_async},
    status::RequestError,
};

/// The rows of one write, and what becomes of older ones.
#[derive(Debug)]
pub(crate) struct NewRows {
    pub(crate) appender: Appender,
    /// Its full fragments, of a table that has files.
    pub(crate) writing: Option<Writing>,
    pub(crate) replaces: Replaces,
    /// What makes it known again.
    pub(crate) request: Option<Request>,
}

/// Which older rows a write takes the place of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Replaces {
    #[default]
    Nothing,
    /// Those with the same values in these columns.
    Keys(Vec<usize>),
    /// All that are there when it is committed.
    All,
}

impl NewRows {
    pub(crate) fn table(&self) -> &Arc<Table> {
        self.appender.table()
    }
}

/// A write that was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) commit: Commit,
    /// How many rows it took the place of; not known of a write that another request did before.
    pub(crate) replaced: Option<u64>,
}

/// A write that waits for its commit.
#[derive(Debug)]
pub(super) struct Write {
    files: Vec<NewFragment>,
    pending: RowBuffer,
    rows: u64,
    replaces: Replaces,
    request: Option<Request>,
    done: oneshot::Sender<Result<Written, RequestError>>,
}

impl Write {
    /// Whether it may share a commit with `rows` others that take so many bytes.
    fn joins(&self, rows: usize, bytes: usize) -> bool {
        self.replaces == Replaces::Nothing
            && self.pending.rows() + rows <= FRAGMENT_ROWS
            && self.pending.bytes() + bytes <= PENDING_BYTES
    }
}

/// A fragment and the file that holds it, before they are part of the table.
#[derive(Clone, Debug)]
pub(super) struct NewFragment {
    pub(super) data: Arc<FragmentData>,
    pub(super) file: NewFile,
}

/// What a commit does to the rows that are there.
pub(super) enum Edit {
    /// Nothing.
    Append,
    /// These fragments of a version go, and those lose rows, as long as they are as they were.
    Change {
        operation: Operation,
        base: Arc<TableState>,
        /// There is no newer version, whatever it has changed.
        exactly: bool,
        gone: Vec<u32>,
        deletions: Vec<(u32, Arc<Deleted>)>,
    },
    /// The rows with the same keys as the new ones go.
    Replace(Arc<SameKeys>),
    /// All rows go.
    ReplaceAll,
    /// Nothing; the table's properties are others.
    Properties(Vec<(String, Option<String>)>),
    /// Nothing; it is closed behind this version, or open again where it was closed at this one.
    Closed(bool, u64),
}

/// What an [`Edit`] comes to.
#[derive(Default)]
struct Edited<'a> {
    operation: Operation,
    gone: &'a [u32],
    deletions: &'a [(u32, Arc<Deleted>)],
    properties: &'a [(String, Option<String>)],
    closed: Option<bool>,
}

/// What came of a commit.
pub(super) enum Outcome {
    /// This version is its own; its rows took the place of so many.
    Version { version: u64, replaced: u64 },
    /// Another node has done these writes before: nothing was done.
    Known,
}

impl Stored {
    /// Commits rows, perhaps with those of other writes.
    pub(super) async fn write(self: &Arc<Self>, rows: NewRows) -> Result<Written, RequestError> {
        self.check_writable()?;
        let NewRows { appender, writing, replaces, request } = rows;
        let rows = appender.rows();
        if rows == 0 && replaces != Replaces::All {
            let commit = Commit { version: self.state().version(), rows };
            self.acknowledge(commit.version).await;
            return Ok(Written { commit, replaced: Some(0) });
        }
        let mut pending = appender.into_rows();
        let mut files = match writing {
            Some(writing) => writing.finish().await?,
            None => Vec::new(),
        };
        // Many rows are written while others wait for their turn, not while others wait for these.
        if pending.rows() > limits::SMALL_WRITE_ROWS || replaces != Replaces::Nothing {
            let rest = std::mem::replace(&mut pending, RowBuffer::new(self.table.schema()));
            files.extend(self.write_some(rest).await?);
        }
        // Of this write alone: others are committed with it.
        self.log.check_young(files.iter().map(|new| &new.file))?;
        let (done, answer) = oneshot::channel();
        let write = Write { files, pending, rows, replaces, request, done };
        self.queue
            .send(write)
            .await
            .map_err(|_| closed::of_replaced(&self.shared, &self.table, self.gone()))?;
        answer.await.map_err(|_| self.gone())?
    }

    /// Why nobody commits to it any more.
    pub(super) fn gone(&self) -> RequestError {
        if self.shared.background.is_over() {
            return RequestError::new(ErrorReason::ShuttingDown, "the server is shutting down");
        }
        let message = format!("there is no table {:?} any longer", self.table.name());
        RequestError::new(ErrorReason::TableNotFound, message).at("table")
    }

    /// Encodes rows, if there are any, and writes them to a file.
    pub(super) async fn write_some(&self, rows: RowBuffer) -> Result<Option<NewFragment>, RequestError> {
        match rows.rows() {
            0 => Ok(None),
            _ => self.write_rows(rows).await.map(Some),
        }
    }

    /// Encodes rows for memory and for their file at the same time, and writes the file.
    pub(super) async fn write_rows(&self, rows: RowBuffer) -> Result<NewFragment, RequestError> {
        let schema = Arc::clone(self.table.schema());
        let is_small = rows.rows() < PARALLEL_ROWS && rows.bytes() <= limits::SMALL_FRAGMENT_BYTES;
        // A few rows take no memory to speak of, and do not wait for the fragments of large writes.
        let _permit = match is_small {
            true => None,
            false => self.shared.files.acquire().await.ok(),
        };
        let class = Class::of_write(rows.rows() as u64);
        let state = self.state();
        let encode = move || {
            let file = FileEncoder::of(&state, rows.rows())?;
            let encode = |place, array: ArrayRef| file.column(place, &[array]).map_err(RequestError::from);
            let (data, columns) = rows.encode_and(&schema, encode)?;
            Ok::<_, RequestError>((data, file.finish(columns)?))
        };
        // A few rows do not wait for what queries have given the pool to do.
        let (data, file) = match is_small {
            true => environment::run(&*self.shared.environment, || caught(encode))
                .await
                .map_err(|_| RequestError::internal())??,
            false => self.shared.cpu.run_as(class, encode).await??,
        };
        let file = self.log.put_data(file).await?.with_encoded_bytes(data.bytes() as u64);
        Ok(NewFragment { data: Arc::new(data), file })
    }

    /// Commits writes that were gathered, and tells each what became of it.
    async fn commit_group(self: Arc<Self>, mut group: Vec<Write>) {
        // Whoever is gone by now is not waited for, but what it has sent in whole is written.
        let started = Instant::now();
        // These writes alone fail with a panic; the queue goes on.
        let outcome = caught_async(self.commit_writes(&mut group)).await;
        let acknowledged = match outcome {
            Ok(Outcome::Version { version, .. }) => {
                let writes = group.len();
                let rows: u64 = group.iter().map(|write| write.rows).sum();
                tracing::debug!(table = self.table.name(), version, writes, rows, elapsed = ?started.elapsed(), "committed");
                Some(version)
            }
            // Whoever did it may have failed before it told the others.
            Ok(Outcome::Known) => Some(self.state().version()),
            Err(_) => None,
        };
        if let Some(version) = acknowledged {
            self.acknowledge(version).await;
        }
        for Write { rows, request, done, .. } in group {
            let answer = match &outcome {
                Ok(Outcome::Version { version, replaced }) => {
                    Ok(Written { commit: Commit { version: *version, rows }, replaced: Some(*replaced) })
                }
                Ok(Outcome::Known) => {
                    let done = self.done_elsewhere(request.as_ref());
                    done.map(|commit| Written { commit, replaced: None })
                }
                Err(error) => Err(error.clone()),
            };
            // An error says that the client is gone.
            let _ = done.send(answer);
        }
    }

    async fn commit_writes(&self, group: &mut [Write]) -> Result<Outcome, RequestError> {
        panics::wanted("commit", self.table.name());
        self.make_way().await?;
        let mut together = RowBuffer::new(self.table.schema());
        let mut new = Vec::new();
        for write in group.iter_mut() {
            new.append(&mut write.files);
            together.append(std::mem::replace(&mut write.pending, RowBuffer::new(self.table.schema())));
        }
        new.extend(self.write_some(together).await?);
        let requests: Vec<Request> = group.iter().filter_map(|write| write.request.clone()).collect();
        // Default: what replaces rows is a group of its own.
        let edit = match group.first().map(|write| write.replaces.clone()).unwrap_or_default() {
            Replaces::Nothing => Edit::Append,
            Replaces::Keys(slots) => Edit::Replace(self.keys_of(&new, slots).await?),
            Replaces::All => Edit::ReplaceAll,
        };
        self.commit(new, requests, edit).await
    }

    /// The keys of new rows.
    async fn keys_of(&self, new: &[NewFragment], slots: Vec<usize>) -> Result<Arc<SameKeys>, RequestError> {
        let table = Arc::clone(&self.table);
        let data: Vec<_> = new.iter().map(|new| Arc::clone(&new.data)).collect();
        let control = self.shared.control();
        let keys = self.shared.cpu.run(move || SameKeys::new(&table, &data, &slots, &control)).await??;
        Ok(Arc::new(keys))
    }

    /// Commits a change that is no client's write, and tells the others of it; the answer is its version.
    pub(super) async fn change(&self, new: Vec<NewFragment>, edit: Edit) -> Result<u64, RequestError> {
        match self.commit(new, Vec::new(), edit).await? {
            Outcome::Version { version, .. } => {
                self.acknowledge(version).await;
                Ok(version)
            }
            Outcome::Known => Ok(self.state().version()),
        }
    }

    /// Makes the next version, and goes there. The rows that new ones replace are found, perhaps by other nodes, before
    /// the table is held, and looked for again where another version came in between.
    #[expect(
        clippy::await_holding_invalid_type,
        reason = "versions of a table come one after the other; nothing but the store is waited for"
    )]
    pub(super) async fn commit(
        &self,
        new: Vec<NewFragment>,
        requests: Vec<Request>,
        edit: Edit,
    ) -> Result<Outcome, RequestError> {
        let started = Instant::now();
        for _ in 0..limits::COMMIT_ATTEMPTS {
            let left = match &edit {
                Edit::Closed(..) => None,
                _ => self.left_closed().await?,
            };
            let searched = self.state();
            let replaced = match &edit {
                Edit::Replace(keys) => {
                    let (edit, rows) = self.replaced(&searched, keys).await?;
                    Some((self.rewritten(edit).await?, rows))
                }
                _ => None,
            };
            let _advancing = self.advancing.lock().await;
            let state = self.state();
            if is_known(&state, &requests) {
                return Ok(Outcome::Known);
            }
            if replaced.is_some() && state.version() != searched.version() {
                continue;
            }
            if state.closed_at() != left && !matches!(edit, Edit::Closed(..)) {
                continue;
            }
            let all = match &edit {
                Edit::ReplaceAll => Some(everything(&state)),
                _ => None,
            };
            let (edit, rewritten, rows_replaced) = match (&replaced, &all) {
                (Some((replaced, rows)), _) => (&replaced.edit, replaced.new.as_slice(), *rows),
                (None, Some((all, rows))) => (all, Default::default(), *rows),
                (None, None) => (&edit, Default::default(), 0),
            };
            let Edited { operation, gone, deletions, properties, closed } = self.edited(edit, &state)?;
            let change = basalt_storage::Change {
                operation,
                add: new.iter().chain(rewritten).map(|new| new.file.clone()).collect(),
                remove: gone.to_vec(),
                deletions: deletions.iter().map(|(id, deleted)| (*id, deleted.places())).collect(),
                properties: properties.to_vec(),
                requests: requests.clone(),
                // Nobody goes on with what it was closed for.
                closed: closed.or(left.map(|_| false)),
                ..basalt_storage::Change::default()
            };
            match self.log.commit(&state, &change).await {
                Ok(committed) => {
                    let version = committed.state.version();
                    self.shared.metrics.commit(started.elapsed());
                    let added = (committed.first_id..).zip(new.iter().chain(rewritten));
                    let added = added.map(|(id, new)| (id, Arc::clone(&new.data), None));
                    // Of these the deletion vector alone is new.
                    let lesser = deletions.iter().filter_map(|(id, deleted)| {
                        let now = committed.state.same_rows(state.fragment(*id)?)?;
                        let data = FragmentData::of_columns(now.rows as usize, Vec::new()).ok()?;
                        Some((now.id, Arc::new(data), Some(Arc::clone(deleted))))
                    });
                    let fresh: Vec<Fresh> = added.chain(lesser).collect();
                    // It is written, whatever comes of showing it: who follows the log shows it then.
                    if let Err(error) = self.advance(committed.state, &fresh, &|_| {}).await {
                        let (table, error) = (self.table.name(), error.message());
                        tracing::warn!(table, version, error, "cannot show a version that was committed");
                    }
                    self.check_named(version).await?;
                    return Ok(Outcome::Version { version, replaced: rows_replaced });
                }
                Err(CommitError::Conflict(newer)) => {
                    self.shared.metrics.commit_conflict();
                    self.shared.request_log.restore(
                        &self.table,
                        self.shared.environment.wall(),
                        newer.requests_since(state.version()).cloned(),
                    );
                    self.advance(newer, &[], &|_| {}).await?;
                }
                Err(CommitError::Storage(error)) => return Err(error.into()),
                Err(CommitError::Unknown(error)) => {
                    tracing::error!(table = self.table.name(), %error, "whether a version was written is not known");
                    let message = format!(
                        "whether the change was made is not known: {}. The same write with the same request_id tells, and \
                         writes nothing twice; without one, look at the table before you write it again",
                        error.without_places()
                    );
                    return Err(RequestError::new(ErrorReason::OutcomeUnknown, message));
                }
            }
        }
        let message = format!("other nodes write to table {:?} all the time; try again", self.table.name());
        Err(RequestError::new(ErrorReason::WriteConflict, message))
    }

    /// What an edit comes to in the newest version.
    fn edited<'a>(&self, edit: &'a Edit, now: &TableState) -> Result<Edited<'a>, RequestError> {
        match edit {
            Edit::Append | Edit::Replace(_) | Edit::ReplaceAll => Ok(Edited::default()),
            Edit::Change { operation, base, exactly, gone, deletions } => {
                if *exactly && base.version() != now.version() {
                    return Err(self.changed());
                }
                let touched = gone.iter().chain(deletions.iter().map(|(id, _)| id));
                self.check_unchanged(base, now, touched)?;
                Ok(Edited { operation: *operation, gone, deletions, ..Edited::default() })
            }
            Edit::Properties(properties) => {
                Ok(Edited { operation: Operation::SetProperties, properties, ..Edited::default() })
            }
            Edit::Closed(closed, at) => {
                let fits = match closed {
                    true => now.version() == *at && now.closed_at().is_none(),
                    false => now.closed_at() == Some(*at),
                };
                if !fits {
                    return Err(self.changed());
                }
                Ok(Edited { operation: Operation::Close, closed: Some(*closed), ..Edited::default() })
            }
        }
    }

    /// The deletion of the rows that new rows take the place of, and how many they are.
    async fn replaced(
        &self,
        state: &Arc<TableState>,
        keys: &Arc<SameKeys>,
    ) -> Result<(Edit, u64), RequestError> {
        let rows = self.find(state, &RowPredicate::SameKeys(Arc::clone(keys))).await?;
        let replaced = rows.cardinality();
        Ok((self.deletion(Operation::Replace, Arc::clone(state), rows).await?, replaced))
    }

    /// That fragments of a version have the same rows in another, are kept as long, and lose rows in the same way.
    fn check_unchanged<'a>(
        &self,
        base: &TableState,
        now: &TableState,
        mut ids: impl Iterator<Item = &'a u32>,
    ) -> Result<(), RequestError> {
        let source = |state: &TableState, id| state.fragment(id).map(FragmentEntry::source);
        let same = ids.all(|id| now.fragment(*id).is_some() && source(base, *id) == source(now, *id));
        if same && base.retention() == now.retention() && base.deletes() == now.deletes() {
            return Ok(());
        }
        Err(self.changed())
    }

    fn changed(&self) -> RequestError {
        let message = format!("another write has changed the same rows of table {:?}", self.table.name());
        RequestError::new(ErrorReason::WriteConflict, message)
    }

    /// The answer to a write that was done on another node.
    fn done_elsewhere(&self, request: Option<&Request>) -> Result<Commit, RequestError> {
        let done = request.and_then(|request| self.state().request(&request.id).cloned());
        match (done, request) {
            (Some(done), Some(request)) if done.request.digest == request.digest => {
                Ok(Commit { version: done.version, rows: done.request.rows })
            }
            (Some(_), _) => Err(RequestError::new(
                ErrorReason::RequestIdReused,
                "a finished write has this request id and other rows (or the same in other batches)",
            )),
            (None, _) => Err(RequestError::new(
                ErrorReason::WriteConflict,
                "another write of the same commit was done on another node; nothing was written",
            )),
        }
    }
}

/// All fragments of a version go; and how many rows they have.
fn everything(state: &Arc<TableState>) -> (Edit, u64) {
    let (base, gone) = (Arc::clone(state), state.fragments().iter().map(|entry| entry.id).collect());
    let (operation, deletions) = (Operation::Replace, Vec::new());
    (Edit::Change { operation, base, exactly: false, gone, deletions }, state.rows())
}

/// Whether a state has one of some writes.
fn is_known(state: &TableState, requests: &[Request]) -> bool {
    requests.iter().any(|request| state.request(&request.id).is_some())
}

/// Commits rows to a table that is in memory alone.
pub(super) fn in_memory(shared: &Shared, rows: NewRows) -> Result<Written, RequestError> {
    let NewRows { appender, replaces, .. } = rows;
    panics::wanted("commit", appender.table().name());
    if replaces == Replaces::Nothing || (appender.rows() == 0 && replaces != Replaces::All) {
        return Ok(Written { commit: appender.commit()?, replaced: Some(0) });
    }
    let (table, rows) = (Arc::clone(appender.table()), appender.rows());
    let add: Vec<_> = appender.finish()?.into_iter().map(Arc::new).collect();
    let control = shared.control();
    let keys = match &replaces {
        Replaces::Keys(columns) => Some(SameKeys::new(&table, &add, columns, &control)?),
        _ => None,
    };
    for _ in 0..limits::COMMIT_ATTEMPTS {
        let snapshot = table.snapshot();
        let (was, is, replaced) = match &keys {
            Some(keys) => {
                let found = keys.rows(&table, &snapshot, &control)?;
                let (was, is) = without(&snapshot, &found);
                (was, is, found.cardinality())
            }
            None => (snapshot.fragments().to_vec(), Vec::new(), snapshot.rows()),
        };
        let (at, add) = (Some(snapshot.version()), add.clone());
        let change = Change { at, was, is, add, ..Change::default() };
        match table.commit(change) {
            Err(error) if error.kind() == ErrorKind::WriteConflict => {}
            done => {
                let (commit, replaced) = (Commit { version: done?, rows }, Some(replaced));
                return Ok(Written { commit, replaced });
            }
        }
    }
    let message = format!("other writes to table {:?} are faster; try again", table.name());
    Err(RequestError::new(ErrorReason::WriteConflict, message))
}

impl Shared {
    /// Begins to commit the writes of a table.
    pub(super) fn begin_commits(&self, stored: &Arc<Stored>, queue: mpsc::Receiver<Write>) {
        let (stored, delay) = (Arc::downgrade(stored), self.commit_delay);
        self.background.spawn_to_its_end(|over| run(stored, queue, delay, over));
    }
}

/// Gathers writes and commits them, for as long as there is the table: a write that
/// comes `delay` after the last commit or later goes at once, those that come earlier go together. Once that is `over` it
/// commits what it has been given, and ends.
async fn run(
    stored: Weak<Stored>,
    mut queue: mpsc::Receiver<Write>,
    delay: Duration,
    over: CancellationToken,
) {
    let (mut next, mut until) = (None, Instant::now());
    loop {
        let first = match next.take() {
            Some(write) => Some(write),
            None => tokio::select! {
                biased;
                write = queue.recv() => write,
                () = over.cancelled() => None,
            },
        };
        let Some(first) = first else { return };
        let mut group = vec![first];
        if group[0].replaces == Replaces::Nothing {
            let (mut rows, mut bytes) = (group[0].pending.rows(), group[0].pending.bytes());
            while group.len() < limits::WRITES
                && let Ok(Some(write)) = timeout_at(until, queue.recv()).await
            {
                if !write.joins(rows, bytes) {
                    next = Some(write);
                    break;
                }
                rows += write.pending.rows();
                bytes += write.pending.bytes();
                group.push(write);
            }
        }
        let Some(stored) = stored.upgrade() else { return };
        until = Instant::now() + stored.pace(delay);
        stored.commit_group(group).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::tests::{rows, with_table};

    #[tokio::test]
    async fn a_few_rows_do_not_wait_for_the_fragments_of_large_writes() {
        let folder = tempfile::tempdir().unwrap();
        let (state, table) = with_table(folder.path()).await;
        let all = u32::try_from(limits::FILE_WRITES).unwrap();
        let _all = state.tables.shared.files.acquire_many(all).await.unwrap();
        let few = state.tables.write(rows(&table, &[1, 2]));
        let written = tokio::time::timeout(Duration::from_secs(20), few).await;
        assert_eq!(written.unwrap().unwrap().commit.rows, 2);
    }
}
