//! How a test of texts becomes one of a dictionary's codes.

use std::ops::Range;

use crate::{
    encoding::{
        predicate::{KeyTest, TextTest, above, below, code_range, code_set},
        traits::{TextColumn, UNIT_ROWS},
    },
    mask::selects,
};

impl TextTest {
    /// The test of codes that is this test of the entries, which are sorted and distinct.
    #[must_use]
    pub fn over(&self, entries: &dyn TextColumn) -> KeyTest {
        let all = 0..entries.rows();
        match self {
            Self::Range { lo, hi } => {
                let from = partition_point(entries, |text| !above(lo, text));
                code_range(from..partition_point(entries, |text| below(hi, text)))
            }
            Self::In(members) if members.texts().len() < entries.rows() / 8 => {
                code_set(members.texts().iter().filter_map(|text| {
                    let code = partition_point(entries, |entry| entry < &**text);
                    (code < all.end && *entries.get(code) == **text).then_some(code)
                }))
            }
            Self::In(_) => self.among(entries, all),
            Self::Like(pattern) => {
                let (prefix, whole) = pattern.prefix();
                let from = partition_point(entries, |text| text < prefix.as_str());
                let to = partition_point(entries, |text| text < prefix.as_str() || text.starts_with(&prefix));
                if whole { code_range(from..to) } else { self.among(entries, from..to) }
            }
        }
    }

    /// The test of codes that is this test of some entries.
    fn among(&self, entries: &dyn TextColumn, codes: Range<usize>) -> KeyTest {
        if codes.is_empty() {
            return KeyTest::NONE;
        }
        let start = codes.start / UNIT_ROWS * UNIT_ROWS;
        let rows = codes.end - start;
        let mut passed = vec![0; rows.div_ceil(64)];
        entries.filter(start, rows, self, None, &mut passed);
        code_set(
            (codes.start - start..rows).filter(|&row| selects(Some(&passed), row)).map(|row| start + row),
        )
    }
}

/// The number of entries at the front for which `before` holds.
fn partition_point(entries: &dyn TextColumn, before: impl Fn(&str) -> bool) -> usize {
    let (mut from, mut to) = (0, entries.rows());
    while from < to {
        let middle = usize::midpoint(from, to);
        if before(&entries.get(middle)) { from = middle + 1 } else { to = middle }
    }
    from
}
