//! The kernels of one instruction set, as a table of functions.

use crate::{
    FloatSum, Isa,
    forms::{
        arithmetic::IntOp,
        decimals::{Decimals, Form, Scale},
        gaps::Gaps,
        mask::BLOCK_WORDS,
        packed::{Patch, Rows},
        rans::Stream,
    },
    rans::Table,
    test::Test,
};

/// The kernels of one instruction set that this CPU has. The methods are the crate's functions of the same
/// names, which take the table in use.
pub struct Kernels {
    pub(crate) isa: Isa,
    pub(crate) i8: NativeKernels<i8>,
    pub(crate) i16: NativeKernels<i16>,
    pub(crate) i32: NativeKernels<i32>,
    pub(crate) i64: NativeKernels<i64>,
    pub(crate) u8: NativeKernels<u8>,
    pub(crate) u16: NativeKernels<u16>,
    pub(crate) u32: NativeKernels<u32>,
    pub(crate) u64: NativeKernels<u64>,
    pub(crate) f32: NativeKernels<f32>,
    pub(crate) f64: NativeKernels<f64>,
    pub(crate) sums: Sums,
    pub(crate) floats: Floats,
    pub(crate) mask: MaskKernels,
    pub(crate) packed: PackedKernels,
    pub(crate) bits: BitsKernels,
    pub(crate) gaps: GapsKernels,
    pub(crate) groups: Groups,
    pub(crate) runs: RunsKernels,
    pub(crate) decimals_convert: unsafe fn(Scale, Form, &mut [i64]),
    /// Images are whole vectors, not shorter than their tails and what is wanted of them.
    pub(crate) rans_bytes: unsafe fn(&Table, &mut [Stream<'_>]),
    /// There are as many of both.
    pub(crate) ints_combine: unsafe fn(IntOp, &mut [i64], &[i64]),
    pub(crate) ints_combine_one: unsafe fn(IntOp, &mut [i64], i64),
    pub(crate) changes: unsafe fn(&[i64]) -> u64,
    pub(crate) count_at_least: unsafe fn(&[i64], i64) -> u64,
    pub(crate) gaps_to_ids: unsafe fn(u64, &mut [u64]) -> Option<u64>,
    /// There is a word for each 64 bytes.
    pub(crate) bytes_in_set: unsafe fn(&[u8], &[u64; 4], &mut [u64]),
    /// The second array is not the longer, and there is room for all of it.
    pub(crate) intersect: unsafe fn(&Numbers16, &Numbers16, &mut [u16]) -> usize,
}

/// The kernels of integers.
pub(crate) struct Sums {
    pub(crate) i8: IntegerKernels<i8>,
    pub(crate) i16: IntegerKernels<i16>,
    pub(crate) i32: IntegerKernels<i32>,
    pub(crate) i64: IntegerKernels<i64>,
    pub(crate) u8: IntegerKernels<u8>,
    pub(crate) u16: IntegerKernels<u16>,
    pub(crate) u32: IntegerKernels<u32>,
    pub(crate) u64: IntegerKernels<u64>,
}

/// The kernels of floats.
pub(crate) struct Floats {
    pub(crate) f32: FloatKernels<f32>,
    pub(crate) f64: FloatKernels<f64>,
}

/// The kernels of group numbers.
pub(crate) struct Groups {
    pub(crate) u8: GroupKernels<u8>,
    pub(crate) u16: GroupKernels<u16>,
    pub(crate) u32: GroupKernels<u32>,
}

// The functions may be called where the CPU has the table's instructions.

/// Kernels of any type.
pub struct NativeKernels<T> {
    pub(crate) test: unsafe fn(Test<T>, &[T], &mut [u64]),
    pub(crate) min_max: unsafe fn(&[T]) -> Extremes<T>,
    pub(crate) min_max_masked: unsafe fn(&[T], &[u64]) -> Extremes<T>,
    pub(crate) count_nonzero: unsafe fn(&[T]) -> u64,
    pub(crate) count_nonzero_masked: unsafe fn(&[T], &[u64]) -> u64,
    pub(crate) filter_count: unsafe fn(Test<T>, &[T], Mask<'_>) -> u64,
    pub(crate) filter_min_max: FilterMinMax<T>,
}

/// Kernels of an integer type.
pub struct IntegerKernels<T> {
    pub(crate) sum: unsafe fn(&[T]) -> i128,
    pub(crate) sum_masked: unsafe fn(&[T], &[u64]) -> i128,
    pub(crate) filter_sum: unsafe fn(Test<T>, &[T], Mask<'_>, &[T]) -> i128,
}

/// Kernels of a float type.
pub struct FloatKernels<T> {
    pub(crate) sum: unsafe fn(&[T], &mut FloatSum),
    pub(crate) sum_masked: unsafe fn(&[T], &[u64], &mut FloatSum),
    pub(crate) filter_sum: unsafe fn(Test<T>, &[T], Mask<'_>, &[T], &mut FloatSum),
}

/// Kernels of a type of group numbers. There is a value for each row, and a word for each chunk.
pub struct GroupKernels<C> {
    pub(crate) digits: unsafe fn(&[i64], i64, i64, &mut [C]),
    pub(crate) count: unsafe fn(&[C], Mask<'_>, &mut [u64]),
    pub(crate) sum: unsafe fn(&[C], &[i64], Mask<'_>, &mut [i128]),
    pub(crate) sum_floats: unsafe fn(&[C], &[f64], Mask<'_>, &mut [f64]),
    pub(crate) min_max: unsafe fn(&[C], &[i64], Mask<'_>, &mut [Range]),
}

/// Kernels of mask words.
pub(crate) struct MaskKernels {
    pub(crate) count_ones: unsafe fn(&[u64]) -> u64,
    pub(crate) and: unsafe fn(&mut [u64], &[u64]),
    pub(crate) or: unsafe fn(&mut [u64], &[u64]),
    pub(crate) and_not: unsafe fn(&mut [u64], &[u64]),
    pub(crate) not: unsafe fn(&mut [u64], usize),
    pub(crate) count_runs: unsafe fn(&[u64]) -> (u64, u64),
    pub(crate) positions: unsafe fn(&[u64], &mut [u16]) -> usize,
    pub(crate) positions64: unsafe fn(&[u64], u64, &mut [u64]) -> usize,
    pub(crate) set_positions: unsafe fn(&[[u8; 2]], &mut [u64; BLOCK_WORDS]),
}

/// Kernels of packed codes.
pub(crate) struct PackedKernels {
    /// There are words for the codes.
    pub(crate) pack: unsafe fn(u32, &[u64], &mut [u64]),
    pub(crate) pack_bytes: unsafe fn(u32, &[u8], &mut [u64]),
    pub(crate) pack_keys: unsafe fn(u32, i64, &[i64], &mut [u64]),
    pub(crate) unpack: unsafe fn(Rows<'_>, i64, &mut [i64]),
    pub(crate) between: unsafe fn(Rows<'_>, u64, u64, &mut [u64]),
    /// The set has a bit for every code of the width.
    pub(crate) in_set: unsafe fn(Rows<'_>, &[u64], &mut [u64]),
    pub(crate) gather: unsafe fn(Rows<'_>, &[u16], i64, &mut [i64]),
    pub(crate) sum: unsafe fn(Rows<'_>, Mask<'_>) -> u128,
    pub(crate) min_max: unsafe fn(Rows<'_>, Mask<'_>) -> Extremes<u64>,
    pub(crate) sum_decimals: unsafe fn(Rows<'_>, Decimals, Mask<'_>, &[Patch], &mut FloatSum),
}

/// Kernels of numbers in streams of bits.
pub(crate) struct BitsKernels {
    pub(crate) unpack: unsafe fn(&[u8], u32, &mut [u64]),
    pub(crate) pack: unsafe fn(&[u64], u32, &mut [u8]),
    pub(crate) unary: unsafe fn(&[u8], &mut [u64]) -> Option<usize>,
}

/// Kernels of coded gaps.
pub(crate) struct GapsKernels {
    /// There is room for all positions.
    pub(crate) positions: unsafe fn(&Gaps<'_>, &mut [u16]) -> Option<usize>,
    pub(crate) rank: unsafe fn(&Gaps<'_>, u16) -> Option<(usize, bool)>,
}

/// Kernels of runs.
pub(crate) struct RunsKernels {
    pub(crate) ends: unsafe fn(&[u8], std::ops::Range<usize>, u32, usize, &mut [u64]),
    pub(crate) spread: unsafe fn(&[u64], &[u64], usize, &mut [u64]),
    pub(crate) numbers: unsafe fn(&[u64], &[u16], &mut [u16]),
}

/// An array of 16-bit numbers, as little-endian bytes.
type Numbers16 = [[u8; 2]];

/// The words of a mask, or all rows.
type Mask<'a> = Option<&'a [u64]>;

/// The least and the greatest of a group.
type Range = (i64, i64);

/// The least and the greatest, where there are any.
type Extremes<T> = Option<(T, T)>;

type FilterMinMax<T> = unsafe fn(Test<T>, &[T], Mask<'_>, &[T]) -> Extremes<T>;

/// Calls an entry of the table.
macro_rules! call {
    ($entry:expr, $($arg:expr),*) => {
        // SAFETY: `dispatch` hands a table out only where the CPU has its instructions.
        unsafe { ($entry)($($arg),*) }
    };
}

pub(crate) use call;

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernels").field("isa", &self.isa).finish_non_exhaustive()
    }
}
