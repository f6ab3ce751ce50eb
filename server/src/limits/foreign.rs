//! Limits of rows that another program has made.

/// Rows of a batch that another program has made.
pub const FOREIGN_BATCH_ROWS: usize = 1 << 24;
/// Bytes of the messages in which the dictionaries of a stream came that are kept for its rows.
pub const FOREIGN_DICTIONARY_BYTES: u64 = 64 << 20;
/// Rows of such a batch whose types are changed at once.
pub const FITTED_ROWS: usize = 1 << 16;
/// Bytes of their texts, as often as a dictionary names them, unless they are of one row.
pub const FITTED_TEXT_BYTES: usize = 16 << 20;
