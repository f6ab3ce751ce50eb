//! Which checkpoint a replay begins with: the newest of which nothing is missing, of any of the kinds that Delta has.
//!
//! A checkpoint of the V1 kind has all that it says in its own file, or files. One of the V2 kind, which tables with the
//! feature `v2Checkpoint` may have, is one file of Parquet or JSON that says so with a `checkpointMetadata`, and may
//! name sidecars: files that have the data files in its place. Whether all of them are there is known once it is read.

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use super::{
    LastCheckpoint, TableLog,
    actions::{CheckpointActions, Sidecar},
    json_checkpoint,
    names::{self, Checkpoint, FOLDER, Format, LogFile, Naming},
    read_checkpoint,
    replay::Replay,
};
use crate::{
    error::{Result, StorageError},
    limits::{CHECKPOINT_PARTS, CHECKPOINTS_TRIED},
    places,
    store::Listed,
};

/// What a replay begins with.
pub(super) struct Start {
    /// What a checkpoint says, or nothing.
    pub(super) replay: Replay,
    /// The first version that is to be replayed.
    pub(super) from: u64,
    /// The newest checkpoint that was passed over, for want of a file.
    pub(super) lost: Option<Lost>,
}

/// A checkpoint of which a file is missing.
pub(super) struct Lost {
    version: u64,
    error: StorageError,
}

impl Lost {
    /// That what was read in its place has all that it had: another checkpoint, and of the versions from one on those that
    /// were found.
    pub(super) fn check_replaced(self, from: u64, found: &[u64]) -> Result<()> {
        let is_reached = || found.first() == Some(&from) && found.last() >= Some(&self.version);
        if from > self.version || is_reached() { Ok(()) } else { Err(self.error) }
    }
}

impl TableLog {
    /// Reads the newest checkpoint of which nothing is missing.
    pub(super) async fn load_checkpoint(&self, hint: Option<&LastCheckpoint>) -> Result<Start> {
        let after = hint.and_then(|hint| hint.version.checked_sub(1)).map(names::commit);
        let listed = self.store.list(FOLDER, after.as_deref()).await?;
        let start = self.read_newest(&listed, u64::MAX).await?;
        if start.from > 0 || after.is_none() {
            return Ok(start);
        }
        self.read_newest(&self.store.list(FOLDER, None).await?, u64::MAX).await
    }

    /// Reads the newest checkpoint of a listing that is not behind a version and of which nothing is missing.
    pub(super) async fn read_newest(&self, listed: &[Listed], last: u64) -> Result<Start> {
        let whole = whole_checkpoints(listed).into_keys().rev();
        let mut lost = None;
        for checkpoint in whole.filter(|checkpoint| checkpoint.version <= last).take(CHECKPOINTS_TRIED) {
            match self.read_checkpoint(checkpoint).await {
                Ok(replay) => return Ok(Start { replay, from: checkpoint.version + 1, lost }),
                Err(error @ StorageError::Missing { .. }) => {
                    tracing::debug!(%error, "a checkpoint that is not whole is passed over");
                    lost.get_or_insert(Lost { version: checkpoint.version, error });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Start { replay: Replay::new(self.store.url(), self.keep_millis()), from: 0, lost })
    }

    /// What a replay up to a checkpoint gives.
    async fn read_checkpoint(&self, checkpoint: Checkpoint) -> Result<Replay> {
        let (store, version) = (&self.store, checkpoint.version);
        let mut replay = Replay::new(store.url(), self.keep_millis());
        let mut manifest = Manifest::of(format!("{}/{}", store.url(), checkpoint.file(1)), checkpoint);
        for part in 1..=checkpoint.files() {
            let path = checkpoint.file(part);
            (replay, manifest) = match checkpoint.naming {
                Naming::Uuid(_, Format::Json) => {
                    json_checkpoint::read(store, &path, replay, manifest).await?
                }
                _ => read_checkpoint::read(store, &path, replay, manifest).await?,
            };
        }
        for sidecar in manifest.finish()? {
            let path = places::sidecar(store, &sidecar.path)?;
            replay =
                read_checkpoint::read_sidecar(store, &path, sidecar.size_in_bytes, version, replay).await?;
        }
        replay.forget();
        replay.set_checkpoint(version);
        Ok(replay)
    }
}

/// What a checkpoint says of itself, beside the state.
pub(super) struct Manifest {
    place: String,
    checkpoint: Checkpoint,
    /// How many `checkpointMetadata` it has.
    described: u64,
    sidecars: Vec<Sidecar>,
}

impl Manifest {
    fn of(place: String, checkpoint: Checkpoint) -> Self {
        Self { place, checkpoint, described: 0, sidecars: Vec::new() }
    }

    /// Takes in some of the actions of the checkpoint, those of the state into a replay.
    pub(super) fn take(&mut self, found: CheckpointActions, replay: &mut Replay) -> Result<()> {
        for metadata in found.metadata {
            if metadata.version != self.checkpoint.version {
                return Err(self.corrupt(format!("it is a checkpoint of version {}", metadata.version)));
            }
            self.described += 1;
        }
        let sidecars = (self.sidecars.len() + found.sidecars.len()) as u64;
        if sidecars > CHECKPOINT_PARTS {
            return Err(StorageError::Limit {
                path: self.place.clone(),
                what: "the number of its sidecars",
                found: sidecars,
                limit: CHECKPOINT_PARTS,
            });
        }
        self.sidecars.extend(found.sidecars);
        replay.apply_checkpoint(self.checkpoint.version, found.actions)
    }

    /// The sidecars, once all of the checkpoint's own files are read.
    fn finish(self) -> Result<Vec<Sidecar>> {
        let must_be_described =
            matches!(self.checkpoint.naming, Naming::Uuid(..)) || !self.sidecars.is_empty();
        match self.described {
            0 if must_be_described => Err(self.corrupt("it has no checkpointMetadata".to_owned())),
            0 | 1 => Ok(self.sidecars),
            _ => Err(self.corrupt("it has more than one checkpointMetadata".to_owned())),
        }
    }

    fn corrupt(&self, why: String) -> StorageError {
        StorageError::corrupt(self.place.clone(), why)
    }
}

/// The checkpoints of whose own files none is missing, and when the last was written.
pub(crate) fn whole_checkpoints<'a>(
    listed: impl IntoIterator<Item = &'a Listed>,
) -> BTreeMap<Checkpoint, SystemTime> {
    let mut found: BTreeMap<Checkpoint, (u64, SystemTime)> = BTreeMap::new();
    for file in listed {
        if let Some(LogFile::Checkpoint(checkpoint)) = LogFile::of(&file.path)
            && checkpoint.files() <= CHECKPOINT_PARTS
            && checkpoint.version < u64::MAX
        {
            let (n, last) = found.entry(checkpoint).or_insert((0, UNIX_EPOCH));
            (*n, *last) = (*n + 1, file.modified.max(*last));
        }
    }
    let whole = found.into_iter().filter(|(checkpoint, (n, _))| *n == checkpoint.files());
    whole.map(|(checkpoint, (_, last))| (checkpoint, last)).collect()
}
