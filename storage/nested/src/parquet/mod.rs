//! Parquet files of anybody, read by the crate `parquet`: what that takes as it is said is checked here first.
//!
//! The crate allocates by counts of the footer and of pages, and memory that is not to be had ends the process. It also
//! recurses as deep as the schema nests, and decompresses gzip and LZ4 to whatever they come to. So footers are walked
//! before they are decoded ([`check_footer`]), headers of pages before their pages are decompressed, and what is
//! decompressed before it is decoded ([`Groups`]).
//!
//! | said by | what | bound |
//! |---|---|---|
//! | footer | a field that the crate reads | of the kind that it is read as |
//! | footer | elements of a list, children of a column | what is left of the footer |
//! | footer | elements and depth of the schema | [`SCHEMA_ELEMENTS`], [`SCHEMA_DEPTH`] |
//! | footer | bytes of a value of fixed length | [`FIXED_BYTES`] |
//! | footer | row groups, and those times columns | as many as the crate reads, [`CHUNKS`] |
//! | footer | what it takes when it is decoded | [`DECODED_BYTES`]; the caller's |
//! | footer | where columns are, and how long | the file ([`check_fit`]) |
//! | page | a field of its header | of the kind that it is read as |
//! | page | its size when decompressed | the caller's; what it comes to |
//! | page | values of a dictionary | its bytes |
//! | page | values of a column that repeats | [`REPEATED_VALUES`] |
//! | page | times of 96 bits | the microseconds of 64 bits |
//! | page | lengths of DELTA_LENGTH_BYTE_ARRAY and DELTA_BYTE_ARRAY | its values |
//!
//! [`ParquetFile`] does all of it for a file that is there as a whole.

mod file;
mod fit;
mod footer;
mod format;
mod groups;
mod int96;
mod limits;
mod pages;
mod thrift;
mod wanted;

#[cfg(test)]
mod tests;

pub use file::{Footer, ParquetFile, Reading};
pub use fit::check_fit;
pub use footer::check_footer;
pub use groups::Groups;
pub use int96::in_micros;
pub use limits::{CHUNKS, DECODED_BYTES, FIXED_BYTES, REPEATED_VALUES, SCHEMA_DEPTH, SCHEMA_ELEMENTS};
pub use wanted::Wanted;
