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
    let mut rng = StdRng::seed_from_u64(1);
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
    ]
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
