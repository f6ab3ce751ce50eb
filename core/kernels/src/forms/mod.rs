//! The forms of what the kernels read and write: types, sizes and bounds. They know no kernel.

pub(crate) mod arithmetic;
pub(crate) mod bits;
pub(crate) mod decimals;
pub(crate) mod gaps;
pub(crate) mod mask;
pub(crate) mod packed;
pub(crate) mod rans;
pub(crate) mod runs;
