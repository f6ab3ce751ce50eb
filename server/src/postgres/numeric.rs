//! Numbers of PostgreSQL's type numeric, as a client writes them: integers that fit 64 bits, or decimals of their digits.

use basalt_core::query::Literal;
use basalt_nested::says_infinity;
use bytes::Bytes;

use super::error::{Error, Result};

/// Digits of a decimal, before and behind the point.
const DIGITS: u8 = 38;

/// The value of a text such as `-12.50` or `1E+20`; `None`: it is no number.
///
/// # Errors
/// Where it is a number of more digits than decimals have.
pub(super) fn of_text(text: &str) -> Result<Option<Literal>> {
    let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let most = usize::from(DIGITS);
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
        scale = scale.clamp(0, DIGITS.into());
    }
    if scale < 0 {
        // What has more zeros than that is refused below.
        let zeros = usize::try_from(-scale).map_or(most, |zeros| zeros.min(most));
        digits.push_str(&"0".repeat(zeros));
        scale = 0;
    }
    let mut scale = usize::try_from(scale).map_err(|_| out_of_range())?;
    // Zeros at the end of a fraction are none of its value.
    while digits.len().max(scale) > most && scale > 0 && digits.ends_with('0') {
        digits.pop();
        scale -= 1;
    }
    if digits.len().max(scale) > most {
        return Err(out_of_range());
    }
    let unsigned: i128 = match digits.as_str() {
        "" => 0,
        digits => digits.parse().map_err(|_| out_of_range())?,
    };
    let unscaled = if negative { -unsigned } else { unsigned };
    let scale = u8::try_from(scale).map_err(|_| out_of_range())?;
    Ok(Some(match (scale, i64::try_from(unscaled)) {
        (0, Ok(value)) => Literal::Int(value),
        // What is larger is no integer without a sign either, whose sum with one that has a sign would not fit.
        _ => Literal::Decimal { unscaled, scale },
    }))
}

fn out_of_range() -> Error {
    Error::new("22003", format!("a parameter of type numeric has more than {DIGITS} digits"))
}

/// A number in binary form as text; `None`: it is none.
///
/// # Errors
/// Where it is a number of more digits than decimals have.
pub(super) fn text(bytes: &Bytes) -> Result<Option<String>> {
    let Some(number) = Number::new(bytes) else { return Ok(None) };
    match number.sign {
        0xC000 => return Ok(Some("NaN".to_owned())),
        0xD000 => return Ok(Some("inf".to_owned())),
        0xF000 => return Ok(Some("-inf".to_owned())),
        _ => {}
    }
    // Far more than fits; zeros at the end of a fraction are left out later.
    if number.weight > 32 || number.scale > 16_383 {
        return Err(out_of_range());
    }
    Ok(number.digits())
}

/// A number in binary form: groups of four decimal digits, of which the first stands for so many times 10000 to the weight.
struct Number<'a> {
    weight: i32,
    sign: u16,
    /// Digits behind the point.
    scale: usize,
    groups: &'a [u8],
}

impl<'a> Number<'a> {
    fn new(bytes: &'a Bytes) -> Option<Self> {
        let (head, groups) = bytes.split_at_checked(8)?;
        let field = |at: usize| Some(i16::from_be_bytes(head.get(at..at + 2)?.try_into().ok()?));
        let (count, weight, sign, scale) = (field(0)?, field(2)?, field(4)?.cast_unsigned(), field(6)?);
        let is_sign = matches!(sign, 0 | 0x4000 | 0xC000 | 0xD000 | 0xF000);
        let number = Self { weight: weight.into(), sign, scale: usize::try_from(scale).ok()?, groups };
        (is_sign && groups.len() == usize::try_from(count).ok()? * 2).then_some(number)
    }

    /// Four digits; those that are not there are zeros.
    fn group(&self, weight: i32) -> Option<i16> {
        let Ok(at) = usize::try_from(self.weight - weight) else { return Some(0) };
        let Some(bytes) = self.groups.get(at * 2..at * 2 + 2) else { return Some(0) };
        Some(i16::from_be_bytes(bytes.try_into().ok()?)).filter(|group| (0..10_000).contains(group))
    }

    fn digits(&self) -> Option<String> {
        let mut text = String::from(if self.sign == 0x4000 { "-" } else { "" });
        for at in (0..=self.weight.max(0)).rev() {
            text += &format!("{:04}", self.group(at)?);
        }
        let mut fraction = String::new();
        for at in 1..=i32::try_from(self.scale.div_ceil(4)).ok()? {
            fraction += &format!("{:04}", self.group(-at)?);
        }
        fraction.truncate(self.scale);
        if !fraction.is_empty() {
            text = text + "." + &fraction;
        }
        Some(text)
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
            assert_eq!(of_text(text).map_err(|error| error.code()), Err("22003"), "{text}");
        }
        assert!(matches!(of_text("NaN"), Ok(Some(Literal::Float(nan))) if nan.is_nan()));
    }

    #[test]
    fn numbers_in_binary() {
        let binary = |bytes: &[u8]| text(&Bytes::copy_from_slice(bytes)).map_err(|error| error.code());
        let is = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(binary(&[0, 3, 0, 1, 0x40, 0, 0, 4, 0, 1, 0x09, 0x29, 0x02, 0x9e]), is("-00012345.0670"));
        // It has no group before the point.
        assert_eq!(binary(&[0, 1, 0xff, 0xff, 0, 0, 0, 4, 0, 5]), is("0000.0005"));
        // 10^20 is one group and five of zeros, which are not written.
        assert_eq!(binary(&[0, 1, 0, 5, 0, 0, 0, 0, 0, 1]), is("000100000000000000000000"));
        assert_eq!(binary(&[0, 0, 0, 0, 0xC0, 0, 0, 0]), is("NaN"));
        assert_eq!(binary(&[0, 1, 0, 99, 0, 0, 0, 0, 0, 1]), Err("22003"));
        assert_eq!(binary(&[0, 1, 0, 0, 0, 0, 0, 0, 0x27, 0x10]), Ok(None));
        assert_eq!(binary(&[0, 1, 0, 0, 0, 0, 0, 0]), Ok(None));
        assert_eq!(binary(&[0, 0, 0, 0, 0x12, 0, 0, 0]), Ok(None));
    }
}
