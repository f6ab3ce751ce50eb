//! The main figures on one table, for those who come new: what the sources' methods and the best of other libraries take,
//! and what Basalt takes, in one run. The other benchmarks have the rows around them.
//!
//! `cargo bench --profile dist -p basalt-benches --bench summary`; `-- --small` for a quick look.

#![allow(clippy::unwrap_used, reason = "a benchmark stops at what goes wrong")]

use std::{error::Error, time::Duration};

use basalt_benches::{
    columns::{
        holdings::{Holdings, SEED},
        questions::Question,
        source,
    },
    contest::{Figures, Role},
    kernels::{
        aggregates::{self, Function},
        build,
        data::{Column, Nulls, Pattern, values},
        filters, groups,
    },
    packed::{compare, decimals, sums},
    table::{self, figure},
    tables::{Table, flights, report, tpch},
    timing,
};

const EACH: Duration = Duration::from_millis(100);
const CACHED: usize = 100_000;
const HALF: Nulls = Nulls { percent: 50, pattern: Pattern::Random };

#[allow(clippy::print_stdout, reason = "a benchmark's output")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("{}", build());
    let mut lines = Vec::new();
    columns(&mut lines);
    packed(&mut lines);
    kernels(&mut lines);
    tables(&mut lines)?;
    let header = ["what", "the source's method", "best of other libraries", "Basalt", "times"];
    table::print("Basalt beside others, one core, one run", &header, &lines);
    Ok(())
}

/// A line of times, in a unit of so many seconds; the last cell says how many times as fast as the better of the others.
fn timed(lines: &mut Vec<Vec<String>>, what: &str, figures: &Figures, unit: f64, unit_name: &str) {
    let cell = |role| {
        let best = figures.best(role);
        best.map_or_else(String::new, |(name, seconds)| {
            format!("{} {unit_name} ({name})", figure(seconds / unit))
        })
    };
    let ours = figures.best(Role::Ours).map_or(f64::NAN, |(_, seconds)| seconds);
    let least = [Role::Seed, Role::Rival].into_iter().filter_map(|role| figures.ratio(role)).reduce(f64::min);
    lines.push(vec![
        what.to_owned(),
        cell(Role::Seed),
        cell(Role::Rival),
        format!("{} {unit_name}", figure(ours / unit)),
        least.map_or_else(String::new, |times| format!("{times:.1}x")),
    ]);
}

/// A line of sizes.
fn sized(lines: &mut Vec<Vec<String>>, what: &str, cells: [String; 3], times: f64) {
    let [seed, rival, ours] = cells;
    lines.push(vec![what.to_owned(), seed, rival, ours, format!("{times:.2}x")]);
}

