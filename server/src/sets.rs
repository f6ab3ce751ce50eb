//! The sets that the server keeps for its clients.
//!
//! A set is known by a digest of what it is, so that keeping it twice is keeping it once, and a handle can
//! never come to mean another set. Its time is the client's choice within a limit; all sets together stay
//! within a quota, and count against the memory limit beside tables and writes. A set of rows pins the version that they
//! are rows of.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use basalt_core::schema::DataType;
use basalt_proto::v1::ErrorReason;
use basalt_sip::Sip;
use hashbrown::HashMap;
use sha2::{Digest as _, Sha256};
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    access::{Action, Caller, Object},
    limits,
    memory::{Account, Consumer, MemoryPool, Reservation},
    status::RequestError,
    tables::{Tables, VersionPin},
};

/// What the ids of a set mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) table: String,
    pub(crate) version: u64,
    /// The id of the table; 0 is not checked.
    pub(crate) table_id: u64,
    /// `None`: row addresses.
    pub(crate) key: Option<KeyDomain>,
}

impl Scope {
    /// Fails where a caller may not read the table that the set is of: a set tells of it what a query would.
    pub(crate) fn may_be_read(&self, caller: &Caller) -> Result<(), RequestError> {
        match self.table.as_str() {
            // Ids that a client has brought from elsewhere.
            "" => Ok(()),
            table => caller.authorise(Action::Read, Object::Table(table)),
        }
    }
}

/// The ids are values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyDomain {
    pub(crate) column: String,
    pub(crate) data_type: DataType,
    pub(crate) has_null: bool,
}

/// A set with its meaning.
#[derive(Clone, Debug)]
pub(crate) struct KeptSet {
    pub(crate) scope: Scope,
    pub(crate) sip: Arc<Sip>,
}

/// The SHA-256 of a set's scope and bytes.
pub(crate) type Handle = [u8; 32];

/// See the module. Methods are told the time.
#[derive(Debug)]
pub(crate) struct Sets {
    entries: Mutex<Entries>,
    quota: u64,
    memory: Arc<MemoryPool>,
    /// Held while a set is fetched from another node, so that each is fetched once however many ask.
    fetches: Mutex<HashMap<Handle, Weak<Semaphore>>>,
}

#[derive(Debug, Default)]
struct Entries {
    by_handle: HashMap<Handle, Entry>,
    by_expiry: BTreeSet<(Instant, Handle)>,
    bytes: u64,
}

/// Who keeps a set, and in whose name it takes memory.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    account: Option<Arc<Account>>,
    /// Of keys; none where nobody has one.
    names: Vec<String>,
    /// It asks for it itself, and hears where it has no place.
    asks: bool,
}

impl Keeper {
    pub(crate) fn new(caller: &Caller) -> Self {
        let names = caller.key_name().map(str::to_owned).into_iter().collect();
        Self { account: caller.account(), names, asks: true }
    }

    /// Those of whom another node knows.
    pub(crate) fn elsewhere(names: Vec<String>) -> Self {
        let plain = |name: &String| name.len() <= limits::KEY_NAME_BYTES;
        let names = names.into_iter().filter(plain).take(limits::SET_KEEPERS).collect();
        Self { account: None, names, asks: false }
    }
}

#[derive(Debug)]
struct Entry {
    set: KeptSet,
    /// Those who keep it, by the names of their keys. Its handle is enough to use it; these alone are shown it, and drop it.
    keepers: BTreeMap<String, Option<Arc<Account>>>,
    /// The one among them in whose name it takes memory; `None`: it takes it in nobody's.
    payer: Option<String>,
    /// Of a set of rows.
    pin: Option<Arc<VersionPin>>,
    expires: Instant,
    memory: Reservation,
}

impl Sets {
    /// Room for `quota` bytes, which count as `memory` while they are held.
    pub(crate) fn new(quota: u64, memory: Arc<MemoryPool>) -> Self {
        Self { entries: Mutex::default(), quota, memory, fetches: Mutex::default() }
    }

