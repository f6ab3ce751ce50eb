//! Loops over bit-packed codes: 64 codes at a time are unpacked and handed to the operations that plain arrays
//! use. The layout is described at [`crate::packed`].

use crate::{
    chunks::{CHUNK, Chunks, low_bits},
    packed::{Lane, Rows, UNIT_CHUNKS, UNIT_ROWS},
    scalar::{
        mask,
        min_max::{Extremes, with_lanes},
        sum::{self, Accumulator},
    },
};

/// The operations on a chunk in all lane types.
pub(crate) trait Arch: Chunks<u8> + Chunks<u16> + Chunks<u32> + Chunks<u64> {}

impl<A: Chunks<u8> + Chunks<u16> + Chunks<u32> + Chunks<u64>> Arch for A {}

/// Some rows of packed codes, from the beginning of a unit on.
#[derive(Clone, Copy)]
struct Codes<'a, L> {
    width: usize,
    lanes: &'a [L],
    rows: usize,
}

/// A chunk of codes that is not yet unpacked.
struct Chunk<'a, L> {
    width: usize,
    unit: &'a [L],
    place: usize,
}

impl<'a, L: Lane> Codes<'a, L> {
    #[inline(always)]
    fn new(width: usize, rows: Rows<'a>) -> Self {
        let lanes = &L::lanes(rows.words)[rows.start / UNIT_ROWS * width * L::COUNT..];
        Self { width, lanes, rows: rows.count }
    }

