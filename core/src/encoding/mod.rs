//! How one column of one fragment is held in memory.
//!
//! Every fixed-width type maps to *keys*: i64 in the type's own order (`keys`), so that an encoding knows
//! integers alone and every comparison is a range of keys. Text is held by encodings of its own, of which
//! the dictionary has keys (codes in the order of the texts) again.
//!
//! An encoding is one file and one line in [`KEY_ENCODINGS`] or [`TEXT_ENCODINGS`]. What it makes is one
//! buffer that begins with its code byte; [`open_keys`] and [`open_text`] validate such a buffer before they
//! believe a byte of it. The conformance suite runs on every line of the lists.
//!
//! An encoding of level n holds columns of lower levels, so that nesting ends:
//!
//! | level | encoding | what it holds | wins where |
//! |---|---|---|---|
//! | 0 | constant, plain, packed | one key; an array; differences to a block's least, bit-packed in the rows' order, with patched exceptions | there is no pattern, or no time |
//! | 1 | entropy, bitcompress | up to 256 keys: nibble rANS that decodes to packed codes, bytes beyond 16 keys; the first source's codec | frequencies differ |
//! | 2 | sparse, elias_fano | one common key, and where the others are: Rice-coded gaps; Elias-Fano where a row is to be found fast | one key rules |
//! | 3 | runs | Rice-coded run lengths, two parameters | equal keys stand together |
//! | 4 | dictionary | sorted distinct keys, and codes | few keys lie far apart |
//! | 5 | delta | the first key of every 512 rows, and differences | keys go up, or change little |
//! | 6 | alp | floats as decimals: integers, two powers of ten, exceptions bit for bit | prices, measurements |

mod alp;
pub mod bitcompress;
mod bitpack;
mod bytes;
mod cache;
mod chooser;
mod code_map;
#[cfg(test)]
mod conformance;
mod constant;
mod delta;
mod dictionary;
mod elias_fano;
mod encode;
mod entropy;
mod fallback;
mod key_table;
mod mask;
mod members;
mod packed;
mod plain;
mod predicate;
mod rice;
mod runs;
mod sparse;
mod stats;
mod text;
mod text_members;
mod texts;

use std::{borrow::Cow, fmt, sync::Arc};

use arrow_buffer::Buffer;

use self::bytes::{aligned, corrupt, ensure};
pub use self::{
    chooser::SizeEstimate,
    encode::{
        Encoded, EncodedKeys, EncodedTexts, check_forced, encode_keys, encode_texts, encode_validity,
        estimates_for_keys, estimates_for_texts,
    },
    members::{IdKeys, Members},
    stats::{BlockStats, KeyStats, MAX_VALUE_COUNTS, SAMPLE_ROWS, ValueCounts},
    text::TextStats,
    text_members::TextMembers,
    texts::Texts,
};
pub(crate) use self::{code_map::CodeMap, texts::owned_bytes};
use crate::{
    error::Result,
    keys::{Native, NativeSlice},
};

/// The version of what encoded columns are as bytes, heads of [`ColumnParts`](crate::fragment::ColumnParts) included. It
/// goes up when bytes that were written before are to be read no longer: what keeps columns elsewhere drops them then.
pub const FORMAT_VERSION: u32 = 1;

/// Rows whose places `decode` and `filter` may start at: every multiple of it.
pub const UNIT_ROWS: usize = 512;

/// What a filter asks of keys. Negation is the caller's: it knows the nulls.
#[derive(Clone, Debug)]
pub enum KeyTest {
    /// `lo <= key <= hi`; empty when `lo > hi`.
    Range {
        /// The smallest key that passes.
        lo: i64,
        /// The largest key that passes.
        hi: i64,
    },
    /// Keys of a set.
    In(Arc<Members>),
}

