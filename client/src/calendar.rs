//! Dates and timestamps as texts.
//!
//! Every value that a column can hold has a text: ISO 8601 in the proleptic Gregorian calendar, with a sign and as many
//! digits as it takes where the year is not one of 0000 to 9999 (`+12345-01-01`, `-0044-03-15`; the year before 0001 is
//! 0000). What is loaded lies within [`FIRST_DAY`] and [`LAST_DAY`], which every reader of Delta tables knows.

use std::fmt;

/// 0001-01-01 as days since 1970-01-01.
pub(crate) const FIRST_DAY: i32 = -719_162;
/// 9999-12-31 as days since 1970-01-01.
pub(crate) const LAST_DAY: i32 = 2_932_896;

const SECONDS_A_DAY: i64 = 86_400;
const MICROS_A_SECOND: i64 = 1_000_000;
const MICROS_A_DAY: i64 = SECONDS_A_DAY * MICROS_A_SECOND;
/// Days of 400 years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: i64 = 719_468;

/// Days since 1970-01-01, as a date.
pub(crate) struct Date(pub(crate) i32);

/// Microseconds since 1970-01-01T00:00:00Z, as a time in UTC: `2013-07-04T10:00:00Z`, with three or six digits behind
/// the second where there are fractions.
pub(crate) struct Timestamp(pub(crate) i64);

/// Whether days since 1970-01-01 are a date from 0001-01-01 to 9999-12-31.
pub(crate) fn has_day(days: i32) -> bool {
    (FIRST_DAY..=LAST_DAY).contains(&days)
}

/// Whether microseconds since 1970-01-01T00:00:00Z are a time from 0001-01-01 to the end of 9999-12-31.
pub(crate) fn has_time(micros: i64) -> bool {
    (i64::from(FIRST_DAY)..=i64::from(LAST_DAY)).contains(&micros.div_euclid(MICROS_A_DAY))
}

/// Year, month and day. Years are counted from March, so that the leap day is a year's last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH;
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // 153 days are five months from March on, 30.6 days each.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + later, month, day)
}

fn write_date(f: &mut fmt::Formatter<'_>, days: i64) -> fmt::Result {
    let (year, month, day) = civil(days);
    match year {
        0..=9999 => write!(f, "{year:04}-{month:02}-{day:02}"),
        _ => write!(f, "{year:+05}-{month:02}-{day:02}"),
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_date(f, self.0.into())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, micros) = (self.0.div_euclid(MICROS_A_DAY), self.0.rem_euclid(MICROS_A_DAY));
        let (seconds, micros) = (micros / MICROS_A_SECOND, micros % MICROS_A_SECOND);
        write_date(f, days)?;
        write!(f, "T{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
        match micros {
            0 => write!(f, "Z"),
            _ if micros % 1000 == 0 => write!(f, ".{:03}Z", micros / 1000),
            _ => write!(f, ".{micros:06}Z"),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Date32Array, TimestampMicrosecondArray};
    use arrow_cast::display::array_value_to_string;

    use super::*;

    #[test]
    fn every_value_has_a_text() {
        let date = |days, expected: &str| assert_eq!(Date(days).to_string(), expected);
        date(0, "1970-01-01");
        date(FIRST_DAY, "0001-01-01");
        date(FIRST_DAY - 1, "0000-12-31");
        date(FIRST_DAY - 367, "-0001-12-31");
        date(LAST_DAY, "9999-12-31");
        date(LAST_DAY + 1, "+10000-01-01");
        date(i32::MAX, "+5881580-07-11");
        date(i32::MIN, "-5877641-06-23");
        let time = |micros, expected: &str| assert_eq!(Timestamp(micros).to_string(), expected);
        time(-1, "1969-12-31T23:59:59.999999Z");
        time(86_399_250_000, "1970-01-01T23:59:59.250Z");
        time(i64::MAX, "+294247-01-10T04:00:54.775807Z");
        time(i64::MIN, "-290308-12-21T19:59:05.224192Z");
    }

    #[test]
    fn the_calendar_ends_where_its_texts_do() {
        assert!(has_day(FIRST_DAY) && has_day(LAST_DAY) && !has_day(FIRST_DAY - 1) && !has_day(LAST_DAY + 1));
        let (first, end) = (i64::from(FIRST_DAY) * MICROS_A_DAY, (i64::from(LAST_DAY) + 1) * MICROS_A_DAY);
        assert!(has_time(first) && has_time(end - 1) && !has_time(first - 1) && !has_time(end));
        assert!(!has_day(i32::MAX) && !has_time(i64::MAX) && !has_time(i64::MIN));
    }

    #[test]
    fn texts_are_those_of_arrow_where_it_has_any() {
        for days in (-95_000_000..95_000_000).step_by(9_973) {
            let array: ArrayRef = std::sync::Arc::new(Date32Array::from(vec![days]));
            assert_eq!(Date(days).to_string(), array_value_to_string(&array, 0).unwrap());
            let micros = i64::from(days) * MICROS_A_DAY + i64::from(days.rem_euclid(3)) * 86_123_000_123;
            let array = TimestampMicrosecondArray::from(vec![micros]).with_timezone("+00:00");
            let array: ArrayRef = std::sync::Arc::new(array);
            assert_eq!(Timestamp(micros).to_string(), array_value_to_string(&array, 0).unwrap());
        }
    }
}
