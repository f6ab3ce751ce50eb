//! Values under a mask word: its bits are spread to lanes.

use std::{arch::x86_64::*, array::from_fn};

use crate::{
    Native,
    chunks::CHUNK,
    registers::{load, store},
};

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lanes_of_8<T: Native>(values: &[T; CHUNK], bits: u64, fill: T) -> [T; CHUNK] {
    let byte_of_lane: __m256i = load(&from_fn::<u8, 32, _>(|lane| lane as u8 / 8));
    let bit_of_lane: __m256i = load(&from_fn::<u8, 32, _>(|lane| 1 << (lane % 8)));
    let mut selected = [fill; CHUNK];
    let groups = values.as_chunks::<32>().0.iter().zip(selected.as_chunks_mut::<32>().0);
    for (i, (lanes, selected)) in groups.enumerate() {
        let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((bits >> (32 * i)) as i32), byte_of_lane);
        let chosen = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit_of_lane), bit_of_lane);
        *selected = store(_mm256_blendv_epi8(load(&[fill; 32]), load(lanes), chosen));
    }
    selected
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lanes_of_16<T: Native>(values: &[T; CHUNK], bits: u64, fill: T) -> [T; CHUNK] {
    let bit_of_lane: __m256i = load(&from_fn::<u16, 16, _>(|lane| 1 << lane));
    let mut selected = [fill; CHUNK];
    let groups = values.as_chunks::<16>().0.iter().zip(selected.as_chunks_mut::<16>().0);
    for (i, (lanes, selected)) in groups.enumerate() {
        let bits = _mm256_set1_epi16((bits >> (16 * i)) as i16);
        let chosen = _mm256_cmpeq_epi16(_mm256_and_si256(bits, bit_of_lane), bit_of_lane);
        *selected = store(_mm256_blendv_epi8(load(&[fill; 16]), load(lanes), chosen));
    }
    selected
}

// A blend of wide lanes looks at sign bits alone, so the lanes' bits are shifted there.

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lanes_of_32<T: Native>(values: &[T; CHUNK], bits: u64, fill: T) -> [T; CHUNK] {
    let mut selected = [fill; CHUNK];
    let groups = values.as_chunks::<8>().0.iter().zip(selected.as_chunks_mut::<8>().0);
    for (i, (lanes, selected)) in groups.enumerate() {
        let bits = _mm256_set1_epi32((bits >> (i / 4 * 32)) as i32);
        let chosen =
            _mm256_sllv_epi32(bits, load(&from_fn::<u32, 8, _>(|lane| (31 - i % 4 * 8 - lane) as u32)));
        *selected = store(_mm256_blendv_ps(load(&[fill; 8]), load(lanes), _mm256_castsi256_ps(chosen)));
    }
    selected
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lanes_of_64<T: Native>(values: &[T; CHUNK], bits: u64, fill: T) -> [T; CHUNK] {
    let bits = _mm256_set1_epi64x(bits.cast_signed());
    let mut selected = [fill; CHUNK];
    let groups = values.as_chunks::<4>().0.iter().zip(selected.as_chunks_mut::<4>().0);
    for (i, (lanes, selected)) in groups.enumerate() {
        let chosen = _mm256_sllv_epi64(bits, load(&from_fn::<u64, 4, _>(|lane| (63 - i * 4 - lane) as u64)));
        *selected = store(_mm256_blendv_pd(load(&[fill; 4]), load(lanes), _mm256_castsi256_pd(chosen)));
    }
    selected
}
