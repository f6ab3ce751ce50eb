//! A disk below the real binary that loses at a crash what was not synced, fails, is slow, or ends the process at a call:
//! `disk.c` stands between the program and its files, does what it is ordered, and notes what the process does. When the
//! process is dead, the folder is made what it would be had the machine died.

use std::{
    collections::HashMap,
    fs,
    fs::File,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use rand::{Rng as _, rngs::StdRng};
use tempfile::TempDir;

mod ambiguous;
mod crash;
mod crash_of_a_node;
mod damage;
mod failing;
mod killed;
mod life;

/// Calls of a process to its files, numbered as in `disk.c`. What replaces a name, or gives a file another, is `Name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Call {
    Make = 1,
    Write,
    Sync,
    Name,
    Remove,
    Folder,
    Open,
    Read,
}

impl Call {
    fn numbered(number: &str) -> Self {
        let all = [
            Self::Make,
            Self::Write,
            Self::Sync,
            Self::Name,
            Self::Remove,
            Self::Folder,
            Self::Open,
            Self::Read,
        ];
        all[number.parse::<usize>().unwrap() - 1]
    }
}

/// When a process ends, beside a call. In the middle of a write, half of it gets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Before = 1,
    Middle,
    After,
}

/// What of that is lost which was not synced.
pub(crate) enum Loss<'a> {
    /// Nothing: the process died, not the machine.
    Nothing,
    /// The most that may be: every name whose folder was not synced after it was made, and all bytes of a file that was
    /// written after it was synced for the last time. Names that were removed do not come back.
    Most,
    /// Any of it, by chance: some of the names, of the bytes some; some of the names come back that were removed.
    Some(&'a mut StdRng),
}

/// Where `struct orders` has its parts.
mod at {
    pub(super) const AHEAD: u64 = 8;
    pub(super) const ENDING: u64 = 16;
    pub(super) const LEFT: u64 = 24;
    pub(super) const END: u64 = 32;
    /// Bytes of a `struct fault`.
    pub(super) const FAULT: u64 = 128;
    pub(super) const FAULTS: u64 = END + FAULT;
    /// Bytes of its pattern, with the 0 behind it.
    pub(super) const PATHS: usize = 104;
}

/// A folder on such a disk.
pub(crate) struct Disk {
    folder: TempDir,
    orders: File,
}

impl Disk {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let orders = File::create_new(folder.path().join("orders")).unwrap();
        orders.set_len(at::FAULTS + 4 * at::FAULT).unwrap();
        let disk = Self { folder, orders };
        fs::create_dir(disk.root()).unwrap();
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
        self.path("disk")
    }

    /// Lets a program run on it.
    pub(crate) fn below(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.path("disk.so"));
        command.env("BASALT_DISK_ROOT", self.root());
        command.env("BASALT_DISK_JOURNAL", self.path("journal"));
        command.env("BASALT_DISK_ORDERS", self.path("orders"));
    }

    fn order(&self, at: u64, value: u64) {
        self.orders.write_all_at(&value.to_ne_bytes(), at).unwrap();
    }

    fn order_calls(&self, at: u64, call: Option<Call>, paths: &str, [error, delay]: [u64; 2]) {
        let mut bytes = [0; at::PATHS];
        bytes[..paths.len()].copy_from_slice(paths.as_bytes());
        // What it is to meet comes last.
        self.order(at, 0);
        self.order(at + 8, error);
        self.order(at + 16, delay);
        self.orders.write_all_at(&bytes, at + 24).unwrap();
        self.order(at, call.map_or(0, |call| call as u64));
    }

    /// From now on these calls fail with an error of the system; `paths` is a pattern of the shell.
    pub(crate) fn fail(&self, call: Call, paths: &str, error: rustix::io::Errno) {
        let error = u64::try_from(error.raw_os_error()).unwrap();
        self.order_calls(at::FAULTS, Some(call), paths, [error, 0]);
    }

    /// From now on these calls take so many milliseconds more.
    pub(crate) fn slow(&self, call: Call, paths: &str, delay: u64) {
        self.order_calls(at::FAULTS, Some(call), paths, [0, delay]);
    }

    /// Nothing fails any longer, or is slow.
    pub(crate) fn heal(&self) {
        self.order_calls(at::FAULTS, None, "", [0, 0]);
    }

    /// The process ends at the `nth` of these calls from now on.
    pub(crate) fn end_at(&self, call: Call, paths: &str, moment: Moment, nth: u64) {
        self.order(at::LEFT, nth);
        self.order_calls(at::END, Some(call), paths, [0, 0]);
        self.order(at::ENDING, moment as u64);
    }

    /// The process ends at no call any longer.
    pub(crate) fn end_never(&self) {
        self.order(at::ENDING, 0);
    }

    /// By how many seconds the clocks of the process are ahead.
    pub(crate) fn ahead(&self) -> u64 {
        let mut value = [0; 8];
        self.orders.read_exact_at(&mut value, at::AHEAD).unwrap();
        u64::from_ne_bytes(value)
    }

    /// Sets the clocks of the process ahead, by so many seconds altogether.
    pub(crate) fn set_ahead(&self, seconds: u64) {
        self.order(at::AHEAD, seconds);
    }

    /// The calls that there were.
    pub(crate) fn calls(&self) -> Vec<(Call, String)> {
        let journal = fs::read_to_string(self.path("journal")).expect("the program notes what it does");
        let calls = journal.lines().filter_map(|line| line.strip_prefix("C ")?.split_once(' '));
        calls.map(|(call, path)| (Call::numbered(call), path.to_owned())).collect()
    }

    /// Loses what was not synced. Returns how many files and folders that were.
    pub(crate) fn lose(&self, loss: Loss<'_>) -> usize {
        // Default: a process that ended at its first call has noted nothing.
        let journal = fs::read_to_string(self.path("journal")).unwrap_or_default();
        let _ = fs::remove_file(self.path("journal"));
        let mut losing = Losing { journal: Journal::read(&journal), loss, lost: 0 };
        losing.lose_names(&self.root());
        losing.bring_back();
        losing.lost
    }
}

