//! What a column and an encoding are.

use std::{borrow::Cow, fmt, sync::Arc};

use arrow_buffer::Buffer;
use basalt_kernels::{
    FloatSum,
    decimals::{Decimals, as_bits},
    packed::Patch,
};

use super::{
    bytes,
    estimate::SizeEstimate,
    floats,
    predicate::{KeyTest, TextTest},
    stats::KeyStats,
    text::TextStats,
    texts::Texts,
};
use crate::{
    error::Result,
    keys::{self, Native, NativeSlice},
    limits::BATCH_ROWS,
    schema::Optimize,
};

pub use super::bytes::UNIT_ROWS;

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
        decode_floats(self, start, out);
    }

    /// The key of one row.
    fn get(&self, row: usize) -> i64;

    /// Writes the keys of the rows at ascending places behind row `start`, the first of a block.
    fn gather(&self, start: usize, places: &[u16], out: &mut [i64]) {
        gather(self, start, places, out);
    }

    /// Writes the floats of the rows at ascending places behind row `start`, the first of a block, of a column of
    /// float64 or float32, widened.
    fn gather_floats(&self, start: usize, places: &[u16], out: &mut [f64]) {
        let keys = as_bits(out);
        self.gather(start, places, keys);
        floats::of_keys(self.key_type() == Native::F64, keys);
    }

    /// Writes the mask of rows `start..start + rows` that pass, over all of `out` (`rows.div_ceil(64)` words).
    fn filter(&self, start: usize, rows: usize, test: &KeyTest, out: &mut [u64]);

    /// The exact sum of the keys of rows `start..start + rows` that `mask` selects (`None`: all).
    fn sum(&self, start: usize, rows: usize, mask: Option<&[u64]>) -> i128;

    /// Adds the floats of rows `start..start + rows` that `mask` selects (`None`: all) of a column of float64 or
    /// float32, widened.
    fn sum_floats(&self, start: usize, rows: usize, mask: Option<&[u64]>, sum: &mut FloatSum) {
        let few = |places: &[u16], out: &mut [f64]| self.gather_floats(start, places, out);
        if !floats::sum_few(start, rows, mask, sum, few) {
            floats::sum(rows, mask, sum, |at, out| self.decode_floats(start + at, out));
        }
    }

    /// Adds the floats that integers stand for: of rows `start..start + rows` that `mask` selects (`None`: all), the
    /// key being the code. `patches` have the floats of rows, which ascend, that no integer stands for.
    fn sum_decimals(
        &self,
        start: usize,
        rows: usize,
        mask: Option<&[u64]>,
        decimals: Decimals,
        patches: &[Patch],
        sum: &mut FloatSum,
    ) {
        let decode = |at, out: &mut [i64]| self.decode(start + at, out);
        floats::sum_decimals(rows, mask, decimals, patches, sum, decode);
    }

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

/// Rows of which one is read by itself, in what queries are taken to do to a column.
const ROWS_OF_A_GET: u64 = 1024;
/// Picoseconds that a byte takes from memory that other columns compete for.
const BYTE_COST: u64 = 50;

impl Costs {
    /// Picoseconds a row of what queries do to a column of so many bytes: it comes from memory, and is filtered by a
    /// range; few of the rows are read by themselves.
    pub fn of_queries(self, bytes: usize, rows: usize) -> u64 {
        self.of_scans(bytes, rows) + u64::from(self.get) * 1000 / ROWS_OF_A_GET
    }

    /// The same without rows that are read by themselves.
    pub fn of_scans(self, bytes: usize, rows: usize) -> u64 {
        u64::from(self.filter) + bytes as u64 * BYTE_COST / rows as u64
    }

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

    /// What it costs to read; the filter is one by a text.
    fn costs(&self) -> Costs;
}

/// The encodings that an encoding may hold its parts with.
#[derive(Clone, Copy)]
pub struct Encodings {
    /// Those of keys, the fastest to filter first.
    pub keys: &'static [&'static dyn KeyEncoding],
    /// Those of texts, the fastest to filter first.
    pub texts: &'static [&'static dyn TextEncoding],
    /// What they are chosen for.
    pub optimize: Optimize,
    /// Whether what is opened was encoded here just now: then it is not validated.
    pub(super) made: bool,
}

impl Encodings {
    /// The same, chosen for something else.
    #[must_use]
    pub const fn optimized_for(self, optimize: Optimize) -> Self {
        Self { optimize, ..self }
    }

    /// The same, to open what they have just made.
    pub(super) fn of_made(&self) -> Self {
        Self { made: true, ..*self }
    }

