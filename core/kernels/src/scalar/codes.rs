//! Packed codes, written, and read one by one.

use crate::{
    forms::packed::{UNIT_ROWS, check_width},
    lanes::Lane,
};

fn mask(width: u32) -> u64 {
    u64::MAX >> (u64::BITS - width)
}

/// Packs the codes that rows have; there are words for them.
#[inline(always)]
pub(crate) fn pack<T: Copy>(width: u32, rows: &[T], code: impl Fn(T) -> u64, out: &mut [u64]) {
    out.fill(0);
    match width {
        1..=8 => pack_lanes::<u8, T>(width as usize, rows, code, out),
        9..=16 => pack_lanes::<u16, T>(width as usize, rows, code, out),
        17..=32 => pack_lanes::<u32, T>(width as usize, rows, code, out),
        _ => pack_lanes::<u64, T>(width as usize, rows, code, out),
    }
}

#[inline(always)]
fn pack_lanes<L: Lane, T: Copy>(width: usize, rows: &[T], code: impl Fn(T) -> u64, out: &mut [u64]) {
    let out = L::lanes_mut(out);
    let bits = L::BITS as usize;
    let mask = mask(width as u32);
    for (i, rows) in rows.chunks(L::COUNT).enumerate() {
        let (unit, place) = (i / bits, i % bits);
        let (vector, shift) = (unit * width + place * width / bits, place * width % bits);
        let (lo, hi) = out[vector * L::COUNT..][..2 * L::COUNT].split_at_mut(L::COUNT);
        for ((lo, hi), row) in lo.iter_mut().zip(hi).zip(rows) {
            let code = code(*row) & mask;
            // In two steps, because a shift by all bits of a word is none.
            let above = (bits - 1 - shift) as u32;
            if L::BITS <= u32::BITS {
                // Narrow arithmetic, for more of it is done at once.
                let code = code as u32;
                *lo = L::truncate(lo.widen() | u64::from(code << shift));
                *hi = L::truncate(hi.widen() | u64::from((code >> 1) >> above));
            } else {
                *lo = L::truncate(lo.widen() | code << shift);
                *hi = L::truncate(hi.widen() | (code >> 1) >> above);
            }
        }
    }
}

/// The code of one row.
///
/// # Panics
/// Where `width` is not 1 to 64, or `words` ends before the row.
#[inline]
pub fn get(width: u32, words: &[u64], row: usize) -> u64 {
    check_width(width);
    match width {
        1..=8 => get_lane::<u8>(width, words, row),
        9..=16 => get_lane::<u16>(width, words, row),
        17..=32 => get_lane::<u32>(width, words, row),
        _ => get_lane::<u64>(width, words, row),
    }
}

#[inline]
fn get_lane<L: Lane>(width: u32, words: &[u64], row: usize) -> u64 {
    let (unit, row) = (row / UNIT_ROWS, row % UNIT_ROWS);
    let (lane, bit) = (row % L::COUNT, row / L::COUNT * width as usize);
    let (vector, shift) = (unit * width as usize + bit / L::BITS as usize, bit % L::BITS as usize);
    let vectors = &L::lanes(words)[vector * L::COUNT + lane..][..=L::COUNT];
    let (lo, hi) = (vectors[0].widen(), vectors[L::COUNT].widen());
    let code = match L::BITS {
        64 => (u128::from(lo) | u128::from(hi) << 64) >> shift,
        bits => u128::from((lo | hi << bits) >> shift),
    };
    code as u64 & mask(width)
}
