//! What a writer wants of a table, and the actions that say it.

use std::collections::{BTreeMap, BTreeSet};

use basalt_sip::Sip;
use uuid::Uuid;

use super::{
    actions::{Action, Add, CommitInfo, Descriptor, Remove, Txn},
    file::{DataFile, FIRST_FOREIGN_FRAGMENT, FragmentEntry, TAG_ENCODED, TAG_FRAGMENT},
    protocol,
    state::{CLOSED, NEXT_FRAGMENT, Request, TableState},
};
use crate::{
    alter::{self, Alteration},
    data::{NewFile, digest, wide_stats},
    deletions::Vectors,
    error::{Result, StorageError},
};

/// What a change is, for those who read the table's history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    /// Rows come in.
    #[default]
    Write,
    /// Rows go out.
    Delete,
    /// Rows go out, and others with the same keys come in.
    Replace,
    /// Rows go out, and others come in their place.
    Update,
    /// The same rows in other files.
    Compact,
    /// The table's properties.
    SetProperties,
    /// The table's columns.
    Alter,
    /// Whether it is closed.
    Close,
}

impl Operation {
    /// By the name that Delta's own writers use.
    fn name(self) -> &'static str {
        match self {
            Self::Write => "WRITE",
            Self::Delete => "DELETE",
            Self::Replace => "MERGE",
            Self::Update => "UPDATE",
            Self::Compact => "OPTIMIZE",
            Self::SetProperties => "SET TBLPROPERTIES",
            Self::Alter => "CHANGE COLUMN",
            Self::Close => "CLOSE",
        }
    }
}

/// One commit's worth of change, to be made whole or not at all.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// What it is.
    pub operation: Operation,
    /// Files that are written and become fragments, in this order.
    pub add: Vec<NewFile>,
    /// Fragments that go.
    pub remove: Vec<u32>,
    /// Fragments that lose rows: the offsets of all their deleted rows, earlier ones included.
    pub deletions: Vec<(u32, Sip)>,
    /// The writes that it makes part of the table.
    pub requests: Vec<Request>,
    /// Properties to set, or to remove.
    pub properties: Vec<(String, Option<String>)>,
    /// Changes of the columns.
    pub alterations: Vec<Alteration>,
    /// Closes the table, which another is about to take the place of, or opens it again: writers that find it closed do not
    /// commit before they know what has come of it. To other writers of Delta it says nothing.
    pub closed: Option<bool>,
}

/// A change on its way.
pub(super) struct Planned {
    pub(super) actions: Vec<Action>,
    /// The id of the first fragment that is added; the others follow it.
    pub(super) first_id: u32,
    /// The file of deletion vectors, to be written first.
    pub(super) vectors: Option<(String, Vec<u8>)>,
}

/// The deleted rows of files, by their paths.
pub(super) type Deletions = BTreeMap<String, Sip>;

/// The files of several fragments that a change deletes rows of, and that stay: what was deleted of them before is asked for.
pub(super) fn parted_files<'a>(base: &'a TableState, change: &Change) -> Vec<&'a DataFile> {
    let is_part = |entry: &&FragmentEntry| !entry.is_whole_file();
    let part = |id: &u32| base.fragment(*id).filter(is_part);
    // Rows of each that do not go with a whole part.
    let mut left: BTreeMap<&str, (&DataFile, u64)> = BTreeMap::new();
    let mut take = |entry: &'a FragmentEntry, rows: u32| {
        let (_, left) = left.entry(entry.file.path()).or_insert((&*entry.file, entry.file.rows));
        *left = left.saturating_sub(u64::from(rows));
    };
    change.remove.iter().filter_map(part).for_each(|entry| take(entry, entry.rows));
    change.deletions.iter().filter_map(|(id, _)| part(id)).for_each(|entry| take(entry, 0));
    left.into_values().filter(|(_, left)| *left > 0).map(|(file, _)| file).collect()
}

