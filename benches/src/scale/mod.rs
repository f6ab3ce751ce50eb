//! What the benchmark of large tables needs.

pub mod log;
