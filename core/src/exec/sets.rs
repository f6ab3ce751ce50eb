//! Sets in a filter: prepared before the first block, counted for Explain.

use std::sync::Arc;

use super::{
    Control, Held, filter,
    profile::{Step, Watch},
};
use crate::{
    encoding::KeyTest,
    error::Result,
    plan::{pred::Pred, sets::BoundSet},
    query::SipOrigin,
    table::Snapshot,
};

/// What a set of a filter is, and what it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetUse {
    /// The condition as a person would write it.
    pub text: String,
    /// How the set is written: a SIP's tag, or `texts`.
    pub tag: &'static str,
    /// Its bytes.
    pub bytes: u64,
    /// How many addresses, keys or texts it has.
    pub cardinality: u64,
    /// Blocks of the table that it shows to be empty, by statistics alone.
    pub blocks_skipped: u64,
    /// Blocks that it shows to be selected whole.
    pub blocks_full: u64,
    /// Rows of the other blocks that it was asked about.
    pub rows_in: u64,
    /// Those of them that passed.
    pub rows_passed: u64,
    /// Nanoseconds that it took to get the set and to prepare it.
    pub build_ns: u64,
    /// Nanoseconds that it took to ask it, of all threads together.
    pub apply_ns: u64,
    /// Where it comes from.
    pub origin: SipOrigin,
}

/// Finds the form for the look-ups of each set; the answer is the memory that they take.
pub(super) fn prepare<'a>(
    filter: Option<&Pred>,
    snapshot: &Snapshot,
    control: &'a Control,
) -> Result<Held<'a>> {
    let mut sets = Vec::new();
    filter.iter().for_each(|pred| pred.sets(&mut sets));
    let mut held = Held::new(control);
    let watch = Watch::start(control);
    let cardinality = sets.iter().map(|(set, _)| set.cardinality).sum();
    for (set, test) in sets {
        let Pred::Keys { slot, test: KeyTest::In(members), .. } = test else { continue };
        let started = control.now();
        let zones = snapshot.fragments().iter().flat_map(|f| f.column(*slot).zones());
        let ranges = zones.filter_map(|zone| zone.range);
        // Default: no key, where all rows are null.
        let range = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((1, 0));
        let before = held.bytes();
        members.prepare(snapshot.rows(), range, &mut |bytes| {
            control.check()?;
            held.set(before + bytes)
        })?;
        set.count_build(control.now() - started);
    }
    if cardinality > 0 {
        watch.stop(Step::Prepare, cardinality, cardinality);
    }
    Ok(held)
}

/// What the sets of a filter did on a snapshot.
pub(super) fn uses(filter: Option<&Pred>, snapshot: &Snapshot, control: &Control) -> Vec<SetUse> {
    let mut sets = Vec::new();
    filter.iter().for_each(|pred| pred.sets(&mut sets));
    let of = |(set, test): (&Arc<BoundSet>, &Pred)| {
        let (blocks_skipped, blocks_full) = filter::decided(test, snapshot, control);
        let counts = set.counts();
        SetUse {
            text: set.text.clone(),
            tag: set.tag,
            bytes: set.bytes,
            cardinality: set.cardinality,
            blocks_skipped,
            blocks_full,
            rows_in: counts.rows_in,
            rows_passed: counts.rows_passed,
            build_ns: counts.build_ns,
            apply_ns: counts.apply_ns,
            origin: set.origin.clone(),
        }
    };
    sets.into_iter().map(of).collect()
}
