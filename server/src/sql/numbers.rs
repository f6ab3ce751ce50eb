//! Numbers as clients write them, with all of their digits: integers that fit 64 bits, or decimals.

use basalt_core::{logical::WIDE_DIGITS, query::Literal};
use basalt_nested::says_infinity;

/// A number has more digits than decimals have, before and behind the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyDigits;

/// The value of a text such as `-12.50` or `1E+20`; `None`: it is no number.
///
/// # Errors
/// Where it is a number of more digits than decimals have.
pub(crate) fn of_text(text: &str) -> Result<Option<Literal>, TooManyDigits> {
    let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let most = usize::from(WIDE_DIGITS);
    let mut digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        // NaN and infinity by their names.
        let float: Option<f64> = text.parse().ok();
        let float = float.filter(|float| !float.is_finite() && (float.is_nan() || says_infinity(text)));
        return Ok(float.map(Literal::Float));
    }
    let exponent = match exponent.map(str::parse::<i32>) {
        None => 0,
        Some(Ok(exponent)) => i64::from(exponent),
        Some(Err(_)) => return Ok(None),
    };
    // The text of a parameter is bounded.
    let Ok(places) = i64::try_from(fraction.len()) else { return Ok(None) };
    let mut scale = places - exponent;
    digits = digits.trim_start_matches('0').to_owned();
    if digits.is_empty() {
        scale = scale.clamp(0, WIDE_DIGITS.into());
    }
    if scale < 0 {
        // What has more zeros than that is refused below.
        let zeros = usize::try_from(-scale).map_or(most, |zeros| zeros.min(most));
        digits.push_str(&"0".repeat(zeros));
        scale = 0;
    }
    let mut scale = usize::try_from(scale).map_err(|_| TooManyDigits)?;
    // Zeros at the end of a fraction are none of its value.
    while digits.len().max(scale) > most && scale > 0 && digits.ends_with('0') {
        digits.pop();
        scale -= 1;
    }
    if digits.len().max(scale) > most {
        return Err(TooManyDigits);
    }
    let unsigned: i128 = match digits.as_str() {
        "" => 0,
        digits => digits.parse().map_err(|_| TooManyDigits)?,
    };
    let unscaled = if negative { -unsigned } else { unsigned };
    let scale = u8::try_from(scale).map_err(|_| TooManyDigits)?;
    Ok(Some(match (scale, i64::try_from(unscaled)) {
        (0, Ok(value)) => Literal::Int(value),
        // What is larger is no integer without a sign either, whose sum with one that has a sign would not fit.
        _ => Literal::Decimal { unscaled, scale },
    }))
}

/// The value of a number in JSON that is no integer of 64 bits: the float that it is read as where that says the same
/// number, or else a decimal of its digits; `None`: it is no number. One with an exponent that no decimal says is a float, as
/// it is in SQL.
///
/// # Errors
/// Where it is a number of more digits than decimals have.
pub(crate) fn of_json(text: &str, float: f64) -> Result<Option<Literal>, TooManyDigits> {
    let said = Written::new(text);
    if said.is_some() && said == Written::new(&format!("{float:e}")) {
        return Ok(Some(Literal::Float(float)));
    }
    match of_text(text) {
        Err(TooManyDigits) | Ok(None) if text.contains(['e', 'E']) => Ok(Some(Literal::Float(float))),
        read => read,
    }
}

/// What a number in decimal digits says, however it is written.
#[derive(Debug, PartialEq, Eq)]
struct Written {
    negative: bool,
    /// Without zeros at both ends.
    digits: String,
    /// The power of ten that the last digit counts.
    exponent: i64,
}

