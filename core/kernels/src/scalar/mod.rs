//! The loops, over registers of any instruction set; and, over plain arrays, the reference.

pub(crate) mod arithmetic;
pub(crate) mod bits;
pub(crate) mod bytes;
pub(crate) mod codes;
pub(crate) mod compare;
pub(crate) mod decimals;
pub(crate) mod filter;
pub(crate) mod gaps;
pub(crate) mod groups;
mod lanes;
pub(crate) mod mask;
pub(crate) mod min_max;
pub(crate) mod packed;
pub(crate) mod positions;
pub(crate) mod prefix;
pub(crate) mod rans;
pub(crate) mod runs;
pub(crate) mod sorted16;
pub(crate) mod statistics;
pub(crate) mod sum;
pub(crate) mod table;

pub(crate) use lanes::Scalar;

/// Instruction sets without an implementation of their own of everything.
pub(crate) trait Portable: Copy {}

impl Portable for Scalar {}
