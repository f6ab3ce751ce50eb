//! The first byte of a SIP.

use std::fmt;

use crate::SipError;

/// How the body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Tag {
    /// The empty set; its body has no bytes.
    Empty = 0x00,
    /// Portable 64-bit roaring, run-optimised: dense sets without pattern, and what every library reads.
    Roaring = 0x01,
    /// Count, first id and differences as LEB128: a handful of ids.
    VarintDelta = 0x02,
    /// Gaps and lengths of ranges, Rice-coded: sets that cluster.
    Ranges = 0x03,
    /// Gaps between ids, Rice-coded: scattered sets.
    Gaps = 0x04,
}

impl Tag {
    /// All of them, in the order of their bytes.
    pub const ALL: [Self; 5] = [Self::Empty, Self::Roaring, Self::VarintDelta, Self::Ranges, Self::Gaps];

    /// Its name, as the specification has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Roaring => "roaring",
            Self::VarintDelta => "varint-delta",
            Self::Ranges => "ranges",
            Self::Gaps => "gaps",
        }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl TryFrom<u8> for Tag {
    type Error = SipError;

    fn try_from(byte: u8) -> Result<Self, SipError> {
        Self::ALL.into_iter().find(|tag| *tag as u8 == byte).ok_or(SipError::UnknownTag { tag: byte })
    }
}
