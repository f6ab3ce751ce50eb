//! The list of all encodings, and columns opened by it.

use std::sync::Arc;

use arrow_buffer::Buffer;

use super::{
    Encodings, KeyColumn, KeyEncoding, TextColumn, TextEncoding, alp, bitcompress, bytes::aligned, constant,
    delta, dictionary, elias_fano, entropy, open, packed, plain, runs, sparse, text,
};
use crate::{error::Result, schema::Optimize};

/// Encodings of keys, the fastest to filter first: the chooser takes the first that is nearly as small as the smallest.
/// A constant is no work; plain values stream through the kernels; packed ones are compared packed; runs are as
/// fast as they are few, but a row is searched; of a common key the rows of the others alone are read; decimals add a
/// multiplication, in registers, to the encoding below them, a dictionary a look-up; differences are searched where the
/// keys are sorted, else added up; entropy coded codes are decoded before they are compared; bitcompress goes symbol by
/// symbol.
pub static KEY_ENCODINGS: &[&dyn KeyEncoding] = &[
    &constant::Constant,
    &plain::Plain,
    &packed::Packed,
    &runs::Runs,
    &sparse::Sparse,
    &elias_fano::EliasFano,
    &alp::Alp,
    &dictionary::Dictionary,
    &delta::Delta,
    &entropy::Entropy,
    &bitcompress::Bitcompress,
];

/// Encodings of texts, the fastest to filter first: a dictionary tests each text once, raw texts are tested row
/// by row, and those in FSST are decoded before.
pub static TEXT_ENCODINGS: &[&dyn TextEncoding] = &[&text::Dictionary, &text::Raw, &text::Fsst];

/// All encodings, chosen for both size and speed.
pub static ENCODINGS: Encodings =
    Encodings { keys: KEY_ENCODINGS, texts: TEXT_ENCODINGS, optimize: Optimize::Balanced, made: false };

/// Opens a column of keys.
///
/// # Errors
/// [`ErrorKind::Corrupt`](crate::error::ErrorKind::Corrupt) when the bytes are not a column, or a key is not one
/// of its type.
pub fn open_keys(buffer: Buffer) -> Result<Arc<dyn KeyColumn>> {
    open::open_below(&ENCODINGS, aligned(buffer), u8::MAX)
}

/// Opens a column of texts.
///
/// # Errors
/// [`ErrorKind::Corrupt`](crate::error::ErrorKind::Corrupt) when the bytes are not a column.
pub fn open_text(buffer: Buffer) -> Result<Arc<dyn TextColumn>> {
    open::open_text(&ENCODINGS, buffer)
}
