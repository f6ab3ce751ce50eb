//! The file of keys, as its owner lists what it has and takes a key out of it.

use std::{
    fs::{File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    thread,
};

use basalt_core::similar;

use super::{keys, quota::Allowance, roles::Role};
use crate::{Error, limits};

/// A key of a file: all but what it is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownKey {
    /// Whose it is.
    pub name: String,
    /// What its owner may do.
    pub role: Role,
    /// To which tables: patterns of their names.
    pub tables: Vec<String>,
    /// What it may use of one server.
    pub allowance: Allowance,
}

/// The keys of a file, in its order.
///
/// # Errors
/// A file that is not there, or no file of keys.
pub fn known_keys(path: &Path) -> Result<Vec<KnownKey>, Error> {
    keys::known(&read(path)?).map_err(|why| wrong(path, &why))
}

/// Takes a key out of a file. Servers that have the file open refuse it from then on.
///
/// # Errors
/// A name that no key has; the last key of the file, without which servers would go on as before; and a file that is no file
/// of keys, that another command changes all the time, or that cannot be written.
pub fn remove_key(path: &Path, name: &str) -> Result<(), Error> {
    let _held = hold(path)?;
    let text = read(path)?;
    let mut left = keys::known(&text).map_err(|why| wrong(path, &why))?;
    if !left.iter().any(|key| key.name == name) {
        let hint = similar::hint(name, left.iter().map(|key| key.name.as_str()));
        return Err(wrong(path, &format!("no key is called {name:?}{hint}")));
    }
    left.retain(|key| key.name != name);
    if left.is_empty() {
        let why = format!(
            "{name:?} is its only key: servers go on with those that they know where the file has none, so make another first"
        );
        return Err(wrong(path, &why));
    }
    match without(&text, name) {
        // Whatever the file looks like, no other key goes with this one.
        Some(rest) if keys::known(&rest).is_ok_and(|known| known == left) => replace(path, &rest),
        _ => Err(wrong(
            path,
            &format!(
                "the lines of the key {name:?} are not as `basalt key new` writes them: take them out by hand"
            ),
        )),
    }
}

/// Waits until no other command changes the keys of a folder, and keeps others from it for as long as what it gives is there: the
/// second of two that read a file at once would write it without the change of the first. It is the folder that is locked, which
/// stays where it is, while a file gives its place to the next; nothing is left behind in it.
pub(super) fn hold(path: &Path) -> Result<Option<File>, Error> {
    // A folder that cannot be read is told of by what follows.
    let Ok(folder) = File::open(folder_of(&real(path))) else { return Ok(None) };
    for _ in 0..limits::KEYS_FILE_ATTEMPTS {
        match folder.try_lock() {
            Ok(()) => return Ok(Some(folder)),
            Err(TryLockError::WouldBlock) => thread::sleep(limits::KEYS_FILE_PAUSE),
            // Some file systems have no locks, and keys all the same.
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
    Err(wrong(path, "other commands change the keys of its folder all the time; try again"))
}

fn wrong(path: &Path, why: &str) -> Error {
    Error::Config(format!("{}: {why}", path.display()))
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|error| wrong(path, &error.to_string()))
}

/// The text of a file of keys without the block of one, with all other lines; `None` where no block is its.
fn without(text: &str, name: &str) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let heads = lines.iter().enumerate().filter(|(_, line)| line.trim_start().starts_with("[["));
    let heads: Vec<usize> = heads.map(|(place, _)| place).collect();
    for (i, start) in heads.iter().copied().enumerate() {
        // Default: the last block ends with the file.
        let end = heads.get(i + 1).copied().unwrap_or(lines.len());
        let block = keys::known(&lines[start..end].concat());
        if !block.is_ok_and(|keys| keys.iter().any(|key| key.name == name)) {
            continue;
        }
        // Comments behind it are about the next one.
        let says = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with('#');
        let last = lines[start..end].iter().rposition(says)?;
        let mut behind = start + last + 1;
        if lines.get(behind).is_some_and(|line| line.trim().is_empty()) {
            behind += 1;
        }
        return Some([&lines[..start], &lines[behind..]].concat().concat());
    }
    None
}