/// The actions that make the version behind `base`; `before` has what was deleted of [`parted_files`].
pub(super) fn plan(
    base: &TableState,
    change: &Change,
    before: &Deletions,
    now: i64,
    mut new_id: impl FnMut() -> Uuid,
) -> Result<Planned> {
    protocol::check_writable(&base.protocol, &base.metadata, base.schema.has_invariants)?;
    if base.schema.nested.iter().any(Option::is_some) {
        return Err(StorageError::Unsupported { feature: "writes to tables with nested columns".to_owned() });
    }
    let version = base.version + 1;
    let info = CommitInfo {
        timestamp: now,
        operation: change.operation.name(),
        operation_parameters: BTreeMap::new(),
        engine_info: concat!("basalt/", env!("CARGO_PKG_VERSION")),
        read_version: Some(base.version),
        txn_id: new_id().to_string(),
    };
    let mut actions = vec![Action::CommitInfo(info)];

    let mut metadata = None;
    if !change.properties.is_empty() {
        let mut changed = (*base.metadata).clone();
        for (name, value) in &change.properties {
            match value {
                Some(_) => changed.configuration.insert(name.clone(), value.clone()),
                None => changed.configuration.remove(name),
            };
        }
        metadata = Some(changed);
    }
    if !change.alterations.is_empty() {
        let of = metadata.as_ref().unwrap_or(&base.metadata);
        let (protocol, altered) = alter::altered(&base.protocol, of, &change.alterations, &mut new_id)?;
        actions.extend(protocol.map(Action::Protocol));
        metadata = Some(altered);
    }
    if !change.deletions.is_empty()
        && let Some((protocol, allowing)) =
            protocol::with_deletion_vectors(&base.protocol, metadata.as_ref().unwrap_or(&base.metadata))
    {
        actions.push(Action::Protocol(protocol));
        metadata = Some(allowing);
    }
    actions.extend(metadata.map(Action::MetaData));
    actions.extend(change.requests.iter().map(|request| Action::Txn(request.to_txn(version, now))));

    if let Some(closed) = change.closed {
        // Default: no log has so many versions.
        let version = if closed { i64::try_from(version).unwrap_or(i64::MAX) } else { -1 };
        actions.push(Action::Txn(Txn { app_id: CLOSED.into(), version, last_updated: Some(now) }));
    }

    let first_id = base.next_fragment();
    let next = u32::try_from(change.add.len()).ok().and_then(|n| first_id.checked_add(n));
    let next = next.filter(|next| *next <= FIRST_FOREIGN_FRAGMENT).ok_or_else(|| StorageError::Limit {
        path: base.id().to_owned(),
        what: "the number of fragments ever made",
        found: u64::from(first_id) + change.add.len() as u64,
        limit: u64::from(FIRST_FOREIGN_FRAGMENT),
    })?;
    if next > first_id {
        let version = i64::from(next);
        actions.push(Action::Txn(Txn { app_id: NEXT_FRAGMENT.into(), version, last_updated: Some(now) }));
    }

    let data_change = change.operation != Operation::Compact;
    let mut changed = BTreeSet::new();
    let mut find = |id: u32| unchanged(base, id, &mut changed);
    // What goes of files of several fragments, which share one entry of the log: `None` is all of a part.
    let mut parted: BTreeMap<&str, Vec<Part<'_>>> = BTreeMap::new();
    for id in &change.remove {
        let fragment = find(*id)?;
        match fragment.is_whole_file() {
            true => actions.push(Action::Remove(remove(&fragment.file, data_change, now))),
            false => parted.entry(fragment.file.path()).or_default().push((fragment, None)),
        }
    }
    let mut vectors = Vectors::new(new_id());
    let mut lessen = |file: &DataFile, deleted: &Sip, actions: &mut Vec<Action>| {
        actions.push(Action::Remove(remove(file, data_change, now)));
        let mut add = file.to_add(data_change);
        add.stats = Some(wide_stats(add.stats.as_deref(), file.rows)?);
        add.deletion_vector = Some(vectors.push(deleted)?);
        actions.push(Action::Add(add));
        Ok::<_, StorageError>(())
    };
    for (id, deleted) in &change.deletions {
        let fragment = find(*id)?;
        if deleted.view().last().is_none_or(|last| last >= u64::from(fragment.rows)) {
            let why =
                format!("no row, or one beyond its {} rows, is deleted of fragment {id}", fragment.rows);
            return Err(StorageError::corrupt(base.id(), why));
        }
        match fragment.is_whole_file() {
            true => lessen(&fragment.file, deleted, &mut actions)?,
            false => parted.entry(fragment.file.path()).or_default().push((fragment, Some(deleted))),
        }
    }
    for (path, parts) in &parted {
        let Some((FragmentEntry { file, .. }, _)) = parts.first() else { continue };
        let deleted = deleted_of(parts, before.get(*path));
        match deleted.cardinality() == file.rows {
            true => actions.push(Action::Remove(remove(file, data_change, now))),
            false => lessen(file, &deleted, &mut actions)?,
        }
    }
    let adds =
        change.add.iter().zip(first_id..).map(|(file, id)| Action::Add(add(file, id, data_change, now)));
    actions.extend(adds);
    Ok(Planned { actions, first_id, vectors: vectors.finish() })
}

