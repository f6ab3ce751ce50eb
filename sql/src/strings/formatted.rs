//! Values in the form that a format says: C's `printf`, Python's `format`, bars, sizes.

use std::fmt::Write as _;

use arrow_array::{
    Array as _, ArrayRef, BooleanArray, Float64Array, StringArray, UInt64Array,
    cast::AsArray as _,
    types::{Decimal128Type, Float64Type, UInt64Type},
};
use arrow_schema::DataType;
use basalt_core::error::ErrorKind;
use datafusion::{arrow::compute::cast, common::Result};

use crate::{error::Error, functions, limits};

/// An argument.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Int(i128),
    Float(f64),
    Bool(bool),
    Text(String),
}

/// The arguments of a batch's rows.
pub(super) enum Column {
    Wide(arrow_array::Decimal128Array),
    Unsigned(UInt64Array),
    Float(Float64Array),
    Bool(BooleanArray),
    Text(StringArray),
}

impl Column {
    pub(super) fn new(array: &ArrayRef) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::UInt64 => Self::Unsigned(array.as_primitive::<UInt64Type>().clone()),
            data_type if data_type.is_integer() => {
                let wide = cast(array, &DataType::Decimal128(38, 0))?;
                Self::Wide(wide.as_primitive::<Decimal128Type>().clone())
            }
            DataType::Decimal128(_, 0) => Self::Wide(array.as_primitive::<Decimal128Type>().clone()),
            data_type if data_type.is_numeric() => {
                Self::Float(cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
            }
            DataType::Boolean => Self::Bool(array.as_boolean().clone()),
            _ => Self::Text(functions::texts(array)?),
        })
    }

    pub(super) fn value(&self, row: usize) -> Value {
        match self {
            Self::Wide(values) => Value::Int(values.value(row)),
            Self::Unsigned(values) => Value::Int(values.value(row).into()),
            Self::Float(values) => Value::Float(values.value(row)),
            Self::Bool(values) => Value::Bool(values.value(row)),
            Self::Text(values) => Value::Text(values.value(row).to_owned()),
        }
    }
}

/// How one value is to be written.
#[derive(Clone, Debug, Default, PartialEq)]
struct Spec {
    /// `<`, `^` or `>`.
    align: Option<char>,
    fill: Option<char>,
    /// What stands before a number that is not negative.
    sign: Option<char>,
    alternative: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    /// What stands between thousands.
    group: Option<String>,
    kind: Option<char>,
}

fn wrong(format: &str) -> Error {
    Error::invalid(format!("{format:?} is no format of these arguments"))
}

fn grouped(digits: &str, group: &str) -> String {
    let mut text = String::new();
    for (at, c) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push_str(group);
        }
        text.push(c);
    }
    text
}

impl Spec {
    fn check(&self) -> std::result::Result<(), Error> {
        if self.width as u64 > limits::TEXTS_BYTES / 8192 || self.precision.is_some_and(|digits| digits > 400)
        {
            return Err(Error::new(ErrorKind::MemoryLimit, "a format asks for too many characters"));
        }
        Ok(())
    }

