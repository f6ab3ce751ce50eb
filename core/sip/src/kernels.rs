//! Intersection of arrays, until the kernels have it.

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
