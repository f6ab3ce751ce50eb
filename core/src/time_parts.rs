//! Units of the calendar: what a time is cut to, and which one of them it is in. All of it in UTC.

use crate::time::{MICROS_OF_DAY, civil_from_days, days_from_civil};

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    /// Of ISO 8601: it begins on a Monday, and the first of a year has its first Thursday.
    Week,
    Month,
    Quarter,
    Year,
}

/// A function of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeFunction {
    /// The beginning of the unit that a timestamp is in.
    Truncate(Unit),
    /// Which second of its minute, minute of its hour, hour of its day, day of its month, week, month or quarter of its
    /// year, or which year.
    Part(Unit),
    /// Sunday is 0.
    DayOfWeek,
    /// The first is 1.
    DayOfYear,
}

impl Unit {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Second,
        Self::Minute,
        Self::Hour,
        Self::Day,
        Self::Week,
        Self::Month,
        Self::Quarter,
        Self::Year,
    ];

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Quarter => "quarter",
            Self::Year => "year",
        }
    }

    /// Microseconds of one; none where they differ.
    fn micros(self) -> Option<i64> {
        match self {
            Self::Second => Some(1_000_000),
            Self::Minute => Some(60_000_000),
            Self::Hour => Some(3_600_000_000),
            Self::Day => Some(MICROS_OF_DAY),
            Self::Week => Some(7 * MICROS_OF_DAY),
            Self::Month | Self::Quarter | Self::Year => None,
        }
    }

    /// Whether a date has it.
    fn is_of_dates(self) -> bool {
        !matches!(self, Self::Second | Self::Minute | Self::Hour)
    }
}

impl TimeFunction {
    /// Whether it is a function of dates, too.
    pub fn is_of_dates(self) -> bool {
        match self {
            Self::Truncate(_) => false,
            Self::Part(unit) => unit.is_of_dates(),
            Self::DayOfWeek | Self::DayOfYear => true,
        }
    }

    /// Whether it is never less for what is later.
    pub fn keeps_order(self) -> bool {
        matches!(self, Self::Truncate(_) | Self::Part(Unit::Year))
    }

    /// Its value for a time, in microseconds since 1970; `None`: the unit begins before the first time that there is.
    #[inline]
    pub fn of_micros(self, micros: i64) -> Option<i64> {
        let days = micros.div_euclid(MICROS_OF_DAY);
        match self {
            Self::Truncate(unit) => match unit.micros() {
                // Monday, 1970-01-05.
                Some(of_week) if unit == Unit::Week => {
                    micros.checked_sub((micros.rem_euclid(of_week) - 4 * MICROS_OF_DAY).rem_euclid(of_week))
                }
                Some(of_unit) => micros.checked_sub(micros.rem_euclid(of_unit)),
                None => first_day(unit, days).checked_mul(MICROS_OF_DAY),
            },
            Self::Part(unit) if !unit.is_of_dates() => {
                let seconds = micros.rem_euclid(MICROS_OF_DAY) / 1_000_000;
                Some(match unit {
                    Unit::Second => seconds % 60,
                    Unit::Minute => seconds / 60 % 60,
                    _ => seconds / 3600,
                })
            }
            _ => Some(self.of_days(days)),
        }
    }

    /// Its value for a date, in days since 1970.
    #[inline]
    pub fn of_days(self, days: i64) -> i64 {
        match self {
            Self::Truncate(unit) => match unit {
                Unit::Week => days - (days - 4).rem_euclid(7),
                unit if unit.micros().is_some() => days,
                unit => first_day(unit, days),
            },
            Self::Part(Unit::Day) => civil_from_days(days).2,
            Self::Part(Unit::Month) => civil_from_days(days).1,
            Self::Part(Unit::Quarter) => (civil_from_days(days).1 + 2) / 3,
            Self::Part(Unit::Year) => civil_from_days(days).0,
            Self::Part(Unit::Week) => {
                let thursday = days - (days - 4).rem_euclid(7) + 3;
                (thursday - days_from_civil(civil_from_days(thursday).0, 1, 1)) / 7 + 1
            }
            Self::Part(_) => 0,
            Self::DayOfWeek => (days + 4).rem_euclid(7),
            Self::DayOfYear => days - days_from_civil(civil_from_days(days).0, 1, 1) + 1,
        }
    }
}

/// The first day of a unit of months.
fn first_day(unit: Unit, days: i64) -> i64 {
    let (year, month, _) = civil_from_days(days);
    days_from_civil(
        year,
        match unit {
            Unit::Month => month,
            Unit::Quarter => (month - 1) / 3 * 3 + 1,
            _ => 1,
        },
        1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{format_timestamp, parse_timestamp};

    #[test]
    fn truncates_and_takes_parts() {
        let truncated = |unit, text: &str| {
            let at = TimeFunction::Truncate(unit).of_micros(parse_timestamp(text).unwrap());
            format_timestamp(at.unwrap())
        };
        let starts = |unit, text: &str, expected: &str| {
            let expected = format_timestamp(parse_timestamp(expected).unwrap());
            assert_eq!(truncated(unit, text), expected, "{unit:?} {text}");
        };
        let time = "2024-02-29T23:59:58.999999Z";
        starts(Unit::Second, time, "2024-02-29T23:59:58Z");
        starts(Unit::Minute, time, "2024-02-29T23:59:00Z");
        starts(Unit::Hour, time, "2024-02-29T23:00:00Z");
        starts(Unit::Day, time, "2024-02-29");
        starts(Unit::Week, time, "2024-02-26");
        starts(Unit::Month, time, "2024-02-01");
        starts(Unit::Quarter, time, "2024-01-01");
        starts(Unit::Year, time, "2024-01-01");
        // Before 1970, and a Sunday.
        starts(Unit::Hour, "1969-12-31T23:59:59.5Z", "1969-12-31T23:00:00Z");
        starts(Unit::Week, "1970-01-04", "1969-12-29");
        starts(Unit::Week, "1970-01-05", "1970-01-05");
        starts(Unit::Quarter, "1969-12-31", "1969-10-01");
        let part = |function: TimeFunction, text: &str| function.of_micros(parse_timestamp(text).unwrap());
        for (function, expected) in [
            (TimeFunction::Part(Unit::Second), 58),
            (TimeFunction::Part(Unit::Minute), 59),
            (TimeFunction::Part(Unit::Hour), 23),
            (TimeFunction::Part(Unit::Day), 29),
            (TimeFunction::Part(Unit::Week), 9),
            (TimeFunction::Part(Unit::Month), 2),
            (TimeFunction::Part(Unit::Quarter), 1),
            (TimeFunction::Part(Unit::Year), 2024),
            (TimeFunction::DayOfWeek, 4),
            (TimeFunction::DayOfYear, 60),
        ] {
            assert_eq!(part(function, time), Some(expected), "{function:?}");
        }
        // A week of the year before, and one of the year after.
        assert_eq!(part(TimeFunction::Part(Unit::Week), "2021-01-03"), Some(53));
        assert_eq!(part(TimeFunction::Part(Unit::Week), "2024-12-30"), Some(1));
        assert_eq!(TimeFunction::Truncate(Unit::Year).of_micros(i64::MIN), None);
        assert_eq!(TimeFunction::Truncate(Unit::Week).of_micros(i64::MIN), None);
        assert!(TimeFunction::Part(Unit::Year).of_micros(i64::MIN).is_some());
    }
}
