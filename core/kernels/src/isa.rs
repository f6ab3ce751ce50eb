//! The instruction sets, by name.

use std::fmt;

/// The instruction sets that have a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// What every CPU has.
    Scalar,
    /// 64-bit ARM.
    Neon,
    /// x86-64 with AVX2, BMI1, BMI2, LZCNT and POPCNT.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL, besides the above. There are two tables: the second is for CPUs that
    /// have VBMI, VBMI2 and VPOPCNTDQ too.
    Avx512,
}

impl Isa {
    /// The name that `BASALT_SIMD` takes: `scalar`, `neon`, `avx2`, `avx512`.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Neon => "neon",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
