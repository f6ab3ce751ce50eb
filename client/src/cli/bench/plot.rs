//! Latencies as a picture: percentiles on a logarithmic axis that gives every further nine the same room, one
//! line for each operation, in SVG 1.1. Colours follow the reader's light or dark scheme.

use std::fmt::Write as _;

use super::{
    mix::Operation,
    recorder::{Latencies, Tally},
    report::Report,
};
use crate::cli::human;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 480.0;
/// The plot's edges: left, right, top, bottom.
const LEFT: f64 = 76.0;
const RIGHT: f64 = WIDTH - 140.0;
const TOP: f64 = 76.0;
const BOTTOM: f64 = HEIGHT - 56.0;
/// Points of a line for each nine.
const POINTS_A_NINE: u32 = 40;
/// Between the names at the lines' ends, at least.
const LINE_HEIGHT: f64 = 16.0;

const STYLE: &str = "\
text { font: 13px system-ui, sans-serif; fill: #2b2f36 }
.paper { fill: #ffffff } .grid { stroke: #e5e7eb } .line { fill: none; stroke-width: 2.25; stroke-linejoin: round }
.title { font-size: 18px; font-weight: 600 } .dim { fill: #6b7280 }
.line { stroke: currentColor } .name { fill: currentColor }
.point { color: #0072b2 } .filter { color: #008a63 } .group { color: #d55e00 }
.semi-join { color: #a33d90 } .write { color: #946c00 } .heavy { color: #5b6470 }
@media (prefers-color-scheme: dark) {
  text { fill: #e5e7eb } .paper { fill: #14171c } .grid { stroke: #2b313a } .dim { fill: #9ca3af }
  .name { fill: currentColor }
  .point { color: #56b4e9 } .filter { color: #2fd6a3 } .group { color: #ff8c42 }
  .semi-join { color: #e48ad4 } .write { color: #f0c94d } .heavy { color: #aab2bd }
}";

/// The picture of a report.
pub(super) fn svg(report: &Report) -> String {
    let lines: Vec<(Operation, &Tally)> =
        report.tallies.iter().filter(|(_, t)| !t.latencies.is_empty()).map(|(o, t)| (*o, t)).collect();
    let axes = Axes::new(lines.iter().map(|(_, tally)| &tally.latencies));
    let load = match report.rate {
        Some(rate) => format!("{rate} requests a second"),
        None => format!("closed, {} connections", report.connections),
    };
    let about = format!(
        "{load} · {} · {} · {} events",
        report.mix,
        human::duration(report.measured),
        human::count(report.events)
    );
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Latency by percentile\">\n<style>\n{STYLE}\n</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"34\">Latency by percentile</text>\n\
         <text class=\"dim\" x=\"{LEFT}\" y=\"55\">{about}</text>\n"
    );
    axes.draw(&mut out);
    let mut names = Vec::new();
    for (operation, tally) in lines {
        let path = axes.path(&tally.latencies);
        let class = operation.name();
        let _ = writeln!(out, "<path class=\"line {class}\" d=\"{path}\"/>");
        names.push((axes.y(tally.latencies.max()), class, tally.latencies.max()));
    }
    for (y, class, max) in spread(names) {
        let (x, y) = (RIGHT + 8.0, y + 4.5);
        let max = human::duration(std::time::Duration::from_nanos(max));
        let _ = writeln!(out, "<text class=\"name {class}\" x=\"{x}\" y=\"{y:.1}\">{class} {max}</text>");
    }
    out.push_str("</svg>\n");
    out
}

/// Moves names apart that would stand on each other, downwards and then back into the picture.
fn spread(mut names: Vec<(f64, &str, u64)>) -> Vec<(f64, &str, u64)> {
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut next = TOP;
    for (y, ..) in &mut names {
        *y = y.max(next);
        next = *y + LINE_HEIGHT;
    }
    let mut last = BOTTOM;
    for (y, ..) in names.iter_mut().rev() {
        *y = y.min(last);
        last = *y - LINE_HEIGHT;
    }
    names
}

/// What the edges of the plot stand for.
struct Axes {
    /// Nines at the right edge: 3 is 99.9 %.
    nines: u32,
    /// Powers of ten, in nanoseconds, at the bottom and at the top.
    decades: (i32, i32),
}

impl Axes {
    fn new<'a>(lines: impl Iterator<Item = &'a Latencies>) -> Self {
        let (mut count, mut least, mut most) = (1, u64::MAX, 1);
        for latencies in lines {
            count = count.max(latencies.len());
            least = least.min(latencies.min().max(1));
            most = most.max(latencies.max());
        }
        // Without a line: from 0.1 to 1 ms.
        let (least, most) = if least == u64::MAX { (100_000, 1_000_000) } else { (least, most) };
        let bottom = least.ilog10().cast_signed();
        let top = most.ilog10().cast_signed() + 1;
        Self { nines: count.ilog10().clamp(2, 6), decades: (bottom, top.max(bottom + 1)) }
    }

    /// Where `1 - 10^-nines` of the requests are.
    fn x(&self, nines: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * nines / f64::from(self.nines)
    }

    fn y(&self, nanoseconds: u64) -> f64 {
        let (bottom, top) = self.decades;
        let decade = (nanoseconds.max(1) as f64).log10() - f64::from(bottom);
        BOTTOM - (BOTTOM - TOP) * decade / f64::from(top - bottom)
    }

    fn path(&self, latencies: &Latencies) -> String {
        let mut path = String::new();
        for step in 0..=self.nines * POINTS_A_NINE {
            let nines = f64::from(step) / f64::from(POINTS_A_NINE);
            let value = latencies.value_at_quantile(1.0 - 10_f64.powf(-nines));
            let command = if step == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", self.x(nines), self.y(value));
        }
        path
    }

    fn draw(&self, out: &mut String) {
        let (bottom, top) = self.decades;
        for decade in bottom..=top {
            let y = BOTTOM - (BOTTOM - TOP) * f64::from(decade - bottom) / f64::from(top - bottom);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"dim\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 10.0,
                y + 4.5,
                power_of_ten(decade)
            );
        }
        let nines = (0..=self.nines).map(|nines| (f64::from(nines), percent(nines)));
        for (nines, label) in nines.chain([(2_f64.log10(), "50 %".to_owned())]) {
            let x = self.x(nines);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>\
                 <text class=\"dim\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
                BOTTOM + 22.0
            );
        }
        let _ = writeln!(
            out,
            "<text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">of the requests took at most this long</text>",
            (LEFT + RIGHT) / 2.0,
            BOTTOM + 44.0
        );
    }
}

/// `10^decade` nanoseconds: `100 us`.
fn power_of_ten(decade: i32) -> String {
    let (unit, digits) = match decade {
        ..3 => ("ns", decade),
        3..6 => ("us", decade - 3),
        6..9 => ("ms", decade - 6),
        9.. => ("s", decade - 9),
    };
    format!("{} {unit}", 10_f64.powi(digits))
}

/// `1 - 10^-nines` in percent: `99.9 %`.
fn percent(nines: u32) -> String {
    match nines {
        0 => "0 %".to_owned(),
        1 => "90 %".to_owned(),
        2 => "99 %".to_owned(),
        more => format!("99.{} %", "9".repeat(more as usize - 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::recorder::latencies;

    #[test]
    fn axes_hold_every_latency() {
        let mut some = latencies().unwrap();
        for ns in [12_000, 150_000, 31_000_000] {
            some.record(ns).unwrap();
        }
        let axes = Axes::new([&some].into_iter());
        assert_eq!((axes.nines, axes.decades), (2, (4, 8)));
        assert_eq!((axes.y(10_000), axes.y(100_000_000)), (BOTTOM, TOP));
        assert_eq!((axes.x(0.0), axes.x(2.0)), (LEFT, RIGHT));
        assert!(axes.path(&some).starts_with(&format!("M{:.1} ", axes.x(0.0))));
        assert_eq!(Axes::new(std::iter::empty()).decades, (5, 7));
    }

    #[test]
    fn labels() {
        assert_eq!(
            [2, 3, 5, 6, 9, 10].map(power_of_ten),
            ["100 ns", "1 us", "100 us", "1 ms", "1 s", "10 s"]
        );
        assert_eq!([0, 1, 2, 3, 4].map(percent), ["0 %", "90 %", "99 %", "99.9 %", "99.99 %"]);
    }

    #[test]
    fn names_do_not_stand_on_each_other() {
        let names = vec![(BOTTOM, "a", 1), (BOTTOM - 1.0, "b", 2), (TOP, "c", 3), (TOP - 5.0, "d", 4)];
        let ys: Vec<f64> = spread(names).iter().map(|(y, ..)| *y).collect();
        assert!(ys.windows(2).all(|pair| pair[1] - pair[0] >= LINE_HEIGHT), "{ys:?}");
        assert!(ys[0] >= TOP && ys[3] <= BOTTOM, "{ys:?}");
    }
}
