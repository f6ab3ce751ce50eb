//! Requests that wait for their clients, and who of them makes room.
//!
//! A request whose body has not ended takes up its window. Where no more may come, the one goes whose client has been
//! waited for the longest: a few hundred clients that send a byte a second keep nobody out.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
};

use tokio::time::Instant;

use super::Held;
use crate::limits;

/// Those of a port.
#[derive(Debug, Default)]
pub(super) struct Stalled(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    next: u64,
    by_number: BTreeMap<u64, Arc<Place>>,
}

#[derive(Debug)]
struct Place {
    is_given_up: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    window: Option<Held>,
    /// Since when more of a message, or the next one, is waited for; `None`: we are at work on what has come.
    since: Option<Instant>,
    /// A message has begun that is counted by itself.
    has_message: bool,
    waker: Option<Waker>,
}

/// The window of one request.
#[derive(Debug)]
pub(super) struct Window {
    place: Arc<Place>,
    number: u64,
    of: Arc<Stalled>,
}

impl Stalled {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a request.
    pub(super) fn add(self: &Arc<Self>, window: Held) -> Window {
        let state = State { window: Some(window), since: None, has_message: false, waker: None };
        let place = Arc::new(Place { is_given_up: AtomicBool::new(false), state: Mutex::new(state) });
        let mut places = self.places();
        let number = places.next;
        places.next += 1;
        places.by_number.insert(number, Arc::clone(&place));
        Window { place, number, of: Arc::clone(self) }
    }

    /// Gives up the request that has waited for its client the longest, and not for a moment only; of those with a
    /// message that is counted by itself, where it is that memory which is short. Answers with its window.
    pub(super) fn give_up(&self, with_message: bool) -> Option<Held> {
        loop {
            let now = Instant::now();
            let places = self.places();
            let stalled = places.by_number.values().filter_map(|place| {
                let state = place.state();
                let since = state.since.filter(|_| state.has_message || !with_message)?;
                (now.saturating_duration_since(since) >= limits::STALLED_LEAST).then_some((since, place))
            });
            let (since, oldest) = stalled.min_by_key(|(since, _)| *since)?;
            let oldest = Arc::clone(oldest);
            drop(places);
            // It may have gone on in this moment: then it is another.
            if let Some(window) = oldest.give_up(since) {
                return Some(window);
            }
        }
    }
}

impl Place {
    /// Gives up a request that has waited since then, and does so still. Answers with its window.
    fn give_up(&self, since: Instant) -> Option<Held> {
        let mut state = self.state();
        state.since.take_if(|known| *known == since)?;
        self.is_given_up.store(true, Ordering::Release);
        let (window, waker) = (state.window.take(), state.waker.take());
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        window
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Window {
    /// Somebody else has it.
    pub(super) fn is_given_up(&self) -> bool {
        self.place.is_given_up.load(Ordering::Acquire)
    }

    /// The client is waited for, in the middle of a message that counts by itself or not. `false`: somebody else has the
    /// window meanwhile.
    pub(super) fn wait(&self, context: &Context<'_>, has_message: bool) -> bool {
        let mut state = self.place.state();
        if self.is_given_up() {
            return false;
        }
        state.since.get_or_insert_with(Instant::now);
        state.has_message = has_message;
        state.waker = Some(context.waker().clone());
        true
    }

    /// A message is whole, or has to wait for memory of ours.
    pub(super) fn go_on(&self) {
        self.place.state().since = None;
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.of.places().by_number.remove(&self.number);
    }
}
