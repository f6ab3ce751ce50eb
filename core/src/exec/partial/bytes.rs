//! Numbers as bytes: LEB128, the sign in the lowest bit where there is one.

use super::corrupt;
use crate::{error::Result, invariant::index};

/// Appends a number.
pub(super) fn put(out: &mut Vec<u8>, value: u64) {
    put_wide(out, value.into());
}

/// Appends a number with a sign.
pub(super) fn put_signed(out: &mut Vec<u8>, value: i128) {
    put_wide(out, ((value << 1) ^ (value >> 127)).cast_unsigned());
}

#[allow(clippy::cast_possible_truncation, reason = "seven bits at a time")]
fn put_wide(out: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends bytes behind their number.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Bytes that are read from the front.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// A number as [`put`] writes it.
    pub(super) fn number(&mut self) -> Result<u64> {
        u64::try_from(self.wide()?).map_err(|_| corrupt("a number is too large"))
    }

    /// A number as [`put_signed`] writes it.
    pub(super) fn signed(&mut self) -> Result<i128> {
        let value = self.wide()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn wide(&mut self) -> Result<u128> {
        let mut value = 0;
        for shift in (0..128).step_by(7) {
            let [byte] = self.array()?;
            let bits = u128::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(corrupt("a number is too large"))
    }

    /// Bytes behind their number.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8]> {
        let n = index(self.number()?);
        let (bytes, rest) = self.rest.split_at_checked(n).ok_or_else(short)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (array, rest) = self.rest.split_first_chunk().ok_or_else(short)?;
        self.rest = rest;
        Ok(*array)
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// That nothing is left.
    pub(super) fn end(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(corrupt("there are bytes behind the end")) }
    }
}

fn short() -> crate::error::Error {
    corrupt("the bytes end too early")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let (mut bytes, unsigned) = (Vec::new(), [0, 1, 127, 128, u64::MAX]);
        let signed = [0, -1, 1, -64, 64, i128::from(i64::MIN), i128::MAX, i128::MIN];
        unsigned.iter().for_each(|n| put(&mut bytes, *n));
        signed.iter().for_each(|n| put_signed(&mut bytes, *n));
        let mut reader = Reader::new(&bytes);
        unsigned.iter().for_each(|n| assert_eq!(reader.number().unwrap(), *n));
        signed.iter().for_each(|n| assert_eq!(reader.signed().unwrap(), *n));
        reader.end().unwrap();
        assert!(reader.number().is_err());
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let mut of_65_bits = Vec::new();
        put_signed(&mut of_65_bits, 1 << 64);
        assert!(Reader::new(&of_65_bits).number().is_err());
        assert!(Reader::new(&[0xff; 18]).number().is_err());
        assert!(Reader::new(&[0xff; 40]).signed().is_err());
        assert!(Reader::new(&[3, 0, 0]).bytes().is_err());
    }
}
