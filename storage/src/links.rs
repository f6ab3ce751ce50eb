//! Links in the folder of another writer's table, which may lead anywhere on this machine. What is read of such a table is
//! below its folder by the names that the system has for it, not by those of the log alone.

use std::{
    fs::{self, File},
    io::{Error, ErrorKind, Result},
    ops::Range,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use bytes::Bytes;

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

/// Why a file is not read.
#[derive(Debug)]
pub(crate) enum Failed {
    /// See [`OUTSIDE`].
    Outside,
    Io(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Io(error)
    }
}

/// A file that is open, wherever its name leads by now.
#[derive(Debug)]
pub(crate) struct Opened {
    file: File,
    pub(crate) size: u64,
    pub(crate) modified: SystemTime,
    /// That of the file, for as long as it is there.
    pub(crate) number: u64,
}

/// Opens a file of a folder, which is canonical; `None` where there is none. Where it lies is asked of what is open: what has
/// the name may be another file a moment later.
pub(crate) fn open(folder: &Path, path: &Path) -> std::result::Result<Option<Opened>, Failed> {
    let opened = || {
        // To open a pipe would be to wait for somebody who writes to it.
        if !fs::metadata(path)?.is_file() {
            return Err(Error::from(ErrorKind::NotFound));
        }
        let file = File::open(path)?;
        let (real, about) = (place_of(&file, path)?, file.metadata()?);
        Ok((file, real, about))
    };
    let (file, real, about) = match opened() {
        Ok(opened) => opened,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    if !real.starts_with(folder) || !about.is_file() {
        return Err(Failed::Outside);
    }
    Ok(Some(Opened { file, size: about.len(), modified: about.modified()?, number: about.ino() }))
}

#[cfg(target_os = "linux")]
fn place_of(file: &File, _: &Path) -> Result<PathBuf> {
    use std::os::fd::AsRawFd as _;
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Between the two somebody may put another file in its place.
#[cfg(not(target_os = "linux"))]
fn place_of(_: &File, path: &Path) -> Result<PathBuf> {
    path.canonicalize()
}

impl Opened {
    /// A part of it.
    pub(crate) fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let length = range.end.checked_sub(range.start).filter(|_| range.end <= self.size);
        let length = length.ok_or(ErrorKind::UnexpectedEof)?;
        let mut bytes = vec![0; usize::try_from(length).map_err(Error::other)?];
        self.file.read_exact_at(&mut bytes, range.start)?;
        Ok(bytes.into())
    }
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
