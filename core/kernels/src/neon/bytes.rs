//! Which bytes are in a set, 16 at a time: a byte of the set is looked up for each, and one bit of that.

use std::arch::aarch64::*;

use super::Neon;
use crate::{
    chunks::CHUNK,
    registers::{load, simd},
    scalar::bytes::{Members, bits},
};

impl Members for Neon {
    type Set = [uint8x16_t; 2];

    #[inline(always)]
    fn set(self, set: &[u64; 4]) -> [uint8x16_t; 2] {
        [load(&[set[0], set[1]]), load(&[set[2], set[3]])]
    }

    #[inline(always)]
    fn members(self, set: &[uint8x16_t; 2], bytes: &[u8; CHUNK]) -> u64 {
        let bit_of_byte = load(&bits::<16>());
        let (parts, _) = bytes.as_chunks::<16>();
        parts.iter().rev().fold(0, |word, part| {
            let lanes = simd!({
                let bytes: uint8x16_t = load(part);
                let place = vshrq_n_u8::<3>(bytes);
                let bit = vqtbl1q_u8(bit_of_byte, vandq_u8(bytes, vdupq_n_u8(7)));
                vtstq_u8(vqtbl2q_u8(uint8x16x2_t(set[0], set[1]), place), bit)
            });
            word << 16 | self.bits_8(lanes)
        })
    }
}
