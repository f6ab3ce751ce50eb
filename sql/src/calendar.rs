//! How much time is between two moments, by the calendar.

use arrow_array::types::IntervalMonthDayNano;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// Microseconds since 1970, without a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) i64);

/// Year, month and day of a day since 1970, in the calendar that is extended to all times.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The day since 1970.
pub(crate) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let from_march = (month + 9) % 12;
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era * 146_097 + of_era - 719_468
}

pub(crate) fn days_in(year: i64, month: i64) -> i64 {
    let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_of(next_year, next_month, 1) - days_of(year, month, 1)
}

impl Moment {
    fn day(self) -> i64 {
        self.0.div_euclid(DAY)
    }

    fn date(self) -> (i64, i64, i64) {
        civil(self.day())
    }

    /// Months since the year 0.
    pub(crate) fn month(self) -> i64 {
        let (year, month, _) = self.date();
        year * 12 + month - 1
    }

    /// Later by months, then by days and time; as far as moments go.
    pub(crate) fn after(self, step: IntervalMonthDayNano) -> Self {
        let moved = if step.months == 0 { self } else { self.after_months(step.months.into()) };
        let days = i64::from(step.days).saturating_mul(DAY);
        Self(moved.0.saturating_add(days).saturating_add(step.nanoseconds / 1000))
    }

    /// So many months later, on the month's last day where it has no such day.
    fn after_months(self, months: i64) -> Self {
        let (_, _, day) = self.date();
        let month = self.month() + months;
        let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
        let days = days_of(year, month, day.min(days_in(year, month)));
        Self(days.saturating_mul(DAY).saturating_add(self.0.rem_euclid(DAY)))
    }
}

/// What a part is made of: months or microseconds.
enum Part {
    Months(i64),
    Micros(i64),
}

fn part(name: &str) -> Option<Part> {
    Some(match name {
        "millennium" | "millennia" => Part::Months(12_000),
        "century" | "centuries" => Part::Months(1200),
        "decade" | "decades" => Part::Months(120),
        "year" | "years" | "y" | "yr" => Part::Months(12),
        "quarter" | "quarters" => Part::Months(3),
        "month" | "months" | "mon" => Part::Months(1),
        "week" | "weeks" | "w" => Part::Micros(7 * DAY),
        "day" | "days" | "d" | "dayofmonth" | "dayofyear" | "doy" | "dow" | "isodow" => Part::Micros(DAY),
        "hour" | "hours" | "h" | "hr" => Part::Micros(3600 * SECOND),
        "minute" | "minutes" | "m" | "min" => Part::Micros(60 * SECOND),
        "second" | "seconds" | "s" | "sec" | "epoch" => Part::Micros(SECOND),
        "millisecond" | "milliseconds" | "ms" => Part::Micros(1000),
        "microsecond" | "microseconds" | "us" => Part::Micros(1),
        _ => return None,
    })
}

/// How many boundaries of a part are between two moments.
pub(crate) fn boundaries(name: &str, from: Moment, to: Moment) -> Option<i64> {
    Some(match part(name)? {
        Part::Months(each) => to.month().div_euclid(each) - from.month().div_euclid(each),
        // Weeks begin on Monday, as 1970-01-05 was one.
        Part::Micros(each) if each == 7 * DAY => {
            (to.day() + 3).div_euclid(7) - (from.day() + 3).div_euclid(7)
        }
        Part::Micros(each) => to.0.div_euclid(each) - from.0.div_euclid(each),
    })
}

/// How many whole parts are between two moments.
pub(crate) fn whole(name: &str, from: Moment, to: Moment) -> Option<i64> {
    if from > to {
        return whole(name, to, from).map(|parts| -parts);
    }
    Some(match part(name)? {
        Part::Months(each) => {
            let mut months = to.month() - from.month();
            if from.after_months(months) > to {
                months -= 1;
            }
            months / each
        }
        Part::Micros(each) => to.0.checked_sub(from.0)? / each,
    })
}

/// The time between two moments, in months, days and less.
pub(crate) fn age(from: Moment, to: Moment) -> IntervalMonthDayNano {
    let sign = if from <= to { 1 } else { -1 };
    let (from, to) = (from.min(to), from.max(to));
    let ((from_year, from_month, from_day), (to_year, to_month, to_day)) = (from.date(), to.date());
    let mut months = (to_year - from_year) * 12 + to_month - from_month;
    let mut days = to_day - from_day;
    let mut micros = to.0.rem_euclid(DAY) - from.0.rem_euclid(DAY);
    if micros < 0 {
        micros += DAY;
        days -= 1;
    }
    if days < 0 {
        days += days_in(from_year, from_month);
        months -= 1;
    }
    // Default: none; timestamps are not so far apart.
    let fits = |value: i64| i32::try_from(sign * value).unwrap_or_default();
    IntervalMonthDayNano::new(fits(months), fits(days), sign * micros * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(year: i64, month: i64, day: i64, micros: i64) -> Moment {
        Moment(days_of(year, month, day) * DAY + micros)
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for day in (-1_000_000..1_000_000).step_by(997) {
            let (year, month, of_month) = civil(day);
            assert_eq!(days_of(year, month, of_month), day);
            assert!((1..=days_in(year, month)).contains(&of_month));
        }
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(days_of(2000, 3, 1), 11_017);
    }

    #[test]
    fn parts_between_moments() {
        let (a, b) = (moment(2020, 1, 31, 0), moment(2020, 2, 29, 0));
        assert_eq!((boundaries("month", a, b), whole("month", a, b)), (Some(1), Some(1)));
        assert_eq!(whole("month", a, moment(2020, 2, 28, 0)), Some(0));
        let (a, b) = (moment(2019, 12, 31, 0), moment(2020, 1, 1, 0));
        assert_eq!((boundaries("year", a, b), whole("year", a, b)), (Some(1), Some(0)));
        assert_eq!((boundaries("year", b, a), whole("day", b, a)), (Some(-1), Some(-1)));
        assert_eq!(boundaries("week", moment(2020, 3, 1, 0), moment(2020, 3, 2, 0)), Some(1));
        assert_eq!(boundaries("nothing", a, b), None);
        let age = age(moment(2020, 1, 31, 5), moment(2020, 3, 1, 0));
        assert_eq!((age.months, age.days, age.nanoseconds), (1, 0, (DAY - 5) * 1000));
    }
}
