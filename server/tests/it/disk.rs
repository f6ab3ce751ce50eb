//! A disk below the real binary that loses at a crash what was not synced, or fails: `disk.c` notes what the process
//! does, and when the process is dead, the folder is made what it would be had the machine died.
//!
//! What is lost is the most that may be lost: every name whose folder was not synced after it was made, and all bytes of
//! a file that was written after it was synced for the last time. Names that were removed do not come back.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// A folder on such a disk.
pub(crate) struct Disk {
    folder: TempDir,
}

impl Disk {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let disk = Self { folder };
        fs::create_dir(disk.root()).unwrap();
        fs::create_dir(disk.path("faults")).unwrap();
        fs::write(disk.path("disk.c"), include_str!("disk.c")).unwrap();
        // What links Rust programs is there.
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(disk.path("disk.so")).arg(disk.path("disk.c"));
        let compiled = compile.arg("-ldl").output().expect("cc, which links Rust programs");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        disk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// The folder that is on it.
    pub(crate) fn root(&self) -> PathBuf {
        self.path("store")
    }

    /// Lets a program run on it.
    pub(crate) fn below(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.path("disk.so"));
        command.env("BASALT_DISK_ROOT", self.root());
        command.env("BASALT_DISK_JOURNAL", self.path("journal"));
        command.env("BASALT_DISK_FAULTS", self.path("faults"));
    }

    /// From now on what makes (`link`) or syncs (`sync`) names in a table's log fails, or no longer.
    pub(crate) fn fail(&self, what: &str, fails: bool) {
        let file = self.path("faults").join(what);
        if fails { fs::write(file, "").unwrap() } else { fs::remove_file(file).unwrap() }
    }

    /// Loses what was not synced. Returns how many files and folders that were.
    pub(crate) fn lose_what_was_not_synced(&self) -> usize {
        let journal = fs::read_to_string(self.path("journal")).expect("the program notes what it does");
        let journal = Journal::read(&journal);
        fs::remove_file(self.path("journal")).unwrap();
        let mut lost = 0;
        journal.lose(&self.root(), &mut lost);
        lost
    }
}

/// What a process did.
#[derive(Default)]
struct Journal {
    /// When a name was made last.
    made: HashMap<PathBuf, u64>,
    /// When a folder was synced last.
    folders: HashMap<PathBuf, u64>,
    /// When a file was written last, and synced last.
    written: HashMap<u64, u64>,
    synced: HashMap<u64, u64>,
}

impl Journal {
    fn read(text: &str) -> Self {
        let mut journal = Self::default();
        // The last line may be cut.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for line in whole.lines() {
            let mut parts = line.splitn(3, ' ');
            let (kind, at, what) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
            let at: u64 = at.parse().unwrap();
            let later = |last: &mut u64| *last = at.max(*last);
            match kind {
                "E" => later(journal.made.entry(what.into()).or_default()),
                "D" => later(journal.folders.entry(what.into()).or_default()),
                "W" => later(journal.written.entry(what.parse().unwrap()).or_default()),
                "S" => later(journal.synced.entry(what.parse().unwrap()).or_default()),
                _ => panic!("{line}"),
            }
        }
        assert!(!journal.made.is_empty() && !journal.written.is_empty(), "nothing was noted:\n{text}");
        journal
    }

    fn lose(&self, folder: &Path, lost: &mut usize) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let name_is_synced =
                self.made.get(&path).is_none_or(|made| self.folders.get(folder).is_some_and(|at| at >= made));
            match (name_is_synced, meta.is_dir()) {
                (true, true) => self.lose(&path, lost),
                (false, true) => {
                    fs::remove_dir_all(&path).unwrap();
                    *lost += 1;
                }
                (false, false) => {
                    fs::remove_file(&path).unwrap();
                    *lost += 1;
                }
                (true, false) => {
                    let written = self.written.get(&meta.ino());
                    if written.is_some_and(|at| self.synced.get(&meta.ino()).is_none_or(|synced| synced < at))
                    {
                        fs::write(&path, "").unwrap();
                        *lost += 1;
                    }
                }
            }
        }
    }
}
