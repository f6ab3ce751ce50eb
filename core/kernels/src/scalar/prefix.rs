//! Gaps to ids.

use super::Portable;

/// Gaps that are looked at together.
const STEP: usize = 64;

/// So many gaps below this sum to less than 2^64.
const SMALL: u64 = 1 << 57;

/// Prefix sums of an instruction set.
pub(crate) trait Sums: Copy {
    /// Replaces gaps by ids, all modulo 2^64; returns what follows the last.
    fn ids(self, base: u64, gaps: &mut [u64]) -> u64;
}

impl<A: Portable> Sums for A {
    #[inline(always)]
    fn ids(self, base: u64, gaps: &mut [u64]) -> u64 {
        ids(base, gaps)
    }
}

/// Replaces gaps by ids one by one; returns what follows the last.
#[inline(always)]
pub(crate) fn ids(mut base: u64, gaps: &mut [u64]) -> u64 {
    for gap in gaps {
        *gap = base.wrapping_add(*gap);
        base = gap.wrapping_add(1);
    }
    base
}

#[inline(always)]
pub(crate) fn gaps_to_ids(isa: impl Sums, base: u64, gaps: &mut [u64]) -> Option<u64> {
    let mut last = base.wrapping_sub(1);
    let mut base = Some(base);
    for gaps in gaps.chunks_mut(STEP) {
        let first = base?;
        last = match gaps.iter().fold(0, |union, gap| union | gap) {
            // How far the ids go is exact, so it is enough that the last is not above the greatest.
            ..SMALL => first.checked_add(isa.ids(first, gaps).wrapping_sub(first) - 1)?,
            _ => checked_ids(first, gaps)?,
        };
        base = last.checked_add(1);
    }
    Some(last)
}

/// Replaces gaps by ids; returns the last.
fn checked_ids(base: u64, gaps: &mut [u64]) -> Option<u64> {
    let mut next = Some(base);
    let mut last = base;
    for gap in gaps {
        last = next?.checked_add(*gap)?;
        *gap = last;
        next = last.checked_add(1);
    }
    Some(last)
}