#[allow(clippy::cast_precision_loss, reason = "figures to print")]
fn columns(lines: &mut Vec<Vec<String>>) {
    let rows = if timing::small() { 60_000 } else { 1_000_000 };
    for source in
        source::all().iter().filter(|source| ["bool 99/1", "4-way 80/15/4/1"].contains(&source.name))
    {
        let held = Holdings::new(source.draw(rows), source.native(), source.rarest());
        let seed = held.forced.iter().find(|(name, _)| *name == SEED).unwrap().1.buffer().len();
        let ours = held.chosen.column.buffer().len();
        let bits = |bytes: usize| format!("{:.4} bits", 8.0 * bytes as f64 / rows as f64);
        let rival = (source.rarest() == 1).then(|| bits(held.roaring.serialized_size()) + " (roaring)");
        let what = format!("{}: a row (Shannon: {:.4} bits)", source.name, source.entropy(&held.keys));
        sized(lines, &what, [bits(seed), rival.unwrap_or_default(), bits(ours)], seed as f64 / ours as f64);
        for (question, what) in
            [(Question::Filter, "= rarest to a mask, a row"), (Question::Get, "a random row")]
        {
            let figures = question.race(source, &held, EACH);
            timed(lines, &format!("{}: {what}", source.name), &figures, question.unit(rows), "ns");
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "figures to print")]
fn packed(lines: &mut Vec<Vec<String>>) {
    let (cached, large) = (98_304, if timing::small() { 98_304 } else { 1 << 24 });
    for width in [8, 11] {
        let figures = compare::race(width, cached, EACH);
        let what = format!("{width}-bit codes <= constant to a mask, a row");
        timed(lines, &what, &figures, 1e-9 * cached as f64, "ns");
    }
    let figures = sums::race(11, large, HALF, EACH);
    timed(lines, "sum of 11-bit codes from memory, half null, a row", &figures, 1e-9 * large as f64, "ns");

    let rows = if timing::small() { 60_000 } else { 1_000_000 };
    let prices = decimals::samples(rows).swap_remove(0).measure(EACH);
    let (ours, rivals) = prices.split_first().unwrap();
    let rival =
        |of: fn(&decimals::Line) -> f64| rivals.iter().min_by(|a, b| of(a).total_cmp(&of(b))).unwrap();
    let (smallest, fastest) = (rival(|line| line.bytes as f64), rival(|line| line.decode));
    let bits = |line: &decimals::Line| format!("{:.2} bits", 8.0 * line.bytes as f64 / rows as f64);
    let nanos = |line: &decimals::Line| format!("{} ns", figure(line.decode * 1e9 / rows as f64));
    let cells = |of: &dyn Fn(&decimals::Line) -> String, best: &decimals::Line| {
        [String::new(), format!("{} ({})", of(best), best.name), of(ours)]
    };
    sized(
        lines,
        "prices, as float64: a value",
        cells(&bits, smallest),
        smallest.bytes as f64 / ours.bytes as f64,
    );
    sized(
        lines,
        "prices, as float64: decoded, a value",
        cells(&nanos, fastest),
        fastest.decode / ours.decode,
    );
}

#[allow(clippy::cast_precision_loss, reason = "a unit of time")]
fn kernels(lines: &mut Vec<Vec<String>>) {
    let integers = values::<i64>(CACHED);
    let (all, half) = (Column::new(&integers, Nulls::NONE), Column::new(&integers, HALF));
    let figures = aggregates::race(Function::Sum, &half, HALF, EACH);
    timed(lines, "sum of 100,000 i64, half null", &figures, 1e-6, "us");
    let figures = filters::race(filters::OPS[0], &all, Nulls::NONE, EACH);
    timed(lines, "100,000 i64 > constant to a mask", &figures, 1e-6, "us");
    let floats = Column::new(&values::<f64>(CACHED), Nulls::NONE);
    let figures = filters::race_sum(&floats, Nulls::NONE, EACH);
    timed(lines, "sum of the f64 > constant of 100,000", &figures, 1e-6, "us");
    let sixteen = groups::all().find(|groups| groups.count == 16).unwrap();
    let figures = groups::race(sixteen, &integers, Nulls::NONE, EACH);
    timed(lines, "sums of 100,000 i64 in 16 groups", &figures, 1e-6, "us");
}

#[allow(clippy::cast_precision_loss, reason = "figures to print")]
fn tables(lines: &mut Vec<Vec<String>>) -> Result<(), Box<dyn Error>> {
    let (scale, most) = if timing::small() { (0.01, 10_000) } else { (1.0, 1 << 20) };
    let wanted = |table: &Table| ["flights", "lineitem"].contains(&table.name.as_str());
    for source in flights::tables()?.into_iter().chain(tpch(scale)?).filter(wanted) {
        let name = source.name.clone();
        let (columns, rows) = report::measure_table(source, most)?;
        let total = report::total(&columns);
        let millions = |bytes: usize| format!("{:.2} MB", bytes as f64 / 1e6);
        let what = format!("{name}, {} rows (as Arrow: {})", table::grouped(rows), millions(total.arrow));
        let cells = [String::new(), millions(total.parquet) + " (Parquet, zstd)", millions(total.ours)];
        sized(lines, &what, cells, total.parquet as f64 / total.ours as f64);
    }
    Ok(())
}
