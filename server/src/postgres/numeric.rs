//! Numbers of PostgreSQL's type numeric, as a client writes them: decimals of their digits.

use basalt_core::{logical::WIDE_DIGITS, query::Literal};
use bytes::Bytes;

use super::error::{Error, Result};
use crate::sql::numbers::{self, TooManyDigits};

/// The value of a text such as `-12.50` or `1E+20`; `None`: it is no number.
///
/// # Errors
/// Where it is a number of more digits than decimals have.
pub(super) fn of_text(text: &str) -> Result<Option<Literal>> {
    let value = numbers::of_text(text).map_err(|TooManyDigits| out_of_range())?;
    Ok(value.map(|value| match value {
        // Without a fraction it is of that type too: columns that are made of it stay of one type.
        Literal::Int(whole) => Literal::Decimal { unscaled: whole.into(), scale: 0 },
        other => other,
    }))
}

fn out_of_range() -> Error {
    Error::new("22003", format!("a parameter of type numeric has more than {WIDE_DIGITS} digits"))
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

    #[test]
    fn more_digits_than_decimals_have_are_out_of_range() {
        assert_eq!(of_text("-0.25").unwrap(), Some(Literal::Decimal { unscaled: -25, scale: 2 }));
        assert_eq!(of_text("10").unwrap(), Some(Literal::Decimal { unscaled: 10, scale: 0 }));
        assert_eq!(of_text("1e38").map_err(|error| error.code()), Err("22003"));
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
