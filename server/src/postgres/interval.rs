//! Intervals in PostgreSQL's forms.

use std::fmt::Write as _;

use arrow_array::types::IntervalMonthDayNano;
use bytes::{BufMut as _, BytesMut};

/// Nanoseconds of what PostgreSQL counts in.
const MICROSECOND: i64 = 1000;

/// As PostgreSQL writes them where nothing else is set: `1 year 2 mons 3 days 04:05:06.789`. What is not below zero behind what is
/// has a sign.
pub(super) fn text(interval: IntervalMonthDayNano) -> String {
    let (mut text, mut is_behind_minus) = (String::new(), false);
    let parts = [(interval.months / 12, "year"), (interval.months % 12, "mon"), (interval.days, "day")];
    for (value, unit) in parts.into_iter().filter(|(value, _)| *value != 0) {
        let space = if text.is_empty() { "" } else { " " };
        let sign = if is_behind_minus && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        // Writing to memory does not fail.
        let _ = write!(text, "{space}{sign}{value} {unit}{plural}");
        is_behind_minus = value < 0;
    }
    let micros = interval.nanoseconds / MICROSECOND;
    if micros == 0 && !text.is_empty() {
        return text;
    }
    let space = if text.is_empty() { "" } else { " " };
    let sign = match micros < 0 {
        true => "-",
        false if is_behind_minus => "+",
        false => "",
    };
    let all = micros.unsigned_abs();
    let (seconds, fraction) = (all / 1_000_000, all % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let _ = write!(text, "{space}{sign}{hours:02}:{minutes:02}:{seconds:02}");
    if fraction > 0 {
        let _ = write!(text, ".{}", format!("{fraction:06}").trim_end_matches('0'));
    }
    text
}

/// Microseconds, days and months.
pub(super) fn binary(interval: IntervalMonthDayNano, out: &mut BytesMut) {
    out.put_i64(interval.nanoseconds / MICROSECOND);
    out.put_i32(interval.days);
    out.put_i32(interval.months);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::types::{SPAN, parameter};

    #[test]
    fn intervals_in_both_forms() {
        let clock =
            |hours: i64, minutes: i64, millis: i64| ((hours * 60 + minutes) * 60_000 + millis) * 1_000_000;
        for (months, days, nanos, written) in [
            (0, 0, 0, "00:00:00"),
            (0, 0, 999, "00:00:00"),
            (14, 3, clock(4, 5, 6789), "1 year 2 mons 3 days 04:05:06.789"),
            (1, 1, 0, "1 mon 1 day"),
            (24, 0, 0, "2 years"),
            (-14, 3, -clock(4, 5, 6000), "-1 years -2 mons +3 days -04:05:06"),
            (-1, 0, clock(0, 0, 1), "-1 mons +00:00:00.001"),
            (-12, 3, clock(1, 0, 0), "-1 years +3 days 01:00:00"),
            (0, -1, clock(23, 0, 0), "-1 days +23:00:00"),
            (0, 0, -1_000_000_000, "-00:00:01"),
            (0, 0, clock(2_562_047, 0, 0), "2562047:00:00"),
            (0, 0, 120_000, "00:00:00.00012"),
        ] {
            let interval = IntervalMonthDayNano::new(months, days, nanos);
            assert_eq!(text(interval), written);
            let mut out = BytesMut::new();
            binary(interval, &mut out);
            // What is sent back says the same.
            let read = parameter(SPAN, 1, &out.freeze()).unwrap();
            let said = format!("{months} months {days} days {} microseconds", nanos / 1000);
            assert_eq!(read, basalt_core::query::Literal::Text(said));
        }
    }
}
