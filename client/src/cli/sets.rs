//! Sets on the command line: files of them, handles, and filters made of either.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::Path,
};

use clap::Args;

use super::CliError;
use crate::{
    expr::{Filter, col},
    set::{Handle, Ids, Set},
    sip::Limits,
    types::type_name,
};

/// Bytes of a file beside its set, at most: the frame and the scope.
const SCOPE_BYTES: u64 = 64 << 10;

/// Sets that are filters, beside WHERE.
#[derive(Args, Clone, Debug, Default)]
pub struct SetArgs {
    /// Only the rows of this set: a file that `basalt select` wrote, or the handle of a kept set
    #[arg(long, value_name = "SET")]
    pub rows: Vec<String>,

    /// Only rows whose COLUMN has a value of this set: a file, or a handle
    #[arg(long, value_name = "COLUMN=SET")]
    pub keys: Vec<String>,
}

/// A set that an argument names.
enum Named {
    File(Box<Set<Ids>>),
    Kept(Handle),
}

impl SetArgs {
    /// The filters, which must all be true.
    pub(crate) fn filters(&self) -> Result<Vec<Filter>, CliError> {
        let rows = self.rows.iter().map(|name| rows_filter(name));
        rows.chain(self.keys.iter().map(|argument| keys_filter(argument))).collect()
    }
}

fn rows_filter(name: &str) -> Result<Filter, CliError> {
    match named(name)? {
        Named::Kept(handle) => Ok(handle.rows()),
        Named::File(set) if set.of == Ids::Rows => Ok(set.into_rows()?.filter()),
        Named::File(set) => Err(CliError::input(format!(
            "{name} holds {}: `--keys COLUMN={name}` filters by them",
            scope_text(&set)
        ))),
    }
}

fn keys_filter(argument: &str) -> Result<Filter, CliError> {
    let missing = || CliError::input(format!("--keys {argument}: it takes COLUMN=SET"));
    let (column, name) = argument.split_once('=').ok_or_else(missing)?;
    match named(name)? {
        Named::Kept(handle) => Ok(col(column).in_keys(handle)),
        Named::File(set) if set.of == Ids::Rows => Err(CliError::input(format!(
            "{name} holds {}: `--rows {name}` filters by them",
            scope_text(&set)
        ))),
        Named::File(set) => Ok(set.into_keys()?.filter(column)),
    }
}

/// A file, or where there is none the set of a handle.
fn named(name: &str) -> Result<Named, CliError> {
    let path = Path::new(name);
    match name.parse() {
        Ok(handle) if !path.exists() => Ok(Named::Kept(handle)),
        _ => Ok(Named::File(Box::new(read(path)?))),
    }
}

/// The set of a file.
pub(crate) fn read(path: &Path) -> Result<Set<Ids>, CliError> {
    let shown = path.display().to_string();
    let most = Limits::default().body_bytes as u64 + SCOPE_BYTES;
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    let read = read.map_err(|source| CliError::File { path: shown.clone(), source })?;
    if read as u64 > most {
        return Err(CliError::input(format!("{shown}: no set takes more than {most} bytes")));
    }
    Set::from_file(&bytes).map_err(|error| CliError::input(format!("{shown}: {error}")))
}

/// Writes a file, whole or not at all; behind a link, the file that it leads to. A pipe or a device is written to.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let failed = |source| CliError::File { path: path.display().to_string(), source };
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return fs::write(path, bytes).map_err(failed);
    }
    // One that is not there yet has no other name.
    let target = fs::canonicalize(path).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(path.to_owned()),
        _ => Err(error),
    });
    let path = &target.map_err(failed)?;
    let unfinished = path.with_added_extension(format!("{}.tmp", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&unfinished).map_err(failed)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.and_then(|()| fs::rename(&unfinished, path)).map_err(|source| {
        let _ = fs::remove_file(&unfinished);
        failed(source)
    })
}

