//! Encodings of text.

mod dictionary;
mod raw;
mod stats;

pub use self::stats::TextStats;
pub(super) use self::{dictionary::Dictionary, raw::Raw};
