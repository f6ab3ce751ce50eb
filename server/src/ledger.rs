//! The request ids of finished and running writes, which make a retry harmless.
//!
//! A write is known by its table and its id. The digest of its rows tells a retry from another write that
//! took the same id. Ids are forgotten by age and number, and with their table.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use basalt_core::table::{Commit, Table};
use basalt_proto::v1::{self as pb, ErrorReason, batch::Rows, column::Values};
use hashbrown::HashMap;

use crate::{limits, status::Fault};

/// A table by its address, which its `Weak` keeps from being used again.
type Key = (usize, String);

#[derive(Debug)]
struct Entry {
    /// Keeps the address in the key the table's own.
    _table: Weak<Table>,
    /// `None` while the write runs.
    done: Option<Done>,
}

/// A finished write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    digest: u64,
    commit: Commit,
}

#[derive(Debug, Default)]
struct Entries {
    by_key: HashMap<Key, Entry>,
    /// Finished writes, the oldest first.
    order: VecDeque<(Instant, Key)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Ledger {
    entries: Mutex<Entries>,
    capacity: usize,
    age: Duration,
}

/// What the ledger knows of an id.
#[derive(Debug)]
pub(crate) enum Known {
    /// Nothing: the write may run.
    New(Ticket),
    /// The write was done before.
    Done(Done),
}

impl Ledger {
    pub(crate) fn new(capacity: usize, age: Duration) -> Self {
        Self { entries: Mutex::default(), capacity, age }
    }

    /// Starts a write under an id.
    pub(crate) fn open(self: &Arc<Self>, table: &Arc<Table>, id: &str) -> Result<Known, Fault> {
        if id.len() > limits::REQUEST_ID_BYTES {
            let message =
                format!("a request id of {} bytes; the limit is {}", id.len(), limits::REQUEST_ID_BYTES);
            return Err(Fault::protocol(message).at("open.request_id"));
        }
        let key = (Arc::as_ptr(table).addr(), id.to_owned());
        let mut entries = self.lock();
        self.forget_old(&mut entries);
        match entries.by_key.get(&key) {
            Some(Entry { done: Some(done), .. }) => Ok(Known::Done(*done)),
            Some(Entry { done: None, .. }) => {
                let message = format!("a write with the request id {id:?} is under way");
                Err(Fault::new(ErrorReason::RequestInProgress, message).at("open.request_id"))
            }
            None => {
                entries.by_key.insert(key.clone(), Entry { _table: Arc::downgrade(table), done: None });
                Ok(Known::New(Ticket { ledger: Arc::clone(self), key: Some(key) }))
            }
        }
    }

    /// Forgets the writes of a table that is dropped.
    pub(crate) fn forget(&self, table: &Arc<Table>) {
        let table = Arc::as_ptr(table).addr();
        let mut entries = self.lock();
        entries.by_key.retain(|key, _| key.0 != table);
        entries.order.retain(|(_, key)| key.0 != table);
    }

