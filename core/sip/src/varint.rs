//! Unsigned LEB128: seven bits a byte, least significant first, the top bit set on all but the last.

use crate::{SipError, reader::Reader};

/// Bytes of `value`'s varint.
pub(crate) fn len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Appends `value`.
pub(crate) fn write(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// Reads one of minimal length.
#[inline]
pub(crate) fn read(reader: &mut Reader<'_>) -> Result<u64, SipError> {
    match reader.rest() {
        [byte @ 0..0x80, ..] => {
            reader.skip(1);
            Ok(u64::from(*byte))
        }
        _ => read_long(reader),
    }
}

fn read_long(reader: &mut Reader<'_>) -> Result<u64, SipError> {
    let at = reader.at();
    let mut value = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let [byte] = reader.array()?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return Err(SipError::Overflow { at });
        }
        value |= bits << shift;
        if byte < 0x80 {
            return if byte == 0 && shift > 0 { Err(SipError::VarintTooLong { at }) } else { Ok(value) };
        }
    }
    Err(SipError::Overflow { at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_change_at_powers_of_128() {
        for bits in 0..64 {
            for value in [1_u64 << bits, (1_u64 << bits) - 1, u64::MAX >> bits] {
                let mut bytes = Vec::new();
                write(value, &mut bytes);
                assert_eq!(bytes.len(), len(value));
                let mut reader = Reader::new(&bytes, 0);
                assert_eq!(read(&mut reader), Ok(value));
                assert_eq!(reader.end(), Ok(()));
            }
        }
    }

    #[test]
    fn only_minimal_ones_of_64_bits_are_read() {
        let check = |bytes: &[u8], expected| assert_eq!(read(&mut Reader::new(bytes, 0)), expected);
        check(&[], Err(SipError::Truncated { at: 0, need: 1 }));
        check(&[0x80], Err(SipError::Truncated { at: 1, need: 1 }));
        check(&[0x80, 0x00], Err(SipError::VarintTooLong { at: 0 }));
        check(&[0x80, 0x80, 0x01], Ok(1 << 14));
        check(&[0xff; 10], Err(SipError::Overflow { at: 0 }));
        check(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Ok(u64::MAX));
        check(
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
            Err(SipError::Overflow { at: 0 }),
        );
        check(
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0x00],
            Err(SipError::VarintTooLong { at: 0 }),
        );
    }
}
