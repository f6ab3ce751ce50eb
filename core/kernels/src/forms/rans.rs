//! Images and streams of nibbles.

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

/// Steps that decode an image of so many words of 64 bits.
pub(crate) fn steps(words: usize) -> usize {
    words / VECTOR_WORDS * VECTOR_STEPS
}
