//! Numbers as bars, sizes and digits; texts as URLs and patterns.

use std::fmt::Write as _;

use basalt_core::error::ErrorKind;

use crate::error::Error;

/// A bar as long as a value is between two others.
pub(super) fn bar(value: f64, least: f64, most: f64, width: f64) -> std::result::Result<String, Error> {
    const EIGHTHS: [&str; 9] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
    if !width.is_finite() || !(1.0..=1000.0).contains(&width) {
        return Err(Error::invalid("bar takes a width from 1 to 1000"));
    }
    if !least.is_finite() || !most.is_finite() {
        return Err(Error::invalid("bar takes numbers"));
    }
    let share = if value.is_nan() || value <= least {
        0.0
    } else if value >= most {
        width
    } else {
        (value - least) / (most - least) * width
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to 1000")]
    let (eighths, width) = ((share * 8.0) as usize, width.ceil() as usize);
    let (whole, rest) = (eighths / 8, eighths % 8);
    let mut text = EIGHTHS[8].repeat(whole);
    let mut length = whole;
    if whole < width && rest > 0 {
        text.push_str(EIGHTHS[rest]);
        length += 1;
    }
    text.push_str(&" ".repeat(width.saturating_sub(length)));
    Ok(text)
}

/// Bytes as people write them, cut to one digit behind the point.
pub(super) fn bytes(bytes: i64, unit: u64) -> String {
    let names: [&str; 6] = match unit {
        1024 => ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"],
        _ => ["kB", "MB", "GB", "TB", "PB", "EB"],
    };
    let sign = if bytes < 0 { "-" } else { "" };
    let bytes = bytes.unsigned_abs();
    if bytes < unit {
        return format!("{sign}{bytes} {}", if bytes == 1 { "byte" } else { "bytes" });
    }
    let mut step = u128::from(unit);
    let mut name = 0;
    let bytes = u128::from(bytes);
    while bytes / step >= u128::from(unit) && name < 4 {
        step *= u128::from(unit);
        name += 1;
    }
    let tenths = bytes * 10 / step;
    format!("{sign}{}.{} {}", tenths / 10, tenths % 10, names[name])
}

/// The bytes of a text such as `1.5 KiB`, cut to whole ones.
pub(super) fn bytes_of(text: &str) -> std::result::Result<u64, Error> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err(Error::invalid(format!("{text:?} is a negative number of bytes")));
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    // An exponent has digits behind it; without them the letter is of the unit.
    let exponent =
        text[end..].strip_prefix(['e', 'E']).map(|rest| rest.strip_prefix(['-', '+']).unwrap_or(rest));
    let digits = exponent.map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
    let end = match exponent {
        Some(rest) if digits > 0 => text.len() - rest.len() + digits,
        _ => end,
    };
    let (number, unit) = (&text[..end], text[end..].trim().to_lowercase());
    let number: f64 = number
        .parse()
        .map_err(|_| Error::invalid(format!("{text:?} is no number of bytes, as '1.5 GB' or '2 MiB' are")))?;
    let factor: f64 = match unit.as_str() {
        "b" | "byte" | "bytes" => 1.0,
        "k" | "kb" | "kilobyte" | "kilobytes" => 1e3,
        "m" | "mb" | "megabyte" | "megabytes" => 1e6,
        "g" | "gb" | "gigabyte" | "gigabytes" => 1e9,
        "t" | "tb" | "terabyte" | "terabytes" => 1e12,
        "kib" => 1024.0,
        "mib" => 1_048_576.0,
        "gib" => 1_073_741_824.0,
        "tib" => 1_099_511_627_776.0,
        _ => {
            let message = format!("the unit of {text:?} is none of B, KB, MB, GB, TB, KiB, MiB, GiB and TiB");
            return Err(Error::invalid(message));
        }
    };
    let bytes = number * factor;
    if bytes >= 18_446_744_073_709_551_616.0 {
        return Err(Error::new(ErrorKind::Overflow, format!("{text:?} does not fit a uint64")));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is positive, and fits")]
    Ok(bytes as u64)
}

/// Between which places a part is: from a number, that counts from the end where it is negative, so many; where those are
/// negative they stand before it.
pub(super) fn seen(from: i64, many: Option<i64>, length: i64) -> (i64, i64) {
    let mut many = many.unwrap_or(length);
    let start = match from {
        0 => {
            many = many.saturating_sub(1);
            0
        }
        1.. => length.min(from - 1),
        _ => length.saturating_add(from).max(0),
    };
    match many {
        1.. => (start, length.min(start.saturating_add(many))),
        0 => (start, start),
        _ if from == 0 => (0, 0),
        _ => (start.saturating_add(many).max(0), start),
    }
}

/// Whatever is no letter, digit or `_`, behind a backslash.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\0' {
            escaped.push_str("\\x00");
            continue;
        }
        if c.is_ascii() && !c.is_ascii_alphanumeric() && c != '_' {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

pub(super) fn url_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte))
            }
            byte => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

