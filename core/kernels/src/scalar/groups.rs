//! Aggregates by group.
//!
//! A row that adds to the place that the row before added to waits for it. So the sums and counts of not too many
//! groups are of tables of which four rows take turns, and those of few groups stay in registers.

use crate::{
    chunks::{Aligned, Bits, CHUNK, low_bits, pad},
    lanes::{FloatLanes, GroupLanes, Lanes},
    native::GroupCode,
    scalar::min_max,
};

/// Rows whose codes and values are looked at before they are added: they stay in the nearest cache.
const SEGMENT: usize = 2048;

/// Rows that take turns.
const TURNS: usize = 4;

/// Groups of which there are so many tables, at most.
const SMALL: usize = 1024;

/// Groups whose sums may stay in registers, at most.
const FEW: usize = 8;

/// Floats of a register.
const LANES: usize = 8;

/// Groups that are counted by comparison, at most.
const COUNTED: usize = 32;

/// Words of more bits go through all rows of a chunk, where others are 0.
const DENSE: u32 = 32;

/// Some rows: their codes, and the words of a mask if there is one.
#[derive(Clone, Copy)]
struct Rows<'a, C> {
    codes: &'a [C],
    mask: Option<&'a [u64]>,
}

/// How the rows of a chunk are gone through.
enum Way {
    /// All of them.
    All,
    /// Those that a word selects, one by one.
    Each(u64),
    /// All of them, where those that a word does not select change nothing.
    Masked(u64),
}

impl<'a, C: GroupCode> Rows<'a, C> {
    /// The `i`-th of parts of `rows` rows, a multiple of chunks.
    #[inline(always)]
    fn part(self, i: usize, rows: usize) -> Self {
        let from = i * rows;
        let codes = &self.codes[from..self.codes.len().min(from + rows)];
        let words = from / CHUNK..from / CHUNK + codes.len().div_ceil(CHUNK);
        Self { codes, mask: self.mask.map(|mask| &mask[words]) }
    }

    /// Which rows of the `i`-th chunk are selected.
    #[inline(always)]
    fn selected(self, i: usize) -> u64 {
        self.mask.map_or(u64::MAX, |mask| mask[i]) & low_bits(self.codes.len() - i * CHUNK)
    }

    /// Whether all codes, also those of rows that are left out, are of groups.
    #[inline(always)]
    fn are_below(self, arch: impl Lanes<C>, groups: usize) -> bool {
        self.mask.is_none() || are_below(arch, self.codes, groups)
    }

    #[inline(always)]
    fn way(self, i: usize, below: bool) -> Way {
        match self.selected(i) {
            u64::MAX => Way::All,
            word if below && word.count_ones() > DENSE && (i + 1) * CHUNK <= self.codes.len() => {
                Way::Masked(word)
            }
            word => Way::Each(word),
        }
    }
}

/// Whether all codes are of groups.
#[inline(always)]
fn are_below<C: GroupCode>(arch: impl Lanes<C>, codes: &[C], groups: usize) -> bool {
    min_max::min_max(arch, codes).is_none_or(|(_, greatest)| greatest.index() < groups)
}

/// Evaluates one of three blocks with every chunk: with its number, if all rows are selected; with its number and the
/// word that tells which are, if those that are not may be gone through, too; or with the place of each selected row.
///
/// A macro, because closures would not be compiled for the instructions of the function around them.
macro_rules! for_chunks {
    ($rows:expr, $below:expr, |$all:ident| $block:expr, |$some:ident, $word:ident| $masked:expr, |$row:ident| $one:expr) => {
        let below = $below;
        for i in 0..$rows.codes.len().div_ceil(CHUNK) {
            match $rows.way(i, below) {
                Way::All => {
                    let $all = i;
                    $block;
                }
                Way::Masked($word) => {
                    let $some = i;
                    $masked;
                }
                Way::Each(word) => {
                    for bit in Bits(word) {
                        let $row = i * CHUNK + bit;
                        $one;
                    }
                }
            }
        }
    };
}

/// Evaluates a block with the place of every selected row.
macro_rules! for_rows {
    ($rows:expr, |$row:ident| $one:expr) => {
        for_chunks!(
            $rows,
            false,
            |i| {
                for $row in i * CHUNK..(i + 1) * CHUNK {
                    $one;
                }
            },
            |_i, _word| {},
            |$row| $one
        );
    };
}

