//! The loops, in plain Rust: the reference, and what other instruction sets compile for themselves.

pub(crate) mod compare;
pub(crate) mod mask;
pub(crate) mod min_max;
pub(crate) mod packed;
pub(crate) mod sum;
pub(crate) mod table;

use crate::{
    Native,
    chunks::{CHUNK, Chunks},
};

/// No instructions but those that every CPU has.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

impl<T: Native> Chunks<T> for Scalar {
    #[inline(always)]
    fn in_range(self, values: &[T; CHUNK], lo: T, hi: T) -> u64 {
        let mut flags = [0_u8; CHUNK];
        for (flag, value) in flags.iter_mut().zip(values) {
            *flag = u8::from((lo <= *value) & (*value <= hi));
        }
        // Flag i of eight is bit 8i; the product moves it to bit 56 + i, without carries.
        let mut word = 0;
        for (i, eight) in flags.as_chunks::<8>().0.iter().enumerate() {
            word |= (u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i);
        }
        word
    }

    #[inline(always)]
    fn select(self, values: &[T; CHUNK], bits: u64, fill: T) -> [T; CHUNK] {
        std::array::from_fn(|i| if bits >> i & 1 == 1 { values[i] } else { fill })
    }
}
