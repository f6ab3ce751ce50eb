//! Floats in registers of 128 bits.

use std::{arch::aarch64::*, array::from_fn};

use super::{Neon, cast};
use crate::{
    chunks::CHUNK,
    lanes::{FloatLanes, Lanes},
    registers::{load, simd, store},
};

macro_rules! lanes {
    ($(
        $t:ident in $vector:ident: $equal:ident, $at_least:ident, $at_most:ident, $less:ident, $greater:ident, $and:ident,
        $bits:ident, $blend:ident $spread:ident;
    )*) => {$(
        impl Lanes<$t> for Neon {
            const COUNT: usize = 16 / size_of::<$t>();

            const SPARSE: u32 = 2 * size_of::<$t>() as u32;

            type Vector = $vector;

            type Range = ($vector, $vector);

            #[inline(always)]
            fn load(self, values: &[$t], i: usize) -> $vector {
                load(&values.as_chunks::<{ 16 / size_of::<$t>() }>().0[i])
            }

            #[inline(always)]
            fn store(self, vector: $vector, values: &mut [$t], i: usize) {
                values.as_chunks_mut::<{ 16 / size_of::<$t>() }>().0[i] = store(vector);
            }

            #[inline(always)]
            fn splat(self, value: $t) -> $vector {
                load(&[value; 16 / size_of::<$t>()])
            }

            #[inline(always)]
            fn range(self, lo: $t, hi: $t) -> Self::Range {
                (self.splat(lo), self.splat(hi))
            }

            #[inline(always)]
            fn in_range(self, vector: $vector, (lo, hi): Self::Range) -> u64 {
                self.$bits(simd!($and($at_least(vector, lo), $at_most(vector, hi))))
            }

            #[inline(always)]
            fn equal(self, vector: $vector, other: $vector) -> u64 {
                self.$bits(simd!($equal(vector, other)))
            }

            #[inline(always)]
            fn at_least(self, vector: $vector, other: $vector) -> u64 {
                self.$bits(simd!($at_least(vector, other)))
            }

            #[inline(always)]
            fn at_most(self, vector: $vector, other: $vector) -> u64 {
                self.$bits(simd!($at_most(vector, other)))
            }

            #[inline(always)]
            fn nan(self, vector: $vector) -> u64 {
                let numbers = self.$bits(simd!($equal(vector, vector)));
                !numbers & ((1 << <Self as Lanes<$t>>::COUNT) - 1)
            }

            #[inline(always)]
            fn select(self, vector: $vector, word: u64, i: usize, fill: $vector) -> $vector {
                simd!($blend(self.$spread(word, i), vector, fill))
            }

            #[inline(always)]
            fn min(self, vector: $vector, least: $vector) -> $vector {
                simd!($blend($less(vector, least), vector, least))
            }

            #[inline(always)]
            fn max(self, vector: $vector, greatest: $vector) -> $vector {
                simd!($blend($greater(vector, greatest), vector, greatest))
            }
        }
    )*};
}

lanes! {
    f32 in float32x4_t: vceqq_f32, vcgeq_f32, vcleq_f32, vcltq_f32, vcgtq_f32, vandq_u32, bits_32, vbslq_f32 spread_32;
    f64 in float64x2_t: vceqq_f64, vcgeq_f64, vcleq_f64, vcltq_f64, vcgtq_f64, vandq_u64, bits_64, vbslq_f64 spread_64;
}

macro_rules! floats {
    ($($t:ident: |$pair:ident| $widen:expr;)*) => {$(
        impl FloatLanes<$t> for Neon {
            type Eight = [float64x2_t; 4];

            #[inline(always)]
            fn eight(self, lanes: [f64; 8]) -> [float64x2_t; 4] {
                from_fn(|i| load(&lanes.as_chunks::<2>().0[i]))
            }

            #[inline(always)]
            fn lanes(self, eight: [float64x2_t; 4]) -> [f64; 8] {
                from_fn(|lane| store::<_, f64, 2>(eight[lane / 2])[lane % 2])
            }

            #[inline(always)]
            fn load_eight(self, chunk: &[$t; CHUNK], i: usize) -> [float64x2_t; 4] {
                from_fn(|pair| {
                    let $pair = &chunk.as_chunks::<2>().0[4 * i + pair];
                    $widen
                })
            }

            #[inline(always)]
            fn add_selected(
                self,
                sums: [float64x2_t; 4],
                eight: [float64x2_t; 4],
                word: u64,
                i: usize,
            ) -> [float64x2_t; 4] {
                // Adding +0.0 is the same as adding nothing.
                from_fn(|pair| {
                    let lanes = self.spread_64(word, 4 * i + pair);
                    simd!(vaddq_f64(sums[pair], cast(vandq_u64(cast(eight[pair]), lanes))))
                })
            }

            #[inline(always)]
            fn add_eight(self, a: [float64x2_t; 4], b: [float64x2_t; 4]) -> [float64x2_t; 4] {
                from_fn(|pair| simd!(vaddq_f64(a[pair], b[pair])))
            }
        }
    )*};
}

floats! {
    f32: |pair| load(&pair.map(f64::from));
    f64: |pair| load(pair);
}
