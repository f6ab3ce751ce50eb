//! Decimals as ALP has them.

/// What integers stand for: `d` for `d * up * down`, rounded to the nearest float64 after each product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The first factor.
    pub up: f64,
    /// The second factor.
    pub down: f64,
}

impl Scale {
    /// The float that an integer stands for.
    #[inline(always)]
    pub fn float(self, integer: i64) -> f64 {
        integer as f64 * self.up * self.down
    }
}

/// What an integer is replaced by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The bits of the float64.
    Double,
    /// The bits of the float64, once it was rounded to a float32.
    Single,
    /// The bits of the float64 as a number that orders as the floats do: of negative ones, all but the sign flipped.
    DoubleKey,
    /// The same of the bits of the float32, with its sign extended.
    SingleKey,
}
