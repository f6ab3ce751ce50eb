//! Numbers in streams of bits.

use super::Portable;
use crate::forms::bits::UNARY_MAX;

/// Numbers that are read together. They take as many bytes as one has bits, so the next begin at the same bits of
/// their bytes.
pub(crate) const GROUP: usize = 8;

/// Bytes that are read for a group.
pub(crate) const WINDOW: usize = 72;

/// How an instruction set reads a group of numbers.
pub(crate) trait Unpack: Copy {
    /// Where the numbers lie.
    type Places;

    /// Of numbers of `width` bits, 0 to 63.
    fn places(self, width: u32) -> Self::Places;

    fn unpack(self, window: &[u8; WINDOW], places: &Self::Places) -> [u64; GROUP];
}

#[inline(always)]
pub(crate) fn unpack(isa: impl Unpack, bytes: &[u8], width: u32, out: &mut [u64]) {
    let places = isa.places(width);
    let width = width as usize;
    let (groups, rest) = out.as_chunks_mut::<GROUP>();
    let mut groups = groups.iter_mut();
    let mut bytes = bytes;
    while let Some(window) = bytes.first_chunk() {
        let Some(group) = groups.next() else { break };
        *group = isa.unpack(window, &places);
        bytes = &bytes[width..];
    }
    // The last bytes are read from a copy, with zeros behind.
    let mut copy = [0; 2 * WINDOW];
    let bytes = &bytes[..bytes.len().min(WINDOW)];
    copy[..bytes.len()].copy_from_slice(bytes);
    let mut copy = copy.as_slice();
    for group in groups {
        *group = isa.unpack(copy.first_chunk().unwrap_or(&[0; WINDOW]), &places);
        copy = copy.get(width..).unwrap_or_default();
    }
    if !rest.is_empty() {
        let numbers = isa.unpack(copy.first_chunk().unwrap_or(&[0; WINDOW]), &places);
        rest.copy_from_slice(&numbers[..rest.len()]);
    }
}

impl<A: Portable> Unpack for A {
    type Places = u32;

    #[inline(always)]
    fn places(self, width: u32) -> u32 {
        width
    }

    #[inline(always)]
    fn unpack(self, window: &[u8; WINDOW], &width: &u32) -> [u64; GROUP] {
        let width = width as usize;
        let mask = (1 << width) - 1;
        let place = |i| (i * width / 8 % 64, i * width % 8);
        let word = |byte: usize| window[byte..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        if width <= 57 {
            return std::array::from_fn(|i| {
                let (byte, shift) = place(i);
                word(byte) >> shift & mask
            });
        }
        std::array::from_fn(|i| {
            let (byte, shift) = place(i);
            // In two steps, because a shift by all bits of a word is none.
            let high = u64::from(window[byte + 8]) << 1 << (63 - shift);
            (word(byte) >> shift | high) & mask
        })
    }
}

#[inline(always)]
pub(crate) fn pack(values: &[u64], width: u32, out: &mut [u8]) {
    if width == 0 {
        return;
    }
    let mask = (1 << width) - 1;
    let (words, rest) = out.as_chunks_mut::<8>();
    let mut words = words.iter_mut();
    let (mut word, mut filled) = (0_u64, 0);
    for value in values {
        let value = value & mask;
        word |= value << filled;
        filled += width;
        if filled >= u64::BITS {
            filled -= u64::BITS;
            if let Some(out) = words.next() {
                *out = word.to_le_bytes();
            }
            word = value >> (width - filled);
        }
    }
    // What is left may fill a word, too, where its last bits are 0.
    match words.next() {
        Some(out) => *out = word.to_le_bytes(),
        None => rest.copy_from_slice(&word.to_le_bytes()[..rest.len()]),
    }
}

#[inline(always)]
pub(crate) fn unary(bytes: &[u8], out: &mut [u64]) -> Option<usize> {
    let (mut read, mut offset) = (0, 0);
    // The bit where the next number begins.
    let mut begin = 0;
    while read < out.len() {
        let mut word = word_at(bytes, offset);
        if word == 0 {
            return None;
        }
        let ones = word.count_ones() as usize;
        let numbers = &mut out[read..];
        let count = ones.min(numbers.len());
        for number in &mut numbers[..count] {
            let end = 8 * offset as u64 + u64::from(word.trailing_zeros());
            *number = end - begin;
            begin = end + 1;
            word &= word - 1;
        }
        read += count;
        offset += 8;
    }
    let greatest = out.iter().fold(0, |greatest, &number| number.max(greatest));
    if greatest <= UNARY_MAX { usize::try_from(begin).ok() } else { None }
}

/// The word at an offset, of which the bits behind the last byte are 0.
#[inline(always)]
pub(crate) fn word_at(bytes: &[u8], offset: usize) -> u64 {
    let bytes = bytes.get(offset..).unwrap_or_default();
    match bytes.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        }
    }
}
