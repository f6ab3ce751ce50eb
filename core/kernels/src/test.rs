//! Comparisons as ranges: one kernel serves every operator.

/// Which values pass. Bounds are inclusive, in order and not NaN; a NaN is in no range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Test<T> {
    /// None passes.
    None,
    /// All pass.
    All,
    /// Those from the first bound to the second pass.
    In(T, T),
    /// The others pass.
    NotIn(T, T),
}

impl<T> Test<T> {
    pub(crate) fn not(self) -> Self {
        match self {
            Test::None => Test::All,
            Test::All => Test::None,
            Test::In(lo, hi) => Test::NotIn(lo, hi),
            Test::NotIn(lo, hi) => Test::In(lo, hi),
        }
    }
}
