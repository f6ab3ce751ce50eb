//! The request ids of finished and running writes, which make a retry harmless.
//!
//! A write is known by its table and its id. The digest of its rows tells a retry from another write that
//! took the same id. Ids are forgotten by age and number, and with their table.

use std::{
    collections::VecDeque,
    fmt,
    hash::Hasher as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use basalt_core::table::{Commit, Table};
use basalt_proto::v1::{self as pb, ErrorReason, batch::Rows, column::Values};
use basalt_storage::{DoneRequest, RowsDigest};
use hashbrown::HashMap;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use twox_hash::XxHash3_64;

use crate::{limits, status::RequestError};

/// The id of a table, and that of a write.
type Key = (u64, String);

/// A finished write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    digest: RowsDigest,
    commit: Commit,
}

#[derive(Debug, Default)]
struct Entries {
    /// `None` while the write runs.
    by_key: HashMap<Key, Option<Done>>,
    /// Finished writes, the oldest first.
    order: VecDeque<(Instant, Key)>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RequestLog {
    entries: Mutex<Entries>,
    capacity: usize,
    age: Duration,
}

/// What the request log knows of an id.
#[derive(Debug)]
pub(crate) enum Known {
    /// Nothing: the write may run.
    New(Ticket),
    /// The write was done before.
    Done(Done),
}

impl RequestLog {
    pub(crate) fn new(capacity: usize, age: Duration) -> Self {
        Self { entries: Mutex::default(), capacity, age }
    }

    /// Starts a write under an id.
    pub(crate) fn open(self: &Arc<Self>, table: &Arc<Table>, id: &str) -> Result<Known, RequestError> {
        if id.len() > limits::REQUEST_ID_BYTES {
            let message =
                format!("a request id of {} bytes; the limit is {}", id.len(), limits::REQUEST_ID_BYTES);
            return Err(RequestError::protocol(message).at("open.request_id"));
        }
        let key = (table.id(), id.to_owned());
        let mut entries = self.lock();
        self.forget_old(&mut entries);
        match entries.by_key.get(&key) {
            Some(Some(done)) => Ok(Known::Done(*done)),
            Some(None) => {
                let message = format!("a write with the request id {id:?} is under way");
                Err(RequestError::new(ErrorReason::RequestInProgress, message).at("open.request_id"))
            }
            None => {
                entries.by_key.insert(key.clone(), None);
                Ok(Known::New(Ticket { request_log: Arc::clone(self), key: Some(key) }))
            }
        }
    }

    /// Takes in the finished writes that a table's log knows of; one that runs here goes on. `now`: the time of day.
    pub(crate) fn restore(&self, table: &Table, now: SystemTime, done: impl Iterator<Item = DoneRequest>) {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut done: Vec<_> = done.collect();
        done.sort_unstable_by_key(|done| done.at_millis);
        let mut entries = self.lock();
        for DoneRequest { request, version, at_millis } in done {
            let at = Duration::from_millis(u64::try_from(at_millis).unwrap_or(0));
            let Some(at) = Instant::now().checked_sub(now.saturating_sub(at)) else { continue };
            let key = (table.id(), request.id);
            if !entries.by_key.contains_key(&key) {
                let commit = Commit { version, rows: request.rows };
                entries.by_key.insert(key.clone(), Some(Done { digest: request.digest, commit }));
                entries.order.push_back((at, key));
            }
        }
        self.forget_old(&mut entries);
    }

    /// A table knows the finished writes of the one whose place it takes.
    pub(crate) fn inherit(&self, table: &Table, from: &Table) {
        let mut entries = self.lock();
        let Entries { by_key, order } = &mut *entries;
        for (_, key) in order.iter_mut().filter(|(_, key)| key.0 == from.id()) {
            if let Some(done) = by_key.remove(key) {
                key.0 = table.id();
                by_key.insert(key.clone(), done);
            }
        }
    }

