//! How many bytes a second the owner of a key sends and is sent, at one server. Nobody is refused for it: what comes too
//! soon waits, and whoever sends or reads waits with it, as long as the deadlines of its requests allow.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use hyper::body::{Body, Buf, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::limits;

/// See the module.
#[derive(Debug)]
pub(crate) struct Pace {
    bytes_per_second: u64,
    /// When all that has passed would have passed at that pace.
    passed: Mutex<Option<Instant>>,
}

impl Pace {
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, passed: Mutex::default() }
    }

    /// Bytes pass now; what follows waits until this moment, if any.
    pub(crate) fn pass(&self, bytes: u64) -> Option<Instant> {
        let now = Instant::now();
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        // What was not used lately may be used at once.
        let earliest = now.checked_sub(limits::PACE_BURST).unwrap_or(now);
        // Default: nothing has passed before.
        let from = passed.unwrap_or(earliest).max(earliest);
        let micros = u128::from(bytes) * 1_000_000 / u128::from(self.bytes_per_second.max(1));
        let until = from + std::time::Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX >> 10));
        *passed = Some(until);
        (until > now).then_some(until)
    }

    /// Bytes pass, and it waits until others may.
    #[cfg(feature = "sql")]
    pub(crate) async fn wait(&self, bytes: u64) {
        if let Some(until) = self.pass(bytes) {
            sleep_until(until).await;
        }
    }
}

/// A body at the pace of its owner; as it is, where there is none.
#[derive(Debug)]
pub(crate) struct Paced<B> {
    inner: B,
    pace: Option<Arc<Pace>>,
    waits: Option<Pin<Box<Sleep>>>,
}

impl<B> Paced<B> {
    pub(crate) fn new(inner: B, pace: Option<Arc<Pace>>) -> Self {
        Self { inner, pace, waits: None }
    }
}

impl<B: Body + Unpin> Body for Paced<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        if let Some(waits) = &mut self.waits {
            ready!(waits.as_mut().poll(context));
            self.waits = None;
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        let Some(pace) = &self.pace else { return Poll::Ready(frame) };
        let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref().map(Buf::remaining));
        if let Some(until) = bytes.and_then(|bytes| pace.pass(bytes as u64)) {
            self.waits = Some(Box::pin(sleep_until(until)));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_comes_too_soon_waits() {
        let pace = Pace::new(1000);
        // A second's worth may come at once.
        assert_eq!(pace.pass(1000), None);
        let begun = Instant::now();
        assert_eq!(pace.pass(500), Some(begun + Duration::from_millis(500)));
        assert_eq!(pace.pass(1), Some(begun + Duration::from_millis(501)));
        tokio::time::advance(Duration::from_secs(60)).await;
        // However long nothing came, no more than that.
        assert_eq!(pace.pass(1000), None);
        assert_eq!(pace.pass(2000), Some(Instant::now() + Duration::from_secs(2)));
    }
}
