//! Floats as decimals. A float counts as its shortest decimal, the one of fewest digits that is read back as it, which is
//! what a person wrote; and that is rounded to so many places, half of one away from zero. A product of floats would be
//! rounded before.

use std::fmt::{self, LowerExp, Write as _};

use arrow_array::{
    Array, Decimal128Array,
    cast::AsArray as _,
    types::{Decimal128Type, Float32Type, Float64Type},
};
use arrow_schema::DataType;

use crate::value::{pow10, to_f64};

/// The powers of ten that are floats.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// The unscaled value of a float in so many places; `None`: it is none, is infinite, or has more digits than 128 bits.
pub fn of_f64(float: f64, scale: u8) -> Option<i128> {
    let near = near(float, f64::MANTISSA_DIGITS, scale);
    near.or_else(|| Shortest::of(float)?.rounded(scale))
}

/// As [`of_f64`], by the shortest decimal that is read back as a float of 32 bits.
pub fn of_f32(float: f32, scale: u8) -> Option<i128> {
    let near = near(float.into(), f32::MANTISSA_DIGITS, scale);
    near.or_else(|| Shortest::of(float)?.rounded(scale))
}

/// Floats as decimals, null where one does not fit. `None`: they are no floats of 32 or 64 bits, or there are no such
/// decimals.
pub fn of_floats(floats: &dyn Array, precision: u8, scale: u8) -> Option<Decimal128Array> {
    let limit = pow10(precision)?.unsigned_abs();
    let fits = |unscaled: &i128| unscaled.unsigned_abs() < limit;
    let decimals = match floats.data_type() {
        DataType::Float64 => floats
            .as_primitive::<Float64Type>()
            .unary_opt::<_, Decimal128Type>(|float| of_f64(float, scale).filter(fits)),
        DataType::Float32 => floats
            .as_primitive::<Float32Type>()
            .unary_opt::<_, Decimal128Type>(|float| of_f32(float, scale).filter(fits)),
        _ => return None,
    };
    decimals.with_precision_and_scale(precision, scale.cast_signed()).ok()
}

/// The first row whose float fits no such decimal as [`of_floats`] has made of them.
pub fn first_beyond(floats: &dyn Array, decimals: &Decimal128Array) -> Option<usize> {
    if decimals.null_count() == floats.null_count() {
        return None;
    }
    (0..floats.len()).find(|row| floats.is_valid(*row) && decimals.is_null(*row))
}

/// The first row whose float has more places than the decimals that [`of_floats`] has made of them.
pub fn first_rounded(floats: &dyn Array, decimals: &Decimal128Array) -> Option<usize> {
    let scale = decimals.scale().unsigned_abs();
    let is_rounded = |row: usize| match floats.data_type() {
        // Were it read back as the float and not the shortest decimal, it would be a shorter one.
        DataType::Float64 => {
            to_f64(decimals.value(row), scale) != floats.as_primitive::<Float64Type>().value(row)
        }
        DataType::Float32 => {
            let shortest = Shortest::of(floats.as_primitive::<Float32Type>().value(row));
            !shortest.is_some_and(|shortest| shortest.has_places(scale))
        }
        _ => false,
    };
    (0..floats.len()).find(|row| decimals.is_valid(*row) && is_rounded(*row))
}

/// The unscaled value of a float of so many bits, where no digits are needed to tell it.
#[allow(clippy::cast_possible_truncation, reason = "what is cast is whole and has at most 53 bits")]
fn near(float: f64, bits: u32, scale: u8) -> Option<i128> {
    let ulp = 1.0 / (1_u64 << bits) as f64;
    if let Some(power) = POWERS.get(usize::from(scale)) {
        // The product is off by at most half of its last bit, and the shortest decimal is no farther from the float than
        // half of the float's. Twice that much is left between the product and the next half: there is but one number that
        // both are rounded to. A product of 2^50 or more never has so much, nor one that is no number.
        let product = float * power;
        let rounded = product.round();
        if 0.5 - (product - rounded).abs() > product.abs() * ulp * 4.0 {
            return Some(i128::from(rounded as i64));
        }
    }
    // The other numbers that are read back as a whole one of so few bits are less than one away, and have places.
    if float.fract() == 0.0 && float.abs() < (1_u64 << bits) as f64 {
        return i128::from(float as i64).checked_mul(pow10(scale)?);
    }
    None
}

