//! Where the files are that a log names. A log may name any place: what is not below the table's folder is refused.

use percent_encoding::percent_decode_str;

use crate::{
    error::{Result, StorageError},
    log::{DataFile, FOLDER, names},
    store::Store,
};

/// Schemes of addresses that are all of S3.
const S3: &[&str] = &["s3", "s3a", "s3n"];

/// Where a data file is below the table. The log has it as a URI, so percent-encoded.
pub(crate) fn data_file(store: &Store, file: &DataFile) -> Result<String> {
    const WHAT: &str = "data file";
    let path = percent_decode_str(file.path()).decode_utf8();
    let path = path.map_err(|e| refused(store, WHAT, file.path(), &e.to_string()))?;
    if path.starts_with('/') || path.split('/').next().is_some_and(|first| first.ends_with(':')) {
        return Err(StorageError::Unsupported {
            feature: format!("data files outside of the table ({path})"),
        });
    }
    below(store, WHAT, path.into_owned())
}

/// Where a sidecar of a checkpoint is: a file of the one folder that has them all, so that the log has its name alone.
pub(crate) fn sidecar(store: &Store, path: &str) -> Result<String> {
    const WHAT: &str = "sidecar";
    let name = percent_decode_str(path).decode_utf8();
    let name = name.map_err(|e| refused(store, WHAT, path, &e.to_string()))?;
    if name.contains(['/', '\\']) {
        return Err(refused(store, WHAT, path, "that is no name of a file in the folder of sidecars"));
    }
    below(store, WHAT, names::sidecar(&name))
}

/// A place below the table that the log names; `what` is there, in words.
pub(crate) fn below(store: &Store, what: &str, path: String) -> Result<String> {
    match store.has_place(&path) {
        true => Ok(path),
        false => Err(refused(store, what, &path, "that is no place below the table")),
    }
}

fn refused(store: &Store, what: &str, path: &str, why: &str) -> StorageError {
    let log = format!("{}/{FOLDER}", store.url());
    StorageError::corrupt(log, format!("it names the {what} {path:?}: {why}"))
}

/// Where a file is below the table that the log names by an absolute URI; `None`: it is elsewhere, as far as names tell.
pub(crate) fn absolute(store: &Store, uri: &str) -> Option<String> {
    let path = percent_decode_str(uri).decode_utf8().ok()?;
    let rest = match store.local() {
        Some(folder) => path_of_file(&path)?.strip_prefix(folder.to_str()?)?,
        None => object_of(&path)?.strip_prefix(object_of(store.url())?)?,
    };
    let rest = rest.strip_prefix('/')?;
    store.has_place(rest).then(|| rest.to_owned())
}

/// The path of a `file:` URI, which may have an authority that is this machine, or be a path alone.
fn path_of_file(uri: &str) -> Option<&str> {
    let Some(rest) = uri.strip_prefix("file:") else { return uri.starts_with('/').then_some(uri) };
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => rest,
    };
    path.starts_with('/').then_some(path)
}

/// The bucket and the key of an address of S3.
fn object_of(uri: &str) -> Option<&str> {
    uri.split_once("://").filter(|(scheme, _)| S3.contains(scheme)).map(|(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_places_are_read_below_the_table_alone() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().canonicalize().unwrap().join("a table");
        let store = Store::open(table.to_str().unwrap()).unwrap();
        let at = table.display().to_string().replace(' ', "%20");
        for uri in ["file:", "file://", "file://localhost", ""] {
            let found = absolute(&store, &format!("{uri}{at}/x%2525/v.bin"));
            assert_eq!(found.as_deref(), Some("x%25/v.bin"), "{uri}");
        }
        for uri in [
            format!("{at}/../v.bin"),
            format!("{at}/x/%2e%2e/%2e%2e/v.bin"),
            format!("{at}//v.bin"),
            format!("{at}/./v.bin"),
            format!("{at}x/v.bin"),
            format!("{at}/%ff"),
            format!("file://elsewhere{at}/v.bin"),
            format!("s3:/{at}/v.bin"),
            format!("file:{}", &at[1..]),
            at,
            "file:/etc/passwd".into(),
            "v.bin".into(),
            String::new(),
        ] {
            assert_eq!(absolute(&store, &uri), None, "{uri}");
        }
        assert_eq!(object_of("s3a://bucket/t/v.bin"), Some("bucket/t/v.bin"));
        assert_eq!(object_of("file:///bucket/t/v.bin"), None);
    }
}
