//! Which table is in use: chosen once, by what the CPU has.

use std::{fmt, sync::OnceLock};

use crate::{scalar, table::Kernels};

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

/// The tables that this CPU runs, slowest first.
pub fn tables() -> impl DoubleEndedIterator<Item = (Isa, &'static Kernels)> {
    #[allow(unused_mut, reason = "other machines have one table")]
    let mut tables = vec![&scalar::table::KERNELS];
    #[cfg(target_arch = "aarch64")]
    tables.push(&crate::neon::table::KERNELS);
    #[cfg(target_arch = "x86_64")]
    {
        if crate::avx2::detected() {
            tables.push(&crate::avx2::table::KERNELS);
        }
        if crate::avx512::detected() {
            tables.push(&crate::avx512::table::KERNELS);
        }
        if crate::avx512::vbmi2::detected() {
            tables.push(&crate::avx512::vbmi2::table::KERNELS);
        }
    }
    tables.into_iter().map(|table| (table.isa, table))
}

/// The instruction set in use: the best that this CPU has, or the one that the environment variable
/// `BASALT_SIMD` names (`scalar`, `neon`, `avx2` or `avx512`, read at the first use of any kernel). A name that is
/// unknown, or of an instruction set that this CPU does not have, is as good as none.
pub fn isa() -> Isa {
    current().isa
}

/// The table in use.
pub(crate) fn current() -> &'static Kernels {
    #[cfg(test)]
    if let Some(table) = marked::installed() {
        return table;
    }
    static CURRENT: OnceLock<&'static Kernels> = OnceLock::new();
    CURRENT.get_or_init(|| choose(std::env::var("BASALT_SIMD").ok().as_deref()))
}

fn choose(name: Option<&str>) -> &'static Kernels {
    let named = tables().rfind(|(isa, _)| Some(isa.name()) == name);
    named.or_else(|| tables().next_back()).map_or(&scalar::table::KERNELS, |(_, table)| table)
}

#[cfg(test)]
mod marked;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_chooses_its_table() {
        for (isa, _) in tables() {
            assert_eq!(choose(Some(isa.name())).isa, isa);
        }
    }

    #[test]
    fn the_best_table_serves_unknown_names() {
        let best = tables().map(|(isa, _)| isa).max();
        for name in [None, Some(""), Some("sse2"), Some("AVX2")] {
            assert_eq!(Some(choose(name).isa), best);
        }
    }
}
