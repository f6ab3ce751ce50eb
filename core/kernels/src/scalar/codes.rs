//! Packed codes, written, and read one by one.

use crate::{
    forms::packed::{UNIT_ROWS, check_width, words},
    lanes::Lane,
};

fn mask(width: u32) -> u64 {
    u64::MAX >> (u64::BITS - width)
}

/// Packs codes; bits of a code above `width` are dropped.
///
/// # Panics
/// Where `width` is not 1 to 64, or `out` has not exactly [`words`]`(width, codes.len())` words.
pub fn pack(width: u32, codes: &[u64], out: &mut [u64]) {
    assert_eq!(out.len(), words(width, codes.len()), "words for {} codes of {width} bits", codes.len());
    out.fill(0);
    match width {
        1..=8 => pack_lanes::<u8>(width as usize, codes, out),
        9..=16 => pack_lanes::<u16>(width as usize, codes, out),
        17..=32 => pack_lanes::<u32>(width as usize, codes, out),
        _ => pack_lanes::<u64>(width as usize, codes, out),
    }
}

fn pack_lanes<L: Lane>(width: usize, codes: &[u64], out: &mut [u64]) {
    let out = L::lanes_mut(out);
    let bits = L::BITS as usize;
    for (i, codes) in codes.chunks(L::COUNT).enumerate() {
        let (unit, place) = (i / bits, i % bits);
        let (vector, shift) = (unit * width + place * width / bits, place * width % bits);
        let (lo, hi) = out[vector * L::COUNT..][..2 * L::COUNT].split_at_mut(L::COUNT);
        for ((lo, hi), code) in lo.iter_mut().zip(hi).zip(codes) {
            let code = code & mask(width as u32);
            *lo = L::truncate(lo.widen() | code << shift);
            // In two steps, because a shift by all bits of a word is none.
            *hi = L::truncate(hi.widen() | (code >> 1) >> (bits - 1 - shift));
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