impl Written {
    /// `None`: it has an exponent beyond all numbers.
    fn new(text: &str) -> Option<Self> {
        let (negative, unsigned) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, i64::from(exponent.parse::<i32>().ok()?)),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_end_matches('0');
        let behind = i64::try_from(fraction.len()).ok()?;
        let zeros = i64::try_from(all.len() - digits.len()).ok()?;
        let digits = digits.trim_start_matches('0').to_owned();
        let exponent = if digits.is_empty() { 0 } else { exponent - behind + zeros };
        Some(Self { negative, digits, exponent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(unscaled: i128, scale: u8) -> Literal {
        Literal::Decimal { unscaled, scale }
    }

    #[test]
    fn numbers_are_their_digits() {
        let nines = "9".repeat(38);
        let most = 10_i128.pow(38) - 1;
        for (text, expected) in [
            ("12", Literal::Int(12)),
            ("+12.", Literal::Int(12)),
            ("-0", Literal::Int(0)),
            ("9223372036854775807", Literal::Int(i64::MAX)),
            ("9223372036854775808", decimal(1 << 63, 0)),
            ("-9223372036854775808", Literal::Int(i64::MIN)),
            ("-9223372036854775809", decimal(-(1 << 63) - 1, 0)),
            ("18446744073709551615", decimal(u64::MAX.into(), 0)),
            ("18446744073709551616", decimal(1 << 64, 0)),
            ("100000000000000000000", decimal(10_i128.pow(20), 0)),
            ("-0.25", decimal(-25, 2)),
            (".5", decimal(5, 1)),
            ("1234567890123456789012.5", decimal(12_345_678_901_234_567_890_125, 1)),
            (nines.as_str(), decimal(most, 0)),
            (format!("-0.{nines}").as_str(), decimal(-most, 38)),
            (format!("000{nines}").as_str(), decimal(most, 0)),
            (format!("1.5{}", "0".repeat(60)).as_str(), decimal(15 * 10_i128.pow(36), 37)),
            (format!("0.{}", "0".repeat(60)).as_str(), decimal(0, 38)),
            ("1E+2", Literal::Int(100)),
            ("1e20", decimal(10_i128.pow(20), 0)),
            ("12.5e1", Literal::Int(125)),
            ("1E-38", decimal(1, 38)),
            ("0E+999999", Literal::Int(0)),
            ("0E-7", decimal(0, 7)),
            ("-Infinity", Literal::Float(f64::NEG_INFINITY)),
        ] {
            assert_eq!(of_text(text).unwrap(), Some(expected), "{text}");
        }
        for text in ["", ".", "-", "x", "1x", "1e", "1e1.5", "1e99999999999", "--1", "0x10", "1_000"] {
            assert_eq!(of_text(text).unwrap(), None, "{text}");
        }
        let more = format!("1{}", "0".repeat(38));
        for text in [more.as_str(), "1e38", "1e400", "1e-39", "-1e-2000000000", format!("1.{nines}").as_str()]
        {
            assert_eq!(of_text(text), Err(TooManyDigits), "{text}");
        }
        assert!(matches!(of_text("NaN"), Ok(Some(Literal::Float(nan))) if nan.is_nan()));
    }

    #[test]
    fn a_number_of_json_is_a_float_that_says_it_or_its_digits() {
        let read = |text: &str| of_json(text, text.parse().unwrap());
        for text in
            ["0.5", "1e22", "-1.50e-7", "10000000000000000000000", "0.30000000000000004", "1e300", "5E-324"]
        {
            assert_eq!(read(text), Ok(Some(Literal::Float(text.parse().unwrap()))), "{text}");
        }
        for zero in ["-0", "-0.0", "0e99", "0.000"] {
            assert_eq!(read(zero), Ok(Some(Literal::Float(0.0))), "{zero}");
        }
        let most = 123_456_789_012_345_678_901_234_567_890;
        for (text, expected) in [
            ("12345678901234567.89", decimal(1_234_567_890_123_456_789, 2)),
            ("123456789012345678901234567890", decimal(most, 0)),
            ("-1.23456789012345678901234567890e29", decimal(-most, 0)),
            ("9007199254740993.0", decimal(90_071_992_547_409_930, 1)),
            ("0.1000000000000000055", decimal(1_000_000_000_000_000_055, 19)),
        ] {
            assert_eq!(read(text), Ok(Some(expected)), "{text}");
        }
        let digits = "0.1000000000000000055511151231257827021181583404541015625";
        let whole = "123456789012345678901234567890123456789012";
        for text in [digits, whole, format!("-{whole}").as_str(), format!("{whole}.5").as_str()] {
            assert_eq!(read(text), Err(TooManyDigits), "{text}");
        }
        let long = format!("{digits}E3");
        for (text, float) in [("1e-400", 0.0), (long.as_str(), 100.0), ("1e-99999999999", 0.0)] {
            assert_eq!(of_json(text, float), Ok(Some(Literal::Float(float))), "{text}");
        }
    }
}
