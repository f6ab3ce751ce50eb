//! The tables of the second source, for kernels over plain arrays: every function, type, rate and pattern of nulls,
//! beside the source's own methods and arrow's, from cache and from memory.
//!
//! `cargo bench --profile dist -p basalt-benches --bench kernels`, and again with `RUSTFLAGS=-Ctarget-cpu=native`,
//! which the source's methods and arrow gain by; `-- --small` for a quick look, and names of tables (`nulls`,
//! `aggregates`, `filters`, `sums`, `groups`, `memory`) for those alone.

use std::{env, time::Duration};

use basalt_benches::{
    contest::{Goal, Role, print},
    kernels::{
        aggregates::{self, Function},
        build,
        data::{Column, Element, Nulls, Pattern, shapes, values},
        filters, groups, nulls,
    },
    table, timing,
};

/// Rows that stay in the second-level cache, as many as the source has.
const CACHED: usize = 100_000;
/// Rows that do not stay in any cache.
const LARGE: usize = 50_000_000;
/// What each contender gets of a row's time.
const EACH: Duration = Duration::from_millis(12);
/// Passes over a large column take that long by themselves.
const EACH_LARGE: Duration = Duration::from_millis(250);

const NANOS: f64 = 1e-9;
const MICROS: f64 = 1e-6;
const MILLIS: f64 = 1e-3;

#[allow(clippy::print_stdout, reason = "a benchmark's output")]
fn main() {
    println!("{}", build());
    let tables: [(&str, &dyn Fn()); 6] = [
        ("nulls", &null_counts),
        ("aggregates", &|| {
            aggregate_table::<i64>();
            aggregate_table::<f64>();
            aggregate_table::<i32>();
            aggregate_table::<u8>();
        }),
        ("filters", &|| {
            filter_table::<i64>();
            filter_table::<f64>();
            filter_table::<i32>();
            filter_table::<u8>();
        }),
        ("sums", &|| {
            sum_table::<i64>();
            sum_table::<f64>();
        }),
        ("groups", &group_table),
        ("memory", &|| {
            memory_table::<i64>();
            memory_table::<f64>();
            group_memory_table();
        }),
    ];
    let asked: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for (name, print) in tables {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            print();
        }
    }
}

fn null_counts() {
    let lines = [100_032, 1_000_000].map(|rows| {
        let goal = if rows == 1_000_000 { Goal::Within(1.2) } else { Goal::Ahead };
        (format!("count_null, {} rows", table::grouped(rows)), nulls::race(rows, EACH), goal)
    });
    print("Nulls counted, us", "function", MICROS, &lines);
}

fn aggregate_table<T: Element>() {
    let values = values::<T>(CACHED);
    let columns: Vec<(Nulls, Column<T>)> =
        shapes().map(|nulls| (nulls, Column::new(&values, nulls))).collect();
    for function in Function::ALL {
        let lines: Vec<_> = columns
            .iter()
            .map(|(nulls, column)| {
                let figures = aggregates::race(function, column, *nulls, EACH);
                (nulls.to_string(), figures, aggregates::goal::<T>(function, *nulls))
            })
            .collect();
        print(&format!("{} of 100k {}, us", function.name(), T::NAME), "nulls", MICROS, &lines);
    }
}

/// The rates of nulls, each row null by itself.
fn rates() -> impl Iterator<Item = Nulls> {
    shapes().filter(|nulls| nulls.percent == 0 || nulls.pattern == Pattern::Random)
}

fn filter_table<T: Element>() {
    let values = values::<T>(CACHED);
    let column = Column::new(&values, Nulls::NONE);
    let goal = Goal::Times(Role::Rival, 10.0);
    let mut lines: Vec<_> = filters::OPS
        .into_iter()
        .map(|op| (op.0.to_owned(), filters::race(op, &column, Nulls::NONE, EACH), goal))
        .collect();
    for nulls in rates().skip(1) {
        let column = Column::new(&values, nulls);
        let figures = filters::race(filters::OPS[0], &column, nulls, EACH);
        lines.push((format!("gt, nulls {nulls}"), figures, goal));
    }
    print(&format!("filter of 100k {} to a mask, us", T::NAME), "filter", MICROS, &lines);
}

fn sum_table<T: Element>() {
    let values = values::<T>(CACHED);
    let lines: Vec<_> = rates()
        .map(|nulls| {
            let figures = filters::race_sum(&Column::new(&values, nulls), nulls, EACH);
            (nulls.to_string(), figures, Goal::Times(Role::Rival, 13.0))
        })
        .collect();
    print(&format!("gt and sum of 100k {}, us", T::NAME), "nulls", MICROS, &lines);
}

/// In nanoseconds for a row, as the goals are.
fn group_table() {
    let values = values::<i64>(CACHED);
    let goal = |groups: groups::Groups| match groups.count {
        4 => Goal::Within(0.3),
        4096 => Goal::Within(0.65),
        _ => Goal::Within(0.6),
    };
    let half = Nulls { percent: 50, pattern: Pattern::Random };
    let lines: Vec<_> = groups::all()
        .map(|groups| (groups.to_string(), groups::race(groups, &values, Nulls::NONE, EACH), goal(groups)))
        .chain(groups::all().step_by(2).map(|groups| {
            let figures = groups::race(groups, &values, half, EACH);
            (format!("{groups}, nulls {half}"), figures, Goal::Ahead)
        }))
        .collect();
    print("sums of 100k i64 by group, ns a row", "groups", NANOS * CACHED as f64, &lines);
}

fn memory_table<T: Element>() {
    let rows = if timing::small() { CACHED } else { LARGE };
    let values = values::<T>(rows);
    let mut lines = Vec::new();
    for nulls in rates() {
        let column = Column::new(&values, nulls);
        let figures = aggregates::race(Function::Sum, &column, nulls, EACH_LARGE);
        lines.push((format!("sum, nulls {nulls}"), figures, Goal::Ahead));
        if nulls.percent == 0 {
            for function in [Function::CountNonzero, Function::Min] {
                let figures = aggregates::race(function, &column, nulls, EACH_LARGE);
                lines.push((function.name().to_owned(), figures, Goal::Ahead));
            }
            let figures = filters::race(filters::OPS[0], &column, nulls, EACH_LARGE);
            lines.push(("gt to a mask".to_owned(), figures, Goal::Ahead));
        }
        if [0, 50].contains(&nulls.percent) {
            let figures = filters::race_sum(&column, nulls, EACH_LARGE);
            lines.push((format!("gt and sum, nulls {nulls}"), figures, Goal::Times(Role::Rival, 5.0)));
        }
    }
    let title = format!("from memory, {} {}, ms", table::grouped(rows), T::NAME);
    print(&title, "function", MILLIS, &lines);
}

fn group_memory_table() {
    let rows = if timing::small() { CACHED } else { LARGE };
    let values = values::<i64>(rows);
    let uniform = groups::all().step_by(2);
    let lines: Vec<_> = uniform
        .map(|groups| {
            let figures = groups::race(groups, &values, Nulls::NONE, EACH_LARGE);
            (groups.to_string(), figures, Goal::Ahead)
        })
        .collect();
    let title = format!("from memory, sums of {} i64 by group, ms", table::grouped(rows));
    print(&title, "groups", MILLIS, &lines);
}
