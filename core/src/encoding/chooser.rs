//! Which encoding holds a column: every one bids, the smallest holds it.
//!
//! Bids are of whole buffers, everything counted. Where one is an estimate and could win, the column is encoded
//! to find out. Between equals the one that comes first in the list, the faster one, is taken.

use std::sync::Arc;

use super::{KEY_ENCODINGS, KeyColumn, KeyEncoding, stats::KeyStats};
use crate::{error::Result, keys::Native};

/// What an encoding would make of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bid {
    /// The encoding's name.
    pub name: &'static str,
    /// Bytes of the buffer; once the column is encoded so, the exact number.
    pub bytes: usize,
    /// Whether `bytes` is exact.
    pub exact: bool,
    /// The least that it may come to.
    least: usize,
}

impl Bid {
    pub(super) fn exact(name: &'static str, bytes: usize) -> Self {
        Self { name, bytes, exact: true, least: bytes }
    }

    pub(super) fn estimate(name: &'static str, bytes: usize) -> Self {
        Self { name, bytes, exact: false, least: bytes - bytes / ESTIMATE_ERROR }
    }

    /// A bid that another encoding is sure to undercut: the column is encoded so only when it is forced.
    pub(super) fn undercut(self) -> Self {
        Self { least: usize::MAX, ..self }
    }

    /// The bid of an encoding that adds `bytes` to what another makes.
    pub(super) fn around(self, name: &'static str, bytes: usize) -> Self {
        Self { name, bytes: self.bytes + bytes, least: self.least + bytes, ..self }
    }
}

/// An estimate may be too high by one part in so many.
const ESTIMATE_ERROR: usize = 8;

/// An encoding that has bid for a column.
pub(super) type Bidder<E> = (E, Bid);

/// The smallest column that the bidders make, which stand in the order of preference; or that of the bidder
/// named `forced`. `encode` makes a column and says its bytes. Bids of those that were asked become exact.
pub(super) fn smallest<E: Copy, C>(
    bidders: &mut [Bidder<E>],
    forced: Option<&str>,
    encode: impl Fn(E) -> Result<(C, usize)>,
) -> Result<C> {
    let mut order: Vec<usize> = match bidders.iter().position(|(_, bid)| Some(bid.name) == forced) {
        Some(i) => vec![i],
        None => (0..bidders.len()).collect(),
    };
    order.sort_by_key(|&i| (bidders[i].1.least, i));
    let mut best: Option<((usize, usize), C)> = None;
    for i in order {
        let (encoding, bid) = &mut bidders[i];
        if best.as_ref().is_some_and(|((bytes, _), _)| bid.least > *bytes) {
            break;
        }
        let (column, bytes) = encode(*encoding)?;
        *bid = Bid::exact(bid.name, bytes);
        if best.as_ref().is_none_or(|(found, _)| (bytes, i) < *found) {
            best = Some(((bytes, i), column));
        }
    }
    best.map(|(_, column)| column).ok_or_else(|| super::bytes::corrupt("no encoding holds the column"))
}

/// The encodings of a level below `level` that can hold the keys.
fn bidders(level: u8, stats: &KeyStats) -> impl Iterator<Item = Bidder<&'static dyn KeyEncoding>> {
    let encodings = KEY_ENCODINGS.iter().filter(move |encoding| encoding.level() < level);
    encodings.filter_map(|&encoding| Some((encoding, encoding.bid(stats)?)))
}

/// Encodes keys by the smallest encoding of a level below `level`, or the one named `forced`, and says what
/// each bid.
pub(super) fn choose(
    level: u8,
    keys: &[i64],
    stats: &KeyStats,
    forced: Option<&str>,
) -> Result<(Arc<dyn KeyColumn>, Vec<Bid>)> {
    let mut bidders: Vec<_> = bidders(level, stats).collect();
    let column = smallest(&mut bidders, forced, |encoding| {
        let column = encoding.open(encoding.encode(keys, stats)?)?;
        let bytes = column.buffer().len();
        Ok((column, bytes))
    })?;
    Ok((column, bidders.into_iter().map(|(_, bid)| bid).collect()))
}

/// Encodes the keys that an encoding of `level` holds.
pub(super) fn choose_below(level: u8, keys: &[i64], native: Native) -> Result<Arc<dyn KeyColumn>> {
    choose(level, keys, &KeyStats::new(keys, native), None).map(|(column, _)| column)
}

/// The smallest bid of a level below `level`.
pub(super) fn least_bid(level: u8, stats: &KeyStats) -> Option<Bid> {
    bidders(level, stats).map(|(_, bid)| bid).min_by_key(|bid| bid.least)
}
