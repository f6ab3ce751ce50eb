//! The actions of a log, as PROTOCOL.md of Delta Lake has them; what is not known is passed over, as it says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Result, StorageError};

pub(crate) type StringMap = BTreeMap<String, Option<String>>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Protocol {
    pub(crate) min_reader_version: i32,
    pub(crate) min_writer_version: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reader_features: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) writer_features: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    pub(crate) id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    pub(crate) format: Format,
    /// Metadata that is in force has one; what was superseded may have been without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) schema_string: Option<String>,
    pub(crate) partition_columns: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created_time: Option<i64>,
    #[serde(default)]
    pub(crate) configuration: StringMap,
}

impl Metadata {
    pub(crate) fn property(&self, name: &str) -> Option<&str> {
        self.configuration.get(name)?.as_deref()
    }

    /// Whether another one reads files as this one does.
    pub(super) fn has_same_columns(&self, other: &Self) -> bool {
        const MAPPING: &str = "delta.columnMapping.mode";
        self.schema_string == other.schema_string
            && self.format == other.format
            && self.property(MAPPING) == other.property(MAPPING)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Format {
    pub(crate) provider: String,
    #[serde(default)]
    pub(crate) options: StringMap,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Add {
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) partition_values: StringMap,
    pub(crate) size: u64,
    pub(crate) modification_time: i64,
    pub(crate) data_change: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stats: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tags: Option<StringMap>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deletion_vector: Option<Descriptor>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remove {
    pub(crate) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deletion_timestamp: Option<i64>,
    pub(crate) data_change: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extended_file_metadata: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) partition_values: Option<StringMap>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deletion_vector: Option<Descriptor>,
}

/// Where a deletion vector is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) storage_type: String,
    pub(crate) path_or_inline_dv: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) offset: Option<u32>,
    pub(crate) size_in_bytes: u32,
    pub(crate) cardinality: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Txn {
    pub(crate) app_id: String,
    pub(crate) version: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_updated: Option<i64>,
}

/// Who made a commit, and why. Nothing of the table depends on it; `txn_id` makes the bytes of a commit differ from those
/// of all others, so that a writer knows its own.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommitInfo {
    pub(crate) timestamp: i64,
    pub(crate) operation: &'static str,
    pub(crate) operation_parameters: BTreeMap<&'static str, String>,
    pub(crate) engine_info: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) read_version: Option<u64>,
    pub(crate) txn_id: String,
}

/// What a commit of Basalt's says of the bytes behind its first line, which is its `commitInfo`: so that a file that
/// was cut, or has changed, is no commit of fewer actions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Seal {
    /// The version that this is: a file that stands in another one's place is not that version.
    version: u64,
    bytes: u64,
    crc32: u32,
}

impl Seal {
    fn of(version: u64, rest: &[u8]) -> Self {
        Self { version, bytes: rest.len() as u64, crc32: crc32fast::hash(rest) }
    }
}

/// The first line of a commit of Basalt's.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FirstLine<'a> {
    commit_info: Sealed<'a>,
}

#[derive(Serialize)]
struct Sealed<'a> {
    #[serde(flatten)]
    info: &'a CommitInfo,
    basalt: Seal,
}

/// An action that changes the state.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Action {
    CommitInfo(CommitInfo),
    Protocol(Protocol),
    MetaData(Metadata),
    Txn(Txn),
    Add(Add),
    Remove(Remove),
}

/// What a checkpoint of the V2 kind says of itself.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct CheckpointMetadata {
    pub(crate) version: u64,
}

/// A file that has the data files of a checkpoint in its place.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sidecar {
    pub(crate) path: String,
    pub(crate) size_in_bytes: u64,
}

/// Actions of a checkpoint: those that make the state, and what it says of itself.
#[derive(Debug, Default)]
pub(crate) struct CheckpointActions {
    pub(crate) actions: Vec<Action>,
    pub(crate) metadata: Vec<CheckpointMetadata>,
    pub(crate) sidecars: Vec<Sidecar>,
}

/// A line of a commit, or of a checkpoint: one action, of those that are known.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    commit_info: Option<serde_json::Value>,
    protocol: Option<Protocol>,
    meta_data: Option<Metadata>,
    txn: Option<Txn>,
    add: Option<Add>,
    remove: Option<Remove>,
    checkpoint_metadata: Option<CheckpointMetadata>,
    sidecar: Option<Sidecar>,
}

impl Line {
    /// What changes the state.
    fn push_to(self, actions: &mut Vec<Action>) {
        actions.extend(self.protocol.map(Action::Protocol));
        actions.extend(self.meta_data.map(Action::MetaData));
        actions.extend(self.txn.map(Action::Txn));
        actions.extend(self.add.map(Action::Add));
        actions.extend(self.remove.map(Action::Remove));
    }
}

