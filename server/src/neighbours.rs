//! Whether other processes of this machine serve the same folder. Nodes of a cluster do, and know each other; servers that do
//! not are each correct, for what they agree on stands in the store, but one reads what another has written a moment later,
//! and both take memory for it. Whoever starts a second one by mistake should hear of it.
//!
//! Locks of the system on a file tell, and nothing else needs them: they end with their process, however that ends.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::Path,
};

/// Its file, in the folder of a store.
const NAME: &str = ".serving";

/// What is held for as long as a server runs.
#[derive(Debug)]
pub(crate) struct Serving {
    _file: Option<File>,
}

/// Takes note that this process serves a store, and warns where another does without being a node of the same cluster.
pub(crate) fn serve(store: &str, is_node: bool) -> Serving {
    // Only a folder has the locks of a system; of what cannot be locked nothing is known, and nothing is said.
    let Some(folder) = folder(store) else { return Serving { _file: None } };
    match joined(&folder.join(NAME)) {
        Ok((file, is_first)) => {
            if !is_first && !is_node {
                tracing::warn!(
                    store,
                    "another process of this machine serves this store as well: without --peer-listen and --peers the two do \
                     not know each other, and each sees what the other writes a moment later; stop one of them, or make \
                     them a cluster"
                );
            }
            Serving { _file: Some(file) }
        }
        Err(error) => {
            tracing::debug!(store, %error, "the store's folder has no locks");
            Serving { _file: None }
        }
    }
}

/// The folder of a store; `None`: it is none.
fn folder(store: &str) -> Option<&Path> {
    let path = store.strip_prefix("file://").unwrap_or(store);
    let is_folder = !store.starts_with("memory:") && (path != store || !store.contains("://"));
    is_folder.then(|| Path::new(path))
}

/// A share of the lock, and whether nobody else has one. All who serve share it; who gets it alone first is the first.
fn joined(path: &Path) -> std::io::Result<(File, bool)> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    let is_first = match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(error)) => return Err(error),
    };
    // The lock that is held becomes a shared one. Another that starts at this moment may be missed, and may not be told.
    match file.try_lock_shared() {
        Ok(()) | Err(TryLockError::WouldBlock) => Ok((file, is_first)),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_second_is_told_and_whoever_leaves_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let is_first = |(_, is_first): &(File, bool)| *is_first;
        let first = joined(&path).unwrap();
        let second = joined(&path).unwrap();
        assert!(is_first(&first) && !is_first(&second));
        // The second is still there.
        drop(first);
        let third = joined(&path).unwrap();
        assert!(!is_first(&third));
        drop((second, third));
        assert!(is_first(&joined(&path).unwrap()));
        assert!(joined(&folder.path().join("none").join(NAME)).is_err());
    }

    #[test]
    fn folders_have_locks() {
        for (store, expected) in [
            ("./basalt-data", Some("./basalt-data")),
            ("/var/lib/basalt", Some("/var/lib/basalt")),
            ("file:///var/lib/basalt", Some("/var/lib/basalt")),
            ("memory:", None),
            ("s3://bucket/prefix", None),
        ] {
            assert_eq!(folder(store), expected.map(Path::new), "{store}");
        }
    }
}