pub(super) fn url_decoded(text: &str) -> std::result::Result<String, Error> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let byte = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).map_err(|_| Error::invalid("the decoded text is no UTF-8"))
}

/// A whole number in a base from 2 to 36, with at least so many digits.
pub(super) fn to_base(number: i64, base: i64, least: i64) -> std::result::Result<String, Error> {
    let known = u64::try_from(base).ok().filter(|base| (2..=36).contains(base));
    let base = known.ok_or_else(|| Error::invalid("to_base takes a base from 2 to 36"))?;
    let mut rest = u64::try_from(number).map_err(|_| Error::invalid("to_base takes no negative number"))?;
    let least = usize::try_from(least).ok().filter(|least| *least <= 64);
    let least = least.ok_or_else(|| Error::invalid("to_base takes a length from 0 to 64"))?;
    let mut digits = Vec::new();
    while rest > 0 || digits.is_empty() {
        let digit = u32::try_from(rest % base).ok().and_then(|digit| char::from_digit(digit, 36));
        digits.push(digit.unwrap_or('0').to_ascii_uppercase());
        rest /= base;
    }
    let digits: String = digits.into_iter().rev().collect();
    Ok(format!("{digits:0>least$}"))
}

/// The regular expression of a shell's pattern, of a whole text.
pub(super) fn glob(pattern: &str) -> std::result::Result<regex::Regex, Error> {
    let mut regex = String::from("(?s)^");
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '\\' => match chars.next() {
                Some(c) => regex.push_str(&regex::escape(&c.to_string())),
                None => return Err(Error::invalid("a pattern of GLOB ends with a backslash")),
            },
            '[' => {
                regex.push('[');
                if chars.peek() == Some(&'!') {
                    chars.next();
                    regex.push('^');
                }
                let mut first = true;
                loop {
                    match chars.next() {
                        Some(']') if !first => break,
                        Some('-') => regex.push('-'),
                        Some(c) => regex.push_str(&regex::escape(&c.to_string())),
                        // Nothing is of a class that has no end.
                        None => return never(),
                    }
                    first = false;
                }
                regex.push(']');
            }
            c => regex.push_str(&regex::escape(&c.to_string())),
        }
    }
    regex.push('$');
    regex::Regex::new(&regex).map_err(|error| Error::invalid(format!("no pattern of GLOB: {error}")))
}

fn never() -> std::result::Result<regex::Regex, Error> {
    regex::Regex::new(r"[^\s\S]").map_err(|error| Error::Internal(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_bars_bases_and_patterns() {
        assert_eq!((bytes(1, 1024), bytes(1_048_575, 1024)), ("1 byte".to_owned(), "1023.9 KiB".to_owned()));
        assert_eq!(bytes(i64::MIN, 1024), "-8192.0 PiB");
        assert_eq!(bar(9.0, 0.0, 100.0, 80.0).unwrap().trim_end(), "███████▏");
        assert_eq!(bar(120.0, -10.0, 100.0, 10.0).unwrap(), "█".repeat(10));
        assert!(bar(1.0, 0.0, 1.0, 1e9).is_err());
        assert_eq!(
            (to_base(10, 2, 8).unwrap().as_str(), to_base(0, 36, 0).unwrap().as_str()),
            ("00001010", "0")
        );
        for (text, bytes) in
            [("0 B", 0), ("1.5KiB", 1536), ("  2  mib ", 2 << 20), ("1e3 b", 1000), (".5 kb", 500)]
        {
            assert_eq!(bytes_of(text).unwrap(), bytes, "{text}");
        }
        for text in ["", "5", "abc", "1 Ki", "-5 MB", "1.5.3 GB", "inf GiB", "20000000000 GB", "1e KB"] {
            assert!(bytes_of(text).is_err(), "{text}");
        }
        assert_eq!(url_decoded(&url_encoded("a b/ü")).unwrap(), "a b/ü");
        for (pattern, text, expected) in [
            ("a*", "abc", true),
            ("a?", "abc", false),
            ("[a-c]x", "bx", true),
            ("[!a]", "a", false),
            ("\\*", "*", true),
        ] {
            assert_eq!(glob(pattern).unwrap().is_match(text), expected, "{pattern} {text}");
        }
    }
}
