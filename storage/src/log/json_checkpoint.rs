//! Reading a checkpoint in JSON: one of the V2 kind, an action a line.

use std::convert::Infallible;

use super::{
    actions::{CheckpointActions, checkpoint_lines},
    checkpoints::Manifest,
    replay::Replay,
};
use crate::{
    data::catching,
    error::Result,
    limits::{CHECKPOINT_BYTES, CHECKPOINT_ROWS},
    store::Store,
};

/// Replays the file.
pub(super) async fn read(
    store: &Store,
    path: &str,
    mut replay: Replay,
    mut manifest: Manifest,
) -> Result<(Replay, Manifest)> {
    let place = format!("{}/{path}", store.url());
    let bytes = store.get_known(path, CHECKPOINT_BYTES).await?;
    catching(store, place.clone(), move || {
        let done = replayed(&place, &bytes, &mut replay, &mut manifest);
        Ok::<_, Infallible>(done.map(|()| (replay, manifest)))
    })
    .await?
}

/// Some actions at a time, as those of Parquet.
fn replayed(place: &str, bytes: &[u8], replay: &mut Replay, manifest: &mut Manifest) -> Result<()> {
    let mut lines = checkpoint_lines(place, bytes).peekable();
    while lines.peek().is_some() {
        let mut found = CheckpointActions::default();
        for line in lines.by_ref().take(CHECKPOINT_ROWS) {
            found.push(line?);
        }
        manifest.take(found, replay)?;
    }
    Ok(())
}
