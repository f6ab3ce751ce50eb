//! Which encoding holds a column: every one bids, and the fastest of the smallest holds it.
//!
//! Bids are of whole buffers, everything counted. The price of speed is [`PRICE`]: an encoding that filters faster
//! (it comes first in the list) is taken when it needs at most that share more bytes than the smallest. Encodings
//! nest, and each level pays the price; both together stay below three percent. Where a bid is an estimate and
//! could win, the column is encoded to find out.

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

    /// An estimate that may be too high by one part in `error`.
    pub(super) fn estimate(name: &'static str, bytes: usize, error: usize) -> Self {
        Self { name, bytes, exact: false, least: bytes - bytes / error }
    }

    /// A bid that another encoding is sure to undercut: the column is encoded so only when it is forced.
    pub(super) fn undercut(self) -> Self {
        Self { least: usize::MAX, ..self }
    }

    /// The bid of two columns together.
    pub(super) fn and(self, other: Self) -> Self {
        let least = self.least.saturating_add(other.least);
        Self { name: self.name, bytes: self.bytes + other.bytes, exact: self.exact && other.exact, least }
    }

    /// The bid of an encoding that adds `bytes` to what another makes.
    pub(super) fn around(self, name: &'static str, bytes: usize) -> Self {
        Self { name, bytes: self.bytes + bytes, least: self.least.saturating_add(bytes), ..self }
    }

    /// The same bid where what it is made from is itself an estimate, too high by one part in `error` at most.
    pub(super) fn about(self, error: usize) -> Self {
        Self { exact: false, least: self.least.saturating_sub(self.bytes / error), ..self }
    }
}

/// An encoding that has bid for a column.
pub(super) type Bidder<E> = (E, Bid);

/// What speed may cost, in parts of the smallest bid.
const PRICE: usize = 70;

/// The place of the first bidder, the fastest, that is within the price of the smallest.
fn first_affordable<E>(bidders: &[Bidder<E>]) -> Option<usize> {
    let least = bidders.iter().map(|(_, bid)| bid.least).min()?;
    bidders.iter().position(|(_, bid)| bid.least <= least.saturating_add(least / PRICE))
}

/// The bid that is to win as long as no estimate is found to be wrong.
pub(super) fn favourite<E>(bidders: &[Bidder<E>]) -> Option<Bid> {
    first_affordable(bidders).map(|i| bidders[i].1)
}

/// The column of the first bidder, the fastest, whose bytes are within the price of the smallest; or that of the
/// bidder named `forced`. `encode` makes a column and says its bytes. Bids of those that were asked become exact.
pub(super) fn smallest<E: Copy, C>(
    bidders: &mut [Bidder<E>],
    forced: Option<&str>,
    encode: impl Fn(E) -> Result<(C, usize)>,
) -> Result<C> {
    let forced = bidders.iter().position(|(_, bid)| Some(bid.name) == forced);
    let mut columns: Vec<Option<C>> = bidders.iter().map(|_| None).collect();
    loop {
        let chosen = forced.or_else(|| first_affordable(bidders));
        let i = chosen.ok_or_else(|| super::bytes::corrupt("no encoding holds the column"))?;
        if let Some(column) = columns[i].take() {
            return Ok(column);
        }
        let (encoding, bid) = &mut bidders[i];
        let (column, bytes) = encode(*encoding)?;
        *bid = Bid::exact(bid.name, bytes);
        columns[i] = Some(column);
    }
}

/// The encodings of a level below `level` that can hold the keys.
fn bidders(level: u8, stats: &KeyStats) -> impl Iterator<Item = Bidder<&'static dyn KeyEncoding>> {
    let encodings = KEY_ENCODINGS.iter().filter(move |encoding| encoding.level() < level);
    encodings.filter_map(|&encoding| Some((encoding, encoding.bid(stats)?)))
}

/// What all encodings bid.
pub(super) fn bids(stats: &KeyStats) -> Vec<Bid> {
    bidders(u8::MAX, stats).map(|(_, bid)| bid).collect()
}

/// Encodes keys by the smallest encoding of a level below `level`, or the one named `forced`, and says what
/// each bid.
pub(super) fn choose(
    level: u8,
    keys: &[i64],
    stats: &KeyStats,
    forced: Option<&str>,
) -> Result<(Arc<dyn KeyColumn>, Vec<Bid>)> {
    debug_assert!(keys.len() == stats.rows, "the statistics are of other keys");
    debug_assert!(stats.distinct.as_ref().is_none_or(|counts| counts.is_sorted_by(|a, b| a.0 < b.0)));
    let mut bidders: Vec<_> = bidders(level, stats).collect();
    let column = smallest(&mut bidders, forced, |encoding| {
        let column = encoding.open(encoding.encode(keys, stats)?)?;
        assert_eq!(column.rows(), keys.len(), "{} holds the rows that it was given", encoding.name());
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
