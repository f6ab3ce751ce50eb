//! Rows that a statement, or a transaction, writes to one table, and the addresses of those that it takes away, until
//! they are committed at once. What full fragments take goes to files meanwhile, where the table has files; the rest is
//! reserved in the pool. Dropped without a commit, it leaves nothing behind.

use std::{collections::VecDeque, fmt, sync::Arc};

use arrow_array::{RecordBatch, UInt64Array};
use basalt_core::{
    error::ErrorKind,
    exec,
    fragment::RowBuffer,
    table::{Appender, Table},
};
use basalt_sip::Sip;
use basalt_sql::{Change, Written};

use super::Asker;
use crate::{
    access::Caller,
    class::Class,
    coordinator::{Pinned, fresh},
    limits,
    memory::{Consumer, Reservation},
    state::State,
    status::{RequestError, Result},
    tables::{self, NewRows, Replaces, TableVersion, Update, Writing},
    writes::Stream,
};

/// The reason of an error of what was begun with columns that the table has no longer: nothing of it is written.
pub(super) const OTHER_COLUMNS: &str = "VERSION_GONE";

/// See the module.
pub(super) struct Buffer {
    state: Arc<State>,
    /// Whose rows they are, as long as his key is good.
    caller: Caller,
    /// It counts among the writes.
    _stream: Arc<Stream>,
    /// The version that the addresses are of.
    base: TableVersion,
    change: Change,
    replaces: Replaces,
    appender: Appender,
    writing: Option<Writing>,
    gone: Gone,
    held: Reservation,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("change", &self.change).finish_non_exhaustive()
    }
}

/// What a buffer holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Rows that come.
    pub(super) inserted: u64,
    /// Rows that go.
    pub(super) deleted: u64,
    /// The times that rows which go were named.
    named: u64,
}

impl Buffer {
    /// For rows of a table, on behalf of whoever asks.
    pub(super) fn open(state: &Arc<State>, asker: &Asker, pinned: &Pinned, change: Change) -> Result<Self> {
        let stream = state.writes.open(asker.connection)?;
        stream.take_place()?;
        let table = &pinned.table;
        let appender = Appender::new(Arc::clone(table), &[])?;
        let fragment = usize::try_from(state.memory.limit() / limits::FRAGMENT_MEMORY_PART);
        let appender = appender.with_fragments_of(fragment.unwrap_or(usize::MAX));
        let replaces = match &change {
            Change::Replace(keys) => {
                let columns = keys.iter().map(|key| exec::check_key_column(table, key));
                Replaces::Keys(columns.collect::<std::result::Result<_, _>>()?)
            }
            _ => Replaces::Nothing,
        };
        let writing = state.tables.writing(table)?;
        Ok(Self {
            state: Arc::clone(state),
            caller: asker.caller.clone(),
            _stream: stream,
            base: pinned.version.clone(),
            change,
            replaces,
            appender,
            writing,
            gone: Gone::default(),
            held: state.memory.reserve(Consumer::Writes).of(asker.caller.account()),
        })
    }

    pub(super) fn table(&self) -> &Arc<Table> {
        self.appender.table()
    }

    pub(super) fn change(&self) -> &Change {
        &self.change
    }

    /// What it holds; rows that go are counted once.
    pub(super) fn counts(&mut self) -> Counts {
        let deleted = self.gone.set().cardinality();
        Counts { inserted: self.appender.rows(), deleted, named: self.gone.named }
    }

    /// Takes rows in.
    pub(super) async fn insert(mut self, batch: RecordBatch) -> Result<Self> {
        self.caller.check_key()?;
        self.appender.check(&batch)?;
        let bytes = batch.get_array_memory_size() as u64;
        self.hold(bytes).await?;
        let is_little = self.is_little(&batch);
        let class = Class::of_write(self.appender.rows() + batch.num_rows() as u64);
        let (cpu, mut rows) = (Arc::clone(&self.state.cpu), VecDeque::from([batch]));
        loop {
            let full = if is_little {
                self.fill(&mut rows)?
            } else {
                let next = move || {
                    let full = self.fill(&mut rows)?;
                    Ok::<_, RequestError>((self, rows, full))
                };
                let full;
                (self, rows, full) = cpu.run_as(class, next).await??;
                full
            };
            let Some(fragment) = full else { break };
            let beside = self.beside() + bytes;
            if let Some(writing) = &mut self.writing {
                writing.add(fragment, &mut self.held, beside).await?;
            }
        }
        self.hold(0).await?;
        Ok(self)
    }

    /// Whether rows are so few that they are taken in on any thread, and make no fragment full: in a pool they would stand
    /// behind whole fragments of other writes.
    fn is_little(&self, batch: &RecordBatch) -> bool {
        let (rows, bytes) = (batch.num_rows(), batch.get_array_memory_size());
        rows <= limits::LITTLE_WRITE_ROWS
            && bytes <= limits::LITTLE_WRITE_BYTES
            && self.appender.has_room(rows, bytes)
    }

