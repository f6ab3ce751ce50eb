//! Intervals as text: how they are read and written. Months, days and the time are kept apart, as in PostgreSQL; what is
//! less than a whole month or day goes on as days of a month of 30, and as time of a day of 24 hours.

use std::fmt::Write as _;

use arrow_array::types::IntervalMonthDayNano;
use basalt_core::time::{push_digit, push_pair};

const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * SECOND;
const MONTH_DAYS: i128 = 30;

/// What a unit is of: months, days or nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Months(i128),
    Days(i128),
    Nanos(i128),
}

fn unit(name: &str) -> Option<Unit> {
    Some(match name.to_lowercase().as_str() {
        "millennium" | "millennia" | "millenium" | "millenniums" => Unit::Months(12_000),
        "c" | "cent" | "century" | "centuries" => Unit::Months(1200),
        "dec" | "decs" | "decade" | "decades" => Unit::Months(120),
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Months(12),
        "quarter" | "quarters" => Unit::Months(3),
        "mon" | "mons" | "month" | "months" => Unit::Months(1),
        "w" | "week" | "weeks" => Unit::Days(7),
        "d" | "day" | "days" => Unit::Days(1),
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Nanos(3600 * SECOND),
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Nanos(60 * SECOND),
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Nanos(SECOND),
        "ms" | "msec" | "msecs" | "mseconds" | "msecond" | "millisecond" | "milliseconds" => {
            Unit::Nanos(1_000_000)
        }
        "us" | "usec" | "usecs" | "useconds" | "usecond" | "microsecond" | "microseconds" => {
            Unit::Nanos(1000)
        }
        "ns" | "nanosecond" | "nanoseconds" => Unit::Nanos(1),
        _ => return None,
    })
}

/// A number with what stands behind its point, in parts of 10^18.
const PARTS: i128 = 1_000_000_000_000_000_000;

fn number(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let negative = whole.starts_with('-');
    let whole = whole.trim_start_matches(['-', '+']);
    if whole.len() + fraction.len() == 0 || whole.len() > 18 || fraction.len() > 18 {
        return None;
    }
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: i128 = format!("{fraction:0<18}").parse().ok()?;
    let value = whole * PARTS + fraction;
    Some(if negative { -value } else { value })
}

#[derive(Debug, Default)]
struct Sum {
    months: i128,
    days: i128,
    nanos: i128,
}

impl Sum {
    fn add(&mut self, parts: i128, unit: Unit) -> Option<()> {
        match unit {
            Unit::Months(each) => {
                let parts = parts.checked_mul(each)?;
                self.months += parts / PARTS;
                self.add_days(parts % PARTS * MONTH_DAYS);
            }
            Unit::Days(each) => self.add_days(parts.checked_mul(each)?),
            Unit::Nanos(each) => self.nanos += multiplied(parts, each)?,
        }
        Some(())
    }

    fn add_days(&mut self, parts: i128) {
        self.days += parts / PARTS;
        // Less than a day: it fits.
        self.nanos += (parts % PARTS) * (DAY / SECOND) / (PARTS / SECOND);
    }

    fn finish(self) -> Option<IntervalMonthDayNano> {
        let months = i32::try_from(self.months).ok()?;
        let days = i32::try_from(self.days).ok()?;
        Some(IntervalMonthDayNano::new(months, days, i64::try_from(self.nanos).ok()?))
    }
}

/// `parts * each / PARTS` without what is less than one.
fn multiplied(parts: i128, each: i128) -> Option<i128> {
    let (whole, rest) = (parts / PARTS, parts % PARTS);
    // `rest` has 60 bits, `each` at most 42.
    whole.checked_mul(each)?.checked_add(rest * each / PARTS)
}

/// Hours, minutes and seconds: `12:30`, `-12:30:00.5`.
fn clock(text: &str) -> Option<i128> {
    let negative = text.starts_with('-');
    let mut fields = text.trim_start_matches(['-', '+']).split(':');
    let hours: i128 = fields.next().filter(|hours| hours.len() < 10)?.parse().ok()?;
    let minutes: i128 = fields.next().filter(|minutes| minutes.len() < 3)?.parse().ok()?;
    let seconds = match fields.next() {
        Some(seconds) => {
            multiplied(number(seconds).filter(|parts| (0..60 * PARTS).contains(parts))?, SECOND)?
        }
        None => 0,
    };
    if fields.next().is_some() || !(0..60).contains(&minutes) || hours < 0 {
        return None;
    }
    let nanos = (hours * 3600 + minutes * 60) * SECOND + seconds;
    Some(if negative { -nanos } else { nanos })
}