    pub(crate) fn quota(&self) -> u64 {
        self.quota
    }

    /// The one permit to fetch a set from another node.
    pub(crate) fn fetch(&self, handle: Handle) -> Arc<Semaphore> {
        let mut fetches = self.fetches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fetch) = fetches.get(&handle).and_then(Weak::upgrade) {
            return fetch;
        }
        if fetches.len() == fetches.capacity() {
            fetches.retain(|_, fetch| fetch.strong_count() > 0);
        }
        let fetch = Arc::new(Semaphore::new(1));
        fetches.insert(handle, Arc::downgrade(&fetch));
        fetch
    }

    /// What a set needs so that it stays of use: a set of rows, their version. `None`: nothing, or it is gone already, as
    /// whoever reads the set hears.
    pub(crate) async fn pin(tables: &Tables, scope: &Scope) -> Result<Option<Arc<VersionPin>>, RequestError> {
        match scope.key {
            Some(_) => Ok(None),
            None => tables.pin_version(&scope.table, scope.table_id, scope.version).await,
        }
    }

    /// Keeps a set for `time`, shortened to the limit, for somebody who may hold so much memory. One that is kept already
    /// stays for at least that long. The answer is its handle and the time that it has left.
    pub(crate) fn keep(
        &self,
        keeper: Keeper,
        set: KeptSet,
        pin: Option<Arc<VersionPin>>,
        time: Duration,
        now: Instant,
    ) -> Result<(Handle, Duration), RequestError> {
        let handle = handle_of(&set);
        let expires = now + time.min(limits::MAX_KEEP);
        let mut entries = self.at(now);
        let Entries { by_handle, by_expiry, bytes } = &mut *entries;
        if let Some(entry) = by_handle.get_mut(&handle) {
            entry.take_in(&keeper)?;
            if entry.expires < expires {
                by_expiry.remove(&(entry.expires, handle));
                by_expiry.insert((expires, handle));
                entry.expires = expires;
            }
            // An older one may be of a lease that is over.
            entry.pin = pin.or(entry.pin.take());
            return Ok((handle, entry.expires - now));
        }
        let wanted = set.bytes();
        self.check(*bytes + wanted)?;
        let mut memory = self.memory.reserve(Consumer::KeptSets).of(keeper.account.clone());
        memory.set(wanted)?;
        *bytes += wanted;
        by_expiry.insert((expires, handle));
        let payer = keeper.names.first().cloned();
        let mut entry = Entry { set, keepers: BTreeMap::new(), payer, pin, expires, memory };
        entry.add(&keeper);
        by_handle.insert(handle, entry);
        Ok((handle, expires - now))
    }

    /// That sets of so many bytes are within the quota.
    pub(crate) fn check(&self, bytes: u64) -> Result<(), RequestError> {
        if bytes <= self.quota {
            return Ok(());
        }
        let message = format!("kept sets would hold {bytes} bytes; the limit is {}", self.quota);
        Err(RequestError::new(ErrorReason::SipQuota, message).with("limit_bytes", self.quota))
    }

    /// A set, and the time that it has left.
    pub(crate) fn get(&self, handle: &[u8], now: Instant) -> Result<(KeptSet, Duration), RequestError> {
        let entries = self.at(now);
        let entry = Handle::try_from(handle).ok().and_then(|handle| entries.by_handle.get(&handle));
        entry.map(|entry| (entry.set.clone(), entry.expires - now)).ok_or_else(|| {
            let message = "no set is kept under this handle; its time may be over";
            RequestError::new(ErrorReason::SipNotFound, message)
        })
    }

    /// Drops a set of somebody, or of anybody for an administrator of the server; where others keep it as well, it stays for
    /// them. Whether there was one.
    pub(crate) fn delete(&self, caller: &Caller, handle: &[u8], now: Instant) -> bool {
        let mut entries = self.at(now);
        let Ok(handle) = Handle::try_from(handle) else { return false };
        let Some(entry) = entries.by_handle.get_mut(&handle) else { return false };
        if !caller.allows(Action::Cancel, Object::Server) {
            let was_kept = caller.key_name().is_some_and(|name| entry.keepers.remove(name).is_some());
            if !was_kept {
                return false;
            }
            if entry.is_kept_without(caller.key_name()) {
                return true;
            }
        }
        entries.remove(&handle)
    }

    /// Those that somebody keeps, or all for whoever may observe the server, and until when.
    #[cfg(feature = "sql")]
    pub(crate) fn shown_to(&self, caller: &Caller, now: Instant) -> Vec<(Handle, KeptSet, Instant)> {
        let sees_all = caller.allows(Action::Observe, Object::Server);
        let entries = self.at(now);
        let is_shown = |entry: &Entry| {
            sees_all || caller.key_name().is_some_and(|name| entry.keepers.contains_key(name))
        };
        let shown = entries.by_handle.iter().filter(|(_, entry)| is_shown(entry));
        shown.map(|(handle, entry)| (*handle, entry.set.clone(), entry.expires)).collect()
    }

    /// The keys of those who keep a set.
    pub(crate) fn keepers(&self, handle: &[u8]) -> Vec<String> {
        let entries = self.at(Instant::now());
        let entry = Handle::try_from(handle).ok().and_then(|handle| entries.by_handle.get(&handle));
        entry.map(|entry| entry.keepers.keys().cloned().collect()).unwrap_or_default()
    }

    /// How many sets are kept, and their bytes.
    pub(crate) fn held(&self) -> (u64, u64) {
        let entries = self.at(Instant::now());
        (entries.by_handle.len() as u64, entries.bytes)
    }

    /// Drops the sets whose time is over.
    pub(crate) fn purge(&self, now: Instant) {
        drop(self.at(now));
    }

    /// What is kept at a time.
    fn at(&self, now: Instant) -> MutexGuard<'_, Entries> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((expires, handle)) = entries.by_expiry.first().copied()
            && expires <= now
        {
            entries.remove(&handle);
        }
        entries
    }
}

