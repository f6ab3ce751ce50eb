//! Rice groups: up to 128 numbers of 64 bits under one parameter.
//!
//! R. F. Rice, "Some practical universal noiseless coding techniques" (1979), with the bound on the unary
//! part of JPEG-LS. Low and high parts stand apart, so that neither waits for the other when they are read. A
//! high part has at most 16 zero bits; what is beyond them follows as a varint.

use basalt_kernels::bits::{self, UNARY_MAX};

use crate::{SipError, reader::Reader, varint};

/// Numbers of a full group.
pub(crate) const GROUP: usize = 128;
/// The greatest parameter.
const MAX_PARAMETER: u32 = 63;

/// Twice a number below this bound is below 3 * 2^k.
fn bound(k: u32) -> u64 {
    if k == 0 { 2 } else { 3 << (k - 1) }
}

fn below(numbers: &[u64], bound: u64) -> usize {
    numbers.iter().map(|&number| usize::from(number < bound)).sum()
}

/// The parameter of a group: the least `k` with 2 m < 3 * 2^k for the lower median m, or 63.
fn parameter(numbers: &[u64]) -> u32 {
    let half = numbers.len().div_ceil(2);
    let middle = numbers.get(numbers.len() / 2).map_or(0, |number| number.checked_ilog2().unwrap_or(0));
    let mut k = middle.min(MAX_PARAMETER);
    while k < MAX_PARAMETER && below(numbers, bound(k)) < half {
        k += 1;
    }
    while k > 0 && below(numbers, bound(k - 1)) >= half {
        k -= 1;
    }
    k
}

/// Whether `k` is the parameter of a group.
fn is_parameter(k: u32, numbers: &[u64]) -> bool {
    let half = numbers.len().div_ceil(2);
    (k == MAX_PARAMETER || below(numbers, bound(k)) >= half)
        && (k == 0 || below(numbers, bound(k - 1)) < half)
}

/// Bytes of a group.
pub(crate) fn size(numbers: &[u64]) -> usize {
    let k = parameter(numbers);
    let mut bits = 0;
    let mut escapes = 0;
    for &number in numbers {
        let high = number >> k;
        bits += high.min(UNARY_MAX) + 1;
        if high >= UNARY_MAX {
            escapes += varint::len(high - UNARY_MAX);
        }
    }
    let high_bytes = usize::try_from(bits.div_ceil(8)).unwrap_or(usize::MAX);
    1 + low_bytes(numbers.len(), k) + high_bytes + escapes
}

fn low_bytes(count: usize, k: u32) -> usize {
    (count * k as usize).div_ceil(8)
}

/// Appends a group of 1 to [`GROUP`] numbers.
pub(crate) fn write(numbers: &[u64], out: &mut Vec<u8>) {
    let k = parameter(numbers);
    out.push(k.to_le_bytes()[0]);
    let lows = out.len();
    out.resize(lows + low_bytes(numbers.len(), k), 0);
    bits::pack(numbers, k, &mut out[lows..]);
    let mut unary = Unary::default();
    let mut escapes = false;
    for &number in numbers {
        let zeros = (number >> k).min(UNARY_MAX);
        escapes |= zeros == UNARY_MAX;
        unary.push(zeros, out);
    }
    unary.finish(out);
    if escapes {
        for high in numbers.iter().map(|number| number >> k).filter(|high| *high >= UNARY_MAX) {
            varint::write(high - UNARY_MAX, out);
        }
    }
}

/// Reads a group of `numbers.len()` numbers, 1 to [`GROUP`]. What was validated need not be read strictly:
/// then the parameter may be any.
pub(crate) fn read(reader: &mut Reader<'_>, numbers: &mut [u64], strict: bool) -> Result<(), SipError> {
    let at = reader.at();
    let [k] = reader.array()?;
    let k = u32::from(k);
    if k > MAX_PARAMETER {
        return Err(SipError::Parameter { at });
    }
    let from_lows = reader.rest();
    let lows = reader.take(low_bytes(numbers.len(), k))?;
    if is_padded(lows, numbers.len() * k as usize) {
        return Err(SipError::Padding { at });
    }
    let Some(high_bits) = bits::unary(reader.rest(), numbers) else {
        let truncated = SipError::Truncated { at: reader.at(), need: reader.left() + 1 };
        return Err(if ends_early(reader.rest(), numbers.len()) {
            truncated
        } else {
            SipError::Unary { at }
        });
    };
    let highs = reader.take(high_bits.div_ceil(8))?;
    if is_padded(highs, high_bits) {
        return Err(SipError::Padding { at });
    }
    if numbers.contains(&UNARY_MAX) {
        for high in numbers.iter_mut().filter(|high| **high == UNARY_MAX) {
            let escape = reader.at();
            *high = varint::read(reader)?.checked_add(UNARY_MAX).ok_or(SipError::Overflow { at: escape })?;
            if *high << k >> k != *high {
                return Err(SipError::Overflow { at: escape });
            }
        }
    } else if k > 60 && numbers.iter().any(|high| high << k >> k != *high) {
        return Err(SipError::Overflow { at });
    }
    let mut low_parts = [0; GROUP];
    let low_parts = &mut low_parts[..numbers.len()];
    bits::unpack(from_lows, k, low_parts);
    for (number, low) in numbers.iter_mut().zip(low_parts) {
        *number = *number << k | *low;
    }
    if strict && !is_parameter(k, numbers) { Err(SipError::Parameter { at }) } else { Ok(()) }
}

