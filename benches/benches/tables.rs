//! Real tables, column by column: nycflights13 and TPC-H at scale 1, as Arrow, as Parquet with zstd and as ours; how far
//! the chosen encoding is from the smallest of all, and what choosing costs.
//!
//! `cargo bench --profile dist -p basalt-benches --bench tables`; `-- --small` for the first rows alone, and names of
//! tables for those alone. `scripts/fetch-testdata` fetches the flights.

use std::{env, error::Error};

use basalt_benches::{
    table,
    tables::{
        flights,
        measure::Measured,
        report::{self, HEADER},
        tpch,
    },
    timing,
};

/// The rows of each table in a quick look.
const FEW: usize = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let (scale, most) = if timing::small() { (0.01, FEW) } else { (1.0, usize::MAX) };
    let asked: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut totals = Vec::new();
    for (group, tables) in [("nycflights13", flights::tables()?), ("TPC-H", tpch(scale)?)] {
        let mut total = Measured::default();
        for table in tables {
            if asked.is_empty() || asked.contains(&table.name) {
                total.add(&report::print_table(table, most)?);
            }
        }
        if total.arrow > 0 {
            totals.push(report::line(group, &total));
        }
    }
    table::print("all tables, bytes", &HEADER, &totals);
    Ok(())
}