/// The shortest decimal of a float: whole digits, of which the last is not 0, so many times a power of ten.
struct Shortest {
    negative: bool,
    /// There are at most 17.
    digits: u64,
    exponent: i32,
}

impl Shortest {
    /// `None`: it is no number, or infinite.
    fn of(float: impl LowerExp) -> Option<Self> {
        let mut text = Text::default();
        write!(text, "{float:e}").ok()?;
        let (mantissa, exponent) = text.as_str()?.split_once('e')?;
        let mut shortest = Self { negative: false, digits: 0, exponent: exponent.parse().ok()? };
        let mut behind = false;
        for byte in mantissa.bytes() {
            match byte {
                b'-' => shortest.negative = true,
                b'.' => behind = true,
                digit => {
                    shortest.digits = shortest.digits * 10 + u64::from(digit.checked_sub(b'0')?);
                    shortest.exponent -= i32::from(behind);
                }
            }
        }
        Some(shortest)
    }

    /// Whether it has no more places than these.
    fn has_places(&self, scale: u8) -> bool {
        self.digits == 0 || self.exponent + i32::from(scale) >= 0
    }

    /// The unscaled value in so many places; `None`: it does not fit.
    fn rounded(&self, scale: u8) -> Option<i128> {
        let more = self.exponent + i32::from(scale);
        let magnitude = if more >= 0 {
            i128::from(self.digits).checked_mul(pow10(u8::try_from(more).ok()?)?)?
        } else {
            // All of its digits are behind those that are left.
            let Some(one) = 10_u64.checked_pow(more.unsigned_abs()) else { return Some(0) };
            let (whole, rest) = (self.digits / one, self.digits % one);
            i128::from(whole + u64::from(rest >= one - rest))
        };
        Some(if self.negative { -magnitude } else { magnitude })
    }
}

/// What a float is written to.
#[derive(Default)]
struct Text {
    bytes: [u8; 32],
    length: usize,
}

