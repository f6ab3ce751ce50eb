//! Functions of times: by counting years and months from the start of a cycle of 400 years.

use basalt_core::time_parts::{TimeFunction, Unit};

const MICROS_OF_DAY: i128 = 86_400_000_000;

/// Year, month from 0, and day from 0.
fn civil(days: i128) -> (i128, usize, i128) {
    // 2000-01-01 began a cycle.
    let since = days - 10_957;
    let mut year = 2000 + since.div_euclid(146_097) * 400;
    let mut rest = since.rem_euclid(146_097);
    loop {
        let of_year = months(year).iter().sum();
        if rest < of_year {
            break;
        }
        rest -= of_year;
        year += 1;
    }
    let mut month = 0;
    while rest >= months(year)[month] {
        rest -= months(year)[month];
        month += 1;
    }
    (year, month, rest)
}

fn months(year: i128) -> [i128; 12] {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

fn day_of_year(days: i128) -> i128 {
    let (year, month, day) = civil(days);
    months(year)[..month].iter().sum::<i128>() + day
}

/// Days since a Monday.
fn since_monday(days: i128) -> i128 {
    (days + 3).rem_euclid(7)
}

/// Of a time in microseconds, or of a date's first one.
pub(super) fn of(function: TimeFunction, micros: i128) -> i128 {
    let (days, of_day) = (micros.div_euclid(MICROS_OF_DAY), micros.rem_euclid(MICROS_OF_DAY));
    let (year, month, day) = civil(days);
    let seconds = of_day / 1_000_000;
    match function {
        TimeFunction::Truncate(unit) => match unit {
            Unit::Second => micros - of_day % 1_000_000,
            Unit::Minute => micros - of_day % 60_000_000,
            Unit::Hour => micros - of_day % 3_600_000_000,
            Unit::Day => days * MICROS_OF_DAY,
            Unit::Week => (days - since_monday(days)) * MICROS_OF_DAY,
            Unit::Month => (days - day) * MICROS_OF_DAY,
            Unit::Quarter => {
                let before: i128 = months(year)[month - month % 3..month].iter().sum();
                (days - day - before) * MICROS_OF_DAY
            }
            Unit::Year => (days - day_of_year(days)) * MICROS_OF_DAY,
        },
        TimeFunction::Part(unit) => match unit {
            Unit::Second => seconds % 60,
            Unit::Minute => seconds % 3600 / 60,
            Unit::Hour => seconds / 3600,
            Unit::Day => day + 1,
            // That of its Thursday, which is in the year that the week is of.
            Unit::Week => day_of_year(days - since_monday(days) + 3) / 7 + 1,
            Unit::Month => month as i128 + 1,
            Unit::Quarter => month as i128 / 3 + 1,
            Unit::Year => year,
        },
        TimeFunction::DayOfWeek => (since_monday(days) + 1) % 7,
        TimeFunction::DayOfYear => day_of_year(days) + 1,
    }
}
