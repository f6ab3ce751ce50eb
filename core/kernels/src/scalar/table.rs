//! The table of the reference.

use super::Scalar;

crate::entries::kernels!(crate::Isa::Scalar, Scalar = Scalar,);
