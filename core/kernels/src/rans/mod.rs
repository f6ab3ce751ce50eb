//! Asymmetric numeral systems over bytes (rANS: Duda, arXiv:1311.2540), decoded by 32 states side by side.
//!
//! A sequence of bytes, any image in memory, is coded by their frequencies alone. The states are 32 bits wide and are
//! refilled by words of 16 bits; probabilities have 12 bits. The bytes lie in up to 16 *buckets*, each of about equally
//! frequent ones: a state's low 12 bits, its slot, name the bucket by way of a [`Table`] that fits registers, and its
//! next bits are the number of the byte in the bucket, as they are. So a byte takes one step, however many there are,
//! and what is lost is how much the frequencies in a bucket differ.
//!
//! **Image.** `out` is vectors of 64 bytes, each 32 lanes of 16 bits; a lane has two bytes, the low one first. Step `s`
//! decodes byte `s % 2` of every lane of vector `s / 2`: state `i` decodes what lies in lane `i`. The last bytes of an image
//! are the tail, all others the body, in whose last vector there may be lanes without a byte.
//!
//! **Body.** Its stream begins with the 32 states, each two words, the high one first, which is not 0 (a state below
//! 2^16 stands for 2^16). The words that refill the states follow, in the order in which they are needed: after a step,
//! every state below 2^16 takes one, in the order of the lanes.
//!
//! **Tail.** What is left in the states when the body is decoded is not lost: it is the tail's stream. The bits of
//! each state behind its leading one, the highest first, follow each other from state 0 to state 31; from behind
//! them, zeros and a one are dropped, and then what is no whole word. The tail has one state, the first two words of the
//! stream (the high one first); after each byte it takes a word if it is below 2^16 and there is one left. Where there
//! is no body, the tail's stream is the words as they are.
//!
//! So coding costs a few bytes more than the information, however many states go side by side, and images can be short:
//! each can be decoded alone, and from its start as far as is wanted.

mod encode;
mod table;

pub use self::{
    encode::Encoder,
    table::{NO_BUCKET, Table},
};
use crate::dispatch::current;
pub use crate::forms::rans::{
    BUCKETS, BYTES, SIDE_BY_SIDE, SLOTS, STEP, Stream, VECTOR_BYTES, VECTOR_WORDS, granularity,
};

/// Decodes images. A step waits for the step before, so [`SIDE_BY_SIDE`] images of about the same length take little
/// longer than one. Of words that no encoder wrote, the answer is any bytes of the table.
///
/// # Panics
/// Where an image is not whole vectors, or is shorter than its tail or than what is wanted of it.
#[track_caller]
pub fn decode_bytes(table: &Table, streams: &mut [Stream<'_>]) {
    current().rans_bytes(table, streams);
}
