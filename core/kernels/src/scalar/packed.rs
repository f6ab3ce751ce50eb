//! Loops over bit-packed codes: a register of codes at a time goes to the operations that plain arrays use. The
//! layout is described at [`crate::packed`].

use crate::{
    FloatSum,
    chunks::{Aligned, CHUNK, low_bits},
    forms::{
        decimals::Decimals,
        packed::{Patch, Rows, UNIT_CHUNKS, UNIT_ROWS},
    },
    lanes::{FloatLanes, Lane, Lanes, PackedLanes},
    scalar::{
        codes, mask,
        min_max::Extremes,
        sum::{self, BLOCK},
    },
};

/// The operations on all lane types.
pub(crate) trait Arch:
    PackedLanes<u8> + PackedLanes<u16> + PackedLanes<u32> + PackedLanes<u64>
{
    /// Whether widths have code of their own.
    #[inline(always)]
    fn by_width(self) -> bool {
        <Self as Lanes<u8>>::COUNT >= 32
    }
}

impl<A: PackedLanes<u8> + PackedLanes<u16> + PackedLanes<u32> + PackedLanes<u64>> Arch for A {}

/// Some rows of packed codes, from the beginning of a unit on.
#[derive(Clone, Copy)]
struct Codes<'a, L> {
    width: usize,
    lanes: &'a [L],
    rows: usize,
}

/// The codes of a unit's chunk.
#[derive(Clone, Copy)]
struct Chunk<'a, L> {
    width: usize,
    unit: &'a [L],
    number: usize,
}

/// The codes at one place of all lanes.
struct Place<'a, L> {
    lo: &'a [L],
    hi: &'a [L],
    shift: u32,
    width: u32,
}

impl<'a, L: Lane> Codes<'a, L> {
    #[inline(always)]
    fn new(width: usize, rows: Rows<'a>) -> Self {
        let lanes = &L::lanes(rows.words)[rows.start / UNIT_ROWS * width * L::COUNT..];
        Self { width, lanes, rows: rows.count }
    }

    /// Which rows of the `i`-th chunk a mask selects.
    #[inline(always)]
    fn selected(self, mask: Option<&[u64]>, i: usize) -> u64 {
        mask.map_or(u64::MAX, |mask| mask[i]) & low_bits(self.rows - i * CHUNK)
    }

    /// Whether the mask selects no row of the whole unit that the `first`-th chunk begins.
    #[inline(always)]
    fn skips(self, mask: Option<&[u64]>, first: usize) -> bool {
        mask.is_some_and(|mask| mask[first..][..UNIT_CHUNKS].iter().fold(0, |union, word| union | word) == 0)
    }

    /// The code of a row.
    #[inline(always)]
    fn get(self, row: usize) -> u64 {
        let (unit, row) = (row / UNIT_ROWS, row % UNIT_ROWS);
        let (lane, bit) = (row % L::COUNT, row / L::COUNT * self.width);
        let (vector, shift) = (unit * self.width + bit / L::BITS as usize, bit as u32 % L::BITS);
        let vectors = &self.lanes[vector * L::COUNT + lane..][..=L::COUNT];
        // The next vector is another cache line: where the code ends in this one, that stays unread.
        let next = if shift + self.width as u32 > L::BITS { L::COUNT } else { 0 };
        let (lo, hi) = (vectors[0].widen(), vectors[next].widen());
        // In two steps, because a shift by all bits of a word is none.
        (lo >> shift | (hi << 1) << (L::BITS - 1 - shift)) & u64::MAX >> (u64::BITS - self.width as u32)
    }

    /// The codes from the unit on that the `i`-th chunk lies in.
    #[inline(always)]
    fn unit(self, i: usize) -> &'a [L] {
        &self.lanes[i / UNIT_CHUNKS * self.width * L::COUNT..]
    }
}

