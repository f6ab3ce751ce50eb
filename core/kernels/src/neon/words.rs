//! Registers of 128 bits as words.

use std::arch::aarch64::*;

use super::{Neon, cast};
use crate::{
    lanes::{GroupLanes, Lanes},
    registers::simd,
    words::{Words, total},
};

impl Words for Neon {
    type Register = uint64x2_t;

    #[inline(always)]
    fn word(self, word: u64) -> uint64x2_t {
        simd!(vdupq_n_u64(word))
    }

    #[inline(always)]
    fn and(self, a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        simd!(vandq_u64(a, b))
    }

    #[inline(always)]
    fn or(self, a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        simd!(vorrq_u64(a, b))
    }

    #[inline(always)]
    fn xor(self, a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        simd!(veorq_u64(a, b))
    }

    #[inline(always)]
    fn add_words(self, a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
        simd!(vaddq_u64(a, b))
    }

    #[inline(always)]
    fn add_bytes(self, register: uint64x2_t) -> uint64x2_t {
        simd!(vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(cast(register)))))
    }

    #[inline(always)]
    fn right(self, register: uint64x2_t, bits: u32, shift: u32) -> uint64x2_t {
        // There is but a shift left, which goes right by a negative number.
        let shift = -shift.cast_signed();
        simd!(match bits {
            16 => cast(vshlq_u16(cast(register), vdupq_n_s16(shift as i16))),
            32 => cast(vshlq_u32(cast(register), vdupq_n_s32(shift))),
            _ => vshlq_u64(register, vdupq_n_s64(shift.into())),
        })
    }

    #[inline(always)]
    fn left(self, register: uint64x2_t, bits: u32, shift: u32) -> uint64x2_t {
        simd!(match bits {
            16 => cast(vshlq_u16(cast(register), vdupq_n_s16(shift as i16))),
            32 => cast(vshlq_u32(cast(register), vdupq_n_s32(shift.cast_signed()))),
            _ => vshlq_u64(register, vdupq_n_s64(shift.into())),
        })
    }

    #[inline(always)]
    fn high_signed(self, register: uint64x2_t) -> Option<uint64x2_t> {
        Some(simd!(cast(vshrq_n_s64::<32>(cast(register)))))
    }

    #[inline(always)]
    fn total_words(self, register: uint64x2_t) -> u64 {
        total::<_, 2>(register)
    }
}

impl GroupLanes for Neon {
    const FEW: usize = 0;

    const FEW_FLOATS: usize = 0;

    #[inline(always)]
    fn add_selected_words(self, sums: uint64x2_t, vector: uint64x2_t, word: u64, i: usize) -> uint64x2_t {
        self.add_words(sums, Lanes::<i64>::select(self, vector, word, i, self.word(0)))
    }
}
