//! What the statistics of a column tell of the lengths of its runs.

use super::{
    super::{
        block_stats::ValueCounts,
        bytes::{count, index},
        rice::Rice,
    },
    codes::MAX_K,
};
use crate::limits::BATCH_ROWS;

/// How much longer the codes may be with one parameter for all lengths, which is read faster: by one part in so many.
const TRADE_OFF: u64 = 256;

/// The Rice codes of the lengths.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Lengths {
    /// The first key.
    pub(super) key: i64,
    /// Whether runs of two keys take turns.
    pub(super) turns: bool,
    /// Of the runs of the first key, and of others.
    codes: [Rice; 2],
}

impl Lengths {
    /// The lengths of the `runs` of `keys` where they are long enough; `distinct` are the counts of the keys, where they
    /// are few.
    pub(in super::super) fn of(keys: &[i64], runs: usize, distinct: Option<&ValueCounts>) -> Option<Self> {
        let turns = distinct.is_some_and(|counts| counts.len() <= 2);
        // With two keys, shorter runs are better held as rows of the rarer one.
        let most = if turns { keys.len() / 8 } else { keys.len() / 4 * 3 };
        if runs > most {
            return None;
        }
        let frequent = distinct.into_iter().flatten().max_by_key(|(_, n)| *n).map(|(key, _)| *key);
        let key = frequent.filter(|_| !turns).unwrap_or(keys[0]);
        let mut numbers = [Vec::new(), Vec::new()];
        for_each_run(keys, |run, length| numbers[usize::from(run != key)].push(count(length - 1)));
        let apart = numbers.each_ref().map(|numbers| Rice::best(numbers, MAX_K));
        // One parameter for all is read faster.
        let k = apart[1].k;
        let alike = [Rice::new(&numbers[0], k), apart[1]];
        let bits = |codes: [Rice; 2]| codes.iter().map(Rice::bits).sum::<u64>();
        let codes = if bits(alike) <= bits(apart) + bits(apart) / TRADE_OFF { alike } else { apart };
        Some(Self { key, turns, codes })
    }

    /// k of the runs of the first key, and of others.
    pub(super) fn parameters(&self) -> [u32; 2] {
        self.codes.map(|code| code.k)
    }

    /// k of the runs of a key.
    pub(super) fn k(&self, key: i64) -> u32 {
        self.codes[usize::from(key != self.key)].k
    }

    /// Bits of the codes.
    pub(super) fn bits(&self) -> usize {
        self.codes.iter().map(|code| index(code.bits())).sum()
    }

    /// The same of the codes of a dictionary: their runs are the same.
    pub(in super::super) fn of_codes(self, entries: &[(i64, u64)]) -> Option<Self> {
        let code = entries.binary_search_by_key(&self.key, |(key, _)| *key).ok()?;
        Some(Self { key: count(code).into(), ..self })
    }

    /// The same of `to` rows, as if they went on like these `from`.
    pub(in super::super) fn scaled(self, from: usize, to: usize) -> Self {
        Self { codes: self.codes.map(|code| code.scaled(from, to)), ..self }
    }
}

/// Calls `work` with the key of each run and its rows. Where the runs of a piece end is written down first, without a
/// branch: nobody foresees it where runs are short.
fn for_each_run(keys: &[i64], mut work: impl FnMut(i64, usize)) {
    let mut ends = [0; BATCH_ROWS];
    let mut start = 0;
    for first in (1..keys.len()).step_by(BATCH_ROWS) {
        let behind = keys.len().min(first + BATCH_ROWS);
        let mut found = 0;
        for (end, pair) in (first..).zip(keys[first - 1..behind].windows(2)) {
            ends[found] = end;
            found += usize::from(pair[0] != pair[1]);
        }
        for &end in &ends[..found] {
            work(keys[start], end - start);
            start = end;
        }
    }
    work(keys[start], keys.len() - start);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_seen() {
        for rows in [1, 2, 3, BATCH_ROWS - 1, BATCH_ROWS, BATCH_ROWS + 1, 3 * BATCH_ROWS + 5] {
            for length in [1, 2, 3, 1000, 5000, 20_000] {
                let keys: Vec<i64> = (0..rows).map(|row| (row as i64 / length as i64) % 3).collect();
                let mut seen = Vec::new();
                for_each_run(&keys, |key, rows| seen.push((key, rows)));
                let runs = keys.chunk_by(|a, b| a == b).map(|run| (run[0], run.len()));
                assert!(runs.eq(seen), "{rows} rows in runs of {length}");
            }
        }
    }
}
