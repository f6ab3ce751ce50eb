//! Sizes of columns, in bits a row and in parts of the entropy.

use std::collections::BTreeSet;

use basalt_core::limits::FRAGMENT_ROWS;
use rayon::prelude::*;

use super::{
    holdings::{check, encode, label, names, outermost, roaring},
    source::Source,
};
use crate::table;

/// Prints the sizes of every source in every encoding, in fragments of 2^20 rows.
pub fn print_table(sources: &[Source], rows: usize) {
    let names: Vec<&str> = names().filter(|name| *name != "constant").collect();
    let header: Vec<String> = ["values", "H"]
        .into_iter()
        .map(str::to_owned)
        .chain(names.iter().map(|name| label(name).to_owned()))
        .chain(["roaring".to_owned(), "chosen".to_owned(), "chosen encodings".to_owned(), "goal".to_owned()])
        .collect();
    let lines: Vec<_> = sources.iter().map(|source| line(source, rows, &names)).collect();
    let title =
        format!("bits a row (and times the entropy), {} rows, everything counted", table::grouped(rows));
    table::print(&title, &header.iter().map(String::as_str).collect::<Vec<_>>(), &lines);
}

#[allow(clippy::cast_precision_loss, reason = "figures to print")]
fn line(source: &Source, rows: usize, names: &[&str]) -> Vec<String> {
    let values = source.draw(rows);
    let entropy = source.entropy(&values);
    let times = |bytes: usize| 8.0 * bytes as f64 / rows as f64 / entropy;
    let cell = |bytes: Option<usize>| {
        bytes.map_or_else(String::new, |bytes| {
            format!("{:.4} ({:.3}x)", 8.0 * bytes as f64 / rows as f64, times(bytes))
        })
    };
    let forced = names.iter().map(|name| cell(forced_bytes(source, &values, name)));
    let forced: Vec<String> = forced.collect();
    let of_bools = (source.rarest() == 1).then(|| {
        values.par_chunks(FRAGMENT_ROWS).map(|keys| roaring(keys, 1).serialized_size()).sum::<usize>()
    });
    let (chosen, chosen_names) = chosen(source, &values);
    let goal = source.size_goal.map_or_else(String::new, |goal| {
        let missed = if times(chosen) > goal { ": missed" } else { "" };
        format!("<= {goal}x{missed}")
    });
    [source.name.to_owned(), format!("{entropy:.4}")]
        .into_iter()
        .chain(forced)
        .chain([cell(of_bools), cell(Some(chosen)), chosen_names, goal])
        .collect()
}

/// The bytes of all fragments by one encoding; `None` where it cannot hold one of them.
fn forced_bytes(source: &Source, values: &[i64], name: &str) -> Option<usize> {
    let bytes = |keys: &[i64]| {
        let column = encode(keys, source.native(), Some(name))?.column;
        check(column.as_ref(), keys);
        Some(column.buffer().len())
    };
    values.par_chunks(FRAGMENT_ROWS).map(bytes).sum()
}

/// The bytes of all fragments as the chooser has them, and by which encodings.
fn chosen(source: &Source, values: &[i64]) -> (usize, String) {
    let fragments = values.par_chunks(FRAGMENT_ROWS).filter_map(|keys| encode(keys, source.native(), None));
    let columns: Vec<_> = fragments.map(|encoded| encoded.column).collect();
    let names: BTreeSet<String> = columns.iter().map(|column| outermost(column.as_ref())).collect();
    let names: Vec<String> = names.into_iter().collect();
    (columns.iter().map(|column| column.buffer().len()).sum(), names.join(", "))
}
