//! Every limit of what is believed of a Parquet file, but those that its reader gives.

/// How deep the columns of a file may nest.
pub const SCHEMA_DEPTH: usize = 64;
/// Elements of its schema: the columns, their parts, and the lists and structs around those. A table has 1,024 columns at
/// most; this is 64 times as many, because columns nest, and checkpoints of a table have several for each of its own.
pub const SCHEMA_ELEMENTS: usize = 64 * 1024;
/// Row groups: more have no number.
pub(super) const ROW_GROUPS: usize = 1 << 15;
/// Columns of row groups, those of all of them together.
pub const CHUNKS: usize = 1 << 20;
/// Bytes that a footer takes when it is decoded, about.
pub const DECODED_BYTES: u64 = 1 << 30;
/// Bytes of a value of a column whose values all have as many.
pub const FIXED_BYTES: i32 = 1024;
/// Values of a page of a column that repeats: a row may have all of them.
pub const REPEATED_VALUES: u32 = 1 << 26;
/// Bytes that a value in a list counts as when it is decoded: its own, or those of a view, and its levels.
pub(super) const LIST_VALUE_BYTES: u64 = 20;
/// Bytes of the header of a page, which may have statistics.
pub(super) const HEADER_BYTES: usize = 16 << 20;
/// Pages from one time at which it is asked whether the file is still wanted to the next.
pub(super) const PAGES_UNASKED: u32 = 4096;