impl Entries {
    fn remove(&mut self, handle: &Handle) -> bool {
        let Some(entry) = self.by_handle.remove(handle) else { return false };
        self.by_expiry.remove(&(entry.expires, *handle));
        self.bytes -= entry.memory.bytes();
        true
    }
}

impl Entry {
    /// Adds a keeper, who pays where nobody does, unless it has no place or may not hold so much.
    fn take_in(&mut self, keeper: &Keeper) -> Result<(), RequestError> {
        let is_new = |name: &&String| !self.keepers.contains_key(*name);
        let new = keeper.names.iter().filter(is_new).count();
        if keeper.asks && self.keepers.len() + new > limits::SET_KEEPERS {
            let message = format!("{} keys keep this set, the most that may", self.keepers.len());
            let error = RequestError::new(ErrorReason::SipQuota, message);
            return Err(error.with("limit_keepers", limits::SET_KEEPERS as u64));
        }
        if self.payer.is_none()
            && keeper.asks
            && let Some(name) = keeper.names.first()
        {
            self.memory.give_to(keeper.account.clone())?;
            self.payer = Some(name.clone());
        }
        self.add(keeper);
        Ok(())
    }

    fn add(&mut self, keeper: &Keeper) {
        for name in &keeper.names {
            if self.keepers.len() < limits::SET_KEEPERS || self.keepers.contains_key(name) {
                self.keepers.insert(name.clone(), keeper.account.clone());
            }
        }
    }

    /// Whether somebody else keeps it when one has left. The first who may pays then; where none of them may hold so much
    /// more it is held in nobody's name.
    fn is_kept_without(&mut self, left: Option<&str>) -> bool {
        let Self { keepers, payer, memory, .. } = self;
        if !keepers.is_empty() && payer.as_deref() == left {
            let next = keepers.iter().find(|(_, account)| memory.give_to((*account).clone()).is_ok());
            *payer = next.map(|(name, _)| name.clone());
            if payer.is_none() {
                // Nobody counts what is nobody's.
                let _ = memory.give_to(None);
            }
        }
        !keepers.is_empty()
    }
}

