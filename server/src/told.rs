//! Errors that come again as long as their cause lasts: the log tells of each when it begins, and now and then after that.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use tokio::time::Instant;

use crate::limits;

/// What was told, and when.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<BTreeMap<String, Instant>>);

impl Told {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Whether to tell something, which counts as told then: it was not, or long ago.
    pub(crate) fn is_due(&self, text: &str) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, at| at.elapsed() < limits::RETELL_INTERVAL);
        if told.contains_key(text) {
            return false;
        }
        if told.len() >= limits::TOLD_ERRORS {
            told.clear();
        }
        told.insert(text.to_owned(), Instant::now());
        true
    }

    /// Nothing is wrong any longer: what begins from now on is told at once.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_lasts_is_told_now_and_then() {
        let told = Told::new();
        assert!(told.is_due("gone") && !told.is_due("gone"));
        // Another error is told at once, and so is one that begins again.
        assert!(told.is_due("damaged") && !told.is_due("gone"));
        told.forget();
        assert!(told.is_due("gone"));
        tokio::time::advance(limits::RETELL_INTERVAL / 2).await;
        assert!(!told.is_due("gone"));
        tokio::time::advance(limits::RETELL_INTERVAL / 2).await;
        assert!(told.is_due("gone") && !told.is_due("gone"));
        // However many there are, few are remembered.
        for i in 0..10 * limits::TOLD_ERRORS {
            assert!(told.is_due(&i.to_string()));
        }
        assert!(told.0.lock().unwrap().len() <= limits::TOLD_ERRORS);
    }
}
