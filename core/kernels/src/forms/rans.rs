//! Images and streams of bytes.

/// Buckets of bytes.
pub const BUCKETS: usize = 16;
/// Values of a byte.
pub const BYTES: usize = 256;
/// What the frequencies of the buckets add up to.
pub const SLOTS: u16 = 1 << PRECISION;
/// Bytes that one step decodes.
pub const STEP: usize = 32;
/// Words of 64 bits that an image is a multiple of.
pub const VECTOR_WORDS: usize = 8;
/// Images that are decoded at once.
pub const SIDE_BY_SIDE: usize = 4;

/// Bits of a slot.
pub(crate) const PRECISION: u32 = 12;
/// States that are less take a word.
pub(crate) const LEAST: u32 = 1 << 16;
/// Words of the states that the body begins with.
pub(crate) const HEAD_WORDS: usize = 2 * STEP;
/// Steps that decode a vector.
pub(crate) const VECTOR_STEPS: usize = 2;
/// Bytes of a vector.
pub const VECTOR_BYTES: usize = 8 * VECTOR_WORDS;

/// An image's stream, and where the image goes.
#[derive(Debug)]
pub struct Stream<'a> {
    /// The words. Those that are missing are 0.
    pub words: &'a [u16],
    /// The bytes of the whole image: whole vectors.
    pub bytes: usize,
    /// Those of them that are the tail: the last of all.
    pub tail: usize,
    /// The image, or its first vectors, where no more is wanted.
    pub out: &'a mut [u64],
}

impl Stream<'_> {
    /// Bytes of the body that are wanted.
    pub(crate) fn body(&self) -> usize {
        (self.bytes - self.tail).min(8 * self.out.len())
    }
}

/// Bits of a byte's number in a bucket of so many.
pub(crate) fn number_bits(bytes: usize) -> u32 {
    bytes.next_power_of_two().trailing_zeros()
}

/// What the frequency of a bucket, whose bytes have numbers of so many bits, is a multiple of: a byte's share of it is
/// no less than one part in 2^16, so that a state takes no more than one word for it.
pub fn granularity(bytes: usize) -> u16 {
    1 << number_bits(bytes).saturating_sub(LEAST.ilog2() - PRECISION)
}

/// Steps that decode the first so many bytes of an image.
pub(crate) fn steps(bytes: usize) -> usize {
    bytes / VECTOR_BYTES * VECTOR_STEPS + (bytes % VECTOR_BYTES).min(VECTOR_STEPS)
}

/// The byte that the first lane of a step decodes, and the lanes that have one, where so many bytes are decoded. Lanes
/// are two bytes.
#[inline(always)]
pub(crate) fn of_step(step: usize, bytes: usize) -> (usize, usize) {
    let first = step / VECTOR_STEPS * VECTOR_BYTES + step % VECTOR_STEPS;
    (first, (bytes - first).div_ceil(VECTOR_STEPS).min(STEP))
}
