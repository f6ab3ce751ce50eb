//! The running sum of floats whose bits depend on nothing but the rows.

/// A sum of floats in eight lanes, so that every instruction set gives the same bits.
///
/// Rows are taken in chunks of 64. Within a chunk, lane `l` adds rows `l`, `l + 8`, `l + 16`, ... in that
/// order, starting from +0.0; the chunk's lanes are then added to those held here.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FloatSum {
    pub(crate) lanes: [f64; 8],
}

impl FloatSum {
    /// The lanes added up: `((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7))`. Every NaN is the same NaN.
    pub fn finish(self) -> f64 {
        let [a, b, c, d, e, f, g, h] = self.lanes;
        let sum = ((a + e) + (c + g)) + ((b + f) + (d + h));
        if sum.is_nan() { f64::NAN } else { sum }
    }
}
