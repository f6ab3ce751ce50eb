//! How many requests the owner of a key may have under way at once, at one server.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use basalt_proto::v1::ErrorReason;

use crate::status::RequestError;

/// See the module. What is under way does not make two of them different.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    /// `None`: any number.
    most: Option<u32>,
    under_way: Arc<AtomicU32>,
}

/// A request under way; the last clone that is dropped ends it.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    _held: Arc<Held>,
}

#[derive(Debug)]
struct Held(Arc<AtomicU32>);

impl Quota {
    /// So many at once.
    pub(super) fn new(most: Option<u32>) -> Self {
        Self { most, under_way: Arc::default() }
    }

    /// One more, if that is not too many.
    pub(super) fn take(&self, owner: &str) -> Result<Option<Turn>, RequestError> {
        let Some(most) = self.most else { return Ok(None) };
        let under_way = Arc::clone(&self.under_way);
        if under_way.fetch_add(1, Ordering::Relaxed) < most {
            return Ok(Some(Turn { _held: Arc::new(Held(under_way)) }));
        }
        under_way.fetch_sub(1, Ordering::Relaxed);
        let message = format!("the key {owner:?} has {most} requests under way here, as many as it may have");
        Err(RequestError::new(ErrorReason::Overloaded, message))
    }
}

impl PartialEq for Quota {
    fn eq(&self, other: &Self) -> bool {
        self.most == other.most
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
        let quota = Quota::new(Some(2));
        let [first, _second] = [quota.take("a").unwrap().unwrap(), quota.take("a").unwrap().unwrap()];
        let shared = first.clone();
        drop(first);
        let error = quota.take("a").unwrap_err();
        assert_eq!(error.reason(), "OVERLOADED");
        assert!(error.message().contains("\"a\" has 2 requests"), "{}", error.message());
        drop(shared);
        assert!(quota.take("a").unwrap().is_some());
        assert!(Quota::new(None).take("a").unwrap().is_none());
    }
}
