//! Lanes of ones and of zeros as bits, and the bits of a chunk's mask word as lanes of its `i`-th register.

use std::{arch::aarch64::*, array::from_fn};

use super::Neon;
use crate::registers::{load, simd};

impl Neon {
    #[inline(always)]
    pub(super) fn bits_8(self, lanes: uint8x16_t) -> u64 {
        let bit_of_lane = load(&from_fn::<u8, 16, _>(|lane| 1 << (lane % 8)));
        simd!({
            let bits = vandq_u8(lanes, bit_of_lane);
            u64::from(vaddv_u8(vget_low_u8(bits))) | u64::from(vaddv_u8(vget_high_u8(bits))) << 8
        })
    }

    #[inline(always)]
    pub(super) fn bits_16(self, lanes: uint16x8_t) -> u64 {
        let bit_of_lane = load(&from_fn::<u16, 8, _>(|lane| 1 << lane));
        simd!(vaddvq_u16(vandq_u16(lanes, bit_of_lane)).into())
    }

    #[inline(always)]
    pub(super) fn bits_32(self, lanes: uint32x4_t) -> u64 {
        let bit_of_lane = load(&from_fn::<u32, 4, _>(|lane| 1 << lane));
        simd!(vaddvq_u32(vandq_u32(lanes, bit_of_lane)).into())
    }

    #[inline(always)]
    pub(super) fn bits_64(self, lanes: uint64x2_t) -> u64 {
        simd!(vgetq_lane_u64::<0>(lanes) & 1 | vgetq_lane_u64::<1>(lanes) & 2)
    }

    #[inline(always)]
    pub(super) fn spread_8(self, word: u64, i: usize) -> uint8x16_t {
        let bit_of_lane = load(&from_fn::<u8, 16, _>(|lane| 1 << (lane % 8)));
        let bits = word >> (16 * i);
        simd!(vtstq_u8(vcombine_u8(vdup_n_u8(bits as u8), vdup_n_u8((bits >> 8) as u8)), bit_of_lane))
    }

    #[inline(always)]
    pub(super) fn spread_16(self, word: u64, i: usize) -> uint16x8_t {
        let bit_of_lane = load(&from_fn::<u16, 8, _>(|lane| 1 << lane));
        simd!(vtstq_u16(vdupq_n_u16((word >> (8 * i)) as u16), bit_of_lane))
    }

    #[inline(always)]
    pub(super) fn spread_32(self, word: u64, i: usize) -> uint32x4_t {
        let bit_of_lane = load(&from_fn::<u32, 4, _>(|lane| 1 << lane));
        simd!(vtstq_u32(vdupq_n_u32((word >> (4 * i)) as u32), bit_of_lane))
    }

    #[inline(always)]
    pub(super) fn spread_64(self, word: u64, i: usize) -> uint64x2_t {
        let bit_of_lane = load(&[1_u64, 2]);
        simd!(vtstq_u64(vdupq_n_u64(word >> (2 * i)), bit_of_lane))
    }
}