    /// Takes rows in until there are none left, or a fragment is full that is to be written.
    fn fill(&mut self, rows: &mut VecDeque<RecordBatch>) -> Result<Option<RowBuffer>> {
        while let Some(batch) = rows.pop_front() {
            if self.writing.is_none() {
                self.appender.push(&batch)?;
                continue;
            }
            let (taken, full) = self.appender.fill(&batch, 0);
            if taken < batch.num_rows() {
                rows.push_front(batch.slice(taken, batch.num_rows() - taken));
            }
            if full.is_some() {
                return Ok(full);
            }
        }
        Ok(None)
    }

    /// Bytes that are held beside fragments on their way.
    fn beside(&self) -> u64 {
        self.appender.bytes() as u64 + self.gone.bytes()
    }

    /// Reserves what is held, and so many bytes more.
    async fn hold(&mut self, bytes: u64) -> Result<()> {
        let bytes = bytes + self.beside();
        match &mut self.writing {
            Some(writing) => writing.hold(&mut self.held, bytes).await,
            None => self.held.set(bytes),
        }
    }

    /// Takes the addresses of rows that go.
    pub(super) async fn delete(mut self, addresses: UInt64Array) -> Result<Self> {
        self.caller.check_key()?;
        self.gone.add(addresses.values());
        self.hold(0).await?;
        Ok(self)
    }

    /// Fails where a statement has changed a row twice since it began with `before`.
    pub(super) fn check_once(&mut self, before: Counts) -> Result<()> {
        if !matches!(self.change, Change::Update { .. }) {
            return Ok(());
        }
        let now = self.counts();
        if now.named - before.named == now.deleted - before.deleted {
            return Ok(());
        }
        let message = "the statement has several new values for one row, and none of them is the right one";
        Err(basalt_core::error::Error::new(ErrorKind::InvalidQuery, message).into())
    }

    /// Makes one version of it all.
    pub(super) async fn commit(mut self) -> Result<Written> {
        let Counts { inserted, deleted, .. } = self.counts();
        if self.writing.is_some() {
            // What the rest takes on its way to its file.
            let (bytes, rows) = (self.appender.bytes() as u64, self.appender.rows());
            self.hold(tables::writing_bytes(bytes, rows, self.state.cpu.threads()) - bytes).await?;
        }
        self.caller.check_key()?;
        let Self { state, base, change, replaces, appender, writing, mut gone, held, _stream, .. } = self;
        let (table, only_adds) =
            (Arc::clone(appender.table()), matches!(change, Change::Insert | Change::Replace(_)));
        let rows = NewRows { appender, writing, replaces, request: None };
        let committed = match change {
            // Of a transaction that only inserts.
            Change::Insert | Change::Replace(_) => state.tables.write(rows).await.map(|_| ()),
            Change::Delete => {
                let update = Update { base, gone: gone.take(), rows, exactly: false };
                state.tables.update(update).await
            }
            Change::Update { exactly } => {
                state.tables.update(Update { base, gone: gone.take(), rows, exactly }).await
            }
        };
        drop((held, _stream));
        match committed {
            Ok(()) => Ok(Written::Done { inserted, deleted }),
            Err(error) if error.is_conflict() => {
                // Rows that are only added conflict with what takes the place of their table.
                if only_adds {
                    state.tables.look_again(table.name()).await?;
                }
                Ok(Written::Conflict)
            }
            // Another server may have changed them, and this one not have heard of it.
            Err(error) if error.reason() == OTHER_COLUMNS => {
                fresh::newest_alone(&state, table.name()).await?;
                Ok(Written::Conflict)
            }
            Err(error) => Err(error),
        }
    }
}

/// The addresses of rows that go.
#[derive(Debug)]
struct Gone {
    set: Sip,
    /// Those that are not in the set yet.
    new: Vec<u64>,
    /// How many were named, some perhaps more than once.
    named: u64,
}

impl Default for Gone {
    fn default() -> Self {
        Self { set: Sip::empty(), new: Vec::new(), named: 0 }
    }
}

impl Gone {
    fn add(&mut self, addresses: &[u64]) {
        self.named += addresses.len() as u64;
        self.new.extend_from_slice(addresses);
        if self.new.len() >= limits::ADDRESSES_AT_ONCE {
            self.set();
        }
    }

    fn set(&mut self) -> &Sip {
        if !self.new.is_empty() {
            let new = Sip::from_ids(std::mem::take(&mut self.new));
            self.set = if self.set.is_empty() { new } else { self.set.union(&new) };
        }
        &self.set
    }

    fn take(&mut self) -> Sip {
        self.set();
        std::mem::replace(&mut self.set, Sip::empty())
    }

    fn bytes(&self) -> u64 {
        (self.set.heap_bytes() + self.new.capacity() * size_of::<u64>()) as u64
    }
}