    /// Forgets the writes of a table that is dropped.
    pub(crate) fn forget(&self, table: &Table) {
        let table = table.id();
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
    request_log: Arc<RequestLog>,
    key: Option<Key>,
}

impl Ticket {
    /// The rows are in.
    pub(crate) fn done(mut self, digest: RowsDigest, commit: Commit) {
        let Some(key) = self.key.take() else { return };
        let mut entries = self.request_log.lock();
        // Not there: the table was dropped meanwhile.
        if let Some(entry) = entries.by_key.get_mut(&key) {
            *entry = Some(Done { digest, commit });
            entries.order.push_back((Instant::now(), key));
            self.request_log.forget_old(&mut entries);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.request_log.lock().by_key.remove(&key);
        }
    }
}

impl Done {
    /// The commit of the first write, if this one had the same rows.
    pub(crate) fn replay(&self, digest: RowsDigest) -> Result<Commit, RequestError> {
        if digest == self.digest {
            return Ok(self.commit);
        }
        let message = "a finished write has this request id and other rows (or the same in other batches)";
        Err(RequestError::new(ErrorReason::RequestIdReused, message).at("open.request_id"))
    }
}

/// The digest of a write's columns and batches. It is the same in every build: the log of a table keeps it.
pub(crate) struct Digest(Hasher);

enum Hasher {
    Sha256(Box<Sha256>),
    Xxh3(Box<XxHash3_64>),
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digest").finish_non_exhaustive()
    }
}

impl Digest {
    /// Of a write of these columns; `replace_by` are those of the keys that it replaces, and `all` says that it replaces all. Of the
    /// kind with which a finished write is known.
    pub(crate) fn new(columns: &[String], replace_by: &[String], all: bool, known: &Known) -> Self {
        let mut digest = Self(match known {
            Known::Done(Done { digest: RowsDigest::Sha256(_), .. }) => Hasher::Sha256(Box::default()),
            _ => Hasher::Xxh3(Box::new(XxHash3_64::new())),
        });
        for names in [columns, replace_by] {
            digest.number(names.len() as u64);
            names.iter().for_each(|name| digest.bytes(name.as_bytes()));
        }
        // Of others nothing more was said by earlier versions, whose requests are known again.
        if all {
            digest.number(u64::MAX);
        }
        digest
    }

    pub(crate) fn batch(&mut self, rows: Option<&Rows>) {
        match rows {
            None => self.number(0),
            Some(Rows::ArrowIpc(bytes)) => {
                self.number(1);
                self.bytes(bytes);
            }
            Some(Rows::Columns(batch)) => {
                self.number(2);
                self.number(batch.rows.into());
                self.number(batch.columns.len() as u64);
                batch.columns.iter().for_each(|column| self.column(column));
            }
        }
    }

    pub(crate) fn finish(self) -> RowsDigest {
        match self.0 {
            Hasher::Sha256(hasher) => {
                let digest = hasher.finalize();
                let first = digest.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte));
                RowsDigest::Sha256(first)
            }
            Hasher::Xxh3(hasher) => RowsDigest::Xxh3(hasher.finish()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Hasher::Sha256(hasher) => hasher.update(bytes),
            Hasher::Xxh3(hasher) => hasher.write(bytes),
        }
    }

    fn column(&mut self, column: &pb::Column) {
        macro_rules! numbers {
            ($kind:expr, $values:expr) => {{
                self.number($kind);
                self.number($values.len() as u64);
                self.values(&$values, |value| value.to_le_bytes());
            }};
        }
        self.bytes(&column.validity);
        match &column.values {
            None => self.number(0),
            Some(Values::Bools(v)) => {
                self.number(1);
                self.number(v.values.len() as u64);
                self.values(&v.values, |value| [u8::from(value)]);
            }
            Some(Values::Int32s(v)) => numbers!(2, v.values),
            Some(Values::Int64s(v)) => numbers!(3, v.values),
            Some(Values::Uint32s(v)) => numbers!(4, v.values),
            Some(Values::Uint64s(v)) => numbers!(5, v.values),
            Some(Values::Floats(v)) => numbers!(6, v.values),
            Some(Values::Doubles(v)) => numbers!(7, v.values),
            Some(Values::Texts(v)) => {
                self.number(8);
                self.bytes(&v.data);
                numbers!(8, v.lengths);
            }
            Some(Values::Int128s(v)) => {
                self.number(9);
                self.bytes(&v.data);
            }
        }
    }

