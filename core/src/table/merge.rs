//! Small fragments at a table's end are merged with new ones, so that many small writes leave few fragments.

use std::sync::Arc;

use super::{Change, Snapshot};
use crate::{
    error::Result,
    fragment::{Fragment, FragmentData, RowBuffer},
    limits::{FRAGMENT_ROWS, PENDING_BYTES},
    schema::Schema,
};

/// The change that adds a fragment merged with those before it. A fragment is rewritten only with at least half as
/// many new rows, so that a row is rewritten a logarithmic number of times. `None`: there is nothing to merge.
///
/// # Errors
/// Those of the encodings.
pub(super) fn merge(snapshot: &Snapshot, schema: &Schema, new: &Arc<FragmentData>) -> Result<Option<Change>> {
    let only = Fragment::new(0, Arc::clone(new));
    let (mut rows, mut keep) = (only.rows(), snapshot.fragments.len());
    let mut bytes = only.decoded_bytes();
    while let Some(last) = snapshot.fragments[..keep].last()
        && last.live_rows() <= 2 * rows
        && last.live_rows() + rows <= FRAGMENT_ROWS
        && bytes + last.decoded_bytes() <= PENDING_BYTES
    {
        rows += last.live_rows();
        bytes += last.decoded_bytes();
        keep -= 1;
    }
    let old = &snapshot.fragments[keep..];
    if old.is_empty() {
        return Ok(None);
    }
    let mut buffer = RowBuffer::new(schema);
    old.iter().for_each(|fragment| buffer.push_fragment(fragment));
    buffer.push_fragment(&only);
    let add = vec![Arc::new(buffer.encode(schema)?)];
    Ok(Some(Change { was: old.to_vec(), add, ..Change::default() }))
}
