//! The connections of a door. Where it is full, the one that has asked nothing for the longest time leaves for the next, so
//! that nobody keeps others out by being there.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};

use crate::{connection::Connection, limits};

/// See the module.
#[derive(Debug)]
pub(super) struct Crowd {
    most: usize,
    inner: Mutex<Inner>,
    /// Somebody has left.
    left: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// Places that are taken, but for those of whom is leaving.
    taken: usize,
    /// Those who have a place and are not leaving.
    connections: HashMap<u64, Arc<Connection>>,
    /// Some of those that were idle the longest when all were looked at, and since when; the longest last.
    idle: Vec<(Instant, u64)>,
    /// How many have left for others.
    made: u64,
}

/// What there is for who comes.
enum Room {
    Free,
    /// Somebody leaves for it; so many have by now.
    Made(u64),
    None,
}

/// A place in a crowd, for one connection.
#[derive(Debug)]
pub(super) struct Place {
    crowd: Arc<Crowd>,
    connection: Option<Arc<Connection>>,
}

impl Crowd {
    /// One of so many connections at most, beside those that are leaving.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, inner: Mutex::default(), left: Notify::new() })
    }

    /// A place for a connection that is there: at once where one is free, in a moment where somebody is idle. That moment
    /// keeps many who come from taking all time from those who are there.
    pub(super) async fn enter(self: &Arc<Self>) -> Place {
        loop {
            let room = self.inner().make_room(self.most);
            if let Room::None = room {
                // Others may become idle meanwhile.
                let _ = timeout(limits::IDLE_LEAST, self.left.notified()).await;
                continue;
            }
            let place = Place { crowd: Arc::clone(self), connection: None };
            let (number, pause) = limits::CROWD_PAUSE;
            if let Room::Made(made) = room
                && made.is_multiple_of(number)
            {
                sleep(pause).await;
            }
            return place;
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Takes a place, of one who leaves if need be.
    fn make_room(&mut self, most: usize) -> Room {
        if self.taken < most {
            self.taken += 1;
            return Room::Free;
        }
        let mut has_left = self.ask_to_leave();
        if !has_left {
            self.look_for_idle();
            has_left = self.ask_to_leave();
        }
        if !has_left {
            return Room::None;
        }
        self.made += 1;
        Room::Made(self.made)
    }

    /// Has one of those leave that were idle; whether there was one.
    fn ask_to_leave(&mut self) -> bool {
        while let Some((since, id)) = self.idle.pop() {
            // Who is asked something, or was meanwhile, stays.
            let idle = self.connections.get(&id).filter(|connection| connection.idle_since() == Some(since));
            if idle.is_some_and(|connection| connection.leave()) {
                self.connections.remove(&id);
                return true;
            }
        }
        false
    }

    /// Looks at all connections, for some of those that have been idle the longest.
    fn look_for_idle(&mut self) {
        let now = Instant::now();
        let idle = self.connections.iter().filter_map(|(id, connection)| {
            let since = connection.idle_since()?;
            (now.saturating_duration_since(since) >= limits::IDLE_LEAST).then_some((since, *id))
        });
        self.idle.extend(idle);
        self.idle.sort_unstable_by(|a, b| b.cmp(a));
        let others = self.idle.len().saturating_sub(limits::IDLE_KNOWN);
        self.idle.drain(..others);
    }
}

impl Place {
    /// Says whose place it is.
    pub(super) fn take(&mut self, connection: &Arc<Connection>) {
        self.connection = Some(Arc::clone(connection));
        self.crowd.inner().connections.insert(connection.id(), Arc::clone(connection));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.crowd.inner();
        // Whoever was asked to leave has given the place away.
        let has_place = self
            .connection
            .as_ref()
            .is_none_or(|connection| inner.connections.remove(&connection.id()).is_some());
        if has_place {
            inner.taken -= 1;
            self.crowd.left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn enter(crowd: &Arc<Crowd>) -> (Place, Arc<Connection>) {
        let (mut place, connection) = (crowd.enter().await, Connection::new());
        place.take(&connection);
        (place, connection)
    }

    /// Who has left for another asks nothing more, and gives no second place away; who is asked something stays.
    #[tokio::test(start_paused = true)]
    async fn no_more_ask_than_have_places() {
        let crowd = Crowd::new(2);
        let [(first, idle), (_second, busy)] = [enter(&crowd).await, enter(&crowd).await];
        let visit = busy.visit().unwrap();
        tokio::time::advance(limits::IDLE_LEAST).await;
        let (_third, next) = enter(&crowd).await;
        assert!(idle.left().is_cancelled() && idle.visit().is_none());
        assert!(!busy.leave() && !busy.left().is_cancelled());
        drop(first);
        let asked = next.visit().unwrap();
        let fourth = timeout(8 * limits::IDLE_LEAST, enter(&crowd)).await;
        assert!(fourth.is_err(), "two are asked something, and have all places");
        drop(asked);
        enter(&crowd).await;
        assert!(next.left().is_cancelled());
        drop(visit);
    }
}
