//! The vectors in `testdata/`: sets and their bytes under each tag, and bytes that are no SIP, each with the error
//! that FORMAT.md has for it. The naive writer makes them, not the crate.
//!
//! `UPDATE_VECTORS=1 cargo test -p basalt-sip vectors` writes them again.

mod changes;
mod invalid;
mod valid;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
};

use basalt_sip::{Limits, Sip};
use serde::{Deserialize, Serialize};

use crate::{hostile, naive};

/// What `testdata/index.json` holds. Ids are strings: JSON numbers end at 2^53.
#[derive(Debug, Deserialize, Serialize)]
struct Index {
    valid: Vec<Valid>,
    invalid: Vec<Invalid>,
}

/// Bytes of a set.
#[derive(Debug, Deserialize, Serialize)]
struct Valid {
    name: String,
    file: String,
    tag: u8,
    cardinality: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    /// Of the ids, 8 bytes each, the least significant first.
    sha256: String,
    /// The first and the last id of each range, where there are few.
    #[serde(skip_serializing_if = "Option::is_none")]
    ranges: Option<Vec<[String; 2]>>,
}

/// Bytes that a reader with the default limits rejects.
#[derive(Debug, Deserialize, Serialize)]
struct Invalid {
    name: String,
    file: String,
    error: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// Every file of the vectors: its path in `testdata/` and its bytes.
fn generate() -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut index = Index { valid: Vec::new(), invalid: Vec::new() };
    for (vector, bytes) in valid::all() {
        assert!(files.insert(vector.file.clone(), bytes).is_none(), "{} twice", vector.file);
        index.valid.push(vector);
    }
    for (vector, bytes) in invalid::all() {
        assert!(files.insert(vector.file.clone(), bytes).is_none(), "{} twice", vector.file);
        index.invalid.push(vector);
    }
    let mut json = serde_json::to_string_pretty(&index).unwrap();
    json.push('\n');
    files.insert("index.json".to_owned(), json.into_bytes());
    files
}

fn read_index() -> Index {
    serde_json::from_slice(&fs::read(folder().join("index.json")).unwrap()).unwrap()
}

fn read(file: &str) -> Vec<u8> {
    fs::read(folder().join(file)).unwrap()
}

#[test]
fn vectors_are_what_the_naive_writer_makes() {
    let files = generate();
    if env::var_os("UPDATE_VECTORS").is_some() {
        for sub in ["valid", "invalid"] {
            let _ = fs::remove_dir_all(folder().join(sub));
            fs::create_dir_all(folder().join(sub)).unwrap();
        }
        files.iter().for_each(|(file, bytes)| fs::write(folder().join(file), bytes).unwrap());
    }
    for (file, bytes) in &files {
        assert!(read(file) == *bytes, "{file} has changed");
    }
    let found = ["valid", "invalid"].into_iter().flat_map(|sub| {
        let names = fs::read_dir(folder().join(sub)).unwrap();
        names.map(move |entry| format!("{sub}/{}", entry.unwrap().file_name().to_string_lossy()))
    });
    let found: BTreeSet<String> = found.chain(["index.json".to_owned()]).collect();
    assert_eq!(found, files.keys().cloned().collect());
}

#[test]
fn valid_vectors_are_read() {
    let vectors = read_index().valid;
    assert!(vectors.len() >= 60, "{} vectors", vectors.len());
    for vector in vectors {
        let bytes = read(&vector.file);
        let sip = Sip::from_bytes(bytes.as_slice(), &Limits::default())
            .unwrap_or_else(|error| panic!("{}: {error}", vector.name));
        assert_eq!(sip.tag() as u8, vector.tag, "{}", vector.name);
        assert_eq!(sip.cardinality(), vector.cardinality, "{}", vector.name);
        let ids: Vec<u64> = sip.iter().collect();
        assert_eq!(valid::sha256(&ids), vector.sha256, "{}", vector.name);
        assert!(naive::write(vector.tag, &ids) == bytes, "{}", vector.name);
    }
}

#[test]
fn invalid_vectors_are_rejected_for_the_right_reason() {
    let vectors = read_index().invalid;
    assert!(vectors.len() >= 300, "{} vectors", vectors.len());
    let wrong =
        vectors.iter().filter_map(|vector| match Sip::from_bytes(read(&vector.file), &Limits::default()) {
            Ok(sip) => Some(format!("{} is read as {sip:?}", vector.name)),
            Err(error) if hostile::name(&error) == vector.error => None,
            Err(error) => Some(format!("{}: {error}, not {}", vector.name, vector.error)),
        });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}

/// FORMAT.md lists the errors that the vectors show, and no others.
#[test]
fn every_error_has_vectors() {
    let text = include_str!("../../../FORMAT.md");
    let table = text.split("\n## Errors\n").nth(1).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let names = rows.flat_map(|names| names.split(", ")).filter(|name| *name != "error");
    let listed: BTreeSet<&str> = names.collect();
    let vectors = read_index().invalid;
    assert_eq!(listed, vectors.iter().map(|vector| vector.error.as_str()).collect());
}