/// The values of a chunk that a word selects, and `none` in place of the others.
#[inline(always)]
fn selected<T: Copy, A: Lanes<T>>(arch: A, values: &[T; CHUNK], word: u64, none: T) -> Aligned<[T; CHUNK]> {
    let mut out = Aligned([none; CHUNK]);
    let none = arch.splat(none);
    for i in 0..CHUNK / A::COUNT {
        arch.store(arch.select(arch.load(values, i), word, i, none), &mut *out, i);
    }
    out
}

/// Which rows of a chunk have a code.
#[inline(always)]
fn equal<C: GroupCode, A: Lanes<C>>(arch: A, codes: &[C; CHUNK], code: usize) -> u64 {
    let (code, mut word) = (arch.splat(C::of(code)), 0);
    for i in 0..CHUNK / A::COUNT {
        word |= arch.equal(arch.load(codes, i), code) << (i * A::COUNT);
    }
    word
}

/// Appends a digit to the number of each row's group.
#[inline(always)]
pub(crate) fn digits<C: GroupCode>(keys: &[i64], low: i64, span: i64, codes: &mut [C]) {
    for (code, key) in codes.iter_mut().zip(keys) {
        *code = code.shifted(span, key.wrapping_sub(low));
    }
}

#[inline(always)]
pub(crate) fn count<C: GroupCode, A: GroupLanes + Lanes<C>>(
    arch: A,
    codes: &[C],
    mask: Option<&[u64]>,
    out: &mut [u64],
) {
    let rows = Rows { codes, mask };
    let groups = out.len();
    if A::FEW > 0 && groups * (CHUNK / <A as Lanes<C>>::COUNT) <= COUNTED {
        return count_few(arch, rows, out);
    }
    if groups > SMALL || codes.len() < TURNS * groups {
        for_rows!(rows, |row| { out[codes[row].index()] += 1 });
        return;
    }
    let mut counts = Tables::<TURNS>::new(groups);
    let tables = &mut counts.each();
    let (chunks, _) = codes.as_chunks();
    for_chunks!(
        rows,
        rows.are_below(arch, groups),
        |i| turns(&chunks[i], tables, |_| 1),
        |i, word| turns(&chunks[i], tables, |row| (word >> row & 1).cast_signed()),
        |row| tables[row % TURNS][codes[row].index()] += 1
    );
    for (out, total) in out.iter_mut().zip(counts.totals()) {
        *out += total as u64;
    }
}

/// Counts groups by comparing all codes with each.
#[inline(always)]
fn count_few<C: GroupCode, A: Lanes<C>>(arch: A, rows: Rows<'_, C>, out: &mut [u64]) {
    let (chunks, tail) = rows.codes.as_chunks::<CHUNK>();
    let last = pad(tail, C::default());
    for (i, codes) in chunks.iter().chain((!tail.is_empty()).then_some(&last.0)).enumerate() {
        let word = rows.selected(i);
        let mut left = word;
        for (group, count) in out.iter_mut().enumerate() {
            let equal = equal(arch, codes, group) & word;
            *count += u64::from(equal.count_ones());
            left ^= equal;
        }
        check_left(left, codes, out.len());
    }
}

/// Panics where a row is left that has none of the groups.
#[inline(always)]
fn check_left<C: GroupCode>(left: u64, codes: &[C; CHUNK], groups: usize) {
    assert!(left == 0, "group {} of {groups}", codes[left.trailing_zeros() as usize % CHUNK].index());
}

#[inline(always)]
pub(crate) fn sum<C: GroupCode, A: GroupLanes + Lanes<C>>(
    arch: A,
    codes: &[C],
    values: &[i64],
    mask: Option<&[u64]>,
    out: &mut [i128],
) {
    let rows = Rows { codes, mask };
    match out.len() {
        groups if groups <= A::FEW => sum_in::<C, A, Registers<A>>(arch, rows, values, out),
        groups if codes.len() >= TURNS * groups && groups <= SMALL => {
            sum_in::<C, A, Tables<TURNS>>(arch, rows, values, out);
        }
        groups if codes.len() >= groups => sum_in::<C, A, Tables<1>>(arch, rows, values, out),
        _ => sum_each(rows, values, out),
    }
}

/// Adds values one by one.
#[inline(always)]
fn sum_each<C: GroupCode>(rows: Rows<'_, C>, values: &[i64], out: &mut [i128]) {
    for_rows!(rows, |row| { out[rows.codes[row].index()] += i128::from(values[row]) });
}

