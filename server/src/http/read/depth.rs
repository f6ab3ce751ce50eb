//! How deep JSON nests, before it is read: the reader of `arrow-json` goes as deep when it tells what is wrong with a value.

use super::invalid;
use crate::{limits, status::Result};

/// What is open behind the bytes that have come.
#[derive(Debug, Default)]
pub(super) struct Depth {
    open: usize,
    in_text: bool,
    /// The next byte of a text stands for itself.
    is_escaped: bool,
}

impl Depth {
    /// Takes in the next bytes.
    pub(super) fn check(&mut self, bytes: &[u8]) -> Result<()> {
        for byte in bytes {
            if self.in_text {
                let was_escaped = std::mem::take(&mut self.is_escaped);
                self.is_escaped = *byte == b'\\' && !was_escaped;
                self.in_text = *byte != b'"' || was_escaped;
                continue;
            }
            match byte {
                b'"' => self.in_text = true,
                b'[' | b'{' => self.open += 1,
                b']' | b'}' => self.open = self.open.saturating_sub(1),
                _ => {}
            }
            if self.open > limits::JSON_DEPTH {
                return Err(invalid(format!("JSON that nests deeper than {} levels", limits::JSON_DEPTH)));
            }
        }
        Ok(())
    }
}
