//! The same query over the same rows, some of whose columns are held in their faster forms: the same answer to the bit.

use std::sync::Arc;

use basalt_core::{
    fragment::{Column, Fragment, FragmentData},
    query::Query,
    table::Snapshot,
};

use crate::{
    Loaded,
    split::{self, Answer},
};

/// That columns in their faster forms answer as they did before: all of them, and every second one.
pub(crate) fn check(loaded: &Loaded, query: &Query, alone: &Answer) -> Result<(), String> {
    let snapshots = loaded.faster.get_or_init(|| {
        [1, 2].map(|step| {
            let fragments = loaded.snapshot.fragments().iter().map(|fragment| faster(fragment, step));
            Arc::new(Snapshot::new(loaded.snapshot.version(), fragments.collect()))
        })
    });
    for (step, snapshot) in (1..).zip(snapshots) {
        let answer = loaded.answer_of(snapshot, query);
        if !split::same(&answer, alone) {
            return Err(format!(
                "faster forms of every {step}. column answer otherwise: {answer:?}, {alone:?}"
            ));
        }
    }
    Ok(())
}

/// The fragment with faster forms of the columns at every `step`-th place.
fn faster(fragment: &Fragment, step: usize) -> Fragment {
    let form = |(place, column): (usize, &Arc<Column>)| {
        let faster = if place.is_multiple_of(step) { column.faster().unwrap() } else { None };
        let Some(faster) = faster else { return Some(Arc::clone(column)) };
        // NaN is the range of some columns.
        let known = |column: &Column| {
            let counted = (column.rows(), column.nulls(), column.zones(), column.counts());
            format!("{counted:?} {:?}", column.range())
        };
        assert_eq!(known(&faster), known(column));
        Some(Arc::new(faster))
    };
    let columns = fragment.columns().enumerate().map(form).collect();
    let data = FragmentData::of_columns(fragment.rows(), columns).unwrap();
    let copy = Fragment::new(fragment.id(), data).with_deleted(fragment.deleted().cloned());
    match fragment.source() {
        Some(source) => copy.with_source(source),
        None => copy,
    }
}