/// Evaluates a block with the number and the codes of every chunk; of those of whole units only where the mask,
/// if there is one, selects a row of the unit.
///
/// A macro, because a closure would not be compiled for the instructions of the function around it.
macro_rules! for_chunks {
    ($codes:expr, |$i:ident, $chunk:ident| $block:block) => {
        for_chunks!($codes, None, |$i, $chunk| $block)
    };
    ($codes:expr, $mask:expr, |$i:ident, $chunk:ident| $block:block) => {
        let codes = $codes;
        let width = codes.width;
        let chunks = codes.rows.div_ceil(CHUNK);
        let whole = chunks / UNIT_CHUNKS * UNIT_CHUNKS;
        for first in (0..whole).step_by(UNIT_CHUNKS) {
            if codes.skips($mask, first) {
                continue;
            }
            // With the vector behind the unit, which is there and may be loaded.
            let unit = &codes.unit(first)[..(width + 1) * L::COUNT];
            for number in 0..UNIT_CHUNKS {
                let ($i, $chunk) = (first + number, Chunk { width, unit, number });
                $block
            }
        }
        for $i in whole..chunks {
            let $chunk = Chunk { width, unit: codes.unit(whole), number: $i - whole };
            $block
        }
    };
}

impl<'a, L: Lane> Chunk<'a, L> {
    /// Places of a chunk.
    const PLACES: usize = CHUNK / L::COUNT;

    #[inline(always)]
    fn place(self, i: usize) -> Place<'a, L> {
        let bit = (self.number * Self::PLACES + i) * self.width;
        let (vector, shift) = (bit / L::BITS as usize, bit % L::BITS as usize);
        let (lo, hi) = self.unit[vector * L::COUNT..][..2 * L::COUNT].split_at(L::COUNT);
        Place { lo, hi, shift: shift as u32, width: self.width as u32 }
    }
}

impl<L: Lane> Place<'_, L> {
    /// The `i`-th register of codes.
    #[inline(always)]
    fn codes<A: PackedLanes<L>>(&self, arch: A, i: usize) -> A::Vector {
        let lo = arch.load(self.lo, i);
        if self.shift + self.width <= L::BITS {
            arch.extract(lo, self.shift, self.width)
        } else {
            arch.extract_both(lo, arch.load(self.hi, i), self.shift, self.width)
        }
    }
}

/// Evaluates a block with the number and the codes of every register of a chunk.
macro_rules! for_codes {
    ($arch:ident: $arch_type:ident, $chunk:expr, |$i:ident, $codes:ident| $block:block) => {
        let registers = L::COUNT / <$arch_type as Lanes<L>>::COUNT;
        for place in 0..CHUNK / L::COUNT {
            let codes = $chunk.place(place);
            for register in 0..registers {
                let ($i, $codes) = (place * registers + register, codes.codes($arch, register));
                $block
            }
        }
    };
}

/// Evaluates an expression with the rows as [`Codes`] of the width's lane type.
///
/// Where registers have many lanes, every width up to 16 bits (`wide`: up to 24) has code of its own, in which shifts
/// are constants: computing them would take longer than the codes do. Wider codes are bound by memory.
macro_rules! with_codes {
    ($arch:ident, $rows:expr, |$codes:ident| $body:expr) => {
        with_codes!(@ $arch, $rows, $codes, $body, u8: 1 2 3 4 5 6 7 8, u16: 9 10 11 12 13 14 15 16)
    };
    (wide $arch:ident, $rows:expr, |$codes:ident| $body:expr) => {
        with_codes!(
            @ $arch, $rows, $codes, $body,
            u8: 1 2 3 4 5 6 7 8, u16: 9 10 11 12 13 14 15 16, u32: 17 18 19 20 21 22 23 24
        )
    };
    (@ $arch:ident, $rows:expr, $codes:ident, $body:expr, $($lane:ident: $($width:literal)*),*) => {
        match ($rows.width, $arch.by_width()) {
            $($(($width, true) => {
                let $codes = Codes::<$lane>::new($width, $rows);
                $body
            })*)*
            (width @ 1..=8, false) => {
                let $codes = Codes::<u8>::new(width as usize, $rows);
                $body
            }
            (width @ 9..=16, false) => {
                let $codes = Codes::<u16>::new(width as usize, $rows);
                $body
            }
            (width @ 17..=32, _) => {
                let $codes = Codes::<u32>::new(width as usize, $rows);
                $body
            }
            (width, _) => {
                let $codes = Codes::<u64>::new(width as usize, $rows);
                $body
            }
        }
    };
}

#[inline(always)]
pub(crate) fn unpack(arch: impl Arch, rows: Rows<'_>, base: i64, out: &mut [i64]) {
    with_codes!(arch, rows, |codes| unpack_lanes(arch, codes, base, out));
}

