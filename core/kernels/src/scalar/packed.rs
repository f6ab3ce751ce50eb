//! Loops over bit-packed codes: a register of codes at a time goes to the operations that plain arrays use. The
//! layout is described at [`crate::packed`].

use crate::{
    chunks::{CHUNK, low_bits},
    lanes::PackedLanes,
    packed::{self, Lane, Rows, UNIT_CHUNKS, UNIT_ROWS},
    scalar::{mask, min_max::Extremes, sum::BLOCK},
};

/// The operations on all lane types.
pub(crate) trait Arch:
    PackedLanes<u8> + PackedLanes<u16> + PackedLanes<u32> + PackedLanes<u64>
{
}

impl<A: PackedLanes<u8> + PackedLanes<u16> + PackedLanes<u32> + PackedLanes<u64>> Arch for A {}

/// Some rows of packed codes, from the beginning of a unit on.
#[derive(Clone, Copy)]
struct Codes<'a, L> {
    width: usize,
    lanes: &'a [L],
    rows: usize,
}

/// The codes of a chunk: the one at a place of a unit.
#[derive(Clone, Copy)]
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

    /// The codes of the unit that the `i`-th chunk lies in, as far as there are any.
    #[inline(always)]
    fn unit(self, i: usize) -> &'a [L] {
        &self.lanes[i / UNIT_CHUNKS * self.width * L::COUNT..]
    }
}

/// Evaluates a block with the number and the codes of every chunk.
///
/// A macro, because a closure would not be compiled for the instructions of the function around it.
macro_rules! for_chunks {
    ($codes:expr, |$i:ident, $chunk:ident| $block:block) => {
        let codes = $codes;
        let width = codes.width;
        let chunks = codes.rows.div_ceil(CHUNK);
        let whole = chunks / UNIT_CHUNKS * UNIT_CHUNKS;
        for first in (0..whole).step_by(UNIT_CHUNKS) {
            let unit = &codes.unit(first)[..width * L::COUNT];
            for place in 0..UNIT_CHUNKS {
                let ($i, $chunk) = (first + place, Chunk { width, unit, place });
                $block
            }
        }
        for $i in whole..chunks {
            let $chunk = Chunk { width, unit: codes.unit(whole), place: $i - whole };
            $block
        }
    };
}

