//! Distributions beyond those of the first source, with the entropy that a column of them cannot go below.

use std::collections::BTreeMap;

use basalt_core::{describe::entropy_of, keys::Native};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::data;

/// A distribution of small numbers, the rarest the greatest.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name in tables.
    pub name: &'static str,
    law: Law,
    /// What its sizes are to come to, in parts of the entropy.
    pub size_goal: Option<f64>,
    /// What `= rarest` is to take, in nanoseconds a row.
    pub filter_goal: Option<f64>,
    /// What a random row is to take, in nanoseconds.
    pub get_goal: Option<f64>,
}

#[derive(Clone, Debug)]
enum Law {
    /// Each row by itself, by the shares of the values.
    Shares(Vec<f64>),
    /// A share of ones, in runs of so many rows on average: a chain of two states.
    Bursts { share: f64, run: f64 },
}

/// All distributions that columns are measured with.
pub fn all() -> Vec<Source> {
    let of = |name, shares: &[f64]| Source {
        name,
        law: Law::Shares(shares.into()),
        size_goal: None,
        filter_goal: None,
        get_goal: None,
    };
    let bursts = |name, share, run| Source { law: Law::Bursts { share, run }, ..of(name, &[]) };
    let zipf = |name, values| {
        let weights: Vec<f64> = (1..=values).map(|rank| 1.0 / f64::from(rank)).collect();
        let total: f64 = weights.iter().sum();
        of(name, &weights.iter().map(|weight| weight / total).collect::<Vec<_>>())
    };
    vec![
        of("bool 50/50", &[0.5, 0.5]),
        of("bool 80/20", &[0.8, 0.2]),
        Source { size_goal: Some(1.01), filter_goal: Some(0.05), ..of("bool 95/5", &[0.95, 0.05]) },
        Source {
            size_goal: Some(1.03),
            filter_goal: Some(0.015),
            get_goal: Some(60.0),
            ..of("bool 99/1", &[0.99, 0.01])
        },
        of("bool 99.5/0.5", &[0.995, 0.005]),
        of("bool 99.9/0.1", &[0.999, 0.001]),
        Source {
            size_goal: Some(1.002),
            filter_goal: Some(0.1),
            ..of("4-way 80/15/4/1", &[0.80, 0.15, 0.04, 0.01])
        },
        Source { size_goal: Some(1.005), ..of("5-way skewed", &[0.547, 0.202, 0.121, 0.08, 0.05]) },
        Source { size_goal: Some(1.005), ..zipf("Zipf-16", 16) },
        Source { size_goal: Some(1.005), ..zipf("Zipf-200", 200) },
        Source { size_goal: Some(1.1), ..bursts("bursty 1 %, runs of 100", 0.01, 100.0) },
        bursts("bursty 20 %, runs of 1000", 0.2, 1000.0),
    ]
}

impl Source {
    /// `n` values, the same in every run.
    pub fn draw(&self, n: usize) -> Vec<i64> {
        let mut rng = StdRng::seed_from_u64(0xba5a17);
        match &self.law {
            Law::Shares(shares) => {
                let mut upto: Vec<f64> = shares
                    .iter()
                    .scan(0.0, |sum, share| {
                        *sum += share;
                        Some(*sum)
                    })
                    .collect();
                // The last value takes what rounding leaves.
                upto.pop();
                let value = |at: f64| upto.partition_point(|&upto| upto <= at);
                (0..n).map(|_| i64::try_from(value(rng.random())).unwrap_or(0)).collect()
            }
            &Law::Bursts { share, run } => {
                let (begins, ends) = (share / (1.0 - share) / run, 1.0 / run);
                let mut one = rng.random_bool(share);
                let next = |_| {
                    one ^= rng.random_bool(if one { ends } else { begins });
                    i64::from(one)
                };
                (0..n).map(next).collect()
            }
        }
    }

    /// The rarest value.
    pub fn rarest(&self) -> i64 {
        match &self.law {
            Law::Shares(shares) => i64::try_from(shares.len() - 1).unwrap_or(0),
            Law::Bursts { .. } => 1,
        }
    }

    /// What the values lie in an array as.
    pub fn native(&self) -> Native {
        if self.rarest() == 1 { Native::Bool } else { Native::U8 }
    }

    /// The entropy of what was drawn, in bits a value: of a value after the one before it where they hang together,
    /// else of each by itself.
    #[allow(clippy::cast_precision_loss, reason = "a figure to print")]
    pub fn entropy(&self, values: &[i64]) -> f64 {
        if let Law::Shares(_) = self.law {
            return data::entropy(values);
        }
        let mut pairs = BTreeMap::<i64, BTreeMap<i64, u64>>::new();
        for pair in values.windows(2) {
            *pairs.entry(pair[0]).or_default().entry(pair[1]).or_default() += 1;
        }
        let after = pairs.into_values().map(|next| {
            let rows: u64 = next.values().sum();
            rows as f64 * entropy_of(next.into_values(), rows)
        });
        after.sum::<f64>() / (values.len() - 1) as f64
    }
}
