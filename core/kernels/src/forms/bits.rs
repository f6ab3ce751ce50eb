//! Numbers in streams of bits.

/// The greatest number that [`unary`](crate::bits::unary) reads.
pub const UNARY_MAX: u64 = 16;

/// Bytes of `values` numbers of `width` bits, one behind the other.
#[track_caller]
pub(crate) fn packed_bytes(values: usize, width: u32) -> usize {
    assert!(width < u64::BITS, "a number has 0 to 63 bits, not {width}");
    // In parts, so that no product overflows.
    values / 8 * width as usize + (values % 8 * width as usize).div_ceil(8)
}
