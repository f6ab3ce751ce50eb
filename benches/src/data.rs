//! The distributions of the first source, made the same way in every run.

use rand::{Rng, SeedableRng, rngs::StdRng};

/// A distribution over a few symbols, by their shares, the greatest first.
#[derive(Clone, Copy, Debug)]
pub struct Distribution {
    /// Its name, as the source's tables have it.
    pub name: &'static str,
    /// The share of each symbol; together 1.
    pub shares: &'static [f64],
}

/// The five distributions of the first source. It does not give the shares of its 5-way one; these have its
/// entropy, 1.82 bits.
pub const DISTRIBUTIONS: [Distribution; 5] = [
    Distribution { name: "bool 50/50", shares: &[0.5, 0.5] },
    Distribution { name: "bool 95/5", shares: &[0.95, 0.05] },
    Distribution { name: "bool 99/1", shares: &[0.99, 0.01] },
    Distribution { name: "4-way 80/15/4/1", shares: &[0.80, 0.15, 0.04, 0.01] },
    Distribution { name: "5-way skewed", shares: &[0.547, 0.202, 0.121, 0.08, 0.05] },
];

/// The deleted rows of the first source's table of 10 million.
pub const DELETED: Distribution = Distribution { name: "bool 99.5/0.5", shares: &[0.995, 0.005] };

impl Distribution {
    /// The rarest symbol.
    pub fn rare(&self) -> i64 {
        i64::try_from(self.shares.len() - 1).unwrap_or(0)
    }

    /// `n` independent symbols 0, 1, ...
    pub fn sample(&self, n: usize) -> Vec<i64> {
        let mut rng = StdRng::seed_from_u64(0xba5a17);
        let symbol = |mut at: f64| {
            let last = self.shares.len() - 1;
            let found = self.shares[..last].iter().position(|share| {
                at -= share;
                at < 0.0
            });
            i64::try_from(found.unwrap_or(last)).unwrap_or(0)
        };
        (0..n).map(|_| symbol(rng.random::<f64>())).collect()
    }
}

/// The rows, ascending, that fall to a coin with this share of heads; the values have no part in it.
pub fn sparse(rows: u32, share: f64) -> Vec<u32> {
    let mut rng = StdRng::seed_from_u64(0xc01);
    (0..rows).filter(|_| rng.random_bool(share)).collect()
}

/// `n` independent rows.
pub fn random(rows: u32, n: usize) -> Vec<u32> {
    let mut rng = StdRng::seed_from_u64(0xd1ce);
    (0..n).map(|_| rng.random_range(0..rows)).collect()
}

/// The entropy of what was really drawn, in bits a value.
pub fn entropy(values: &[i64]) -> f64 {
    let mut counts = std::collections::BTreeMap::<i64, u64>::new();
    values.iter().for_each(|v| *counts.entry(*v).or_default() += 1);
    basalt_core::describe::entropy_of(counts.into_values(), values.len() as u64)
}
