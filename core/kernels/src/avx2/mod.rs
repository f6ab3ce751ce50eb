//! AVX2: comparisons give lanes of ones, which are gathered to bits; bits are spread to lanes to select.

mod bytes;
mod floats;
mod integers;
mod select;
pub(crate) mod table;
mod words;

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

impl crate::scalar::Portable for Avx2 {}
