//! How one column of one fragment is held in memory.
//!
//! Every fixed-width type maps to *keys*: i64 in the type's own order (`keys`), so that an encoding knows
//! integers alone and every comparison is a range of keys. Text is held by encodings of its own, of which
//! the dictionary has keys (codes in the order of the texts) again.
//!
//! An encoding is one file and one line in [`KEY_ENCODINGS`] or [`TEXT_ENCODINGS`]. What it makes is one
//! buffer that begins with its code byte; [`open_keys`] and [`open_text`] validate such a buffer before they
//! believe a byte of it. The conformance suite runs on every line of the lists.

use std::{fmt, sync::Arc};

use arrow_array::StringArray;
use arrow_buffer::Buffer;

use crate::keys::{Native, NativeSlice};

/// Rows whose places `decode` and `filter` may start at: every multiple of it.
pub const UNIT_ROWS: usize = 512;

/// What a filter asks of keys. Negation is the caller's: it knows the nulls.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyTest {
    /// `lo <= key <= hi`; empty when `lo > hi`.
    Range {
        /// The smallest key that passes.
        lo: i64,
        /// The largest key that passes.
        hi: i64,
    },
    /// Keys of a sorted list without duplicates.
    In(Arc<[i64]>),
}

/// What a filter asks of texts.
#[derive(Clone, Debug, PartialEq)]
pub enum TextTest {
    /// `lo <= text <= hi` in byte order, each bound inclusive, exclusive or absent.
    Range {
        /// The lower bound.
        lo: std::ops::Bound<String>,
        /// The upper bound.
        hi: std::ops::Bound<String>,
    },
    /// Texts of a sorted list without duplicates.
    In(Arc<[String]>),
    /// SQL LIKE.
    Like(Arc<crate::like::Pattern>),
}

/// Keys that are places in a sorted list of distinct values.
#[derive(Clone, Copy, Debug)]
pub struct Codes<'a, T: ?Sized> {
    /// One code (0, 1, ...) for each row.
    pub codes: &'a dyn KeyColumn,
    /// The values by code, sorted, without duplicates.
    pub entries: &'a T,
}

/// An encoded column of keys. Rows under a null hold some key; the caller knows which rows those are.
///
/// `start` is a multiple of [`UNIT_ROWS`] and `start + n <= rows()`; masks have one word for 64 rows,
/// row 0 in the lowest bit, and bits behind the last row are 0.
pub trait KeyColumn: fmt::Debug + Send + Sync {
    /// Rows held.
    fn rows(&self) -> usize;

    /// The buffer that `open_keys` opens again; its length is the column's size, everything counted.
    fn buffer(&self) -> &Buffer;

    /// The encodings in use, outermost first: `packed`, `dictionary(bitcompress)`.
    fn name(&self) -> String;

    /// Writes the keys of rows `start..start + out.len()`.
    fn decode(&self, start: usize, out: &mut [i64]);

    /// The key of one row.
    fn get(&self, row: usize) -> i64;

    /// Writes the mask of rows `start..start + rows` that pass, over all of `out` (`rows.div_ceil(64)` words).
    fn filter(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]);

    /// The exact sum of the keys of rows `start..start + rows` that `mask` selects (`None`: all).
    fn sum(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> i128;

    /// The least and the greatest key of rows `start..start + rows` that `mask` selects.
    fn min_max(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> Option<(i64, i64)>;

    /// The column as codes into sorted distinct keys, where it is held so.
    fn codes(&self) -> Option<Codes<'_, [i64]>> {
        None
    }

    /// The column as a plain array, where it is held so.
    fn native(&self) -> Option<NativeSlice<'_>> {
        None
    }
}

/// An encoded column of texts; the same rules as for [`KeyColumn`].
pub trait TextColumn: fmt::Debug + Send + Sync {
    /// Rows held.
    fn rows(&self) -> usize;

    /// The buffer that `open_text` opens again; its length is the column's size, everything counted.
    fn buffer(&self) -> &Buffer;

    /// The encodings in use, outermost first: `text`, `dictionary(packed)`.
    fn name(&self) -> String;

    /// The text of one row.
    fn get(&self, row: usize) -> &str;

    /// Appends the texts of rows `start..start + rows` to `out`; one behind a null is some text.
    fn decode<'a>(&'a self, start: usize, rows: usize, out: &mut Vec<&'a str>);

    /// Writes the mask of rows `start..start + rows` that pass, over all of `out`.
    fn filter(&self, start: usize, rows: usize, test: &TextTest, out: &mut [u64]);

    /// The column as codes into sorted distinct texts, where it is held so.
    fn codes(&self) -> Option<Codes<'_, StringArray>> {
        None
    }
}

#[allow(unused_imports, reason = "the seam, filled by the encodings")]
use Native as _;
