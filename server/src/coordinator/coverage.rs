//! What an answer covers. Every part says from which fragments it was made, by what they were read from; together they
//! have to be the fragments of the pinned version, each once. Whatever else comes back is an error that names them.

use std::collections::BTreeMap;

use basalt_core::{fragment::Source, table::Snapshot};
use basalt_proto::{cluster::v1::AnsweredFragment, v1::ErrorReason};

use crate::{
    status::{RequestError, Result},
    tables::{TableVersion, source},
};

/// The fragments of a snapshot, as a part tells of them.
pub(super) fn answered(snapshot: &Snapshot) -> Vec<AnsweredFragment> {
    let told = snapshot.fragments().iter().map(|fragment| {
        let Source { rows, deletions } = source(fragment);
        AnsweredFragment { id: fragment.id(), rows, deletions }
    });
    told.collect()
}

/// That what was answered are the fragments that were asked, as the pinned version has them, each once.
///
/// # Errors
/// [`ErrorReason::Incomplete`], which names those that are missing, twice there, or others than in that version.
pub(super) fn check<'a>(
    table: &str,
    version: &TableVersion,
    asked: &[u32],
    answered: impl IntoIterator<Item = &'a AnsweredFragment>,
) -> Result<()> {
    let mut open: BTreeMap<u32, Source> =
        asked.iter().filter_map(|id| Some((*id, version.source(*id)?))).collect();
    let mut wrong = Vec::new();
    if open.len() != asked.len() {
        wrong.extend(asked.iter().filter(|id| !open.contains_key(id)).map(|id| (*id, "not of this version")));
    }
    for AnsweredFragment { id, rows, deletions } in answered {
        match open.remove(id) {
            Some(source) if source == (Source { rows: *rows, deletions: *deletions }) => {}
            Some(_) => wrong.push((*id, "answered from another version")),
            None => wrong.push((*id, "not asked for, or answered twice")),
        }
    }
    wrong.extend(open.into_keys().map(|id| (id, "not answered")));
    let Some((first, why)) = wrong.first() else { return Ok(()) };
    let more = match wrong.len() {
        1 => String::new(),
        n => format!(", and {} more", n - 1),
    };
    let message = format!("the parts do not cover table {table:?}: fragment {first} was {why}{more}");
    Err(RequestError::new(ErrorReason::Incomplete, message).with("fragments", wrong.len() as u64))
}
