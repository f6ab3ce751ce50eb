//! NEON, which every 64-bit ARM has: comparisons give lanes of ones, which are gathered to bits; bits are spread to
//! lanes to select.

mod bits;
mod bytes;
mod floats;
mod integers;
pub(crate) mod table;
mod words;

use crate::registers::{Register, load, store};

/// The instructions.
#[derive(Clone, Copy)]
pub(crate) struct Neon;

impl crate::scalar::Portable for Neon {}

/// A register seen as another of its size.
#[inline(always)]
fn cast<A: Register, B: Register>(register: A) -> B {
    load(&store::<A, u64, 2>(register))
}
