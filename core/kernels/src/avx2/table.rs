//! The table of AVX2.

use super::Avx2;

crate::entries::kernels!(
    crate::Isa::Avx2,
    // SAFETY: the function that this stands in is compiled for these instructions, and called where they are.
    Avx2 = unsafe { Avx2::new() },
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
);
