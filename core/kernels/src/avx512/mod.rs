//! AVX-512 F, BW, DQ and VL: comparisons give mask registers, and mask registers select.

mod bytes;
mod lanes;
mod prefix;
mod rans;
mod runs;
pub(crate) mod table;
mod unpack;
pub(crate) mod vbmi2;
mod words;

/// The instructions, on a CPU that has them.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The CPU must have the instructions that [`detected`] looks for.
    #[inline(always)]
    unsafe fn new() -> Self {
        Self(())
    }
}

/// Whether the CPU has what the table is compiled for.
pub(crate) fn detected() -> bool {
    crate::avx2::detected()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}
