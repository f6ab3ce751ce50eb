//! Versions that kept sets of rows pin: they can be read on every node for as long as a set of theirs is kept, also when
//! they are retained no longer. In a store a pin is a lease there ([`Pin`]), which is renewed in the background; of a
//! table in memory the version stays in memory, for as long as the table is there.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Arc, MutexGuard, PoisonError, Weak},
};

use basalt_core::table::Table;
use basalt_proto::v1::ErrorReason;
use basalt_storage::{Pin, Pinned, TableState};
use tokio::time::Instant;

use super::{Tables, stored::Stored};
use crate::{limits, status::RequestError};

/// A version is pinned for as long as there is one of these.
#[derive(Debug)]
pub(crate) struct VersionPin {
    version: u64,
    /// `None`: it has a lease in the store. Of a table that was dropped nobody finds the version.
    in_memory: Option<Weak<Table>>,
}

impl Drop for VersionPin {
    fn drop(&mut self) {
        if let Some(table) = self.in_memory.as_ref().and_then(Weak::upgrade) {
            table.unpin(self.version);
        }
    }
}

/// A version that this node has pinned in the store.
#[derive(Debug)]
pub(super) struct PinnedVersion {
    pin: Pin,
    /// Gone when no set needs it.
    held: Weak<VersionPin>,
    pub(super) state: Arc<TableState>,
    renewed: Instant,
}

/// The versions of a table that this node has pinned.
pub(super) type Pins = BTreeMap<u64, PinnedVersion>;

impl Tables {
    /// Pins a version of a table that has this id (0: whichever). `None`: it cannot be read any more, or is the version of
    /// another writer's table, in whose store this server leaves nothing.
    pub(crate) async fn pin_version(
        &self,
        name: &str,
        id: u64,
        version: u64,
    ) -> Result<Option<Arc<VersionPin>>, RequestError> {
        let Ok(table) = self.shared.catalog.get(name) else { return Ok(None) };
        if id != 0 && table.id() != id {
            return Ok(None);
        }
        match self.newest_stored(&table)? {
            Some(stored) if stored.attached => Ok(None),
            Some(stored) => {
                self.rebuild(&table, version).await?;
                // Default: the version has the columns of now.
                let of = self.older_stored_at(&table, version).map_or(stored, |(older, _)| older);
                of.pin(version).await
            }
            None => match table.pin(version, limits::PINNED_VERSIONS) {
                Ok(true) => {
                    let in_memory = Some(Arc::downgrade(&table));
                    Ok(Some(Arc::new(VersionPin { version, in_memory })))
                }
                Ok(false) => Ok(None),
                Err(pinned) => Err(too_many(table.name(), pinned)),
            },
        }
    }
}

fn too_many(table: &str, pinned: usize) -> RequestError {
    let message = format!("kept sets pin {pinned} versions of table {table:?}, the most that there may be");
    RequestError::new(ErrorReason::SipQuota, message).with("limit_versions", pinned as u64)
}

impl Stored {
    fn pins(&self) -> MutexGuard<'_, Pins> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a version that is pinned here.
    pub(super) fn pinned_at(&self, version: u64) -> Option<Arc<TableState>> {
        self.pins().get(&version).map(|pinned| Arc::clone(&pinned.state))
    }

    /// Whether there is something to renew or to give up.
    pub(super) fn has_pins(&self) -> bool {
        !self.pins().is_empty()
    }

