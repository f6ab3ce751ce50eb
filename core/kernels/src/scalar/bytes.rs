//! Which bytes are in a set.

use super::Scalar;
use crate::chunks::CHUNK;

/// How an instruction set looks for bytes in a set.
pub(crate) trait Members: Copy {
    /// The set, as it is looked into.
    type Set;

    /// Of a set with a bit for each byte.
    fn set(self, set: &[u64; 4]) -> Self::Set;

    fn members(self, set: &Self::Set, bytes: &[u8; CHUNK]) -> u64;
}

#[inline(always)]
pub(crate) fn in_set(isa: impl Members, bytes: &[u8], set: &[u64; 4], out: &mut [u64]) {
    let set = isa.set(set);
    let (chunks, rest) = bytes.as_chunks::<CHUNK>();
    let (whole, last) = out.split_at_mut(chunks.len());
    for (chunk, out) in chunks.iter().zip(whole) {
        *out = isa.members(&set, chunk);
    }
    if let [last, ..] = last {
        let mut chunk = [0; CHUNK];
        chunk[..rest.len()].copy_from_slice(rest);
        *last = isa.members(&set, &chunk) & ((1 << rest.len()) - 1);
    }
}

impl Members for Scalar {
    type Set = [u64; 4];

    #[inline(always)]
    fn set(self, set: &[u64; 4]) -> [u64; 4] {
        *set
    }

    #[inline(always)]
    fn members(self, set: &[u64; 4], bytes: &[u8; CHUNK]) -> u64 {
        let is_member = |byte: u8| set[usize::from(byte / 64)] >> (byte % 64) & 1;
        bytes.iter().rev().fold(0, |word, byte| word << 1 | is_member(*byte))
    }
}

/// One bit in each lane: as many places up as the lane's number says, modulo 8.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) const fn bits<const N: usize>() -> [u8; N] {
    let mut bits = [0; N];
    let mut i = 0;
    while i < N {
        bits[i] = 1 << (i % 8);
        i += 1;
    }
    bits
}

/// The set as a shuffle of 16 lanes looks into it: for each low half of a byte, a bit for each high half below 8, and one for each
/// from 8 on.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn by_low_half(set: &[u64; 4]) -> [[u8; 16]; 2] {
    let mut tables = [[0; 16]; 2];
    for byte in 0..=u8::MAX {
        let (high, low) = (byte / 16, usize::from(byte % 16));
        let bit = (set[usize::from(byte / 64)] >> (byte % 64) & 1) as u8;
        tables[usize::from(high / 8)][low] |= bit << (high % 8);
    }
    tables
}
