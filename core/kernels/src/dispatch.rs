//! Which table is in use: chosen once, by what the CPU has.

use std::sync::OnceLock;

use crate::{Isa, scalar, table::Kernels};

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
