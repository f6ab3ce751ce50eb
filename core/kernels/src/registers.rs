//! Registers from arrays and back.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::*;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::Native;

/// A register: any bits are one.
pub(crate) trait Register: Copy {}

macro_rules! registers {
    ($arch:literal: $($t:ident)*) => {$(
        #[cfg(target_arch = $arch)]
        impl Register for $t {}
    )*};
}

registers!("x86_64": __m128 __m128i __m256 __m256i __m256d __m512 __m512i __m512d);
registers!("aarch64": int8x16_t int16x8_t int32x4_t int64x2_t uint8x16_t uint16x8_t uint32x4_t uint64x2_t);
registers!("aarch64": float32x4_t float64x2_t);

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
