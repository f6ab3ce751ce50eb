//! The first byte of a SIP.

use crate::SipError;

/// How the body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Tag {
    /// The empty set; its body has no bytes.
    Empty = 0x00,
    /// Portable 64-bit roaring, run-optimised: sets that cluster.
    Roaring = 0x01,
    /// Count, first id and differences as LEB128: scattered sets.
    VarintDelta = 0x02,
}

impl TryFrom<u8> for Tag {
    type Error = SipError;

    fn try_from(byte: u8) -> Result<Self, SipError> {
        [Self::Empty, Self::Roaring, Self::VarintDelta]
            .into_iter()
            .find(|tag| *tag as u8 == byte)
            .ok_or(SipError::UnknownTag { tag: byte })
    }
}
