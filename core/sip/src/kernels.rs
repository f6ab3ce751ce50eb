//! Loops over words and offsets, until the kernels have them.

/// Set bits, and runs of them.
pub(crate) fn count_runs(words: &[u64]) -> (u64, u64) {
    let (mut ones, mut runs, mut carry) = (0, 0, 0);
    for &word in words {
        ones += u64::from(word.count_ones());
        runs += u64::from((word & !(word << 1 | carry)).count_ones());
        carry = word >> 63;
    }
    (ones, runs)
}

/// Positions of the set bits.
pub(crate) fn positions(words: &[u64], out: &mut [u16]) -> usize {
    let mut n = 0;
    basalt_kernels::mask::for_each(words, |i| {
        out[n] = crate::roaring::low(i as u64);
        n += 1;
    });
    n
}

/// Ids of the set bits.
pub(crate) fn positions64(words: &[u64], base: u64, out: &mut [u64]) -> usize {
    let mut n = 0;
    basalt_kernels::mask::for_each(words, |i| {
        out[n] = base + i as u64;
        n += 1;
    });
    n
}

/// Sets bits.
pub(crate) fn set_positions(positions: &[[u8; 2]], block: &mut [u64; 1024]) {
    for &position in positions {
        let position = usize::from(u16::from_le_bytes(position));
        block[position / 64] |= 1 << (position % 64);
    }
}

/// Ids of both.
pub(crate) fn intersect(a: &[[u8; 2]], b: &[[u8; 2]], out: &mut [u16]) -> usize {
    let (mut i, mut j, mut n) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        let (x, y) = (u16::from_le_bytes(a[i]), u16::from_le_bytes(b[j]));
        if x == y {
            out[n] = x;
            n += 1;
        }
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    n
}
