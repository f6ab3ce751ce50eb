//! The connections of a door. Where it is full, the one that has asked nothing for the longest time leaves for the next, so
//! that nobody keeps others out by being there.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::Notify, time::timeout};

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

    /// A place for a connection that is there: at once where one is free or somebody is idle.
    pub(super) async fn enter(self: &Arc<Self>) -> Place {
        while !self.inner().make_room(self.most) {
            // Others may become idle meanwhile.
            let _ = timeout(limits::IDLE_LEAST, self.left.notified()).await;
        }
        Place { crowd: Arc::clone(self), connection: None }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Takes a place, of one who leaves if need be.
    fn make_room(&mut self, most: usize) -> bool {
        if self.taken < most {
            self.taken += 1;
            return true;
        }
        let idle =
            self.connections.values().filter_map(|connection| Some((connection.idle_for()?, connection)));
        let longest = idle.max_by_key(|(time, _)| *time).filter(|(time, _)| *time >= limits::IDLE_LEAST);
        // Who is asked something at this moment stays.
        let leaves = longest.map(|(_, connection)| connection).filter(|connection| connection.leave());
        let Some(id) = leaves.map(|connection| connection.id()) else { return false };
        self.connections.remove(&id);
        true
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
