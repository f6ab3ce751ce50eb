//! The table of the reference.

use super::Scalar;

crate::table::kernels!(crate::Isa::Scalar, Scalar = Scalar,);
