//! Rice groups: up to 128 numbers of 64 bits under one parameter.
//!
//! R. F. Rice, "Some practical universal noiseless coding techniques" (1979), with the bound on the unary part
//! of JPEG-LS. Low and high parts stand apart, so that neither waits for the other when they are read.

use crate::{SipError, reader::Reader, varint};

/// Numbers of a full group.
pub(crate) const GROUP: usize = 128;
/// Zero bits of a high part, at most; what is beyond them follows as a varint.
const MAX_ZEROS: u64 = 16;
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

/// Bytes of a group.
pub(crate) fn size(numbers: &[u64]) -> usize {
    let k = parameter(numbers);
    let mut bits = 0;
    let mut escapes = 0;
    for &number in numbers {
        let high = number >> k;
        bits += high.min(MAX_ZEROS) + 1;
        if high >= MAX_ZEROS {
            escapes += varint::len(high - MAX_ZEROS);
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
    let mut bits = Bits::default();
    if k > 0 {
        for &number in numbers {
            bits.push(number & (u64::MAX >> (64 - k)), k, out);
        }
        bits.flush(out);
    }
    let mut escapes = false;
    for &number in numbers {
        let zeros = (number >> k).min(MAX_ZEROS);
        escapes |= zeros == MAX_ZEROS;
        bits.push(1 << zeros, u32::try_from(zeros).unwrap_or(0) + 1, out);
    }
    bits.flush(out);
    if escapes {
        for high in numbers.iter().map(|number| number >> k).filter(|high| *high >= MAX_ZEROS) {
            varint::write(high - MAX_ZEROS, out);
        }
    }
}

/// Reads a group of `numbers.len()` numbers, 1 to [`GROUP`].
pub(crate) fn read(reader: &mut Reader<'_>, numbers: &mut [u64]) -> Result<(), SipError> {
    let at = reader.at();
    let [k] = reader.array()?;
    let k = u32::from(k);
    if k > MAX_PARAMETER {
        return Err(SipError::Parameter { at });
    }
    let lows = reader.take(low_bytes(numbers.len(), k))?;
    let used = numbers.len() * k as usize % 8;
    if used > 0 && lows.last().is_some_and(|last| last >> used > 0) {
        return Err(SipError::Padding { at });
    }
    let mut escapes = false;
    let high_bytes = unary(reader.rest(), numbers, &mut escapes).map_err(|fault| match fault {
        Unary::End => SipError::Truncated { at: reader.at(), need: reader.left() + 1 },
        Unary::Zeros => SipError::Unary { at },
        Unary::Padding => SipError::Padding { at },
    })?;
    reader.take(high_bytes)?;
    if escapes {
        for high in numbers.iter_mut().filter(|high| **high == MAX_ZEROS) {
            let escape = reader.at();
            *high = varint::read(reader)?.checked_add(MAX_ZEROS).ok_or(SipError::Overflow { at: escape })?;
            if *high << k >> k != *high {
                return Err(SipError::Overflow { at: escape });
            }
        }
    } else if k > 60 && numbers.iter().any(|high| high << k >> k != *high) {
        return Err(SipError::Overflow { at });
    }
    if k > 0 {
        add_lows(lows, k, numbers);
    }
    let half = numbers.len().div_ceil(2);
    let least = k == 0 || below(numbers, bound(k - 1)) < half;
    if !least || (k < MAX_PARAMETER && below(numbers, bound(k)) < half) {
        return Err(SipError::Parameter { at });
    }
    Ok(())
}

/// What can be wrong with unary numbers.
enum Unary {
    End,
    Zeros,
    Padding,
}

/// Reads `numbers.len()` unary numbers from the front of `bytes`: how many bytes they take, and whether one of
/// them stands for more than it says.
fn unary(bytes: &[u8], numbers: &mut [u64], escapes: &mut bool) -> Result<usize, Unary> {
    let mut numbers = numbers.iter_mut();
    // The place of the last one bit, less the first place of the word; there was none before the first word.
    let mut last = -1_i64;
    let mut most = 0;
    for (i, at) in (0..bytes.len()).step_by(8).enumerate() {
        let mut word = load(bytes, at);
        while word != 0 {
            let Some(number) = numbers.next() else {
                return end_of_unary(i, last, most, word, escapes);
            };
            let place = i64::from(word.trailing_zeros());
            word &= word - 1;
            *number = (place - last - 1).cast_unsigned();
            most = most.max(*number);
            last = place;
        }
        if most > MAX_ZEROS {
            return Err(Unary::Zeros);
        }
        if numbers.len() == 0 {
            return end_of_unary(i, last, most, 0, escapes);
        }
        last -= 64;
    }
    let words = bytes.len().div_ceil(8);
    let zeros = 8 * bytes.len() as i64 - (64 * words as i64 + last) - 1;
    Err(if zeros > MAX_ZEROS.cast_signed() { Unary::Zeros } else { Unary::End })
}

/// What to make of numbers whose last bit stands at `last` of the `i`th word, of which `rest` is left.
fn end_of_unary(i: usize, last: i64, most: u64, rest: u64, escapes: &mut bool) -> Result<usize, Unary> {
    if most > MAX_ZEROS {
        return Err(Unary::Zeros);
    }
    *escapes = most == MAX_ZEROS;
    let bits = usize::try_from(last + 1).unwrap_or(0);
    // Further bits of the last byte are 0; other bytes are others'.
    let end = bits.next_multiple_of(8);
    if rest & (u64::MAX >> (64 - end)) != 0 {
        return Err(Unary::Padding);
    }
    Ok(8 * i + end / 8)
}

/// Sets the low `k` bits (1 to 63) of numbers whose high parts they hold.
fn add_lows(lows: &[u8], k: u32, numbers: &mut [u64]) {
    let mask = u64::MAX >> (64 - k);
    for (i, number) in numbers.iter_mut().enumerate() {
        let bit = i * k as usize;
        let shift = bit % 8;
        let mut low = load(lows, bit / 8) >> shift;
        if shift + k as usize > 64 {
            low |= u64::from(lows.get(bit / 8 + 8).copied().unwrap_or(0)) << (64 - shift);
        }
        *number = *number << k | low & mask;
    }
}

/// The 8 bytes from byte `at` on; 0 behind the end.
#[inline]
fn load(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    if let Some(word) = rest.first_chunk() {
        return u64::from_le_bytes(*word);
    }
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(word)
}

/// Bits on their way into bytes, the least significant first.
#[derive(Default)]
struct Bits {
    word: u64,
    used: u32,
}

impl Bits {
    /// Appends `width` bits (1 to 64); those above are 0.
    #[inline]
    fn push(&mut self, bits: u64, width: u32, out: &mut Vec<u8>) {
        self.word |= bits << self.used;
        if self.used + width >= 64 {
            out.extend_from_slice(&self.word.to_le_bytes());
            let written = 64 - self.used;
            self.word = if written == 64 { 0 } else { bits >> written };
            self.used = width - written;
        } else {
            self.used += width;
        }
    }

    /// Fills the last byte with 0.
    fn flush(&mut self, out: &mut Vec<u8>) {
        let bytes = self.used.div_ceil(8) as usize;
        out.extend_from_slice(&self.word.to_le_bytes()[..bytes]);
        *self = Self::default();
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
        read(&mut reader, &mut read_back).unwrap();
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
            assert_eq!(read(&mut Reader::new(bytes, 0), &mut numbers), Err(error), "{bytes:x?}");
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