/// What a filter asks of texts.
#[derive(Clone, Debug)]
pub enum TextTest {
    /// `lo <= text <= hi` in byte order, each bound inclusive, exclusive or absent.
    Range {
        /// The lower bound.
        lo: std::ops::Bound<String>,
        /// The upper bound.
        hi: std::ops::Bound<String>,
    },
    /// Texts of a set.
    In(Arc<TextMembers>),
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
/// Ranges have at least one row; `start` is a multiple of [`UNIT_ROWS`] and `start + n <= rows()`. Masks have one word for 64 rows,
/// row 0 in the lowest bit, and bits behind the last row are 0.
pub trait KeyColumn: fmt::Debug + Send + Sync {
    /// Rows held.
    fn rows(&self) -> usize;

    /// The buffer that `open_keys` opens again; its length is the column's size, everything counted.
    fn buffer(&self) -> &Buffer;

    /// The type whose keys they are.
    fn key_type(&self) -> Native {
        bytes::key_type(self.buffer())
    }

    /// The encodings in use, outermost first: `packed`, `dictionary(bitcompress)`.
    fn name(&self) -> String;

    /// Writes the keys of rows `start..start + out.len()`.
    fn decode(&self, start: usize, out: &mut [i64]);

    /// Writes the floats of rows `start..start + out.len()` of a column of float64 or float32, widened.
    fn decode_floats(&self, start: usize, out: &mut [f64]) {
        fallback::decode_floats(self, start, out);
    }

    /// The key of one row.
    fn get(&self, row: usize) -> i64;

    /// Writes the keys of the rows at ascending places behind row `start`, the first of a block.
    fn gather(&self, start: usize, places: &[u16], out: &mut [i64]) {
        fallback::gather(self, start, places, out);
    }

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

    /// What it costs to read.
    fn costs(&self) -> Costs {
        Costs { filter: 500, look_up: LOOK_UP_COST, get: 1000 }
    }
}

/// Picoseconds that it takes to look up a key in a set.
pub const LOOK_UP_COST: u32 = 500;

/// What it costs to read a column, roughly: for the order of filters, and to choose between one row and many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Picoseconds a row of [`KeyColumn::filter`] by a range.
    pub filter: u32,
    /// Picoseconds a row more where it is by a set.
    pub look_up: u32,
    /// Nanoseconds of [`KeyColumn::get`].
    pub get: u32,
}

impl Costs {
    /// Picoseconds a row of [`KeyColumn::filter`] by a test.
    pub fn filter_by(self, test: &KeyTest) -> u32 {
        self.filter + if let KeyTest::In(_) = test { self.look_up } else { 0 }
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
    fn get(&self, row: usize) -> Cow<'_, str>;

    /// The texts of rows `start..start + rows`; that of a row which is null, or which `selected` does not select
    /// (`None`: all are), is some text that was no work.
    fn decode(&self, start: usize, rows: usize, selected: Option<&[u64]>) -> Texts<'_>;

    /// The texts of some rows, in any order.
    fn pick(&self, rows: &[usize]) -> Texts<'_>;

    /// Writes the mask of rows `start..start + rows` that pass, over all of `out`. Only rows of `under` (`None`:
    /// all) count: the bits of the others are arbitrary.
    fn filter(&self, start: usize, rows: usize, test: &TextTest, under: Option<&[u64]>, out: &mut [u64]);

    /// The column as codes into sorted distinct texts, where it is held so.
    fn codes(&self) -> Option<Codes<'_, dyn TextColumn>> {
        None
    }
}

/// A way to hold keys.
pub trait KeyEncoding: Sync {
    /// The first byte of its buffers. Never changes.
    fn code(&self) -> u8;

    /// What people call it.
    fn name(&self) -> &'static str;

    /// How deep its buffers nest: an encoding of level n holds columns of lower levels alone.
    fn level(&self) -> u8 {
        0
    }

    /// The size of what it would make of a column; `None` when it cannot hold it.
    fn estimate(&self, stats: &KeyStats) -> Option<SizeEstimate>;

    /// Encodes a column for which it has given an estimate.
    ///
    /// # Errors
    /// Those of an encoding it holds the parts with.
    fn encode(&self, keys: &[i64], stats: &KeyStats) -> Result<Buffer>;

