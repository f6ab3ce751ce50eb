//! Which encoding holds a column: each estimates its size, and the fastest of the smallest is taken.
//!
//! Sizes are of whole buffers, everything counted. The size/speed trade-off is [`TRADE_OFF`]: an encoding that filters
//! faster (it comes first in the list) is taken when it needs at most that share more bytes than the smallest.
//! Encodings nest, and each level may add that share; both together stay below three percent. Where a size is an
//! estimate and could be the smallest, the column is encoded to find out.

use std::sync::Arc;

use super::{Encodings, KeyColumn, KeyEncoding, SizeEstimate, open::open_made, stats::KeyStats};
use crate::{error::Result, keys::Native};

/// An encoding that can hold a column, and its size.
pub(super) type Candidate<E> = (E, SizeEstimate);

/// How much larger than the smallest a faster encoding may be: by one part in so many.
const TRADE_OFF: usize = 70;

/// The position of the first candidate, the fastest, that is no more than the trade-off allows above the smallest.
fn first_acceptable<E>(candidates: &[Candidate<E>]) -> Option<usize> {
    let least = candidates.iter().map(|(_, estimate)| estimate.least).min()?;
    candidates.iter().position(|(_, estimate)| estimate.least <= least.saturating_add(least / TRADE_OFF))
}

/// The estimate of the candidate that is taken unless an estimate turns out to be wrong.
pub(super) fn expected_choice<E>(candidates: &[Candidate<E>]) -> Option<SizeEstimate> {
    first_acceptable(candidates).map(|i| candidates[i].1)
}

/// The column of the first candidate, the fastest, whose bytes are within the trade-off; or that of the candidate named
/// `forced`. `encode` makes a column and says its bytes. Estimates of the candidates that it encodes become exact.
pub(super) fn smallest<E: Copy, C>(
    candidates: &mut [Candidate<E>],
    forced: Option<&str>,
    encode: impl Fn(E) -> Result<(C, usize)>,
) -> Result<C> {
    let forced = candidates.iter().position(|(_, estimate)| Some(estimate.name) == forced);
    let mut columns: Vec<Option<C>> = candidates.iter().map(|_| None).collect();
    loop {
        let chosen = forced.or_else(|| first_acceptable(candidates));
        let i = chosen.ok_or_else(|| super::bytes::corrupt("no encoding holds the column"))?;
        if let Some(column) = columns[i].take() {
            return Ok(column);
        }
        let (encoding, estimate) = &mut candidates[i];
        let (column, bytes) = encode(*encoding)?;
        *estimate = SizeEstimate::exact(estimate.name, bytes);
        columns[i] = Some(column);
    }
}

/// The encodings of a level below `level` that can hold the keys.
fn candidates(
    encodings: &Encodings,
    level: u8,
    stats: &KeyStats,
) -> impl Iterator<Item = Candidate<&'static dyn KeyEncoding>> {
    let below = encodings.keys.iter().filter(move |encoding| encoding.level() < level);
    below.filter_map(move |&encoding| Some((encoding, encoding.estimate(stats, encodings)?)))
}

/// The size estimates of all encodings.
pub(super) fn estimates(encodings: &Encodings, stats: &KeyStats) -> Vec<SizeEstimate> {
    candidates(encodings, u8::MAX, stats).map(|(_, estimate)| estimate).collect()
}

/// Encodes keys by the smallest encoding of a level below `level`, or the one named `forced`; with it each candidate's
/// size estimate.
pub(super) fn choose(
    encodings: &Encodings,
    level: u8,
    keys: &[i64],
    stats: &KeyStats,
    forced: Option<&str>,
) -> Result<(Arc<dyn KeyColumn>, Vec<SizeEstimate>)> {
    debug_assert!(keys.len() == stats.rows, "the statistics are of other keys");
    debug_assert!(stats.distinct.as_ref().is_none_or(|counts| counts.is_sorted_by(|a, b| a.0 < b.0)));
    let mut candidates: Vec<_> = candidates(encodings, level, stats).collect();
    let column = smallest(&mut candidates, forced, |encoding| {
        let buffer = encoding.encode(keys, stats, encodings)?;
        let column = open_made(encodings, buffer, |buffer, encodings| encoding.open(buffer, encodings))?;
        assert_eq!(column.rows(), keys.len(), "{} holds the rows that it was given", encoding.name());
        let bytes = column.buffer().len();
        Ok((column, bytes))
    })?;
    Ok((column, candidates.into_iter().map(|(_, estimate)| estimate).collect()))
}

/// Encodes the keys that an encoding of `level` holds.
pub(super) fn choose_below(
    encodings: &Encodings,
    level: u8,
    keys: &[i64],
    native: Native,
) -> Result<Arc<dyn KeyColumn>> {
    choose(encodings, level, keys, &KeyStats::new(keys, native), None).map(|(column, _)| column)
}

/// The smallest estimate of a level below `level`.
pub(super) fn least_estimate(encodings: &Encodings, level: u8, stats: &KeyStats) -> Option<SizeEstimate> {
    candidates(encodings, level, stats).map(|(_, estimate)| estimate).min_by_key(|estimate| estimate.least)
}
