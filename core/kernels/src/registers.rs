//! Registers from arrays and back.

use std::arch::x86_64::*;

use crate::Native;

/// A register: any bits are one.
pub(crate) trait Register: Copy {}

impl Register for __m128 {}
impl Register for __m128i {}
impl Register for __m256i {}
impl Register for __m256 {}
impl Register for __m256d {}
impl Register for __m512i {}
impl Register for __m512 {}
impl Register for __m512d {}

/// The register with these lanes.
#[inline(always)]
pub(crate) fn load<V: Register, T: Native, const N: usize>(lanes: &[T; N]) -> V {
    const { assert!(size_of::<V>() == size_of::<[T; N]>()) };
    // SAFETY: the sizes are equal, and a register is any bits.
    unsafe { std::mem::transmute_copy(lanes) }
}

/// The lanes of a register.
#[inline(always)]
pub(crate) fn store<V: Register, T: Native, const N: usize>(register: V) -> [T; N] {
    const { assert!(size_of::<V>() == size_of::<[T; N]>()) };
    // SAFETY: the sizes are equal, and a number is any bits.
    unsafe { std::mem::transmute_copy(&register) }
}

/// Evaluates an expression of intrinsics in a method of an instruction set's type.
macro_rules! simd {
    ($($intrinsics:tt)*) => {
        // SAFETY: `self` is a proof that the CPU has the instructions.
        unsafe { $($intrinsics)* }
    };
}

pub(crate) use simd;