    /// Opens an aligned buffer that has its code. That the keys are of their type is for the caller to see.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`](crate::error::ErrorKind::Corrupt).
    fn open(&self, buffer: Buffer) -> Result<Arc<dyn KeyColumn>>;
}

/// A way to hold texts.
pub trait TextEncoding: Sync {
    /// The first byte of its buffers. Never changes.
    fn code(&self) -> u8;

    /// What people call it.
    fn name(&self) -> &'static str;

    /// The size of what it would make of a column; `None` when it cannot hold it.
    fn estimate(&self, stats: &TextStats<'_>) -> Option<SizeEstimate>;

    /// Encodes a column for which it has given an estimate.
    ///
    /// # Errors
    /// Those of an encoding it holds the parts with.
    fn encode(&self, stats: &TextStats<'_>) -> Result<Buffer>;

    /// Opens an aligned buffer that has its code.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`](crate::error::ErrorKind::Corrupt).
    fn open(&self, buffer: Buffer) -> Result<Arc<dyn TextColumn>>;
}

/// Encodings of keys, the fastest to filter first: the chooser takes the first that is nearly as small as the smallest.
/// A constant is no work; plain values stream through the kernels; packed ones are compared packed; runs are as
/// fast as they are few, but a row is searched; of a common key the rows of the others alone are read; a dictionary adds
/// a look-up to the encoding below it, decimals a multiplication; differences are searched where the keys are sorted,
/// else added up; entropy coded codes are decoded before they are compared; bitcompress goes symbol by symbol.
pub static KEY_ENCODINGS: &[&dyn KeyEncoding] = &[
    &constant::Constant,
    &plain::Plain,
    &packed::Packed,
    &runs::Runs,
    &sparse::Sparse,
    &elias_fano::EliasFano,
    &dictionary::Dictionary,
    &alp::Alp,
    &delta::Delta,
    &entropy::Entropy,
    &bitcompress::Bitcompress,
];

/// Encodings of texts, the fastest to filter first: a dictionary tests each text once, raw texts are tested row
/// by row, and those in FSST are decoded before.
pub static TEXT_ENCODINGS: &[&dyn TextEncoding] = &[&text::Dictionary, &text::Raw, &text::Fsst];

/// Opens a column of keys.
///
/// # Errors
/// [`ErrorKind::Corrupt`](crate::error::ErrorKind::Corrupt) when the bytes are not a column, or a key is not one
/// of its type.
pub fn open_keys(buffer: Buffer) -> Result<Arc<dyn KeyColumn>> {
    open_below(aligned(buffer), u8::MAX)
}

/// Opens a column of keys of a level below `level`.
fn open_below(buffer: Buffer, level: u8) -> Result<Arc<dyn KeyColumn>> {
    let known = KEY_ENCODINGS.iter().find(|encoding| Some(&encoding.code()) == buffer.first());
    let encoding = known.ok_or_else(|| corrupt("unknown encoding of keys"))?;
    ensure(encoding.level() < level, "an encoding nests too deep")?;
    let (_, native, _) = bytes::Reader::keys(buffer.clone())?;
    let column = encoding.open(buffer)?;
    let (least, greatest) = native.key_range();
    let extremes = column.min_max(0, column.rows(), None);
    let of_type = extremes.is_some_and(|(min, max)| least <= min && max <= greatest);
    ensure(of_type, "a key is not of its type")?;
    Ok(column)
}

/// Opens a column of texts.
///
/// # Errors
/// [`ErrorKind::Corrupt`](crate::error::ErrorKind::Corrupt) when the bytes are not a column.
pub fn open_text(buffer: Buffer) -> Result<Arc<dyn TextColumn>> {
    let known = TEXT_ENCODINGS.iter().find(|encoding| Some(&encoding.code()) == buffer.first());
    known.ok_or_else(|| corrupt("unknown encoding of texts"))?.open(aligned(buffer))
}
