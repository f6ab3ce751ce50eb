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
pub use crate::forms::rans::{SIDE_BY_SIDE, SLOTS, STEP, SYMBOLS, Stream, VECTOR_WORDS};

/// Decodes images. A step waits for the step before, so [`SIDE_BY_SIDE`] images of about the same length take little
/// longer than one. Of words that no encoder wrote, the answer is any nibbles of the table.
///
/// # Panics
/// Where an image is not whole vectors, or has fewer steps than its tail.
#[track_caller]
pub fn decode_nibbles(table: &Table, streams: &mut [Stream<'_>]) {
    current().rans_nibbles(table, streams);
}
