//! Pinned versions: they can be read, on every node, for as long as somebody renews a lease on them, whatever the time
//! for which versions are retained.
//!
//! A pin is a small file beside the table's, whose name is the version and who holds it, and whose age is that of the
//! lease. A vacuum lists the folder anyway, and keeps what the versions need whose pins it finds. Whoever pins a version
//! writes the file first and then looks whether the version can still be read: then a vacuum that has listed the folder
//! before removes nothing that the version needs, and every later one finds the pin. Who is gone renews nothing, and so
//! the pins of a node end with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    error::Result,
    limits::{PIN_GRACE, PIN_LEASE, TABLE_PINS},
    log::{TableLog, TableState},
    store::{Listed, is_reading},
};

/// Where pins are; the name begins with what Delta's own clean-up leaves alone.
pub(crate) const FOLDER: &str = "_basalt_pins";

/// A lease on a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pin {
    version: u64,
    holder: u64,
}

/// What pinning a version has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// It can be read until the lease is over.
    Held,
    /// It cannot be read any more, or is not there yet.
    Gone,
    /// The table has too many pins: as many as this.
    Full(usize),
}

impl Pin {
    /// That of a holder, whose number no other has.
    pub fn new(version: u64, holder: u64) -> Self {
        Self { version, holder }
    }

    /// The version that it is of.
    pub fn version(self) -> u64 {
        self.version
    }

    fn path(self) -> String {
        format!("{FOLDER}/{:020}.{:016x}.json", self.version, self.holder)
    }

    fn of(path: &str) -> Option<Self> {
        let name = path.strip_prefix(FOLDER)?.strip_prefix('/')?.strip_suffix(".json")?;
        let (version, holder) = name.split_once('.')?;
        let pin = Self { version: version.parse().ok()?, holder: u64::from_str_radix(holder, 16).ok()? };
        (pin.path() == path).then_some(pin)
    }
}

/// The pins of a listing: those whose leases are no older than this, and the files of the others, with those that have told
/// somebody the time so long ago.
pub(crate) fn pins_of(listed: &[Listed], lease: Duration) -> (BTreeSet<Pin>, Vec<Listed>) {
    let (mut held, mut ended) = (BTreeSet::new(), Vec::new());
    for file in listed {
        match Pin::of(&file.path) {
            Some(pin) if file.age() <= lease => drop(held.insert(pin)),
            Some(_) => ended.push(file.clone()),
            None if is_reading(&file.path) && file.age() > lease => ended.push(file.clone()),
            None => {}
        }
    }
    (held, ended)
}

impl TableLog {
    /// Pins a version, or renews the pin: it can be read for a lease of three minutes from now on.
    ///
    /// # Errors
    /// Those of [`refresh`](Self::refresh) and of the store; then nothing is known of the pin.
    pub async fn pin(&self, newest: &Arc<TableState>, pin: Pin) -> Result<Pinned> {
        let began = Instant::now();
        let pins = self.pins().await?;
        let was_held = pins.iter().any(|other| other.version == pin.version);
        if pins.len() >= TABLE_PINS && !pins.contains(&pin) {
            return Ok(Pinned::Full(pins.len()));
        }
        self.store().put(&pin.path(), "{}").await?;
        // A vacuum counts a lease longer by as much as this may have taken.
        if was_held && began.elapsed() < PIN_GRACE / 2 {
            return Ok(Pinned::Held);
        }
        let newest = self.refresh(newest).await?;
        let version = pin.version;
        let is_readable = version == newest.version()
            || version < newest.version() && self.is_retained(newest.version(), version).await?;
        if is_readable {
            return Ok(Pinned::Held);
        }
        self.unpin(pin).await?;
        Ok(Pinned::Gone)
    }

    /// Gives up a pin.
    ///
    /// # Errors
    /// Those of the store; then it ends with its lease.
    pub async fn unpin(&self, pin: Pin) -> Result<()> {
        self.store().delete("its version is pinned no longer", [pin.path()]).await.map(drop)
    }

    /// Pins whose leases are not over.
    async fn pins(&self) -> Result<BTreeSet<Pin>> {
        Ok(pins_of(&self.store().list(FOLDER, None).await?, PIN_LEASE).0)
    }

    /// Whether a version is pinned.
    pub(crate) async fn is_pinned(&self, version: u64) -> Result<bool> {
        Ok(self.pins().await?.iter().any(|pin| pin.version == version))
    }

    /// The states of pinned versions before the newest, as far as they can be rebuilt: of others nothing is read any more.
    pub(crate) async fn pinned_states(
        &self,
        newest: &Arc<TableState>,
        pins: &BTreeSet<Pin>,
    ) -> Result<BTreeMap<u64, Arc<TableState>>> {
        let versions: BTreeSet<u64> = pins.iter().map(|pin| pin.version).collect();
        let mut states = BTreeMap::new();
        for version in versions.into_iter().filter(|version| *version < newest.version()) {
            let known = self.pinned().get(&version).cloned();
            let state = match known {
                Some(state) => Some(state),
                None => self.rebuild(newest, version).await?,
            };
            match state {
                Some(state) => drop(states.insert(version, state)),
                None => tracing::warn!(table = self.store().url(), version, "a pinned version is gone"),
            }
        }
        // They are rebuilt once, not by every vacuum.
        self.pinned().clone_from(&states);
        Ok(states)
    }

    fn pinned(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<TableState>>> {
        self.pinned_states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_its_name() {
        let pin = Pin { version: 12, holder: 0xab };
        assert_eq!(pin.path(), "_basalt_pins/00000000000000000012.00000000000000ab.json");
        assert_eq!(Pin::of(&pin.path()), Some(pin));
        for other in [
            "_basalt_pins/12.ab.json",
            "_basalt_pins/clock.00ab.json",
            "_basalt_pins/x",
            "part-0.json",
            "_basalt_pins/.json",
        ] {
            assert_eq!(Pin::of(other), None, "{other}");
        }
    }
}