    fn forget_old(&self, entries: &mut Entries) {
        while let Some((at, _)) = entries.order.front()
            && (entries.order.len() > self.capacity || at.elapsed() > self.age)
            && let Some((_, key)) = entries.order.pop_front()
        {
            entries.by_key.remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running write; dropped without [`Ticket::done`], its id is free again.
#[derive(Debug)]
pub(crate) struct Ticket {
    ledger: Arc<Ledger>,
    key: Option<Key>,
}

impl Ticket {
    /// The rows are in.
    pub(crate) fn done(mut self, digest: u64, commit: Commit) {
        let Some(key) = self.key.take() else { return };
        let mut entries = self.ledger.lock();
        // Not there: the table was dropped meanwhile.
        if let Some(entry) = entries.by_key.get_mut(&key) {
            entry.done = Some(Done { digest, commit });
            entries.order.push_back((Instant::now(), key));
            self.ledger.forget_old(&mut entries);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.ledger.lock().by_key.remove(&key);
        }
    }
}

impl Done {
    /// The commit of the first write, if this one had the same rows.
    pub(crate) fn replay(&self, digest: u64) -> Result<Commit, Fault> {
        if digest == self.digest {
            return Ok(self.commit);
        }
        let message = "a finished write has this request id and other rows (or the same in other batches)";
        Err(Fault::new(ErrorReason::RequestIdReused, message).at("open.request_id"))
    }
}

/// The digest of a write's columns and batches.
#[derive(Debug)]
pub(crate) struct Digest(DefaultHasher);

impl Digest {
    pub(crate) fn new(columns: &[String]) -> Self {
        let mut hasher = DefaultHasher::new();
        columns.hash(&mut hasher);
        Self(hasher)
    }

    pub(crate) fn batch(&mut self, rows: Option<&Rows>) {
        let hasher = &mut self.0;
        match rows {
            None => hasher.write_u8(0),
            Some(Rows::ArrowIpc(bytes)) => bytes.hash(hasher),
            Some(Rows::Columns(batch)) => {
                batch.rows.hash(hasher);
                hasher.write_usize(batch.columns.len());
                batch.columns.iter().for_each(|column| hash_column(column, hasher));
            }
        }
    }

    pub(crate) fn finish(&self) -> u64 {
        self.0.finish()
    }
}

fn hash_column(column: &pb::Column, hasher: &mut DefaultHasher) {
    column.validity.hash(hasher);
    column.values.as_ref().map(std::mem::discriminant).hash(hasher);
    match &column.values {
        None => {}
        Some(Values::Bools(v)) => v.values.hash(hasher),
        Some(Values::Int32s(v)) => v.values.hash(hasher),
        Some(Values::Int64s(v)) => v.values.hash(hasher),
        Some(Values::Uint32s(v)) => v.values.hash(hasher),
        Some(Values::Uint64s(v)) => v.values.hash(hasher),
        Some(Values::Floats(v)) => v.values.iter().for_each(|f| hasher.write_u32(f.to_bits())),
        Some(Values::Doubles(v)) => v.values.iter().for_each(|f| hasher.write_u64(f.to_bits())),
        Some(Values::Texts(v)) => (&v.data, &v.lengths).hash(hasher),
        Some(Values::Int128s(v)) => v.data.hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use basalt_core::{
        schema::{DataType, Field, Schema},
        table::Catalog,
    };

    use super::*;

    const COMMIT: Commit = Commit { version: 3, rows: 5 };

    fn table(catalog: &Catalog, name: &str) -> Arc<Table> {
        catalog.create(name, Schema::new(vec![Field::new("a", DataType::Int64, false)]).unwrap()).unwrap()
    }

    fn ticket(ledger: &Arc<Ledger>, table: &Arc<Table>, id: &str) -> Ticket {
        match ledger.open(table, id).unwrap() {
            Known::New(ticket) => ticket,
            Known::Done(done) => panic!("{id} is known: {done:?}"),
        }
    }

    #[test]
    fn an_id_is_free_running_or_done() {
        let (catalog, ledger) = (Catalog::new(), Arc::new(Ledger::new(10, Duration::from_secs(60))));
        let (a, b) = (table(&catalog, "a"), table(&catalog, "b"));
        let running = ticket(&ledger, &a, "x");
        assert_eq!(ledger.open(&a, "x").unwrap_err().reason(), "REQUEST_IN_PROGRESS");
        drop(ticket(&ledger, &b, "x"));
        drop(running);

        ticket(&ledger, &a, "x").done(7, COMMIT);
        let Known::Done(done) = ledger.open(&a, "x").unwrap() else { panic!("it is done") };
        assert_eq!(done.replay(7).unwrap(), COMMIT);
        assert_eq!(done.replay(8).unwrap_err().reason(), "REQUEST_ID_REUSED");
        assert_eq!(ledger.open(&a, &"x".repeat(129)).unwrap_err().reason(), "PROTOCOL");
    }

    #[test]
    fn ids_are_forgotten_by_number_by_age_and_with_their_table() {
        let catalog = Catalog::new();
        let ledger = Arc::new(Ledger::new(2, Duration::from_secs(60)));
        let a = table(&catalog, "a");
        for id in ["1", "2", "3"] {
            ticket(&ledger, &a, id).done(0, COMMIT);
        }
        assert_eq!(ledger.lock().by_key.len(), 2);
        drop(ticket(&ledger, &a, "1"));

        let late = ticket(&ledger, &a, "4");
        ledger.forget(&a);
        late.done(0, COMMIT);
        assert!(ledger.lock().by_key.is_empty());

        let brief = Arc::new(Ledger::new(2, Duration::ZERO));
        ticket(&brief, &a, "1").done(0, COMMIT);
        drop(ticket(&brief, &a, "1"));
    }

    #[test]
    fn digests_tell_rows_apart() {
        let digest = |columns: &[&str], values: &[i64], validity: &[u8]| {
            let columns: Vec<_> = columns.iter().map(ToString::to_string).collect();
            let mut digest = Digest::new(&columns);
            let values = Values::Int64s(pb::Int64s { values: values.to_vec() });
            let column = pb::Column { validity: validity.to_vec(), values: Some(values) };
            digest.batch(Some(&Rows::Columns(pb::RecordBatch { rows: 2, columns: vec![column] })));
            digest.finish()
        };
        let first = digest(&["a"], &[1, 2], &[]);
        assert_eq!(first, digest(&["a"], &[1, 2], &[]));
        assert_ne!(first, digest(&["b"], &[1, 2], &[]));
        assert_ne!(first, digest(&["a"], &[2, 1], &[]));
        assert_ne!(first, digest(&["a"], &[1, 2], &[3]));
    }
}