impl<L: Lane> Chunk<'_, L> {
    /// The `i`-th register of codes.
    #[inline(always)]
    fn codes<A: PackedLanes<L>>(self, arch: A, i: usize) -> A::Vector {
        let row = self.place * CHUNK + i * A::COUNT;
        let (place, lane) = (row / L::COUNT, row % L::COUNT);
        let bits = L::BITS as usize;
        let (vector, shift) = (place * self.width / bits, place * self.width % bits);
        let lo = arch.load(self.unit, (vector * L::COUNT + lane) / A::COUNT);
        if shift + self.width <= bits {
            arch.extract(lo, shift as u32, self.width as u32)
        } else {
            let hi = arch.load(self.unit, ((vector + 1) * L::COUNT + lane) / A::COUNT);
            arch.extract_both(lo, hi, shift as u32, self.width as u32)
        }
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
pub(crate) fn unpack(arch: impl Arch, rows: Rows<'_>, base: i64, out: &mut [i64]) {
    with_codes!(rows, |codes| unpack_lanes(arch, codes, base, out));
}

#[inline(always)]
fn unpack_lanes<L: Lane, A: PackedLanes<L>>(arch: A, codes: Codes<'_, L>, base: i64, out: &mut [i64]) {
    for_chunks!(codes, |i, chunk| {
        let mut codes = [L::default(); CHUNK];
        for i in 0..CHUNK / A::COUNT {
            arch.store(chunk.codes(arch, i), &mut codes, i);
        }
        let out = &mut out[i * CHUNK..];
        match out.first_chunk_mut::<CHUNK>() {
            Some(out) => write(base, &codes, out),
            None => write(base, &codes, out),
        }
    });
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
    with_codes!(rows, |codes| between_lanes(arch, codes, Lane::truncate(lo), Lane::truncate(hi), out));
    mask::cut(out, rows.count);
}

#[inline(always)]
fn between_lanes<L: Lane, A: PackedLanes<L>>(arch: A, codes: Codes<'_, L>, lo: L, hi: L, out: &mut [u64]) {
    let range = arch.range(lo, hi);
    for_chunks!(codes, |i, chunk| {
        let mut word = 0;
        for i in 0..CHUNK / A::COUNT {
            word |= arch.in_range(chunk.codes(arch, i), range) << (i * A::COUNT);
        }
        out[i] = word;
    });
}

#[inline(always)]
pub(crate) fn sum(arch: impl Arch, rows: Rows<'_>) -> u128 {
    let mut total = 0;
    for rows in blocks(rows) {
        total += with_codes!(rows, |codes| sum_lanes(arch, codes, |_| u64::MAX));
    }
    total
}

#[inline(always)]
pub(crate) fn sum_masked(arch: impl Arch, rows: Rows<'_>, mask: &[u64]) -> u128 {
    let mut total = 0;
    for (rows, mask) in blocks(rows).zip(mask.chunks(BLOCK / CHUNK)) {
        total += with_codes!(rows, |codes| sum_lanes(arch, codes, |i| mask[i]));
    }
    total
}

/// The rows in parts that a sum holds.
#[inline(always)]
fn blocks(rows: Rows<'_>) -> impl Iterator<Item = Rows<'_>> {
    (0..rows.count).step_by(BLOCK).map(move |from| Rows {
        start: rows.start + from,
        count: BLOCK.min(rows.count - from),
        ..rows
    })
}

#[inline(always)]
fn sum_lanes<L: Lane, A: PackedLanes<L>>(arch: A, codes: Codes<'_, L>, mask: impl Fn(usize) -> u64) -> u128 {
    let zero = arch.splat(L::default());
    let mut sum = arch.zero();
    for_chunks!(codes, |i, chunk| {
        match mask(i) & low_bits(codes.rows - i * CHUNK) {
            0 => {}
            u64::MAX => {
                for i in 0..CHUNK / A::COUNT {
                    sum = arch.add(sum, chunk.codes(arch, i));
                }
            }
            word => {
                for i in 0..CHUNK / A::COUNT {
                    sum = arch.add(sum, arch.select(chunk.codes(arch, i), word, i, zero));
                }
            }
        }
    });
    arch.total(sum) as u128
}

#[inline(always)]
pub(crate) fn min_max(arch: impl Arch, rows: Rows<'_>) -> Option<(u64, u64)> {
    if rows.count == 0 {
        return None;
    }
    let some = packed::get(rows.width, rows.words, rows.start);
    Some(with_codes!(rows, |codes| extremes(arch, codes, Lane::truncate(some), |_| u64::MAX)))
}

#[inline(always)]
pub(crate) fn min_max_masked(arch: impl Arch, rows: Rows<'_>, mask: &[u64]) -> Option<(u64, u64)> {
    let first = mask::first(mask).filter(|&row| row < rows.count)?;
    let some = packed::get(rows.width, rows.words, rows.start + first);
    Some(with_codes!(rows, |codes| extremes(arch, codes, Lane::truncate(some), |i| mask[i])))
}

#[inline(always)]
fn extremes<L: Lane, A: PackedLanes<L>>(
    arch: A,
    codes: Codes<'_, L>,
    some: L,
    mask: impl Fn(usize) -> u64,
) -> (u64, u64) {
    let mut extremes = Extremes::new(arch, some);
    for_chunks!(codes, |i, chunk| {
        match mask(i) & low_bits(codes.rows - i * CHUNK) {
            0 => {}
            u64::MAX => {
                for i in 0..CHUNK / A::COUNT {
                    extremes.add(chunk.codes(arch, i));
                }
            }
            word => {
                for i in 0..CHUNK / A::COUNT {
                    extremes.add_selected(chunk.codes(arch, i), word, i);
                }
            }
        }
    });
    let (min, max) = extremes.finish();
    (min.widen(), max.widen())
}
