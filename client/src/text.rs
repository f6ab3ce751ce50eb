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
}

/// A number written with digits and at most one point as an unscaled value, if it has exactly that scale or fewer digits
/// behind the point that count, and at most `precision` digits.
pub(crate) fn parse_wide_decimal(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let scale = usize::from(scale);
    let (kept, rest) = fraction.split_at_checked(scale).unwrap_or((fraction, ""));
    if !rest.bytes().all(|digit| digit == b'0') {
        return None;
    }
    let mut unscaled = 0_i128;
    let zeros = std::iter::repeat_n(b'0', scale - kept.len());
    for digit in whole.bytes().chain(kept.bytes()).chain(zeros) {
        let digit = char::from(digit).to_digit(10)?;
        unscaled = unscaled.checked_mul(10)?.checked_add(i128::from(digit))?;
    }
    let fits = unscaled < 10_i128.checked_pow(u32::from(precision))?;
    fits.then_some(if text.starts_with('-') { -unscaled } else { unscaled })
}

/// `10:30`, `10:30:59` or `10:30:59.5` as microseconds since midnight, and whether what is finer was cut.
pub(crate) fn parse_time_of_day(text: &str) -> Option<(i64, bool)> {
    let mut parts = text.split(':');
    let (hour, minute) = (parts.next()?, parts.next()?);
    let (second, fraction) = match parts.next() {
        Some(second) => second.split_once('.').unwrap_or((second, "0")),
        None => ("00", "0"),
    };
    let number = |text: &str, below: i64| {
        let is_number = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| text.parse().ok()).flatten().filter(|n: &i64| *n < below)
    };
    if parts.next().is_some() || fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let seconds = (number(hour, 24)? * 60 + number(minute, 60)?) * 60 + number(second, 60)?;
    let digits = format!("{fraction:0<6}");
    let (micros, rest) = digits.split_at_checked(6)?;
    let was_cut = rest.bytes().any(|b| b != b'0');
    Some((seconds * 1_000_000 + micros.parse::<i64>().ok()?, was_cut))
}

/// Bytes from hexadecimal digits, two for each, after `\\x` or without it.
pub(crate) fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x").unwrap_or(text);
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    if rest.is_empty() { bytes.collect() } else { None }
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

/// As [`parse_timestamp`], with fractions of a microsecond cut. Seconds may be left out: `2013-07-04 10:00`.
pub(crate) fn parse_time(text: &str) -> Option<Time> {
    let (date, time) = text.split_at_checked(10)?;
    if !is_date(date.as_bytes()) || !matches!(time.as_bytes().first(), Some(b'T' | b't' | b' ')) {
        return None;
    }
    if let Some(micros) = parse_whole_second(date, time) {
        return Some(Time { micros, was_cut: false });
    }
    let utc: Tz = UTC_OFFSET.parse().ok()?;
    // As in a time of day, seconds may be left out; the library wants them.
    let to_minutes = time.len() == 6 && parse_time_of_day(&time[1..]).is_some();
    let seconds = if to_minutes { ":00" } else { "" };
    let moment = string_to_datetime(&utc, &format!("{text}{seconds}")).ok()?;
    let micros = moment.timestamp_micros();
    let was_cut = !moment.timestamp_subsec_nanos().is_multiple_of(1000);
    calendar::has_time(micros).then_some(Time { micros, was_cut })
}

/// A date and `T10:00:00Z` or ` 10:00:00`: most timestamps are written so, and read without a text that is made for the library.
/// Nothing is told of other forms.
fn parse_whole_second(date: &str, time: &str) -> Option<i64> {
    // Default: it is UTC without a zone.
    let clock = time.strip_suffix('Z').unwrap_or(time);
    let &[_, h, hh, b':', m, mm, b':', s, ss] = clock.as_bytes() else { return None };
    let number = |ten: u8, one: u8, below: i64| {
        let is_number = ten.is_ascii_digit() && one.is_ascii_digit();
        let number = is_number.then(|| i64::from(ten - b'0') * 10 + i64::from(one - b'0'));
        number.filter(|n| *n < below)
    };
    let seconds = (number(h, hh, 24)? * 60 + number(m, mm, 60)?) * 60 + number(s, ss, 60)?;
    Some((i64::from(parse_date(date)?) * 24 * 60 * 60 + seconds) * 1_000_000)
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
    fn wide_decimals_are_exact() {
        let check = |text: &str, precision, scale, expected| {
            assert_eq!(parse_wide_decimal(text, precision, scale), expected, "{text}");
        };
        check("12345678901234567890.5", 38, 2, Some(1_234_567_890_123_456_789_050));
        check("-0.100", 38, 1, Some(-1));
        check("-99999999999999999999999999999999999999", 38, 0, Some(1 - 10_i128.pow(38)));
        check("+7", 3, 2, Some(700));
        for bad in
            ["", "-", ".", "1.25", "100000000000000000000000000000000000000", "1e3", "1.2.3", "--1", "0x1"]
        {
            check(bad, 38, 1, None);
        }
        check("10", 3, 2, None);
    }

    #[test]
    fn times_of_day_and_bytes() {
        let check = |text: &str, expected| assert_eq!(parse_time_of_day(text), expected, "{text}");
        check("00:00", Some((0, false)));
        check("10:30:59.5", Some((37_859_500_000, false)));
        check("23:59:59.9999999", Some((86_399_999_999, true)));
        for bad in
            ["", "1:00", "24:00", "10:60", "10:00:60", "10:00:00.", "10:00:00.x", "10:00:00:00", "+1:00"]
        {
            check(bad, None);
        }
        assert_eq!(parse_hex("\\x00fF"), Some(vec![0, 255]));
        assert_eq!(parse_hex(""), Some(Vec::new()));
        for bad in ["0", "0g", "\\x0", "0x00"] {
            assert_eq!(parse_hex(bad), None, "{bad}");
        }
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
        check("0001-01-01 00:00:00", Some(i64::from(calendar::FIRST_DAY) * 86_400_000_000));
        check("9999-12-31T23:59:59Z", Some((i64::from(calendar::LAST_DAY) + 1) * 86_400_000_000 - 1_000_000));
        // What is read at once is what the library reads.
        for whole in
            ["1969-12-31T23:59:58", "2016-02-29 00:00:59", "2013-07-04t19:08:07", "0001-01-01T23:59:00"]
        {
            let expected = parse_timestamp(&format!("{whole}.0Z"));
            assert!(expected.is_some(), "{whole}");
            check(whole, expected);
            check(&format!("{whole}Z"), expected);
        }
        for bad in
            ["2015-02-29T00:00:00Z", "1970-01-01T24:00:00", "1970-01-01 00:60:00Z", "1970-01-01T0a:00:00"]
        {
            check(bad, None);
            check(&bad.replace(":00Z", ":00.0Z"), None);
        }
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