/// What the ids are: `rows of flights, version 3`, `values of planes.year (int16), version 1`.
pub(crate) fn scope_text(set: &Set<Ids>) -> String {
    let Set { table, version, of, .. } = set;
    match of {
        Ids::Rows => format!("rows of {table}, version {version}"),
        Ids::Keys(keys) => {
            let (data_type, null) =
                (type_name(&keys.data_type), if keys.has_null { " and null" } else { "" });
            format!("values{null} of {table}.{} ({data_type}), version {version}", keys.column)
        }
    }
}

/// Bits that each id takes.
pub(crate) fn bits_per_id(bytes: u64, ids: u64) -> String {
    if ids == 0 { "-".to_owned() } else { format!("{:.3}", bytes as f64 * 8.0 / ids as f64) }
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::*;
    use crate::{set::Keys, sip::Sip};

    #[test]
    fn files_are_filters() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let sip = Sip::from_sorted_ids(&[5, 8]);
        let rows = Set::new("flights", 3, Ids::Rows, &sip);
        let keys = Keys { column: "year".to_owned(), data_type: DataType::Int16, has_null: true };
        let keys = Set::new("planes", 1, Ids::Keys(keys), &sip);
        write(&path("rows.sip"), &rows.to_file().unwrap()).unwrap();
        // Over a file that is there.
        write(&path("rows.sip"), &rows.to_file().unwrap()).unwrap();
        write(&path("keys.sip"), &keys.to_file().unwrap()).unwrap();
        fs::write(path("cut.sip"), &keys.to_file().unwrap()[..4]).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);

        let name = |name: &str| path(name).display().to_string();
        let args = SetArgs { rows: vec![name("rows.sip")], keys: vec![format!("y={}", name("keys.sip"))] };
        let expected = vec![rows.into_rows().unwrap().filter(), col("y").in_keys(&keys.into_keys().unwrap())];
        assert_eq!(args.filters().unwrap(), expected);

        let handle = "5a".repeat(32);
        let args = SetArgs { rows: vec![handle.clone()], keys: vec![format!("y={handle}")] };
        let handle: Handle = handle.parse().unwrap();
        assert_eq!(args.filters().unwrap(), [handle.rows(), col("y").in_keys(handle)]);

        let error = |rows: &[&str], keys: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
            let args = SetArgs { rows: owned(rows), keys: owned(keys) };
            args.filters().unwrap_err().report()
        };
        let (rows, keys) = (name("rows.sip"), name("keys.sip"));
        assert_eq!(
            error(&[&keys], &[]),
            format!(
                "{keys} holds values and null of planes.year (int16), version 1: `--keys COLUMN={keys}` filters by them"
            )
        );
        assert_eq!(
            error(&[], &[&format!("y={rows}")]),
            format!("{rows} holds rows of flights, version 3: `--rows {rows}` filters by them")
        );
        assert_eq!(error(&[], &[&rows]), format!("--keys {rows}: it takes COLUMN=SET"));
        let cut = name("cut.sip");
        assert_eq!(
            error(&[&cut], &[]),
            format!("{cut}: the SIP ends too early: 4 bytes are needed from byte 1 on")
        );
        assert!(error(&["no.sip"], &[]).starts_with("no.sip: "));
    }

    #[cfg(unix)]
    #[test]
    fn links_and_devices_stay_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("rows.sip"), folder.path().join("link.sip"));
        fs::write(&file, "before").unwrap();
        for target in [file.as_path(), Path::new("/dev/null")] {
            std::os::unix::fs::symlink(target, &link).unwrap();
            write(&link, b"after").unwrap();
            assert_eq!(fs::read_link(&link).unwrap(), target);
            fs::remove_file(&link).unwrap();
        }
        assert_eq!(fs::read(&file).unwrap(), b"after");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_without_end_is_not_read_to_its_end() {
        let report = read(Path::new("/dev/zero")).unwrap_err().report();
        assert!(report.starts_with("/dev/zero: no set takes more than "), "{report}");
    }
}