    /// The bytes of values, many at a time: a call for each would take longer than the hash.
    fn values<T: Copy, const N: usize>(&mut self, values: &[T], bytes: impl Fn(T) -> [u8; N]) {
        let mut block = [[0; N]; 512];
        for values in values.chunks(block.len()) {
            for (to, value) in block.iter_mut().zip(values) {
                *to = bytes(*value);
            }
            self.update(block[..values.len()].as_flattened());
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.update(bytes);
    }

    fn number(&mut self, number: u64) {
        self.update(&number.to_le_bytes());
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

    fn ticket(request_log: &Arc<RequestLog>, table: &Arc<Table>, id: &str) -> Ticket {
        match request_log.open(table, id).unwrap() {
            Known::New(ticket) => ticket,
            Known::Done(done) => panic!("{id} is known: {done:?}"),
        }
    }

    #[test]
    fn an_id_is_free_running_or_done() {
        let (catalog, request_log) = (Catalog::new(), Arc::new(RequestLog::new(10, Duration::from_secs(60))));
        let (a, b) = (table(&catalog, "a"), table(&catalog, "b"));
        let running = ticket(&request_log, &a, "x");
        assert_eq!(request_log.open(&a, "x").unwrap_err().reason(), "REQUEST_IN_PROGRESS");
        drop(ticket(&request_log, &b, "x"));
        drop(running);

        ticket(&request_log, &a, "x").done(RowsDigest::Xxh3(7), COMMIT);
        let Known::Done(done) = request_log.open(&a, "x").unwrap() else { panic!("it is done") };
        assert_eq!(done.replay(RowsDigest::Xxh3(7)).unwrap(), COMMIT);
        assert_eq!(done.replay(RowsDigest::Xxh3(8)).unwrap_err().reason(), "REQUEST_ID_REUSED");
        assert_eq!(request_log.open(&a, &"x".repeat(129)).unwrap_err().reason(), "PROTOCOL");
    }

    #[test]
    fn ids_are_forgotten_by_number_by_age_and_with_their_table() {
        let catalog = Catalog::new();
        let request_log = Arc::new(RequestLog::new(2, Duration::from_secs(60)));
        let a = table(&catalog, "a");
        for id in ["1", "2", "3"] {
            ticket(&request_log, &a, id).done(RowsDigest::Xxh3(0), COMMIT);
        }
        assert_eq!(request_log.lock().by_key.len(), 2);
        drop(ticket(&request_log, &a, "1"));

        let late = ticket(&request_log, &a, "4");
        request_log.forget(&a);
        late.done(RowsDigest::Xxh3(0), COMMIT);
        assert!(request_log.lock().by_key.is_empty());

        let b = table(&catalog, "b");
        ticket(&request_log, &a, "5").done(RowsDigest::Xxh3(0), COMMIT);
        request_log.inherit(&b, &a);
        request_log.forget(&a);
        assert!(matches!(request_log.open(&b, "5").unwrap(), Known::Done(_)));

        let brief = Arc::new(RequestLog::new(2, Duration::ZERO));
        ticket(&brief, &a, "1").done(RowsDigest::Xxh3(0), COMMIT);
        drop(ticket(&brief, &a, "1"));
    }

    /// A write that is known by a digest.
    fn known(digest: RowsDigest) -> Known {
        Known::Done(Done { digest, commit: COMMIT })
    }

    #[test]
    fn a_retry_has_the_digest_that_the_write_is_known_by() {
        let digest = |known: &Known| Digest::new(&["a".to_owned()], &[], true, known).finish();
        assert_eq!(digest(&known(RowsDigest::Sha256(0))), RowsDigest::Sha256(0x14c3_98af_b2f3_7ca2));
        assert!(matches!(digest(&known(RowsDigest::Xxh3(0))), RowsDigest::Xxh3(_)));
    }

    #[test]
    fn digests_tell_rows_apart() {
        for kind in [RowsDigest::Sha256, RowsDigest::Xxh3] {
            rows_are_told_apart(&known(kind(0)));
        }
    }

    fn rows_are_told_apart(known: &Known) {
        let digest = |columns: &[&str], values: &[i64], validity: &[u8]| {
            let columns: Vec<_> = columns.iter().map(ToString::to_string).collect();
            let mut digest = Digest::new(&columns, &[], false, known);
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

    /// The log keeps it: another build knows the same write again.
    #[test]
    fn digests_are_those_of_one_value_after_the_other() {
        let values: Vec<i64> = (0..2000).map(|i| i * i - 7).collect();
        let mut digest = Digest::new(&["a".to_owned()], &[], false, &known(RowsDigest::Xxh3(0)));
        let column = pb::Column {
            validity: Vec::new(),
            values: Some(Values::Int64s(pb::Int64s { values: values.clone() })),
        };
        digest.batch(Some(&Rows::Columns(pb::RecordBatch { rows: 2000, columns: vec![column] })));
        let mut expected = Digest::new(&["a".to_owned()], &[], false, &known(RowsDigest::Xxh3(0)));
        for number in [2, 2000, 1, 0, 3, 2000] {
            expected.number(number);
        }
        values.iter().for_each(|value| expected.number(value.cast_unsigned()));
        assert_eq!(digest.finish(), expected.finish());
    }
}