    fn write(&self, value: &Value, format: &str) -> std::result::Result<String, Error> {
        self.check()?;
        let (sign, body, is_number) = match (value, self.kind) {
            (Value::Text(text), None | Some('s')) => {
                let text: String = match self.precision {
                    Some(most) => text.chars().take(most).collect(),
                    None => text.clone(),
                };
                (String::new(), text, false)
            }
            (Value::Bool(value), None | Some('s')) => (String::new(), value.to_string(), false),
            (Value::Bool(value), Some('d' | 'i')) => (String::new(), u8::from(*value).to_string(), true),
            (Value::Int(value), None | Some('d' | 'i' | 'u' | 's')) => {
                let digits = value.unsigned_abs().to_string();
                let digits = match &self.group {
                    Some(group) => grouped(&digits, group),
                    None => digits,
                };
                (self.sign_of(*value < 0), digits, true)
            }
            (Value::Int(value), Some(kind @ ('x' | 'X' | 'o' | 'b' | 'B'))) => {
                let value = if *value < 0 { return Err(wrong(format)) } else { *value };
                let (prefix, digits) = match kind {
                    'x' => ("0x", format!("{value:x}")),
                    'X' => ("0X", format!("{value:X}")),
                    'o' => ("0", format!("{value:o}")),
                    _ => ("0b", format!("{value:b}")),
                };
                let prefix = if self.alternative { prefix } else { "" };
                (format!("{}{prefix}", self.sign_of(false)), digits, true)
            }
            (Value::Int(value), Some('c')) => {
                let c = u32::try_from(*value).ok().and_then(char::from_u32);
                (String::new(), c.ok_or_else(|| wrong(format))?.to_string(), false)
            }
            (Value::Float(value), kind) => {
                let magnitude = value.abs();
                let body = match kind {
                    _ if !value.is_finite() => if value.is_nan() { "nan" } else { "inf" }.to_owned(),
                    None if self.precision.is_none() => {
                        let digits = format!("{magnitude:?}");
                        match (&self.group, digits.split_once('.')) {
                            (Some(_), _) if digits.contains('e') => return Err(wrong(format)),
                            (Some(group), Some((whole, rest))) => format!("{}.{rest}", grouped(whole, group)),
                            _ => digits,
                        }
                    }
                    Some('s') if self.precision.is_none() => format!("{magnitude:?}"),
                    Some('f' | 'F') => {
                        let digits = format!("{magnitude:.*}", self.precision.unwrap_or(6));
                        match &self.group {
                            Some(group) => {
                                let (whole, rest) = digits.split_once('.').unwrap_or((&digits, ""));
                                let point = if rest.is_empty() { "" } else { "." };
                                format!("{}{point}{rest}", grouped(whole, group))
                            }
                            None => digits,
                        }
                    }
                    Some('e' | 'E') => {
                        let text = format!("{magnitude:.*e}", self.precision.unwrap_or(6));
                        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                        let (sign, exponent) = match exponent.strip_prefix('-') {
                            Some(exponent) => ('-', exponent),
                            None => ('+', exponent),
                        };
                        let text = format!("{digits}e{sign}{exponent:0>2}");
                        if kind == Some('E') { text.to_uppercase() } else { text }
                    }
                    _ => return Err(Error::unsupported(format!("the format {format:?} of a float"))),
                };
                (self.sign_of(value.is_sign_negative() && !value.is_nan()), body, value.is_finite())
            }
            _ => return Err(wrong(format)),
        };
        let length = sign.chars().count() + body.chars().count();
        let missing = self.width.saturating_sub(length);
        if self.zero && is_number && self.align.is_none() {
            return Ok(format!("{sign}{}{body}", "0".repeat(missing)));
        }
        let fill = self.fill.unwrap_or(' ').to_string();
        Ok(match self.align.unwrap_or(if is_number { '>' } else { '<' }) {
            '<' => format!("{sign}{body}{}", fill.repeat(missing)),
            '^' => {
                let before = missing / 2;
                format!("{}{sign}{body}{}", fill.repeat(before), fill.repeat(missing - before))
            }
            _ => format!("{}{sign}{body}", fill.repeat(missing)),
        })
    }

    fn sign_of(&self, negative: bool) -> String {
        match (negative, self.sign) {
            (true, _) => "-".to_owned(),
            (false, Some(sign)) => sign.to_string(),
            (false, None) => String::new(),
        }
    }
}

fn digits(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<usize> {
    let mut number = None;
    while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
        let before: usize = number.unwrap_or(0);
        number = Some(before.saturating_mul(10).saturating_add(digit as usize));
        chars.next();
    }
    number
}

/// `%[flags][width][.precision]kind`, one after the other.
pub(super) fn printf(format: &str, values: &[Value]) -> std::result::Result<String, Error> {
    let mut text = String::new();
    let mut values = values.iter();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        if chars.peek() == Some(&'%') {
            chars.next();
            text.push('%');
            continue;
        }
        let mut spec = Spec { align: Some('>'), ..Spec::default() };
        while let Some(flag) = chars.peek().copied() {
            match flag {
                '-' => spec.align = Some('<'),
                '+' | ' ' => spec.sign = Some(flag),
                '#' => spec.alternative = true,
                '0' => spec.zero = true,
                ',' | '_' | '\'' => spec.group = Some(flag.to_string()),
                _ => break,
            }
            chars.next();
        }
        spec.width = digits(&mut chars).unwrap_or(0);
        if chars.peek() == Some(&'.') {
            chars.next();
            let precision = digits(&mut chars);
            match (precision, chars.peek()) {
                // What stands between thousands, and not a precision.
                (None, Some('d' | 'i')) => spec.group = Some(".".to_owned()),
                (Some(0), Some('d' | 'i')) => {}
                _ => spec.precision = Some(precision.unwrap_or(0)),
            }
        }
        while matches!(chars.peek(), Some('h' | 'l' | 'z' | 'j' | 't')) {
            chars.next();
        }
        let kind = chars.next().ok_or_else(|| wrong(format))?;
        if spec.zero && spec.align == Some('>') {
            spec.align = None;
        }
        spec.kind = Some(kind);
        text.push_str(&spec.write(values.next().ok_or_else(|| wrong(format))?, format)?);
        within(&text)?;
    }
    Ok(text)
}

fn within(text: &str) -> std::result::Result<(), Error> {
    match text.len() as u64 > limits::TEXTS_BYTES / 64 {
        true => Err(Error::new(ErrorKind::MemoryLimit, "a format makes too long a text")),
        false => Ok(()),
    }
}

