//! Which encoding holds a column: each estimates its size, and what the column is optimized for decides.
//!
//! Sizes are of whole buffers, everything counted.
//!
//! | optimized for | taken is |
//! |---|---|
//! | size | the smallest |
//! | balanced | the first in the list, the fastest to filter, that needs at most a [`TRADE_OFF`] more than the smallest; then a faster form of it, where the fragment has bytes left for it |
//! | speed | the one that costs the least to read of those that take at most [`MOST_OF_SPEED`] times the smallest |
//!
//! Balanced columns share a budget, three percent of their fragment (`fragment/budget.rs`): a column of few bits beside wide
//! ones may be held nearly as for speed (`trade_off.rs`). Here a column is alone.
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

use std::{cell::Cell, sync::Arc};

use super::{
    Costs, Encodings, KeyColumn, KeyEncoding, SizeEstimate, bytes::corrupt, entropy, open::open_made,
    stats::KeyStats,
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
    /// Bytes that its parts have beyond the fewest.
    pub(super) extra: usize,
}

/// A column in the encoding that was chosen for it.
pub(super) struct Best {
    pub(super) column: Arc<dyn KeyColumn>,
    /// The estimates of all candidates.
    pub(super) estimates: Vec<SizeEstimate>,
    /// The fewest bytes that the column is likely to come to, whatever it costs to read.
    pub(super) least: usize,
}

thread_local! {
    /// Bytes beyond the fewest that parts have which this thread has encoded for the column that it is at.
    static EXTRA: Cell<usize> = const { Cell::new(0) };
}

/// Encodes a column, with what its parts have beyond the fewest bytes.
pub(super) fn with_extra<T>(encode: impl FnOnce() -> Result<T>) -> Result<(T, usize)> {
    let before = EXTRA.replace(0);
    let encoded = encode();
    let extra = EXTRA.replace(before);
    Ok((encoded?, extra))
}

/// Notes that a part of the column that this thread encodes has so many bytes beyond the fewest.
pub(super) fn add_extra(bytes: usize) {
    EXTRA.set(EXTRA.get() + bytes);
}

/// How much larger than the smallest a faster encoding may be: by one part in so many.
const TRADE_OFF: usize = 70;
/// What encodings of the same keys take less for size alone, at most: one part in so many.
const SIZE_ALONE: usize = 16;
/// The bound for speed: so many times the smallest.
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

/// What the column costs to read that [`choose`] would make of keys of a level below `level`, where that is known before.
pub(super) fn expected_costs(encodings: &Encodings, level: u8, stats: &KeyStats) -> Option<Costs> {
    let candidates: Vec<_> = candidates(encodings, level, stats).collect();
    let i = first_acceptable(&candidates, encodings.optimize)?;
    candidates[i].0.expected_costs(stats, encodings)
}

/// The estimate of the candidate that is taken unless an estimate turns out to be wrong.
pub(super) fn expected_choice<E>(candidates: &[Candidate<E>], optimize: Optimize) -> Option<SizeEstimate> {
    first_acceptable(candidates, optimize).map(|i| candidates[i].1)
}

/// The column of the candidate that is the best, or of the one named `forced`, with that candidate's place. `encode` makes a
/// column. Estimates of the candidates that it encodes become exact; for speed those are left out that cost at least as much as
/// one that is there.
pub(super) fn chosen<E: Copy, C>(
    candidates: &mut [Candidate<E>],
    forced: Option<&str>,
    optimize: Optimize,
    least_cost: impl Fn(E) -> u64,
    encode: impl Fn(E) -> Result<Made<C>>,
) -> Result<(usize, Made<C>)> {
    let forced = candidates.iter().position(|(_, estimate)| Some(estimate.name) == forced);
    let exactly = |candidate: &mut Candidate<E>| {
        let (encoding, estimate) = candidate;
        let made = encode(*encoding)?;
        *estimate = SizeEstimate::exact(estimate.name, made.bytes);
        Ok(made)
    };
    if forced.is_none()
        && optimize == Optimize::Speed
        && let Some(fastest) = fastest(candidates, least_cost, exactly)?
    {
        return Ok(fastest);
    }
    let mut columns: Vec<Option<Made<C>>> = candidates.iter().map(|_| None).collect();
    loop {
        let chosen = forced.or_else(|| first_acceptable(candidates, optimize));
        let i = chosen.ok_or_else(|| corrupt("no encoding holds the column"))?;
        if let Some(made) = columns[i].take() {
            return Ok((i, made));
        }
        columns[i] = Some(exactly(&mut candidates[i])?);
    }
}

