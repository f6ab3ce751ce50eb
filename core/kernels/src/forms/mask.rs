//! Mask words.

/// Words of a block: of all positions that are a u16.
pub const BLOCK_WORDS: usize = 1024;