/// A fragment that is changed once.
fn unchanged<'a>(base: &'a TableState, id: u32, changed: &mut BTreeSet<u32>) -> Result<&'a FragmentEntry> {
    let fragment = base.fragment(id).filter(|_| changed.insert(id));
    fragment.ok_or_else(|| {
        StorageError::corrupt(base.id(), format!("there is no fragment {id}, or it is changed twice"))
    })
}

/// A fragment of a file that has others, and the offsets of its deleted rows; `None`: all of them.
type Part<'a> = (&'a FragmentEntry, Option<&'a Sip>);

/// The deleted rows of a file: of its parts those that are said, of all others those that were deleted before.
fn deleted_of(parts: &[Part<'_>], before: Option<&Sip>) -> Sip {
    // A part has a row.
    let range = |part: &FragmentEntry| part.first_row..=part.first_row + u64::from(part.rows) - 1;
    let named = Sip::from_ranges(parts.iter().map(|(part, _)| range(part)));
    let whole = parts.iter().filter(|(_, deleted)| deleted.is_none()).map(|(part, _)| range(part));
    let mut sets = vec![Sip::from_ranges(whole)];
    sets.extend(before.map(|before| before.difference(&named)));
    for (part, deleted) in parts {
        let first = part.first_row;
        if let Some(deleted) = deleted {
            sets.push(Sip::from_ids(deleted.iter().map(|row| first + row)));
        }
    }
    Sip::union_all(&sets)
}

fn remove(file: &DataFile, data_change: bool, now: i64) -> Remove {
    Remove {
        path: file.written().to_owned(),
        deletion_timestamp: Some(now),
        data_change,
        extended_file_metadata: Some(true),
        partition_values: Some(file.partition_values()),
        size: Some(file.bytes()),
        deletion_vector: file.deletion_vector.as_deref().cloned(),
    }
}

fn add(file: &NewFile, id: u32, data_change: bool, now: i64) -> Add {
    let mut tags = BTreeMap::from([
        (TAG_FRAGMENT.to_owned(), Some(id.to_string())),
        (digest::TAG.to_owned(), Some(file.digests.clone())),
    ]);
    if let Some(bytes) = file.encoded_bytes {
        tags.insert(TAG_ENCODED.to_owned(), Some(bytes.to_string()));
    }
    Add {
        path: file.path.clone(),
        partition_values: BTreeMap::new(),
        size: file.bytes,
        modification_time: now,
        data_change,
        stats: Some(file.stats.clone()),
        tags: Some(tags),
        deletion_vector: None::<Descriptor>,
    }
}
