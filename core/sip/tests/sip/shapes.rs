//! Sets of every shape that the format distinguishes.

use std::collections::BTreeSet;

use rand::{Rng, SeedableRng, rngs::StdRng};

/// A name and increasing ids.
pub(crate) type Shape = (String, Vec<u64>);

/// Named sets: each kind of container and its edges, each header, scattered and clustered ids.
pub(crate) fn all() -> Vec<Shape> {
    let mut shapes = edges();
    shapes.extend(containers());
    shapes.extend(headers());
    shapes.extend(groups());
    let mut rng = StdRng::seed_from_u64(1);
    shapes.extend(patterns(&mut rng));
    for n in [1, 10, 1000, 20_000] {
        shapes.push((format!("uniform {n}"), random(&mut rng, n, |rng| rng.random())));
        shapes.push((
            format!("uniform 32 bits {n}"),
            random(&mut rng, n, |rng| u64::from(rng.random::<u32>())),
        ));
        let fragments = |rng: &mut StdRng, rows| rng.random_range(0..16) << 32 | rng.random_range(0..rows);
        shapes.push((format!("dense {n}"), random(&mut rng, n, |rng| fragments(rng, n as u64 / 16 + 1))));
        shapes.push((format!("sparse {n}"), random(&mut rng, n, |rng| fragments(rng, 1_000_000))));
    }
    shapes
}

fn random(rng: &mut StdRng, n: usize, mut id: impl FnMut(&mut StdRng) -> u64) -> Vec<u64> {
    let ids: BTreeSet<u64> = (0..n).map(|_| id(rng)).collect();
    ids.into_iter().collect()
}

fn edges() -> Vec<Shape> {
    let named = |name: &str, ids: &[u64]| (name.to_owned(), ids.to_vec());
    vec![
        named("empty", &[]),
        named("zero", &[0]),
        named("greatest", &[u64::MAX]),
        named("both ends", &[0, u64::MAX]),
        named("block edges", &[0, 65_535, 65_536, 131_071, u32::MAX.into(), 1 << 32]),
        named("powers of two", &(0..64).map(|bit| 1 << bit).collect::<Vec<_>>()),
        named("halves", &[0, 1 << 63]),
        named("quarters", &[3 << 61, 7 << 61]),
        named("first block", &(0..65_536).collect::<Vec<_>>()),
        named("last block", &(u64::MAX - 65_535..=u64::MAX).collect::<Vec<_>>()),
    ]
}

/// Increasing ids that leave these numbers out, and stand in runs of these lengths in turn.
pub(crate) fn spaced(gaps: impl IntoIterator<Item = u64>, lengths: &[u64]) -> Vec<u64> {
    let mut next = 0_u64;
    let ranges = gaps.into_iter().zip(lengths.iter().cycle()).map(|(gap, length)| {
        let start = next + gap;
        next = start + length;
        start..next
    });
    ranges.flatten().collect()
}

/// As many ids and ranges as fill a Rice group, and one fewer or more; one at the end of each set takes the
/// escape.
fn groups() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for n in [2, 63, 64, 65, 127, 128, 129, 255, 256, 257] {
        let gaps = |gap: u64| (0..n).map(move |i| if i == n - 1 { 1 << 50 } else { gap + i % 3 });
        shapes.push((format!("{n} near ids"), spaced(gaps(1), &[1])));
        shapes.push((format!("{n} far ids"), spaced(gaps(1 << 40), &[1])));
        shapes.push((format!("{n} short ranges"), spaced(gaps(5), &[2, 3])));
        shapes.push((format!("{n} ranges of all lengths"), spaced(gaps(1 << 20), &[1, 64, 1, 900, 2])));
    }
    shapes
}

/// Sets with a pattern that one of the tags is made for.
fn patterns(rng: &mut StdRng) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for period in [2, 3, 64, 1000, 65_536, 1 << 33] {
        shapes.push((format!("period {period}"), (0..700).map(|i| i * period).collect()));
    }
    shapes.push(("runs of 64".to_owned(), spaced((0..300).map(|_| rng.random_range(1..1000)), &[64])));
    shapes.push(("runs of about 64".to_owned(), {
        let lengths: Vec<u64> = (0..300).map(|_| rng.random_range(1..128)).collect();
        spaced((0..300).map(|_| rng.random_range(1..64)), &lengths)
    }));
    for far in [16, 17, 1 << 10, 1 << 20, 1 << 50] {
        let gap = |rng: &mut StdRng| if rng.random_ratio(1, 10) { far } else { rng.random_range(1..4) };
        let gaps: Vec<u64> = (0..500).map(|_| gap(rng)).collect();
        shapes.push((format!("bimodal {far}"), spaced(gaps, &[1])));
    }
    for bits in [1, 8, 31, 32, 33, 48] {
        let gaps: Vec<u64> = (0..300).map(|_| rng.random_range(1..=1 << bits)).collect();
        shapes.push((format!("gaps of {bits} bits"), spaced(gaps, &[1])));
    }
    shapes
}

/// One block of `n` ids in `runs` runs of nearly equal length, spread over the block.
pub(crate) fn block(base: u64, n: u64, runs: u64) -> Vec<u64> {
    let gaps = (65_536 - n) / runs;
    (0..runs)
        .flat_map(|run| {
            let length = n / runs + u64::from(run < n % runs);
            let before = run * (n / runs) + run.min(n % runs);
            let start = base + before + run * gaps;
            start..start + length
        })
        .collect()
}

/// One block at every edge between array, bitset and runs.
fn containers() -> Vec<Shape> {
    let mut shapes = Vec::new();
    let mut push = |n: u64, runs: u64| {
        if (1..=n).contains(&runs) && n + runs - 1 <= 65_536 {
            shapes.push((format!("{n} ids in {runs} runs"), block(0, n, runs)));
        }
    };
    for n in [1, 2, 3, 4, 5, 6, 7, 8, 9, 100, 101] {
        (1..=n).for_each(|runs| push(n, runs));
    }
    for n in [4094, 4095, 4096, 4097] {
        for runs in [1, 2, 2046, 2047, 2048, 2049, n] {
            push(n, runs);
        }
    }
    for n in [32_768, 65_535, 65_536] {
        for runs in [1, 2, 2047, 2048, n] {
            push(n, runs);
        }
    }
    shapes
}

/// Buckets of 1 to 17 containers, with runs in none, some or all of them.
fn headers() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for containers in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17] {
        for (kinds, mixture) in
            [("arrays", 0), ("runs", 1), ("bitsets", 2), ("arrays and runs", 3), ("all", 4)]
        {
            let ids = (0..containers)
                .flat_map(|i| {
                    let base = (7 << 32) + i * 3 * 65_536;
                    match (mixture, i % 3) {
                        (0, _) | (3, 0 | 2) | (4, 0) => block(base, 300, 300),
                        (1, _) | (3, 1) | (4, 1) => block(base, 300, 2),
                        _ => block(base, 5000, 5000),
                    }
                })
                .collect();
            shapes.push((format!("{containers} containers of {kinds}"), ids));
        }
    }
    shapes
}
