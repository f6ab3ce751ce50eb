//! Asymmetric numeral systems over nibbles (rANS: Duda, arXiv:1311.2540), decoded by 32 states side by side.
//!
//! A sequence of nibbles, the bytes of any image in memory, is coded by their frequencies alone. The states are
//! 32 bits wide and are refilled by words of 16 bits; probabilities have 12 bits. A state's low 12 bits, its
//! slot, name the symbol by way of a [`Table`] that fits two registers.
//!
//! **Image.** `out` is vectors of 64 bytes, each 32 lanes of 16 bits; a lane has four nibbles, the low one first.
//! Step `s` decodes nibble `s % 4` of every lane of vector `s / 4`: state `i` decodes what lies in lane `i`.
//!
//! **Stream.** All steps but those of the tail are the body. Its stream begins with the 32 states, each two words, the
//! high one first, which is not 0 (a state below 2^16 stands for 2^16). The words that refill the states follow, in
//! the order in which they are needed: after a step, every state below 2^16 takes one, in the order of the lanes.
//!
//! **Tail.** What is left in the states when the body is decoded is not lost: it is the tail's stream. The bits of
//! each state behind its leading one, the highest first, follow each other from state 0 to state 31; from behind
//! them, zeros and a one are dropped, and then what is no whole word. The tail has four states, each two words in front of the stream (the high one first), and
//! its `i`-th symbol is decoded by state `i % 4`; after it, the state takes a word if it is below 2^16 and there is
//! one left. Where there is no body, the tail's stream is the words as they are.
//!
//! So coding costs a few bits more than the information in the nibbles, however many states go side by side.

mod encode;
mod table;

pub use self::{encode::Encoder, table::Table};

use crate::dispatch::current;

/// Symbols: the values of a nibble.
pub const SYMBOLS: usize = 16;
/// What the frequencies of the symbols add up to.
pub const SLOTS: u16 = 1 << PRECISION;
/// Symbols that one step decodes.
pub const STEP: usize = 32;
/// Words of 64 bits that an image is a multiple of.
pub const VECTOR_WORDS: usize = 8;
/// Images that are decoded at once.
pub const SIDE_BY_SIDE: usize = 4;

/// Bits of a slot.
pub(crate) const PRECISION: u32 = 12;
/// States of the tail.
pub(crate) const TAIL_STATES: usize = 4;
/// States of the body are at least so great after every step.
pub(crate) const LEAST: u32 = 1 << 16;
/// Words of the states that the body begins with.
pub(crate) const HEAD_WORDS: usize = 2 * STEP;
/// Steps that decode a vector.
pub(crate) const VECTOR_STEPS: usize = 4;

/// An image's stream, and where the image goes.
#[derive(Debug)]
pub struct Stream<'a> {
    /// The words. Those that are missing are 0.
    pub words: &'a [u16],
    /// The steps that are the tail: the last of all.
    pub tail: usize,
    /// The image: whole vectors.
    pub out: &'a mut [u64],
}

/// Decodes images. A step waits for the step before, so [`SIDE_BY_SIDE`] images of about the same length take little
/// longer than one. Of words that no encoder wrote, the answer is any nibbles of the table.
///
/// # Panics
/// Where an image is not whole vectors, or has fewer steps than its tail.
#[track_caller]
pub fn decode_nibbles(table: &Table, streams: &mut [Stream<'_>]) {
    current().rans_nibbles(table, streams);
}

/// Steps that decode an image of so many words of 64 bits.
pub(crate) fn steps(words: usize) -> usize {
    words / VECTOR_WORDS * VECTOR_STEPS
}
