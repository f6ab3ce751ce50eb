//! The table of AVX-512.

use super::Avx512;

crate::entries::kernels!(
    crate::Isa::Avx512,
    // SAFETY: the function that this stands in is compiled for these instructions, and called where they are.
    Avx512 = unsafe { Avx512::new() },
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt")]
);
