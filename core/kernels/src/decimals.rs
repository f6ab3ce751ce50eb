//! Floats held as integers: decimals as ALP has them (Afroozeh, Kuffo and Boncz, "ALP: Adaptive Lossless
//! Floating-Point Compression", SIGMOD 2024).

use crate::dispatch::current;
pub use crate::forms::decimals::{Decimals, Form, Scale};

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
