//! What is looked for in JSON before it is read: how deep it nests, for the reader of `arrow-json` goes as deep when it tells what
//! is wrong with a value, and keys that stand twice.

use basalt_core::schema::Field;

use super::{invalid, keys::Keys};
use crate::{limits, status::Result};

/// What is open behind the bytes that have come.
#[derive(Debug)]
pub(super) struct Depth {
    open: usize,
    /// What is open first is a row: an array, which is none, has no keys.
    in_row: bool,
    text: Text,
    /// The next byte of a text stands for itself.
    is_escaped: bool,
    /// The next text is a key of the row.
    before_key: bool,
    keys: Keys,
}

/// The text that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    None,
    /// A key of the row.
    Key,
    Other,
}

impl Depth {
    /// For rows of these columns.
    pub(super) fn new(fields: &[Field]) -> Self {
        let keys = Keys::new(fields);
        Self { open: 0, in_row: false, text: Text::None, is_escaped: false, before_key: false, keys }
    }

    /// Takes in the next bytes.
    pub(super) fn check(&mut self, bytes: &[u8]) -> Result<()> {
        // Where what is here of a key begins.
        let mut from = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if self.text != Text::None {
                let was_escaped = std::mem::take(&mut self.is_escaped);
                self.is_escaped = *byte == b'\\' && !was_escaped;
                if *byte == b'"' && !was_escaped && std::mem::replace(&mut self.text, Text::None) == Text::Key
                {
                    self.keys.take_in(&bytes[from..at]);
                    self.keys.end()?;
                }
                continue;
            }
            match byte {
                b'"' => {
                    self.text = if std::mem::take(&mut self.before_key) { Text::Key } else { Text::Other };
                    from = at + 1;
                }
                b'[' | b'{' => {
                    let begins_row = *byte == b'{' && self.open == 0;
                    if self.open == 0 {
                        self.in_row = begins_row;
                    }
                    if begins_row {
                        self.keys.begin_row();
                    }
                    self.before_key = begins_row;
                    self.open += 1;
                }
                b']' | b'}' => self.open = self.open.saturating_sub(1),
                b',' => self.before_key = self.in_row && self.open == 1,
                _ => {}
            }
            if self.open > limits::JSON_DEPTH {
                return Err(invalid(format!("JSON that nests deeper than {} levels", limits::JSON_DEPTH)));
            }
        }
        if self.text == Text::Key {
            self.keys.take_in(&bytes[from..]);
        }
        Ok(())
    }
}
