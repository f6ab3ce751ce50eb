//! What writes that were cut off have left in a directory.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::Store;

impl Store {
    /// Removes what writes that were cut off have left in a folder of a local store and below it: temporary files of
    /// names that Basalt writes, older than `age`. Other stores show nothing of such a write.
    pub(crate) async fn delete_leftovers(&self, folder: &str, age: Duration) -> usize {
        let Some(folder) = self.local.as_ref().map(|local| local.join(folder)) else { return 0 };
        let mut now = self.environment.wall();
        if age > Duration::ZERO {
            let old = folder.clone();
            match self.run(move || leftovers(&old, now, age)).await {
                Ok(old) if old.is_empty() => return 0,
                _ => {}
            }
            // By this machine's clock they are.
            now = match self.clock().await {
                Ok(clock) => clock,
                Err(error) => {
                    tracing::warn!(%error, "how old it is what writes have left is not known");
                    return 0;
                }
            };
        }
        let remove = move || {
            let old = leftovers(&folder, now, age).into_iter();
            let removed = old.filter(|path| fs::remove_file(path).is_ok());
            removed.map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        let deleted = match self.run(remove).await {
            Ok(deleted) => deleted,
            Err(error) => {
                tracing::error!(%error, "looking for what writes have left");
                return 0;
            }
        };
        self.log_deleted("what a write that was cut off has left", &deleted);
        deleted.len()
    }
}

fn leftovers(folder: &Path, now: SystemTime, age: Duration) -> Vec<PathBuf> {
    let mut found = Vec::new();
    find(folder, now, age, &mut found);
    found
}

fn find(folder: &Path, now: SystemTime, age: Duration, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        // Of a link, its own: nothing outside of the folder is removed.
        let Ok(meta) = entry.path().symlink_metadata() else { continue };
        let old = meta.modified().is_ok_and(|at| now.duration_since(at).is_ok_and(|passed| passed >= age));
        if meta.is_dir() {
            find(&entry.path(), now, age, found);
        } else if meta.is_file() && old && is_leftover(&entry.file_name().to_string_lossy()) {
            found.push(entry.path());
        }
    }
}

/// Whether a file name is that of a write of ours that is under way: a name that Basalt gives, `#`, and digits.
fn is_leftover(name: &str) -> bool {
    name.rsplit_once('#').is_some_and(|(name, n)| {
        let ours = [".json", ".parquet", ".bin", "_last_checkpoint"].iter().any(|end| name.ends_with(end));
        ours && !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())
    })
}