/// The column that costs the least to read, and comes first of equal ones, within the bound; `None` when all estimates
/// that are within it were too low.
fn fastest<E: Copy, C>(
    candidates: &mut [Candidate<E>],
    least_cost: impl Fn(E) -> u64,
    mut encode: impl FnMut(&mut Candidate<E>) -> Result<Made<C>>,
) -> Result<Option<(usize, Made<C>)>> {
    let most = bound(candidates, Optimize::Speed).ok_or_else(|| corrupt("no encoding holds the column"))?;
    let mut best: Option<(usize, Made<C>)> = None;
    let fits = |(_, (_, estimate)): &(usize, &mut Candidate<E>)| estimate.least <= most;
    for (i, candidate) in candidates.iter_mut().enumerate().filter(fits) {
        if best.as_ref().is_some_and(|(_, best)| best.cost <= least_cost(candidate.0)) {
            continue;
        }
        let made = encode(candidate)?;
        if made.bytes <= most && best.as_ref().is_none_or(|(_, best)| made.cost < best.cost) {
            best = Some((i, made));
        }
    }
    Ok(best)
}

/// The fewest bytes that a column is likely to come to, of whose candidates that at `place` was made: its own without what it has
/// beyond them, or those of another, which `smallest` estimates for size alone.
pub(super) fn fewest<E: Copy, C>(
    candidates: &[Candidate<E>],
    (place, made): (usize, &Made<C>),
    smallest: impl Fn(E) -> Option<SizeEstimate>,
) -> usize {
    let own = made.bytes.saturating_sub(made.extra);
    let others = candidates.iter().enumerate().filter(|(i, _)| *i != place);
    others.fold(own, |least, (_, (encoding, estimate))| {
        // For size alone an encoding takes little less than it does: most of them are too large as they are.
        if estimate.least - estimate.least / SIZE_ALONE >= least {
            return least;
        }
        smallest(*encoding).map_or(least, |estimate| estimate.likely_least().min(least))
    })
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
) -> Result<Best> {
    debug_assert!(keys.len() == stats.rows, "the statistics are of other keys");
    debug_assert!(stats.distinct.as_ref().is_none_or(|counts| counts.is_sorted_by(|a, b| a.0 < b.0)));
    let mut candidates: Vec<_> = candidates(encodings, level, stats).collect();
    let least_cost = |encoding: &dyn KeyEncoding| encoding.least_cost();
    let (place, mut best) = chosen(&mut candidates, forced, encodings.optimize, least_cost, |encoding| {
        made(encodings, encoding, keys, stats)
    })?;
    let mut least = best.bytes;
    if encodings.optimize == Optimize::Balanced {
        let small = encodings.optimized_for(Optimize::Size);
        best.extra += extra_of_runs(candidates[place].0, stats, [encodings, &small]);
        least = fewest(&candidates, (place, &best), |encoding| encoding.estimate(stats, &small));
    }
    let estimates = candidates.into_iter().map(|(_, estimate)| estimate).collect();
    Ok(Best { column: best.column, estimates, least })
}

/// What an encoding that holds no parts takes beyond what it does for size alone: runs of an entropy code are shorter.
fn extra_of_runs(encoding: &dyn KeyEncoding, stats: &KeyStats, [usual, small]: [&Encodings; 2]) -> usize {
    if encoding.level() != entropy::Entropy.level() {
        return 0;
    }
    let bytes = |encodings| Some(encoding.estimate(stats, encodings)?.bytes);
    match (bytes(usual), bytes(small)) {
        (Some(usual), Some(small)) => usual.saturating_sub(small),
        _ => 0,
    }
}

/// The keys in an encoding that has given an estimate for them.
pub(super) fn made(
    encodings: &Encodings,
    encoding: &dyn KeyEncoding,
    keys: &[i64],
    stats: &KeyStats,
) -> Result<Made<Arc<dyn KeyColumn>>> {
    let (buffer, extra) = with_extra(|| encoding.encode(keys, stats, encodings))?;
    let column = open_made(encodings, buffer, |buffer, encodings| encoding.open(buffer, encodings))?;
    assert_eq!(column.rows(), keys.len(), "{} holds the rows that it was given", encoding.name());
    let bytes = column.buffer().len();
    let cost = column.costs().of_queries(bytes, keys.len());
    Ok(Made { column, bytes, cost, extra })
}

/// Encodes the keys that an encoding of `level` holds.
pub(super) fn choose_below(
    encodings: &Encodings,
    level: u8,
    keys: &[i64],
    native: Native,
) -> Result<Arc<dyn KeyColumn>> {
    let best = choose(encodings, level, keys, &KeyStats::new(keys, native), None)?;
    add_extra(best.column.buffer().len() - best.least);
    Ok(best.column)
}

/// The smallest estimate of a level below `level`.
pub(super) fn least_estimate(encodings: &Encodings, level: u8, stats: &KeyStats) -> Option<SizeEstimate> {
    candidates(encodings, level, stats).map(|(_, estimate)| estimate).min_by_key(|estimate| estimate.least)
}
