//! Reading bytes that may end anywhere.

use crate::SipError;

/// A place in the bytes of a SIP. Nothing is read beyond their end.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from byte `at`.
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// The place of the next byte.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Bytes left.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// All bytes left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Leaves out `n` bytes that are there.
    #[inline]
    pub(crate) fn skip(&mut self, n: usize) {
        self.at += n;
    }

    /// The next `n` bytes.
    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8], SipError> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..n));
        let taken = taken.ok_or_else(|| self.truncated(n))?;
        self.at += n;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], SipError> {
        let array = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>());
        let array = *array.ok_or_else(|| self.truncated(N))?;
        self.at += N;
        Ok(array)
    }

    fn truncated(&self, n: usize) -> SipError {
        SipError::Truncated { at: self.at, need: n }
    }

    /// That nothing is left.
    pub(crate) fn end(&self) -> Result<(), SipError> {
        if self.left() == 0 { Ok(()) } else { Err(SipError::TrailingBytes { at: self.at }) }
    }
}
