//! The bounds of a file's columns, those of neighbours beside each other: a condition is asked of all of a table's.

use std::sync::Arc;

/// The bounds of a column of which they are not known: no value is between them.
pub(super) const UNKNOWN: (i64, i64) = (i64::MAX, i64::MIN);

/// For each column a number that no value is less than, and one that none is greater than.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    /// Those of several files.
    shared: Arc<[(i64, i64)]>,
    first: usize,
    columns: usize,
}

impl Bounds {
    pub(super) fn new(bounds: Vec<(i64, i64)>) -> Self {
        Self { first: 0, columns: bounds.len(), shared: bounds.into() }
    }

    /// The same, with those of several files in one piece of memory.
    pub(crate) fn together(files: &[Self]) -> Vec<Self> {
        let shared: Arc<[_]> = files.iter().flat_map(Self::as_slice).copied().collect();
        let mut first = 0;
        let place = |file: &Self| {
            let bounds = Self { shared: Arc::clone(&shared), first, columns: file.columns };
            first += file.columns;
            bounds
        };
        files.iter().map(place).collect()
    }

    pub(super) fn as_slice(&self) -> &[(i64, i64)] {
        &self.shared[self.first..self.first + self.columns]
    }

    /// Those of a column, as far as they are known.
    pub(crate) fn get(&self, column: usize) -> Option<(i64, i64)> {
        self.as_slice().get(column).copied().filter(|bounds| *bounds != UNKNOWN)
    }
}

impl PartialEq for Bounds {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn together_they_are_the_same() {
        let files: Vec<Bounds> =
            [vec![(1, 2), UNKNOWN], vec![], vec![(-5, 7), (0, 0), (3, 4)]].map(Bounds::new).into();
        let together = Bounds::together(&files);
        assert_eq!(together, files);
        assert!(Arc::ptr_eq(&together[0].shared, &together[2].shared));
        assert_eq!([together[0].get(0), together[0].get(1), together[0].get(2)], [Some((1, 2)), None, None]);
        assert_eq!((together[1].get(0), together[2].get(2)), (None, Some((3, 4))));
    }
}
