//! The files that COPY reads and writes: below the folders that the configuration names, and nowhere else. A path is
//! walked from its root one folder after the other, and none of them, nor the file, may be a symbolic link or `..`, so that
//! nothing leads out of the root, also while somebody changes what is below it.

use std::{
    fs::File,
    os::fd::OwnedFd,
    path::{Component, Path, PathBuf},
};

use basalt_proto::v1::ErrorReason;
use basalt_sql::Sink;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, renameat, unlinkat};

use super::{carried, transaction};
use crate::{
    access::{Action, Object},
    state::State,
    status::{RequestError, Result},
};

impl super::Tables {
    /// Opens a file to be read.
    pub(super) fn source(&self, path: &str) -> basalt_sql::Result<File> {
        self.opened(path, |folder, name, _| {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let file = openat(folder, name, flags, Mode::empty()).map_err(|error| failed(path, error))?;
            check_regular(path, &file)?;
            Ok(File::from(file))
        })
    }

    /// Begins a file, which takes its name when it is complete.
    pub(super) fn sink(&self, path: &str) -> basalt_sql::Result<Box<dyn Sink>> {
        if self.asker.transaction.is_some() {
            return Err(carried(transaction::not_in_one("COPY TO")));
        }
        self.opened(path, |folder, name, state| {
            let being_written = format!(".{name}.{:016x}.part", state.environment.number());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP;
            let file = openat(&folder, &*being_written, flags, mode).map_err(|error| failed(path, error))?;
            let (path, name) = (path.to_owned(), name.to_owned());
            Ok(Box::new(Part { folder, being_written, name, path, file: File::from(file) }) as Box<dyn Sink>)
        })
    }

    fn opened<T>(
        &self,
        path: &str,
        open: impl FnOnce(OwnedFd, &str, &State) -> Result<T>,
    ) -> basalt_sql::Result<T> {
        let opened = || {
            self.asker.authorise(Action::Copy, Object::Server)?;
            let placed = below_root(&self.state.copy_roots, path).and_then(|(root, below)| {
                stays(path, &below)?;
                Ok((root, below))
            });
            let (root, below) = placed.inspect_err(|_| self.asker.refused_at(Action::Copy, path))?;
            self.asker.allowed(Action::Copy, Object::Server);
            let (folder, name) = walked(path, &root, &below)?;
            open(folder, &name, &self.state)
        };
        opened().map_err(carried)
    }
}

/// The root that a path is below, and the rest of it. One that does not begin at the root of the system is below the
/// first.
fn below_root(roots: &[PathBuf], path: &str) -> Result<(PathBuf, PathBuf)> {
    if roots.is_empty() {
        return Err(refused("COPY reads and writes no files: the server has no --copy-root".to_owned()));
    }
    let named = Path::new(path);
    if !named.is_absolute() {
        return Ok((roots[0].clone(), named.to_owned()));
    }
    let below = roots.iter().find_map(|root| Some((root.clone(), named.strip_prefix(root).ok()?.to_owned())));
    below.ok_or_else(|| refused(format!("{path:?} is below no --copy-root")))
}

/// Fails where the rest of a path leads out of its root by its names.
fn stays(path: &str, below: &Path) -> Result<()> {
    let leads_out = |part: Component<'_>| !matches!(part, Component::Normal(_) | Component::CurDir);
    match below.components().any(leads_out) {
        true => Err(refused(format!("{path:?} leads out of its --copy-root"))),
        false => Ok(()),
    }
}

/// The folder that a file is in, and its name there.
fn walked(path: &str, root: &Path, below: &Path) -> Result<(OwnedFd, String)> {
    let mut names = Vec::new();
    for component in below.components() {
        match component {
            Component::Normal(name) => {
                names.push(name.to_str().ok_or_else(|| refused(format!("{path:?} is no UTF-8")))?);
            }
            Component::CurDir => {}
            _ => return Err(refused(format!("{path:?} leads out of its --copy-root"))),
        }
    }
    let Some(name) = names.pop() else { return Err(refused(format!("{path:?} is no file"))) };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder =
        openat(CWD, root, flags, Mode::empty()).map_err(|error| failed(&root.to_string_lossy(), error))?;
    for name in names {
        folder = openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|error| failed(path, error))?;
    }
    Ok((folder, name.to_owned()))
}

fn check_regular(path: &str, file: &OwnedFd) -> Result<()> {
    let found = fstat(file).map_err(|error| failed(path, error))?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(refused(format!("{path:?} is no file"))),
    }
}

fn refused(message: String) -> RequestError {
    RequestError::new(ErrorReason::InvalidQuery, message)
}

fn failed(path: &str, error: rustix::io::Errno) -> RequestError {
    refused(format!("{path:?} cannot be opened: {error}"))
}

/// A file that is being written. Dropped before it is kept, it is removed.
struct Part {
    folder: OwnedFd,
    being_written: String,
    name: String,
    path: String,
    file: File,
}

impl Sink for Part {
    fn file(&self) -> basalt_sql::Result<File> {
        self.file.try_clone().map_err(|error| carried(refused(format!("{:?}: {error}", self.path))))
    }

    fn keep(mut self: Box<Self>) -> basalt_sql::Result<()> {
        let wrong = |error: std::io::Error| carried(refused(format!("{:?}: {error}", self.path)));
        self.file.sync_all().map_err(wrong)?;
        renameat(&self.folder, &*self.being_written, &self.folder, &*self.name)
            .map_err(|error| carried(failed(&self.path, error)))?;
        self.being_written.clear();
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.being_written.is_empty()
            && let Err(error) = unlinkat(&self.folder, &*self.being_written, AtFlags::empty())
        {
            tracing::warn!(path = self.path, %error, "cannot remove a file that was not completed");
        }
    }
}