impl KeptSet {
    /// What it takes to keep it, its names and its place included.
    fn bytes(&self) -> u64 {
        let Scope { table, key, .. } = &self.scope;
        let names = table.len() + key.as_ref().map_or(0, |key| key.column.len());
        (limits::KEPT_SET_BYTES + names + self.sip.heap_bytes()) as u64
    }
}

/// The digest of a set; texts come with their lengths, so that no two sets are written alike.
pub(crate) fn handle_of(set: &KeptSet) -> Handle {
    let Scope { table, version, table_id, key } = &set.scope;
    let mut hasher = Sha256::new();
    let mut text = |text: &str| {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    };
    text(table);
    match key {
        None => text("rows"),
        Some(KeyDomain { column, data_type, has_null }) => {
            text(if *has_null { "keys and null" } else { "keys" });
            text(column);
            text(&data_type.to_string());
        }
    }
    hasher.update(version.to_le_bytes());
    hasher.update(table_id.to_le_bytes());
    hasher.update(set.sip.as_bytes());
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Access, issue::Issued, keys::Keys, quota::Allowance, roles::Role};

    const MINUTE: Duration = Duration::from_secs(60);

    fn set(ids: &[u64]) -> KeptSet {
        let scope = Scope { table: "t".into(), version: 1, table_id: 0, key: None };
        KeptSet { scope, sip: Arc::new(Sip::from_sorted_ids(ids)) }
    }

    /// Room for two small sets.
    fn two() -> (Sets, Arc<MemoryPool>) {
        let memory = Arc::new(MemoryPool::new(1 << 20));
        let quota = set(&[1]).bytes() + set(&[2]).bytes();
        (Sets::new(quota, Arc::clone(&memory)), memory)
    }

    #[test]
    fn a_set_is_there_until_its_time_is_over() {
        let ((sets, memory), start) = (two(), Instant::now());
        let (handle, left) = sets.keep(Keeper::default(), set(&[1]), None, MINUTE, start).unwrap();
        assert_eq!(left, MINUTE);
        let last = start + MINUTE - Duration::from_millis(1);
        let (kept, left) = sets.get(&handle, last).unwrap();
        assert_eq!((kept.scope, left), (set(&[1]).scope, Duration::from_millis(1)));
        assert_eq!(kept.sip.as_bytes(), set(&[1]).sip.as_bytes());
        assert_eq!(sets.get(&handle, start + MINUTE).unwrap_err().reason(), "SIP_NOT_FOUND");
        assert_eq!((sets.entries.lock().unwrap().bytes, memory.held()), (0, 0));
        assert_eq!(sets.get(&handle[1..], start).unwrap_err().reason(), "SIP_NOT_FOUND");

        let (_, left) = sets.keep(Keeper::default(), set(&[1]), None, Duration::MAX, start).unwrap();
        assert_eq!(left, limits::MAX_KEEP);
    }

    #[test]
    fn keeping_again_renews() {
        let ((sets, _), start) = (two(), Instant::now());
        let (handle, _) = sets.keep(Keeper::default(), set(&[1]), None, MINUTE, start).unwrap();
        let half = start + MINUTE / 2;
        assert_eq!(sets.keep(Keeper::default(), set(&[1]), None, MINUTE, half).unwrap(), (handle, MINUTE));
        assert_eq!(
            sets.keep(Keeper::default(), set(&[1]), None, MINUTE / 4, half).unwrap(),
            (handle, MINUTE)
        );
        assert_eq!(sets.entries.lock().unwrap().bytes, set(&[1]).bytes());
        assert!(sets.get(&handle, start + MINUTE).is_ok());
        assert!(sets.get(&handle, half + MINUTE).is_err());
        assert!(sets.entries.lock().unwrap().by_expiry.is_empty());
    }

    #[test]
    fn the_quota_holds_and_what_is_over_makes_room() {
        let ((sets, memory), start) = (two(), Instant::now());
        let (first, _) = sets.keep(Keeper::default(), set(&[1]), None, MINUTE, start).unwrap();
        let (second, _) = sets.keep(Keeper::default(), set(&[2]), None, 2 * MINUTE, start).unwrap();
        let full = sets.keep(Keeper::default(), set(&[3]), None, MINUTE, start).unwrap_err();
        assert_eq!(full.reason(), "SIP_QUOTA");
        assert_eq!(memory.held(), sets.quota());
        assert!(
            sets.keep(Keeper::default(), set(&[2]), None, MINUTE, start).is_ok(),
            "no room is needed for what is there"
        );

        sets.keep(Keeper::default(), set(&[3]), None, MINUTE, start + MINUTE).unwrap();
        assert!(sets.get(&first, start + MINUTE).is_err());
        let anybody = Caller::itself(&crate::access::Access::default());
        assert!(sets.delete(&anybody, &second, start + MINUTE));
        assert!(!sets.delete(&anybody, &second, start + MINUTE));
        sets.purge(start + 2 * MINUTE);
        assert_eq!(memory.held(), 0);
        assert!(
            sets.keep(
                Keeper::default(),
                set(&(0..10).map(|i| i * 1000).collect::<Vec<_>>()),
                None,
                MINUTE,
                start
            )
            .is_ok()
        );
    }

    #[test]
    fn a_set_is_fetched_by_one_at_a_time() {
        let (sets, _) = two();
        let (first, second, other) = (sets.fetch([1; 32]), sets.fetch([1; 32]), sets.fetch([2; 32]));
        let fetching = first.try_acquire().unwrap();
        assert!(second.try_acquire().is_err() && other.try_acquire().is_ok());
        drop(fetching);
        assert!(second.try_acquire().is_ok());
        // Nobody fetches these any longer.
        drop((first, second, other));
        (0..100).for_each(|i| drop(sets.fetch([i; 32])));
        assert!(sets.fetches.lock().unwrap().len() < 50);
    }

    #[test]
    fn kept_sets_count_as_memory() {
        let memory = Arc::new(MemoryPool::new(set(&[1]).bytes()));
        let sets = Sets::new(u64::MAX, Arc::clone(&memory));
        let (now, mut write) = (Instant::now(), memory.reserve(Consumer::Writes));
        write.set(1).unwrap();
        assert_eq!(
            sets.keep(Keeper::default(), set(&[1]), None, MINUTE, now).unwrap_err().reason(),
            "MEMORY_LIMIT"
        );
        drop(write);
        sets.keep(Keeper::default(), set(&[1]), None, MINUTE, now).unwrap();
        assert_eq!(memory.reserve(Consumer::Writes).set(1).unwrap_err().reason(), "MEMORY_LIMIT");
    }

    #[test]
    fn a_handle_is_of_everything_that_a_set_is() {
        let keys = |table: &str, column: &str, data_type, has_null| {
            let key = Some(KeyDomain { column: column.into(), data_type, has_null });
            let scope = Scope { table: table.into(), version: 1, table_id: 0, key };
            KeptSet { scope, ..set(&[1]) }
        };
        let mut later = set(&[1]);
        later.scope.version = 2;
        let decimal = |scale| DataType::Decimal { precision: 10, scale };
        let all = [
            set(&[1]),
            set(&[2]),
            later,
            keys("t", "a", DataType::Int64, false),
            keys("t", "a", DataType::Int64, true),
            keys("t", "a", DataType::UInt64, false),
            keys("t", "a", decimal(1), false),
            keys("t", "a", decimal(2), false),
            keys("t", "b", DataType::Int64, false),
            keys("u", "a", DataType::Int64, false),
        ];
        let handles: BTreeSet<Handle> = all.iter().map(handle_of).collect();
        assert_eq!(handles.len(), all.len());
        assert_eq!(handle_of(&set(&[1])), handle_of(&set(&[1])));
    }

    /// Callers with keys of these names, each of whom may hold so much memory.
    fn callers<const N: usize>(names: [&str; N], memory: u64) -> [Caller; N] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        let allowance = Allowance { memory: Some(memory), ..Allowance::default() };
        let issued = names.map(|name| Issued::new(name, Role::Reader, &["*".to_owned()], allowance).unwrap());
        let entries: String = issued.iter().map(|issued| issued.entry.as_str()).collect();
        std::fs::write(&path, entries).unwrap();
        let access = Access::with(Arc::new(Keys::open(&path, [7; 32]).unwrap()));
        issued.map(|issued| {
            let header = format!("Bearer {}", issued.secret);
            let address = "127.0.0.1:1".parse().unwrap();
            let principal = access.principal(address, Some(header.as_bytes())).unwrap();
            Caller { principal, access: access.clone() }
        })
    }

    #[test]
    fn a_set_stays_for_all_who_keep_it_whoever_pays() {
        let (most, bytes) = (limits::LEAST_KEY_MEMORY, set(&[1]).bytes());
        // There is no room for the set twice.
        let memory = Arc::new(MemoryPool::new(most + bytes));
        let (sets, now) = (Sets::new(u64::MAX, Arc::clone(&memory)), Instant::now());
        let [a, b, c] = callers(["a", "b", "c"], most);
        let mut write = memory.reserve(Consumer::Writes).of(b.account());
        write.set(most).unwrap();
        let keep = |caller: &Caller| sets.keep(Keeper::new(caller), set(&[1]), None, MINUTE, now);
        let (handle, _) = keep(&a).unwrap();
        keep(&b).unwrap();
        keep(&c).unwrap();
        let payer = || sets.entries.lock().unwrap().by_handle[&handle].payer.clone();
        assert_eq!(payer().as_deref(), Some("a"));
        // The next by name may hold nothing more, another one may.
        assert!(sets.delete(&a, &handle, now) && sets.get(&handle, now).is_ok());
        assert_eq!(payer().as_deref(), Some("c"));
        let mut other = memory.reserve(Consumer::Writes).of(a.account());
        write.set(0).unwrap();
        other.set(most).unwrap();
        drop(other);
        write.set(most).unwrap();
        // Nobody else may.
        assert!(sets.delete(&c, &handle, now) && sets.get(&handle, now).is_ok());
        assert_eq!((payer(), memory.used(Consumer::KeptSets)), (None, bytes));
        assert_eq!(keep(&b).unwrap_err().reason(), "MEMORY_LIMIT");
        write.set(most - bytes).unwrap();
        keep(&b).unwrap();
        assert_eq!(payer().as_deref(), Some("b"));
        assert!(write.set(most).is_err(), "it holds the set as well");
        assert!(sets.delete(&b, &handle, now) && !sets.delete(&b, &handle, now));
        assert!(sets.get(&handle, now).is_err());
        drop(write);
        assert_eq!(memory.held(), 0);
    }

    #[test]
    fn whoever_has_no_place_among_the_keepers_hears_of_it() {
        let ((sets, _), now) = (two(), Instant::now());
        let keep = |i: usize, asks| {
            let keeper = Keeper { account: None, names: vec![format!("key{i}")], asks };
            sets.keep(keeper, set(&[1]), None, MINUTE, now)
        };
        for i in 0..limits::SET_KEEPERS {
            keep(i, true).unwrap();
        }
        let refused = keep(limits::SET_KEEPERS, true).unwrap_err();
        assert_eq!(refused.reason(), "SIP_QUOTA");
        assert!(refused.message().starts_with("64 keys keep this set"), "{}", refused.message());
        let (handle, _) = keep(0, true).unwrap();
        // What another node knows of keepers is no reason to be without the set.
        keep(limits::SET_KEEPERS, false).unwrap();
        assert_eq!(sets.keepers(&handle).len(), limits::SET_KEEPERS);
    }
}
