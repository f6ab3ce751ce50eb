//! Basalt's engine: encodings, fragments, tables, and the execution of filters and aggregates on the
//! compressed form.
//!
//! It is synchronous and knows no protocol: no sockets, files or clock. Uncompressed data comes in and goes
//! out as Arrow arrays.

#![cfg(target_endian = "little")]

pub mod decimals;
pub mod describe;
pub mod encoding;
pub mod error;
pub mod exec;
pub mod fragment;
pub mod invariant;
pub mod keys;
pub mod like;
pub mod limits;
pub mod logical;
pub mod lookup;
pub mod mask;
pub mod plan;
pub mod query;
pub mod schema;
pub mod similar;
pub mod table;
pub mod time;
pub mod time_parts;
pub mod value;

/// The instruction set of the kernels in use: `scalar`, `avx2`, `avx512`.
pub fn simd() -> &'static str {
    basalt_kernels::isa().name()
}
