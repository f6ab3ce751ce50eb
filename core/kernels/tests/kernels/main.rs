//! Every instruction set against code that goes row by row.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod arithmetic;
mod blocks;
mod bytes;
mod decimals;
mod filter;
mod float_sums;
mod gaps;
mod groups;
mod masks;
mod naive;
mod packed;
mod plain;
mod rans;
mod rows;
mod runs;
mod sorted16;
mod streams;
