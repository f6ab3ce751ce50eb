//! What a load came to: a table for people, JSON for programs.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    mix::{Mix, Operation},
    recorder::{Latencies, Tally, Wrong},
};
use crate::cli::{grid::Grid, human, style::Style};

/// A finished load.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) addresses: Vec<String>,
    pub(super) server: String,
    pub(super) simd: String,
    pub(super) events: u64,
    pub(super) mix: Mix,
    /// Requests a second; `None`: as many as got done.
    pub(super) rate: Option<f64>,
    pub(super) connections: usize,
    /// Those of heavy queries beside the mix.
    pub(super) beside: usize,
    pub(super) warm_up: Duration,
    /// From the end of the warm-up to the last answer.
    pub(super) measured: Duration,
    pub(super) tallies: Vec<(Operation, Tally)>,
    /// How long after their times requests began.
    pub(super) late: Latencies,
    pub(super) wrong: Wrong,
    pub(super) writes: Writes,
}

/// What became of the rows that a load wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Writes {
    pub(super) acknowledged: u64,
    /// Rows of writes that failed: they may be there or not.
    pub(super) unknown: u64,
    /// Rows that are there.
    pub(super) found: u64,
    /// Different rows that are there.
    pub(super) distinct: u64,
}

impl Writes {
    /// Whether nothing acknowledged is missing, nothing is there twice, and nothing came from nowhere.
    pub(super) fn hold(&self) -> bool {
        let possible = self.acknowledged..=self.acknowledged + self.unknown;
        possible.contains(&self.found) && self.found == self.distinct
    }
}

/// The percentiles of the table and of the JSON.
const PERCENTILES: [(f64, &str); 5] =
    [(50.0, "p50"), (90.0, "p90"), (99.0, "p99"), (99.9, "p99.9"), (99.99, "p99.99")];
/// How many of them the table shows.
const IN_TABLE: usize = 4;

impl Report {
    pub(super) fn failed(&self) -> u64 {
        self.tallies.iter().map(|(_, tally)| tally.failed()).sum()
    }

    /// Whether every answer was the truth, and every acknowledged row is there once.
    pub(super) fn is_right(&self) -> bool {
        self.wrong.count == 0 && self.writes.hold()
    }

    /// The report as people read it.
    pub(super) fn text(&self, style: Style) -> String {
        let load = match self.rate {
            Some(rate) => format!("open, {rate} requests a second"),
            None => "closed".to_owned(),
        };
        let mut text = format!(
            "{}  {load}, {}{} over {}, {} after {} of warm-up\n\n",
            style.bold("Load"),
            human::plural(self.connections as u64, "connection"),
            match self.beside {
                0 => String::new(),
                beside => format!(" beside {beside} of heavy queries"),
            },
            self.addresses.join(", "),
            human::duration(self.measured),
            human::duration(self.warm_up),
        );
        let numbers = ["answered", "failed", "retries", "a second"].map(|header| (header, true));
        let percentiles = PERCENTILES.iter().take(IN_TABLE).map(|(_, name)| (*name, true));
        let headers = [("operation", false)].into_iter().chain(numbers).chain(percentiles);
        let mut grid = Grid::new(headers.chain([("max", true)]));
        for (operation, tally) in &self.tallies {
            let latencies = &tally.latencies;
            let numbers = [latencies.len(), tally.failed(), tally.retries].map(human::count);
            let rate = format!("{:.1}", self.per_second(latencies.len()));
            let at = |percentile: &(f64, &str)| shown(latencies.value_at_percentile(percentile.0));
            let cells = [operation.name().to_owned()].into_iter().chain(numbers).chain([rate]);
            let cells = cells.chain(PERCENTILES.iter().take(IN_TABLE).map(at));
            grid.row(cells.chain([shown(latencies.max())]));
        }
        text.push_str(&grid.render());
        text.push('\n');
        for (operation, tally) in &self.tallies {
            for (reason, count) in &tally.errors {
                text.push_str(&format!("  {} {reason}: {}\n", operation.name(), human::count(*count)));
            }
        }
        if self.rate.is_some() {
            let late = &self.late;
            let (p99, max) = (shown(late.value_at_percentile(99.0)), shown(late.max()));
            text.push_str(&format!("  begun after their times: p99 {p99}, max {max} (in the latencies)\n"));
        }
        text.push_str(&self.verdict(style));
        text
    }

