//! Floats held as integers: decimals as ALP has them (Afroozeh, Kuffo and Boncz, "ALP: Adaptive Lossless
//! Floating-Point Compression", SIGMOD 2024).

use crate::dispatch::current;

/// What integers stand for: `d` for `d * up * down`, rounded to the nearest float64 after each product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The first factor.
    pub up: f64,
    /// The second factor.
    pub down: f64,
}

impl Scale {
    /// The float that an integer stands for.
    #[inline(always)]
    pub fn float(self, integer: i64) -> f64 {
        integer as f64 * self.up * self.down
    }
}

/// What an integer is replaced by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The bits of the float64.
    Double,
    /// The bits of the float64, once it was rounded to a float32.
    Single,
    /// The bits of the float64 as a number that orders as the floats do: of negative ones, all but the sign flipped.
    DoubleKey,
    /// The same of the bits of the float32, with its sign extended.
    SingleKey,
}

/// Replaces integers by the floats that they stand for.
pub fn convert(scale: Scale, form: Form, integers: &mut [i64]) {
    current().decimals_convert(scale, form, integers);
}

/// The places of floats, to write their bits to.
pub fn as_bits(floats: &mut [f64]) -> &mut [i64] {
    const { assert!(size_of::<f64>() == size_of::<i64>() && align_of::<f64>() == align_of::<i64>()) };
    // SAFETY: the pointer and the length cover exactly the floats, which are borrowed as long as the bits are;
    // any bits are a float and an integer, and sizes and alignments are equal.
    unsafe { std::slice::from_raw_parts_mut(floats.as_mut_ptr().cast(), floats.len()) }
}
