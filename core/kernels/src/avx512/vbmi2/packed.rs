//! Packed codes: a code that goes on in the next vector takes one instruction, which shifts two lanes as one. The
//! compiler finds it in the loops of all instruction sets.

use super::Vbmi2;
use crate::{packed::Rows, scalar::packed};

#[inline(always)]
pub(super) fn between(isa: Vbmi2, rows: Rows<'_>, lo: u64, hi: u64, out: &mut [u64]) {
    packed::between(isa.avx512(), rows, lo, hi, out);
}

#[inline(always)]
pub(super) fn sum(isa: Vbmi2, rows: Rows<'_>, mask: Option<&[u64]>) -> u128 {
    packed::sum(isa.avx512(), rows, mask)
}
