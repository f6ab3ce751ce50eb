//! Links in the folder of another writer's table, which may lead anywhere on this machine. What is read of such a table is
//! below its folder by the names that the system has for it, not by those of the log alone.

use std::{
    fs,
    io::{Error, ErrorKind, Result},
    path::Path,
    time::SystemTime,
};

/// What is wrong with a file that is elsewhere.
pub(crate) const OUTSIDE: &str = "a symbolic link leads out of the table's folder";

/// A file of a folder.
#[derive(Debug)]
pub(crate) struct Found {
    /// From the folder that was asked for.
    pub(crate) path: String,
    pub(crate) size: u64,
    pub(crate) modified: SystemTime,
}

/// Whether a file or a folder is below another folder, which is canonical. What is not there is nowhere else.
pub(crate) fn is_within(folder: &Path, path: &Path) -> Result<bool> {
    let is_none = |error: &Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    match path.canonicalize() {
        Ok(real) => Ok(real.starts_with(folder)),
        Err(error) if is_none(&error) => Ok(true),
        // It may be there all the same: a name that is too long for this call is not for the one that opens it.
        Err(error) => Err(error),
    }
}

/// The files below a folder of `top`. Links to folders are not gone into, as there is no end of what they lead to; one to
/// a file is listed by its name, and refused when it is read and leads elsewhere.
pub(crate) fn files(top: &Path, folder: &str) -> Result<Vec<Found>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(top.join(&folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            // No log names what is no text.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            // What has gone meanwhile is not there.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                folders.push(path);
            } else if let Ok(meta) = fs::metadata(entry.path())
                && meta.is_file()
            {
                found.push(Found { path, size: meta.len(), modified: meta.modified()? });
            }
        }
    }
    Ok(found)
}
