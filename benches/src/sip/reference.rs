//! Published encodings of increasing integers that are judged by their bytes alone, each with a decoder that
//! proves them.

use super::source::{put_varint, take_varint};

/// The number of intervals, then for each of them, as varints, how far it begins behind the end of the one
/// before, and its length less one.
pub mod intervals {
    use super::{put_varint, take_varint};

    /// Writes increasing ids.
    pub fn encode(ids: &[u64]) -> Vec<u8> {
        let intervals = || ids.chunk_by(|a, b| a + 1 == *b);
        let mut out = Vec::new();
        put_varint(intervals().count() as u64, &mut out);
        let mut end = 0;
        for interval in intervals() {
            put_varint(interval[0] - end, &mut out);
            put_varint(interval.len() as u64 - 1, &mut out);
            end = interval[interval.len() - 1];
        }
        out
    }

    /// Reads them.
    pub fn decode(mut bytes: &[u8]) -> Vec<u64> {
        let mut ids = Vec::new();
        let mut end = 0;
        for _ in 0..take_varint(&mut bytes) {
            let start = end + take_varint(&mut bytes);
            end = start + take_varint(&mut bytes);
            ids.extend(start..=end);
        }
        ids
    }
}

/// Gaps in groups of 128: a byte for the width of the widest, then all of them in that width
/// (D. Lemire and L. Boytsov, "Decoding billions of integers per second through vectorization", 2015).
pub mod packed_gaps {
    use super::{put_varint, take_varint};

    const GROUP: usize = 128;

    /// Writes increasing ids.
    #[allow(clippy::cast_possible_truncation, reason = "a width is at most 64, and bits leave by the byte")]
    pub fn encode(ids: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(ids.len() as u64, &mut out);
        let mut last = 0;
        for group in ids.chunks(GROUP) {
            let gaps: Vec<u64> = group.iter().map(|id| id - std::mem::replace(&mut last, *id)).collect();
            let width = 64 - gaps.iter().fold(0, |all, gap| all | gap).leading_zeros();
            out.push(width as u8);
            let (mut bits, mut held) = (0_u128, 0);
            for gap in gaps {
                bits |= u128::from(gap) << held;
                held += width;
                while held >= 8 {
                    out.push(bits as u8);
                    bits >>= 8;
                    held -= 8;
                }
            }
            if held > 0 {
                out.push(bits as u8);
            }
        }
        out
    }

    /// Reads them.
    #[allow(clippy::cast_possible_truncation, reason = "a gap is masked to its width")]
    pub fn decode(mut bytes: &[u8]) -> Vec<u64> {
        let n = take_varint(&mut bytes) as usize;
        let mut ids = Vec::with_capacity(n);
        let mut id = 0;
        while ids.len() < n {
            let count = GROUP.min(n - ids.len());
            let width = u32::from(bytes[0]);
            let (group, rest) = bytes[1..].split_at((count * width as usize).div_ceil(8));
            bytes = rest;
            let mut group = group.iter();
            let (mut bits, mut held) = (0_u128, 0);
            for _ in 0..count {
                while held < width {
                    bits |= u128::from(*group.next().unwrap()) << held;
                    held += 8;
                }
                id += (bits & ((1 << width) - 1)) as u64;
                bits >>= width;
                held -= width;
                ids.push(id);
            }
        }
        ids
    }
}