    fn verdict(&self, style: Style) -> String {
        let Writes { acknowledged, unknown, found, distinct } = self.writes;
        let mut lines = Vec::new();
        if acknowledged + unknown > 0 {
            let perhaps = if unknown > 0 { format!(" ({unknown} unknown)") } else { String::new() };
            lines.push(format!(
                "  rows written: {} acknowledged{perhaps}, {} there, {} of them different",
                human::count(acknowledged),
                human::count(found),
                human::count(distinct)
            ));
        }
        lines.push(match self.wrong.count {
            0 if self.writes.hold() => format!("  {}", style.green("every answer was right")),
            0 => format!("  {}", style.red("rows are missing or there twice")),
            wrong => format!("  {}", style.red(&human::plural(wrong, "wrong answer"))),
        });
        lines.extend(self.wrong.examples.iter().map(|example| format!("    {example}")));
        lines.join("\n") + "\n"
    }

    /// The report as programs read it: counts, seconds and microseconds.
    pub(super) fn json(&self) -> Value {
        let operations: Vec<Value> =
            self.tallies.iter().map(|(operation, tally)| self.operation(*operation, tally)).collect();
        let Writes { acknowledged, unknown, found, distinct } = self.writes;
        json!({
            "addresses": self.addresses,
            "server": { "version": self.server, "simd": self.simd },
            "events": self.events,
            "mix": self.mix.to_string(),
            "rate": self.rate,
            "connections": self.connections,
            "beside": self.beside,
            "warm_up_s": self.warm_up.as_secs_f64(),
            "measured_s": self.measured.as_secs_f64(),
            "operations": operations,
            "failed": self.failed(),
            "begun_late_us": microseconds(&self.late),
            "rows_written": {
                "acknowledged": acknowledged, "unknown": unknown, "found": found, "distinct": distinct,
            },
            "wrong_answers": { "count": self.wrong.count, "examples": self.wrong.examples },
            "right": self.is_right(),
        })
    }

    fn operation(&self, operation: Operation, tally: &Tally) -> Value {
        json!({
            "name": operation.name(),
            "answered": tally.latencies.len(),
            "failed": tally.failed(),
            "errors": tally.errors,
            "retries": tally.retries,
            "per_second": self.per_second(tally.latencies.len()),
            "latency_us": microseconds(&tally.latencies),
            "failed_us": microseconds(&tally.failures),
        })
    }

    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.measured.as_secs_f64().max(1e-9)
    }
}

fn microseconds(latencies: &Latencies) -> Value {
    let us = |ns: u64| json!(ns as f64 / 1e3);
    let mut all = json!({ "mean": latencies.mean() / 1e3, "max": us(latencies.max()) });
    for (percentile, name) in PERCENTILES {
        all[name] = us(latencies.value_at_percentile(percentile));
    }
    all
}

/// A latency for people; nothing is shown where there was no request.
fn shown(nanoseconds: u64) -> String {
    if nanoseconds == 0 { "-".to_owned() } else { human::duration(Duration::from_nanos(nanoseconds)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_hold_or_do_not() {
        let writes =
            |acknowledged, unknown, found, distinct| Writes { acknowledged, unknown, found, distinct };
        assert!(Writes::default().hold());
        assert!(writes(10, 0, 10, 10).hold());
        assert!(writes(10, 5, 10, 10).hold() && writes(10, 5, 15, 15).hold());
        assert!(!writes(10, 0, 9, 9).hold(), "lost");
        assert!(!writes(10, 0, 11, 11).hold(), "from nowhere");
        assert!(!writes(10, 5, 15, 10).hold(), "twice");
    }
}
