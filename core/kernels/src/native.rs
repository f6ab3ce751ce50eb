//! The types that columns are made of, and what every kernel asks of them.

use crate::{
    table::{FloatKernels, IntegerKernels, Kernels, NativeKernels},
    test::Test,
};

/// A comparison with a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CmpOp {
    /// `=`
    Eq,
    /// `<>`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

/// A fixed-width number: i8 to i64, u8 to u64, f32 and f64.
pub trait Native: sealed::Native {}

/// An integer: i8 to i64 and u8 to u64.
pub trait Integer: Native + sealed::Integer {}

/// A float: f32 and f64.
pub trait Float: Native + sealed::Float {}

pub(crate) mod sealed {
    use super::{FloatKernels, IntegerKernels, Kernels, NativeKernels, Test};
    use crate::{CmpOp, scalar::sum::Accumulator};

    pub trait Native: Copy + PartialOrd + Default + std::fmt::Debug + Send + Sync + 'static {
        /// What the least value of no values is: nothing is greater (NaN apart).
        const GREATEST: Self;
        /// What the greatest value of no values is: nothing is less.
        const LEAST: Self;

        /// The type's entries of a table.
        fn kernels(table: &Kernels) -> &NativeKernels<Self>;

        /// The comparison as a range.
        fn test(op: CmpOp, constant: Self) -> Test<Self>;

        /// `lo <= value <= hi` as a range.
        fn test_between(lo: Self, hi: Self) -> Test<Self>;

        /// Whether the value is NaN.
        fn is_nan(self) -> bool;

        /// The extremes that `min_max` reports, from the extremes of the values that are not NaN (`GREATEST`
        /// and `LEAST` where there were none) and whether one was NaN.
        fn extremes(min: Self, max: Self, nan: bool) -> (Self, Self);
    }

    pub trait Integer: Native + Ord {
        /// Adds up values exactly.
        type Sum: Accumulator<Self>;

        fn integer_kernels(table: &Kernels) -> &IntegerKernels<Self>;

        fn to_i128(self) -> i128;
    }

    pub trait Float: Native + Into<f64> {
        fn float_kernels(table: &Kernels) -> &FloatKernels<Self>;
    }
}

macro_rules! integers {
    ($($t:ident $sum:ident),*) => {$(
        impl Native for $t {}
        impl Integer for $t {}

        impl sealed::Native for $t {
            const GREATEST: Self = $t::MAX;
            const LEAST: Self = $t::MIN;

            fn kernels(table: &Kernels) -> &NativeKernels<Self> {
                &table.$t
            }

            fn test(op: CmpOp, constant: Self) -> Test<Self> {
                let less = || match constant.checked_sub(1) {
                    Some(hi) => Test::In($t::MIN, hi),
                    None => Test::None,
                };
                match op {
                    CmpOp::Eq => Test::In(constant, constant),
                    CmpOp::Ne => Test::NotIn(constant, constant),
                    CmpOp::Lt => less(),
                    CmpOp::Le => Test::In($t::MIN, constant),
                    CmpOp::Gt => Test::NotIn($t::MIN, constant),
                    CmpOp::Ge => less().not(),
                }
            }

            fn test_between(lo: Self, hi: Self) -> Test<Self> {
                if lo <= hi { Test::In(lo, hi) } else { Test::None }
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }

            #[inline(always)]
            fn extremes(min: Self, max: Self, _nan: bool) -> (Self, Self) {
                (min, max)
            }
        }

        impl sealed::Integer for $t {
            type Sum = crate::scalar::sum::$sum;

            fn integer_kernels(table: &Kernels) -> &IntegerKernels<Self> {
                &table.sums.$t
            }

            #[inline(always)]
            fn to_i128(self) -> i128 {
                i128::from(self)
            }
        }
    )*};
}

integers!(i8 Narrow, i16 Narrow, i32 Narrow, i64 Wide, u8 Narrow, u16 Narrow, u32 Narrow, u64 Wide);

macro_rules! floats {
    ($($t:ident),*) => {$(
        impl Native for $t {}
        impl Float for $t {}

        impl sealed::Native for $t {
            const GREATEST: Self = $t::INFINITY;
            const LEAST: Self = $t::NEG_INFINITY;

            fn kernels(table: &Kernels) -> &NativeKernels<Self> {
                &table.$t
            }

            fn test(op: CmpOp, constant: Self) -> Test<Self> {
                let (least, numbers) = (Self::LEAST, Test::In(Self::LEAST, Self::GREATEST));
                if constant.is_nan() {
                    return match op {
                        CmpOp::Eq | CmpOp::Ge => numbers.not(),
                        CmpOp::Ne | CmpOp::Lt => numbers,
                        CmpOp::Le => Test::All,
                        CmpOp::Gt => Test::None,
                    };
                }
                let less = || match constant == least {
                    true => Test::None,
                    false => Test::In(least, constant.next_down()),
                };
                match op {
                    CmpOp::Eq => Test::In(constant, constant),
                    CmpOp::Ne => Test::NotIn(constant, constant),
                    CmpOp::Lt => less(),
                    CmpOp::Le => Test::In(least, constant),
                    CmpOp::Gt => Test::NotIn(least, constant),
                    CmpOp::Ge => less().not(),
                }
            }

            fn test_between(lo: Self, hi: Self) -> Test<Self> {
                match (lo.is_nan(), hi.is_nan()) {
                    (_, true) => Self::test(CmpOp::Ge, lo),
                    (false, false) if lo <= hi => Test::In(lo, hi),
                    _ => Test::None,
                }
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }

            #[inline(always)]
            fn extremes(min: Self, max: Self, nan: bool) -> (Self, Self) {
                // Adding 0.0 makes a zero positive and changes nothing else.
                match (min <= max, nan) {
                    (false, _) => (Self::NAN, Self::NAN),
                    (true, true) => (min + 0.0, Self::NAN),
                    (true, false) => (min + 0.0, max + 0.0),
                }
            }
        }

        impl sealed::Float for $t {
            fn float_kernels(table: &Kernels) -> &FloatKernels<Self> {
                &table.floats.$t
            }
        }
    )*};
}

floats!(f32, f64);
