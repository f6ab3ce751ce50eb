//! The table of NEON.

use super::Neon;

crate::entries::kernels!(
    crate::Isa::Neon,
    Neon = Neon,
    #[target_feature(enable = "neon")]
);
