//! Small fragments at a table's end are merged with new ones, so that many small writes leave few fragments.

use std::{collections::HashSet, sync::Arc};

use super::{Change, Snapshot};
use crate::{
    error::Result,
    fragment::{Fragment, RowBuffer},
    limits::FRAGMENT_ROWS,
    schema::Schema,
};

/// The change whose one new fragment is merged with those before it, as it leaves them, up to so many bytes of rows. A
/// fragment is rewritten only with at least half as many new rows, so that a row is rewritten a logarithmic number of
/// times. `None`: there is nothing to merge.
///
/// # Errors
/// Those of the encodings.
pub(super) fn merge(
    snapshot: &Snapshot,
    schema: &Schema,
    change: &Change,
    most: usize,
) -> Result<Option<Change>> {
    let [new] = change.add.as_slice() else { return Ok(None) };
    let only = Fragment::new(0, Arc::clone(new));
    let changed: HashSet<u32> = change.was.iter().map(Fragment::id).collect();
    let (mut rows, mut bytes) = (only.rows(), only.decoded_bytes());
    let (mut merged, mut unchanged): (Vec<&Fragment>, Vec<Fragment>) = (Vec::new(), Vec::new());
    for fragment in snapshot.fragments.iter().rev() {
        let is_changed = changed.contains(&fragment.id());
        let last = match is_changed {
            true => change.is.iter().find(|is| is.id() == fragment.id()),
            false => Some(fragment),
        };
        // It goes.
        let Some(last) = last else { continue };
        if last.live_rows() > 2 * rows
            || last.live_rows() + rows > FRAGMENT_ROWS
            || bytes + last.decoded_bytes() > most
        {
            break;
        }
        rows += last.live_rows();
        bytes += last.decoded_bytes();
        merged.push(last);
        unchanged.extend((!is_changed).then(|| last.clone()));
    }
    if merged.is_empty() {
        return Ok(None);
    }
    let mut buffer = RowBuffer::new(schema);
    merged.iter().rev().for_each(|fragment| buffer.push_fragment(fragment));
    buffer.push_fragment(&only);
    let gone: HashSet<u32> = merged.iter().map(|fragment| fragment.id()).collect();
    let mut change = change.clone();
    change.was.extend(unchanged);
    change.is.retain(|is| !gone.contains(&is.id()));
    change.add = vec![Arc::new(buffer.encode(schema)?)];
    Ok(Some(change))
}