impl CheckpointActions {
    pub(crate) fn push(&mut self, mut line: Line) {
        self.metadata.extend(line.checkpoint_metadata.take());
        self.sidecars.extend(line.sidecar.take());
        line.push_to(&mut self.actions);
    }
}

/// The lines of a file that are not empty, and where each stands.
fn lines<'a>(path: &'a str, bytes: &'a [u8]) -> impl Iterator<Item = (usize, Result<Line>)> {
    let lines = bytes.split(|b| *b == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty());
    lines.map(move |(i, line)| {
        let line = serde_json::from_slice(line);
        (i, line.map_err(|e| StorageError::corrupt(path, format!("line {} is no action: {e}", i + 1))))
    })
}

/// Reads a checkpoint in JSON, line by line.
pub(crate) fn checkpoint_lines<'a>(path: &'a str, bytes: &'a [u8]) -> impl Iterator<Item = Result<Line>> {
    lines(path, bytes).map(|(_, line)| line)
}

/// Reads a commit: JSON objects, one a line, at least one. That of a commit of Basalt's is whole, as its first line says;
/// of other writers' nothing tells.
pub(crate) fn parse(path: &str, version: u64, bytes: &[u8]) -> Result<Vec<Action>> {
    let (mut actions, mut is_empty) = (Vec::new(), true);
    for (i, line) in lines(path, bytes) {
        let line = line?;
        is_empty = false;
        if i == 0 {
            check_seal(path, version, line.commit_info.as_ref(), bytes)?;
        }
        // What a checkpoint alone may say has no meaning here, as the protocol has it.
        line.push_to(&mut actions);
    }
    if is_empty {
        return Err(StorageError::corrupt(
            path,
            "the file is empty; an entry of the log has at least one action",
        ));
    }
    Ok(actions)
}

/// When a commit was made, in milliseconds since 1970, and what it did, as its `commitInfo` says; not every writer says it.
pub(super) fn said(bytes: &[u8]) -> (Option<i64>, Option<String>) {
    let info = |line: &[u8]| serde_json::from_slice::<Line>(line).ok()?.commit_info;
    let Some(info) = bytes.split(|b| *b == b'\n').find_map(info) else { return (None, None) };
    let operation = info.get("operation").and_then(serde_json::Value::as_str);
    (info.get("timestamp").and_then(serde_json::Value::as_i64), operation.map(str::to_owned))
}

fn check_seal(path: &str, version: u64, info: Option<&serde_json::Value>, bytes: &[u8]) -> Result<()> {
    let Some(seal) = info.and_then(|info| info.get("basalt")) else { return Ok(()) };
    let seal = Seal::deserialize(seal)
        .map_err(|e| StorageError::corrupt(path, format!("its first line does not say what follows: {e}")))?;
    if seal.version != version {
        let why = format!("it is version {} of a log, and stands in the place of another", seal.version);
        return Err(StorageError::corrupt(path, why));
    }
    let rest = bytes.iter().position(|b| *b == b'\n').and_then(|end| bytes.get(end + 1..));
    let found = rest.map(|rest| Seal::of(version, rest));
    if found.as_ref() == Some(&seal) {
        return Ok(());
    }
    // Default: nothing stands behind a first line that ends the file.
    let found = found.map_or(0, |found| found.bytes);
    let why = match found == seal.bytes {
        true if rest.is_some() => {
            "the bytes behind its first line are not those that were written".to_owned()
        }
        _ => format!("it was cut: {found} bytes stand behind its first line, {} were written", seal.bytes),
    };
    Err(StorageError::corrupt(path, why))
}

/// Writes a commit; its first action is the `commitInfo`.
pub(crate) fn serialize(version: u64, actions: &[Action]) -> Result<Vec<u8>> {
    let failed = |e: serde_json::Error| StorageError::corrupt("a commit", e);
    let Some((Action::CommitInfo(info), others)) = actions.split_first() else {
        return Err(StorageError::corrupt("a commit", "it does not begin with its commitInfo"));
    };
    let mut rest = Vec::new();
    for action in others {
        serde_json::to_writer(&mut rest, action).map_err(failed)?;
        rest.push(b'\n');
    }
    let first = FirstLine { commit_info: Sealed { info, basalt: Seal::of(version, &rest) } };
    let mut bytes = serde_json::to_vec(&first).map_err(failed)?;
    bytes.push(b'\n');
    bytes.append(&mut rest);
    Ok(bytes)
}
