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

/// What codes stand for: the floats of integers that are so much greater.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decimals {
    /// The integer of code 0.
    pub base: i64,
    /// What integers stand for.
    pub scale: Scale,
    /// Whether floats are rounded to float32.
    pub single: bool,
}

impl Decimals {
    /// The float that a code stands for; integers wrap.
    #[inline(always)]
    pub fn float(self, code: u64) -> f64 {
        let float = self.scale.float(self.base.wrapping_add(code as i64));
        if self.single { f64::from(float as f32) } else { float }
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
