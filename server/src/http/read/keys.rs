//! The keys of a row of JSON, each of which is a column's. None may stand twice: the reader of `arrow-json` takes the last one
//! without a word; nor does it say in which row one is no column's.

use std::{borrow::Cow, collections::BTreeMap};

use basalt_core::{limits::MAX_NAME_BYTES, schema::Field, similar};
use basalt_proto::v1::ErrorReason;

use super::invalid;
use crate::status::{RequestError, Result};

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
    /// What has come of a key: of one that is too long for a column's, no more than shows that.
    key: Vec<u8>,
    /// The bytes that the key of a column, of whichever table, has at most.
    longest: usize,
}

impl Keys {
    pub(super) fn new(fields: &[Field]) -> Self {
        let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
        let places = names.iter().enumerate().map(|(place, name)| (name.clone(), place)).collect();
        // Default: without columns no key is one's.
        let longest = names.iter().map(String::len).max().unwrap_or(0);
        let longest = ESCAPED * longest.max(MAX_NAME_BYTES);
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
        let Some(column) = self.column() else {
            let unknown = self.unknown();
            self.key.clear();
            return unknown;
        };
        self.key.clear();
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
        self.places.get(&*self.text()?).copied()
    }

    /// What the key stands for; `None`: it is no text.
    fn text(&self) -> Option<Cow<'_, str>> {
        if !self.key.contains(&b'\\') {
            return std::str::from_utf8(&self.key).ok().map(Cow::Borrowed);
        }
        let text = [b"\"", self.key.as_slice(), b"\""].concat();
        serde_json::from_slice::<String>(&text).ok().map(Cow::Owned)
    }

    /// Fails where the key is no column's. What is no text is told by the reader.
    fn unknown(&self) -> Result<()> {
        let text = match self.key.len() > self.longest {
            true => Some(String::from_utf8_lossy(&self.key)),
            false => self.text(),
        };
        let Some(text) = text else { return Ok(()) };
        let name: String = text.chars().take(MAX_NAME_BYTES).collect();
        let meant = similar::hint(&name, self.names.iter().map(String::as_str));
        let message = format!("row {}: the table has no column {name:?}{meant}", self.row);
        Err(RequestError::new(ErrorReason::ColumnNotFound, message))
    }
}