impl Text {
    fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes.get(..self.length)?).ok()
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float32Array, Float64Array, Int64Array};
    use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

    use super::*;

    /// By the digits of a text, one by one.
    fn by_digits(text: &str, scale: u8) -> Option<i128> {
        let (mantissa, exponent) = text.split_once('e')?;
        let (negative, mantissa) = mantissa.strip_prefix('-').map_or((false, mantissa), |rest| (true, rest));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        let point = i64::try_from(whole.len()).unwrap() + exponent.parse::<i64>().unwrap();
        let kept = point + i64::from(scale);
        let mut value = 0_i128;
        for at in 0..kept {
            let digit = digits.as_bytes().get(usize::try_from(at).unwrap()).map_or(0, |digit| digit - b'0');
            value = value.checked_mul(10)?.checked_add(digit.into())?;
        }
        let next = usize::try_from(kept).ok().and_then(|kept| digits.as_bytes().get(kept));
        if next.is_some_and(|digit| *digit >= b'5') {
            value = value.checked_add(1)?;
        }
        Some(if negative { -value } else { value })
    }

    #[test]
    fn a_float_is_its_shortest_decimal() {
        for (float, scale, expected) in [
            (12_345_678_901_234_568.0, 4, Some(123_456_789_012_345_680_000)),
            (1e22, 2, Some(10_i128.pow(24))),
            (1e23, 0, Some(10_i128.pow(23))),
            (123_456_789.123, 20, Some(123_456_789_123 * 10_i128.pow(17))),
            (-0.1, 38, Some(-(10_i128.pow(37)))),
            (1.005, 2, Some(101)),
            (-1.005, 2, Some(-101)),
            (0.125, 2, Some(13)),
            (-0.125, 2, Some(-13)),
            (2.5, 0, Some(3)),
            (0.5, 0, Some(1)),
            (0.499_999_999_999_999_94, 0, Some(0)),
            (0.1 + 0.2, 17, Some(30_000_000_000_000_004)),
            (2_251_799_813_685_248.5, 0, Some(2_251_799_813_685_249)),
            (9_007_199_254_740_993.0, 1, Some(90_071_992_547_409_920)),
            (-0.0, 3, Some(0)),
            (5e-324, 38, Some(0)),
            (1e300, 0, None),
            (1e38, 1, None),
            (f64::MAX, 38, None),
            (f64::NAN, 2, None),
            (f64::INFINITY, 2, None),
            (f64::NEG_INFINITY, 30, None),
            (1.0, 39, None),
        ] {
            assert_eq!(of_f64(float, scale), expected, "{float:e} in {scale} places");
        }
        assert_eq!(of_f32(0.1, 20), Some(10_i128.pow(19)));
        assert_eq!(of_f32(16_777_217.0, 3), Some(16_777_216_000));
        assert_eq!(of_f32(1e10, 10), Some(10_i128.pow(20)));
        assert_eq!(of_f32(1.005, 2), Some(101));
        assert_eq!(of_f32(f32::NAN, 2), None);
        assert_eq!(of_f32(f32::MAX, 0), None);
        assert_eq!(of_f32(f32::MIN_POSITIVE, 38), Some(1));
    }

    #[test]
    #[allow(clippy::cast_possible_truncation, reason = "the nearest float of 32 bits is as good as any")]
    fn whichever_way_is_taken() {
        let mut random = StdRng::seed_from_u64(7);
        let check = |float: f64, scale: u8| {
            assert_eq!(of_f64(float, scale), by_digits(&format!("{float:e}"), scale), "{float:e}, {scale}");
        };
        let check_narrow = |float: f32, scale: u8| {
            assert_eq!(of_f32(float, scale), by_digits(&format!("{float:e}"), scale), "{float:e}, {scale}");
        };
        for _ in 0..20_000 {
            let scale = random.random_range(0..=38_u8);
            // What people write, whole and half numbers and their neighbours among them.
            let unscaled = random.random_range(-1_000_000_000_000_i64..1_000_000_000_000);
            let written = unscaled as f64 / 10_f64.powi(random.random_range(0..12));
            let half = (unscaled / random.random_range(1..1_000_000_000)) as f64 / 2.0;
            let small = random.random_range(0..8_u8);
            for float in [written, half, half / 10.0, half / 100.0, half / 1000.0] {
                for float in [float, float.next_up(), float.next_down()] {
                    check(float, scale.min(20));
                    check(float, small);
                    check_narrow(float as f32, small);
                }
            }
            let any = f64::from_bits(random.random());
            if any.is_finite() && any.abs() < 1e60 {
                check(any, scale);
            }
            let any = f32::from_bits(random.random());
            if any.is_finite() {
                check_narrow(any, scale);
            }
            check(random.random_range(-1e19..1e19), scale.min(18));
            check_narrow(random.random_range(-1e9..1e9), scale.min(18));
        }
    }

    #[test]
    fn what_does_not_fit_or_is_rounded_is_found() {
        let floats = Float64Array::from(vec![Some(12.34), None, Some(999.99), Some(-0.0)]);
        let decimals = of_floats(&floats, 5, 2).unwrap();
        assert_eq!(decimals.iter().collect::<Vec<_>>(), [Some(1234), None, Some(99_999), Some(0)]);
        assert_eq!(first_beyond(&floats, &decimals), None);
        assert_eq!(first_rounded(&floats, &decimals), None);
        let floats =
            Float64Array::from(vec![Some(12.34), None, Some(999.995), Some(0.1 + 0.2), Some(f64::NAN)]);
        let decimals = of_floats(&floats, 5, 2).unwrap();
        assert_eq!(first_beyond(&floats, &decimals), Some(2));
        assert_eq!(first_rounded(&floats, &decimals), Some(3));
        let floats = Float32Array::from(vec![12.34, 0.125]);
        let decimals = of_floats(&floats, 5, 2).unwrap();
        assert_eq!(decimals.iter().collect::<Vec<_>>(), [Some(1234), Some(13)]);
        assert_eq!(first_rounded(&floats, &decimals), Some(1));
        assert!(of_floats(&Int64Array::from(vec![1]), 5, 2).is_none());
    }
}
