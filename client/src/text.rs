//! Values from their texts, exactly or not at all.

use arrow_array::{timezone::Tz, types::Date32Type};
use arrow_cast::parse::{Parser as _, string_to_datetime};

use crate::calendar;

/// UTC as Arrow understands it without a database of time zones.
pub(crate) const UTC_OFFSET: &str = "+00:00";

/// A number written with digits and at most one point, exactly: `unscaled * 10^-scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub(crate) unscaled: i64,
    pub(crate) scale: u8,
}

impl Decimal {
    /// Reads `-12.50`: at most 18 digits, no exponent.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, digits) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut unscaled = 0_i64;
        for digit in whole.bytes().chain(fraction.bytes()) {
            let digit = char::from(digit).to_digit(10)?;
            unscaled = unscaled.checked_mul(10)?.checked_add(i64::from(digit))?;
        }
        let scale = u8::try_from(fraction.len()).ok().filter(|&s| s <= 18)?;
        let fits = unscaled < 10_i64.pow(18);
        fits.then_some(Self { unscaled: if negative { -unscaled } else { unscaled }, scale })
    }

    /// The same number with another scale and at most `precision` digits, if it is one.
    pub(crate) fn rescale(self, precision: u8, scale: u8) -> Option<i64> {
        let unscaled = if scale >= self.scale {
            self.unscaled.checked_mul(10_i64.checked_pow(u32::from(scale - self.scale))?)?
        } else {
            let factor = 10_i64.checked_pow(u32::from(self.scale - scale))?;
            if self.unscaled % factor != 0 {
                return None;
            }
            self.unscaled / factor
        };
        (unscaled.unsigned_abs() < 10_u64.checked_pow(u32::from(precision))?).then_some(unscaled)
    }
}

/// `2013-07-04`, from 0001-01-01 on, as days since 1970-01-01.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    let days = is_date(text.as_bytes()).then(|| Date32Type::parse(text)).flatten();
    days.filter(|&days| calendar::has_day(days))
}

/// `2013-07-04T10:00:00Z` (RFC 3339) as microseconds since 1970-01-01T00:00:00Z. A space may stand for the
/// `T`; without a zone it is UTC. Fractions finer than a microsecond are refused unless they are zero.
pub(crate) fn parse_timestamp(text: &str) -> Option<i64> {
    parse_time(text).filter(|time| !time.was_cut).map(|time| time.micros)
}

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    /// Microseconds since 1970-01-01T00:00:00Z.
    pub(crate) micros: i64,
    /// The text said more than microseconds: what is finer was cut, towards the past.
    pub(crate) was_cut: bool,
}

/// As [`parse_timestamp`], with fractions of a microsecond cut.
pub(crate) fn parse_time(text: &str) -> Option<Time> {
    let (date, time) = text.split_at_checked(10)?;
    if !is_date(date.as_bytes()) || !matches!(time.as_bytes().first(), Some(b'T' | b't' | b' ')) {
        return None;
    }
    let utc: Tz = UTC_OFFSET.parse().ok()?;
    let moment = string_to_datetime(&utc, text).ok()?;
    let micros = moment.timestamp_micros();
    let was_cut = !moment.timestamp_subsec_nanos().is_multiple_of(1000);
    calendar::has_time(micros).then_some(Time { micros, was_cut })
}

fn is_date(text: &[u8]) -> bool {
    text.len() == 10
        && text
            .iter()
            .enumerate()
            .all(|(i, b)| if i == 4 || i == 7 { *b == b'-' } else { b.is_ascii_digit() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals() {
        let check = |text: &str, expected: Option<(i64, u8)>| {
            assert_eq!(Decimal::parse(text).map(|d| (d.unscaled, d.scale)), expected, "{text}");
        };
        check("0.05", Some((5, 2)));
        check("-12.50", Some((-1250, 2)));
        check("+7", Some((7, 0)));
        check(".5", Some((5, 1)));
        check("5.", Some((5, 0)));
        check("999999999999999999", Some((999_999_999_999_999_999, 0)));
        check("0.999999999999999999", Some((999_999_999_999_999_999, 18)));
        for bad in
            ["", ".", "-", "1e5", "1.2.3", "--1", "1_000", "1000000000000000000", "0.1234567890123456789"]
        {
            check(bad, None);
        }
    }

    #[test]
    fn rescaling_is_exact() {
        let check = |text: &str, precision, scale, expected| {
            assert_eq!(Decimal::parse(text).and_then(|d| d.rescale(precision, scale)), expected, "{text}");
        };
        check("12.5", 5, 2, Some(1250));
        check("12.500", 5, 2, Some(1250));
        check("12.505", 5, 2, None);
        check("999.99", 5, 2, Some(99_999));
        check("1000", 5, 2, None);
        check("-999999999999999999", 18, 0, Some(-999_999_999_999_999_999));
        check("100", 18, 18, None);
    }

    #[test]
    fn dates() {
        let check = |text: &str, expected| assert_eq!(parse_date(text), expected, "{text}");
        check("1970-01-01", Some(0));
        check("2013-07-04", Some(15_890));
        check("1969-12-31", Some(-1));
        check("2016-02-29", Some(16_860));
        check("0001-01-01", Some(calendar::FIRST_DAY));
        check("9999-12-31", Some(calendar::LAST_DAY));
        for bad in [
            "0000-12-31",
            "-infinity",
            "infinity",
            "2015-02-29",
            "2013-7-4",
            "2013-13-01",
            "04/07/2013",
            "2013-07-04T00:00:00",
            "",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn timestamps() {
        let check = |text: &str, expected| assert_eq!(parse_timestamp(text), expected, "{text}");
        check("1970-01-01T00:00:00Z", Some(0));
        check("1970-01-01 00:00:01", Some(1_000_000));
        check("1970-01-01T01:00:00+01:00", Some(0));
        check("1969-12-31T23:59:59.999999Z", Some(-1));
        check("1970-01-01T00:00:00.000001000Z", Some(1));
        for bad in ["0000-12-31T00:00:00Z", "9999-12-31T23:00:00-01:00", "infinity"] {
            check(bad, None);
        }
        for bad in
            ["1970-01-01", "1970-01-01T25:00:00Z", "1970-01-01T00:00:00.0000001Z", "noon", "1970-01-01x"]
        {
            check(bad, None);
        }
    }
}
