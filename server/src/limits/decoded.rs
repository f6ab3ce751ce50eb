//! Limits of what messages take once they are decoded.

use super::{FLIGHT_COMMAND_BYTES, MESSAGE_BYTES};

/// Bytes that a message takes once it is decoded, and one of another node: a message of two bytes within it can be a struct
/// of a hundred. It is found out before it is decoded, and what is more than the message's length is counted as well.
pub const DECODED_BYTES: u64 = 32 << 20;
/// See [`DECODED_BYTES`]. What a client's request comes to goes on to other nodes.
pub const PEER_DECODED_BYTES: u64 = 2 * DECODED_BYTES;
/// So much of it nobody counts.
pub const UNCOUNTED_DECODED_BYTES: u64 = 64 << 10;
/// Bytes that a command of Flight SQL takes once it is decoded.
pub const FLIGHT_DECODED_BYTES: u64 = 4 * FLIGHT_COMMAND_BYTES as u64;
/// Messages within each other: the decoder refuses those that lie deeper.
pub const MESSAGE_DEPTH: usize = 100;

// A message whose bytes are all of one value fits, as does a list of the smallest numbers: 24 bytes for each four.
const _: () = assert!(DECODED_BYTES > 6 * MESSAGE_BYTES as u64);
