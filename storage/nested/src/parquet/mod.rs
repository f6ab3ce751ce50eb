//! Parquet files of anybody, read by the crate `parquet`: what that takes as it is said is checked here first.
//!
//! The crate allocates by counts of the footer and of pages, and memory that is not to be had ends the process. It also
//! recurses as deep as the schema nests, and decompresses gzip and LZ4 to whatever they come to. So footers are walked
//! before they are decoded ([`check_footer`]), headers of pages before their pages are decompressed, and what is
//! decompressed before it is decoded ([`Groups`]).
//!
//! | said by | what | bound |
//! |---|---|---|
//! | footer | elements of a list, children of a column | what is left of the footer |
//! | footer | depth of the schema | [`SCHEMA_DEPTH`] |
//! | footer | bytes of a value of fixed length | [`FIXED_BYTES`] |
//! | footer | row groups | as many as the crate reads |
//! | page | its size when decompressed | the caller's; what it comes to |
//! | page | values of a dictionary | its bytes |
//! | page | values of a column that repeats | [`REPEATED_VALUES`] |
//! | page | lengths of DELTA_LENGTH_BYTE_ARRAY and DELTA_BYTE_ARRAY | its values |

mod footer;
mod groups;
mod pages;
mod thrift;

#[cfg(test)]
mod tests;

pub use footer::check_footer;
pub use groups::Groups;

/// How deep the columns of a file may nest.
pub const SCHEMA_DEPTH: usize = 64;
/// Bytes of a value of a column whose values all have as many.
pub const FIXED_BYTES: i64 = 1024;
/// Values of a page of a column that repeats: a row may have all of them.
pub const REPEATED_VALUES: u32 = 1 << 26;

/// Bytes behind a footer: its length, and `PAR1`.
const END: usize = 8;
const MAGIC: &[u8] = b"PAR1";

/// The footer of a whole file, as [`check_footer`] takes it.
///
/// # Errors
/// What is wrong with the file.
pub fn footer_of(file: &[u8]) -> Result<&[u8], String> {
    let end = file.last_chunk::<END>().filter(|end| end.ends_with(MAGIC)).ok_or("it is no Parquet file")?;
    let [a, b, c, d, ..] = *end;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    let start = file.len().checked_sub(END).and_then(|end| Some((end.checked_sub(length)?, end)));
    let (start, end) = start.ok_or("its footer is longer than the file")?;
    Ok(&file[start..end])
}
