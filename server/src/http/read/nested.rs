//! Lists and objects as values of rows of JSON: they become the texts that hold them, without spaces, as `basalt load` makes them.

use std::borrow::Cow;

use serde::de::IgnoredAny;

use super::{invalid, too_large, unread};
use crate::{limits, status::Result};

/// Makes texts of them as the bytes of rows come.
#[derive(Debug, Default)]
pub(super) struct Nested {
    /// What is open.
    open: usize,
    /// What is open first is a row.
    in_row: bool,
    in_text: bool,
    /// The next byte of a text stands for itself.
    is_escaped: bool,
    /// The last byte outside of texts, but for spaces.
    last: u8,
    /// Spaces have come behind it.
    was_space: bool,
    /// A list or an object is open that is a value of a row.
    in_value: bool,
    /// What has come of it.
    value: Vec<u8>,
}

impl Nested {
    /// Bytes that are kept until more come.
    pub(super) fn held(&self) -> usize {
        self.value.len()
    }

    /// The next bytes, with a text where a list or an object ends.
    pub(super) fn take_in<'a>(&mut self, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let mut out = self.in_value.then(Vec::new);
        // What is not given on begins there.
        let mut from = 0;
        for (at, byte) in bytes.iter().copied().enumerate() {
            if self.in_text {
                let was_escaped = std::mem::take(&mut self.is_escaped);
                self.is_escaped = byte == b'\\' && !was_escaped;
                self.in_text = byte != b'"' || was_escaped;
                if self.in_value {
                    self.value.push(byte);
                }
                continue;
            }
            if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                self.was_space = true;
                continue;
            }
            // Two numbers or words are not one, which they would be without the spaces between them.
            if std::mem::take(&mut self.was_space) && self.in_value && is_bare(self.last) && is_bare(byte) {
                self.value.push(b' ');
            }
            match byte {
                b'"' => self.in_text = true,
                b'[' | b'{' => {
                    if self.open == 0 {
                        self.in_row = byte == b'{';
                    } else if self.open == 1 && self.in_row && self.last == b':' {
                        self.in_value = true;
                        out.get_or_insert_default().extend_from_slice(&bytes[from..at]);
                    }
                    self.open += 1;
                }
                b']' | b'}' => self.open = self.open.saturating_sub(1),
                _ => {}
            }
            self.last = byte;
            if self.in_value {
                self.value.push(byte);
                if self.open == 1 {
                    self.end(out.get_or_insert_default())?;
                    from = at + 1;
                }
            }
        }
        if self.value.len() > limits::HTTP_ROW_BYTES {
            return Err(too_large("a row", limits::HTTP_ROW_BYTES));
        }
        Ok(match out {
            None => Cow::Borrowed(bytes),
            Some(mut out) => {
                if !self.in_value {
                    out.extend_from_slice(&bytes[from..]);
                }
                Cow::Owned(out)
            }
        })
    }

    /// Gives the value that has come to its end on as a text.
    fn end(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.in_value = false;
        let value = std::mem::take(&mut self.value);
        serde_json::from_slice::<IgnoredAny>(&value).map_err(unread)?;
        let text = std::str::from_utf8(&value).map_err(|_| invalid("the body is not UTF-8"))?;
        serde_json::to_writer(out, text).map_err(unread)
    }
}

/// Whether a byte is one of a number or of a word.
fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(json: &str, piece: usize) -> Result<String> {
        let (mut nested, mut out) = (Nested::default(), Vec::new());
        for piece in json.as_bytes().chunks(piece) {
            out.extend_from_slice(&nested.take_in(piece)?);
        }
        assert_eq!(nested.held(), 0);
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn lists_and_objects_are_texts_however_they_are_cut() {
        for (json, expected) in [
            (
                "{\"a\" : [ 1, \"x ]\\\"\" ],\n \"b\": {\"c\": {\"d\": []}} }\n{\"a\": \"[1]\"} ",
                "{\"a\" : \"[1,\\\"x ]\\\\\\\"\\\"]\",\n \"b\": \"{\\\"c\\\":{\\\"d\\\":[]}}\" }\n{\"a\": \"[1]\"} ",
            ),
            ("{\"ü\": [\"ü\\\\\"], \"n\": 1}", "{\"ü\": \"[\\\"ü\\\\\\\\\\\"]\", \"n\": 1}"),
            // What is no value of a row stays what it is.
            ("[{\"a\": [1]}]", "[{\"a\": [1]}]"),
            ("{[1]: [2]} {\"a\" [1]}", "{[1]: \"[2]\"} {\"a\" [1]}"),
            ("{\"a\": [1] [2]}", "{\"a\": \"[1]\" [2]}"),
        ] {
            for piece in 1..=json.len() {
                assert_eq!(texts(json, piece).unwrap(), expected, "{piece}");
            }
        }
        assert!(matches!(Nested::default().take_in(b"{\"a\": 1}\n").unwrap(), Cow::Borrowed(_)));
    }

    #[test]
    fn what_is_no_json_is_none() {
        for json in [
            "{\"a\": [1}}",
            "{\"a\": [1,]}",
            "{\"a\": {1: 2}}",
            "{\"a\": [\"\n\"]}",
            "{\"a\": [1 2]}",
            "{\"a\": [tr ue]}",
            "{\"a\": [- 1]}",
            "{\"a\": {\"k\": 1\n2}}",
        ] {
            let read = |piece: usize| {
                let mut nested = Nested::default();
                json.as_bytes().chunks(piece).try_for_each(|piece| nested.take_in(piece).map(drop))
            };
            assert!((1..=json.len()).all(|piece| read(piece).is_err()), "{json}");
        }
    }

    #[test]
    fn a_value_is_no_longer_than_a_row() {
        let mut nested = Nested::default();
        nested.take_in(b"{\"a\": [\"").unwrap();
        let more = vec![b'x'; limits::HTTP_PIECE_BYTES];
        let taken = (0..=limits::HTTP_ROW_BYTES / more.len()).map(|_| nested.take_in(&more).map(drop));
        let error = taken.collect::<Result<()>>().unwrap_err();
        assert!(error.message().contains("a row"), "{}", error.message());
    }
}
