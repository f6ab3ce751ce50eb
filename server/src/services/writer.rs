//! The rows of one write from where they come in to their commit, whichever door they come through.

use std::{collections::VecDeque, sync::Arc};

use arrow_array::RecordBatch;
use basalt_core::{
    error::Error as EngineError,
    exec,
    fragment::RowBuffer,
    table::{Appender, Table},
};
use basalt_proto::v1 as pb;
use basalt_storage::RowsDigest;
use prost::Message as _;

use crate::{
    access::Caller,
    class::Class,
    convert::BatchReader,
    limits,
    memory::{Consumer, Reservation},
    panics::{self, caught, caught_async},
    request_log::{Digest, Known, Ticket},
    state::State,
    status::RequestError,
    tables::{self, NewRows, Replaces, Writing, Written},
    trace,
    writes::Stream,
};

/// The rows of one stream. Dropped without a commit, it leaves nothing behind.
pub(crate) struct Write {
    state: Arc<State>,
    /// Whose rows they are, as long as his key is good.
    caller: Caller,
    appender: Appender,
    /// Its full fragments, of a table that has files.
    writing: Option<Writing>,
    replaces: Replaces,
    reader: BatchReader,
    identity: Option<Identity>,
    held: Reservation,
    batches: u64,
    rows: u64,
    /// Of a load of Arrow rows, whatever it read them from: so many were made to fit.
    fitted: u64,
}

/// A write with a request id.
struct Identity {
    id: String,
    digest: Digest,
    known: Known,
}

impl Write {
    /// That of a stream to a table, which begins with this message.
    pub(crate) fn to(
        state: &Arc<State>,
        caller: &Caller,
        table: Arc<Table>,
        open: &pb::Open,
    ) -> Result<Self, RequestError> {
        panics::wanted("open", &open.table);
        let appender = Appender::new(Arc::clone(&table), &open.columns).map_err(|e| e.at("open"))?;
        let fragment = usize::try_from(state.memory.limit() / limits::FRAGMENT_MEMORY_PART);
        let appender = appender.with_fragments_of(fragment.unwrap_or(usize::MAX));
        let column = |(i, name): (usize, &String)| {
            exec::check_key_column(&table, name).map_err(|e| e.at(format!("open.replace_by[{i}]")))
        };
        let keys: Vec<usize> = open.replace_by.iter().enumerate().map(column).collect::<Result<_, _>>()?;
        let replaces = match (open.replace_all, keys.is_empty()) {
            (false, true) => Replaces::Nothing,
            (false, false) => Replaces::Keys(keys),
            (true, true) => Replaces::All,
            (true, false) => {
                let message =
                    "rows take the place of all others, or of those with the same keys, not of both";
                return Err(RequestError::protocol(message).at("open.replace_all"));
            }
        };
        let reader = BatchReader::new(appender.batch_fields());
        let identity = match open.request_id.as_str() {
            "" => None,
            id => {
                let known = state.request_log.open(&table, id)?;
                let digest = Digest::new(&open.columns, &open.replace_by, open.replace_all, &known);
                Some(Identity { id: id.to_owned(), digest, known })
            }
        };
        let writing = state.tables.writing(&table).map_err(|e| e.at("open"))?;
        let (state, held) = (Arc::clone(state), state.memory.reserve(Consumer::Writes).of(caller.account()));
        let caller = caller.clone();
        Ok(Self {
            state,
            caller,
            appender,
            writing,
            replaces,
            reader,
            identity,
            held,
            batches: 0,
            rows: 0,
            fitted: 0,
        })
    }

    /// The table that it is for.
    pub(crate) fn table(&self) -> &Arc<Table> {
        self.appender.table()
    }

    /// Batches so far.
    pub(crate) fn batches(&self) -> u64 {
        self.batches
    }

    /// Rows so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes the rows of a message in.
    pub(crate) async fn take(self, batch: pb::Batch) -> Result<Self, RequestError> {
        let bytes = batch.encoded_len() as u64;
        self.take_in(bytes, move |write| write.batch(batch)).await
    }

    /// Takes rows in that lie in so many bytes, of whatever Arrow types that fit the columns.
    pub(crate) async fn take_arrow(self, bytes: u64, batch: RecordBatch) -> Result<Self, RequestError> {
        self.take_in(bytes, move |write| write.arrow(&batch)).await
    }