/// Reads an interval; a number without a unit is of `default`, or of seconds.
pub(crate) fn parse(text: &str, default: Option<&str>) -> Option<IntervalMonthDayNano> {
    let mut text = text.trim();
    let ago = text.len() > 3
        && text.is_char_boundary(text.len() - 3)
        && text[text.len() - 3..].eq_ignore_ascii_case("ago");
    if ago {
        text = text[..text.len() - 3].trim_end();
    }
    if text.is_empty() {
        return None;
    }
    // Python writes `1 day, 2:00:00`.
    let parts = |c: char| c.is_whitespace() || c == ',';
    let mut sum = Sum::default();
    let mut rest = text.trim_start_matches('@').trim_start();
    while !rest.is_empty() {
        let end = rest
            .char_indices()
            .find(|(at, c)| {
                !(c.is_ascii_digit() || matches!(c, '.' | ':') || (*at == 0 && matches!(c, '-' | '+')))
            })
            .map_or(rest.len(), |(at, _)| at);
        let (value, behind) = rest.split_at(end);
        if value.contains(':') {
            sum.nanos += clock(value)?;
            rest = behind.trim_start_matches(parts);
            continue;
        }
        let behind = behind.trim_start();
        let end = behind.find(|c: char| !c.is_alphabetic()).unwrap_or(behind.len());
        let (name, behind) = behind.split_at(end);
        let unit = match name {
            "" => unit(default.unwrap_or("second"))?,
            name if default.is_none() => unit(name)?,
            _ => return None,
        };
        sum.add(number(value)?, unit)?;
        rest = behind.trim_start_matches(parts);
    }
    if ago {
        sum = Sum { months: -sum.months, days: -sum.days, nanos: -sum.nanos };
    }
    sum.finish()
}

/// So many of a unit.
pub(crate) fn of_unit(value: i64, name: &str) -> Option<IntervalMonthDayNano> {
    let mut sum = Sum::default();
    sum.add(i128::from(value).checked_mul(PARTS)?, unit(name)?)?;
    sum.finish()
}

/// The interval the other way.
pub(crate) fn negated(interval: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let months = interval.months.checked_neg()?;
    Some(IntervalMonthDayNano::new(months, interval.days.checked_neg()?, interval.nanoseconds.checked_neg()?))
}

/// So many times as long; `None` where that is longer than intervals are.
pub(crate) fn times(interval: IntervalMonthDayNano, times: i64) -> Option<IntervalMonthDayNano> {
    let whole = |part: i32| i32::try_from(i64::from(part).checked_mul(times)?).ok();
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    Some(IntervalMonthDayNano::new(whole(months)?, whole(days)?, nanoseconds.checked_mul(times)?))
}

/// A number by which intervals are in their order: a month has 30 days, a day 24 hours.
pub(crate) fn order(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * MONTH_DAYS + i128::from(interval.days);
    days * DAY + i128::from(interval.nanoseconds)
}

/// Bytes that are in the order of intervals; those that are equal are in that of their months and days.
pub(crate) fn bytes(interval: IntervalMonthDayNano) -> [u8; 24] {
    let mut bytes = [0; 24];
    // What is negative comes first.
    bytes[..16].copy_from_slice(&(order(interval) ^ i128::MIN).to_be_bytes());
    bytes[16..20].copy_from_slice(&(interval.months ^ i32::MIN).to_be_bytes());
    bytes[20..].copy_from_slice(&(interval.days ^ i32::MIN).to_be_bytes());
    bytes
}

/// The interval of such bytes; `None`: they are of none.
pub(crate) fn of_bytes(bytes: &[u8]) -> Option<IntervalMonthDayNano> {
    let (order, rest) = bytes.split_first_chunk::<16>()?;
    let (months, rest) = rest.split_first_chunk::<4>()?;
    let (days, _) = rest.split_first_chunk::<4>()?;
    let of_days = IntervalMonthDayNano::new(
        i32::from_be_bytes(*months) ^ i32::MIN,
        i32::from_be_bytes(*days) ^ i32::MIN,
        0,
    );
    let nanos = (i128::from_be_bytes(*order) ^ i128::MIN) - self::order(of_days);
    Some(IntervalMonthDayNano::new(of_days.months, of_days.days, i64::try_from(nanos).ok()?))
}

