//! The connections of a door. Where it is full, those that have asked nothing for the longest time leave, so that nobody
//! keeps others out by being there.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{connection::Connection, limits};

/// See the module.
#[derive(Debug)]
pub(super) struct Crowd {
    most: usize,
    permits: Arc<Semaphore>,
    connections: Mutex<HashMap<u64, Arc<Connection>>>,
}

/// A place in a crowd, for one connection.
#[derive(Debug)]
pub(super) struct Place {
    crowd: Arc<Crowd>,
    connection: Option<u64>,
    _permit: OwnedSemaphorePermit,
}

impl Crowd {
    /// One of so many connections at most.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, permits: Arc::new(Semaphore::new(most)), connections: Mutex::default() })
    }

    /// A place for a connection that is there: at once, or when another has left.
    pub(super) async fn enter(self: &Arc<Self>) -> Place {
        let permit = match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => loop {
                self.make_room();
                // Others may become idle meanwhile.
                let next =
                    tokio::time::timeout(limits::IDLE_LEAST, Arc::clone(&self.permits).acquire_owned());
                if let Ok(Ok(permit)) = next.await {
                    break permit;
                }
            },
        };
        Place { crowd: Arc::clone(self), connection: None, _permit: permit }
    }

    /// Asks those to leave that have been idle the longest: some at once, for there may be many who want to come in.
    fn make_room(&self) {
        let mut idle: Vec<_> = self
            .connections()
            .values()
            .filter_map(|connection| Some((connection.idle_for()?, Arc::clone(connection))))
            .filter(|(time, _)| *time >= limits::IDLE_LEAST)
            .collect();
        idle.sort_unstable_by_key(|(time, _)| std::cmp::Reverse(*time));
        for (_, connection) in idle.iter().take(self.most.div_ceil(limits::IDLE_PART)) {
            connection.leave();
        }
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Says whose place it is.
    pub(super) fn take(&mut self, connection: &Arc<Connection>) {
        self.connection = Some(connection.id());
        self.crowd.connections().insert(connection.id(), Arc::clone(connection));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(id) = self.connection {
            self.crowd.connections().remove(&id);
        }
    }
}
