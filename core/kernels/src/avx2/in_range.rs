//! Ranges of values to mask words.
//!
//! An integer is in a range where its distance from the lower bound, as an unsigned number, is at most that of
//! the upper bound; so signed and unsigned integers are one.

use std::arch::x86_64::*;

use crate::{Integer, chunks::CHUNK, registers::load};

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lanes_of_8<T: Integer>(values: &[T; CHUNK], lo: T, hi: T) -> u64 {
    let lo = load(&[lo; 32]);
    let span = _mm256_sub_epi8(load(&[hi; 32]), lo);
    let mut word = 0;
    for (i, lanes) in values.as_chunks::<32>().0.iter().enumerate() {
        let distance = _mm256_sub_epi8(load(lanes), lo);
        let inside = _mm256_cmpeq_epi8(_mm256_min_epu8(distance, span), distance);
        word |= bits_of_8(inside) << (32 * i);
    }
    word
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lanes_of_16<T: Integer>(values: &[T; CHUNK], lo: T, hi: T) -> u64 {
    let lo = load(&[lo; 16]);
    let span = _mm256_sub_epi16(load(&[hi; 16]), lo);
    let mut word = 0;
    for (i, lanes) in values.as_chunks::<32>().0.iter().enumerate() {
        let inside = |lanes: &[T; 16]| {
            let distance = _mm256_sub_epi16(load(lanes), lo);
            _mm256_cmpeq_epi16(_mm256_min_epu16(distance, span), distance)
        };
        let (halves, _) = lanes.as_chunks::<16>();
        // Packing works within halves of registers, so the quarters are put in order.
        let packed = _mm256_packs_epi16(inside(&halves[0]), inside(&halves[1]));
        word |= bits_of_8(_mm256_permute4x64_epi64::<0b11_01_10_00>(packed)) << (32 * i);
    }
    word
}

/// The sign bits of 32 lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn bits_of_8(lanes: __m256i) -> u64 {
    u64::from(_mm256_movemask_epi8(lanes).cast_unsigned())
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lanes_of_32<T: Integer>(values: &[T; CHUNK], lo: T, hi: T) -> u64 {
    let lo = load(&[lo; 8]);
    let span = _mm256_sub_epi32(load(&[hi; 8]), lo);
    let mut word = 0;
    for (i, lanes) in values.as_chunks::<8>().0.iter().enumerate() {
        let distance = _mm256_sub_epi32(load(lanes), lo);
        let inside = _mm256_cmpeq_epi32(_mm256_min_epu32(distance, span), distance);
        word |= bits_of_32(_mm256_castsi256_ps(inside)) << (8 * i);
    }
    word
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn floats_of_32(values: &[f32; CHUNK], lo: f32, hi: f32) -> u64 {
    let (lo, hi) = (_mm256_set1_ps(lo), _mm256_set1_ps(hi));
    let mut word = 0;
    for (i, lanes) in values.as_chunks::<8>().0.iter().enumerate() {
        let lanes = load(lanes);
        let (above, below) = (_mm256_cmp_ps::<_CMP_GE_OQ>(lanes, lo), _mm256_cmp_ps::<_CMP_LE_OQ>(lanes, hi));
        word |= bits_of_32(_mm256_and_ps(above, below)) << (8 * i);
    }
    word
}

/// The sign bits of 8 lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn bits_of_32(lanes: __m256) -> u64 {
    u64::from(_mm256_movemask_ps(lanes).cast_unsigned())
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lanes_of_64<T: Integer>(values: &[T; CHUNK], lo: T, hi: T) -> u64 {
    // There is no unsigned comparison: distances are compared with their sign bits flipped.
    let flip = _mm256_set1_epi64x(i64::MIN);
    let lo = load(&[lo; 4]);
    let span = _mm256_xor_si256(_mm256_sub_epi64(load(&[hi; 4]), lo), flip);
    let lo = _mm256_xor_si256(lo, flip);
    let mut outside = 0;
    for (i, lanes) in values.as_chunks::<4>().0.iter().enumerate() {
        let distance = _mm256_sub_epi64(load(lanes), lo);
        let greater = _mm256_cmpgt_epi64(distance, span);
        outside |= bits_of_64(_mm256_castsi256_pd(greater)) << (4 * i);
    }
    !outside
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn floats_of_64(values: &[f64; CHUNK], lo: f64, hi: f64) -> u64 {
    let (lo, hi) = (_mm256_set1_pd(lo), _mm256_set1_pd(hi));
    let mut word = 0;
    for (i, lanes) in values.as_chunks::<4>().0.iter().enumerate() {
        let lanes = load(lanes);
        let (above, below) = (_mm256_cmp_pd::<_CMP_GE_OQ>(lanes, lo), _mm256_cmp_pd::<_CMP_LE_OQ>(lanes, hi));
        word |= bits_of_64(_mm256_and_pd(above, below)) << (4 * i);
    }
    word
}

/// The sign bits of 4 lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn bits_of_64(lanes: __m256d) -> u64 {
    u64::from(_mm256_movemask_pd(lanes).cast_unsigned())
}
