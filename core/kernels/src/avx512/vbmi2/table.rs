//! The table of AVX-512 with what these instructions do better.

use super::{Vbmi2, gaps, packed, positions, rans, runs, sorted16, unary};
use crate::{
    avx512::table::TABLE,
    forms::{gaps::Gaps, packed::Rows, rans::Stream},
    rans::Table,
    table::{BitsKernels, GapsKernels, Kernels, MaskKernels, PackedKernels},
};

/// The kernels of this instruction set.
pub(crate) static KERNELS: Kernels = Kernels {
    mask: MaskKernels { count_ones, count_runs, positions: mask_positions, positions64, ..TABLE.mask },
    packed: PackedKernels { between: packed_between, in_set: packed_in_set, sum: packed_sum, ..TABLE.packed },
    bits: BitsKernels { unary: bits_unary, ..TABLE.bits },
    gaps: GapsKernels { positions: gaps_positions, rank },
    rans_bytes,
    intersect,
    ..TABLE
};

/// Defines functions of the table: the kernels given, compiled for the instructions.
macro_rules! functions {
    ($($name:ident($($arg:ident: $t:ty),*) -> $out:ty = $path:path;)*) => {$(
        #[target_feature(
            enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq",
            enable = "avx2,bmi1,bmi2,lzcnt,popcnt"
        )]
        fn $name($($arg: $t),*) -> $out {
            // SAFETY: this is compiled for these instructions, and called where they are.
            $path(unsafe { Vbmi2::new() }, $($arg),*)
        }
    )*};
}

/// Set bits, word by word: there is an instruction that counts those of a register's words.
#[inline(always)]
fn ones(_: Vbmi2, words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

functions! {
    count_ones(words: &[u64]) -> u64 = ones;
    count_runs(words: &[u64]) -> (u64, u64) = runs::count;
    mask_positions(words: &[u64], out: &mut [u16]) -> usize = positions::narrow;
    positions64(words: &[u64], base: u64, out: &mut [u64]) -> usize = positions::wide;
    rans_bytes(table: &Table, streams: &mut [Stream<'_>]) -> () = rans::bytes;
    packed_between(rows: Rows<'_>, lo: u64, hi: u64, out: &mut [u64]) -> () = packed::between;
    packed_in_set(rows: Rows<'_>, set: &[u64], out: &mut [u64]) -> () = packed::in_set;
    packed_sum(rows: Rows<'_>, mask: Option<&[u64]>) -> u128 = packed::sum;
    bits_unary(bytes: &[u8], out: &mut [u64]) -> Option<usize> = unary::read;
    gaps_positions(gaps: &Gaps<'_>, out: &mut [u16]) -> Option<usize> = gaps::positions;
    rank(gaps: &Gaps<'_>, position: u16) -> Option<(usize, bool)> = gaps::rank;
    intersect(long: &[[u8; 2]], short: &[[u8; 2]], out: &mut [u16]) -> usize = sorted16::intersect;
}