/// Whether a bit is set in the last of `bytes`, behind the first `bits` bits.
fn is_padded(bytes: &[u8], bits: usize) -> bool {
    !bits.is_multiple_of(8) && bytes.last().is_some_and(|last| last >> (bits % 8) > 0)
}

/// Whether `bytes` end before `count` unary numbers do, and none before is too great.
fn ends_early(bytes: &[u8], count: usize) -> bool {
    let (mut ones, mut zeros) = (0, 0);
    for bit in bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1)) {
        (ones, zeros) = if bit == 1 { (ones + 1, 0) } else { (ones, zeros + 1) };
        if zeros > UNARY_MAX || ones == count {
            return false;
        }
    }
    true
}

/// Unary numbers on their way into bytes.
#[derive(Default)]
struct Unary {
    word: u64,
    used: u64,
}

impl Unary {
    /// Appends `zeros` zero bits, at most [`UNARY_MAX`], and a one bit.
    #[inline]
    fn push(&mut self, zeros: u64, out: &mut Vec<u8>) {
        self.used += zeros;
        if self.used >= 64 {
            out.extend_from_slice(&self.word.to_le_bytes());
            self.word = 0;
            self.used -= 64;
        }
        self.word |= 1 << self.used;
        self.used += 1;
    }

    /// Appends what is left; the bits behind the last are 0.
    fn finish(self, out: &mut Vec<u8>) {
        let bytes = self.used.div_ceil(8);
        out.extend(self.word.to_le_bytes().iter().zip(0..bytes).map(|(byte, _)| byte));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(numbers: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(numbers, &mut bytes);
        assert_eq!(bytes.len(), size(numbers), "{numbers:?}");
        let mut read_back = vec![0; numbers.len()];
        let mut reader = Reader::new(&bytes, 0);
        read(&mut reader, &mut read_back, true).unwrap();
        reader.end().unwrap();
        assert_eq!(read_back, numbers);
        bytes
    }

    #[test]
    fn the_parameter_follows_the_median() {
        for (median, k) in [(0, 0), (1, 0), (2, 1), (3, 2), (5, 2), (6, 3), (11, 3), (12, 4), (u64::MAX, 63)]
        {
            assert_eq!(parameter(&[median]), k, "{median}");
            assert_eq!(parameter(&[0, median, u64::MAX]), k, "{median}");
            assert_eq!(parameter(&[median, 0, u64::MAX, median]), k, "{median}");
        }
        let mut numbers = [u64::MAX; GROUP];
        numbers[..64].fill(6);
        assert_eq!(parameter(&numbers), 3);
        numbers[0] = u64::MAX;
        assert_eq!(parameter(&numbers), 63);
    }

    #[test]
    fn groups_are_read_as_written() {
        assert_eq!(round_trip(&[0]), [0, 0b1]);
        assert_eq!(round_trip(&[1, 0, 3]), [0, 0b100_0110]);
        assert_eq!(round_trip(&[6, 25]), [3, 0b00_001_110, 0b1_0001]);
        // 16 + 2 are 16 zeros, a one, and the varint 2.
        assert_eq!(round_trip(&[0, 18, 1]), [0, 1, 0, 0b1010, 2]);
        round_trip(&[u64::MAX]);
        round_trip(&[0, u64::MAX, 0]);
        for k in 0..64 {
            for count in [1, 2, 7, 127, 128] {
                let numbers: Vec<u64> =
                    (0..count).map(|i| (1_u64 << k).wrapping_mul(i * i % 41).rotate_left(k / 60)).collect();
                round_trip(&numbers);
            }
        }
    }

    #[test]
    fn other_bytes_are_errors() {
        let check = |bytes: &[u8], count, error| {
            let mut numbers = vec![0; count];
            assert_eq!(read(&mut Reader::new(bytes, 0), &mut numbers, true), Err(error), "{bytes:x?}");
        };
        check(&[], 1, SipError::Truncated { at: 0, need: 1 });
        check(&[64, 1], 1, SipError::Parameter { at: 0 });
        check(&[3, 7], 1, SipError::Truncated { at: 2, need: 1 });
        check(&[3, 7, 0, 0], 1, SipError::Truncated { at: 2, need: 3 });
        check(&[3, 7, 0, 0, 0], 1, SipError::Unary { at: 0 });
        check(&[3, 0x0f, 1], 1, SipError::Padding { at: 0 });
        check(&[3, 7, 3], 1, SipError::Padding { at: 0 });
        check(&[3, 5, 1], 1, SipError::Parameter { at: 0 });
        check(&[2, 3, 0b10], 1, SipError::Parameter { at: 0 });
        check(&[0, 0, 0, 1], 1, SipError::Truncated { at: 4, need: 1 });
        check(&[0, 0, 0, 1, 0x80, 0], 1, SipError::VarintTooLong { at: 4 });
        check(&[62, 0, 0, 0, 0, 0, 0, 0, 0, 0b1_0000], 1, SipError::Overflow { at: 0 });
    }
}
