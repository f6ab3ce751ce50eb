//! The keys of a row of JSON, none of which may stand twice: the reader of `arrow-json` takes the last one without a word.

use std::collections::BTreeMap;

use basalt_core::schema::Field;

use super::invalid;
use crate::status::Result;

/// What a byte of a name takes at most in JSON: `\u0061`.
const ESCAPED: usize = 6;

/// The columns whose keys a row has had.
#[derive(Debug)]
pub(super) struct Keys {
    names: Vec<String>,
    /// Where each of the names stands.
    places: BTreeMap<String, usize>,
    /// The row in which the key of a column came last, counted from 1.
    seen: Vec<u64>,
    row: u64,
    /// The column whose key is the next one where they come in the order of the table.
    next: usize,
    /// What has come of a key: of one that is no column's, no more than shows that.
    key: Vec<u8>,
    /// The bytes that the key of a column has at most.
    longest: usize,
}

impl Keys {
    pub(super) fn new(fields: &[Field]) -> Self {
        let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
        let places = names.iter().enumerate().map(|(place, name)| (name.clone(), place)).collect();
        // Default: without columns there are no keys.
        let longest = ESCAPED * names.iter().map(String::len).max().unwrap_or(0);
        let seen = vec![0; names.len()];
        Self { names, places, seen, row: 0, next: 0, key: Vec::new(), longest }
    }

    /// An object begins.
    pub(super) fn begin_row(&mut self) {
        (self.row, self.next) = (self.row + 1, 0);
    }

    /// The next bytes of a key, as they stand between its quotes.
    pub(super) fn take_in(&mut self, bytes: &[u8]) {
        let room = (self.longest + 1).saturating_sub(self.key.len());
        self.key.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// The key is whole.
    pub(super) fn end(&mut self) -> Result<()> {
        let column = self.column();
        self.key.clear();
        // What is no column's is told by the reader.
        let Some(column) = column else { return Ok(()) };
        self.next = column + 1;
        if std::mem::replace(&mut self.seen[column], self.row) == self.row {
            let (row, name) = (self.row, &self.names[column]);
            return Err(invalid(format!("row {row}, column {name:?}: its key stands twice")));
        }
        Ok(())
    }

    fn column(&self) -> Option<usize> {
        if self.names.get(self.next).is_some_and(|name| name.as_bytes() == self.key) {
            return Some(self.next);
        }
        if self.key.len() > self.longest {
            return None;
        }
        if self.key.contains(&b'\\') {
            let text = [b"\"", self.key.as_slice(), b"\""].concat();
            let name: String = serde_json::from_slice(&text).ok()?;
            return self.places.get(&name).copied();
        }
        self.places.get(std::str::from_utf8(&self.key).ok()?).copied()
    }
}
