//! The types that columns are made of, and what every kernel asks of them.

use crate::{
    table::{FloatKernels, GroupKernels, IntegerKernels, Kernels, NativeKernels},
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

/// The number of a group: u8, u16 or u32.
pub trait GroupCode: Native + sealed::GroupCode {}

pub(crate) mod sealed {
    use super::{CmpOp, FloatKernels, GroupKernels, IntegerKernels, Kernels, NativeKernels, Test};

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

        /// A value that changes the extremes of no values that `some` is one of.
        fn neutral(some: Self) -> Self;

        /// Whether the value is NaN.
        fn is_nan(self) -> bool;

        /// The extremes that `min_max` reports, from the extremes of the values that are not NaN (`GREATEST`
        /// and `LEAST` where there were none) and whether one was NaN.
        fn extremes(min: Self, max: Self, nan: bool) -> (Self, Self);
    }

    pub trait Integer: Native + Ord {
        const BITS: u32;
        const SIGNED: bool;

        fn integer_kernels(table: &Kernels) -> &IntegerKernels<Self>;

        fn to_i128(self) -> i128;

        /// `low` and `high` of `low + high * 2^32`, of 33 bits at most; `high` is 0 below 64 bits.
        fn halves(self) -> (i64, i64);
    }

    pub trait Float: Native + Into<f64> {
        fn float_kernels(table: &Kernels) -> &FloatKernels<Self>;
    }

    pub trait GroupCode: Sized {
        /// The type's entries of a table.
        fn group_kernels(table: &Kernels) -> &GroupKernels<Self>;

        fn index(self) -> usize;

        /// The code of a group that the type can number.
        fn of(index: usize) -> Self;

        /// The low bits of the number, times `span`, and a digit.
        fn shifted(self, span: i64, digit: i64) -> Self;
    }
}

macro_rules! integers {
    ($($t:ident $halves:ident),*) => {$(
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
            fn neutral(some: Self) -> Self {
                some
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
            const BITS: u32 = $t::BITS;
            const SIGNED: bool = $t::MIN != 0;

            fn integer_kernels(table: &Kernels) -> &IntegerKernels<Self> {
                &table.sums.$t
            }

            #[inline(always)]
            fn to_i128(self) -> i128 {
                i128::from(self)
            }

            #[inline(always)]
            fn halves(self) -> (i64, i64) {
                $halves!(self)
            }
        }
    )*};
}

macro_rules! narrow {
    ($value:expr) => {
        (i64::from($value), 0)
    };
}

macro_rules! wide {
    ($value:expr) => {
        (($value as u32).into(), ($value >> 32) as i64)
    };
}

integers!(i8 narrow, i16 narrow, i32 narrow, i64 wide, u8 narrow, u16 narrow, u32 narrow, u64 wide);

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
            fn neutral(_some: Self) -> Self {
                Self::NAN
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

macro_rules! codes {
    ($($t:ident),*) => {$(
        impl GroupCode for $t {}

        impl sealed::GroupCode for $t {
            fn group_kernels(table: &Kernels) -> &GroupKernels<Self> {
                &table.groups.$t
            }

            #[inline(always)]
            fn index(self) -> usize {
                self as usize
            }

            #[inline(always)]
            fn of(index: usize) -> Self {
                index as $t
            }

            #[inline(always)]
            fn shifted(self, span: i64, digit: i64) -> Self {
                self.wrapping_mul(span as $t).wrapping_add(digit as $t)
            }
        }
    )*};
}

codes!(u8, u16, u32);
