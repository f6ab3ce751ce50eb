//! SIMD kernels over slices and mask words: the one place with `unsafe`.
//!
//! Functions are safe and call the best implementation for this CPU, chosen once (see [`isa`]). [`tables`] lists
//! all implementations that the CPU runs, for tests and benchmarks; all give the same answers, bit for bit.
//!
//! **Masks.** A mask has one bit for each row, row 0 in the lowest bit of the first word, in
//! `rows.div_ceil(64)` words. Bits behind the last row are 0 in every mask written here and ignored in those
//! read (except by the functions of [`mask`] that do not know the rows, which take words as they are). Values that
//! a mask does not select never influence an answer.
//!
//! **Floats.** NaN equals NaN and is greater than +inf, -0.0 equals 0.0: so `x < NaN` is "`x` is not NaN" and
//! `x >= NaN` is "`x` is NaN". A zero reported as an extreme is +0.0.
//!
//! **Alignment.** Any is right; 64-byte aligned values are fastest.
//!
//! **Layers.** A file knows those below it alone: forms of data, the table that has a function for each kernel, the
//! types that columns are made of, the loops and the instruction sets, the tables of these, the choice among the tables,
//! and the functions that callers use.
//!
//! **Unsafe code** does three things: it calls functions of a table whose instructions were detected, it loads
//! registers from arrays of their size, and it views words as narrower lanes.

mod arithmetic;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod bits;
pub mod bytes;
mod chunks;
pub mod decimals;
mod dispatch;
mod entries;
mod filter;
mod float_sum;
mod forms;
pub mod gaps;
pub mod groups;
mod isa;
mod lanes;
pub mod mask;
mod methods;
mod native;
#[cfg(target_arch = "aarch64")]
mod neon;
pub mod packed;
mod plain;
pub mod prefix;
pub mod rans;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod registers;
pub mod runs;
mod scalar;
pub mod sorted16;
pub mod statistics;
mod table;
mod test;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod words;

pub use arithmetic::{combine, combine_one};
pub use dispatch::{isa, tables};
pub use filter::Filter;
pub use float_sum::FloatSum;
pub use forms::arithmetic::IntOp;
pub use isa::Isa;
pub use native::{CmpOp, Float, Integer, Native};
pub use plain::{
    between, compare, count_nonzero, count_nonzero_masked, is_nan, min_max, min_max_masked, sum, sum_floats,
    sum_floats_masked, sum_masked,
};
pub use table::Kernels;
