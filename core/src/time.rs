//! Dates and timestamps as text (ISO 8601), by the proleptic Gregorian calendar.
//!
//! The calendar's arithmetic counts days from a March that starts a 400-year era, so that the leap day is
//! the last of its year.

use crate::invariant::Invariant;

const DAYS_OF_ERA: i64 = 146_097;
/// From 0000-03-01 to 1970-01-01.
const EPOCH: i64 = 719_468;
pub(crate) const MICROS_OF_DAY: i64 = 86_400_000_000;

pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * DAYS_OF_ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - EPOCH
}

pub(crate) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH;
    let (era, day_of_era) = (days.div_euclid(DAYS_OF_ERA), days.rem_euclid(DAYS_OF_ERA));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// `2013-07-04` as days since 1970-01-01; `None` when it is no such date.
pub fn parse_date(text: &str) -> Option<i32> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let mut parts = digits.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || !(4..=6).contains(&year.len()) {
        return None;
    }
    let (year, month, day) = (sign * number(year)?, number(month)?, number(day)?);
    let days = days_from_civil(year, month, day);
    let exists = (1..=12).contains(&month) && civil_from_days(days) == (year, month, day);
    i32::try_from(days).ok().filter(|_| exists)
}

fn number(digits: &str) -> Option<i64> {
    if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// `2013-07-04`, `2013-07-04 10:00`, `2013-07-04T10:00:00.25Z`, `...+02:00` as microseconds since
/// 1970-01-01T00:00:00Z; without a zone it is UTC. `None` when it is no such time.
pub fn parse_timestamp(text: &str) -> Option<i64> {
    let Some(at) = text.find(['T', 't', ' ']) else {
        return i64::from(parse_date(text)?).checked_mul(MICROS_OF_DAY);
    };
    let days = parse_date(&text[..at])?;
    let mut clock = &text[at + 1..];
    let mut offset_minutes = 0;
    if let Some(rest) = clock.strip_suffix(['Z', 'z']) {
        clock = rest;
    } else if let Some(at) = clock.rfind(['+', '-']) {
        let (hours, minutes) = clock[at + 1..].split_once(':')?;
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        if hours > 23 || minutes > 59 {
            return None;
        }
        let minutes = hours * 60 + minutes;
        offset_minutes = if clock[at..].starts_with('-') { -minutes } else { minutes };
        clock = &clock[..at];
    }
    let mut parts = clock.split(':');
    let (hour, minute) = (number(parts.next()?)?, number(parts.next()?)?);
    let (second, micros) = match parts.next() {
        None => (0, 0),
        Some(seconds) => {
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
            if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            (number(whole)?, format!("{fraction:0<6}")[..6].parse::<i64>().ok()?)
        }
    };
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = hour * 3600 + (minute - offset_minutes) * 60 + second;
    i64::from(days).checked_mul(MICROS_OF_DAY)?.checked_add(seconds * 1_000_000 + micros)
}

/// Days since 1970-01-01 as `2013-07-04`; a year before 0 with its sign, one beyond 9999 with all its digits.
pub fn format_date(days: i32) -> String {
    let mut text = String::with_capacity(10);
    push_date(&mut text, days);
    text
}

/// Appends the same to a text.
pub fn push_date(text: &mut String, days: i32) {
    let (year, month, day) = civil_from_days(i64::from(days));
    if year < 0 {
        text.push('-');
    }
    let year = year.unsigned_abs();
    if year >= 10_000 {
        text.push_str(&(year / 10_000).to_string());
    }
    push_pair(text, year / 100 % 100);
    push_pair(text, year % 100);
    text.push('-');
    push_pair(text, month.unsigned_abs());
    text.push('-');
    push_pair(text, day.unsigned_abs());
}

/// Appends a number below 100 as two digits.
pub fn push_pair(text: &mut String, number: u64) {
    push_digit(text, number / 10);
    push_digit(text, number % 10);
}

/// Appends a number below 10.
pub fn push_digit(text: &mut String, digit: u64) {
    text.push(char::from(b'0' + digit.to_le_bytes()[0]));
}

/// Microseconds since 1970-01-01T00:00:00Z as `2013-07-04T10:00:00Z`.
pub fn format_timestamp(micros: i64) -> String {
    let (days, rest) = (micros.div_euclid(MICROS_OF_DAY), micros.rem_euclid(MICROS_OF_DAY));
    let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
    let date = format_date(i32::try_from(days).invariant("microseconds of 64 bits are days of 32"));
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:06}") };
    format!("{date}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{DATES, TIMESTAMPS};

    #[test]
    fn dates() {
        assert_eq!([*DATES.start(), *DATES.end()].map(format_date), ["0001-01-01", "9999-12-31"]);
        for days in [i32::MIN, i32::MAX] {
            assert_eq!(format_date(days).strip_prefix('-').is_some(), days < 0);
        }
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("2013-07-04", 15_890),
            ("0001-01-01", -719_162),
        ] {
            assert_eq!(parse_date(text), Some(days), "{text}");
            assert_eq!(format_date(days), text);
        }
        for text in [
            "2013-02-29",
            "2013-13-01",
            "2013-00-01",
            "2013-1-1x",
            "13-01-01",
            "",
            "2013-01",
            "2013-01-01-01",
        ] {
            assert_eq!(parse_date(text), None, "{text}");
        }
        for days in (-1_000_000..1_000_000).step_by(997) {
            assert_eq!(parse_date(&format_date(days)), Some(days));
        }
    }

    #[test]
    fn timestamps() {
        assert_eq!(format_timestamp(*TIMESTAMPS.start()), "0001-01-01T00:00:00Z");
        assert_eq!(format_timestamp(*TIMESTAMPS.end()), "9999-12-31T23:59:59.999999Z");
        assert_eq!(format_timestamp(i64::MAX), "294247-01-10T04:00:54.775807Z");
        let second = 1_000_000;
        for (text, micros) in [
            ("1970-01-01T00:00:01Z", second),
            ("1970-01-01 00:00:01.25", second + 250_000),
            ("1970-01-01T02:00:00+02:00", 0),
            ("1969-12-31T22:30:00-01:30", 0),
            ("1970-01-02", 86_400 * second),
            ("1969-12-31T23:59:59.999999Z", -1),
        ] {
            assert_eq!(parse_timestamp(text), Some(micros), "{text}");
            assert_eq!(parse_timestamp(&format_timestamp(micros)), Some(micros));
        }
        for text in [
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:60",
            "1970-01-01T",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00+24:00",
            "1970-01-01T00:00:00-01:60",
            "1970-01-01T00:00:00.٣Z",
            "é",
            "x",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }
}
