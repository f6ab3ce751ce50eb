//! SIPs beside the third source's encodings and the roaring libraries.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a benchmark stops at what goes wrong, and a machine that runs it has 64 bits"
)]

pub mod cells;
pub mod chooser;
pub mod contender;
pub mod data;
pub mod encoding;
pub mod masks;
pub mod operations;
pub mod ours;
pub mod published;
pub mod reference;
pub mod rivals;
pub mod source;
