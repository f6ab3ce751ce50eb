//! What the benchmarks share: data, tables, timing.
//!
//! A benchmark checks its answers before it times anything, and prints ours and the rival's from the same run.

pub mod columns;
pub mod contest;
pub mod data;
pub mod echo;
pub mod kernels;
pub mod packed;
pub mod scale;
pub mod sip;
pub mod table;
pub mod tables;
pub mod timing;
