//! What an answer covers. Every part says from which fragments it was made, by what they were read from; together they
//! have to be the fragments of the pinned version, each once. Whatever else comes back is an error that names them.

use std::collections::BTreeMap;

use basalt_core::{fragment::Source, table::Snapshot};
use basalt_proto::{cluster::v1::AnsweredFragment, v1::ErrorReason};
use basalt_sip::Sip;

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

/// That the addresses of a part of a selection are rows of the fragments that it was asked for, which ascend.
///
/// # Errors
/// [`ErrorReason::Incomplete`], which names the first other row.
pub(super) fn check_rows(table: &str, version: &TableVersion, asked: &[u32], rows: &Sip) -> Result<()> {
    // The first row behind those that were looked at.
    let mut next = rows.first();
    for id in asked {
        let first = u64::from(*id) << 32;
        if next.is_none_or(|row| row < first) {
            break;
        }
        next = rows.next_at_or_after(first + version.addresses(*id));
    }
    let Some(row) = next else { return Ok(()) };
    let (fragment, place) = (row >> 32, row & u64::from(u32::MAX));
    let message = format!(
        "a part of table {table:?} has row {place} of fragment {fragment}, which was not asked for or does not exist"
    );
    Err(RequestError::new(ErrorReason::Incomplete, message))
}
