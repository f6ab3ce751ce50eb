//! Sets of ids and masks to measure with, made the same way in every run.

use std::iter;

use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use rand_08::{Rng as _, SeedableRng as _, rngs::StdRng as StdRng08, seq::SliceRandom as _};

/// A set, a second one of the same shape, and ids to ask for.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its name in the tables.
    pub name: String,
    /// The ids, increasing.
    pub ids: Vec<u64>,
    /// The ids of the second set, increasing.
    pub other: Vec<u64>,
    /// 1,000 of the ids, and 1,000 random ones.
    pub probes: Vec<u64>,
}

/// The sizes of the source.
pub const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Fragments of its row addresses, which are `fragment << 32 | row`.
const FRAGMENTS: u64 = 16;

/// The source's cells of these sizes, the first of [`SIZES`]: uniform, dense and sparse for each. One generator
/// makes them all, so a size needs those before it.
pub fn cells(sizes: &[usize]) -> Vec<Cell> {
    assert!(SIZES.starts_with(sizes));
    let mut rng = StdRng08::seed_from_u64(0xC0_FFEE_FEED_FACE);
    type Make = fn(&mut StdRng08, usize) -> Vec<u64>;
    let shapes: [(&str, Make); 3] = [("uniform", uniform), ("dense", dense), ("sparse", sparse)];
    let cells = sizes.iter().flat_map(|&n| shapes.map(|(name, make)| (name, make, n)));
    cells
        .map(|(name, make, n)| {
            let (ids, other) = (make(&mut rng, n), make(&mut rng, n));
            let mut probes: Vec<u64> = ids.choose_multiple(&mut rng, 1_000).copied().collect();
            probes.extend(iter::repeat_with(|| rng.r#gen::<u64>()).take(1_000));
            Cell { name: format!("{name}_n={n}"), ids, other, probes }
        })
        .collect()
}

fn uniform(rng: &mut StdRng08, n: usize) -> Vec<u64> {
    set((0..n).map(|_| rng.r#gen::<u64>()))
}

fn dense(rng: &mut StdRng08, n: usize) -> Vec<u64> {
    let mut next = [0; FRAGMENTS as usize];
    set((0..n).map(|_| {
        let fragment = rng.gen_range(0..FRAGMENTS);
        let row = next[fragment as usize];
        next[fragment as usize] += 1;
        fragment << 32 | row
    }))
}

fn sparse(rng: &mut StdRng08, n: usize) -> Vec<u64> {
    set((0..n).map(|_| {
        let fragment = rng.gen_range(0..FRAGMENTS);
        fragment << 32 | rng.gen_range(0..1_000_000_u64)
    }))
}

fn set(ids: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut ids: Vec<u64> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Shapes that the source lacks (its uniform ids are random u64, its sparse ones one row of 16), each of about `n` ids.
pub fn shapes(n: usize) -> Vec<Cell> {
    type Make = fn(&mut StdRng, u64) -> Vec<u64>;
    let shapes: [(&str, Make); 11] = [
        ("dense, 10 % holes", |rng, n| fragments(n, |rows| coin(rng, rows, 0.9))),
        ("half of the rows", |rng, n| fragments(2 * n, |rows| coin(rng, rows, 0.5))),
        ("runs of 64, gaps of 64", |rng, n| fragments(2 * n, |rows| runs(rng, rows, 64.0, 64.0))),
        ("runs of 1,000, gaps of 9,000", |rng, n| fragments(10 * n, |rows| runs(rng, rows, 1e3, 9e3))),
        ("1 row of 1,000", |rng, n| fragments(1_000 * n, |rows| coin(rng, rows, 1e-3))),
        ("random u32", |rng, n| set((0..n).map(|_| rng.random::<u32>().into()))),
        ("each second row", |_, n| (0..n).map(|row| 2 * row).collect()),
        ("rows of 1 page of 50", |rng, n| {
            let pages = coin(rng, n / 58 * 50, 0.02);
            pages
                .iter()
                .flat_map(|page| coin(rng, 64, 0.9).into_iter().map(move |row| page * 64 + row))
                .collect()
        }),
        ("bursts of 20, far apart", |rng, n| {
            let mut id = 0;
            (0..n)
                .map(|i| {
                    let gap = if i % 20 == 0 { 1..2_000_000 } else { 1..6 };
                    id += rng.random_range(gap);
                    id
                })
                .collect()
        }),
        ("time and sequence", |rng, n| {
            let (mut millis, mut sequence) = (0, 0);
            (0..n)
                .map(|_| {
                    let passed = rng.random_range(0..3_u64);
                    millis += passed;
                    sequence = if passed == 0 { sequence + 1 } else { 0 };
                    millis << 22 | sequence
                })
                .collect()
        }),
        ("9 of 10 dense, 1 random u64", |rng, n| {
            let random: Vec<u64> = (0..n / 10).map(|_| rng.random()).collect();
            set((0..n / 10 * 9).chain(random))
        }),
    ];
    let mut rng = StdRng::seed_from_u64(0x51b);
    shapes
        .into_iter()
        .map(|(name, make)| {
            let (ids, other) = (make(&mut rng, n as u64), make(&mut rng, n as u64));
            let present: Vec<u64> = (0..1_000).map(|_| ids[rng.random_range(0..ids.len())]).collect();
            let probes = present.into_iter().chain((0..1_000).map(|_| rng.random())).collect();
            Cell { name: name.to_owned(), ids, other, probes }
        })
        .collect()
}

/// About `n` random ids.
pub fn random(n: usize) -> Vec<u64> {
    let mut rng = StdRng::seed_from_u64(0xd1ce);
    set((0..n).map(|_| rng.random()))
}

/// The ids of `rows` rows in equal fragments, of which `picked` says which.
fn fragments(rows: u64, mut picked: impl FnMut(u64) -> Vec<u64>) -> Vec<u64> {
    (0..FRAGMENTS)
        .flat_map(|fragment| picked(rows / FRAGMENTS).into_iter().map(move |row| fragment << 32 | row))
        .collect()
}

/// The rows that fall to a coin with this share of heads, by the gaps between them.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a gap of rows")]
fn coin(rng: &mut StdRng, rows: u64, share: f64) -> Vec<u64> {
    let tails = (1.0 - share).ln();
    let mut row = 0_u64;
    let gaps = iter::from_fn(|| {
        row += ((1.0 - rng.random::<f64>()).ln() / tails) as u64;
        row += 1;
        (row <= rows).then(|| row - 1)
    });
    gaps.collect()
}

/// Rows in runs, with gaps between them, both of geometric lengths with these means.
fn runs(rng: &mut StdRng, rows: u64, run: f64, gap: f64) -> Vec<u64> {
    let mut ids = Vec::new();
    let mut row = length(rng, gap);
    while row < rows {
        let end = row + length(rng, run);
        ids.extend(row..end.min(rows));
        row = end + length(rng, gap);
    }
    ids
}

/// A geometric length of at least 1.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length of rows")]
fn length(rng: &mut StdRng, mean: f64) -> u64 {
    1 + ((1.0 - rng.random::<f64>()).ln() / (1.0 - 1.0 / mean).ln()) as u64
}

/// Rows that a filter picked, as a mask.
#[derive(Debug)]
pub struct Mask {
    /// Its name in the tables.
    pub name: &'static str,
    /// Bit `i % 64` of word `i / 64` is 1 if row `i` is picked; as many words as whole blocks of rows have.
    pub words: Vec<u64>,
    /// The rows.
    pub ids: Vec<u64>,
}

/// Masks of `rows` rows.
pub fn masks(rows: u64) -> Vec<Mask> {
    let mut rng = StdRng::seed_from_u64(0x3a5c);
    let masks = [
        (".01 %", coin(&mut rng, rows, 1e-4)),
        ("1 %", coin(&mut rng, rows, 0.01)),
        ("5 %", coin(&mut rng, rows, 0.05)),
        ("50 %", coin(&mut rng, rows, 0.5)),
        ("contiguous half", (rows / 4..rows / 4 * 3).collect()),
        ("runs of 1,000, 10 %", runs(&mut rng, rows, 1e3, 9e3)),
    ];
    let masks = masks.into_iter().map(|(name, ids)| {
        let mut words = vec![0; (rows as usize).div_ceil(1 << 16) << 10];
        ids.iter().for_each(|&id| words[(id / 64) as usize] |= 1 << (id % 64));
        Mask { name, words, ids }
    });
    masks.collect()
}
