//! Limits of rows that another program has made.

/// Rows of a batch that another program has made.
pub const FOREIGN_BATCH_ROWS: usize = 1 << 24;
/// Values of such a batch, of all columns and of what is inside of them: those of a column of nulls take no bytes of a message.
pub const FOREIGN_BATCH_VALUES: usize = 1 << 30;
/// Arrays of such a batch: its columns, and what is inside of those that are lists, structs and maps.
pub const FOREIGN_PARTS: usize = 1 << 16;
/// Bytes of the messages in which the dictionaries of a stream came that are kept for its rows.
pub const FOREIGN_DICTIONARY_BYTES: u64 = 64 << 20;
/// Rows of such a batch whose types are changed at once.
pub const FITTED_ROWS: usize = 1 << 16;
/// Values of them, of all columns: each takes up to 16 bytes in its column, however few it came in.
pub const FITTED_VALUES: usize = 1 << 22;
/// Bytes of their texts, as often as a dictionary names them, and of those that are made of lists, structs and maps; one row has no
/// more.
pub const FITTED_TEXT_BYTES: usize = 16 << 20;
