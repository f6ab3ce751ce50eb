//! Operations of integers.

/// An operation of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOp {
    /// `value + other`
    Add,
    /// `value - other`
    Subtract,
    /// `other - value`
    SubtractFrom,
    /// `value * other`
    Multiply,
}
