//! Encodings of text.

mod automaton;
mod codes;
pub(super) mod dictionary;
mod fsst;
mod matcher;
mod numbers;
mod places;
mod raw;
mod sieve;
mod stats;
mod symbols;
mod trained;

pub use self::stats::TextStats;
pub(super) use self::{dictionary::Dictionary, fsst::Fsst, raw::Raw};