/// `{[place][:spec]}`, where a spec is `[[fill]align][sign][#][0][width][group][.precision][kind]`.
pub(super) fn format(format: &str, values: &[Value]) -> std::result::Result<String, Error> {
    let mut text = String::new();
    let mut next = 0;
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '{' if chars.peek() == Some(&'{') => {
                chars.next();
                text.push('{');
            }
            '}' if chars.peek() == Some(&'}') => {
                chars.next();
                text.push('}');
            }
            '}' => return Err(wrong(format)),
            '{' => {
                let place = digits(&mut chars);
                let mut spec = Spec::default();
                match chars.next() {
                    Some('}') => {}
                    Some(':') => {
                        let inner: String = chars.by_ref().take_while(|c| *c != '}').collect();
                        spec = of_spec(&inner).ok_or_else(|| wrong(format))?;
                    }
                    _ => return Err(wrong(format)),
                }
                let place = place.unwrap_or_else(|| {
                    next += 1;
                    next - 1
                });
                text.push_str(&spec.write(values.get(place).ok_or_else(|| wrong(format))?, format)?);
                within(&text)?;
            }
            c => text.push(c),
        }
    }
    Ok(text)
}

fn of_spec(inner: &str) -> Option<Spec> {
    let mut spec = Spec::default();
    let all: Vec<char> = inner.chars().collect();
    let mut rest: &[char] = &all;
    let is_align = |c: &char| matches!(c, '<' | '>' | '^');
    if rest.get(1).is_some_and(is_align) {
        (spec.fill, spec.align) = (rest.first().copied(), rest.get(1).copied());
        rest = &rest[2..];
    } else if rest.first().is_some_and(is_align) {
        spec.align = rest.first().copied();
        rest = &rest[1..];
    }
    if let Some(sign) = rest.first().filter(|c| matches!(c, '+' | '-' | ' ')) {
        spec.sign = Some(*sign).filter(|sign| *sign != '-');
        rest = &rest[1..];
    }
    if rest.first() == Some(&'#') {
        spec.alternative = true;
        rest = &rest[1..];
    }
    if rest.first() == Some(&'0') {
        spec.zero = true;
        rest = &rest[1..];
    }
    let text: String = rest.iter().collect();
    let mut chars = text.chars().peekable();
    spec.width = digits(&mut chars).unwrap_or(0);
    if let Some(group) = chars.peek().copied().filter(|c| matches!(c, ',' | '_' | '\'')) {
        spec.group = Some(group.to_string());
        chars.next();
    } else if chars.peek() == Some(&'t') {
        chars.next();
        spec.group = Some(chars.next()?.to_string());
    }
    if chars.peek() == Some(&'.') {
        chars.next();
        spec.precision = Some(digits(&mut chars)?);
    }
    spec.kind = chars.next();
    chars.next().is_none().then_some(spec)
}

/// A bar as long as a value is between two others.
pub(super) fn bar(value: f64, least: f64, most: f64, width: f64) -> std::result::Result<String, Error> {
    const EIGHTHS: [&str; 9] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
    if !width.is_finite() || !(1.0..=1000.0).contains(&width) || width.fract() != 0.0 {
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
    let (eighths, width) = ((share * 8.0) as usize, width as usize);
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
                        None => return Ok(never()?),
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

/// The first part of a format that is none of a year, a month, a day and a time of day, which are all that say a moment.
pub(super) fn unknown_part(format: &str) -> Option<String> {
    let mut chars = format.chars();
    let mut parts = String::new();
    while let Some(c) = chars.next() {
        if c == '%' {
            match chars.next() {
                Some(part) if "YmdHMSfBbpIy%".contains(part) => parts.push(part),
                Some(part) => return Some(format!("%{part}")),
                None => return Some("%".to_owned()),
            }
        }
    }
    let has = |any: &str| parts.contains(|part| any.contains(part));
    match has("Yy") && has("mbB") && has("d") {
        true => None,
        false => Some("no whole date".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_their_formats_say() {
        let int = |value: i128| Value::Int(value);
        let text = |text: &str| Value::Text(text.to_owned());
        for (format, values, expected) in [
            ("%s: %s", vec![text("a"), text("b")], "a: b"),
            ("%04d|%10d|%-4d|%+d", vec![int(33), int(1992), int(7), int(5)], "0033|      1992|7   |+5"),
            ("%,d %.d %.0d", vec![int(-1_234_567), int(1234), int(1234)], "-1,234,567 1.234 1234"),
            (
                "%.3f %e %x%%",
                vec![Value::Float(0.12345), Value::Float(1.5), int(255)],
                "0.123 1.500000e+00 ff%",
            ),
        ] {
            assert_eq!(printf(format, &values).unwrap(), expected);
        }
        for (spec, values, expected) in [
            ("{} {1} {{}}", vec![text("a"), int(2)], "a 2 {}"),
            ("{:>5}|{:*^5}|{:<5}|{:05}", vec![int(1), int(2), int(3), int(4)], "    1|**2**|3    |00004"),
            ("{:,} {:t|} {:.2f}", vec![int(1234), int(1_234_567), Value::Float(2.0)], "1,234 1|234|567 2.00"),
        ] {
            assert_eq!(format(spec, &values).unwrap(), expected);
        }
        assert!(printf("%d", &[text("a")]).is_err());
        assert!(printf("%d", &[]).is_err());
        assert!(printf("%999999999d", &[int(1)]).is_err());
        assert!(format("{", &[]).is_err());
    }

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
