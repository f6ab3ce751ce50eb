//! Kernels beside the second source's methods and arrow's.

pub mod aggregates;
pub mod data;
pub mod filters;
pub mod groups;
pub mod nulls;
pub mod seed;

use arrow_array::PrimitiveArray;
use arrow_buffer::ScalarBuffer;
use basalt_kernels::{Isa, Kernels};

use crate::contest::Role;

/// The contenders of ours: what the engine calls (`None`), and the tables that it does not use here.
pub fn tables() -> impl Iterator<Item = (Role, String, Option<&'static Kernels>)> {
    let tables: Vec<_> = basalt_kernels::tables().collect();
    let used = tables.iter().rposition(|(isa, _)| *isa == basalt_kernels::isa());
    let name = |place: usize, isa: Isa| match place > 0 && tables[place - 1].0 == isa {
        true => format!("{isa}+vbmi2"),
        false => isa.to_string(),
    };
    let entries: Vec<_> = tables
        .iter()
        .enumerate()
        .map(|(place, &(isa, table))| match Some(place) == used {
            true => (Role::Ours, name(place, isa), None),
            false => (Role::Other, name(place, isa), Some(table)),
        })
        .collect();
    entries.into_iter()
}

/// Which kernels are in use, and what the compiler was told of the CPU, which the source's methods and other libraries
/// depend on.
pub fn build() -> String {
    let target = if cfg!(target_feature = "avx512f") {
        "a CPU with AVX-512 (target-cpu)"
    } else if cfg!(target_feature = "avx2") {
        "a CPU with AVX2 (target-cpu)"
    } else if cfg!(target_arch = "x86_64") {
        "the baseline of x86-64 (SSE2)"
    } else {
        "the baseline of the target"
    };
    let used = tables().find(|(role, ..)| *role == Role::Ours).map_or_else(String::new, |(_, name, _)| name);
    format!("Kernels in use: {used}. All else is compiled for {target}.")
}

fn array_of<T: data::Element>(value: T) -> PrimitiveArray<T::Arrow> {
    PrimitiveArray::new(ScalarBuffer::from(vec![value]), None)
}
