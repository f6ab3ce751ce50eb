//! What an encoding would take for a column.

/// The size of a column in one encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeEstimate {
    /// The encoding's name.
    pub name: &'static str,
    /// Bytes of the buffer; once the column is encoded so, the exact number.
    pub bytes: usize,
    /// Whether `bytes` is exact.
    pub exact: bool,
    /// The least that it may come to.
    pub(super) least: usize,
}

impl SizeEstimate {
    pub(super) fn exact(name: &'static str, bytes: usize) -> Self {
        Self { name, bytes, exact: true, least: bytes }
    }

    /// An estimate that may be too high by one part in `error`.
    pub(super) fn inexact(name: &'static str, bytes: usize, error: usize) -> Self {
        Self { name, bytes, exact: false, least: bytes - bytes / error }
    }

    /// The estimate of an encoding that is sure to be larger than another: it is used only when it is forced.
    pub(super) fn only_if_forced(self) -> Self {
        Self { least: usize::MAX, ..self }
    }

    /// The least that it is likely to come to: estimates are wrong by half of what they may be wrong by at most.
    pub(super) fn likely_least(self) -> usize {
        self.least.midpoint(self.bytes.max(self.least))
    }

    /// The size of two columns together.
    pub(super) fn and(self, other: Self) -> Self {
        let least = self.least.saturating_add(other.least);
        Self { name: self.name, bytes: self.bytes + other.bytes, exact: self.exact && other.exact, least }
    }

    /// The size in an encoding that adds `bytes` to what another makes.
    pub(super) fn around(self, name: &'static str, bytes: usize) -> Self {
        Self { name, bytes: self.bytes + bytes, least: self.least.saturating_add(bytes), ..self }
    }

    /// The same where what it is made from is itself an estimate, too high by one part in `error` at most.
    pub(super) fn about(self, error: usize) -> Self {
        Self { exact: false, least: self.least.saturating_sub(self.bytes / error), ..self }
    }
}
