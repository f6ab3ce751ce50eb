//! What the owner of a key may use of one server at a time: requests under way at once, memory, bytes a second.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use basalt_proto::v1::ErrorReason;

use crate::{memory::Account, pace::Pace, status::RequestError};

/// What the owner of a key may use of one server; `None`: as much as there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Requests under way at once.
    pub requests: Option<u32>,
    /// Bytes of memory that its queries, writes and kept sets hold together.
    pub memory: Option<u64>,
    /// Bytes a second that it sends and is sent.
    pub bytes_per_second: Option<u64>,
}

/// See the module. What is under way does not make two of them different.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    allowance: Allowance,
    under_way: Arc<AtomicU32>,
    pub(super) account: Option<Arc<Account>>,
    pub(super) pace: Option<Arc<Pace>>,
}

/// A request under way; the last clone that is dropped ends it.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    _held: Arc<Held>,
}

#[derive(Debug)]
struct Held(Arc<AtomicU32>);

impl Quota {
    /// Of the owner of a key.
    pub(super) fn new(owner: &str, allowance: Allowance) -> Self {
        Self {
            allowance,
            under_way: Arc::default(),
            account: allowance.memory.map(|most| Arc::new(Account::new(owner, most))),
            pace: allowance.bytes_per_second.map(|bytes| Arc::new(Pace::new(bytes))),
        }
    }

    pub(super) fn allowance(&self) -> Allowance {
        self.allowance
    }

    /// One more, if that is not too many.
    pub(super) fn take(&self, owner: &str) -> Result<Option<Turn>, RequestError> {
        let Some(most) = self.allowance.requests else { return Ok(None) };
        let under_way = Arc::clone(&self.under_way);
        if under_way.fetch_add(1, Ordering::Relaxed) < most {
            return Ok(Some(Turn { _held: Arc::new(Held(under_way)) }));
        }
        under_way.fetch_sub(1, Ordering::Relaxed);
        let requests = if most == 1 { "request" } else { "requests" };
        let message =
            format!("the key {owner:?} has {most} {requests} under way here, as many as it may have");
        Err(RequestError::new(ErrorReason::Overloaded, message))
    }
}

impl PartialEq for Quota {
    fn eq(&self, other: &Self) -> bool {
        self.allowance == other.allowance
    }
}

impl Eq for Quota {}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_free_again_when_all_that_share_it_have_ended() {
        let two = Allowance { requests: Some(2), ..Allowance::default() };
        let quota = Quota::new("a", two);
        let [first, _second] = [quota.take("a").unwrap().unwrap(), quota.take("a").unwrap().unwrap()];
        let shared = first.clone();
        drop(first);
        let error = quota.take("a").unwrap_err();
        assert_eq!(error.reason(), "OVERLOADED");
        assert!(error.message().contains("\"a\" has 2 requests"), "{}", error.message());
        drop(shared);
        assert!(quota.take("a").unwrap().is_some());
        assert!(Quota::default().take("a").unwrap().is_none());
    }
}
