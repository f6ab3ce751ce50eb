//! The rows of a fragment that are deleted: a mask for each block that has any.

use basalt_sip::{BlockMask, Sip};

use crate::{
    limits::{BLOCK_ROWS, BLOCK_WORDS},
    mask::{Mask, Words},
};

/// Deleted rows of one fragment. There is at least one.
#[derive(Debug, PartialEq, Eq)]
pub struct Deleted {
    /// The rows of each block that are left.
    live: Vec<Mask>,
    rows: usize,
    /// Rows of the fragment.
    of: usize,
}

impl Deleted {
    /// The rows of a fragment of `rows` rows whose places (not addresses) are in a set; places behind the last row
    /// are left out. `None` when that leaves none.
    pub fn new(places: &Sip, rows: usize) -> Option<Self> {
        let live = (0..rows).step_by(BLOCK_ROWS);
        let live =
            live.map(|start| without(&Mask::Full, places, start as u64, (rows - start).min(BLOCK_ROWS)));
        Self::of(live.collect(), rows)
    }

    /// Those that are deleted of the fragment `id` of `rows` rows, and its rows whose addresses are in a set; `None`
    /// when that adds none.
    pub fn more(before: Option<&Self>, id: u32, rows: usize, addresses: &Sip) -> Option<Self> {
        let first = u64::from(id) << 32;
        addresses.next_at_or_after(first).filter(|next| *next < first + rows as u64)?;
        let live = (0..rows).step_by(BLOCK_ROWS).enumerate().map(|(block, start)| {
            let live = before.map_or(&Mask::Full, |before| before.live(block));
            without(live, addresses, first + start as u64, (rows - start).min(BLOCK_ROWS))
        });
        // Default: none were deleted before.
        Self::of(live.collect(), rows).filter(|all| all.rows > before.map_or(0, |before| before.rows))
    }

    fn of(live: Vec<Mask>, rows: usize) -> Option<Self> {
        let left =
            live.iter().enumerate().map(|(i, mask)| mask.count((rows - i * BLOCK_ROWS).min(BLOCK_ROWS)));
        let left: usize = left.sum();
        (left < rows).then(|| Self { live, rows: rows - left, of: rows })
    }

    /// Their places in the fragment.
    pub fn places(&self) -> Sip {
        let deleted: Vec<_> = (0..)
            .step_by(BLOCK_ROWS)
            .zip(&self.live)
            .filter(|(_, live)| **live != Mask::Full)
            .map(|(start, live)| {
                let rows = (self.of - start).min(BLOCK_ROWS);
                let mut words = Vec::new();
                let all = Mask::Full.and_not(live, rows);
                all.slice(0, rows, &mut words);
                (start as u64, words)
            })
            .collect();
        Sip::from_masks(deleted.iter().map(|(start, words)| (*start, words.as_slice())))
    }

    /// Rows of the fragment, deleted or not.
    pub(super) fn fragment_rows(&self) -> usize {
        self.of
    }

    /// How many rows are deleted.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The rows of a block that are not: [`Mask::Full`] where none is deleted, [`Mask::Empty`] where all are.
    pub fn live(&self, block: usize) -> &Mask {
        &self.live[block]
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let words = self.live.iter().filter(|mask| matches!(mask, Mask::Words(_))).count();
        size_of_val(self.live.as_slice()) + words * size_of::<Words>()
    }
}

/// The rows of `live`, a mask of a block of `rows` rows, that are not in a set of which the block's first is `first`.
fn without(live: &Mask, set: &Sip, first: u64, rows: usize) -> Mask {
    let mut words = Box::new([0; BLOCK_WORDS]);
    let deleted = match set.block_mask(first, &mut words) {
        BlockMask::Empty => Mask::Empty,
        BlockMask::Full => Mask::Full,
        BlockMask::Words => {
            words[rows.div_ceil(64)..].fill(0);
            Mask::Words(words)
        }
    };
    let live = live.clone().and_not(&deleted, rows);
    match live.count(rows) {
        0 => Mask::Empty,
        left if left == rows => Mask::Full,
        _ => live,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_become_masks() {
        let rows = 2 * BLOCK_ROWS + 100;
        let second = BLOCK_ROWS as u64..2 * BLOCK_ROWS as u64;
        let places: Vec<u64> = [3, 70].into_iter().chain(second).chain([rows as u64 + 5]).collect();
        let deleted = Deleted::new(&Sip::from_sorted_ids(&places), rows).unwrap();
        assert_eq!(deleted.rows(), BLOCK_ROWS + 2);
        assert_eq!(deleted.live(0).count(BLOCK_ROWS), BLOCK_ROWS - 2);
        assert_eq!((deleted.live(1), deleted.live(2)), (&Mask::Empty, &Mask::Full));
        assert!(deleted.bytes() >= size_of::<Words>());
    }

    #[test]
    fn none_deleted_is_none() {
        assert_eq!(Deleted::new(&Sip::from_sorted_ids(&[]), 100), None);
        assert_eq!(Deleted::new(&Sip::from_sorted_ids(&[100, 1 << 40]), 100), None);
        let all: Vec<u64> = (0..100).collect();
        let all = Deleted::new(&Sip::from_sorted_ids(&all), 100).unwrap();
        assert_eq!((all.rows(), all.live(0)), (100, &Mask::Empty));
    }
}
