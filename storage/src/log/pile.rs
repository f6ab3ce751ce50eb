//! A map that grows and whose clones share what they have in common: every version of a table has one.

use std::sync::Arc;

/// Sorted runs, each at most half as long as the one before it: so there are few, and an entry is copied a
/// logarithmic number of times. Of entries with the same key the last that came in counts.
#[derive(Clone, Debug)]
pub(super) struct Pile<K, V> {
    runs: Vec<Arc<[(K, V)]>>,
}

impl<K, V> Default for Pile<K, V> {
    fn default() -> Self {
        Self { runs: Vec::new() }
    }
}

impl<K: Ord + Clone, V: Clone> Pile<K, V> {
    pub(super) fn len(&self) -> usize {
        self.runs.iter().map(|run| run.len()).sum()
    }

    pub(super) fn extend(&mut self, entries: impl IntoIterator<Item = (K, V)>) {
        let mut run: Vec<_> = entries.into_iter().collect();
        if run.is_empty() {
            return;
        }
        while let Some(longer) = self.runs.pop_if(|last| last.len() < 2 * run.len()) {
            // The older ones first: the sort is stable, and a look-up takes the last.
            let newer = std::mem::replace(&mut run, longer.to_vec());
            run.extend(newer);
        }
        run.sort_by(|a, b| a.0.cmp(&b.0));
        self.runs.push(run.into());
    }

    pub(super) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.runs.iter().rev().find_map(|run| {
            let end = run.partition_point(|(k, _)| k.borrow() <= key);
            run.get(end.checked_sub(1)?).filter(|(k, _)| k.borrow() == key).map(|(_, v)| v)
        })
    }

    /// In no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.runs.iter().flat_map(|run| run.iter())
    }

    /// Leaves out what `keep` does not want; what is shared stays so if that is nothing.
    pub(super) fn retain(&mut self, keep: impl Fn(&V) -> bool) {
        if self.iter().any(|(_, value)| !keep(value)) {
            let kept: Vec<_> = self.iter().filter(|(_, value)| keep(value)).cloned().collect();
            self.runs.clear();
            self.extend(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_map_and_its_clones_stay() {
        let mut pile = Pile::default();
        let mut clones = Vec::new();
        for i in 0..1000 {
            pile.extend([(i * 7 % 1009, i), (5000 + i, i)]);
            assert!(pile.runs.len() <= 12);
            clones.push(pile.clone());
        }
        for (n, clone) in clones.iter().enumerate() {
            assert_eq!(clone.len(), 2 * (n + 1));
            for i in [0, n / 2, n, n + 1] {
                assert_eq!(clone.get(&(i * 7 % 1009)), (i <= n).then_some(&i));
            }
        }
        pile.retain(|v| v % 2 == 0);
        assert_eq!((pile.len(), pile.get(&14), pile.get(&7)), (1000, Some(&2), None));
        pile.extend([(14, 9), (14, 10)]);
        assert_eq!(pile.get(&14), Some(&10));
    }
}
