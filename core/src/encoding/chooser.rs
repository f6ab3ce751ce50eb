//! Which encoding holds a column: each estimates its size, and what the column is optimized for decides.
//!
//! Sizes are of whole buffers, everything counted.
//!
//! | optimized for | taken is |
//! |---|---|
//! | size | the smallest |
//! | balanced | the first in the list, the fastest to filter, that needs at most a [`TRADE_OFF`] more than the smallest |
//! | speed | the one that costs the least to read of those that take at most [`MOST_OF_SPEED`] times the smallest |
//!
//! What comes of it for some columns of 2^20 rows (AVX-512, one thread, nothing decoded at hand): bits a row; nanoseconds a
//! row of a filter and of a sum of all rows; nanoseconds a row that is gathered where one in a hundred is, and of one row.
//!
//! | keys | for | held as | bits | filter | sum | gather | one row |
//! |---|---|---|--:|--:|--:|--:|--:|
//! | 5, skewed | size | entropy | 1.820 | 0.12 | 0.11 | 12 | 6,200 |
//! | | balanced | entropy | 1.861 | 0.27 | 0.27 | 31 | 640 |
//! | | speed | packed | 3.010 | 0.02 | 0.02 | 2 | 15 |
//! | 200, by Zipf | size | entropy | 5.994 | 0.24 | 0.23 | 24 | 5,900 |
//! | | balanced | entropy | 6.035 | 0.41 | 0.49 | 55 | 780 |
//! | | speed | plain | 8.000 | 0.03 | 0.05 | 3 | 13 |
//! | rising by 0 to 40 | size | delta(entropy) | 5.379 | 0.03 | 0.70 | 69 | 13,400 |
//! | | balanced | delta(entropy) | 5.432 | 0.04 | 0.96 | 117 | 2,300 |
//! | | speed | delta(packed) | 6.061 | 0.004 | 0.49 | 38 | 130 |
//! | a flag, 1 in 100 | size, balanced | sparse | 0.082 | 0.012 | 0.001 | 42 | 59 |
//! | | speed | elias_fano | 0.087 | 0.014 | 0.001 | 35 | 33 |
//!
//! Encodings nest, and balanced each level may add its share; both together stay below three percent. For speed the
//! bound is of the least that the estimates may come to, whatever the parts are: so it holds for the whole. Where a size
//! is an estimate and could be the one that is taken, the column is encoded to find out.

use std::sync::Arc;

use super::{
    Encodings, KeyColumn, KeyEncoding, SizeEstimate, bytes::corrupt, open::open_made, stats::KeyStats,
};
use crate::{error::Result, keys::Native, schema::Optimize};

/// An encoding that can hold a column, and its size.
pub(super) type Candidate<E> = (E, SizeEstimate);

/// A column that was made to find out how large it is.
pub(super) struct Made<C> {
    pub(super) column: C,
    pub(super) bytes: usize,
    /// What it costs to read; 0 where the order of the list alone says what is faster.
    pub(super) cost: u64,
}

/// How much larger than the smallest a faster encoding may be: by one part in so many.
const TRADE_OFF: usize = 70;
/// The same for speed: so many times the smallest.
const MOST_OF_SPEED: usize = 2;

/// The most bytes that the encoding which is taken may have.
fn bound<E>(candidates: &[Candidate<E>], optimize: Optimize) -> Option<usize> {
    let least = candidates.iter().map(|(_, estimate)| estimate.least).min()?;
    Some(match optimize {
        Optimize::Size => least,
        Optimize::Balanced => least.saturating_add(least / TRADE_OFF),
        Optimize::Speed => least.saturating_mul(MOST_OF_SPEED),
    })
}

/// The position of the first candidate, the fastest, that is no larger than the best may be.
fn first_acceptable<E>(candidates: &[Candidate<E>], optimize: Optimize) -> Option<usize> {
    let most = bound(candidates, optimize)?;
    candidates.iter().position(|(_, estimate)| estimate.least <= most)
}

/// The estimate of the candidate that is taken unless an estimate turns out to be wrong.
pub(super) fn expected_choice<E>(candidates: &[Candidate<E>], optimize: Optimize) -> Option<SizeEstimate> {
    first_acceptable(candidates, optimize).map(|i| candidates[i].1)
}

/// The column of the candidate that is the best, or of the one named `forced`. `encode` makes a column. Estimates of the
/// candidates that it encodes become exact; for speed those are left out that cost at least as much as one that is there.
pub(super) fn chosen<E: Copy, C>(
    candidates: &mut [Candidate<E>],
    forced: Option<&str>,
    optimize: Optimize,
    least_cost: impl Fn(E) -> u64,
    encode: impl Fn(E) -> Result<Made<C>>,
) -> Result<C> {
    let forced = candidates.iter().position(|(_, estimate)| Some(estimate.name) == forced);
    let exactly = |candidate: &mut Candidate<E>| {
        let (encoding, estimate) = candidate;
        let made = encode(*encoding)?;
        *estimate = SizeEstimate::exact(estimate.name, made.bytes);
        Ok(made)
    };
    if forced.is_none()
        && optimize == Optimize::Speed
        && let Some(column) = fastest(candidates, least_cost, exactly)?
    {
        return Ok(column);
    }
    let mut columns: Vec<Option<C>> = candidates.iter().map(|_| None).collect();
    loop {
        let chosen = forced.or_else(|| first_acceptable(candidates, optimize));
        let i = chosen.ok_or_else(|| corrupt("no encoding holds the column"))?;
        if let Some(column) = columns[i].take() {
            return Ok(column);
        }
        columns[i] = Some(exactly(&mut candidates[i])?.column);
    }
}

/// The column that costs the least to read, and comes first of equal ones, within the bound; `None` when all estimates
/// that are within it were too low.
fn fastest<E: Copy, C>(
    candidates: &mut [Candidate<E>],
    least_cost: impl Fn(E) -> u64,
    mut encode: impl FnMut(&mut Candidate<E>) -> Result<Made<C>>,
) -> Result<Option<C>> {
    let most = bound(candidates, Optimize::Speed).ok_or_else(|| corrupt("no encoding holds the column"))?;
    let mut best: Option<Made<C>> = None;
    for candidate in candidates.iter_mut().filter(|(_, estimate)| estimate.least <= most) {
        if best.as_ref().is_some_and(|best| best.cost <= least_cost(candidate.0)) {
            continue;
        }
        let made = encode(candidate)?;
        if made.bytes <= most && best.as_ref().is_none_or(|best| made.cost < best.cost) {
            best = Some(made);
        }
    }
    Ok(best.map(|best| best.column))
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

/// Encodes keys by the best encoding of a level below `level`, or the one named `forced`; with it each candidate's
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
    let least_cost = |encoding: &dyn KeyEncoding| encoding.least_cost();
    let column = chosen(&mut candidates, forced, encodings.optimize, least_cost, |encoding| {
        let buffer = encoding.encode(keys, stats, encodings)?;
        let column = open_made(encodings, buffer, |buffer, encodings| encoding.open(buffer, encodings))?;
        assert_eq!(column.rows(), keys.len(), "{} holds the rows that it was given", encoding.name());
        let bytes = column.buffer().len();
        let cost = column.costs().of_queries(bytes, keys.len());
        Ok(Made { column, bytes, cost })
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
