//! Packed integers, decimals and texts: comparisons and sums on packed codes beside codes that are read one by one and
//! the `fastlanes` crate, ALP beside the `alp` crate and pco, FSST beside `fsst-rs`, sums of floats beside such that do not
//! depend on the order of the rows.
//!
//! `cargo bench --profile dist -p basalt-benches --bench packed`; `-- --small` for a quick look, and names of tables
//! (`compare`, `sums`, `decimals`, `order`, `texts`) for those alone.

use std::{env, time::Duration};

use basalt_benches::{
    contest::{Goal, print},
    kernels::{
        build,
        data::{Nulls, shapes},
    },
    packed::{compare, decimals, order, sums, texts},
    table, timing,
};

/// Rows whose codes stay in the second-level cache.
const CACHED: usize = 98_304;
/// Rows whose codes do not stay in any cache.
const LARGE: usize = 1 << 24;
/// The width of the sums.
const SUMMED: u32 = 11;
/// What each contender gets of a row's time.
const EACH: Duration = Duration::from_millis(30);
/// Passes over a large column take that long by themselves.
const EACH_LARGE: Duration = Duration::from_millis(200);

const NANOS: f64 = 1e-9;

#[allow(clippy::print_stdout, reason = "a benchmark's output")]
fn main() {
    println!("{}", build());
    let small = timing::small();
    let sizes: &[(usize, Duration)] =
        if small { &[(CACHED, EACH)] } else { &[(CACHED, EACH), (LARGE, EACH_LARGE)] };
    let tables: [(&str, &dyn Fn()); 5] = [
        ("compare", &|| sizes.iter().for_each(|&(rows, each)| compare_table(rows, each))),
        ("sums", &|| sizes.iter().for_each(|&(rows, each)| sum_table(rows, each))),
        ("decimals", &|| decimals::print_table(if small { 100_000 } else { 1_000_000 }, EACH_LARGE)),
        ("order", &|| sizes.iter().for_each(|&(rows, _)| order::print_table(rows, EACH_LARGE))),
        ("texts", &|| texts::print_table(if small { 5_000 } else { 200_000 }, EACH_LARGE)),
    ];
    let asked: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for (name, print) in tables {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            print();
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a unit of time")]
fn nanos_a_row(rows: usize) -> f64 {
    NANOS * rows as f64
}

fn compare_table(rows: usize, each: Duration) {
    let goal = |width| match width {
        _ if rows > CACHED => Goal::Ahead,
        1..=8 => Goal::Within(0.012),
        11..=24 => Goal::Within(0.04),
        _ => Goal::Ahead,
    };
    let lines: Vec<_> = compare::WIDTHS
        .into_iter()
        .map(|width| (format!("{width} bits"), compare::race(width, rows, each), goal(width)))
        .collect();
    let title = format!("packed codes <= constant to a mask, {} rows, ns a row", table::grouped(rows));
    print(&title, "width", nanos_a_row(rows), &lines);
}

fn sum_table(rows: usize, each: Duration) {
    let goal = if rows > CACHED { Goal::Within(0.17) } else { Goal::Ahead };
    let line = |nulls: Nulls| (nulls.to_string(), sums::race(SUMMED, rows, nulls, each), goal);
    let title = format!("sum of packed codes of {SUMMED} bits, {} rows, ns a row", table::grouped(rows));
    print(&title, "nulls", nanos_a_row(rows), &shapes().map(line).collect::<Vec<_>>());
}
