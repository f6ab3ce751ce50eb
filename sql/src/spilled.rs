//! Where statements put what memory has no room for. Each process has a folder of its own there, which it holds locked: what
//! another one has left that was killed is removed.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process,
    time::{SystemTime, UNIX_EPOCH},
};

/// The file that is locked.
const LOCK: &str = "lock";

/// A folder, for as long as this is there.
#[derive(Debug)]
pub(crate) struct Spilled {
    pub(crate) folder: PathBuf,
    _lock: File,
}

impl Spilled {
    /// # Errors
    /// Where the folder cannot be made.
    pub(crate) fn within(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        remove_left(folder)?;
        // Default: a clock before 1970 tells processes of one number apart as well.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let own = folder.join(format!("{}-{}", process::id(), since.as_nanos()));
        fs::create_dir(&own)?;
        let lock = File::create_new(own.join(LOCK))?;
        lock.try_lock()?;
        Ok(Self { folder: own, _lock: lock })
    }
}

/// Removes the folders that nobody holds. One that has just been made has no lock yet.
fn remove_left(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_free = match File::options().write(true).open(path.join(LOCK)) {
            Ok(lock) => lock.try_lock().is_ok(),
            Err(_) => false,
        };
        if is_free {
            // What cannot be removed is no worse than it was.
            let _ = fs::remove_dir_all(&path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_left_is_removed_and_what_others_have_is_not() {
        let all = std::env::temp_dir().join(format!("basalt-spilled-{}", process::id()));
        let (killed, running) = (Spilled::within(&all).unwrap(), Spilled::within(&all).unwrap());
        for of in [&killed, &running] {
            fs::write(of.folder.join("rows"), b"some").unwrap();
        }
        let left = killed.folder.clone();
        drop(killed);
        let next = Spilled::within(&all).unwrap();
        assert!(!left.exists() && running.folder.join("rows").exists() && next.folder.exists());
        fs::remove_dir_all(&all).unwrap();
    }
}