    /// Takes rows in. Fragments that they fill are encoded and written while the next batches come in.
    async fn take_in(
        mut self,
        bytes: u64,
        read: impl FnOnce(&mut Self) -> Result<VecDeque<RecordBatch>, RequestError> + Send + 'static,
    ) -> Result<Self, RequestError> {
        self.caller.check_key()?;
        let cpu = Arc::clone(&self.state.cpu);
        self.hold(bytes).await?;
        let is_small = bytes <= limits::SMALL_BATCH_BYTES && self.writing.is_some();
        // As long as there are few rows, none are encoded here.
        let class = match bytes <= limits::SHORT_BATCH_BYTES as u64 {
            true => Class::of_write(self.rows),
            false => Class::Long,
        };
        let first = move || {
            let mut rows = read(&mut self)?;
            let full = self.fill(&mut rows)?;
            Ok::<_, RequestError>((self, rows, full))
        };
        let (mut write, mut rows, mut full) = match is_small {
            true => caught(first)?,
            false => cpu.run_as(class, first).await??,
        };
        while let Some(fragment) = full {
            if let Some(writing) = &mut write.writing {
                writing.add(fragment, &mut write.held, write.appender.bytes() as u64 + bytes).await?;
            }
            let next = move || {
                let full = write.fill(&mut rows)?;
                Ok::<_, RequestError>((write, rows, full))
            };
            (write, rows, full) = cpu.run(next).await??;
        }
        write.hold(0).await?;
        Ok(write)
    }

    /// Reserves what is held, and so many bytes more.
    async fn hold(&mut self, bytes: u64) -> Result<(), RequestError> {
        let bytes = bytes + self.appender.bytes() as u64;
        match &mut self.writing {
            Some(writing) => writing.hold(&mut self.held, bytes).await,
            None => self.held.set(bytes),
        }
    }

    /// Checks a batch; the answer is its rows. Of a write that was done before they are only compared.
    fn batch(&mut self, batch: pb::Batch) -> Result<VecDeque<RecordBatch>, RequestError> {
        panics::wanted("write", self.appender.table().name());
        let expected = self.batches + 1;
        if batch.sequence != expected {
            let message = format!("batch {} where {expected} is expected", batch.sequence);
            return Err(RequestError::protocol(message).at("batch.sequence"));
        }
        let mut replays = false;
        if let Some(identity) = &mut self.identity {
            identity.digest.batch(batch.rows.as_ref());
            replays = matches!(identity.known, Known::Done(_));
        }
        let place = |e: EngineError| e.at(format!("batch[{expected}]"));
        let mut batches = VecDeque::from(self.reader.read(batch.rows).map_err(place)?);
        self.rows += batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        self.batches = expected;
        if replays {
            batches.clear();
        }
        batches.iter().try_for_each(|batch| self.appender.check(batch)).map_err(place)?;
        Ok(batches)
    }

    /// The same of rows of other types, in pieces that are made to fit one by one.
    fn arrow(&mut self, batch: &RecordBatch) -> Result<VecDeque<RecordBatch>, RequestError> {
        panics::wanted("write", self.appender.table().name());
        let pieces = self.reader.pieces(batch, self.rows + 1)?;
        self.rows += batch.num_rows() as u64;
        self.batches += 1;
        Ok(pieces)
    }

    /// Takes rows in, until there are none left or a fragment is full that is to be written.
    fn fill(&mut self, batches: &mut VecDeque<RecordBatch>) -> Result<Option<RowBuffer>, RequestError> {
        while let Some(batch) = batches.pop_front() {
            let batch = self.fitted(batch)?;
            if self.writing.is_none() {
                self.appender.push(&batch)?;
                // Rows of nulls may be many in few bytes, and take as many as others here.
                let held = self.held.bytes().max(self.appender.bytes() as u64);
                self.held.set(held)?;
                continue;
            }
            let (taken, full) = self.appender.fill(&batch, 0);
            if taken < batch.num_rows() {
                batches.push_front(batch.slice(taken, batch.num_rows() - taken));
            }
            if full.is_some() {
                return Ok(full);
            }
        }
        Ok(None)
    }

    /// Rows with the types of the columns; those of messages have them, and were checked. The others are pieces of a whole,
    /// whatever the batches in which it came: its rows are counted from 1, as those of files are.
    fn fitted(&mut self, batch: RecordBatch) -> Result<RecordBatch, RequestError> {
        if self.reader.fits(&batch) {
            return Ok(batch);
        }
        let first = self.fitted + 1;
        let fitted = self.reader.fit(&batch, first)?;
        self.appender.check_from(&fitted, first)?;
        self.fitted += fitted.num_rows() as u64;
        Ok(fitted)
    }

