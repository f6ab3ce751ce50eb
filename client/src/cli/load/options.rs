//! How texts are read: nulls, dates and times, and which columns are wanted.

use arrow_schema::DataType;

use super::{LoadArgs, formats::Formats};

/// Texts that stand for null where nothing else is said.
pub(crate) const NULLS: [&str; 3] = ["", "NULL", r"\N"];
/// Where nothing else is said this one stands for null too, but not in a column of text, where it is Namibia, or a name.
const NULL_BUT_TEXT: &[u8] = b"NA";

/// How files are read.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(super) delimiter: Option<u8>,
    pub(super) has_header: bool,
    nulls: Vec<Vec<u8>>,
    longest_null: usize,
    /// `NA` is null in columns that are no text.
    has_default_nulls: bool,
    pub(super) formats: Formats,
    /// The columns to load; `None`: all.
    pub(super) columns: Option<Vec<String>>,
    /// Columns that no table holds are left out.
    pub(super) skip_unsupported: bool,
}

impl Options {
    pub(crate) fn new(args: &LoadArgs) -> Self {
        let nulls: Vec<Vec<u8>> = match &args.null {
            Some(nulls) => nulls.iter().map(|n| n.clone().into_bytes()).collect(),
            None => NULLS.iter().map(|n| n.as_bytes().to_vec()).collect(),
        };
        let longest_null = nulls.iter().map(Vec::len).max().unwrap_or(0);
        Self {
            delimiter: args.delimiter,
            has_header: !args.no_header,
            nulls,
            longest_null,
            has_default_nulls: args.null.is_none(),
            formats: Formats::new(&args.date_format),
            columns: args.columns.clone(),
            skip_unsupported: args.skip_unsupported,
        }
    }

    /// Whether a cell of a CSV stands for null.
    pub(super) fn is_null(&self, cell: &[u8], in_text: bool) -> bool {
        // Most cells begin with another character than every null, by which they are told without a comparison of bytes.
        let is = |null: &Vec<u8>| null.first() == cell.first() && null == cell;
        (cell.len() <= self.longest_null && self.nulls.iter().any(is))
            || (!in_text && self.is_null_but_text(cell))
    }

    /// Whether a cell of a CSV that was in quotes stands for null. What nobody has named as null is itself where it can be,
    /// so that an empty text is told from a null; in a column of numbers it cannot.
    pub(super) fn is_null_in_quotes(&self, cell: &[u8], data_type: &DataType) -> bool {
        match data_type {
            DataType::Utf8 if self.has_default_nulls => false,
            DataType::Binary if self.has_default_nulls && cell.is_empty() => false,
            data_type => self.is_null(cell, *data_type == DataType::Utf8),
        }
    }

    /// Whether nulls are those of [`NULLS`], which are texts where they are quoted.
    pub(super) fn has_default_nulls(&self) -> bool {
        self.has_default_nulls
    }

    /// Whether a cell of a CSV stands for null unless its column is text.
    pub(super) fn is_null_but_text(&self, cell: &[u8]) -> bool {
        self.has_default_nulls && cell == NULL_BUT_TEXT
    }

    /// Whether a column may be one that is to be loaded; which one a name means is known when all of them are.
    pub(super) fn wants(&self, column: &str) -> bool {
        let is_meant = |name: &String| name.to_lowercase() == column.to_lowercase();
        self.columns.as_ref().is_none_or(|columns| columns.iter().any(is_meant))
    }
}
