//! Of tables that come and go.

use std::time::Duration;

/// Tables that keys have made of late, and may take back as long as they are empty.
pub const MADE_TABLES: usize = 1024;
/// How long the versions of a table that was dropped or replaced can be read by what had begun with them.
pub const PARTING: Duration = Duration::from_secs(60);
/// How many of these are kept.
pub const PARTING_TABLES: usize = 256;
/// How often it is looked whether files are still written for a table that is given up, and the pause between two looks.
pub const DISCARD_LOOKS: usize = 200;
/// See [`DISCARD_LOOKS`].
pub const DISCARD_LOOK: Duration = Duration::from_millis(50);
/// How long a table that another is about to take the place of is closed, and for how long others leave it so.
pub const CLOSED_FOR: Duration = Duration::from_secs(5);
/// See [`CLOSED_FOR`]: longer, whatever the machine that has closed it was doing meanwhile.
pub const LEFT_CLOSED_FOR: Duration = Duration::from_secs(10);
/// How often it is looked whether a table is still closed.
pub const CLOSED_LOOK: Duration = Duration::from_millis(50);
/// Tables that one transaction makes or drops.
pub const TRANSACTION_TABLES: usize = 256;
/// Tables with columns from before that are kept to read older versions by, of all tables together, beside those whose versions
/// kept sets pin.
pub const OTHER_COLUMNS: usize = 64;
/// Older versions of a table that were made again from its log and are kept for the next who reads them, for some seconds.
pub const REBUILT_VERSIONS: usize = 8;
/// Where less than this part of the memory is free, versions of tables in memory alone that nobody reads are kept for no longer
/// than [`SHORT_MEMORY_KEEP`].
pub const SHORT_MEMORY_PART: u64 = 4;
/// See [`SHORT_MEMORY_PART`]: who has been told of a version may be about to read it.
pub const SHORT_MEMORY_KEEP: Duration = Duration::from_secs(2);
/// Damaged tables that a list of tables names.
pub const DAMAGED_TABLES: usize = 100;
/// How often what is too old to be read is freed.
pub const EXPIRE_INTERVAL: Duration = Duration::from_secs(60);
/// How long one turn of the work in the background on a table may take: merging, a checkpoint, removing files. What is
/// not done by then is begun again.
pub const TIDY_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How often the log tells how far loading is.
pub const LOAD_PROGRESS: Duration = Duration::from_secs(2);
/// How often files that no version needs are removed, and how long after a start for the first time.
pub const VACUUM_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// See [`VACUUM_INTERVAL`].
pub const FIRST_VACUUM: Duration = Duration::from_secs(60);
