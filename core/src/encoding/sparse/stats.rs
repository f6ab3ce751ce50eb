//! What the statistics of a column tell of a common key and of the keys beside it.

use super::{
    super::{
        block_stats::{MAX_VALUE_COUNTS, ValueCounts},
        bytes::{count, index},
    },
    layout::Layout,
    others::Others,
};

/// The key that most rows hold, and how the others are coded.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Common {
    pub(in super::super) key: i64,
    pub(in super::super) layout: Layout,
}

impl Common {
    /// The most frequent key where it is frequent enough; `distinct` are the counts of the keys, where they are few.
    pub(in super::super) fn of(
        keys: &[i64],
        distinct: Option<&ValueCounts>,
        sample: &[Box<[i64]>],
    ) -> Option<Self> {
        let (key, others) = match distinct {
            Some(counts) => {
                let &(key, n) = counts.iter().max_by_key(|(_, n)| *n)?;
                (key, Some(keys.len() - index(n)))
            }
            None => (most_frequent(sample)?, None),
        };
        // With more rows than these an entropy code of all keys is smaller, and as fast.
        let coded = distinct.is_some_and(|counts| counts.len() <= MAX_VALUE_COUNTS);
        let most = keys.len() / if coded { 5 } else { 2 };
        if others.is_some_and(|others| others == 0 || others > most) {
            return None;
        }
        let others = Others::new(keys, key);
        (others.len() <= most).then(|| Self { key, layout: Layout::rice(&others) })
    }

    /// The same of the codes of a dictionary: they are the same for the same keys.
    pub(in super::super) fn of_codes(self, entries: &[(i64, u64)]) -> Option<Self> {
        let code = entries.binary_search_by_key(&self.key, |(key, _)| *key).ok()?;
        Some(Self { key: count(code).into(), ..self })
    }

    /// The same of `to` rows, as if they went on like these `from`.
    pub(in super::super) fn scaled(self, from: usize, to: usize) -> Self {
        Self { layout: self.layout.scaled(from, to), ..self }
    }
}

/// The key that a third of the sample holds, if there is one.
fn most_frequent(sample: &[Box<[i64]>]) -> Option<i64> {
    let mut keys: Vec<i64> = sample.iter().flatten().copied().collect();
    keys.sort_unstable();
    let most = keys.chunk_by(|a, b| a == b).max_by_key(|run| run.len())?;
    (most.len() >= keys.len() / 3).then(|| most[0])
}
