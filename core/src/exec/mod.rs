//! Execution: fragment by fragment, block by block. A block is pruned by its zone maps or filtered into a
//! mask; what is aggregated or returned under the mask is decoded in batches that fit the cache.
//!
//! Blocks run in parallel on the rayon pool whose thread calls, or on the one that the [`Control`] names (one by one
//! where there is neither), and their results are merged in the order of fragments and blocks, so that an answer has the same bits for any number of threads.

mod aggregate;
mod arithmetic;
mod attributes;
mod build;
mod by_statistics;
mod compare;
mod conjuncts;
mod control;
mod dense_groups;
mod distinct;
mod estimate;
mod explain;
mod filter;
mod fragment_aggregate;
mod group_keys;
mod group_order;
mod group_output;
mod group_vectors;
mod groups;
mod hash_aggregate;
mod keys;
mod linear;
mod marks;
mod numbering;
mod numbers;
mod output;
mod parted_groups;
mod partial;
mod partitioned;
mod profile;
mod radix;
mod records;
mod rows;
mod same_keys;
mod sample;
mod scalar_aggregate;
mod scan;
mod semi_join;
mod sets;
mod short_texts;
mod sorted_items;
mod sorted_texts;
mod source;
mod text_form;
mod text_gather;
mod totals;
mod vector;

use std::ops::AddAssign;

use arrow_array::RecordBatch;
use basalt_sip::Sip;

pub use self::{
    build::{Build, BuildSide, BuiltSet, LocalBuild, select_values, select_values_with},
    control::{Control, Memory, Stop},
    estimate::Estimate,
    explain::{ColumnUse, Explanation, FilterUse, OperatorUse},
    filter::may_select,
    keys::{SelectedKeys, select_keys},
    partial::{Merge, Part, failure, failure_code},
    profile::Usage,
    same_keys::{Question, SameKeys, check_key_column},
    sample::Expected,
    semi_join::{Resolver, place_sets, resolve, resolve_filter},
    sets::SetUse,
};

use self::{
    control::Held,
    group_output::Answer,
    groups::{Groups, To},
    profile::{Step, Watch},
    scan::{Block, Scan},
};
use crate::{
    error::Result,
    limits::{BLOCK_ROWS, BLOCK_WORDS},
    mask::{Mask, Words},
    plan::{Plan, Shape},
    query::Filter,
    table::{Snapshot, Table},
};

/// What a query did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Rows of the table; deleted ones are not counted.
    pub rows: u64,
    /// Fragments of the table.
    pub fragments: u64,
    /// Blocks of the table.
    pub blocks: u64,
    /// Blocks that statistics alone showed to hold no row.
    pub blocks_pruned: u64,
    /// Blocks that statistics alone showed to be selected whole.
    pub blocks_full: u64,
    /// Rows that the filter selected.
    pub rows_selected: u64,
}

impl AddAssign for Statistics {
    /// Some of it may be what another node says.
    fn add_assign(&mut self, other: Self) {
        self.rows = self.rows.saturating_add(other.rows);
        self.fragments = self.fragments.saturating_add(other.fragments);
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.blocks_pruned = self.blocks_pruned.saturating_add(other.blocks_pruned);
        self.blocks_full = self.blocks_full.saturating_add(other.blocks_full);
        self.rows_selected = self.rows_selected.saturating_add(other.rows_selected);
    }
}

impl Statistics {
    fn of(snapshot: &Snapshot) -> Self {
        Self {
            rows: snapshot.rows(),
            fragments: snapshot.fragments().len() as u64,
            blocks: snapshot.fragments().iter().map(|f| f.blocks() as u64).sum(),
            ..Self::default()
        }
    }
}

impl Plan {
    /// Runs the plan on the snapshot that it was bound to. Batches of the answer go to `sink` as they are
    /// ready; the last may come long before the end, and there may be none.
    ///
    /// # Errors
    /// Those of the values ([`Overflow`](crate::error::ErrorKind::Overflow),
    /// [`DivisionByZero`](crate::error::ErrorKind::DivisionByZero)), of `control`, of `sink`.
    pub fn run(
        &self,
        snapshot: &Snapshot,
        control: &Control,
        sink: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<Statistics> {
        control.check()?;
        let _held = sets::prepare(self.filter.as_ref(), snapshot, control)?;
        let mut scan = Scan::new(snapshot, self.filter.as_ref(), control)?;
        match &self.shape {
            Shape::Rows if self.order.is_empty() => {
                rows::stream(self, &mut scan, control, &mut |_, batch| sink(batch))?;
            }
            Shape::Rows => rows::sorted(self, snapshot, &mut scan, control, sink)?,
            Shape::Groups { keys, aggregates, having } => {
                let mut answer = Answer::new(self, control);
                let mut add = |groups: &Groups<'_>| {
                    let (watch, before) = (Watch::start(control), answer.shown());
                    let goes_on = answer.add(groups, sink)?;
                    watch.stop(Step::Finish, groups.len() as u64, answer.shown() - before);
                    Ok(goes_on)
                };
                let by_key = having.is_none() && self.order.is_empty();
                let to = if by_key { To::Sink(&mut add) } else { To::End };
                let groups = groups::collect(self, keys, aggregates, snapshot, &mut scan, to, control)?;
                let watch = Watch::start(control);
                let answered = group_output::groups(self, &groups, having.as_ref(), control, sink)?;
                watch.stop(Step::Finish, groups.len() as u64, answered);
            }
        }
        Ok(scan.statistics)
    }
}

/// The addresses of the rows that a filter selects.
///
/// # Errors
/// What is wrong with the filter, and the errors of [`Plan::run`].
pub fn select(
    table: &Table,
    snapshot: &Snapshot,
    filter: Option<&Filter>,
    control: &Control,
) -> Result<(Sip, Statistics)> {
    let (slots, pred) = Plan::filter(table, snapshot, filter)?;
    let _held = sets::prepare(pred.as_ref(), snapshot, control)?;
    let mut scan = Scan::new(snapshot, pred.as_ref(), control)?;
    let mut held = Held::new(control);
    let mut masks: Vec<(u64, Mask)> = Vec::new();
    scan.run(
        &slots,
        1,
        false,
        |_, mask| Ok(mask),
        |block, mask| {
            let mask = match mask {
                Mask::Full if block.rows() < BLOCK_ROWS => filter::first(block.rows()),
                mask => mask,
            };
            if let Mask::Words(words) = &mask {
                held.set(held.bytes() + size_of_val(&**words))?;
            }
            masks.push((block.fragment.address(block.start()), mask));
            Ok(true)
        },
    )?;
    let words = masks.iter().map(|(base, mask)| match mask {
        Mask::Empty => (*base, [].as_slice()),
        Mask::Full => (*base, FULL.as_slice()),
        Mask::Words(words) => (*base, words.as_slice()),
    });
    Ok((Sip::from_masks(words), scan.statistics))
}

/// The words of a mask that selects all rows of a block.
static FULL: Words = [u64::MAX; BLOCK_WORDS];

const _: () = assert!(BLOCK_WORDS * 64 == BLOCK_ROWS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_add_up() {
        let some = |n| Statistics {
            rows: n,
            fragments: 2 * n,
            blocks: 3 * n,
            blocks_pruned: 4 * n,
            blocks_full: 5 * n,
            rows_selected: 6 * n,
        };
        let mut sum = some(7);
        sum += some(100);
        assert_eq!(sum, some(107));
        sum += Statistics { rows: u64::MAX, ..some(0) };
        assert_eq!(sum, Statistics { rows: u64::MAX, ..some(107) });
    }
}