    /// Fails where a client has sent other rows than it says.
    pub(crate) fn check_commit(&self, commit: &pb::Commit) -> Result<(), RequestError> {
        if (commit.batches, commit.rows) != (self.batches, self.rows) {
            let message = format!(
                "Commit says {} batches of {} rows, {} of {} arrived; nothing was written",
                commit.batches, commit.rows, self.batches, self.rows
            );
            return Err(RequestError::protocol(message).at("commit"));
        }
        Ok(())
    }

    /// Makes the rows durable, all at once.
    pub(crate) async fn commit(mut self, stream: Arc<Stream>) -> Result<pb::Committed, RequestError> {
        if self.writing.is_some() {
            // What the rest takes on its way to its file.
            let (bytes, rows) = (self.appender.bytes() as u64, self.appender.rows());
            self.hold(tables::writing_bytes(bytes, rows, self.state.cpu.threads()) - bytes).await?;
        }
        self.caller.check_key()?;
        let Self { state, appender, writing, replaces, identity, held, rows, .. } = self;
        let (request, ticket): (_, Option<(RowsDigest, Ticket)>) = match identity {
            Some(Identity { digest, known: Known::Done(first), .. }) => {
                let commit = first.replay(digest.finish())?;
                let (version, rows) = (commit.version, commit.rows);
                // Whoever wrote it may have failed before it told the others.
                state.tables.tell(appender.table(), version).await;
                return Ok(pb::Committed { version, rows, replayed: true, replaced: None });
            }
            Some(Identity { id, digest, known: Known::New(ticket) }) => {
                let digest = digest.finish();
                (Some(tables::request(&id, digest, rows)), Some((digest, ticket)))
            }
            None => (None, None),
        };
        let rows = NewRows { appender, writing, replaces, request };
        // It goes on when the client is gone: the commit may be on its way.
        let write = tokio::spawn(trace::carried(caught_async(async move {
            let written = state.tables.write(rows).await?;
            if let Some((digest, ticket)) = ticket {
                ticket.done(digest, written.commit);
            }
            drop(held);
            stream.leave_place();
            Ok::<_, RequestError>(written)
        })));
        let Written { commit, replaced } = write.await.map_err(|_| RequestError::internal())??;
        Ok(pb::Committed { version: commit.version, rows: commit.rows, replayed: false, replaced })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use arrow_array::{ArrayRef, Int64Array};
    use basalt_core::{
        query::Filter,
        schema::{DataType, Field, Schema},
    };
    use basalt_sip::Sip;
    use tempfile::TempDir;

    use super::*;
    use crate::{
        Config,
        coordinator::fresh,
        environment,
        tables::{Peers, RowPredicate},
    };

    /// Other nodes: the versions that they were told of, of tables and of the catalog.
    #[derive(Debug, Default)]
    struct Others(Mutex<Vec<u64>>, Mutex<Vec<u64>>);

    impl Others {
        fn take(&self) -> Vec<u64> {
            std::mem::take(&mut *self.0.lock().unwrap())
        }
    }

    #[tonic::async_trait]
    impl Peers for Others {
        fn holds(&self, _: u64, _: u32) -> bool {
            true
        }

        fn owns(&self, _: u64) -> bool {
            true
        }

        async fn find(&self, _: &Arc<Table>, _: u64, _: &RowPredicate) -> Result<Option<Sip>, RequestError> {
            Ok(None)
        }

        async fn committed(&self, _: &Table, version: u64) {
            self.0.lock().unwrap().push(version);
        }

        async fn catalog_changed(&self, version: u64) {
            self.1.lock().unwrap().push(version);
        }
    }

    async fn node(store: &str) -> (Arc<State>, Arc<Others>) {
        let config = Config { store: store.to_owned(), ..Config::default() };
        let state = State::new(environment::process(), &config, None).unwrap();
        let others = Arc::new(Others::default());
        state.tables.set_peers(Arc::clone(&others) as Arc<dyn Peers>);
        state.load().await.unwrap();
        (Arc::new(state), others)
    }

    fn schema() -> Schema {
        Schema::new(vec![Field::new("a", DataType::Int64, true)]).unwrap()
    }

    /// Two nodes that do not hear each other, over a store with a table.
    async fn two_nodes() -> (TempDir, [(Arc<State>, Arc<Others>); 2]) {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().display().to_string();
        let first = node(&store).await;
        first.0.tables.create("t", schema(), None, Default::default()).await.unwrap();
        let second = node(&store).await;
        first.1.take();
        (folder, [first, second])
    }

    /// A write under one request id, before its commit.
    async fn opened(state: &Arc<State>) -> (Write, Arc<Stream>) {
        let open = pb::Open { table: "t".into(), request_id: "once".into(), ..Default::default() };
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let rows = RecordBatch::try_from_iter_with_nullable([("a", column, true)]).unwrap();
        let table = state.catalog.get("t").unwrap();
        let write = Write::to(state, &Caller::itself(&state.access), table, &open)
            .unwrap()
            .take_arrow(16, rows)
            .await
            .unwrap();
        (write, state.writes.open(1).unwrap())
    }

    /// Whoever made a write may have failed before it told the others, so whoever acknowledges it tells them.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_write_that_is_tried_again_is_told_to_the_others() {
        let (_folder, [(state, others), (elsewhere, their_others)]) = two_nodes().await;
        // The second try begins there before the first one has ended.
        let (second, stream) = opened(&elsewhere).await;

        let (first, own) = opened(&state).await;
        let committed = first.commit(own).await.unwrap();
        assert_eq!((committed.replayed, others.take()), (false, vec![committed.version]));

        let known = second.commit(stream).await.unwrap();
        assert_eq!((known.version, their_others.take()), (committed.version, vec![committed.version]));

        let (again, own) = opened(&state).await;
        let replayed = again.commit(own).await.unwrap();
        assert_eq!((replayed.replayed, replayed.version), (true, committed.version));
        assert_eq!(others.take(), vec![committed.version]);
    }

