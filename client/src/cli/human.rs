//! Quantities as people read them.

use std::time::Duration;

/// The size of a table with fewer rows is that of its headers: it says nothing about its values.
pub(crate) const FEW_ROWS: u64 = 1000;

/// `336776` as `336,776`.
///
/// ```
/// assert_eq!(basalt_client::cli::human::count(336_776), "336,776");
/// ```
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in decimal units with three digits: `8.12 MB`.
///
/// ```
/// assert_eq!(basalt_client::cli::human::bytes(8_123_456), "8.12 MB");
/// ```
pub fn bytes(n: u64) -> String {
    if n < 1000 { format!("{n} B") } else { scaled(n as f64, &["B", "kB", "MB", "GB", "TB"]) }
}

/// Bytes a second: `512 MB/s`.
pub fn byte_rate(n: u64, time: Duration) -> String {
    scaled(per_second(n, time), &["B/s", "kB/s", "MB/s", "GB/s", "TB/s"])
}

/// Rows a second: `105 M rows/s`.
pub fn row_rate(n: u64, time: Duration) -> String {
    scaled(per_second(n, time), &["rows/s", "k rows/s", "M rows/s", "G rows/s", "T rows/s"])
}

/// A time with three digits: `3.21 ms`.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(basalt_client::cli::human::duration(Duration::from_micros(3_210)), "3.21 ms");
/// ```
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s >= 120.0 => format!("{} min {:.0} s", time.as_secs() / 60, s % 60.0),
        s if s >= 1.0 => format!("{} s", three_digits(s)),
        s if s >= 1e-3 => format!("{} ms", three_digits(s * 1e3)),
        s => format!("{} us", three_digits(s * 1e6)),
    }
}

/// `large / small`: `5.20x`, `6,014x`.
pub fn ratio(large: u64, small: u64) -> String {
    if small == 0 {
        return "-".to_owned();
    }
    match large / small {
        n if n >= 1000 => format!("{}x", count(n)),
        _ => format!("{}x", three_digits(large as f64 / small as f64)),
    }
}

/// How one size stands to another: `5.20x smaller than`, `1.30x larger than`.
pub fn compared(size: u64, other: u64) -> String {
    if size <= other {
        format!("{} smaller than", ratio(other, size))
    } else {
        format!("{} larger than", ratio(size, other))
    }
}

/// `part` of `whole` in percent: `67 %`, `0.39 %`.
pub fn share(part: u64, whole: u64) -> String {
    match 100.0 * part as f64 / whole.max(1) as f64 {
        small if small > 0.0 && small < 0.995 => format!("{small:.2} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// `1 row`, `2 rows`.
pub fn plural(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {one}s", count(n)) }
}

fn per_second(n: u64, time: Duration) -> f64 {
    n as f64 / time.as_secs_f64().max(1e-9)
}

fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    // What rounds to 1000 belongs to the next unit.
    while value >= 999.5 {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / 1000.0, next);
    }
    format!("{} {unit}", three_digits(value))
}

fn three_digits(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        for (n, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(n), expected);
        }
        for (n, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (9_995, "10.0 kB"),
            (999_499, "999 kB"),
            (999_500, "1.00 MB"),
            (u64::MAX, "18446744 TB"),
        ] {
            assert_eq!(bytes(n), expected, "{n}");
        }
        let second = Duration::from_secs(1);
        assert_eq!(row_rate(105_000_000, second), "105 M rows/s");
        assert_eq!(byte_rate(20_500_000, second), "20.5 MB/s");
        assert_eq!(ratio(10, 4), "2.50x");
        assert_eq!(ratio(10, 0), "-");
        assert_eq!(ratio(6_014_900, 1000), "6,014x");
        assert_eq!(
            (compared(2, 5), compared(5, 2)),
            ("2.50x smaller than".into(), "2.50x larger than".into())
        );
        assert_eq!(share(2, 3), "67 %");
        assert_eq!((share(0, 0), share(1323, 336_776)), ("0 %".to_owned(), "0.39 %".to_owned()));
        assert_eq!(share(9_949, 1_000_000), "0.99 %");
        assert_eq!(share(9_951, 1_000_000), "1 %");
        assert_eq!((plural(1, "row"), plural(2000, "row")), ("1 row".to_owned(), "2,000 rows".to_owned()));
        for (us, expected) in
            [(12, "12.0 us"), (1_500, "1.50 ms"), (1_420_000, "1.42 s"), (125_000_000, "2 min 5 s")]
        {
            assert_eq!(duration(Duration::from_micros(us)), expected);
        }
    }
}