/// Sums of groups that a word holds.
trait Narrow<C, A> {
    fn new(arch: A, groups: usize) -> Self;

    fn add(&mut self, arch: A, rows: Rows<'_, C>, values: &[i64]);

    /// Adds the sums to others, and starts again.
    fn empty(&mut self, arch: A, out: &mut [i128]);
}

/// Sums values in words where they fit.
#[inline(always)]
fn sum_in<C: GroupCode, A: GroupLanes + Lanes<C>, S: Narrow<C, A>>(
    arch: A,
    rows: Rows<'_, C>,
    values: &[i64],
    out: &mut [i128],
) {
    let mut sums = S::new(arch, out.len());
    // What no sum is above.
    let mut most = 0;
    for (i, values) in values.chunks(SEGMENT).enumerate() {
        let rows = rows.part(i, SEGMENT);
        let greatest = values.iter().fold(0, |bits, &value| bits | (value ^ value >> 63).cast_unsigned());
        let more = (i128::from(greatest) + 1) * values.len() as i128;
        if most + more > i128::from(i64::MAX) {
            sums.empty(arch, out);
            most = 0;
        }
        if more > i128::from(i64::MAX) {
            sum_each(rows, values, out);
        } else {
            most += more;
            sums.add(arch, rows, values);
        }
    }
    sums.empty(arch, out);
}

/// Tables of sums, one behind the other, of which rows take turns.
struct Tables<const N: usize> {
    sums: Vec<i64>,
    groups: usize,
}

impl<const N: usize> Tables<N> {
    #[inline(always)]
    fn new(groups: usize) -> Self {
        Self { sums: vec![0; N * groups], groups }
    }

    #[inline(always)]
    fn each(&mut self) -> [&mut [i64]; N] {
        let mut tables = self.sums.chunks_exact_mut(self.groups.max(1));
        // All of one length, so that a code is compared with one number.
        std::array::from_fn(|_| &mut tables.next().unwrap_or_default()[..self.groups])
    }

    /// Adds up the tables of each group.
    #[inline(always)]
    fn totals(&self) -> impl Iterator<Item = i128> {
        let Self { sums, groups } = self;
        (0..*groups).map(move |group| (0..N).map(|turn| i128::from(sums[turn * groups + group])).sum())
    }
}

/// Adds a value of each row of a chunk to the tables.
#[inline(always)]
fn turns<C: GroupCode, const N: usize>(
    codes: &[C; CHUNK],
    tables: &mut [&mut [i64]; N],
    value: impl Fn(usize) -> i64,
) {
    for first in (0..CHUNK).step_by(N) {
        for (turn, table) in tables.iter_mut().enumerate() {
            table[codes[first + turn].index()] += value(first + turn);
        }
    }
}

impl<C: GroupCode, A: Lanes<i64> + Lanes<C>, const N: usize> Narrow<C, A> for Tables<N> {
    #[inline(always)]
    fn new(_: A, groups: usize) -> Self {
        Self::new(groups)
    }

    #[inline(always)]
    fn add(&mut self, arch: A, rows: Rows<'_, C>, values: &[i64]) {
        let below = rows.are_below(arch, self.groups);
        let tables = &mut self.each();
        let ((codes, _), (chunks, _)) = (rows.codes.as_chunks(), values.as_chunks());
        for_chunks!(
            rows,
            below,
            |i| turns(&codes[i], tables, |row| chunks[i][row]),
            |i, word| {
                let chunk = selected(arch, &chunks[i], word, 0);
                turns(&codes[i], tables, |row| chunk[row]);
            },
            |row| tables[row % N][rows.codes[row].index()] += values[row]
        );
    }

    #[inline(always)]
    fn empty(&mut self, _: A, out: &mut [i128]) {
        out.iter_mut().zip(self.totals()).for_each(|(out, total)| *out += total);
        self.sums.fill(0);
    }
}

/// Sums of few groups, a register for each.
struct Registers<A: Lanes<i64>> {
    sums: [A::Vector; FEW],
    groups: usize,
}

impl<C: GroupCode, A: GroupLanes + Lanes<C>> Narrow<C, A> for Registers<A> {
    #[inline(always)]
    fn new(arch: A, groups: usize) -> Self {
        Self { sums: [arch.splat(0_i64); FEW], groups }
    }

