//! Opening columns, those that encodings hold as their parts among them.

use std::sync::Arc;

use arrow_buffer::Buffer;

use super::{
    Encodings, KeyColumn, TextColumn,
    bytes::{Reader, aligned, corrupt, ensure},
};
use crate::{error::Result, invariant::Invariant};

/// Opens a column of keys of a level below `level`.
pub(super) fn open_below(encodings: &Encodings, buffer: Buffer, level: u8) -> Result<Arc<dyn KeyColumn>> {
    let known = encodings.keys.iter().find(|encoding| Some(&encoding.code()) == buffer.first());
    let encoding = known.ok_or_else(|| corrupt("unknown encoding of keys"))?;
    ensure(encoding.level() < level, "an encoding nests too deep")?;
    let (_, native, _) = Reader::keys(buffer.clone())?;
    let column = encoding.open(buffer, encodings)?;
    let (least, greatest) = native.key_range();
    let extremes = || column.min_max(0, column.rows(), None);
    let of_type = || extremes().is_some_and(|(min, max)| least <= min && max <= greatest);
    encodings.ensure(of_type, "a key is not of its type")?;
    Ok(column)
}

/// Opens what was encoded just now. Its bytes are not validated again: that takes as long as to encode them. Where
/// assertions are on they are, as those from outside.
pub(super) fn open_made<C>(
    encodings: &Encodings,
    buffer: Buffer,
    open: impl Fn(Buffer, &Encodings) -> Result<C>,
) -> Result<C> {
    if cfg!(debug_assertions) {
        open(buffer.clone(), encodings).map(drop).invariant("what is encoded is valid");
    }
    open(buffer, &encodings.of_made())
}

/// Opens a column of texts.
pub(super) fn open_text(encodings: &Encodings, buffer: Buffer) -> Result<Arc<dyn TextColumn>> {
    let known = encodings.texts.iter().find(|encoding| Some(&encoding.code()) == buffer.first());
    known.ok_or_else(|| corrupt("unknown encoding of texts"))?.open(aligned(buffer), encodings)
}
