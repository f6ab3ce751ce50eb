//! What a load says while it runs, and when it is done.

use std::{io::IsTerminal as _, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{rows::Told, source::Job};
use crate::{
    cli::{grid, human, style::Style},
    table::TableDetails,
};

/// Bad rows that are shown one by one.
const SHOWN_BAD_ROWS: usize = 10;

/// A bar over the files' bytes, drawn on standard error if it is a terminal.
pub(super) fn bar(what: &'static str, bytes: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr_with_hz(15)
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(bytes), target).with_message(what);
    let template = "{msg:>14} {bar:32.cyan/dim} {decimal_bytes:>10} of {decimal_total_bytes}  {decimal_bytes_per_sec}  {eta} left";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("━╸─")),
        Err(_) => bar,
    }
}

/// What is to be known before anything is loaded.
pub(super) fn report_notes(job: &Job) {
    for note in &job.notes {
        eprintln!("note: {note}");
    }
    if !job.left_out.is_empty() {
        let columns: Vec<_> = job.left_out.iter().map(|(name, why)| format!("{name:?} ({why})")).collect();
        let number = human::plural(job.left_out.len() as u64, "column");
        eprintln!("note: {number} left out: {}", columns.join(", "));
    }
}

/// What was left out or cut.
pub(super) fn report(told: &Told, job: &Job) {
    let passed_over: Vec<_> = told
        .passed_over
        .iter()
        .filter(|key| !job.left_out.contains_key(*key))
        .map(|key| format!("{key:?}"))
        .collect();
    if !passed_over.is_empty() {
        eprintln!("note: keys left out, not one of --columns: {}", passed_over.join(", "));
    }
    for (column, times) in &told.cut {
        let values = human::plural(*times, "value");
        eprintln!("note: column {column:?}: {values} cut to microseconds");
    }
    if let Some(expired) = &told.expired {
        eprintln!("note: {expired}");
    }
    let bad = &told.bad;
    if bad.is_empty() {
        return;
    }
    let style = Style::of(&std::io::stderr());
    eprintln!("{} {} left out", style.bold("warning:"), human::plural(bad.len() as u64, "bad row"));
    for row in bad.iter().take(SHOWN_BAD_ROWS) {
        eprintln!("  {}", grid::escape(row));
    }
    if bad.len() > SHOWN_BAD_ROWS {
        eprintln!("  and {} more", human::count((bad.len() - SHOWN_BAD_ROWS) as u64));
    }
}

/// What was loaded, how many rows it replaced where it could, and how the table is held.
pub(super) fn summary(
    details: &TableDetails,
    rows: u64,
    replaced: Option<u64>,
    file_bytes: u64,
    time: Duration,
) -> String {
    let style = Style::of(&std::io::stdout());
    let table = &details.table;
    let plain: u64 = details.columns.iter().map(|c| c.plain_bytes).sum();
    let name = style.bold(&table.name);
    if table.rows == 0 {
        return format!("{name}  0 rows\n");
    }
    let replaced = replaced.map(|rows| format!(", {} replaced,", human::plural(rows, "row")));
    let loaded = format!(
        "{} loaded{} in {} ({}, {})",
        human::plural(rows, "row"),
        replaced.unwrap_or_default(),
        human::duration(time),
        human::row_rate(rows, time),
        human::byte_rate(file_bytes, time),
    );
    let mut held = format!("{} held", human::bytes(table.bytes));
    if table.rows != rows {
        held.push_str(&format!(" for {} in all", human::plural(table.rows, "row")));
    }
    let says = table.rows >= human::FEW_ROWS;
    if plain > 0 && says {
        held.push_str(&format!(", {} plain arrays", human::compared(table.bytes, plain)));
    }
    if table.rows == rows && says {
        held.push_str(&format!(", {} the files", human::compared(table.bytes, file_bytes)));
    }
    format!("{name}  {loaded}\n{}  {held}\n", " ".repeat(table.name.chars().count()))
}