/// Of a link the file that is written, which others may have by another name.
fn real(path: &Path) -> PathBuf {
    // Default: it is not there yet.
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    // Default: a name alone is one in the folder where the program runs.
    folder.unwrap_or(Path::new("."))
}

/// Writes a file anew. Whoever reads it meanwhile has the file before or the file behind.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), Error> {
    let path = &real(path);
    let mut file = tempfile::Builder::new().prefix(".keys").tempfile_in(folder_of(path))?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    if let Ok(there) = std::fs::metadata(path) {
        keep_owner(file.as_file(), &there)?;
        file.as_file().set_permissions(there.permissions())?;
    }
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Gives a file the owner of the one whose place it takes: root may change what another user's server reads.
#[cfg(unix)]
fn keep_owner(file: &std::fs::File, there: &std::fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, fchown};

    let own = file.metadata()?;
    match (own.uid(), own.gid()) == (there.uid(), there.gid()) {
        true => Ok(()),
        false => fchown(file, Some(there.uid()), Some(there.gid())),
    }
}

#[cfg(not(unix))]
fn keep_owner(_: &std::fs::File, _: &std::fs::Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::issue::Issued;

    #[test]
    fn a_key_is_taken_out_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        let tables = ["a".to_owned(), "b*".to_owned()];
        let allowance = Allowance { requests: Some(3), ..Allowance::default() };
        for name in ["one", "two", "three"] {
            Issued::new(name, Role::Writer, &tables, allowance).unwrap().add_to(&path).unwrap();
        }
        let known = known_keys(&path).unwrap();
        assert_eq!(known.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["one", "two", "three"]);
        assert_eq!(
            (known[1].role, &known[1].tables[..], known[1].allowance),
            (Role::Writer, &tables[..], allowance)
        );
        // As somebody goes on with it by hand.
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace("[[key]]\nname = \"two\"", "# of the second\n[[key]]\nname = \"two\"");
        let text = text.replace("[[key]]\nname = \"three\"", "# of the third\n[[key]]\nname = \"three\"");
        std::fs::write(&path, &text).unwrap();
        remove_key(&path, "two").unwrap();
        let rest = std::fs::read_to_string(&path).unwrap();
        let start = text.find("[[key]]\nname = \"two\"").unwrap();
        let end = text.find("# of the third").unwrap();
        assert_eq!(rest, format!("{}{}", &text[..start], &text[end..]));
        let told = remove_key(&path, "thre").unwrap_err().to_string();
        assert!(told.contains("no key is called \"thre\"") && told.contains("three"), "{told}");
        remove_key(&path, "three").unwrap();
        assert!(remove_key(&path, "one").unwrap_err().to_string().contains("its only key"));
        assert_eq!(known_keys(&path).unwrap().len(), 1);
        assert!(
            known_keys(&folder.path().join("none")).unwrap_err().to_string().contains("none: No such file")
        );
    }

    #[test]
    fn one_command_at_a_time_changes_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        let all = ["*".to_owned()];
        let new = |name: &str| Issued::new(name, Role::Reader, &all, Allowance::default()).unwrap();
        let added = |issued: Issued| {
            let path = path.clone();
            thread::spawn(move || issued.add_to(&path).unwrap())
        };
        let held = hold(&path).unwrap().unwrap();
        let first = added(new("first"));
        thread::sleep(2 * limits::KEYS_FILE_PAUSE);
        assert!(!path.exists(), "another command is at it");
        drop(held);
        first.join().unwrap();
        let several: Vec<_> = (0..8).map(|i| new(&i.to_string())).collect();
        let several: Vec<_> = several.into_iter().map(added).collect();
        several.into_iter().for_each(|added| added.join().unwrap());
        assert_eq!(known_keys(&path).unwrap().len(), 9);
        // By whatever name the file has.
        let link = folder.path().join("link.toml");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let held = hold(&link).unwrap();
        let path = path.clone();
        let removed = thread::spawn(move || remove_key(&path, "first").unwrap());
        thread::sleep(2 * limits::KEYS_FILE_PAUSE);
        assert_eq!(known_keys(&link).unwrap().len(), 9);
        drop(held);
        removed.join().unwrap();
        assert_eq!(known_keys(&link).unwrap().len(), 8);
    }
}