/// How many nanoseconds it has, where a whole year has 365.25 days and a month beside it 30.
pub(crate) fn length(interval: IntervalMonthDayNano) -> i128 {
    let (years, months) = (i128::from(interval.months / 12), i128::from(interval.months % 12));
    let days = months * MONTH_DAYS + i128::from(interval.days);
    // A quarter of a day for each year is a leap day in four of them.
    (years * 1461 * DAY) / 4 + days * DAY + i128::from(interval.nanoseconds)
}

/// As text: `2 years 1 month -3 days 05:01:03.02`.
pub(crate) fn text(interval: IntervalMonthDayNano) -> String {
    let mut text = String::new();
    let parts = [(interval.months / 12, "year"), (interval.months % 12, "month"), (interval.days, "day")];
    for (value, unit) in parts.into_iter().filter(|(value, _)| *value != 0) {
        let plural = if value.abs() == 1 { "" } else { "s" };
        let _ = write!(text, "{value} {unit}{plural} ");
    }
    if interval.nanoseconds != 0 || text.is_empty() {
        text.push_str(&time(interval.nanoseconds));
    }
    text.truncate(text.trim_end().len());
    text
}

/// A time as text, without zeros at its end.
pub(crate) fn time(nanoseconds: i64) -> String {
    let mut text = String::new();
    push_time(&mut text, nanoseconds);
    text
}

/// Appends the same to a text.
pub(crate) fn push_time(text: &mut String, nanoseconds: i64) {
    if nanoseconds < 0 {
        text.push('-');
    }
    let nanos = nanoseconds.unsigned_abs();
    let (seconds, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let hours = seconds / 3600;
    if hours >= 100 {
        text.push_str(&(hours / 100).to_string());
    }
    push_pair(text, hours % 100);
    text.push(':');
    push_pair(text, seconds / 60 % 60);
    text.push(':');
    push_pair(text, seconds % 60);
    if fraction > 0 {
        text.push('.');
        for pair in [10_000_000, 100_000, 1000, 10] {
            push_pair(text, fraction / pair % 100);
        }
        push_digit(text, fraction % 10);
        text.truncate(text.trim_end_matches('0').len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_order_of_intervals_and_all_of_each() {
        let least = IntervalMonthDayNano::new(i32::MIN, i32::MIN, i64::MIN);
        let most = IntervalMonthDayNano::new(i32::MAX, i32::MAX, i64::MAX);
        let texts = [
            "-1 month",
            "-1 second",
            "0 days",
            "1 second",
            "24 hours",
            "1 day",
            "720 hours",
            "30 days",
            "1 month",
        ];
        let known = texts.iter().map(|text| parse(text, None).unwrap());
        let all: Vec<_> = [least].into_iter().chain(known).chain([most]).collect();
        for pair in all.windows(2) {
            assert!(bytes(pair[0]) < bytes(pair[1]), "{pair:?}");
        }
        for interval in all {
            assert_eq!(of_bytes(&bytes(interval)), Some(interval));
        }
        assert_eq!(of_bytes(&[0; 23]), None);
    }

    #[test]
    fn intervals_are_read_and_written() {
        for (read, written) in [
            ("2 years", "2 years"),
            ("2Y 1 month 1 M 3S 20mS 16uS", "2 years 1 month 00:01:03.020016"),
            ("-2Y 4 days 5 hours", "-2 years 4 days 05:00:00"),
            ("1 day 02:03:04.5", "1 day 02:03:04.5"),
            ("2Y 4 days 1 minute ago", "-2 years -4 days -00:01:00"),
            ("0.05 month", "1 day 12:00:00"),
            ("1.5 years", "1 year 6 months"),
            ("0.05 weeks", "08:24:00"),
            ("42", "00:00:42"),
            ("14 months", "1 year 2 months"),
            ("0 days", "00:00:00"),
            ("-1 day, 23:00:00", "-1 day 23:00:00"),
        ] {
            assert_eq!(parse(read, None).map(text).as_deref(), Some(written), "{read}");
        }
        for wrong in [
            "",
            "x",
            "1 x",
            "1 day x",
            "1:2:3:4",
            "99999999999999999999 days",
            "1e3 days",
            "ago",
            "1..2 days",
        ] {
            assert_eq!(parse(wrong, None), None, "{wrong}");
        }
        assert_eq!(parse("3", Some("decades")).map(text).as_deref(), Some("30 years"));
        assert_eq!(parse("3 days", Some("day")), None);
        let month = parse("1 month", None).unwrap();
        assert_eq!(order(month), order(parse("30 days", None).unwrap()));
        assert_eq!(length(month), 30 * DAY);
        assert_eq!(length(parse("-1 year -1 month 1 second", None).unwrap()), -34_149_599 * SECOND);
    }
}