    /// `Corrupt` with `message` unless `holds`, which is asked of bytes that may come from outside.
    pub(super) fn ensure(&self, holds: impl FnOnce() -> bool, message: &str) -> Result<()> {
        bytes::ensure(self.made || holds(), message)
    }
}

impl fmt::Debug for Encodings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys.iter().map(|encoding| encoding.name());
        f.debug_list().entries(keys.chain(self.texts.iter().map(|encoding| encoding.name()))).finish()
    }
}

/// A way to hold keys. `inner` are the encodings that it may hold its parts with.
pub trait KeyEncoding: Sync {
    /// The first byte of its buffers. Never changes.
    fn code(&self) -> u8;

    /// What people call it.
    fn name(&self) -> &'static str;

    /// How deep its buffers nest: an encoding of level n holds columns of lower levels alone.
    fn level(&self) -> u8 {
        0
    }

    /// What [`Costs::of_queries`] says of a column of it at least: what is had for less is not encoded so to find out.
    fn least_cost(&self) -> u64 {
        0
    }

    /// What a column of it would cost to read; `None` where that is not known before there is one.
    fn expected_costs(&self, _stats: &KeyStats, _inner: &Encodings) -> Option<Costs> {
        None
    }

    /// The size of what it would make of a column; `None` when it cannot hold it.
    fn estimate(&self, stats: &KeyStats, inner: &Encodings) -> Option<SizeEstimate>;

    /// Encodes a column for which it has given an estimate.
    ///
    /// # Errors
    /// Those of an encoding it holds the parts with.
    fn encode(&self, keys: &[i64], stats: &KeyStats, inner: &Encodings) -> Result<Buffer>;

    /// Opens an aligned buffer that has its code. That the keys are of their type is for the caller to see.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`](crate::error::ErrorKind::Corrupt).
    fn open(&self, buffer: Buffer, inner: &Encodings) -> Result<Arc<dyn KeyColumn>>;
}

/// A way to hold texts; `inner` as for [`KeyEncoding`].
pub trait TextEncoding: Sync {
    /// The first byte of its buffers. Never changes.
    fn code(&self) -> u8;

    /// What people call it.
    fn name(&self) -> &'static str;

    /// The size of what it would make of a column; `None` when it cannot hold it.
    fn estimate(&self, stats: &TextStats<'_>, inner: &Encodings) -> Option<SizeEstimate>;

    /// Encodes a column for which it has given an estimate.
    ///
    /// # Errors
    /// Those of an encoding it holds the parts with.
    fn encode(&self, stats: &TextStats<'_>, inner: &Encodings) -> Result<Buffer>;

    /// Opens an aligned buffer that has its code.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`](crate::error::ErrorKind::Corrupt).
    fn open(&self, buffer: Buffer, inner: &Encodings) -> Result<Arc<dyn TextColumn>>;
}

/// `KeyColumn::decode_floats`.
pub(super) fn decode_floats<C: KeyColumn + ?Sized>(column: &C, start: usize, out: &mut [f64]) {
    let double = column.key_type() == Native::F64;
    let mut keys = vec![0; out.len().min(BATCH_ROWS)];
    for (i, out) in out.chunks_mut(BATCH_ROWS).enumerate() {
        let keys = &mut keys[..out.len()];
        column.decode(start + i * BATCH_ROWS, keys);
        for (out, &key) in out.iter_mut().zip(&*keys) {
            *out = if double { keys::to_f64(key) } else { keys::to_f32(key).into() };
        }
    }
}

/// Nanoseconds that it takes to decode a unit of rows, about.
const UNIT_COST: usize = 250;

/// `KeyColumn::gather`: row by row, or by whole units where several rows lie in one and a single row is expensive.
fn gather<C: KeyColumn + ?Sized>(column: &C, start: usize, places: &[u16], out: &mut [i64]) {
    let cost = column.costs().get as usize;
    let mut unit = [0; UNIT_ROWS];
    let mut rest = out;
    let unit_of = |place: &u16| usize::from(*place) / UNIT_ROWS;
    for places in places.chunk_by(|a, b| unit_of(a) == unit_of(b)) {
        let out;
        (out, rest) = rest.split_at_mut(places.len());
        if places.len() * cost <= UNIT_COST {
            out.iter_mut()
                .zip(places)
                .for_each(|(out, place)| *out = column.get(start + usize::from(*place)));
            continue;
        }
        let first = unit_of(&places[0]) * UNIT_ROWS;
        let rows = UNIT_ROWS.min(column.rows() - start - first);
        column.decode(start + first, &mut unit[..rows]);
        out.iter_mut().zip(places).for_each(|(out, place)| *out = unit[usize::from(*place) - first]);
    }
}