    /// Calls `f` with the place and the codes of every chunk.
    #[inline(always)]
    fn for_chunks(self, mut f: impl FnMut(usize, Chunk<'_, L>)) {
        let Self { width, lanes, rows } = self;
        let chunks = rows.div_ceil(CHUNK);
        let units = chunks / UNIT_CHUNKS;
        for unit in 0..units {
            let lanes = &lanes[unit * width * L::COUNT..][..(width + 1) * L::COUNT];
            for place in 0..UNIT_CHUNKS {
                f(unit * UNIT_CHUNKS + place, Chunk { width, unit: lanes, place });
            }
        }
        let lanes = &lanes[units * width * L::COUNT..];
        for place in 0..chunks % UNIT_CHUNKS {
            f(units * UNIT_CHUNKS + place, Chunk { width, unit: lanes, place });
        }
    }

    /// Calls `f` with every chunk of which `mask` selects a row, and its mask word cut to the rows there are.
    #[inline(always)]
    fn for_masked(self, mask: impl Fn(usize) -> u64, mut f: impl FnMut(Chunk<'_, L>, u64)) {
        self.for_chunks(|i, chunk| match mask(i) & low_bits(self.rows - i * CHUNK) {
            0 => {}
            word => f(chunk, word),
        });
    }
}

impl<L: Lane> Chunk<'_, L> {
    /// The 64 codes.
    #[inline(always)]
    fn unpack(self) -> [L; CHUNK] {
        let mask = L::truncate(u64::MAX >> (u64::BITS as usize - self.width));
        let mut codes = [L::default(); CHUNK];
        for (i, vector) in codes.chunks_exact_mut(L::COUNT).enumerate() {
            let bit = (self.place * (CHUNK / L::COUNT) + i) * self.width;
            let (k, shift) = (bit / L::BITS, (bit % L::BITS) as u32);
            let (lo, hi) = self.unit[k * L::COUNT..][..2 * L::COUNT].split_at(L::COUNT);
            for ((code, &lo), &hi) in vector.iter_mut().zip(lo).zip(hi) {
                *code = L::extract(lo, hi, shift, mask);
            }
        }
        codes
    }
}

/// Evaluates an expression with the rows as [`Codes`] of the width's lane type. Up to 16 bits every width has
/// its own code, so that shifts are constants; wider codes are bound by memory.
macro_rules! with_codes {
    ($rows:expr, |$codes:ident| $body:expr) => {
        with_codes!(@ $rows, $codes, $body, u8: 1 2 3 4 5 6 7 8, u16: 9 10 11 12 13 14 15 16)
    };
    (@ $rows:expr, $codes:ident, $body:expr, $($lane:ident: $($width:literal)*),*) => {
        match $rows.width {
            $($($width => {
                let $codes = Codes::<$lane>::new($width, $rows);
                $body
            })*)*
            width @ 17..=32 => {
                let $codes = Codes::<u32>::new(width as usize, $rows);
                $body
            }
            width => {
                let $codes = Codes::<u64>::new(width as usize, $rows);
                $body
            }
        }
    };
}

#[inline(always)]
pub(crate) fn unpack(_arch: impl Arch, rows: Rows<'_>, base: i64, out: &mut [i64]) {
    with_codes!(rows, |codes| codes.for_chunks(|i, chunk| {
        let codes = chunk.unpack();
        let out = &mut out[i * CHUNK..];
        match out.first_chunk_mut::<CHUNK>() {
            Some(out) => write(base, &codes, out),
            None => write(base, &codes, out),
        }
    }));
}

#[inline(always)]
fn write<L: Lane>(base: i64, codes: &[L; CHUNK], out: &mut [i64]) {
    for (out, code) in out.iter_mut().zip(codes) {
        *out = base.wrapping_add(code.widen() as i64);
    }
}

#[inline(always)]
pub(crate) fn between(arch: impl Arch, rows: Rows<'_>, lo: u64, hi: u64, out: &mut [u64]) {
    let greatest = u64::MAX >> (u64::BITS - rows.width);
    if lo > hi || lo > greatest {
        return out.fill(0);
    }
    let hi = hi.min(greatest);
    with_codes!(rows, |codes| {
        let (lo, hi) = (Lane::truncate(lo), Lane::truncate(hi));
        codes.for_chunks(|i, chunk| out[i] = arch.in_range(&chunk.unpack(), lo, hi));
    });
    mask::cut(out, rows.count);
}

#[inline(always)]
pub(crate) fn sum(arch: impl Arch, rows: Rows<'_>) -> u128 {
    blocks(rows).map(|rows| with_codes!(rows, |codes| sum_lanes(arch, codes, |_| u64::MAX))).sum()
}

#[inline(always)]
pub(crate) fn sum_masked(arch: impl Arch, rows: Rows<'_>, mask: &[u64]) -> u128 {
    blocks(rows)
        .zip(mask.chunks(sum::BLOCK / CHUNK))
        .map(|(rows, mask)| with_codes!(rows, |codes| sum_lanes(arch, codes, |i| mask[i])))
        .sum()
}

/// The rows in parts that an accumulator holds.
#[inline(always)]
fn blocks(rows: Rows<'_>) -> impl Iterator<Item = Rows<'_>> {
    (0..rows.count).step_by(sum::BLOCK).map(move |from| Rows {
        start: rows.start + from,
        count: sum::BLOCK.min(rows.count - from),
        ..rows
    })
}

#[inline(always)]
fn sum_lanes<L: Lane>(arch: impl Chunks<L>, codes: Codes<'_, L>, mask: impl Fn(usize) -> u64) -> u128 {
    let mut sum = L::Sum::default();
    codes.for_masked(mask, |chunk, word| match word {
        u64::MAX => sum.add(&chunk.unpack()),
        _ => sum.add(&arch.select(&chunk.unpack(), word, L::default())),
    });
    sum.total() as u128
}

#[inline(always)]
pub(crate) fn min_max(arch: impl Arch, rows: Rows<'_>) -> Option<(u64, u64)> {
    with_codes!(rows, |codes| extremes_lanes(arch, codes, |_| u64::MAX))
}

#[inline(always)]
pub(crate) fn min_max_masked(arch: impl Arch, rows: Rows<'_>, mask: &[u64]) -> Option<(u64, u64)> {
    with_codes!(rows, |codes| extremes_lanes(arch, codes, |i| mask[i]))
}

#[inline(always)]
fn extremes_lanes<L: Lane>(
    arch: impl Chunks<L>,
    codes: Codes<'_, L>,
    mask: impl Fn(usize) -> u64,
) -> Option<(u64, u64)> {
    with_lanes!(L, extremes(arch, codes, mask))
}

#[inline(always)]
fn extremes<L: Lane, A: Chunks<L>, const N: usize>(
    arch: A,
    codes: Codes<'_, L>,
    mask: impl Fn(usize) -> u64,
) -> Option<(u64, u64)> {
    let mut extremes = Extremes::<L, N>::new();
    let mut any = false;
    codes.for_masked(mask, |chunk, word| {
        any = true;
        let codes = chunk.unpack();
        match word {
            u64::MAX => extremes.add(&codes),
            _ => extremes.add(&arch.select(&codes, word, codes[word.trailing_zeros() as usize])),
        }
    });
    let (min, max) = extremes.finish();
    any.then(|| (min.widen(), max.widen()))
}
