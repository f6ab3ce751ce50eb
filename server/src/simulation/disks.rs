//! Disks of simulated nodes, where the columns lie that they have encoded. Nothing is synced there: whatever a crash leaves of a
//! file, and whatever else becomes of it, the answers are the same.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use rand::{Rng as _, rngs::StdRng};
use tempfile::TempDir;

/// A folder for each node, which its processes find again.
pub(super) struct Disks(TempDir);

impl Disks {
    pub(super) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(super) fn of(&self, node: usize) -> PathBuf {
        self.0.path().join(format!("node{node}"))
    }

    /// Spoils some files of a node; how many there are, and how many of them are not what they were.
    pub(super) fn spoil(&self, node: usize, chance: &mut StdRng) -> (usize, usize) {
        let (mut all, mut spoilt) = (Vec::new(), 0);
        files(&self.of(node), &mut all);
        // A folder lists them in an order of its own.
        all.sort();
        for file in &all {
            if chance.random_range(0..3) == 0 {
                spoil(file, &all[chance.random_range(0..all.len())], chance);
                spoilt += 1;
            }
        }
        (all.len(), spoilt)
    }
}

/// The files below a folder, apart from the lock.
fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => files(&path, all),
            false if path.extension().is_some_and(|ending| ending == "lock") => {}
            false => all.push(path),
        }
    }
}

fn spoil(file: &Path, other: &Path, chance: &mut StdRng) {
    // Another one of them was exchanged with it and removed.
    let Ok(length) = fs::metadata(file).map(|about| about.len()) else { return };
    let at = chance.random_range(0..length.max(1));
    let open = || File::options().read(true).write(true).open(file).unwrap();
    match chance.random_range(0..6) {
        0 => fs::remove_file(file).unwrap(),
        1 => open().set_len(at).unwrap(),
        // A page that was not written.
        2 => open().write_all_at(&[0; 4096], at & !4095).unwrap(),
        3 => {
            let (file, mut byte) = (open(), [0]);
            if file.read_at(&mut byte, at).unwrap() == 1 {
                byte[0] ^= 1 << chance.random_range(0..8);
                file.write_all_at(&byte, at).unwrap();
            }
        }
        4 => drop(fs::rename(file, file.with_extension("0.tmp"))),
        // That of other rows.
        _ => drop(fs::rename(other, file)),
    }
}
