//! Every limit of what is believed of a store's files, and every time for which something in a store is left alone.

use std::time::Duration;

use basalt_core::limits::{FRAGMENT_ROWS, MAX_COLUMNS};

/// Bytes of one commit of a log.
pub(crate) const COMMIT_BYTES: u64 = 256 << 20;
/// Bytes of one Parquet file of a checkpoint.
pub(crate) const CHECKPOINT_BYTES: u64 = 2 << 30;
/// Actions of a checkpoint that are read or written at once, and those of a row group that is written.
pub(crate) const CHECKPOINT_ROWS: usize = 1 << 12;
/// See [`CHECKPOINT_ROWS`].
pub(crate) const CHECKPOINT_GROUP_ROWS: usize = 1 << 16;
/// How often a log that seems to be damaged is looked at, in all.
pub(crate) const LOOKS: usize = 3;
/// Files of a multi-part checkpoint, and sidecars of another.
pub(crate) const CHECKPOINT_PARTS: u64 = 1024;
/// Checkpoints that are read, from the newest on, until one is whole.
pub(crate) const CHECKPOINTS_TRIED: usize = 8;
/// Bytes of a small file: `_last_checkpoint`, an entry of the catalog's journal.
pub(crate) const SMALL_BYTES: u64 = 4 << 20;
/// Bytes of a data file.
pub(crate) const DATA_BYTES: u64 = 64 << 30;
/// Bytes of a Parquet file's footer.
pub(crate) const FOOTER_BYTES: u64 = 256 << 20;
/// Bytes of one column of one row group, compressed or not.
pub(crate) const CHUNK_BYTES: u64 = 4 << 30;
/// Bytes of a page of such a column, when it is decompressed.
pub(crate) const PAGE_BYTES: usize = 1 << 30;
/// Bytes of one deletion vector.
pub(crate) const DELETION_VECTOR_BYTES: u64 = 256 << 20;
/// Fragments of one table: 2^40 rows.
pub(crate) const FRAGMENTS: usize = 1 << 20;
/// Requests to a store that are under way at once.
pub(crate) const CONCURRENT_REQUESTS: usize = 32;
/// Rows of a batch that is read.
pub(crate) const BATCH_ROWS: usize = 1 << 16;
/// Rows of a row group that is written: two blocks.
pub(crate) const ROW_GROUP_ROWS: usize = 1 << 17;
/// Bytes of a deletion vector that stands in the log itself; a longer one has a file.
pub(crate) const INLINE_DELETION_VECTOR_BYTES: usize = 1024;
/// Columns that have statistics in the log, as other writers of Delta have it.
pub(crate) const STATS_COLUMNS: usize = 32;
/// Characters of a text in statistics.
pub(crate) const STATS_CHARS: usize = 32;
/// Characters of a table's name in its folder's.
pub(crate) const FOLDER_NAME_CHARS: usize = 64;
/// Milliseconds for which a table remembers the ids of clients' writes.
pub(crate) const REQUEST_AGE: i64 = 24 * 3600 * 1000;
/// How old a file that no version names must be before it is removed: it may belong to a commit that is still to come.
pub(crate) const ORPHAN_AGE: Duration = Duration::from_secs(24 * 3600);
/// How old a table may be that has no name yet, to get one, and a data file that no version names, to be committed: long before
/// what is left of such is removed.
pub(crate) const DRAFT_AGE: Duration = Duration::from_secs(12 * 3600);
/// How old a version of the log must be, at least, before a checkpoint takes its place. Who follows and is further
/// behind starts from the checkpoint.
pub(crate) const LOG_AGE: Duration = Duration::from_secs(3600);
/// How long nothing but the next version's file need be looked for behind a version that was the newest. A vacuum leaves
/// a version's file for longer; later a checkpoint may have taken its place, and that the file is not there says
/// nothing: its name is free for a commit that no reader would ever see.
pub(crate) const NEWEST_FOR: Duration = Duration::from_secs(60);
/// Versions that can be read, at most, the newest among them: of a table that is written to all the time their number is
/// bounded, and with it that of its files. Their part of the log stays for longer than [`LOG_LEAST_AGE`].
pub(crate) const KEPT_VERSIONS: u64 = 4096;
/// How long files stay that only versions need which are not retained because there are too many.
pub(crate) const LEAST_KEEP: Duration = Duration::from_secs(60);
/// How long files stay, at most, after the last version that needs them is no longer retained: reads that began
/// while it was are still under way, and clocks differ. Where versions are retained for less, it is as long as that.
pub(crate) const READ_GRACE: Duration = Duration::from_secs(60);
/// How long a version stays pinned after its pin was last renewed.
pub(crate) const PIN_LEASE: Duration = Duration::from_secs(3 * 60);
/// By how much longer a vacuum counts that: clocks differ, and a renewal takes its time.
pub(crate) const PIN_GRACE: Duration = Duration::from_secs(60);
/// What the clocks of a machine and of a store may differ by, before that is warned of.
pub(crate) const CLOCKS_AGREE: Duration = Duration::from_secs(60);
/// By how much the time that a store says of a file may be before the one at which it was written: some count seconds.
pub(crate) const STAMP_UNIT: Duration = Duration::from_secs(2);
/// Pins of one table, of all nodes together.
pub(crate) const TABLE_PINS: usize = 256;
/// How old a version of the log must be to be removed, however many there are: whoever follows the log has read it by
/// then, or looks for a checkpoint.
pub(crate) const LOG_LEAST_AGE: Duration = Duration::from_secs(5 * 60);
/// Commits from one checkpoint to the next.
pub(crate) const CHECKPOINT_EVERY: u64 = 32;
/// Commits from one time at which a table forgets what is old to the next.
pub(crate) const FORGET_EVERY: u64 = 1024;
/// Ids of clients' writes that a table remembers, at least, if they are not old.
pub(crate) const REQUESTS: usize = 1 << 16;
/// Digests of one data file in the log: of its footer, of what is around the columns, and of each column of each row
/// group. Each takes ten characters.
pub(crate) const FILE_DIGESTS: usize = 2 + MAX_COLUMNS * FRAGMENT_ROWS / ROW_GROUP_ROWS;
/// Digests of files without any in the log that are remembered for one table from their first read on.
pub(crate) const SEEN_DIGESTS: usize = 1 << 18;
/// The age up to which an entry of the log says that no entry behind it was removed, whatever the clocks of the machines
/// differ by.
pub(crate) const LOG_YOUNG: Duration = Duration::from_secs(3 * 60);
/// How long it is tried to find out whether a commit landed whose answer was lost.
pub(crate) const RESOLVE_FOR: Duration = Duration::from_secs(10);
/// The first pause between two tries of that; each is twice as long as the one before, up to a second.
pub(crate) const RESOLVE_DELAY: Duration = Duration::from_millis(20);
/// How long it is tried to find out whether a store makes a file only where there is none of its name.
pub(crate) const PROBE_FOR: Duration = Duration::from_secs(10);
/// The first pause between two tries of that; each is twice as long as the one before, up to a tenth of the time.
pub(crate) const PROBE_DELAY: Duration = Duration::from_millis(100);
/// Removed files of one deletion that are logged one by one at `info`; of more, that is done at `debug`, and their
/// number at `info`.
pub(crate) const LOGGED_DELETIONS: usize = 16;

/// How deep the type of a column of another writer's table may nest.
pub(crate) const NESTED_DEPTH: usize = 32;

// What the schema of a Parquet file may have is said in multiples of what a table may have.
const _: () = assert!(basalt_nested::parquet::SCHEMA_ELEMENTS == 64 * MAX_COLUMNS);
const _: () =
    assert!(NEWEST_FOR.as_secs() < LOG_YOUNG.as_secs() && LOG_YOUNG.as_secs() < LOG_LEAST_AGE.as_secs());
const _: () = assert!(DRAFT_AGE.as_secs() < ORPHAN_AGE.as_secs());
const _: () = assert!(LOG_LEAST_AGE.as_secs() < LOG_AGE.as_secs());