    #[inline(always)]
    fn add(&mut self, arch: A, rows: Rows<'_, C>, values: &[i64]) {
        let ((codes, last_codes), (chunks, last)) =
            (rows.codes.as_chunks::<CHUNK>(), values.as_chunks::<CHUNK>());
        for (i, (codes, values)) in codes.iter().zip(chunks).enumerate() {
            self.add_chunk(arch, codes, values, rows.selected(i));
        }
        if !last.is_empty() {
            let word = rows.selected(chunks.len());
            self.add_chunk(arch, &pad(last_codes, C::default()), &pad(last, 0), word);
        }
    }

    #[inline(always)]
    fn empty(&mut self, arch: A, out: &mut [i128]) {
        for (out, sum) in out.iter_mut().zip(&mut self.sums) {
            let mut lanes = Aligned([0_i64; CHUNK]);
            arch.store(*sum, &mut *lanes, 0);
            *out += lanes.iter().map(|&lane| i128::from(lane)).sum::<i128>();
            *sum = arch.splat(0_i64);
        }
    }
}

impl<A: GroupLanes> Registers<A> {
    #[inline(always)]
    fn add_chunk<C: GroupCode>(&mut self, arch: A, codes: &[C; CHUNK], values: &[i64; CHUNK], word: u64)
    where
        A: Lanes<C>,
    {
        let mut left = word;
        for (group, sum) in self.sums.iter_mut().enumerate().take(self.groups) {
            let equal = equal(arch, codes, group) & word;
            left ^= equal;
            for i in 0..CHUNK / <A as Lanes<i64>>::COUNT {
                *sum = arch.add_selected_words(*sum, arch.load(values, i), equal, i);
            }
        }
        check_left(left, codes, self.groups);
    }
}

#[inline(always)]
pub(crate) fn sum_floats<C: GroupCode, A: GroupLanes + FloatLanes<f64> + Lanes<C>>(
    arch: A,
    codes: &[C],
    values: &[f64],
    mask: Option<&[u64]>,
    out: &mut [f64],
) {
    let rows = Rows { codes, mask };
    let below = rows.are_below(arch, out.len());
    if out.len() <= A::FEW_FLOATS && below && (mask.is_some() || are_below(arch, codes, out.len())) {
        return sum_few_floats(arch, rows, values, out);
    }
    let ((groups, _), (chunks, _)) = (codes.as_chunks(), values.as_chunks());
    for_chunks!(
        rows,
        below,
        |i| add_floats(&groups[i], &chunks[i], out),
        // Adding -0.0 is the same as adding nothing.
        |i, word| add_floats(&groups[i], &selected(arch, &chunks[i], word, -0.0), out),
        |row| out[codes[row].index()] += values[row]
    );
}

/// Adds up the floats of few groups in the lanes of a register: a sum in memory would be waited for by each row of a
/// group that many rows are of.
#[inline(always)]
fn sum_few_floats<C: GroupCode, A: FloatLanes<f64>>(
    arch: A,
    rows: Rows<'_, C>,
    values: &[f64],
    out: &mut [f64],
) {
    let mut lanes = [0.0; LANES];
    lanes[..out.len()].copy_from_slice(out);
    let mut sums = arch.eight(lanes);
    for (i, (codes, values)) in rows.codes.chunks(CHUNK).zip(values.chunks(CHUNK)).enumerate() {
        let word = rows.selected(i);
        if word == u64::MAX {
            for (code, value) in codes.iter().zip(values) {
                sums = arch.add_selected(sums, arch.eight([*value; LANES]), 1 << (code.index() % LANES), 0);
            }
        } else {
            for row in Bits(word) {
                let lane = 1 << (codes[row].index() % LANES);
                sums = arch.add_selected(sums, arch.eight([values[row]; LANES]), lane, 0);
            }
        }
    }
    out.copy_from_slice(&arch.lanes(sums)[..out.len()]);
}

#[inline(always)]
fn add_floats<C: GroupCode>(codes: &[C; CHUNK], values: &[f64; CHUNK], out: &mut [f64]) {
    for (code, value) in codes.iter().zip(values) {
        out[code.index()] += value;
    }
}

#[inline(always)]
pub(crate) fn min_max<C: GroupCode>(
    codes: &[C],
    values: &[i64],
    mask: Option<&[u64]>,
    out: &mut [(i64, i64)],
) {
    let rows = Rows { codes, mask };
    for_rows!(rows, |row| {
        let ((min, max), value) = (&mut out[codes[row].index()], values[row]);
        if value < *min {
            *min = value;
        }
        if value > *max {
            *max = value;
        }
    });
}
