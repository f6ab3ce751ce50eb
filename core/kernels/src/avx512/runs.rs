//! Runs.

use std::arch::x86_64::*;

use super::Avx512;
use crate::{registers::simd, scalar::runs::Deposit};

impl Deposit for Avx512 {
    #[inline(always)]
    fn deposit(self, bits: u64, ones: u64) -> u64 {
        simd!(_pdep_u64(bits, ones))
    }
}