    /// The write of another node that is acknowledged here, for its request id is known, may not have been read here.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_was_acknowledged_here_is_read_here() {
        let (_folder, [(state, _), (elsewhere, others)]) = two_nodes().await;
        let (write, stream) = opened(&state).await;
        let committed = write.commit(stream).await.unwrap();
        let table = elsewhere.catalog.get("t").unwrap();
        assert_eq!(table.snapshot().version(), 0);
        elsewhere.tables.tell(&table, committed.version).await;
        let (_, read) = fresh::pin(&elsewhere, "t", None).await.unwrap();
        assert_eq!((read.number(), others.take()), (committed.version, vec![committed.version]));
        // What finds nothing to delete says of which version that is.
        let nothing = elsewhere.tables.delete(&table, Some(Filter::Or(Vec::new()))).await.unwrap();
        assert_eq!((nothing.version, others.take()), (committed.version, vec![committed.version]));
    }

    /// So does a statement that changes nothing of what it has read.
    #[cfg(feature = "sql")]
    #[tokio::test(flavor = "multi_thread")]
    async fn what_changes_nothing_says_which_version_it_read() {
        use crate::tables::{NewRows, Update};
        use basalt_core::table::Appender;
        let (_folder, [(state, _), (elsewhere, others)]) = two_nodes().await;
        let (write, stream) = opened(&state).await;
        let committed = write.commit(stream).await.unwrap();
        let table = elsewhere.catalog.get("t").unwrap();
        elsewhere.tables.tell(&table, committed.version).await;
        let (_, read) = fresh::pin(&elsewhere, "t", None).await.unwrap();
        others.take();
        let appender = Appender::new(table, &[]).unwrap();
        let rows = NewRows { appender, writing: None, replaces: Replaces::Nothing, request: None };
        let nothing = Update { base: read, gone: Sip::empty(), rows, exactly: true };
        elsewhere.tables.update(nothing).await.unwrap();
        assert_eq!(others.take(), vec![committed.version]);
    }

    /// So says a refusal what the catalog has.
    #[tokio::test(flavor = "multi_thread")]
    async fn what_the_catalog_refuses_is_known_here_and_told() {
        let (_folder, [(state, _), (elsewhere, others)]) = two_nodes().await;
        state.tables.remove("t").await.unwrap();
        let gone = elsewhere.tables.remove("t").await.unwrap_err();
        assert_eq!((gone.reason(), others.1.lock().unwrap().len()), ("TABLE_NOT_FOUND", 1));
        assert!(elsewhere.catalog.get("t").is_err());
        state.tables.create("u", schema(), None, Default::default()).await.unwrap();
        let taken = elsewhere.tables.create("u", schema(), None, Default::default()).await.unwrap_err();
        assert_eq!((taken.reason(), others.1.lock().unwrap().len()), ("TABLE_EXISTS", 2));
    }
}
