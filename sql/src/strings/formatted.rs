//! Values in the form that a format says: C's `printf`, Python's `format`.

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
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
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
}
