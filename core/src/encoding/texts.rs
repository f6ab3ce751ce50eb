//! Texts of consecutive rows as a column gives them: lent where it holds them, made where it does not.

use std::{borrow::Cow, ops::Range};

/// Texts of consecutive rows.
#[derive(Clone, Debug)]
pub enum Texts<'a> {
    /// Lent by the column.
    Lent(Vec<&'a str>),
    /// Made from the column.
    Made {
        /// The texts that were made, each at least once.
        arena: String,
        /// Where the text of each row lies in the arena.
        places: Vec<Range<usize>>,
    },
}

impl<'a> Texts<'a> {
    /// These texts.
    pub fn of(texts: impl Iterator<Item = Cow<'a, str>> + Clone) -> Self {
        let lent = |text: Cow<'a, str>| if let Cow::Borrowed(text) = text { Some(text) } else { None };
        if let Some(texts) = texts.clone().map(lent).collect() {
            return Self::Lent(texts);
        }
        let mut arena = String::new();
        let mut add = |text: Cow<'_, str>| {
            let from = arena.len();
            arena.push_str(&text);
            from..arena.len()
        };
        let places = texts.map(&mut add).collect();
        Self::Made { arena, places }
    }

    /// Rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Lent(texts) => texts.len(),
            Self::Made { places, .. } => places.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text of a row.
    pub fn get(&self, row: usize) -> &str {
        match self {
            Self::Lent(texts) => texts[row],
            Self::Made { arena, places } => &arena[places[row].clone()],
        }
    }

    /// The text of a row, to keep: copied only where the column does not lend it.
    pub fn keep(&self, row: usize) -> Cow<'a, str> {
        match self {
            Self::Lent(texts) => Cow::Borrowed(texts[row]),
            Self::Made { .. } => Cow::Owned(self.get(row).to_owned()),
        }
    }

    /// Texts among these, by their rows.
    #[must_use]
    pub fn pick(self, rows: &[usize]) -> Self {
        match self {
            Self::Lent(texts) => Self::Lent(rows.iter().map(|&row| texts[row]).collect()),
            Self::Made { arena, places } => {
                Self::Made { arena, places: rows.iter().map(|&row| places[row].clone()).collect() }
            }
        }
    }

    /// The texts of all rows in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|row| self.get(row))
    }
}

/// Bytes that a text takes beside its column.
#[allow(clippy::ptr_arg, reason = "whether it is owned is the question")]
pub(crate) fn owned_bytes(text: &Cow<'_, str>) -> usize {
    match text {
        Cow::Borrowed(_) => 0,
        Cow::Owned(text) => text.len(),
    }
}
