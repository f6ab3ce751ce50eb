//! The thread that writes the cache on disk, and keeps it within its size.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, BufWriter, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::SystemTime,
};

use basalt_core::fragment::Column;
use tokio::{sync::mpsc::Receiver, time::Instant};

use super::{
    FOLDER, Job, Key, PARTS, Shared, UNFINISHED,
    file::{Contents, Source},
    known::Name,
};
use crate::{
    cache::{Purpose, Rows},
    limits,
    panics::caught,
};

impl Shared {
    /// Works until nobody can give it more to do.
    pub(super) fn run(&self, mut jobs: Receiver<Job>) {
        self.scan();
        while let Some(job) = self.environment.wait(jobs.recv()) {
            if !self.stopping.load(Ordering::Relaxed) {
                // A panic is in the log.
                let _ = caught(|| {
                    self.work(job);
                    Ok(())
                });
            }
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn work(&self, job: Job) {
        match job {
            Job::Keep { key, held, columns } => {
                if !self.writes.is_over() {
                    return;
                }
                match self.keep(&key, held, &columns) {
                    Ok(()) => self.writes.works(),
                    Err(error) => self.writes.fails("written to", &error),
                }
            }
            Job::Forget { table, rows: Some(rows) } => {
                self.delete_all((0..PARTS).map(|part| Name { table, rows, part }));
            }
            Job::Forget { table, rows: None } => {
                let names = self.files().of_table(table);
                self.delete_all(names);
                // Where it is not empty it stays.
                let _ = fs::remove_dir(self.table(table));
            }
        }
    }

    /// Writes columns that memory has and no file.
    fn keep(&self, key: &Key, held: Rows, columns: &[u64]) -> io::Result<()> {
        let there = self.opened(key);
        let is_there = |id: &u64| there.iter().any(|(_, file)| file.entries().iter().any(|e| e.id == *id));
        let missing: Vec<u64> = columns.iter().filter(|id| !is_there(id)).copied().collect();
        let Some(found) = self.cache.find([(held, 0)], &missing, Purpose::Maintenance).pop() else {
            return Ok(());
        };
        // As long as a column is written the memory has it, and counts it.
        let found: Vec<(u64, Arc<Column>)> =
            missing.into_iter().zip(found.columns).filter_map(|(id, column)| Some((id, column?))).collect();
        if found.is_empty() {
            return Ok(());
        }
        let mut sources: Vec<(u64, Source<'_>)> =
            found.iter().map(|(id, column)| (*id, Source::Memory(column.to_parts()))).collect();
        let free = (0..PARTS).find(|part| there.iter().all(|(name, _)| name.part != *part));
        if free.is_none() {
            for (file, entry) in
                there.iter().flat_map(|(_, file)| file.entries().iter().map(move |e| (file, e)))
            {
                if sources.iter().all(|(id, _)| *id != entry.id) {
                    sources.push((entry.id, Source::File(file, *entry)));
                }
            }
        }
        // Default: all are written as one file, the first.
        let name = key.name(free.unwrap_or_default());
        let Some(contents) = Contents::new(&key.text, key.n, sources) else { return Ok(()) };
        if !self.make_room(contents.bytes()) {
            return Ok(());
        }
        self.write(name, &contents)?;
        self.files().insert(name, contents.bytes(), Some(Instant::now()));
        if free.is_none() {
            self.delete_all(there.iter().map(|(name, _)| *name).filter(|name| name.part > 0));
        }
        Ok(())
    }

    /// Deletes what was not used for the longest, until there is room for some bytes; where there are any, not what was
    /// used just now.
    fn make_room(&self, bytes: u64) -> bool {
        loop {
            let files = self.files();
            if files.bytes().saturating_add(bytes.next_multiple_of(4096)) <= self.limit {
                return true;
            }
            let Some((oldest, used)) = files.oldest() else { return false };
            drop(files);
            let stays = bytes > 0 && used.elapsed() < limits::CACHE_FILE_STAYS;
            if stays || bytes > self.limit || !self.delete(oldest) {
                return false;
            }
        }
    }

    fn write(&self, name: Name, contents: &Contents<'_>) -> io::Result<()> {
        let path = self.path(name);
        DirBuilder::new().recursive(true).mode(0o700).create(self.table(name.table))?;
        let unfinished = path.with_extension(format!("{}.{UNFINISHED}", name.part));
        let write = || {
            let file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
            let mut out = BufWriter::new(&file);
            contents.write(&mut out)?;
            out.flush()?;
            drop(out);
            // As its reads are noted; where it fails, it goes sooner.
            let _ = file.set_modified(self.environment.wall());
            fs::rename(&unfinished, &path)
        };
        write().inspect_err(|_| drop(fs::remove_file(&unfinished)))
    }

    /// Counts the files of earlier processes, and deletes what is of other versions or was not finished.
    fn scan(&self) {
        let root = self.folder.parent().unwrap_or(&self.folder);
        for (path, name) in entries(root) {
            if name.starts_with(FOLDER) && path != self.folder && path.is_dir() {
                let _ = fs::remove_dir_all(path);
            }
        }
        let mut found = Vec::new();
        for (folder, table) in entries(&self.folder) {
            let Some(table) = hash(&table) else { continue };
            for (path, name) in entries(&folder) {
                if self.stopping.load(Ordering::Relaxed) {
                    return;
                }
                let Some((rows, part)) = name.split_once('.') else { continue };
                match (hash(rows), part.parse()) {
                    (Some(rows), Ok(part)) if part < PARTS => {
                        let Ok(about) = fs::symlink_metadata(&path) else { continue };
                        // Default: it goes first.
                        let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                        found.push((used, Name { table, rows, part }, about.len()));
                    }
                    (Some(_), Err(_)) if part.ends_with(UNFINISHED) => drop(fs::remove_file(path)),
                    _ => {}
                }
            }
        }
        found.sort_unstable();
        let mut files = self.files();
        found.into_iter().for_each(|(_, name, bytes)| files.insert(name, bytes, None));
        drop(files);
        self.make_room(0);
    }
}

/// What is in a folder, with names that are text.
fn entries(folder: &Path) -> impl Iterator<Item = (PathBuf, String)> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)))
}

/// A number as names have it.
fn hash(text: &str) -> Option<u64> {
    let number = u64::from_str_radix(text, 16).ok()?;
    (format!("{number:016x}") == text).then_some(number)
}
