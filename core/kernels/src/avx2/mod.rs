//! AVX2: comparisons give lanes of ones, which are gathered to bits; bits are spread to lanes to select.

mod in_range;
mod select;
pub(crate) mod table;

use crate::chunks::{CHUNK, Chunks};

/// The instructions, on a CPU that has them.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The CPU must have the instructions that [`detected`] looks for.
    #[inline(always)]
    unsafe fn new() -> Self {
        Self(())
    }
}

/// Whether the CPU has what the table is compiled for.
pub(crate) fn detected() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
}

macro_rules! chunks {
    ($($t:ident: $in_range:ident, $select:ident;)*) => {$(
        impl Chunks<$t> for Avx2 {
            #[inline(always)]
            fn in_range(self, values: &[$t; CHUNK], lo: $t, hi: $t) -> u64 {
                // SAFETY: `self` is a proof that the CPU has the instructions.
                unsafe { in_range::$in_range(values, lo, hi) }
            }

            #[inline(always)]
            fn select(self, values: &[$t; CHUNK], bits: u64, fill: $t) -> [$t; CHUNK] {
                // SAFETY: `self` is a proof that the CPU has the instructions.
                unsafe { select::$select(values, bits, fill) }
            }
        }
    )*};
}

chunks! {
    i8: lanes_of_8, lanes_of_8;
    i16: lanes_of_16, lanes_of_16;
    i32: lanes_of_32, lanes_of_32;
    i64: lanes_of_64, lanes_of_64;
    u8: lanes_of_8, lanes_of_8;
    u16: lanes_of_16, lanes_of_16;
    u32: lanes_of_32, lanes_of_32;
    u64: lanes_of_64, lanes_of_64;
    f32: floats_of_32, lanes_of_32;
    f64: floats_of_64, lanes_of_64;
}
