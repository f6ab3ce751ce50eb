//! Decimals as text, and whole numbers of more than 64 bits.

pub(crate) mod floats;
pub(crate) mod numeric;
pub(crate) mod quotient;
pub(crate) mod whole;

use arrow_array::{ArrayRef, Decimal128Array, cast::AsArray as _, types::Decimal128Type};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};
use basalt_core::error::ErrorKind;
use datafusion::{arrow::compute::cast, common::ScalarValue};

use crate::error::Error;

/// A whole number of 38 digits.
pub(crate) const WHOLE: DataType = DataType::Decimal128(38, 0);

/// What 38 digits can say.
pub(crate) const MOST: u128 = 10_u128.pow(38) - 1;

/// Whether it is a decimal without places behind the point.
pub(crate) fn is_whole(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(_, 0))
}

/// Whether its values are whole numbers of 64 bits.
pub(crate) fn is_integer(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(..=18, 0))
}

/// `a // b` of whole numbers: towards zero.
pub(crate) fn divided(a: &ArrayRef, b: &ArrayRef) -> datafusion::common::Result<Decimal128Array> {
    let (a, b) = (cast(a, &WHOLE)?, cast(b, &WHOLE)?);
    let (a, b) = (a.as_primitive::<Decimal128Type>(), b.as_primitive::<Decimal128Type>());
    let of_row = |(a, b): (Option<i128>, Option<i128>)| match (a, b) {
        (Some(_), Some(0)) => Err(Error::new(ErrorKind::DivisionByZero, "division by zero")),
        // It is no greater than what is divided, which has 38 digits.
        (Some(a), Some(b)) => Ok(Some(a.wrapping_div(b))),
        _ => Ok(None),
    };
    let quotients: Result<Decimal128Array, Error> = a.iter().zip(b.iter()).map(of_row).collect();
    Ok(quotients?.with_precision_and_scale(38, 0)?)
}

/// The decimal that a text such as `-1.50` writes, with all of its places; `None`: it has an exponent, more digits than fit, or is no
/// number.
pub(crate) fn of_text(text: &str) -> Option<ScalarValue> {
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    if text.contains(['e', 'E', '_']) {
        return None;
    }
    let places = text.split_once('.').map_or(0, |(_, behind)| behind.len());
    let scale = u8::try_from(places).ok().filter(|scale| *scale <= DECIMAL128_MAX_PRECISION)?;
    let unscaled = read(text, DECIMAL128_MAX_PRECISION, scale.cast_signed())?;
    let digits = unscaled.unsigned_abs().checked_ilog10().map_or(1, |below| below + 1);
    let precision = u8::try_from(digits).ok()?.max(scale);
    Some(ScalarValue::Decimal128(Some(unscaled), precision, scale.cast_signed()))
}

/// Digits and places of the decimal that a text such as `-1.50` or `1e-3` writes: all of its places, as far as 38 digits go.
/// `None`: it is no number.
pub(crate) fn digits_of_text(text: &str) -> Option<(u8, u8)> {
    let Written { before, behind, exponent, .. } = Written::new(text)?;
    let most = i64::from(DECIMAL128_MAX_PRECISION);
    let before = i64::try_from(before.trim_start_matches('0').len()).ok()?;
    let whole = before.saturating_add(exponent).clamp(0, most);
    let places = i64::try_from(behind.len()).ok()?.saturating_sub(exponent).clamp(0, most - whole);
    Some((u8::try_from((whole + places).max(1)).ok()?, u8::try_from(places).ok()?))
}

/// A text such as `-1.5`, ` +1e3 ` or `1_000.25`, taken apart.
struct Written {
    negative: bool,
    /// The digits before the point, and those behind it.
    before: String,
    behind: String,
    exponent: i64,
}

