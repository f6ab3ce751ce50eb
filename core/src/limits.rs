//! Every limit of the engine, in one place; those of the network stand in `server/src/limits.rs`.

/// Rows of a block: the unit of pruning and execution, one roaring container.
pub const BLOCK_ROWS: usize = 1 << 16;
/// Mask words of a block.
pub const BLOCK_WORDS: usize = BLOCK_ROWS / 64;
/// Rows of a fragment: the unit of encoding, durability and placement.
pub const FRAGMENT_ROWS: usize = 1 << 20;
/// Blocks of a fragment.
pub const FRAGMENT_BLOCKS: usize = FRAGMENT_ROWS / BLOCK_ROWS;
/// Rows from which on columns are encoded in parallel.
pub const PARALLEL_ROWS: usize = 4096;
/// Rows that expressions and aggregates work on at a time: what they decode stays in the L2 cache.
pub const BATCH_ROWS: usize = 4096;

/// Tables: a schema takes memory too.
pub const MAX_TABLES: usize = 4096;
/// Columns of a table.
pub const MAX_COLUMNS: usize = 1024;
/// Bytes of a table's or a column's name.
pub const MAX_NAME_BYTES: usize = 128;
/// Bytes of one text value.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// The first and the last day that a table takes, in days since 1970-01-01: those of the years 0001 to 9999, which are
/// SQL's, and which every reader of a table can name. What other systems hold beyond them is no day ("infinity") or an
/// accident.
pub const DATES: std::ops::RangeInclusive<i32> = -719_162..=2_932_896;
/// The same of timestamps, in microseconds since 1970-01-01T00:00:00Z.
pub const TIMESTAMPS: std::ops::RangeInclusive<i64> =
    *DATES.start() as i64 * 86_400_000_000..=(*DATES.end() as i64 + 1) * 86_400_000_000 - 1;
/// Rows of one batch on its way in.
pub const MAX_BATCH_ROWS: usize = 1 << 20;

/// Bytes of rows that wait to be encoded, about; small fragments are merged up to it.
pub const PENDING_BYTES: usize = 256 << 20;
/// Versions of a table that are kept behind the newest, for requests that have pinned one.
pub const KEPT_VERSIONS: usize = 16;

/// Depth of a filter or expression.
pub const MAX_FILTER_DEPTH: usize = 32;
/// Nodes of a filter, expressions included.
pub const MAX_FILTER_NODES: usize = 4096;
/// Semi-joins of one query, nested ones counted, and those that conditions on attributes become.
pub const MAX_SEMI_JOINS: usize = 64;
/// Values of one IN list.
pub const MAX_IN_LIST: usize = 65_536;
/// Characters of what stands between two `%` of a LIKE pattern, where `_` is among them: it is searched for
/// character by character.
pub const MAX_WILD_PIECE: usize = 64;
/// Bytes of a part of an answer's groups, on its way between nodes.
pub const MAX_PART_BYTES: usize = 8 << 20;
/// Bytes after which a part of groups ends.
pub const PART_BYTES: usize = 1 << 20;
/// Keys of a set in one entry of a part, at most.
pub const SET_KEYS: usize = 1 << 17;
/// Rows of one batch of an answer, at most.
pub const ANSWER_ROWS: usize = 8192;
/// Bytes of its texts after which a batch ends: one stored text may stand in every row.
pub const ANSWER_TEXT_BYTES: usize = 2 << 20;
/// Blocks whose results wait to be merged, at most.
pub const WINDOW: usize = 64;
/// Bytes of results that wait to be merged, about.
pub const WINDOW_BYTES: usize = 256 << 20;
/// They are this part of the memory that the query may hold, at most.
pub const WINDOW_MEMORY_PART: usize = 8;
/// What a text of a group-by takes beside its bytes: its counts, two pointers to it, and their places in a list and in a
/// table, both of which may be half empty and are there twice while they grow.
pub const GROUPED_TEXT_BYTES: usize = 128;
/// Columns of an answer, and of a group-by.
pub const MAX_OUTPUTS: usize = 1024;
/// Characters of a name, and names that it is compared with, where one is looked for that was meant.
pub const SIMILAR_NAME: usize = 64;
/// See [`SIMILAR_NAME`].
pub const SIMILAR_NAMES: usize = 2000;

const _: () = assert!(FRAGMENT_ROWS.is_multiple_of(BLOCK_ROWS));
const _: () = assert!(BLOCK_ROWS.is_multiple_of(BATCH_ROWS));
// Offsets inside a fragment and a row count of a fragment fit u32; a block's positions fit u16.
const _: () = assert!(FRAGMENT_ROWS <= u32::MAX as usize && BLOCK_ROWS - 1 <= u16::MAX as usize);
