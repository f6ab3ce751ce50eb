//! AVX-512 with VBMI, VBMI2, BITALG and VPOPCNTDQ (Ice Lake, Zen 4): bytes and 16-bit lanes compress, words count bits.

mod gaps;
mod packed;
mod positions;
mod rans;
mod runs;
mod sorted16;
pub(crate) mod table;
mod unary;

use super::Avx512;

/// The instructions, on a CPU that has them.
#[derive(Clone, Copy)]
struct Vbmi2(());

impl Vbmi2 {
    /// # Safety
    /// The CPU must have the instructions that [`detected`] looks for.
    #[inline(always)]
    unsafe fn new() -> Self {
        Self(())
    }

    /// The instructions of which these are more.
    #[inline(always)]
    fn avx512(self) -> Avx512 {
        // SAFETY: `detected` looks for those too.
        unsafe { Avx512::new() }
    }
}

/// Whether the CPU has what the table is compiled for.
pub(crate) fn detected() -> bool {
    super::detected()
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("avx512bitalg")
        && is_x86_feature_detected!("avx512vpopcntdq")
}