impl Written {
    /// `None`: it is no number.
    fn new(text: &str) -> Option<Self> {
        let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
        let (negative, text) = match text.strip_prefix(['-', '+']) {
            Some(rest) => (text.starts_with('-'), rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, whole(exponent)?),
            None => (text, 0),
        };
        // Default: there is no point.
        let (before, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let (before, behind) = (digits(before)?, digits(behind)?);
        let is_number = !before.is_empty() || !behind.is_empty();
        is_number.then_some(Self { negative, before, behind, exponent })
    }
}

/// The unscaled value of a text such as `-1.5`, ` +1e3 ` or `1_000.25`, rounded to so many places, half of one away from
/// zero; `None`: it is no number, or has more digits than fit.
pub(crate) fn read(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let Written { negative, before, behind, exponent } = Written::new(text)?;
    let all = format!("{before}{behind}");
    let all = all.trim_start_matches('0');
    // How many of the digits stand before the point of the unscaled value.
    let leading = i64::try_from(before.len() + behind.len() - all.len()).ok()?;
    let kept = i64::try_from(before.len()).ok()? - leading + exponent + i64::from(scale);
    let mut value: i128 = 0;
    let limit = 10_i128.checked_pow(precision.into())?;
    if !all.is_empty() && kept >= 0 {
        if kept > 40 {
            return None;
        }
        let kept = usize::try_from(kept).ok()?;
        for at in 0..kept {
            let digit = all.as_bytes().get(at).map_or(0, |digit| i128::from(digit - b'0'));
            value = value.checked_mul(10)?.checked_add(digit)?;
        }
        if all.as_bytes().get(kept).is_some_and(|digit| *digit >= b'5') {
            value = value.checked_add(1)?;
        }
    }
    (value < limit).then_some(if negative { -value } else { value })
}

/// Digits, between which there may be `_`.
fn digits(text: &str) -> Option<String> {
    let parts = text.split('_').all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let apart = !text.starts_with('_') && !text.ends_with('_') && !text.contains("__");
    (parts && apart).then(|| text.replace('_', ""))
}

fn whole(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number =
        !digits.is_empty() && digits.len() < 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_say_how_many_digits_they_have() {
        for (text, expected) in [
            ("1.12345678901234", Some((15, 14))),
            (" -0.50 ", Some((2, 2))),
            ("007", Some((1, 0))),
            ("0", Some((1, 0))),
            ("1_000.25", Some((6, 2))),
            ("1e3", Some((4, 0))),
            ("1.5e-3", Some((4, 4))),
            ("0.001e5", Some((5, 0))),
            ("1e-400", Some((38, 38))),
            ("1.0000000000000000000000000000000000000001", Some((38, 37))),
            ("1e400", Some((38, 0))),
            ("nan", None),
            (".", None),
            ("", None),
        ] {
            assert_eq!(digits_of_text(text), expected, "{text}");
        }
    }

    #[test]
    fn texts_are_read_as_decimals() {
        for (text, precision, scale, expected) in [
            ("1.5", 18, 3, Some(1500)),
            (" -1.2345 ", 18, 3, Some(-1235)),
            ("+1e-1", 38, 3, Some(100)),
            (".1e3", 18, 3, Some(100_000)),
            ("1_000.5", 18, 0, Some(1001)),
            ("0.0005", 18, 3, Some(1)),
            ("0.0004999", 18, 3, Some(0)),
            ("0e99999", 18, 3, Some(0)),
            ("000123", 3, 0, Some(123)),
            ("1e38", 38, 0, None),
            ("99999999999999999999999999999999999999", 38, 0, Some(10_i128.pow(38) - 1)),
            ("999.5", 3, 0, None),
            ("1e-400", 38, 10, Some(0)),
            ("", 18, 3, None),
            (".", 18, 3, None),
            ("1e", 18, 3, None),
            ("e5", 18, 3, None),
            ("1__0", 18, 3, None),
            ("1.5x", 18, 3, None),
            ("nan", 18, 3, None),
        ] {
            assert_eq!(read(text, precision, scale), expected, "{text}");
        }
    }
}
