//! How much memory the owner of a key may hold at once, at one server: its queries, writes and kept sets together.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use basalt_proto::v1::ErrorReason;

use crate::status::RequestError;

/// See the module.
#[derive(Debug)]
pub(crate) struct Account {
    owner: String,
    most: u64,
    held: AtomicU64,
}

impl Account {
    pub(crate) fn new(owner: &str, most: u64) -> Self {
        Self { owner: owner.to_owned(), most, held: AtomicU64::new(0) }
    }

    /// Holds more, for one that would hold so much in all; nothing if that is too much.
    fn hold(&self, bytes: u64, all: u64) -> Result<(), RequestError> {
        let more = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= self.most);
        let Err(held) = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) else {
            return Ok(());
        };
        let Self { owner, most, .. } = self;
        let message = format!(
            "the key {owner:?} holds {held} bytes of memory here and would hold {bytes} more; it may hold {most} (`memory` of the key)"
        );
        let error = RequestError::new(ErrorReason::MemoryLimit, message).with("limit_bytes", *most);
        // What its other requests hold they give back.
        Err(if all <= *most { error.retryable() } else { error })
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What an account has begun to hold: it is given back where the pool has not got it.
#[derive(Debug)]
pub(super) struct Hold<'a> {
    /// `None`: nobody counts.
    account: Option<&'a Account>,
    bytes: u64,
}

impl<'a> Hold<'a> {
    /// So much more, for one that would hold so much in all; an error if that is too much.
    pub(super) fn of(account: Option<&'a Arc<Account>>, bytes: u64, all: u64) -> Result<Self, RequestError> {
        let account = account.map(Arc::as_ref);
        account.map_or(Ok(()), |account| account.hold(bytes, all))?;
        Ok(Self { account, bytes })
    }

    /// The pool has it, too.
    pub(super) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if let Some(account) = self.account {
            account.give_back(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Consumer, MemoryPool};

    #[test]
    fn what_its_owner_holds_together_is_bounded_and_given_back() {
        let pool = Arc::new(MemoryPool::new(1 << 20));
        let account = Arc::new(Account::new("a", 1000));
        let reserve = |consumer| pool.reserve(consumer).of(Some(Arc::clone(&account)));
        let (mut write, mut set) = (reserve(Consumer::Writes), reserve(Consumer::KeptSets));
        write.set(600).unwrap();
        let error = set.set(401).unwrap_err();
        assert_eq!((error.reason(), error.is_retryable()), ("MEMORY_LIMIT", true));
        assert!(error.message().contains("\"a\" holds 600 bytes"), "{}", error.message());
        assert!(!set.try_set(401) && set.try_set(400));
        // A query is of the same account.
        let control = || pool.control_of(Some(Arc::clone(&account)), 0);
        assert!(control().reserve(1).is_err());
        write.set(100).unwrap();
        let running = control();
        running.reserve(500).unwrap();
        assert!(write.set(101).is_err());
        drop((write, set, running));
        let mut all = reserve(Consumer::Writes);
        all.set(1000).unwrap();
        assert!(!all.set(1001).unwrap_err().is_retryable(), "more than it may ever hold");
        // What the pool has not got, the account has not given.
        drop(all);
        let small = Arc::new(MemoryPool::new(10));
        let mut held = small.reserve(Consumer::Writes).of(Some(Arc::clone(&account)));
        assert!(held.set(1000).is_err() && !held.try_set(1000));
        drop(held);
        reserve(Consumer::Writes).set(1000).unwrap();
    }
}