    async fn pin(&self, version: u64) -> Result<Option<Arc<VersionPin>>, RequestError> {
        {
            let pins = self.pins();
            if let Some(held) = pins.get(&version).and_then(|pinned| pinned.held.upgrade()) {
                return Ok(Some(held));
            }
            if pins.len() >= limits::PINNED_VERSIONS {
                return Err(too_many(self.table.name(), pins.len()));
            }
        }
        self.rebuild(version).await?;
        let Ok(state) = self.state_at(Some(version)) else { return Ok(None) };
        let (pin, renewed) = (Pin::new(version, self.shared.environment.number()), Instant::now());
        match self.log.pin(&self.state(), pin).await? {
            Pinned::Held => {}
            Pinned::Gone => return Ok(None),
            Pinned::Full(pins) => return Err(too_many(self.table.name(), pins)),
        }
        let held = Arc::new(VersionPin { version, in_memory: None });
        let pinned = PinnedVersion { pin, held: Arc::downgrade(&held), state, renewed };
        let before = match self.pins().entry(version) {
            Entry::Vacant(free) => {
                free.insert(pinned);
                None
            }
            Entry::Occupied(mut taken) => Some(taken.insert(pinned)),
        };
        // Two were first at once, or the one before was about to be given up. That one's holder is another, so that it
        // can go without this one.
        if let Some(before) = before {
            match before.held.upgrade() {
                Some(held) => {
                    if let Some(pinned) = self.pins().get_mut(&version) {
                        pinned.held = Arc::downgrade(&held);
                    }
                    self.give_up(before.pin).await;
                    return Ok(Some(held));
                }
                None => self.give_up(before.pin).await,
            }
        }
        Ok(Some(held))
    }

    /// Renews the pins of versions that sets need, and gives up the others.
    pub(super) async fn renew_pins(self: Arc<Self>) {
        let (mut due, mut over) = (Vec::new(), Vec::new());
        self.pins().retain(|_, pinned| {
            let held = pinned.held.strong_count() > 0;
            if !held {
                over.push(pinned.pin);
            } else if pinned.renewed.elapsed() > limits::PIN_RENEWAL {
                due.push(pinned.pin);
            }
            held
        });
        for pin in over {
            self.give_up(pin).await;
        }
        for pin in due {
            let (now, table, version) = (Instant::now(), self.table.name(), pin.version());
            match self.log.pin(&self.state(), pin).await {
                Ok(Pinned::Held) => {
                    if let Some(pinned) = self.pins().get_mut(&version) {
                        pinned.renewed = now;
                    }
                }
                Ok(Pinned::Gone | Pinned::Full(_)) => {
                    tracing::warn!(
                        table,
                        version,
                        "the lease on a version of kept sets was over, and it is gone"
                    );
                    self.pins().remove(&version);
                }
                // It is tried again in a second.
                Err(error) => tracing::warn!(table, version, %error, "a pin is not renewed"),
            }
        }
    }

    /// Gives up all pins: the sets that need them go with the process.
    pub(super) async fn give_up_pins(&self) {
        let pins = std::mem::take(&mut *self.pins());
        for pinned in pins.into_values() {
            self.give_up(pinned.pin).await;
        }
    }

    async fn give_up(&self, pin: Pin) {
        if let Err(error) = self.log.unpin(pin).await {
            let (table, version) = (self.table.name(), pin.version());
            tracing::warn!(table, version, %error, "a pin is not given up, and ends with its lease");
        }
    }
}

#[cfg(test)]
mod tests {
    use basalt_core::schema::{DataType, Field, Schema};

    use super::*;
    use crate::{Config, environment, state::State};

    #[tokio::test]
    async fn a_pin_keeps_no_table_that_was_dropped() {
        let config = Config { store: "memory:".into(), ..Config::default() };
        let state = State::new(environment::process(), &config, None).unwrap();
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]).unwrap();
        let table = state.tables.create("t", schema, None, Default::default()).await.unwrap();
        let version = table.snapshot().version();
        let pin = state.tables.pin_version("t", table.id(), version).await.unwrap().unwrap();
        assert_eq!(table.pin(version, 1), Ok(true), "it is one of those that are pinned");
        let left = Arc::downgrade(&table);
        drop((table, state.tables.remove("t").await.unwrap()));
        assert_eq!(left.strong_count(), 0);
        drop(pin);
    }
}
