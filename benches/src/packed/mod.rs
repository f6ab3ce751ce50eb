//! Packed integers, decimals and texts beside what others make of them.

pub mod compare;
pub mod decimals;
pub mod horizontal;
pub mod lanes;
pub mod order;
pub mod sums;
pub mod texts;

use rand::{Rng, SeedableRng, rngs::StdRng};

/// `n` random codes of so many bits.
pub fn codes(width: u32, n: usize) -> Vec<u64> {
    let mut rng = StdRng::seed_from_u64(0xc0de);
    (0..n).map(|_| rng.random::<u64>() >> (64 - width)).collect()
}

/// The codes as the kernels take them.
fn pack(width: u32, codes: &[u64]) -> arrow_buffer::ScalarBuffer<u64> {
    let mut words = vec![0; basalt_kernels::packed::words(width, codes.len())];
    basalt_kernels::packed::pack(width, codes, &mut words);
    crate::kernels::data::aligned(words.into_iter())
}
