//! What is told of how numbers are distributed.

#![allow(clippy::cast_precision_loss, reason = "there are not so many values")]

/// The place of the first value at or behind a share of so many.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a place among so many")]
pub(super) fn place(share: f64, values: usize) -> usize {
    let place = (share * values as f64).ceil() as usize;
    place.saturating_sub(1).min(values.saturating_sub(1))
}

/// The middle of values, of which there is one at least.
pub(super) fn middle(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() % 2 {
        0 => values[half - 1] + (values[half] - values[half - 1]) / 2.0,
        _ => values[half],
    }
}

/// The bits that tell which value it is.
pub(super) fn entropy(counts: &[u64]) -> f64 {
    let all: u64 = counts.iter().sum();
    counts.iter().map(|count| *count as f64 / all as f64).map(|share| share * (1.0 / share).log2()).sum()
}

/// A sum with what each addition loses (Neumaier's).
pub(super) fn sum(values: &[f64]) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for value in values {
        let next = sum + value;
        lost += if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        sum = next;
    }
    if lost.is_nan() { sum } else { sum + lost }
}

/// The average by such a sum, of which what is lost is divided too.
pub(super) fn average(values: &[f64]) -> f64 {
    sum(values) / values.len() as f64
}

/// The sums of the second to the fourth powers of how far values are from their mean.
fn powers(values: &[f64]) -> (f64, f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let (mut second, mut third, mut fourth) = (0.0, 0.0, 0.0);
    for value in values {
        let distance = value - mean;
        second += distance * distance;
        third += distance * distance * distance;
        fourth += distance * distance * distance * distance;
    }
    (second, third, fourth)
}

/// Of a sample, whose values are not all the same.
pub(super) fn skewness(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    if values.len() <= 2 {
        return None;
    }
    let (second, third, _) = powers(values);
    let deviation = (second / n).powi(3).sqrt();
    if deviation == 0.0 {
        return None;
    }
    Some((n * (n - 1.0)).sqrt() / (n - 2.0) * (third / n) / deviation)
}

/// What is more than that of the normal distribution, of a sample or of all values.
pub(super) fn kurtosis(values: &[f64], of_all: bool) -> Option<f64> {
    let n = values.len() as f64;
    if values.len() <= if of_all { 1 } else { 3 } {
        return None;
    }
    let (second, _, fourth) = powers(values);
    let (second, fourth) = (second / n, fourth / n);
    if second <= 0.0 {
        return None;
    }
    let ratio = fourth / (second * second);
    match of_all {
        true => Some(ratio - 3.0),
        false => Some((n - 1.0) * ((n + 1.0) * ratio - 3.0 * (n - 1.0)) / ((n - 2.0) * (n - 3.0))),
    }
}

pub(super) fn error_of_mean(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let (second, ..) = powers(values);
    Some((second / n).sqrt() / n.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(value: Option<f64>, expected: f64) -> bool {
        value.is_some_and(|value| (value - expected).abs() < 1e-9)
    }

    #[test]
    fn a_distribution_is_told() {
        let values = [1.0, 2.0, 3.0, 4.0, 10.0];
        assert!(is(skewness(&values), 1.697_056_274_847_714));
        assert!(is(kurtosis(&values, false), 3.152_000_000_000_001));
        assert!(is(kurtosis(&values, true), -0.212));
        assert!(is(error_of_mean(&values), std::f64::consts::SQRT_2));
        assert_eq!((skewness(&[1.0, 1.0]), kurtosis(&[2.0; 5], true)), (None, None));
        assert_eq!(skewness(&[1.0; 3]), None);
        assert_eq!(sum(&[1e16, 1.0, 1.0, -1e16]), 2.0);
        assert!((entropy(&[1, 1]) - 1.0).abs() < 1e-12 && entropy(&[7]).abs() < 1e-12);
        assert!((middle(&mut [3.0, 1.0]) - 2.0).abs() < 1e-12);
        assert_eq!((place(0.5, 4), place(0.0, 4), place(1.0, 4), place(0.5, 1)), (1, 0, 3, 0));
    }
}
