//! Integers in registers of 128 bits.

use std::arch::aarch64::*;

use super::{Neon, cast};
use crate::{
    lanes::Lanes,
    registers::{load, simd, store},
};

macro_rules! lanes {
    ($(
        $t:ident: $equal:ident, $at_least:ident, $at_most:ident, $and:ident, $bits:ident, $spread:ident,
        |$v:ident, $other:ident| $min:expr, $max:expr;
    )*) => {$(
        impl Lanes<$t> for Neon {
            const COUNT: usize = 16 / size_of::<$t>();

            const SPARSE: u32 = 2 * size_of::<$t>() as u32;

            type Vector = uint64x2_t;

            type Range = (uint64x2_t, uint64x2_t);

            #[inline(always)]
            fn load(self, values: &[$t], i: usize) -> uint64x2_t {
                load(&values.as_chunks::<{ 16 / size_of::<$t>() }>().0[i])
            }

            #[inline(always)]
            fn store(self, vector: uint64x2_t, values: &mut [$t], i: usize) {
                values.as_chunks_mut::<{ 16 / size_of::<$t>() }>().0[i] = store(vector);
            }

            #[inline(always)]
            fn splat(self, value: $t) -> uint64x2_t {
                load(&[value; 16 / size_of::<$t>()])
            }

            #[inline(always)]
            fn range(self, lo: $t, hi: $t) -> Self::Range {
                (self.splat(lo), self.splat(hi))
            }

            #[inline(always)]
            fn in_range(self, vector: uint64x2_t, (lo, hi): Self::Range) -> u64 {
                self.$bits(simd!($and(
                    $at_least(cast(vector), cast(lo)),
                    $at_most(cast(vector), cast(hi))
                )))
            }

            #[inline(always)]
            fn equal(self, vector: uint64x2_t, other: uint64x2_t) -> u64 {
                self.$bits(simd!($equal(cast(vector), cast(other))))
            }

            #[inline(always)]
            fn at_least(self, vector: uint64x2_t, other: uint64x2_t) -> u64 {
                self.$bits(simd!($at_least(cast(vector), cast(other))))
            }

            #[inline(always)]
            fn at_most(self, vector: uint64x2_t, other: uint64x2_t) -> u64 {
                self.$bits(simd!($at_most(cast(vector), cast(other))))
            }

            #[inline(always)]
            fn nan(self, _vector: uint64x2_t) -> u64 {
                0
            }

            #[inline(always)]
            fn select(self, vector: uint64x2_t, word: u64, i: usize, fill: uint64x2_t) -> uint64x2_t {
                simd!(vbslq_u64(cast(self.$spread(word, i)), vector, fill))
            }

            #[inline(always)]
            fn min(self, vector: uint64x2_t, least: uint64x2_t) -> uint64x2_t {
                let ($v, $other) = (vector, least);
                simd!($min)
            }

            #[inline(always)]
            fn max(self, vector: uint64x2_t, greatest: uint64x2_t) -> uint64x2_t {
                let ($v, $other) = (vector, greatest);
                simd!($max)
            }
        }
    )*};
}

lanes! {
    i8: vceqq_s8, vcgeq_s8, vcleq_s8, vandq_u8, bits_8, spread_8,
        |v, other| cast(vminq_s8(cast(v), cast(other))), cast(vmaxq_s8(cast(v), cast(other)));
    i16: vceqq_s16, vcgeq_s16, vcleq_s16, vandq_u16, bits_16, spread_16,
        |v, other| cast(vminq_s16(cast(v), cast(other))), cast(vmaxq_s16(cast(v), cast(other)));
    i32: vceqq_s32, vcgeq_s32, vcleq_s32, vandq_u32, bits_32, spread_32,
        |v, other| cast(vminq_s32(cast(v), cast(other))), cast(vmaxq_s32(cast(v), cast(other)));
    i64: vceqq_s64, vcgeq_s64, vcleq_s64, vandq_u64, bits_64, spread_64,
        |v, other| vbslq_u64(vcltq_s64(cast(v), cast(other)), v, other), vbslq_u64(vcgtq_s64(cast(v), cast(other)), v, other);
    u8: vceqq_u8, vcgeq_u8, vcleq_u8, vandq_u8, bits_8, spread_8,
        |v, other| cast(vminq_u8(cast(v), cast(other))), cast(vmaxq_u8(cast(v), cast(other)));
    u16: vceqq_u16, vcgeq_u16, vcleq_u16, vandq_u16, bits_16, spread_16,
        |v, other| cast(vminq_u16(cast(v), cast(other))), cast(vmaxq_u16(cast(v), cast(other)));
    u32: vceqq_u32, vcgeq_u32, vcleq_u32, vandq_u32, bits_32, spread_32,
        |v, other| cast(vminq_u32(cast(v), cast(other))), cast(vmaxq_u32(cast(v), cast(other)));
    u64: vceqq_u64, vcgeq_u64, vcleq_u64, vandq_u64, bits_64, spread_64,
        |v, other| vbslq_u64(vcltq_u64(cast(v), cast(other)), v, other), vbslq_u64(vcgtq_u64(cast(v), cast(other)), v, other);
}