#[inline(always)]
fn unpack_lanes<L: Lane, A: PackedLanes<L>>(arch: A, codes: Codes<'_, L>, base: i64, out: &mut [i64]) {
    for_chunks!(codes, |i, chunk| {
        let mut codes = Aligned([L::default(); CHUNK]);
        for_codes!(arch: A, chunk, |i, register| { arch.store(register, &mut *codes, i) });
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
    with_codes!(wide arch, rows, |codes| between_lanes(arch, codes, Lane::truncate(lo), Lane::truncate(hi), out));
    mask::cut(out, rows.count);
}

#[inline(always)]
fn between_lanes<L: Lane, A: PackedLanes<L>>(arch: A, codes: Codes<'_, L>, lo: L, hi: L, out: &mut [u64]) {
    let range = arch.range(lo, hi);
    for_chunks!(codes, |i, chunk| {
        let mut word = 0;
        for_codes!(arch: A, chunk, |i, codes| { word |= arch.in_range(codes, range) << (i * A::COUNT) });
        out[i] = word;
    });
}

/// What says which of a register's codes are in a set.
#[cfg(target_arch = "x86_64")]
pub(crate) trait Probe<L, V>: Copy {
    /// Codes of `width` bits, the first in the lowest bit.
    fn probe(self, codes: V, width: u32) -> u64;
}

/// Which codes a probe finds.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn probe<A, P>(arch: A, rows: Rows<'_>, probe: P, out: &mut [u64])
where
    A: Arch,
    P: Probe<u8, <A as Lanes<u8>>::Vector>
        + Probe<u16, <A as Lanes<u16>>::Vector>
        + Probe<u32, <A as Lanes<u32>>::Vector>
        + Probe<u64, <A as Lanes<u64>>::Vector>,
{
    with_codes!(arch, rows, |codes| probe_lanes(arch, codes, probe, out));
    mask::cut(out, rows.count);
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn probe_lanes<L: Lane, A: PackedLanes<L>, P: Probe<L, A::Vector>>(
    arch: A,
    codes: Codes<'_, L>,
    probe: P,
    out: &mut [u64],
) {
    let width = codes.width as u32;
    for_chunks!(codes, |i, chunk| {
        let mut word = 0;
        for_codes!(arch: A, chunk, |i, codes| { word |= probe.probe(codes, width) << (i * A::COUNT) });
        out[i] = word;
    });
}

/// Which codes are in a set, looked up one by one: it has a bit for every code of the width.
#[inline(always)]
pub(crate) fn in_set(arch: impl Arch, rows: Rows<'_>, set: &[u64], out: &mut [u64]) {
    with_codes!(wide arch, rows, |codes| in_set_lanes(arch, codes, set, out));
    mask::cut(out, rows.count);
}

#[inline(always)]
fn in_set_lanes<L: Lane, A: PackedLanes<L>>(arch: A, codes: Codes<'_, L>, set: &[u64], out: &mut [u64]) {
    for_chunks!(codes, |i, chunk| {
        let mut codes = Aligned([L::default(); CHUNK]);
        for_codes!(arch: A, chunk, |i, register| { arch.store(register, &mut *codes, i) });
        let bit = |code: L| set[(code.widen() / 64) as usize] >> (code.widen() % 64) & 1;
        out[i] = codes.iter().enumerate().fold(0, |word, (row, code)| word | bit(*code) << row);
    });
}

/// The keys of the rows at some places.
#[inline(always)]
pub(crate) fn gather(arch: impl Arch, rows: Rows<'_>, places: &[u16], base: i64, out: &mut [i64]) {
    with_codes!(wide arch, rows, |codes| gather_lanes(codes, places, base, out));
}

#[inline(always)]
fn gather_lanes<L: Lane>(codes: Codes<'_, L>, places: &[u16], base: i64, out: &mut [i64]) {
    for (out, place) in out.iter_mut().zip(places) {
        *out = base.wrapping_add(codes.get(usize::from(*place)) as i64);
    }
}

/// The sum of the codes that the mask selects; of all where there is none.
///
/// With a mask, every chunk goes the same way, whatever its word: codes are added up before a processor would know
/// that it guessed wrong.
#[inline(always)]
pub(crate) fn sum(arch: impl Arch, rows: Rows<'_>, mask: Option<&[u64]>) -> u128 {
    let mut total = 0;
    for part in blocks(rows) {
        let first = (part.start - rows.start) / CHUNK;
        // Code of its own for each.
        total += match mask {
            Some(mask) => with_codes!(arch, part, |codes| sum_lanes(arch, codes, Some(&mask[first..]))),
            None => with_codes!(arch, part, |codes| sum_lanes(arch, codes, None)),
        };
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
fn sum_lanes<L: Lane, A: PackedLanes<L>>(arch: A, codes: Codes<'_, L>, mask: Option<&[u64]>) -> u128 {
    let zero = arch.splat(L::default());
    let mut sum = arch.zero();
    for_chunks!(codes, mask, |i, chunk| {
        match codes.selected(mask, i) {
            u64::MAX if mask.is_none() => {
                for_codes!(arch: A, chunk, |_i, codes| { sum = arch.add(sum, codes) });
            }
            word => {
                for_codes!(arch: A, chunk, |i, codes| {
                    sum = arch.add(sum, arch.select(codes, word, i, zero))
                });
            }
        }
    });
    arch.total(sum) as u128
}

/// Adds the floats that the codes stand for which the mask selects; all where there is none.
#[inline(always)]
pub(crate) fn sum_decimals(
    arch: impl Arch + FloatLanes<f64>,
    rows: Rows<'_>,
    decimals: Decimals,
    mask: Option<&[u64]>,
    patches: &[Patch],
    acc: &mut FloatSum,
) {
    with_codes!(wide arch, rows, |codes| sum_decimals_lanes(arch, codes, decimals, mask, patches, acc));
}

#[inline(always)]
fn sum_decimals_lanes<L: Lane, A: PackedLanes<L> + FloatLanes<f64>>(
    arch: A,
    codes: Codes<'_, L>,
    decimals: Decimals,
    mask: Option<&[u64]>,
    mut patches: &[Patch],
    acc: &mut FloatSum,
) {
    let mut total = arch.eight(acc.lanes);
    for_chunks!(codes, mask, |i, chunk| {
        let word = codes.selected(mask, i);
        if word != 0 {
            let mut codes = Aligned([L::default(); CHUNK]);
            for_codes!(arch: A, chunk, |i, register| { arch.store(register, &mut *codes, i) });
            let mut floats = Aligned([0.0; CHUNK]);
            for (float, code) in floats.iter_mut().zip(&*codes) {
                *float = decimals.float(code.widen());
            }
            while let Some((patch, rest)) = patches.split_first()
                && patch.row < (i + 1) * CHUNK
            {
                // Those of chunks without rows are passed by.
                if let Some(float) = patch.row.checked_sub(i * CHUNK).and_then(|row| floats.get_mut(row)) {
                    *float = patch.float;
                }
                patches = rest;
            }
            total = arch.add_eight(total, sum::add_selected(arch, &floats, word));
        }
    });
    acc.lanes = arch.lanes(total);
}

/// The extremes of the codes that the mask selects; of all where there is none.
#[inline(always)]
pub(crate) fn min_max(arch: impl Arch, rows: Rows<'_>, mask: Option<&[u64]>) -> Option<(u64, u64)> {
    let first = mask.map_or(Some(0), mask::first).filter(|&row| row < rows.count)?;
    let some = codes::get(rows.width, rows.words, rows.start + first);
    Some(match mask {
        Some(_) => with_codes!(arch, rows, |codes| extremes(arch, codes, Lane::truncate(some), mask)),
        None => with_codes!(arch, rows, |codes| extremes(arch, codes, Lane::truncate(some), None)),
    })
}

#[inline(always)]
fn extremes<L: Lane, A: PackedLanes<L>>(
    arch: A,
    codes: Codes<'_, L>,
    some: L,
    mask: Option<&[u64]>,
) -> (u64, u64) {
    let mut extremes = Extremes::new(arch, some);
    for_chunks!(codes, mask, |i, chunk| {
        match codes.selected(mask, i) {
            u64::MAX if mask.is_none() => {
                for_codes!(arch: A, chunk, |_i, codes| { extremes.add(codes, 0) });
            }
            word => {
                for_codes!(arch: A, chunk, |i, codes| { extremes.add_selected(codes, word, i, 0) });
            }
        }
    });
    let (min, max) = extremes.finish();
    (min.widen(), max.widen())
}