/// What a process did.
#[derive(Default)]
struct Journal {
    /// When a name was made last.
    made: HashMap<PathBuf, u64>,
    /// When a name was removed last or replaced, and where that is which it named.
    removed: HashMap<PathBuf, (u64, PathBuf)>,
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
                "C" => {}
                "E" => later(journal.made.entry(what.into()).or_default()),
                "U" => {
                    let (path, kept) = what.rsplit_once(' ').unwrap();
                    journal.removed.insert(path.into(), (at, kept.into()));
                }
                "D" => later(journal.folders.entry(what.into()).or_default()),
                "W" => later(journal.written.entry(what.parse().unwrap()).or_default()),
                "S" => later(journal.synced.entry(what.parse().unwrap()).or_default()),
                _ => panic!("{line}"),
            }
        }
        journal
    }

    /// Whether it is in the folder for good since that moment.
    fn is_synced(&self, path: &Path, since: u64) -> bool {
        self.folders.get(path.parent().unwrap()).is_some_and(|at| *at >= since)
    }

    fn has_synced_bytes(&self, inode: u64) -> bool {
        let Some(written) = self.written.get(&inode) else { return true };
        self.synced.get(&inode).is_some_and(|synced| synced >= written)
    }
}

struct Losing<'a> {
    journal: Journal,
    loss: Loss<'a>,
    lost: usize,
}

impl Losing<'_> {
    /// Whether that which may be lost is.
    fn is_lost(&mut self) -> bool {
        match &mut self.loss {
            Loss::Nothing => false,
            Loss::Most => true,
            Loss::Some(chance) => chance.random(),
        }
    }

    fn lose_names(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_dir = fs::symlink_metadata(&path).unwrap().is_dir();
            let is_synced =
                self.journal.made.get(&path).is_none_or(|made| self.journal.is_synced(&path, *made));
            match (is_synced || !self.is_lost(), is_dir) {
                (true, true) => self.lose_names(&path),
                (true, false) => self.lose_bytes(&path),
                (false, _) => {
                    self.lost += 1;
                    if is_dir { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.unwrap();
                    let replaced = self.journal.removed.get(&path).cloned();
                    if let Some((_, kept)) =
                        replaced.filter(|(at, _)| Some(at) > self.journal.made.get(&path))
                    {
                        fs::hard_link(kept, &path).unwrap();
                        self.lose_bytes(&path);
                    }
                }
            }
        }
    }

    fn lose_bytes(&mut self, path: &Path) {
        let meta = fs::metadata(path).unwrap();
        if self.journal.has_synced_bytes(meta.ino()) || !self.is_lost() {
            return;
        }
        self.lost += 1;
        let left = match &mut self.loss {
            Loss::Some(chance) => chance.random_range(0..=meta.len()),
            Loss::Most | Loss::Nothing => 0,
        };
        File::options().write(true).open(path).unwrap().set_len(left).unwrap();
    }

    /// Names come back whose removal was not synced, where they had been for good.
    fn bring_back(&mut self) {
        if !matches!(self.loss, Loss::Some(_)) {
            return;
        }
        let removed: Vec<_> = self.journal.removed.clone().into_iter().collect();
        for (path, (at, kept)) in removed {
            let journal = &self.journal;
            let was_synced =
                journal.made.get(&path).is_none_or(|made| *made < at && journal.is_synced(&path, *made));
            let may = was_synced && !journal.is_synced(&path, at) && path.parent().unwrap().exists();
            if may && !path.exists() && self.is_lost() {
                self.lost += 1;
                fs::hard_link(kept, &path).unwrap();
            }
        }
    }
}
