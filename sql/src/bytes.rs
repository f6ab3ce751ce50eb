//! Texts that stand for bytes: `\\xAA` is a byte, as in DuckDB, and other characters are their own bytes; digits alone behind one
//! `\\x` are all of the bytes, as in PostgreSQL.

use arrow_array::{BinaryArray, StringArray, builder::BinaryBuilder};
use basalt_core::error::ErrorKind;

use crate::error::{Error, Result};

/// The bytes of texts. One that stands for none is an error, or NULL where that is asked for.
pub(crate) fn of_texts(texts: &StringArray, or_null: bool) -> Result<BinaryArray> {
    let mut read = BinaryBuilder::new();
    for text in texts {
        match text.map(of_text) {
            None => read.append_null(),
            Some(Some(bytes)) => read.append_value(bytes),
            Some(None) if or_null => read.append_null(),
            Some(None) => {
                let message = format!("{:?} stands for no bytes", text.unwrap_or_default());
                return Err(Error::new(ErrorKind::TypeMismatch, message));
            }
        }
    }
    Ok(read.finish())
}

/// The bytes of a text; `None`: it stands for none.
fn of_text(text: &str) -> Option<Vec<u8>> {
    // PostgreSQL's form, which its drivers write. Of one byte it is the same.
    if text.starts_with("\\x")
        && text.len() > 4
        && let Some(bytes) = of_hex(text)
    {
        return Some(bytes);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        if *byte != b'\\' {
            bytes.push(*byte);
            rest = behind;
            continue;
        }
        let digits = behind.strip_prefix(b"x").and_then(|digits| digits.get(..2));
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits.and_then(|digits| {
            std::str::from_utf8(digits).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok())
        })?;
        bytes.push(byte);
        rest = &behind[3..];
    }
    Some(bytes)
}

/// The bytes of hexadecimal digits, two for each, behind `\\x` or without it, as files have them. `None`: these are none.
pub(crate) fn of_hex(text: &str) -> Option<Vec<u8>> {
    // Default: digits alone.
    let digits = text.strip_prefix("\\x").unwrap_or(text);
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        pair.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u8::from_str_radix(pair, 16).ok())?
    };
    digits.as_bytes().chunks(2).map(byte).collect()
}

/// The bytes of a text as PostgreSQL reads one: `\\x` and two digits for each, or characters, where a backslash stands before
/// another or before three octal digits. `None`: it stands for none.
pub(crate) fn of_postgres(text: &str) -> Option<Vec<u8>> {
    if text.starts_with("\\x") {
        return of_hex(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'\\' {
            bytes.push(*byte);
        } else if let Some(behind) = behind.strip_prefix(b"\\") {
            bytes.push(b'\\');
            rest = behind;
        } else {
            let digits = behind.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()?);
            rest = &behind[3..];
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_postgresql_stand_for_bytes() {
        assert_eq!(of_postgres("\\xDEadbe"), Some(vec![0xde, 0xad, 0xbe]));
        assert_eq!(of_postgres("\\x"), Some(vec![]));
        assert_eq!(of_postgres("a\\\\b\\000\\377"), Some(vec![b'a', b'\\', b'b', 0, 255]));
        for text in ["\\xA", "\\x+1", "\\", "\\400", "\\n"] {
            assert_eq!(of_postgres(text), None, "{text}");
        }
    }

    #[test]
    fn digits_stand_for_bytes() {
        for text in ["00fF", "\\x00ff"] {
            assert_eq!(of_hex(text), Some(vec![0, 255]), "{text}");
        }
        assert_eq!(of_hex(""), Some(vec![]));
        for text in ["0", "\\x0", "0g", "+1", "é", "\\x00\\xff"] {
            assert_eq!(of_hex(text), None, "{text}");
        }
    }

    #[test]
    fn texts_stand_for_bytes() {
        assert_eq!(of_text("ab"), Some(b"ab".to_vec()));
        assert_eq!(of_text("\\xAA\\x20b"), Some(vec![0xaa, 0x20, b'b']));
        assert_eq!(of_text("\\xaa"), Some(vec![0xaa]));
        assert_eq!(of_text("a\\b"), None);
        assert_eq!(of_text("\\xA"), None);
        assert_eq!(of_text("\\xDEadbeef"), Some(vec![0xde, 0xad, 0xbe, 0xef]));
        // It has other characters, or half a byte.
        assert_eq!(of_text("\\xDEan"), Some(vec![0xde, b'a', b'n']));
        assert_eq!(of_text("\\xDEa"), Some(vec![0xde, b'a']));
    }
}
